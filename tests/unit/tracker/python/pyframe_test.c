/* SPDX-License-Identifier: MIT */
/* covers: pyframe.c pynamed.c pycode.c pylayout.c pystack.c pytext.c */
/*
 * Python frames of an interpreter that is made of byte arrays: what real ones show only now and then, or never.
 */
#include "preload/hints/pynamed.h"
#include "tests/check.h"

#include "tracker/format/format.h"
#include "tracker/hints/pysite.h"
#include "tracker/python/pycode.h"
#include "tracker/python/pyframe.h"
#include "tracker/python/pystack.h"
#include "tracker/python/pytext.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OBJECT 256
#define FRAMES 200

/* ---- the interpreter ---- */

static const char *version = "3.12.9 (main, Jan 1 2026) [GCC]";
static char types[4][OBJECT];
static uint64_t runtime[192];
static char state[OBJECT], cframe[OBJECT];
static char frames[FRAMES][OBJECT];
static char codes[8][OBJECT];
static char texts[16][OBJECT];
static char tables[8][512];
static _Thread_local void *own_state;
static void *gil_holder;
static int ending;
static struct pylayout layout;

enum {
    TYPE,
    CODE,
    TEXT,
    BYTES
};

static const char *get_version(void)
{
    return version;
}

static void *get_state(void)
{
    return own_state;
}

static void *get_current(void)
{
    return own_state == gil_holder ? gil_holder : NULL;
}

static int is_ending(void)
{
    return ending;
}

static void *find(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *object;
        void *(*function)(void);
    } symbols[] = {
            {"PyGILState_GetThisThreadState", NULL, get_state},
            {"_PyThreadState_UncheckedGet", NULL, get_current},
            {"PyType_Type", types[TYPE], NULL},
            {"PyCode_Type", types[CODE], NULL},
            {"_PyRuntime", runtime, NULL},
    };
    void *found = NULL;

    (void)handle;
    if (strcmp(name, "Py_GetVersion") == 0)
        *(const char *(**)(void))(void *)&found = get_version;
    if (strcmp(name, "_Py_IsFinalizing") == 0)
        *(int (**)(void))(void *)&found = is_ending;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0] && !found; i++)
        if (strcmp(name, symbols[i].name) == 0) {
            found = symbols[i].object;
            if (!found)
                *(void *(**)(void))(void *)&found = symbols[i].function;
        }
    return found;
}

static void *open_library(const char *file, int flags)
{
    (void)file;
    (void)flags;
    return types;
}

static const struct unwind_ops ops = {open_library, find};

static void put_pointer(char *object, int32_t at, const void *pointer)
{
    memcpy(object + at, &pointer, sizeof pointer);
}

static void put_int(char *object, int32_t at, int32_t value)
{
    memcpy(object + at, &value, sizeof value);
}

static void put_long(char *object, int32_t at, uint64_t value)
{
    memcpy(object + at, &value, sizeof value);
}

/* A string of `length` characters of `kind` bytes; `own` is its hash, all ones = not asked for. */
static char *text_of(
        unsigned number, const void *characters, unsigned kind, size_t length, uint64_t own)
{
    char *text = texts[number];
    bool ascii = kind == 1;

    for (size_t i = 0; i < length && ascii; i++)
        ascii = ((const unsigned char *)characters)[i] < 128;
    memset(text, 0, OBJECT);
    put_pointer(text, 8, types[TEXT]);
    put_long(text, 16, length);
    put_long(text, 24, own);
    put_int(text, 32, (int32_t)(kind << 2 | 1u << 5 | (unsigned)ascii << 6));
    memcpy(text + (ascii ? layout.ascii_bytes : layout.compact_bytes), characters, length * kind);
    return text;
}

static char *plain(unsigned number, const char *characters)
{
    return text_of(number, characters, 1, strlen(characters), UINT64_MAX);
}

static void set_code(unsigned number, char *file, char *name, int32_t first, const char *lines)
{
    char *code = codes[number];

    memset(code, 0, OBJECT);
    put_pointer(code, 8, types[CODE]);
    put_pointer(code, layout.code_filename, file);
    put_pointer(code, layout.code_name, name);
    if (layout.code_qualname != PYLAYOUT_NONE)
        put_pointer(code, layout.code_qualname, name);
    put_int(code, layout.code_first, first);
    put_pointer(code, layout.code_lines, tables[number]);
    memset(tables[number], 0, sizeof tables[number]);
    put_pointer(tables[number], 8, types[BYTES]);
    put_long(tables[number], 16, strlen(lines));
    put_long(tables[number], 24, UINT64_MAX);
    memcpy(tables[number] + 32, lines, strlen(lines));
}

/* Frame `number` of the chain runs instruction `unit` of a code object; the next one is its caller. */
static void set_frame(unsigned number, unsigned code, int unit, bool has_caller)
{
    char *frame = frames[number];

    memset(frame, 0, OBJECT);
    put_pointer(frame, layout.frame_code, codes[code] + layout.code_tags);
    put_pointer(frame, layout.frame_previous, has_caller ? frames[number + 1] : NULL);
    if (layout.ip == PYLAYOUT_IP_POINTER)
        put_pointer(
                frame, layout.frame_ip, codes[code] + layout.code_bytecode + 2 * (ptrdiff_t)unit);
    else
        put_int(frame, layout.frame_ip, unit);
}

static void set_types(void)
{
    put_pointer(types[TYPE], 8, types[TYPE]);
    put_pointer(types[CODE], 8, types[TYPE]);
    put_pointer(types[TEXT], 8, types[TYPE]);
    put_pointer(types[BYTES], 8, types[TYPE]);
    put_long(types[TEXT], 168, UINT64_C(1) << 28);
    put_long(types[BYTES], 168, UINT64_C(1) << 27);
}

static void start(void)
{
    const char *why;

    REQUIRE_EQ(pylayout_choose(version, runtime, sizeof runtime, &layout, &why), 0);
    set_types();
    if (layout.cframe_frame != PYLAYOUT_NONE) {
        put_pointer(state, layout.thread_frame, cframe);
        put_pointer(cframe, layout.cframe_frame, frames[0]);
    } else {
        put_pointer(state, layout.thread_frame, frames[0]);
    }
    own_state = state;
    set_code(0, plain(0, "a.py"), plain(1, "alloc"), 10, "\x80\x01");
    set_code(1, plain(2, "b.py"), plain(3, "main"), 20, "\x80\x02");
    set_frame(0, 0, 3, true);
    set_frame(1, 1, 5, false);
    pystack_init(&ops);
    REQUIRE_EQ(pyframe_state(), PYFRAME_READY);
}

/* "file:name:lasti" of a stack number, innermost first. */
static const char *tell(uint32_t leaf)
{
    static char told[512];
    struct pycode_node node;

    told[0] = '\0';
    while (pycode_node_at(leaf, &node)) {
        struct pycode code;
        const char *lines;
        size_t used = strlen(told);

        REQUIRE(pycode_at(node.code, &code, &lines));
        (void)snprintf(told + used, sizeof told - used, "%s%s:%s:%d%s", used ? " " : "",
                intern_text(code.file), intern_text(code.name), node.lasti,
                node.is_entry ? "*" : "");
        leaf = node.parent;
    }
    return told;
}

static uint32_t here(void)
{
    return pystack_here(thread_self());
}

/* ---- layouts ---- */

static int choose(const char *text, struct pylayout *ret_layout, const char **ret_why)
{
    return pylayout_choose(text, runtime, sizeof runtime, ret_layout, ret_why);
}

TEST(versions_that_are_not_known_are_refused)
{
    static const char *const refused[] = {"3.7.17 (default)", "3.8.18 (default)", "3.9.18 (main)",
            "2.7.18 (default)", "4.0.0", "4.14.0 (main)", "3.12", "3.x", "", "3.12.0a7 (main)",
            "3.13.0b1 (main)", "3.15.0b4 (main)", "3.10.14 [PyPy 7.3.16]", "3.10.12 (Pyston 2.3)",
            "3.10.5+cinder (main)", "3.10.5-cinder (main)", "3.11.2rcx (main)"};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *why = NULL;

        CHECK_EQ(choose(refused[i], &layout, &why), -ENOTSUP);
        CHECK_STR_EQ(why, "its version is not one of CPython 3.10 to 3.15");
    }
}

TEST(versions_that_are_known_are_not)
{
    static const char *const known[] = {
            "3.10.13 (main)", "3.11.2+ (heads/3.11:1a2b3c)", "3.12.0rc3 (main)"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *why = NULL;

        CHECK_EQ(choose(known[i], &layout, &why), 0);
        CHECK_EQ(layout.minor, i + 10);
    }
}

/* At which word of _Py_DebugOffsets the groups begin, each with its size: in 3.13, 3.14 and 3.15. */
static const struct offset_groups {
    uint64_t version;
    unsigned thread, frame, code, object, type, bytes, text;
} in_3_13 = {0x030d01f0, 19, 28, 34, 44, 46, 64, 67},
  in_3_14 = {0x030e00f0, 22, 31, 39, 50, 52, 74, 77},
  in_3_15 = {0x030f02f0, 22, 39, 47, 58, 60, 86, 89};

static void publish_group(unsigned at, const uint64_t *words, size_t bytes)
{
    memcpy(&runtime[at], words, bytes);
}

/* A table with other offsets than any version that was seen. */
static void publish_table(const struct offset_groups *at)
{
    /* size, prev, next, interp, current_frame */
    static const uint64_t thread[] = {400, 0, 8, 16, 80};
    /* size, previous, executable, instr_ptr, localsplus, owner */
    static const uint64_t frame[] = {104, 24, 16, 64, 96, 90};
    /* size, filename, name, qualname, linetable, firstlineno ... co_code_adaptive */
    static const uint64_t code[] = {232, 120, 128, 136, 144, 60, 52, 96, 104, 224};
    static const uint64_t object[] = {16, 8};          /* size, ob_type */
    static const uint64_t type[] = {416, 24, 88, 168}; /* size, tp_name, tp_repr, tp_flags */
    static const uint64_t bytes[] = {40, 16, 32};      /* size, ob_size, ob_sval */
    static const uint64_t text[] = {64, 32, 16, 40};   /* size, state, length, asciiobject_size */

    memset(runtime, 0, sizeof runtime);
    memcpy(runtime, "xdebugpy", 8);
    runtime[1] = at->version;
    publish_group(at->thread, thread, sizeof thread);
    publish_group(at->frame, frame, sizeof frame);
    publish_group(at->code, code, sizeof code);
    publish_group(at->object, object, sizeof object);
    publish_group(at->type, type, sizeof type);
    publish_group(at->bytes, bytes, sizeof bytes);
    publish_group(at->text, text, sizeof text);
}

static const char *refusal(const char *release)
{
    const char *why = "";

    CHECK_EQ(choose(release, &layout, &why), -ENOTSUP);
    return why;
}

static void table_counts(const struct offset_groups *at, const char *release)
{
    const char *why;

    publish_table(at);
    REQUIRE_EQ(choose(release, &layout, &why), 0);
    CHECK_EQ(layout.thread_frame, 80);
    CHECK_EQ(layout.frame_previous, 24);
    CHECK_EQ(layout.frame_code, 16);
    CHECK_EQ(layout.frame_ip, 64);
    CHECK_EQ(layout.frame_owner, 90);
    CHECK_EQ(layout.code_filename, 120);
    CHECK_EQ(layout.code_name, 128);
    CHECK_EQ(layout.code_qualname, 136);
    CHECK_EQ(layout.code_lines, 144);
    CHECK_EQ(layout.code_first, 60);
    CHECK_EQ(layout.code_bytecode, 224);
    CHECK_EQ(layout.ascii_bytes, 40);
    version = release;
    start();
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6 b.py:main:10");
}

TEST(in_3_13_the_table_of_the_interpreter_counts)
{
    table_counts(&in_3_13, "3.13.1 (main)");
    CHECK_EQ(layout.code_tags, 0);
}

TEST(in_3_14_the_table_of_the_interpreter_counts)
{
    table_counts(&in_3_14, "3.14.0 (main)");
    CHECK_EQ(layout.code_tags, 3);
}

TEST(in_3_15_the_table_of_the_interpreter_counts)
{
    table_counts(&in_3_15, "3.15.2 (main)");
    CHECK_EQ(layout.code_tags, 3);
}

TEST(a_later_version_with_the_table_of_3_15_needs_no_new_one)
{
    struct offset_groups later = in_3_15;

    later.version = 0x031000f0;
    table_counts(&later, "3.16.0 (main)");
    CHECK_EQ(layout.code_tags, 3);
}

static void table_is_refused(
        const struct offset_groups *at, uint64_t as_version, const char *release)
{
    publish_table(at);
    runtime[1] = as_version;
    CHECK_STR_EQ(refusal(release), "its table of offsets makes no sense");
}

/* Two words more among those of the thread state, or in any other group before. */
TEST(a_version_with_the_table_of_another_is_refused)
{
    struct offset_groups later = in_3_15;

    later.frame += 2;
    later.code += 2;
    later.object += 2;
    later.type += 2;
    later.bytes += 2;
    later.text += 2;
    table_is_refused(&later, 0x031000f0, "3.16.0 (main)");
    table_is_refused(&in_3_13, 0x030f00f0, "3.15.0 (main)");
    table_is_refused(&in_3_14, 0x030f00f0, "3.15.0 (main)");
    table_is_refused(&in_3_15, 0x030e00f0, "3.14.0 (main)");
    table_is_refused(&in_3_14, 0x030d00f0, "3.13.0 (main)");
}

TEST(a_table_without_its_cookie_or_of_another_version_is_refused)
{
    static const uint64_t others[] = {
            0, 0x030c00f0, 0x030d00f0, 0x030f00f0, 0x040e00f0, 0x01030e00f0, UINT64_MAX};
    const char *why;

    publish_table(&in_3_14);
    runtime[0]++;
    CHECK_STR_EQ(refusal("3.14.0 (main)"), "it publishes no table of offsets");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        publish_table(&in_3_14);
        runtime[1] = others[i];
        CHECK_STR_EQ(refusal("3.14.0 (main)"), "its table of offsets is that of another version");
    }
    publish_table(&in_3_14);
    CHECK_EQ(pylayout_choose("3.14.0", runtime, 64, &layout, &why), -ENOTSUP);
    CHECK_STR_EQ(why, "it publishes no table of offsets");
    CHECK_EQ(pylayout_choose("3.14.0", NULL, 0, &layout, &why), -ENOTSUP);
    CHECK_STR_EQ(why, "it publishes no table of offsets");
    CHECK_EQ(choose("3.14.0", &layout, &why), 0);
}

TEST(a_free_threaded_build_is_refused)
{
    publish_table(&in_3_14);
    runtime[2] = 1;
    CHECK_STR_EQ(refusal("3.14.0 (main)"), "it is a free-threaded build");
    runtime[2] = 0;
    CHECK_STR_EQ(refusal("3.14.0 free-threading build (main)"), "it is a free-threaded build");
    CHECK_STR_EQ(refusal("3.13.0 experimental free-threading build (main)"),
            "it is a free-threaded build");
}

static void offsets_are_checked(const struct offset_groups *at, const char *release)
{
    const unsigned words[] = {at->thread, at->thread + 4, at->frame, at->frame + 1, at->frame + 2,
            at->frame + 3, at->frame + 5, at->code, at->code + 1, at->code + 2, at->code + 3,
            at->code + 4, at->code + 5, at->code + 9, at->object, at->object + 1, at->type,
            at->type + 3, at->bytes, at->bytes + 1, at->bytes + 2, at->text, at->text + 1,
            at->text + 2, at->text + 3};
    static const uint64_t wrong[] = {
            UINT64_C(0x7fffffffff), UINT64_MAX, INT32_MAX, 1 << 16, 1 << 12, 3};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            publish_table(at);
            if (words[i] == at->frame + 5 && wrong[k] == 3)
                continue; /* one byte: may lie there */
            if (wrong[k] == 1 << 12
                    && (words[i] == at->thread || words[i] == at->frame || words[i] == at->code
                            || words[i] == at->type))
                continue; /* a struct may be as large */
            runtime[words[i]] = wrong[k];
            CHECK_STR_EQ(refusal(release), "its table of offsets makes no sense");
        }
    /* the last place in each struct, and the one behind it */
    publish_table(at);
    runtime[at->frame + 5] = runtime[at->frame];
    CHECK_STR_EQ(refusal(release), "its table of offsets makes no sense");
    runtime[at->frame + 5]--;
    CHECK_EQ(choose(release, &layout, &(const char *){NULL}), 0);
    runtime[at->code + 5] = runtime[at->code];
    CHECK_STR_EQ(refusal(release), "its table of offsets makes no sense");
    runtime[at->code + 5] -= 4;
    CHECK_EQ(choose(release, &layout, &(const char *){NULL}), 0);
    runtime[at->thread] = 404;
    runtime[at->thread + 4] = 400; /* half of it */
    CHECK_STR_EQ(refusal(release), "its table of offsets makes no sense");
    runtime[at->thread] = 408;
    CHECK_EQ(choose(release, &layout, &(const char *){NULL}), 0);
}

TEST(offsets_outside_of_their_structs_are_refused)
{
    offsets_are_checked(&in_3_13, "3.13.1 (main)");
    offsets_are_checked(&in_3_14, "3.14.0 (main)");
    offsets_are_checked(&in_3_15, "3.15.0 (main)");
}

/* What the table does not say is known only of code objects that are as those of the version that was seen. */
TEST(what_the_table_does_not_say_is_known_where_all_else_is_as_it_was)
{
    static const uint64_t code[] = {216, 112, 120, 128, 136, 68, 52, 96, 104, 208};
    const char *why;

    publish_table(&in_3_14);
    REQUIRE_EQ(choose("3.14.0 (main)", &layout, &why), 0);
    CHECK_EQ(layout.code_version, PYLAYOUT_NONE);
    CHECK_EQ(layout.code_traceable, PYLAYOUT_NONE);
    publish_group(in_3_14.code, code, sizeof code);
    REQUIRE_EQ(choose("3.14.0 (main)", &layout, &why), 0);
    CHECK_EQ(layout.code_version, 92);
    CHECK_EQ(layout.code_traceable, 192);
}

/* ---- frames ---- */

TEST(frames_are_told_from_the_innermost_out)
{
    start();
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6 b.py:main:10");
    CHECK_EQ(here(), here());
}

TEST(shims_and_frames_that_are_none_yet_are_left_out)
{
    start();
    set_code(2, plain(4, "c.py"), plain(5, "called"), 30, "\x80\x01");
    put_int(codes[2], layout.code_traceable, 4);
    set_frame(0, 2, 2, true); /* before its first own instruction */
    set_frame(1, 0, 3, true);
    set_frame(2, 1, 1, true); /* a shim: C called what is within */
    frames[2][layout.frame_owner] = 3;
    set_frame(3, 1, 5, false);
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6* b.py:main:10");
    set_frame(0, 2, 4, true);
    CHECK_STR_EQ(tell(here()), "c.py:called:8 a.py:alloc:6* b.py:main:10");
}

/* One that an exception is thrown into before it began: a trace function sees it. */
static void generator_is_whole(const char *release, int32_t owner)
{
    version = release;
    start();
    put_int(codes[0], layout.code_traceable, 4);
    set_frame(0, 0, 2, true);
    CHECK_STR_EQ(tell(here()), "b.py:main:10");
    frames[0][owner] = 1;
    CHECK_STR_EQ(tell(here()), "a.py:alloc:4 b.py:main:10");
}

TEST(the_frame_of_a_generator_is_whole_from_the_start_in_3_11)
{
    generator_is_whole("3.11.2 (main)", 69);
}

TEST(the_frame_of_a_generator_is_whole_from_the_start_in_3_12)
{
    generator_is_whole("3.12.1 (main)", 70);
}

/* The frame of a function names its code with the tags of a reference; the one between C and Python is owned by either of two. */
TEST(tags_are_no_part_of_an_address_and_both_shims_of_3_14_are_left_out)
{
    publish_table(&in_3_14);
    version = "3.14.0 (main)";
    start();
    put_pointer(frames[0], layout.frame_code, codes[0] + 1);
    put_pointer(frames[1], layout.frame_code, codes[1]);
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6 b.py:main:10");
    set_frame(0, 0, 3, true);
    set_frame(1, 1, 1, true);
    set_frame(2, 1, 1, true);
    set_frame(3, 1, 5, false);
    frames[1][layout.frame_owner] = 3;
    frames[2][layout.frame_owner] = 4;
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6* b.py:main:10");
}

TEST(deep_stacks_keep_their_innermost_frames)
{
    struct pycode_node node;
    unsigned count = 0;
    uint32_t leaf;

    start();
    for (unsigned i = 0; i < FRAMES; i++)
        set_frame(i, i == 0 ? 0 : 1, 5, i + 1 < FRAMES);
    leaf = here();
    for (uint32_t at = leaf; pycode_node_at(at, &node); at = node.parent)
        count++;
    CHECK_EQ(count, PYFRAME_DEPTH_MAX);
    CHECK_EQ(strncmp(tell(leaf), "a.py:alloc:10 b.py", 18), 0);
}

/* The interpreter may be collecting garbage while it calls a function: the frames around are as many as ever. */
TEST(deep_stacks_lose_nothing_to_frames_that_are_none_yet)
{
    struct pycode_node node = {0};
    unsigned count = 0;

    start();
    set_code(2, plain(4, "c.py"), plain(5, "called"), 30, "\x80\x01");
    put_int(codes[2], layout.code_traceable, 4);
    for (unsigned i = 0; i < FRAMES; i++)
        set_frame(i, i % 60 == 7 ? 2 : 1, i % 60 == 7 ? 2 : 5, i + 1 < FRAMES);
    for (int unit = 5; unit < 7; unit++) {
        set_frame(PYFRAME_DEPTH_MAX + 2, 0, unit, true); /* the outermost that is kept */
        count = 0;
        for (uint32_t at = here(); pycode_node_at(at, &node); at = node.parent) {
            count++;
            if (!node.parent)
                CHECK_EQ(node.lasti, 2 * unit);
        }
        CHECK_EQ(count, PYFRAME_DEPTH_MAX);
    }
}

TEST(a_chain_ends_at_what_is_no_frame)
{
    start();
    put_pointer(frames[0], layout.frame_previous, frames[1] + 1);
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6");
    put_pointer(frames[0], layout.frame_previous, frames[1]);
    put_pointer(codes[1], 8, types[TEXT]); /* no code object */
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6");
}

TEST(an_address_that_is_used_again_is_another_function)
{
    uint32_t first, second;

    start();
    first = here();
    /* the same objects at the same places; only a byte of the line table differs, no hash was asked for */
    tables[0][33] = 2;
    second = here();
    CHECK_NE(first, second);
    tables[0][33] = 1;
    CHECK_EQ(here(), first); /* by content: the number from before */
    text_of(0, "z.py", 1, 4, UINT64_MAX);
    CHECK_STR_EQ(tell(here()), "z.py:alloc:6 b.py:main:10");
    put_int(codes[0], layout.code_first, 11);
    CHECK_NE(here(), first);
}

static void told_apart_in(unsigned text, size_t length)
{
    char name[] = "module_number_00000_of_the_generated_ones.and_their_functions";
    uint32_t before;

    name[length] = '\0';
    (void)plain(0, "a.py");
    (void)plain(1, "alloc");
    (void)plain(text, name);
    before = here();
    for (size_t i = 0; i < length; i++) {
        uint32_t after;

        name[i]++;
        (void)plain(text, name); /* at the same address */
        after = here();
        CHECK_NE(after, before);
        CHECK(strstr(tell(after), name) != NULL);
        before = after;
    }
}

/* The interpreters that give code no version of its own. */
static void told_apart_by_characters(const char *release)
{
    version = release;
    start();
    for (size_t length = 1; length <= 61; length++) {
        told_apart_in(0, length);
        told_apart_in(1, length);
    }
}

TEST(a_character_of_a_name_or_a_file_makes_another_function_in_3_10)
{
    told_apart_by_characters("3.10.13 (main)");
}

TEST(a_character_of_a_name_or_a_file_makes_another_function_in_3_11)
{
    told_apart_by_characters("3.11.2 (main)");
}

TEST(a_character_of_a_name_or_a_file_makes_another_function_once_3_12_has_run_out_of_versions)
{
    told_apart_by_characters("3.12.1 (main)");
}

/* The characters of a file's name are looked at once in a walk, and of few files at a time. */
TEST(files_that_take_turns_are_told_apart_in_each_walk)
{
    static const unsigned order[] = {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 0, 4, 7, 1};
    enum {
        COUNT = sizeof order / sizeof order[0]
    };
    uint32_t first;

    version = "3.11.2 (main)";
    start();
    for (unsigned i = 0; i < 8; i++) {
        char file[] = "file_0.py";

        file[5] = (char)('0' + i);
        set_code(i, plain(2 * i, file), plain(2 * i + 1, "same"), 10, "\x80\x01");
    }
    for (unsigned i = 0; i < COUNT; i++)
        set_frame(i, order[i], 3, i + 1 < COUNT);
    first = here();
    for (unsigned i = 0; i < 8; i++) {
        char file[] = "file_0.py";

        file[5] = (char)('a' + i);
        (void)plain(2 * i, file); /* at the same address */
        CHECK(strstr(tell(here()), file) != NULL);
        file[5] = (char)('0' + i);
        (void)plain(2 * i, file);
        CHECK_EQ(here(), first);
    }
}

TEST(a_string_in_two_pieces_is_told_apart_by_its_characters)
{
    char characters[] = "12345";
    uint32_t first;

    version = "3.10.13 (main)";
    start();
    put_long(plain(0, ""), 16, 5);
    put_int(texts[0], 32, 1 << 2 | 1 << 6);
    put_pointer(texts[0], layout.text_data, characters);
    first = here();
    for (int i = 0; i < 5; i++) {
        characters[i]++;
        CHECK_NE(here(), first);
        CHECK(strstr(tell(here()), characters) != NULL);
        characters[i]--;
    }
    CHECK_EQ(here(), first);
}

/* Differences of addresses and of characters are both round numbers. */
TEST(a_name_and_its_address_do_not_make_up_for_each_other)
{
    char name[] = "renamed_05115_function";

    version = "3.10.13 (main)";
    start();
    for (int step = -32; step <= 32; step++) {
        name[9] = 'A';
        put_pointer(codes[0], layout.code_name, plain(8, name));
        CHECK(strstr(tell(here()), name) != NULL);
        name[9] = (char)('A' + step);
        put_pointer(codes[0], layout.code_name, plain(9, name));
        CHECK(strstr(tell(here()), name) != NULL);
        put_pointer(codes[0], layout.code_name, plain(7, name));
        CHECK(strstr(tell(here()), name) != NULL);
    }
}

/* Generated classes: all that differs is the class. */
TEST(a_qualified_name_makes_another_function)
{
    struct pycode_node node;
    struct pycode code;
    const char *lines;
    uint32_t first;

    version = "3.11.2 (main)";
    start();
    put_pointer(codes[0], layout.code_qualname, plain(6, "First.alloc"));
    first = here();
    put_pointer(codes[0], layout.code_qualname, plain(7, "Other.alloc"));
    REQUIRE(pycode_node_at(here(), &node) && pycode_at(node.code, &code, &lines));
    CHECK_STR_EQ(intern_text(code.qualname), "Other.alloc");
    REQUIRE(pycode_node_at(first, &node) && pycode_at(node.code, &code, &lines));
    CHECK_STR_EQ(intern_text(code.qualname), "First.alloc");
    put_pointer(codes[0], layout.code_qualname, plain(7, "First.alloc"));
    CHECK_EQ(here(), first);
}

TEST(a_version_of_its_own_tells_code_objects_apart)
{
    uint64_t first, second;

    start();
    put_int(codes[0], layout.code_version, 7);
    REQUIRE_EQ(pyframe_hash(&first), 2);
    put_int(codes[0], layout.code_version, 8);
    REQUIRE_EQ(pyframe_hash(&second), 2);
    CHECK_NE(first, second);
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6 b.py:main:10");
}

TEST(objects_of_another_shape_end_python_stacks_and_say_so)
{
    start();
    put_pointer(codes[0], layout.code_filename, tables[0]); /* bytes where a string should be */
    put_int(codes[0], layout.code_version, 9);
    CHECK_EQ(here(), 0);
    CHECK_EQ(pyframe_state(), PYFRAME_REFUSED);
    CHECK_STR_EQ(pyframe_text(),
            "CPython 3.12.9: its code objects are not laid out as in the versions that are known");
    CHECK(!pyframe_is_wanted());
}

/* The bits of a string's state are published nowhere. */
TEST(strings_of_another_shape_end_python_stacks_and_say_so)
{
    start();
    put_int(texts[1], 32, 1 << 16);
    CHECK_EQ(here(), 0);
    CHECK_EQ(pyframe_state(), PYFRAME_REFUSED);
}

/* ---- text ---- */

TEST(strings_of_all_kinds_become_utf_8)
{
    static const uint16_t two[] = {0x43a, 0x43e, 'x', 0xDCFF, 0xD800};
    static const uint32_t four[] = {0x1D523, 'y', 0x7FF};
    char text[64];
    size_t length;

    start();
    length = pytext_utf8(&layout, text_of(8, "caf\xe9", 1, 4, 0), text, sizeof text);
    CHECK_EQ(length, 5);
    CHECK_EQ(memcmp(text, "caf\xc3\xa9", 5), 0);
    length = pytext_utf8(&layout, text_of(8, two, 2, 5, 0), text, sizeof text);
    CHECK_EQ(length, 9);
    CHECK_EQ(memcmp(text, "\xd0\xba\xd0\xbex\xff\xef\xbf\xbd", 9), 0);
    length = pytext_utf8(&layout, text_of(8, four, 4, 3, 0), text, sizeof text);
    CHECK_EQ(length, 7);
    CHECK_EQ(memcmp(text, "\xf0\x9d\x94\xa3y\xdf\xbf", 7), 0);
    CHECK_EQ(pytext_utf8(&layout, text_of(8, two, 2, 5, 0), text, 3), 2); /* whole characters */
    CHECK_EQ(pytext_utf8(&layout, plain(8, ""), text, sizeof text), 0);
}

TEST(strings_in_two_pieces_are_followed)
{
    char text[64];
    char *object;

    start();
    object = plain(8, "");
    put_long(object, 16, 3);
    put_int(object, 32, 1 << 2); /* not in one piece */
    put_pointer(object, layout.text_data, "abc");
    CHECK_EQ(pytext_utf8(&layout, object, text, sizeof text), 3);
    CHECK_EQ(memcmp(text, "abc", 3), 0);
    put_int(object, 32, 0); /* of no known kind */
    CHECK_EQ(pytext_utf8(&layout, object, text, sizeof text), 1);
    CHECK_EQ(text[0], '?');
}

TEST(long_line_tables_are_cut_and_marked)
{
    char *big = calloc(1, FORMAT_PYLINES_MAX + 64);
    struct pycode_node node;
    struct pycode code;
    const char *lines;

    REQUIRE(big != NULL);
    start();
    memcpy(big, tables[0], 32);
    put_long(big, 16, FORMAT_PYLINES_MAX + 1);
    put_pointer(codes[0], layout.code_lines, big);
    REQUIRE(pycode_node_at(here(), &node));
    REQUIRE(pycode_at(node.code, &code, &lines));
    CHECK_EQ(code.lines_bytes, FORMAT_PYLINES_MAX);
    CHECK_EQ(code.is_cut, 1);
    free(big);
}

/* ---- other threads ---- */

static void *without_frames(void *ret_leaf)
{
    *(uint32_t *)ret_leaf = here();
    return NULL;
}

static void *with_frames(void *ret_leaf)
{
    own_state = state;
    *(uint32_t *)ret_leaf = here();
    own_state = NULL;
    return NULL;
}

static uint32_t in_thread(void *(*body)(void *))
{
    pthread_t thread;
    uint32_t leaf = 77;

    REQUIRE_EQ(pthread_create(&thread, NULL, body, &leaf), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    return leaf;
}

TEST(a_thread_without_frames_carries_the_main_threads)
{
    uint32_t leaf;

    start();
    leaf = here();
    REQUIRE(leaf != 0);
    CHECK_EQ(in_thread(without_frames), leaf | FORMAT_PYSTACK_AMBIENT);
    own_state = NULL; /* the main thread has left Python */
    CHECK_EQ(here(), 0);
    CHECK_EQ(in_thread(without_frames), 0);
}

static void *stays_with_frames(void *ret_leaves)
{
    uint32_t *leaves = ret_leaves;

    (void)with_frames(&leaves[0]);
    leaves[1] = in_thread(without_frames);
    return NULL;
}

TEST(beside_an_idle_main_thread_the_python_thread_that_asked_last_counts)
{
    uint32_t leaves[2] = {0, 0};
    pthread_t thread;

    start();
    own_state = NULL;
    REQUIRE_EQ(pthread_create(&thread, NULL, stays_with_frames, leaves), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    REQUIRE(leaves[0] != 0);
    CHECK_EQ(leaves[1], leaves[0] | FORMAT_PYSTACK_AMBIENT);
    CHECK_EQ(in_thread(without_frames), 0); /* that thread is gone, and what it did with it */
}

TEST(while_the_interpreter_ends_only_the_thread_that_ends_it_is_walked)
{
    start();
    ending = 1;
    gil_holder = NULL;
    CHECK_EQ(here(), 0);
    gil_holder = state;
    CHECK_STR_EQ(tell(here()), "a.py:alloc:6 b.py:main:10");
}

static _Atomic int looks; /* 1 while a look is to wait, 2 once it does */

static void *find_slowly(void *handle, const char *name)
{
    if (strcmp(name, "Py_GetVersion") == 0 && atomic_load(&looks) == 1) {
        atomic_store(&looks, 2);
        while (atomic_load(&looks) == 2)
            (void)usleep(100);
    }
    return find(handle, name);
}

static void *looks_slowly(void *slow)
{
    pystack_init(slow);
    return NULL;
}

TEST(a_child_of_a_process_that_is_just_looking_looks_itself)
{
    static const struct unwind_ops slow = {open_library, find_slowly};
    pthread_t thread;
    int status = -1;
    pid_t child;

    set_types();
    atomic_store(&looks, 1);
    REQUIRE_EQ(pthread_create(&thread, NULL, looks_slowly, (void *)(uintptr_t)&slow), 0);
    while (atomic_load(&looks) != 2)
        (void)usleep(100);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        atomic_store(&looks, 0);
        pystack_fork_child();
        (void)here();
        _exit(pyframe_state() == PYFRAME_READY ? 0 : 1);
    }
    atomic_store(&looks, 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

TEST(a_process_without_an_interpreter_is_not_looked_at_again_until_a_library_came)
{
    CHECK(!pyframe_is_wanted());
    pyframe_library_opened();
    CHECK(pyframe_is_wanted());
    CHECK_EQ(pyframe_state(), PYFRAME_LOOK);
    CHECK_STR_EQ(pyframe_text(), "");
}

/* ---- call sites that hints name ---- */

static struct rule rule_of(const char *file, const char *function, unsigned line)
{
    return (struct rule){.action = ACTION_RELEASE,
            .mode = HINT_SHADOW,
            .pick = {.site = {pysite_key(file, function, line)},
                    .site_count = 1,
                    .python = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.anchor = "*", .kind = EDGE_EXIT}};
}

/* The two functions of start(), on lines 11 and 22 whatever instruction they are at. */
static void start_with_lines(void)
{
    start();
    set_code(0, plain(0, "/net/a.py"), plain(1, "alloc"), 10, "\xef\x02");
    set_code(1, plain(2, "/net/b.py"), plain(3, "main"), 20, "\xef\x04");
}

static void name_them(const struct rule *rules, size_t count)
{
    static struct hints *hints; /* they stay, as in the run */

    REQUIRE_EQ(hint_new(rules, count, &hints), 0);
    pynamed_start(hints, NULL);
}

TEST(hints_name_call_sites_of_python_anywhere_in_a_stack)
{
    const struct rule rules[] = {rule_of("a.py", "alloc", 0), rule_of("b.py", "main", 21),
            rule_of("b.py", "main", 22), rule_of("b.py", "alloc", 0), rule_of("a.py", "alloc", 12)};
    const struct pysite *sites;
    uint32_t leaf;

    start_with_lines();
    leaf = here();
    REQUIRE(leaf != 0);
    CHECK(pynamed_of(leaf) == NULL); /* no hints yet */
    name_them(rules, 5);
    sites = pynamed_of(leaf);
    REQUIRE(sites != NULL);
    CHECK_EQ(sites->key, pysite_key("a.py", "alloc", 0));
    REQUIRE(sites->outer != NULL);
    CHECK_EQ(sites->outer->key, pysite_key("b.py", "main", 22));
    CHECK(sites->outer->outer == NULL);
    CHECK_EQ(pynamed_of(leaf), sites);
    CHECK(pynamed_of(0) == NULL);
    CHECK(pynamed_of(leaf | FORMAT_PYSTACK_AMBIENT) == NULL); /* another thread's */
    set_frame(0, 1, 4, false);                                /* main alone */
    CHECK_NE(here(), leaf);
    REQUIRE(pynamed_of(here()) != NULL);
    CHECK_EQ(pynamed_of(here())->key, pysite_key("b.py", "main", 22));
    CHECK(pynamed_of(here())->outer == NULL);
}

TEST(a_stack_that_no_hint_names_has_no_list)
{
    const struct rule rules[] = {rule_of("a.py", "main", 0), rule_of("b.py", "main", 20)};

    start_with_lines();
    name_them(rules, 2);
    CHECK(pynamed_of(here()) == NULL);
    CHECK(pynamed_of(here()) == NULL);
    CHECK(pynamed_of(UINT32_MAX >> 2) == NULL); /* no such stack */
}

TEST(a_function_that_calls_itself_is_named_once)
{
    const struct rule rules[] = {rule_of("a.py", "alloc", 0), rule_of("b.py", "main", 0)};
    const struct pysite *sites;

    start_with_lines();
    for (unsigned i = 0; i < FRAMES - 1; i++) /* deeper than what is kept */
        set_frame(i, i % 2, (int)(i % 8), true);
    set_frame(FRAMES - 1, 1, 1, false);
    name_them(rules, 2);
    sites = pynamed_of(here());
    REQUIRE(sites != NULL && sites->outer != NULL);
    CHECK(sites->outer->outer == NULL);
}

#define LEAVES 300

static struct {
    uint32_t leaf[LEAVES];
    const struct pysite *sites[4][LEAVES];
} race;

static void *find_all(void *argument)
{
    const struct pysite **sites = argument;

    for (unsigned i = 0; i < LEAVES; i++)
        sites[i] = pynamed_of(race.leaf[i]);
    return NULL;
}

TEST(threads_that_ask_at_once_have_one_list)
{
    const struct rule rules[] = {rule_of("a.py", "alloc", 0), rule_of("b.py", "main", 0)};
    pthread_t threads[4];

    start_with_lines();
    for (unsigned i = 0; i < LEAVES; i++) {
        set_frame(0, 0, (int)(i % 8), true);
        set_frame(1, i / 64 % 2, (int)(i / 8 % 8), true);
        set_frame(2, 1, (int)(i / 128), false);
        race.leaf[i] = here();
        REQUIRE(race.leaf[i] != 0);
    }
    CHECK_NE(race.leaf[0], race.leaf[LEAVES - 1]);
    name_them(rules, 2);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, find_all, race.sites[i]), 0);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < LEAVES; i++) {
        REQUIRE(race.sites[0][i] != NULL);
        CHECK_EQ(race.sites[0][i]->key, pysite_key("a.py", "alloc", 0));
        for (int k = 1; k < 4; k++)
            CHECK_EQ(race.sites[k][i], race.sites[0][i]);
    }
}

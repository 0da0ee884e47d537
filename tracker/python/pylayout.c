/* SPDX-License-Identifier: MIT */
#include "tracker/python/pylayout.h"

#include "tracker/python/pyknown.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* From 3.13 on _PyRuntime begins with struct _Py_DebugOffsets (CPython's pycore_runtime.h in 3.13,
 * pycore_debug_offsets.h later): a cookie, a version, a flag, then groups of words, one for each
 * struct, each beginning with that struct's size. Versions add words to groups, so the beginnings
 * of groups move; the words used here keep their places in their group. */
enum head {
    HEAD_COOKIE,
    HEAD_VERSION, /* PY_VERSION_HEX */
    HEAD_FREE_THREADED,
};

/* Words of a group, in all versions. */
enum {
    THREAD_FRAME = 4, /* current_frame */
    FRAME_PREVIOUS = 1,
    FRAME_CODE, /* executable */
    FRAME_IP,
    FRAME_OWNER = 5,
    CODE_FILENAME = 1,
    CODE_NAME,
    CODE_QUALNAME,
    CODE_LINES,
    CODE_FIRST,
    CODE_BYTECODE = 9,
    TYPE_FLAGS = 3,
};

struct compare_groups {
    unsigned char thread, frame, code, object, type, bytes, text;
};

static const struct compare_groups groups_13 = {19, 28, 34, 44, 46, 64, 67};
/* more words for the interpreter (3), its frames (2), code objects (1), and a group for sets (4) */
static const struct compare_groups groups_14 = {22, 31, 39, 50, 52, 74, 77};
/* more words for threads (7) and types (2), and groups for exceptions (1) and types made at run
 * time (2) */
static const struct compare_groups groups_15 = {22, 39, 47, 58, 60, 86, 89};

#define OFFSET_WORDS 93u    /* of the longest one */
#define STRUCT_MAX   65535u /* bytes; none of these structs is larger */

/* Assumed by pyframe.c and pycode.c in every version: these groups with these values, and the
 * offset of a type's flags. */
static const uint64_t object_group[] = {16, 8};     /* size, ob_type */
static const uint64_t bytes_group[] = {40, 16, 32}; /* size, ob_size, ob_sval */
static const uint64_t text_group[] = {
        64, 32, 16, 40}; /* size, state, length, size of an ASCII head */
#define TYPE_FLAGS_AT 168

static const char *behind_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* "3.11.2 ..." -> 11; 0 = not a released 3.x version, or a modified one ("3.10.5+cinder"). */
static unsigned minor_of(const char *version)
{
    unsigned minor = 0;
    const char *at = version + 2;

    if (version[0] != '3' || version[1] != '.' || *at < '0' || *at > '9')
        return 0;
    for (; *at >= '0' && *at <= '9' && minor < 1000; at++)
        minor = minor * 10 + (unsigned)(*at - '0');
    if (*at++ != '.')
        return 0;
    at = behind_digits(at);
    if (at[0] == 'r' && at[1] == 'c')
        at = behind_digits(at + 2);
    if (*at == '+') /* a few commits after a release */
        at++;
    return *at == ' ' || *at == '\0' ? minor : 0;
}

/* The offset of a field of `bytes` bytes, in the struct whose group begins at `group`; *ret_ok
 * becomes false if it is invalid. */
static int32_t offset_at(const uint64_t *group, unsigned word, unsigned bytes, bool *ret_ok)
{
    uint64_t size = group[0];

    if (size > STRUCT_MAX || group[word] >= size || size - group[word] < bytes
            || group[word] % bytes != 0) {
        *ret_ok = false;
        return 0;
    }
    return (int32_t)group[word];
}

/* Are objects, types, bytes and strings laid out as pyframe.c reads them? */
static bool objects_are_plain(const uint64_t *words, const struct compare_groups *at)
{
    bool ok = true;

    return memcmp(words + at->object, object_group, sizeof object_group) == 0
            && memcmp(words + at->bytes, bytes_group, sizeof bytes_group) == 0
            && memcmp(words + at->text, text_group, sizeof text_group) == 0
            && offset_at(words + at->type, TYPE_FLAGS, 8, &ok) == TYPE_FLAGS_AT && ok;
}

/* Adds fields that the table lacks, if the code object matches the known layout. */
static void add_unpublished(struct pylayout *layout, const struct pylayout *known)
{
    if (layout->code_first != known->code_first || layout->code_filename != known->code_filename
            || layout->code_lines != known->code_lines
            || layout->code_bytecode != known->code_bytecode)
        return;
    layout->code_traceable = known->code_traceable;
    layout->code_version = known->code_version;
}

static int from_table(
        const uint64_t *words, unsigned minor, struct pylayout *ret_layout, const char **ret_why)
{
    const struct compare_groups *at = minor == 13 ? &groups_13
            : minor == 14                         ? &groups_14
                                                  : &groups_15;
    const struct pylayout *known = minor == 13 ? &pylayout_13 : &pylayout_14;
    const uint64_t *thread = words + at->thread;
    const uint64_t *frame = words + at->frame;
    const uint64_t *code = words + at->code;
    bool ok = true;

    *ret_why = "it publishes no table of offsets";
    if (memcmp(words, "xdebugpy", 8) != 0)
        return -ENOTSUP;
    *ret_why = "its table of offsets is that of another version";
    if (words[HEAD_VERSION] >> 16 != 0x0300 + minor)
        return -ENOTSUP;
    *ret_why = "it is a free-threaded build";
    if (words[HEAD_FREE_THREADED] != 0)
        return -ENOTSUP;
    *ret_layout = (struct pylayout){
            .minor = known->minor,
            .table = known->table,
            .ip = known->ip,
            .thread_frame = offset_at(thread, THREAD_FRAME, 8, &ok),
            .cframe_frame = PYLAYOUT_NONE,
            .frame_code = offset_at(frame, FRAME_CODE, 8, &ok),
            .code_tags = known->code_tags,
            .frame_previous = offset_at(frame, FRAME_PREVIOUS, 8, &ok),
            .frame_ip = offset_at(frame, FRAME_IP, 8, &ok),
            .frame_owner = offset_at(frame, FRAME_OWNER, 1, &ok),
            .frame_entry = PYLAYOUT_NONE,
            .code_filename = offset_at(code, CODE_FILENAME, 8, &ok),
            .code_name = offset_at(code, CODE_NAME, 8, &ok),
            .code_qualname = offset_at(code, CODE_QUALNAME, 8, &ok),
            .code_first = offset_at(code, CODE_FIRST, 4, &ok),
            .code_lines = offset_at(code, CODE_LINES, 8, &ok),
            .code_bytecode = offset_at(code, CODE_BYTECODE, 2, &ok),
            .code_traceable = PYLAYOUT_NONE,
            .code_version = PYLAYOUT_NONE,
            .ascii_bytes = known->ascii_bytes,
            .compact_bytes = known->compact_bytes,
            .text_data = known->text_data,
    };
    *ret_why = "its table of offsets makes no sense";
    if (!ok || !objects_are_plain(words, at))
        return -ENOTSUP;
    add_unpublished(ret_layout, known);
    return 0;
}

int pylayout_choose(const char *version, const void *runtime, size_t runtime_bytes,
        struct pylayout *ret_layout, const char **ret_why)
{
    unsigned minor = minor_of(version);
    uint64_t words[OFFSET_WORDS];

    *ret_why = "it is a free-threaded build";
    if (strstr(version, "free-threading"))
        return -ENOTSUP;
    *ret_why = "its version is not one of CPython 3.10 to 3.15";
    if (strstr(version, "PyPy") || strstr(version, "GraalVM") || strstr(version, "Pyston"))
        return -ENOTSUP;
    if (minor >= 13) {
        *ret_why = "it publishes no table of offsets";
        if (!runtime || runtime_bytes < sizeof words)
            return -ENOTSUP;
        memcpy(words, runtime, sizeof words);
        return from_table(words, minor, ret_layout, ret_why);
    }
    for (size_t i = 0; i < sizeof pylayout_known / sizeof pylayout_known[0]; i++)
        if (pylayout_known[i]->minor == minor) {
            *ret_layout = *pylayout_known[i];
            return 0;
        }
    return -ENOTSUP;
}

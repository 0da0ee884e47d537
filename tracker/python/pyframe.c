/* SPDX-License-Identifier: MIT */
#include "tracker/python/pyframe.h"

#include "tracker/python/pyknown.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The same in every version of pylayout.h, and checked there where the interpreter publishes it. */
#define OBJECT_TYPE     8u
#define TYPE_FLAGS      168u
#define FLAG_BYTES      (UINT64_C(1) << 27)
#define FLAG_TEXT       (UINT64_C(1) << 28)
#define TEXT_LENGTH     16u
#define TEXT_HASH       24u
#define TEXT_STATE      32u
#define TEXT_ONE_PIECE  0x20 /* bit of the state: the characters follow the head */
#define TEXT_ASCII      0x40
#define TEXT_SHORT      24u
#define TEXT_BYTES_MAX  4096u /* bytes of a string that are read: as many as intern.h keeps */
#define BYTES_LENGTH    16u
#define BYTES_HASH      24u
#define BYTES_DATA      32u
#define OWNER_GENERATOR 1
#define OWNER_C_STACK   3u
#define TABLE_WORDS     192u /* words of _PyRuntime that are read; it is much larger */

/* The interpreter, fixed when pyframe_now becomes READY. */
static struct {
    struct pylayout layout;
    void *(*thread_state)(void); /* of this thread, with or without the GIL */
    void *(*current_state)(
            void); /* of the thread that has the GIL; from 3.12 on of this thread, if it has it */
    int (*is_ending)(void);
    const char *code_type;
    bool is_usual; /* from 3.13 on: its table equals pyknown.h */
} python;

_Atomic uint32_t pyframe_now = PYFRAME_NONE;
static _Atomic bool looking;
static char text[160];      /* fixed when pyframe_now becomes READY or REFUSED */
static char late_text[320]; /* "" unless READY became REFUSED */

struct found {
    char path[PATH_MAX];
};

/* Each use is compiled for its layout: the offsets of fields become constants. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline uint64_t pyframe_word_at(const char *object, int64_t offset)
{
    uint64_t word;

    memcpy(&word, object + offset, sizeof word);
    return word;
}

/* fixed before READY */
uintptr_t pyframe_loop;
size_t pyframe_loop_bytes;

static inline const char *pointer_at(const char *object, int32_t offset)
{
    const char *pointer;

    memcpy(&pointer, object + offset, sizeof pointer);
    return pointer;
}

static inline int32_t int_at(const char *object, int32_t offset)
{
    int32_t value;

    memcpy(&value, object + offset, sizeof value);
    return value;
}

/* ---- finding the interpreter ---------------------------------------------------------------- */

/* Finds a libpython that was opened locally for one library, so that its symbols are not global. */
static int is_libpython(struct dl_phdr_info *info, size_t size, void *data)
{
    struct found *found = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;

    (void)size;
    if (!slash || strncmp(slash + 1, "libpython3.", 11) != 0 || length >= sizeof found->path)
        return 0;
    memcpy(found->path, info->dlpi_name, length + 1);
    return 1;
}

/* The handle of the interpreter's object; NULL = none. The object is never unloaded again. */
static void *open_interpreter(const struct unwind_ops *ops)
{
    static const char name[] = "PyGILState_GetThisThreadState";
    struct found found = {.path = ""};
    void *symbol = ops->symbol(RTLD_DEFAULT, name);
    void *handle = NULL;
    Dl_info info;

    if (symbol && dladdr(symbol, &info) && info.dli_fname)
        handle = ops->open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (symbol && !handle)
        return ops->open(NULL, RTLD_LAZY); /* the program itself */
    if (!symbol && dl_iterate_phdr(is_libpython, &found))
        handle = ops->open(found.path, RTLD_LAZY | RTLD_NOLOAD);
    return handle && ops->symbol(handle, name) ? handle : NULL;
}

static void settle_state(enum pyframe_state state, const char *version, const char *why)
{
    unsigned length = 0;

    while (version[length] && version[length] != ' ' && length < 32)
        length++;
    if (why)
        (void)snprintf(text, sizeof text, "CPython %.*s: %s", (int)length, version, why);
    else
        (void)snprintf(text, sizeof text, "CPython %.*s", (int)length, version);
    atomic_store_explicit(&pyframe_now, (uint32_t)state, memory_order_release);
}

/* A type is an object, too: if its own type is not at the expected offset, no other field is
 * either. */
static bool heads_are_plain(const struct unwind_ops *ops, void *handle)
{
    const char *type = ops->symbol(handle, "PyType_Type");

    return type && python.code_type && pointer_at(python.code_type, OBJECT_TYPE) == type;
}

/* Finds the hot part of the loop; a cold part that the compiler moved elsewhere does not count. */
static void find_loop(const struct unwind_ops *ops, void *handle)
{
    const void *symbol = ops->symbol(handle, "_PyEval_EvalFrameDefault");
    ElfW(Sym) *entry = NULL;
    Dl_info info;

    if (!symbol || !dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry
            || info.dli_saddr != symbol)
        return;
    pyframe_loop = (uintptr_t)symbol;
    pyframe_loop_bytes = entry->st_size;
}

static void use_interpreter(const struct unwind_ops *ops, void *handle)
{
    const char *(*version_of)(void);
    const char *version;
    const char *why = NULL;
    const void *runtime = ops->symbol(handle, "_PyRuntime");

    *(void **)&version_of = ops->symbol(handle, "Py_GetVersion");
    *(void **)&python.thread_state = ops->symbol(handle, "PyGILState_GetThisThreadState");
    *(void **)&python.current_state = ops->symbol(handle, "_PyThreadState_UncheckedGet");
    if (!python.current_state)
        *(void **)&python.current_state = ops->symbol(handle, "PyThreadState_GetUnchecked");
    *(void **)&python.is_ending = ops->symbol(handle, "_Py_IsFinalizing");
    if (!python.is_ending)
        *(void **)&python.is_ending = ops->symbol(handle, "Py_IsFinalizing");
    python.code_type = ops->symbol(handle, "PyCode_Type");
    version = version_of ? version_of() : "of no known version";
    if (pylayout_choose(version, runtime, runtime ? TABLE_WORDS * sizeof(uint64_t) : 0,
                &python.layout, &why)
            < 0) {
        settle_state(PYFRAME_REFUSED, version, why);
        return;
    }
    if (!python.current_state || !python.is_ending || !heads_are_plain(ops, handle)) {
        settle_state(
                PYFRAME_REFUSED, version, "its objects or its functions are not the usual ones");
        return;
    }
    python.is_usual = memcmp(&python.layout, &pylayout_13, sizeof python.layout) == 0
            || memcmp(&python.layout, &pylayout_14, sizeof python.layout) == 0;
    find_loop(ops, handle);
    settle_state(PYFRAME_READY, version, NULL);
}

void pyframe_look(const struct unwind_ops *ops)
{
    uint32_t state = atomic_load_explicit(&pyframe_now, memory_order_acquire);
    int cancel, unused;
    void *handle;

    if (state >= PYFRAME_READY || atomic_exchange(&looking, true))
        return;
    /* A library opened during the search causes another search. */
    if (state == PYFRAME_LOOK)
        (void)atomic_compare_exchange_strong(&pyframe_now, &state, PYFRAME_NONE);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    handle = open_interpreter(ops);
    if (handle)
        use_interpreter(ops, handle);
    (void)pthread_setcancelstate(cancel, &unused);
    atomic_store(&looking, false);
}

void pyframe_library_opened(void)
{
    uint32_t none = PYFRAME_NONE;

    (void)atomic_compare_exchange_strong_explicit(
            &pyframe_now, &none, PYFRAME_LOOK, memory_order_relaxed, memory_order_relaxed);
}

void pyframe_fork_child(void)
{
    /* The searching thread is not in the child, and may have stopped halfway. */
    if (atomic_exchange(&looking, false))
        pyframe_library_opened();
}

const char *pyframe_text(void)
{
    enum pyframe_state state = pyframe_state();

    if (state == PYFRAME_REFUSED && late_text[0])
        return late_text;
    return state >= PYFRAME_READY ? text : "";
}

const struct pylayout *pyframe_layout(void)
{
    return &python.layout;
}

void pyframe_refuse(const char *why)
{
    static _Atomic bool refusing;

    if (pyframe_state() != PYFRAME_READY || atomic_exchange(&refusing, true))
        return;
    (void)snprintf(late_text, sizeof late_text, "%s: %s", text, why);
    atomic_store_explicit(&pyframe_now, PYFRAME_REFUSED, memory_order_release);
}

/* ---- reading frames ------------------------------------------------------------------------- */

/* Stamps: a sum of words, most of them multiplied by an odd number of their own, so that the
 * processor need not wait from one to the next. The numbers are unrelated: addresses and characters
 * differ by round numbers, which multiples of one number would cancel out. The interpreter's hashes
 * are random enough already. */
#define STEP       UINT64_C(0x9e3779b97f4a7c15)
#define STEP_NAME  UINT64_C(0xd6e8feb86659fd93)
#define STEP_LINES UINT64_C(0xa0761d6478bd642f)
#define STEP_TEXT  UINT64_C(0xff51afd7ed558ccd)

static inline uint64_t stir_bits(uint64_t hash)
{
    return hash ^ hash >> 32;
}

static inline uint64_t turn_bits(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Sums all characters of a string: generated code has names and files that differ in one digit
 * somewhere. */
__attribute__((noinline)) static uint64_t characters_of(
        const struct pylayout *at, const char *string)
{
    uint32_t state = (uint32_t)int_at(string, TEXT_STATE);
    uint64_t length =
            /* bytes of one character */
            (uint64_t)pyframe_word_at(string, TEXT_LENGTH) * (state >> 2 & 7);
    const char *from = string + (state & TEXT_ASCII ? at->ascii_bytes : at->compact_bytes);
    uint64_t sum = length;

    if ((state & TEXT_ONE_PIECE) == 0)
        from = pointer_at(string, at->text_data);
    if (!from)
        return sum;
    if (length > TEXT_BYTES_MAX)
        length = TEXT_BYTES_MAX;
    if (length < 8) {
        for (uint64_t i = 0; i < length; i++)
            sum = sum * STEP_TEXT + (unsigned char)from[i];
    } else {
        for (; length > 16; from += 16, length -= 16)
            sum = (sum * STEP_TEXT + (uint64_t)pyframe_word_at(from, 0)) * STEP_TEXT
                    + (uint64_t)pyframe_word_at(from, 8);
        if (length > 8)
            sum = sum * STEP_TEXT + (uint64_t)pyframe_word_at(from, 0);
        sum = sum * STEP_TEXT + (uint64_t)pyframe_word_at(from, (int64_t)length - 8);
    }
    return stir_bits(stir_bits(sum) * STEP_TEXT);
}

/* The string's own hash; all ones: not computed yet (qualified names of methods, files of code from
 * a .pyc). Then three words, which contain all characters of a short string, and some of its head
 * or of the padding after it. */
ALWAYS_INLINE uint64_t pyframe_text_of(const struct pylayout *at, const char *string)
{
    uint64_t own = (uint64_t)pyframe_word_at(string, TEXT_HASH);
    const char *from = string + at->ascii_bytes;
    uint64_t length;

    if (__builtin_expect(own != UINT64_MAX, 1))
        return own;
    length = (uint64_t)pyframe_word_at(string, TEXT_LENGTH);
    if ((~string[TEXT_STATE] & (TEXT_ONE_PIECE | TEXT_ASCII)) != 0 || length > TEXT_SHORT)
        return characters_of(at, string);
    own = ((uint64_t)pyframe_word_at(from, 0) ^ length) * STEP_TEXT
            + (uint64_t)pyframe_word_at(from, (int64_t)length - 8);
    return (own * STEP_TEXT + (uint64_t)pyframe_word_at(from, (int64_t)(length >> 1) - 4))
            * STEP_TEXT;
}

/* Hashes an immutable bytes object by its own hash; all ones: not computed yet (code from a .pyc).
 * Then by its first, middle and last word. If it is shorter than a word, the first word reaches
 * into the padding after it, which its allocator always leaves (objects are whole 16 bytes) and
 * nothing writes while it lives; the other words begin in its own head. */
static inline uint64_t pyframe_bytes_of(uint64_t own, const char *bytes, uint64_t length)
{
    uint64_t sum;

    if (own != UINT64_MAX)
        return own;
    sum = turn_bits((uint64_t)pyframe_word_at(bytes, 0), 21)
            ^ (uint64_t)pyframe_word_at(bytes, (int64_t)length - 8);
    return (sum ^ length) * STEP + (uint64_t)pyframe_word_at(bytes, (int64_t)(length >> 1) - 4);
}

/* File names without a hash whose characters were read in this walk: frames come from few files,
 * alternating. */
struct files {
    unsigned count;
    struct {
        const char *file;
        uint64_t content;
    } place[4];
};

/* The last file name, which adjacent frames often share. */
struct seen {
    const char *file;
    uint64_t content;
    struct files *files;
};

__attribute__((noinline)) static uint64_t unhashed_file(
        const struct pylayout *at, const char *file, struct files *files)
{
    const unsigned places = sizeof files->place / sizeof files->place[0];
    unsigned next;

    for (unsigned i = 0; i < files->count && i < places; i++)
        if (files->place[i].file == file)
            return files->place[i].content;
    next = files->count++ % places;
    files->place[next].file = file;
    files->place[next].content = pyframe_text_of(at, file);
    return files->place[next].content;
}

/* The hash of a file name's content. */
ALWAYS_INLINE uint64_t file_of(const struct pylayout *at, const char *code, struct seen *seen)
{
    const char *file = pointer_at(code, at->code_filename);

    if (file != seen->file) {
        uint64_t own = (uint64_t)pyframe_word_at(file, TEXT_HASH);

        seen->file = file;
        seen->content = (own != UINT64_MAX ? own : unhashed_file(at, file, seen->files)) * 3;
    }
    return seen->content;
}

/* The name that reports show; a qualified name contains the plain one. */
ALWAYS_INLINE const char *shown_name(const struct pylayout *at, const char *code)
{
    return pointer_at(code, at->code_qualname != PYLAYOUT_NONE ? at->code_qualname : at->code_name);
}

ALWAYS_INLINE uint64_t lines_of(const struct pylayout *at, const char *code)
{
    const char *lines = pointer_at(code, at->code_lines);

    return pyframe_bytes_of(pyframe_word_at(lines, BYTES_HASH), lines + BYTES_DATA,
            (uint64_t)pyframe_word_at(lines, BYTES_LENGTH));
}

ALWAYS_INLINE uint64_t stamp_of(const struct pylayout *at, const char *code, struct seen *seen)
{
    const char *file = pointer_at(code, at->code_filename);
    const char *lines = pointer_at(code, at->code_lines);
    uint64_t first = (uint32_t)int_at(code, at->code_first);
    uint64_t sum = (uintptr_t)code * STEP;
    const char *name;

    if (at->code_version != PYLAYOUT_NONE) {
        uint64_t version = (uint32_t)int_at(code, at->code_version);

        /* unique within an interpreter; versions of several interpreters may coincide */
        if (__builtin_expect(version != 0, 1))
            return sum + ((uintptr_t)lines ^ turn_bits((uintptr_t)file, 32)) * STEP_NAME
                    + (version << 32 | first) * STEP_LINES;
    }
    name = shown_name(at, code);
    sum += ((uintptr_t)name ^ turn_bits((uintptr_t)file, 32)) * STEP_NAME
            + ((uintptr_t)lines ^ first << 32) * STEP_LINES + pyframe_text_of(at, name);
    return sum + file_of(at, code, seen) + stir_bits(lines_of(at, code));
}

/* The hash of what a frame shows: function, file, first line, line table, instruction, without
 * addresses that only distinguish objects. Code objects that agree in all of these look the same in
 * a stack. */
ALWAYS_INLINE uint64_t glance_at(
        const struct pylayout *at, const char *code, uint32_t lasti, struct seen *seen)
{
    uint64_t sum;

    if (at->code_version != PYLAYOUT_NONE && int_at(code, at->code_version) != 0)
        return stamp_of(at, code, seen) ^ lasti;
    /* the first line in the upper half, and a field that never changes: the flags or the stack
     * size */
    sum = (uint64_t)pyframe_word_at(code, at->code_first - 4) ^ lasti;
    /* factors one, three, and minus one: none cancels another */
    return sum + pyframe_text_of(at, shown_name(at, code)) + file_of(at, code, seen)
            - lines_of(at, code);
}

/* The offset of the instruction, in bytes. */
ALWAYS_INLINE int32_t instruction(const struct pylayout *at, const char *frame, const char *code)
{
    if (at->ip == PYLAYOUT_IP_POINTER)
        return (int32_t)(pointer_at(frame, at->frame_ip) - (code + at->code_bytecode));
    return (int32_t)((uint32_t)int_at(frame, at->frame_ip) * 2);
}

/* The code object of a frame; NULL or another object if it is no frame. */
ALWAYS_INLINE const char *pyframe_code_of(const struct pylayout *at, const char *frame)
{
    const char *code = pointer_at(frame, at->frame_code);

    return code - ((uintptr_t)code & at->code_tags);
}

/* A thread's own frames are consistent, unless another thread is finalising its interpreter. */
ALWAYS_INLINE const char *pyframe_innermost(const struct pylayout *at)
{
    void *state = NULL;
    const char *frame;

    if (at->minor >= 12)
        state = python.current_state(); /* of a sub-interpreter, if this thread is in one */
    if (!state)
        state = python.thread_state();
    if (!state || (__builtin_expect(python.is_ending(), 0) && python.current_state() != state))
        return NULL;
    frame = pointer_at(state, at->thread_frame);
    if (frame && at->cframe_frame != PYLAYOUT_NONE)
        frame = pointer_at(frame, at->cframe_frame);
    return frame;
}

ALWAYS_INLINE bool is_shim(const struct pylayout *at, const char *frame)
{
    return at->frame_owner != PYLAYOUT_NONE && at->frame_entry == PYLAYOUT_NONE
            && (unsigned char)frame[at->frame_owner] >= OWNER_C_STACK;
}

/* True before the function's first own instruction. */
static bool is_early(const struct pylayout *at, const char *code, int32_t lasti)
{
    return at->code_traceable != PYLAYOUT_NONE && lasti < 2 * int_at(code, at->code_traceable);
}

/* An early frame is incomplete: the interpreter is still calling the function. A generator's frame
 * is complete from the start. */
static bool is_generator(const struct pylayout *at, const char *frame)
{
    return frame[at->frame_owner] == OWNER_GENERATOR;
}

/* Hashes all frames, from the innermost out. The rotation makes the hash depend on the order of
 * frames. An incomplete frame counts here: its instruction distinguishes it, and pyframe_walk skips
 * it. */
ALWAYS_INLINE unsigned hash_as(const struct pylayout *at, uint64_t *ret_hash)
{
    const char *code_type = python.code_type;
    struct files files;
    struct seen seen = {NULL, 0, &files};
    uint64_t hash = 0;
    unsigned left = PYFRAME_DEPTH_MAX;

    files.count = 0;
    for (const char *frame = pyframe_innermost(at); frame && ((uintptr_t)frame & 7) == 0;
            frame = pointer_at(frame, at->frame_previous)) {
        const char *code;

        if (is_shim(at, frame)) {
            hash += STEP << 1;
            continue;
        }
        code = pyframe_code_of(at, frame);
        if (!code || pointer_at(code, OBJECT_TYPE) != code_type)
            break;
        hash = (turn_bits(hash, 5)
                       ^ glance_at(at, code, (uint32_t)instruction(at, frame, code), &seen))
                * STEP;
        if (at->frame_entry != PYLAYOUT_NONE)
            hash += (unsigned char)frame[at->frame_entry];
        if (--left == 0)
            break;
    }
    *ret_hash = hash ? stir_bits(hash) : 1;
    return PYFRAME_DEPTH_MAX - left;
}

/* Compiled once for each layout known in advance: every allocation pays for this. */
unsigned pyframe_hash(uint64_t *ret_hash)
{
    switch (python.layout.minor) {
    case 10:
        return hash_as(&pylayout_10, ret_hash);
    case 11:
        return hash_as(&pylayout_11, ret_hash);
    case 12:
        return hash_as(&pylayout_12, ret_hash);
    case 13:
        if (python.is_usual)
            return hash_as(&pylayout_13, ret_hash);
        break;
    default:
        if (python.is_usual)
            return hash_as(&pylayout_14, ret_hash);
    }
    return hash_as(&python.layout, ret_hash);
}

/* Skips incomplete frames without counting them: if there is one, this goes further out than
 * hash_as. */
unsigned pyframe_walk(struct pyframe *ret_frames, bool *ret_early)
{
    const struct pylayout *at = &python.layout;
    struct files files;
    struct seen seen = {NULL, 0, &files};
    unsigned count = 0;

    files.count = 0;
    *ret_early = false;
    for (const char *frame = pyframe_innermost(at);
            frame && ((uintptr_t)frame & 7) == 0 && count < PYFRAME_DEPTH_MAX;
            frame = pointer_at(frame, at->frame_previous)) {
        const char *code;
        int32_t lasti;

        if (is_shim(at, frame)) {
            if (count > 0)
                ret_frames[count - 1].is_entry = true;
            continue;
        }
        code = pyframe_code_of(at, frame);
        if (!code || pointer_at(code, OBJECT_TYPE) != python.code_type)
            break;
        lasti = instruction(at, frame, code);
        if (is_early(at, code, lasti)) {
            *ret_early = true;
            if (!is_generator(at, frame))
                continue;
        }
        ret_frames[count++] = (struct pyframe){.code = code,
                .stamp = stir_bits(stamp_of(at, code, &seen) * STEP),
                .lasti = lasti,
                .is_entry = at->frame_entry != PYLAYOUT_NONE ? frame[at->frame_entry] != 0
                                                             : at->frame_owner == PYLAYOUT_NONE};
    }
    return count;
}

static bool has_flag(const char *object, uint64_t flag)
{
    const char *type = object ? pointer_at(object, OBJECT_TYPE) : NULL;

    return type && (pyframe_word_at(type, TYPE_FLAGS) & flag) != 0;
}

/* No table has the bits of a string's state; but characters have 1, 2 or 4 bytes. */
static bool pyframe_is_text(const char *object)
{
    uint32_t state, kind;

    if (!has_flag(object, FLAG_TEXT))
        return false;
    state = (uint32_t)int_at(object, TEXT_STATE);
    kind = state >> 2 & 7;
    return kind == 1 || kind == 2 || kind == 4;
}

bool pyframe_is_code(const char *code)
{
    const struct pylayout *at = &python.layout;

    return pyframe_is_text(pointer_at(code, at->code_name))
            && pyframe_is_text(pointer_at(code, at->code_filename))
            && has_flag(pointer_at(code, at->code_lines), FLAG_BYTES)
            && (at->code_qualname == PYLAYOUT_NONE
                    || pyframe_is_text(pointer_at(code, at->code_qualname)));
}

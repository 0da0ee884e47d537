/* SPDX-License-Identifier: MIT */
#include "tracker/pylayout.h"

#include "tracker/pyknown.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The head of _PyRuntime in 3.13 ("xdebugpy"): a few words, then groups of offsets, each begun by a size. */
enum word {
    WORD_COOKIE,
    WORD_VERSION, /* PY_VERSION_HEX */
    WORD_FREE_THREADED,
    WORD_THREAD = 3 + 3 + 13, /* behind the groups of the runtime and of an interpreter */
    WORD_THREAD_FRAME = WORD_THREAD + 4,
    WORD_FRAME = WORD_THREAD + 9,
    WORD_FRAME_PREVIOUS = WORD_FRAME + 1,
    WORD_FRAME_CODE,
    WORD_FRAME_IP,
    WORD_FRAME_LOCALS,
    WORD_FRAME_OWNER,
    WORD_CODE = WORD_FRAME + 6,
    WORD_CODE_FILENAME = WORD_CODE + 1,
    WORD_CODE_NAME,
    WORD_CODE_QUALNAME,
    WORD_CODE_LINES,
    WORD_CODE_FIRST,
    WORD_CODE_BYTECODE = WORD_CODE + 9,
    WORD_OBJECT = WORD_CODE + 10,
    WORD_BYTES = WORD_OBJECT + 2 + 4 + 3 + 3 + 3 + 2 + 3,
    WORD_TEXT = WORD_BYTES + 3,
    WORD_TEXT_STATE = WORD_TEXT + 1,
    WORD_TEXT_LENGTH,
    WORD_TEXT_ASCII,
    WORD_COUNT,
};

#define OFFSET_MAX 65536u /* no field of ours lies further in */

/* The heads of objects that pyframe.c and pycode.c count on in every version. */
#define TYPE_AT        8u
#define BYTES_AT       32u
#define BYTES_SIZE_AT  16u
#define TEXT_LENGTH_AT 16u
#define TEXT_STATE_AT  32u

static const char *behind_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* "3.11.2 ..." -> 11; 0 = not a version 3.x that was released, or one that somebody has changed ("3.10.5+cinder"). */
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
    if (*at == '+') /* a few commits later */
        at++;
    return *at == ' ' || *at == '\0' ? minor : 0;
}

/* An offset that may be used; *ret_ok turns false for one that may not. */
static int32_t offset_at(const uint64_t *words, enum word word, bool *ret_ok)
{
    if (words[word] >= OFFSET_MAX) {
        *ret_ok = false;
        return 0;
    }
    return (int32_t)words[word];
}

/* What the table does not have, if the code object is the one that has it there. */
static void add_unpublished(struct pylayout *layout)
{
    const struct pylayout *known = &pylayout_13;

    if (layout->code_first != known->code_first || layout->code_filename != known->code_filename
            || layout->code_lines != known->code_lines
            || layout->code_bytecode != known->code_bytecode)
        return;
    layout->code_traceable = known->code_traceable;
    layout->code_version = known->code_version;
}

static int from_table(const uint64_t *words, struct pylayout *ret_layout, const char **ret_why)
{
    bool ok = true;

    *ret_why = "its table of offsets is not the one of 3.13";
    if (memcmp(words, "xdebugpy", 8) != 0 || words[WORD_VERSION] >> 16 != 0x030d)
        return -ENOTSUP;
    if (words[WORD_FREE_THREADED] != 0) {
        *ret_why = "it is a free-threaded build";
        return -ENOTSUP;
    }
    *ret_layout = (struct pylayout){
            .minor = 13,
            .table = FORMAT_PYTABLE_LOCATIONS,
            .ip = PYLAYOUT_IP_POINTER,
            .thread_frame = offset_at(words, WORD_THREAD_FRAME, &ok),
            .cframe_frame = PYLAYOUT_NONE,
            .frame_code = offset_at(words, WORD_FRAME_CODE, &ok),
            .frame_previous = offset_at(words, WORD_FRAME_PREVIOUS, &ok),
            .frame_ip = offset_at(words, WORD_FRAME_IP, &ok),
            .frame_owner = offset_at(words, WORD_FRAME_OWNER, &ok),
            .frame_entry = PYLAYOUT_NONE,
            .code_filename = offset_at(words, WORD_CODE_FILENAME, &ok),
            .code_name = offset_at(words, WORD_CODE_NAME, &ok),
            .code_qualname = offset_at(words, WORD_CODE_QUALNAME, &ok),
            .code_first = offset_at(words, WORD_CODE_FIRST, &ok),
            .code_lines = offset_at(words, WORD_CODE_LINES, &ok),
            .code_bytecode = offset_at(words, WORD_CODE_BYTECODE, &ok),
            .code_traceable = PYLAYOUT_NONE,
            .code_version = PYLAYOUT_NONE,
            .ascii_bytes = offset_at(words, WORD_TEXT_ASCII, &ok),
    };
    /* a string that is not ASCII has its UTF-8 form's length and place behind that, then, in two pieces, the rest */
    ret_layout->compact_bytes = ret_layout->ascii_bytes + 16;
    ret_layout->text_data = ret_layout->compact_bytes;
    if (!ok || words[WORD_OBJECT + 1] != TYPE_AT || words[WORD_BYTES + 1] != BYTES_SIZE_AT
            || words[WORD_BYTES + 2] != BYTES_AT || words[WORD_TEXT_STATE] != TEXT_STATE_AT
            || words[WORD_TEXT_LENGTH] != TEXT_LENGTH_AT)
        return -ENOTSUP;
    add_unpublished(ret_layout);
    return 0;
}

int pylayout_choose(const char *version, const void *runtime, size_t runtime_bytes,
        struct pylayout *ret_layout, const char **ret_why)
{
    unsigned minor = minor_of(version);
    uint64_t words[WORD_COUNT];

    *ret_why = "its version is not one of CPython 3.8 to 3.13";
    if (strstr(version, "free-threading")) {
        *ret_why = "it is a free-threaded build";
        return -ENOTSUP;
    }
    if (strstr(version, "PyPy") || strstr(version, "GraalVM") || strstr(version, "Pyston"))
        return -ENOTSUP;
    if (minor == 13) {
        *ret_why = "it publishes no table of offsets";
        if (!runtime || runtime_bytes < sizeof words)
            return -ENOTSUP;
        memcpy(words, runtime, sizeof words);
        return from_table(words, ret_layout, ret_why);
    }
    for (size_t i = 0; i < sizeof pylayout_known / sizeof pylayout_known[0]; i++)
        if (pylayout_known[i]->minor == minor) {
            *ret_layout = *pylayout_known[i];
            return 0;
        }
    return -ENOTSUP;
}

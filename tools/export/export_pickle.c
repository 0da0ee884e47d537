/* SPDX-License-Identifier: MIT */
#include "tools/export/export_pickle.h"

#include <stdlib.h>
#include <string.h>

#include "tools/export/export_names.h"

#define PROTOCOL   4
#define APPEND_MAX 1000 /* elements: the viewer passes them on as arguments of one call */

enum opcode {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_PROTO = 0x80,
    OP_TUPLE2 = 0x86,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_MEMOIZE = 0x94,
};

static void export_pickle_put(struct export_pickle *pickle, enum opcode opcode)
{
    (void)fputc((int)opcode, pickle->out);
}

/* The lower bytes, least significant first. */
static void export_pickle_put_bytes(struct export_pickle *pickle, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        (void)fputc((int)(value & 0xff), pickle->out);
}

void export_pickle_begin(struct export_pickle *pickle, FILE *out)
{
    *pickle = (struct export_pickle){.out = out};
    export_pickle_put(pickle, OP_PROTO);
    export_pickle_put_bytes(pickle, PROTOCOL, 1);
}

void export_pickle_end(struct export_pickle *pickle)
{
    export_pickle_put(pickle, OP_STOP);
    keytable_done(&pickle->texts);
}

void export_pickle_begin_dict(struct export_pickle *pickle)
{
    export_pickle_put(pickle, OP_EMPTY_DICT);
    export_pickle_put(pickle, OP_MARK);
}

void export_pickle_end_dict(struct export_pickle *pickle)
{
    export_pickle_put(pickle, OP_SETITEMS);
}

void export_pickle_begin_list(struct export_pickle *pickle, struct export_pickle_list *list)
{
    *list = (struct export_pickle_list){0};
    export_pickle_put(pickle, OP_EMPTY_LIST);
    export_pickle_put(pickle, OP_MARK);
}

uint32_t export_pickle_keep_list(struct export_pickle *pickle, struct export_pickle_list *list)
{
    *list = (struct export_pickle_list){0};
    export_pickle_put(pickle, OP_EMPTY_LIST);
    uint32_t kept = export_pickle_keep(pickle);
    export_pickle_put(pickle, OP_MARK);
    return kept;
}

void export_pickle_item(struct export_pickle *pickle, struct export_pickle_list *list)
{
    if (list->waiting == APPEND_MAX) {
        export_pickle_put(pickle, OP_APPENDS);
        export_pickle_put(pickle, OP_MARK);
        list->waiting = 0;
    }
    list->waiting++;
}

void export_pickle_end_list(struct export_pickle *pickle)
{
    export_pickle_put(pickle, OP_APPENDS);
}

uint32_t export_pickle_keep(struct export_pickle *pickle)
{
    export_pickle_put(pickle, OP_MEMOIZE);
    return pickle->kept++;
}

void export_pickle_refer(struct export_pickle *pickle, uint32_t kept)
{
    bool is_short = kept <= UINT8_MAX;

    export_pickle_put(pickle, is_short ? OP_BINGET : OP_LONG_BINGET);
    export_pickle_put_bytes(pickle, kept, is_short ? 1 : 4);
}

void export_pickle_uint(struct export_pickle *pickle, uint64_t value)
{
    if (value <= UINT8_MAX) {
        export_pickle_put(pickle, OP_BININT1);
        export_pickle_put_bytes(pickle, value, 1);
    } else if (value <= UINT16_MAX) {
        export_pickle_put(pickle, OP_BININT2);
        export_pickle_put_bytes(pickle, value, 2);
    } else if (value <= INT32_MAX) {
        export_pickle_put(pickle, OP_BININT);
        export_pickle_put_bytes(pickle, value, 4);
    } else {
        export_pickle_put(pickle, OP_LONG1);
        export_pickle_put_bytes(pickle, sizeof(value), 1);
        export_pickle_put_bytes(pickle, value, sizeof(value));
    }
}

void export_pickle_bool(struct export_pickle *pickle, bool value)
{
    export_pickle_put(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void export_pickle_text(struct export_pickle *pickle, const char *text)
{
    uint32_t *known = keytable_at(&pickle->texts, keytable_text(text), UINT32_MAX);

    if (*known != UINT32_MAX) {
        export_pickle_refer(pickle, *known);
        return;
    }
    char *clean = export_names_utf8(text);
    size_t length = strlen(clean);
    bool is_short = length <= UINT8_MAX;
    export_pickle_put(pickle, is_short ? OP_SHORT_BINUNICODE : OP_BINUNICODE);
    export_pickle_put_bytes(pickle, length, is_short ? 1 : 4);
    (void)fwrite(clean, 1, length, pickle->out);
    free(clean);
    *known = export_pickle_keep(pickle);
}

void export_pickle_pair(struct export_pickle *pickle, uint64_t first, uint64_t second)
{
    export_pickle_uint(pickle, first);
    export_pickle_uint(pickle, second);
    export_pickle_put(pickle, OP_TUPLE2);
}

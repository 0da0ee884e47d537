/* SPDX-License-Identifier: MIT */
#include "tools/import/pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"

#define PROGRESS_BYTES (1u << 20)

struct machine {
    const unsigned char *bytes;
    size_t length, at; /* `at`: the first byte that was not read */
    size_t began;      /* the begin of the instruction */
    struct pickle *pickle;
    struct pickle_error *error;
    struct pickle_value *stack, *memo;
    size_t stack_count, stack_room, memo_count, memo_room;
    size_t *marks; /* heights of the stack */
    size_t mark_count, mark_room;
    bool has_stopped;
};

__attribute__((format(printf, 2, 3))) static int pickle_refuse(
        struct machine *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(m->error->text, sizeof m->error->text, format, args);
    va_end(args);
    m->error->offset = m->began;
    return -EINVAL;
}

/* ---- bytes ---- */

static int cut_off(struct machine *m)
{
    m->began = m->length;
    return pickle_refuse(m, "the pickle ends here, in the middle");
}

/* The next bytes, NULL: there are fewer. */
static const unsigned char *take_bytes(struct machine *m, uint64_t length)
{
    const unsigned char *bytes = m->bytes + m->at;

    if (length > m->length - m->at) {
        (void)cut_off(m);
        return NULL;
    }
    m->at += length;
    return bytes;
}

/* An unsigned number, lowest byte first. */
static int pickle_take_number(struct machine *m, unsigned bytes, uint64_t *ret)
{
    const unsigned char *at = take_bytes(m, bytes);

    *ret = 0;
    for (unsigned i = 0; at && i < bytes; i++)
        *ret |= (uint64_t)at[i] << 8 * i;
    return at ? 0 : -EINVAL;
}

/* ---- stack ---- */

static int pickle_push(struct machine *m, struct pickle_value value)
{
    VEC_PUSH(m->stack, m->stack_count, m->stack_room) = value;
    return 0;
}

/* The height that the stack must keep: that of the last mark. */
static size_t floor_of(const struct machine *m)
{
    return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

static int need(struct machine *m, size_t count)
{
    return m->stack_count - floor_of(m) < count ? pickle_refuse(m, "the stack has too few values")
                                                : 0;
}

static struct pickle_value new_list(struct machine *m, enum pickle_kind kind)
{
    struct pickle *pickle = m->pickle;

    VEC_PUSH(pickle->lists, pickle->list_count, pickle->list_room) = (struct pickle_list){0};
    return (struct pickle_value){.kind = kind, .u.list = (uint32_t)(pickle->list_count - 1)};
}

/* Moves the values from `first` on into a container; an empty one gets memory of the exact size. */
static int pickle_fill(struct machine *m, const struct pickle_value *into, size_t first)
{
    struct pickle_list *list = &m->pickle->lists[into->u.list];
    size_t count = m->stack_count - first;
    size_t room = list->room;

    if (into->kind == PICKLE_DICT && count % 2)
        return pickle_refuse(m, "a dict has a key without a value");
    if (count > UINT32_MAX / 2 - list->count)
        return pickle_refuse(m, "a list is too long");
    if (list->count + count > room) {
        room = list->count == 0 ? count : 2 * (list->count + count);
        list->at = realloc(list->at, room * sizeof *list->at);
        if (!list->at)
            vec_out_of_memory();
        list->room = (uint32_t)room;
    }
    if (count)
        memcpy(list->at + list->count, m->stack + first, count * sizeof *list->at);
    list->count += (uint32_t)count;
    m->stack_count = first;
    return 0;
}

static int pop_mark(struct machine *m, size_t *ret_first)
{
    *ret_first = 0;
    if (m->mark_count == 0)
        return pickle_refuse(m, "there is no mark");
    *ret_first = m->marks[--m->mark_count];
    return 0;
}

/* ---- instructions: values ---- */

static int op_none(struct machine *m, unsigned number)
{
    (void)number;
    return pickle_push(m, (struct pickle_value){.kind = PICKLE_NONE});
}

static int op_bool(struct machine *m, unsigned number)
{
    return pickle_push(m, (struct pickle_value){.kind = PICKLE_BOOL, .u.number = number});
}

static int op_uint(struct machine *m, unsigned bytes)
{
    uint64_t number;
    int r = pickle_take_number(m, bytes, &number);

    return r < 0 ? r
                 : pickle_push(
                         m, (struct pickle_value){.kind = PICKLE_INT, .u.number = (int64_t)number});
}

static int op_int(struct machine *m, unsigned bytes)
{
    uint64_t number;
    int r = pickle_take_number(m, bytes, &number);

    return r < 0 ? r
                 : pickle_push(m,
                         (struct pickle_value){
                                 .kind = PICKLE_INT, .u.number = (int32_t)(uint32_t)number});
}

/* Two's complement of any length, after a length of `bytes` bytes. */
static int op_long(struct machine *m, unsigned bytes)
{
    uint64_t length;
    uint64_t number = 0;
    int r = pickle_take_number(m, bytes, &length);
    const unsigned char *at = r == 0 ? take_bytes(m, length) : NULL;

    if (!at)
        return -EINVAL;
    if (length > 9 || (length == 9 && at[8] != 0))
        return pickle_refuse(m, "an integer has more than 64 bits");
    for (unsigned i = 0; i < length && i < 8; i++)
        number |= (uint64_t)at[i] << 8 * i;
    if (length > 0 && length < 8 && at[length - 1] & 0x80)
        number |= UINT64_MAX << 8 * length;
    return pickle_push(m, (struct pickle_value){.kind = PICKLE_INT, .u.number = (int64_t)number});
}

/* Eight bytes, highest first. */
static int op_real(struct machine *m, unsigned bytes)
{
    const unsigned char *at = take_bytes(m, bytes);
    uint64_t number = 0;
    struct pickle_value value = {.kind = PICKLE_REAL};

    if (!at)
        return -EINVAL;
    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    memcpy(&value.u.real, &number, sizeof number);
    return pickle_push(m, value);
}

static int pickle_take_text(struct machine *m, unsigned bytes, enum pickle_kind kind)
{
    uint64_t length;
    int r = pickle_take_number(m, bytes, &length);
    const unsigned char *at = r == 0 ? take_bytes(m, length) : NULL;

    if (!at)
        return -EINVAL;
    return pickle_push(m,
            (struct pickle_value){
                    .kind = kind, .length = (uint32_t)length, .u.text = (const char *)at});
}

static int op_text(struct machine *m, unsigned bytes)
{
    return pickle_take_text(m, bytes, PICKLE_TEXT);
}

static int op_bytes(struct machine *m, unsigned bytes)
{
    return pickle_take_text(m, bytes, PICKLE_BYTES);
}

/* ---- instructions: containers ---- */

static int op_empty(struct machine *m, unsigned kind)
{
    return pickle_push(m, new_list(m, (enum pickle_kind)kind));
}

/* The last `count` values become a tuple. */
static int op_tuple(struct machine *m, unsigned count)
{
    struct pickle_value list;
    int r = need(m, count);

    if (r < 0)
        return r;
    list = new_list(m, PICKLE_LIST);
    r = pickle_fill(m, &list, m->stack_count - count);
    return r < 0 ? r : pickle_push(m, list);
}

/* All values above the mark become a container. */
static int op_collect(struct machine *m, unsigned kind)
{
    struct pickle_value list;
    size_t first;
    int r = pop_mark(m, &first);

    if (r < 0)
        return r;
    list = new_list(m, (enum pickle_kind)kind);
    r = pickle_fill(m, &list, first);
    return r < 0 ? r : pickle_push(m, list);
}

/* The values from `first` on go into the container below them. */
static int put_into(struct machine *m, enum pickle_kind kind, size_t first)
{
    struct pickle_value into;

    if (first == floor_of(m) || m->stack[first - 1].kind != kind)
        return pickle_refuse(
                m, "there is no %s to put values into", kind == PICKLE_DICT ? "dict" : "list");
    into = m->stack[first - 1];
    return pickle_fill(m, &into, first);
}

static int op_put_one(struct machine *m, unsigned kind)
{
    size_t count = kind == PICKLE_DICT ? 2 : 1;
    int r = need(m, count);

    return r < 0 ? r : put_into(m, (enum pickle_kind)kind, m->stack_count - count);
}

static int op_put_all(struct machine *m, unsigned kind)
{
    size_t first;
    int r = pop_mark(m, &first);

    return r < 0 ? r : put_into(m, (enum pickle_kind)kind, first);
}

/* ---- instructions: the machine ---- */

static int op_mark(struct machine *m, unsigned number)
{
    (void)number;
    VEC_PUSH(m->marks, m->mark_count, m->mark_room) = m->stack_count;
    return 0;
}

static int op_pop(struct machine *m, unsigned number)
{
    int r = need(m, number);

    m->stack_count -= r < 0 ? 0 : number;
    return r;
}

static int op_pop_mark(struct machine *m, unsigned number)
{
    (void)number;
    return pop_mark(m, &m->stack_count);
}

/* Stores the top value under a number; writers count from 0 on. */
static int put_memo(struct machine *m, uint64_t number)
{
    int r = need(m, 1);

    if (r < 0)
        return r;
    if (number > m->memo_count)
        return pickle_refuse(m, "memo %" PRIu64 " is out of turn", number);
    if (number == m->memo_count)
        VEC_PUSH(m->memo, m->memo_count, m->memo_room) = m->stack[m->stack_count - 1];
    else
        m->memo[number] = m->stack[m->stack_count - 1];
    return 0;
}

static int op_memoize(struct machine *m, unsigned number)
{
    (void)number;
    return put_memo(m, m->memo_count);
}

static int op_put(struct machine *m, unsigned bytes)
{
    uint64_t number;
    int r = pickle_take_number(m, bytes, &number);

    return r < 0 ? r : put_memo(m, number);
}

static int op_get(struct machine *m, unsigned bytes)
{
    uint64_t number;
    int r = pickle_take_number(m, bytes, &number);

    if (r == 0 && number >= m->memo_count)
        r = pickle_refuse(m, "memo %" PRIu64 " is not there", number);
    return r < 0 ? r : pickle_push(m, m->memo[number]);
}

static int op_proto(struct machine *m, unsigned bytes)
{
    uint64_t number;
    int r = pickle_take_number(m, bytes, &number);

    if (r == 0 && (number < 2 || number > 5))
        r = pickle_refuse(m, "protocol %" PRIu64 "; 2 to 5 are read", number);
    return r;
}

static int op_frame(struct machine *m, unsigned bytes)
{
    uint64_t length;

    return pickle_take_number(m, bytes, &length); /* the length is for readers of streams */
}

static int op_stop(struct machine *m, unsigned number)
{
    int r = need(m, 1);

    (void)number;
    if (r == 0 && m->mark_count)
        r = pickle_refuse(m, "a mark is left");
    if (r < 0)
        return r;
    m->pickle->root = m->stack[m->stack_count - 1];
    m->has_stopped = true;
    return 0;
}

/* Named as in Python's pickletools. */
static const struct {
    const char *name;
    int (*run)(struct machine *m, unsigned argument); /* NULL: it would need Python code */
    unsigned argument;
} instructions[256] = {
        [0x80] = {"PROTO", op_proto, 1},
        [0x95] = {"FRAME", op_frame, 8},
        ['.'] = {"STOP", op_stop, 0},
        ['('] = {"MARK", op_mark, 0},
        ['0'] = {"POP", op_pop, 1},
        ['1'] = {"POP_MARK", op_pop_mark, 0},
        ['N'] = {"NONE", op_none, 0},
        [0x88] = {"NEWTRUE", op_bool, 1},
        [0x89] = {"NEWFALSE", op_bool, 0},
        ['J'] = {"BININT", op_int, 4},
        ['K'] = {"BININT1", op_uint, 1},
        ['M'] = {"BININT2", op_uint, 2},
        [0x8a] = {"LONG1", op_long, 1},
        [0x8b] = {"LONG4", op_long, 4},
        ['G'] = {"BINFLOAT", op_real, 8},
        [0x8c] = {"SHORT_BINUNICODE", op_text, 1},
        ['X'] = {"BINUNICODE", op_text, 4},
        [0x8d] = {"BINUNICODE8", op_text, 8},
        ['C'] = {"SHORT_BINBYTES", op_bytes, 1},
        ['B'] = {"BINBYTES", op_bytes, 4},
        [0x8e] = {"BINBYTES8", op_bytes, 8},
        [']'] = {"EMPTY_LIST", op_empty, PICKLE_LIST},
        ['a'] = {"APPEND", op_put_one, PICKLE_LIST},
        ['e'] = {"APPENDS", op_put_all, PICKLE_LIST},
        ['l'] = {"LIST", op_collect, PICKLE_LIST},
        [')'] = {"EMPTY_TUPLE", op_empty, PICKLE_LIST},
        ['t'] = {"TUPLE", op_collect, PICKLE_LIST},
        [0x85] = {"TUPLE1", op_tuple, 1},
        [0x86] = {"TUPLE2", op_tuple, 2},
        [0x87] = {"TUPLE3", op_tuple, 3},
        ['}'] = {"EMPTY_DICT", op_empty, PICKLE_DICT},
        ['d'] = {"DICT", op_collect, PICKLE_DICT},
        ['s'] = {"SETITEM", op_put_one, PICKLE_DICT},
        ['u'] = {"SETITEMS", op_put_all, PICKLE_DICT},
        ['q'] = {"BINPUT", op_put, 1},
        ['r'] = {"LONG_BINPUT", op_put, 4},
        [0x94] = {"MEMOIZE", op_memoize, 0},
        ['h'] = {"BINGET", op_get, 1},
        ['j'] = {"LONG_BINGET", op_get, 4},
        ['c'] = {"GLOBAL", NULL, 0},
        [0x93] = {"STACK_GLOBAL", NULL, 0},
        ['R'] = {"REDUCE", NULL, 0},
        ['b'] = {"BUILD", NULL, 0},
        ['i'] = {"INST", NULL, 0},
        ['o'] = {"OBJ", NULL, 0},
        [0x81] = {"NEWOBJ", NULL, 0},
        [0x92] = {"NEWOBJ_EX", NULL, 0},
        [0x82] = {"EXT1", NULL, 0},
        [0x83] = {"EXT2", NULL, 0},
        [0x84] = {"EXT4", NULL, 0},
        ['P'] = {"PERSID", NULL, 0},
        ['Q'] = {"BINPERSID", NULL, 0},
        [0x8f] = {"EMPTY_SET", NULL, 0},
        [0x90] = {"ADDITEMS", NULL, 0},
        [0x91] = {"FROZENSET", NULL, 0},
        [0x96] = {"BYTEARRAY8", NULL, 0},
        [0x97] = {"NEXT_BUFFER", NULL, 0},
        [0x98] = {"READONLY_BUFFER", NULL, 0},
};

static int run_next(struct machine *m)
{
    unsigned char code;

    m->began = m->at;
    if (m->at == m->length)
        return cut_off(m);
    if (m->length > UINT32_MAX)
        return pickle_refuse(m, "more than 4 GiB");
    code = m->bytes[m->at++];
    if (m->began == 0 && code != 0x80)
        return pickle_refuse(m, "no pickle of protocol 2 or later");
    if (!instructions[code].name)
        return pickle_refuse(m, "0x%02x is no instruction that a snapshot has", code);
    if (!instructions[code].run)
        return pickle_refuse(m, "%s makes something else than numbers, texts, lists and dicts",
                instructions[code].name);
    return instructions[code].run(m, instructions[code].argument);
}

int pickle_read(const unsigned char *bytes, size_t length, struct pickle *ret_pickle,
        struct pickle_error *ret_error)
{
    struct pickle pickle = {0};
    struct machine m = {.bytes = bytes, .length = length, .pickle = &pickle, .error = ret_error};
    size_t next = PROGRESS_BYTES;
    int r = 0;

    while (r == 0 && !m.has_stopped) {
        r = run_next(&m);
        if (m.at >= next) {
            progress_step(m.at, length);
            next = m.at + PROGRESS_BYTES;
        }
    }
    free(m.stack);
    free(m.memo);
    free(m.marks);
    if (r < 0)
        pickle_done(&pickle);
    *ret_pickle = pickle;
    return r;
}

void pickle_done(struct pickle *pickle)
{
    for (size_t i = 0; i < pickle->list_count; i++)
        free(pickle->lists[i].at);
    free(pickle->lists);
    *pickle = (struct pickle){0};
}

/* ---- looking at values ---- */

const struct pickle_value *pickle_items(
        const struct pickle *pickle, const struct pickle_value *list, size_t *ret_count)
{
    *ret_count = 0;
    if (!list || (list->kind != PICKLE_LIST && list->kind != PICKLE_DICT))
        return NULL;
    *ret_count = pickle->lists[list->u.list].count;
    return pickle->lists[list->u.list].at;
}

bool pickle_is(const struct pickle_value *value, const char *text)
{
    return value && value->kind == PICKLE_TEXT && strlen(text) == value->length
            && memcmp(value->u.text, text, value->length) == 0;
}

const struct pickle_value *pickle_get(
        const struct pickle *pickle, const struct pickle_value *dict, const char *key)
{
    size_t count;
    const struct pickle_value *items = pickle_items(pickle, dict, &count);

    if (!dict || dict->kind != PICKLE_DICT)
        return NULL;
    for (size_t i = count; i >= 2; i -= 2)
        if (pickle_is(&items[i - 2], key))
            return &items[i - 1];
    return NULL;
}

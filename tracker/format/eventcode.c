/* SPDX-License-Identifier: MIT */
#include "tracker/format/eventcode.h"

#include <stdbool.h>
#include <string.h>

/* The first four bytes of a record: its length (including these), its kind, and one bit for each
 * present field. An absent field has the value that its coding expects. */
#define KIND_SHIFT  8u
#define KIND_BITS   5u
#define FIELD_SHIFT (KIND_SHIFT + KIND_BITS)
#define FIELDS_MAX  (32u - FIELD_SHIFT)
#define HEAD_BYTES  4u

_Static_assert(FORMAT_EVENT_KIND_COUNT <= 1u << KIND_BITS, "a kind has five bits");

/*
 * The fields of each kind in the order of their bytes: F(coding, member, slot).
 *
 *     NEXT   expected: the slot's value + 1    stored: the difference
 *     STEP   expected: the slot's value        stored: the difference
 *     NEAR   as STEP                           stored: the difference; multiples of 512 in 512s
 *     ZERO   expected: 0                       stored: the value
 *     SIZE   expected: 0                       stored: the value; multiples of 512 in 512s
 *     LESS   expected: -1                      stored: the value + 1, of 32 bits
 *     AGO    expected: 0                       stored: the time before the record's time, signed
 */
#define FIELDS_OF_ALL(F)    \
    F(STEP, thread, THREAD) \
    F(NEXT, seq, SEQ)       \
    F(STEP, time_ns, TIME)

#define FIELDS_OF_ALLOC(F)              \
    F(NEAR, u.alloc.addr, ADDR)         \
    F(SIZE, u.alloc.size, NONE)         \
    F(STEP, u.alloc.stream, STREAM)     \
    F(STEP, u.alloc.stack, STACK)       \
    F(STEP, u.alloc.path, PATH)         \
    F(STEP, u.alloc.instance, INSTANCE) \
    F(ZERO, u.alloc.nth, NONE)          \
    F(STEP, u.alloc.pystack, PYSTACK)

#define FIELDS_OF_FREE(F)                  \
    F(NEAR, u.free.addr, ADDR)             \
    F(SIZE, u.free.size, NONE)             \
    F(STEP, u.free.stream, STREAM)         \
    F(STEP, u.free.stack, FREE_STACK)      \
    F(STEP, u.free.path, PATH)             \
    F(STEP, u.free.instance, INSTANCE)     \
    F(STEP, u.free.pystack, FREE_PYSTACK)  \
    F(AGO, u.free.uses.first_use, NONE)    \
    F(AGO, u.free.uses.last_use, NONE)     \
    F(ZERO, u.free.uses.longest_gap, NONE) \
    F(AGO, u.free.uses.gap_end, NONE)      \
    F(ZERO, u.free.use_count, NONE)        \
    F(ZERO, u.free.use_flags, NONE)

#define FIELDS_OF_EDGE(F)              \
    F(ZERO, u.edge.kind, NONE)         \
    F(STEP, u.edge.anchor, ANCHOR)     \
    F(STEP, u.edge.path, PATH)         \
    F(STEP, u.edge.instance, INSTANCE) \
    F(ZERO, u.edge.before_start, NONE)

#define FIELDS_OF_HINT(F)              \
    F(NEAR, u.hint.addr, ADDR)         \
    F(SIZE, u.hint.size, NONE)         \
    F(LESS, u.hint.rule, NONE)         \
    F(ZERO, u.hint.what, NONE)         \
    F(ZERO, u.hint.stack, NONE)        \
    F(STEP, u.hint.path, PATH)         \
    F(STEP, u.hint.instance, INSTANCE) \
    F(ZERO, u.hint.mode, NONE)         \
    F(ZERO, u.hint.result, NONE)       \
    F(ZERO, u.hint.pystack, NONE)

#define FIELDS_OF_RESERVED(F)      \
    F(STEP, u.reserved.heap, HEAP) \
    F(NEAR, u.reserved.bytes, HELD)

#define FIELDS_OF_OOM(F)              \
    F(SIZE, u.oom.size, NONE)         \
    F(SIZE, u.oom.free_bytes, NONE)   \
    F(SIZE, u.oom.largest_free, NONE) \
    F(STEP, u.oom.stack, STACK)       \
    F(STEP, u.oom.path, PATH)         \
    F(STEP, u.oom.instance, INSTANCE) \
    F(ZERO, u.oom.result, NONE)       \
    F(STEP, u.oom.pystack, PYSTACK)

#define FIELDS_OF_CALL(F)                   \
    F(STEP, u.call.name, CALL)              \
    F(STEP, u.call.path, CALL_PATH)         \
    F(STEP, u.call.instance, CALL_INSTANCE) \
    F(ZERO, u.call.arg[0], NONE)            \
    F(NEAR, u.call.addr[0], CALL_ADDR)      \
    F(ZERO, u.call.arg[1], NONE)            \
    F(NEAR, u.call.addr[1], CALL_ADDR)      \
    F(STEP, u.call.comm, CALL_COMM)         \
    F(LESS, u.call.peer, NONE)

#define FIELDS_OF_USE(F)            \
    F(STEP, u.use.block, USE_BLOCK) \
    F(ZERO, u.use.flags, NONE)

/* Every kind with its list: the only complete list of kinds. */
#define KINDS(K)          \
    K(ALLOC, ALLOC)       \
    K(FREE, FREE)         \
    K(EDGE, EDGE)         \
    K(HINT, HINT)         \
    K(RESERVED, RESERVED) \
    K(OOM, OOM)           \
    K(LAUNCH, CALL)       \
    K(OTHER_ALLOC, ALLOC) \
    K(OTHER_FREE, FREE)   \
    K(CALL, CALL)         \
    K(USE, USE)

/* NOLINTNEXTLINE(bugprone-macro-parentheses): one term of a sum */
#define COUNT_FIELD(coding, member, slot) +1
#define CHECK_KIND(kind, list)                                                               \
    _Static_assert(1 FIELDS_OF_ALL(COUNT_FIELD) FIELDS_OF_##list(COUNT_FIELD) <= FIELDS_MAX, \
            "too many fields");
KINDS(CHECK_KIND)

/* ---- numbers ---- */

static inline uint64_t fold(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unfold(uint64_t folded)
{
    return folded >> 1 ^ (0 - (folded & 1));
}

/* A value in units of 512 with a mark, or doubled; 0 = no bit is left for the mark. */
static inline uint64_t eventcode_mark(uint64_t value, uint64_t in_512, bool is_multiple)
{
    if (is_multiple)
        return in_512 << 1 | 1;
    return value >> 63 ? 0 : value << 1;
}

/* ---- writing ---- */

struct pen {
    unsigned char *at;
    uint32_t fields;
    uint32_t next; /* bit of the next field */
};

/* Writes a number of 1 to 9 bytes. The position of the lowest set bit of the first byte gives the
 * length: 1 for 7 bits of value, 2 for 14 ... and a byte of 0 before all 64. Always stores 8 bytes,
 * so there is no loop. */
static inline unsigned char *eventcode_put_number(unsigned char *at, uint64_t value)
{
    /* the position of the highest bit; written so that it is one instruction */
    unsigned top = 63u ^ (unsigned)__builtin_clzll(value | 1);
    unsigned more = (top * 37 + 3) >> 8; /* bytes after the first: top / 7, up to 55 */
    uint64_t word;

    if (__builtin_expect(top >= 56, 0)) {
        *at++ = 0;
        more = 7;
        word = value;
    } else {
        word = (value << 1 | 1) << more;
    }
    memcpy(at, &word, sizeof word);
    return at + more + 1;
}

static inline void eventcode_put_field(struct pen *pen, bool is_there, uint64_t kept)
{
    if (is_there) {
        pen->fields |= pen->next;
        pen->at = eventcode_put_number(pen->at, kept);
    }
    pen->next <<= 1;
}

static inline void eventcode_put_step(struct pen *pen, uint64_t value, uint64_t *slot)
{
    bool is_there = value != *slot;

    eventcode_put_field(pen, is_there, fold(value - *slot));
    if (is_there)
        *slot = value;
}

static inline void put_next(struct pen *pen, uint64_t value, uint64_t *slot)
{
    uint64_t expected = *slot + 1;

    eventcode_put_field(pen, value != expected, fold(value - expected));
    *slot = value;
}

/* A number without a bit for its mark follows a 0 unmarked. */
static inline void put_marked(struct pen *pen, bool is_there, uint64_t value, uint64_t marked)
{
    eventcode_put_field(pen, is_there, marked);
    if (__builtin_expect(is_there && marked == 0, 0)) {
        memcpy(pen->at, &value, sizeof value);
        pen->at += sizeof value;
    }
}

static inline void put_near(struct pen *pen, uint64_t value, uint64_t *slot)
{
    uint64_t difference = value - *slot;
    /* an arithmetic shift: keeps the sign */
    uint64_t in_512 = fold((uint64_t)((int64_t)difference >> 9));

    put_marked(pen, difference != 0, fold(difference),
            eventcode_mark(fold(difference), in_512, difference % 512 == 0));
    *slot = value;
}

static inline void put_size(struct pen *pen, uint64_t value)
{
    put_marked(pen, value != 0, value, eventcode_mark(value, value >> 9, value % 512 == 0));
}

#define PUT_NEXT(value, slot) put_next(&pen, (value), &code->last[EVENTCODE_##slot])
#define PUT_STEP(value, slot) eventcode_put_step(&pen, (value), &code->last[EVENTCODE_##slot])
#define PUT_NEAR(value, slot) put_near(&pen, (value), &code->last[EVENTCODE_##slot])
#define PUT_ZERO(value, slot) eventcode_put_field(&pen, (value) != 0, (value))
#define PUT_SIZE(value, slot) put_size(&pen, (value))
#define PUT_LESS(value, slot) eventcode_put_field(&pen, (value) != -1, (uint32_t)(value) + 1u)
#define PUT_AGO(value, slot)  eventcode_put_field(&pen, (value) != 0, fold(event->time_ns - (value)))

#define PUT_FIELD(coding, member, slot) PUT_##coding(event->member, slot);
#define PUT_KIND(kind, list)  \
    case FORMAT_EVENT_##kind: \
        FIELDS_OF_##list(PUT_FIELD) break;

size_t eventcode_put(struct eventcode *code, const struct format_event *event, unsigned char *to)
{
    uint32_t kind = event->head & 0xff;
    struct pen pen = {to + HEAD_BYTES, 0, 1u << FIELD_SHIFT};
    uint32_t word;

    FIELDS_OF_ALL(PUT_FIELD)
    PUT_STEP(event->head >> 8, FLAGS);
    switch (kind) {
        KINDS(PUT_KIND)
    default:
        return 0;
    }
    word = (uint32_t)(pen.at - to) | kind << KIND_SHIFT | pen.fields;
    memcpy(to, &word, sizeof word);
    return (size_t)(pen.at - to);
}

/* ---- reading ---- */

struct look {
    const unsigned char *at, *end;
    uint32_t fields; /* the lowest bit is the next field */
    bool is_bad;     /* the record ended too early */
};

static uint64_t get_word(struct look *look, unsigned bytes)
{
    uint64_t word = 0;

    if ((size_t)(look->end - look->at) < bytes) {
        look->is_bad = true;
        look->at = look->end;
        return 0;
    }
    memcpy(&word, look->at, bytes);
    look->at += bytes;
    return word;
}

static uint64_t eventcode_get_number(struct look *look)
{
    unsigned bytes;

    if (look->at == look->end || look->is_bad) {
        look->is_bad = true;
        return 0;
    }
    if (*look->at == 0) {
        look->at++;
        return get_word(look, 8);
    }
    bytes = (unsigned)__builtin_ctz(*look->at) + 1;
    return get_word(look, bytes) >> bytes;
}

/* True if the next field is present; *ret_kept is its number, or 0. */
static bool get_field(struct look *look, uint64_t *ret_kept)
{
    bool is_there = look->fields & 1;

    look->fields >>= 1;
    *ret_kept = is_there ? eventcode_get_number(look) : 0;
    return is_there;
}

static uint64_t get_step(struct look *look, uint64_t expected, uint64_t *slot)
{
    uint64_t kept;

    *slot = get_field(look, &kept) ? expected + unfold(kept) : expected;
    return *slot;
}

static uint64_t get_near(struct look *look, uint64_t *slot)
{
    uint64_t kept;

    if (!get_field(look, &kept))
        return *slot;
    if (kept & 1)
        *slot += unfold(kept >> 1) << 9;
    else
        *slot += unfold(kept ? kept >> 1 : get_word(look, 8));
    return *slot;
}

static uint64_t get_size(struct look *look)
{
    uint64_t kept;

    if (!get_field(look, &kept))
        return 0;
    if (kept & 1)
        return kept >> 1 << 9;
    return kept ? kept >> 1 : get_word(look, 8);
}

static uint64_t get_zero(struct look *look)
{
    uint64_t kept;

    return get_field(look, &kept) ? kept : 0;
}

static uint64_t get_ago(struct look *look, uint64_t time_ns)
{
    uint64_t kept;

    return get_field(look, &kept) ? time_ns - unfold(kept) : 0;
}

#define GET_NEXT(slot) \
    get_step(&look, code->last[EVENTCODE_##slot] + 1, &code->last[EVENTCODE_##slot])
#define GET_STEP(slot) get_step(&look, code->last[EVENTCODE_##slot], &code->last[EVENTCODE_##slot])
#define GET_NEAR(slot) get_near(&look, &code->last[EVENTCODE_##slot])
#define GET_ZERO(slot) get_zero(&look)
#define GET_SIZE(slot) get_size(&look)
#define GET_LESS(slot) (get_zero(&look) - 1)
#define GET_AGO(slot)  get_ago(&look, ret_event->time_ns)

/* File values are truncated to 32-bit fields: written values fit. */
#define GET_FIELD(coding, member, slot) \
    ret_event->member = (__typeof__(ret_event->member))GET_##coding(slot);
#define GET_KIND(kind, list)  \
    case FORMAT_EVENT_##kind: \
        FIELDS_OF_##list(GET_FIELD) break;

size_t eventcode_get(struct eventcode *code, const unsigned char *from, size_t left,
        struct format_event *ret_event)
{
    struct look look;
    uint32_t word, length, kind;
    uint32_t flags;

    memset(ret_event, 0, sizeof *ret_event);
    if (left < HEAD_BYTES)
        return 0;
    memcpy(&word, from, sizeof word);
    length = word & 0xff;
    kind = word >> KIND_SHIFT & ((1u << KIND_BITS) - 1);
    if (length < HEAD_BYTES || length > left)
        return 0;
    look = (struct look){from + HEAD_BYTES, from + length, word >> FIELD_SHIFT, false};
    FIELDS_OF_ALL(GET_FIELD)
    flags = (uint32_t)GET_STEP(FLAGS);
    switch (kind) {
        KINDS(GET_KIND)
    default:
        return look.is_bad ? 0 : length; /* of a later version of kedge */
    }
    ret_event->head = kind | flags << 8;
    return look.is_bad ? 0 : length;
}

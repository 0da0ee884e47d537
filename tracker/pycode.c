/* SPDX-License-Identifier: MIT */
#include "tracker/pycode.h"

#include "alloc/lock.h"
#include "alloc/meta.h"
#include "tracker/format.h"
#include "tracker/intern.h"
#include "tracker/numtable.h"
#include "tracker/pytext.h"
#include "tracker/site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* As in CPython: pylayout.c compares where a version says it. */
#define BYTES_LENGTH 16
#define BYTES_DATA   32

struct stamp {
    uint64_t stamp;
    uint32_t code;
    uint32_t spare;
};

/* What a new code object is compared with. */
struct code_key {
    struct pycode code; /* but for `lines` */
    const char *lines;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

/* guarded by lock for adding; entries below the counts are read by anyone */
static struct span code_span, line_span, stamp_span, node_span;
static size_t lines_used;
static uint32_t stamp_count;
static struct numtable code_table, stamp_table, node_table;

/* release when an entry is complete, acquire by readers */
static _Atomic uint32_t code_count, node_count;
static _Atomic uint64_t refused;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_ready; /* fixed by once */

static void reserve_all(void)
{
    is_ready = span_init(&code_span, ((size_t)PYCODE_CODES_MAX + 1) * sizeof(struct pycode)) == 0
            && span_init(&line_span, PYCODE_LINES_MAX) == 0
            && span_init(&stamp_span, ((size_t)PYCODE_STAMPS_MAX + 1) * sizeof(struct stamp)) == 0
            && span_init(&node_span, ((size_t)PYCODE_NODES_MAX + 1) * sizeof(struct pycode_node))
                    == 0;
}

static bool ready(void)
{
    (void)pthread_once(&once, reserve_all);
    return is_ready;
}

static uint32_t refuse(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    return 0;
}

/* ---- code objects --------------------------------------------------------------------------- */

static struct pycode *code_slot(uint32_t number)
{
    return (struct pycode *)(void *)code_span.base + number;
}

static bool same_code(uint32_t number, const void *key)
{
    const struct code_key *wanted = key;
    const struct pycode *have = code_slot(number);
    const struct pycode *code = &wanted->code;

    return have->name == code->name && have->qualname == code->qualname && have->file == code->file
            && have->first_line == code->first_line && have->table == code->table
            && have->lines_bytes == code->lines_bytes && have->is_cut == code->is_cut
            && memcmp(line_span.base + have->lines, wanted->lines, code->lines_bytes) == 0;
}

static uint32_t add_code_locked(const struct code_key *key, uint64_t hash)
{
    uint32_t number = atomic_load_explicit(&code_count, memory_order_relaxed) + 1;
    size_t end = lines_used + key->code.lines_bytes;
    struct pycode *slot;

    if (number > PYCODE_CODES_MAX || span_commit(&line_span, end) < 0
            || span_commit(&code_span, ((size_t)number + 1) * sizeof *slot) < 0)
        return refuse();
    slot = code_slot(number);
    *slot = key->code;
    slot->lines = lines_used;
    memcpy(line_span.base + lines_used, key->lines, key->code.lines_bytes);
    lines_used = end;
    /* Counted before it can be found: whoever finds a number may ask for what is behind it at once. */
    atomic_store_explicit(&code_count, number, memory_order_release);
    return numtable_add(&code_table, hash, number) == 0 ? number : refuse();
}

static uint32_t intern_text_of(const struct pylayout *at, const char *code, int32_t field)
{
    char text[INTERN_STRING_BYTES_MAX];
    const char *object;

    if (field == PYLAYOUT_NONE)
        return 0;
    memcpy(&object, code + field, sizeof object);
    return intern_string(text, pytext_utf8(at, object, text, sizeof text));
}

static uint32_t intern_code(const char *code)
{
    const struct pylayout *at = pyframe_layout();
    struct code_key key = {.code = {.table = (uint16_t)at->table}};
    const char *lines;
    uint64_t length, hash;
    uint32_t number;

    if (!pyframe_is_code(code)) {
        pyframe_refuse("its code objects are not laid out as in the versions that are known");
        return refuse();
    }
    key.code.name = intern_text_of(at, code, at->code_name);
    key.code.qualname = intern_text_of(at, code, at->code_qualname);
    key.code.file = intern_text_of(at, code, at->code_filename);
    memcpy(&key.code.first_line, code + at->code_first, sizeof key.code.first_line);
    memcpy(&lines, code + at->code_lines, sizeof lines);
    memcpy(&length, lines + BYTES_LENGTH, sizeof length);
    key.code.is_cut = length > FORMAT_PYLINES_MAX;
    key.code.lines_bytes = key.code.is_cut ? FORMAT_PYLINES_MAX : (uint32_t)length;
    key.lines = lines + BYTES_DATA;
    hash = site_frame((uint64_t)key.code.name << 32 | key.code.file,
            site_hash(key.lines, key.code.lines_bytes, (uint32_t)key.code.first_line));
    number = numtable_find(&code_table, hash, same_code, &key);
    if (number != 0)
        return number;
    lock_take(&lock);
    number = numtable_find(&code_table, hash, same_code, &key);
    if (number == 0)
        number = add_code_locked(&key, hash);
    lock_drop(&lock);
    return number;
}

static bool same_stamp(uint32_t number, const void *key)
{
    return ((struct stamp *)(void *)stamp_span.base + number)->stamp == *(const uint64_t *)key;
}

/* Forgetting is harmless: the code object is read again next time. */
static void remember(uint64_t stamp, uint32_t code)
{
    lock_take(&lock);
    if (stamp_count < PYCODE_STAMPS_MAX
            && numtable_find(&stamp_table, stamp, same_stamp, &stamp) == 0
            && span_commit(&stamp_span, ((size_t)stamp_count + 2) * sizeof(struct stamp)) == 0) {
        *((struct stamp *)(void *)stamp_span.base + stamp_count + 1) =
                (struct stamp){.stamp = stamp, .code = code};
        if (numtable_add(&stamp_table, stamp, stamp_count + 1) == 0)
            stamp_count++;
    }
    lock_drop(&lock);
}

static uint32_t code_number(const struct pyframe *frame)
{
    uint32_t known = numtable_find(&stamp_table, frame->stamp, same_stamp, &frame->stamp);
    uint32_t number;

    if (known != 0)
        return ((struct stamp *)(void *)stamp_span.base + known)->code;
    number = intern_code(frame->code);
    if (number != 0)
        remember(frame->stamp, number);
    return number;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static struct pycode_node *node_slot(uint32_t number)
{
    return (struct pycode_node *)(void *)node_span.base + number;
}

static bool same_node(uint32_t number, const void *key)
{
    return memcmp(node_slot(number), key, sizeof(struct pycode_node)) == 0;
}

static uint32_t add_node_locked(const struct pycode_node *key, uint64_t hash)
{
    uint32_t number = atomic_load_explicit(&node_count, memory_order_relaxed) + 1;

    if (number > PYCODE_NODES_MAX
            || span_commit(&node_span, ((size_t)number + 1) * sizeof *key) < 0)
        return refuse();
    *node_slot(number) = *key;
    atomic_store_explicit(&node_count, number, memory_order_release);
    return numtable_add(&node_table, hash, number) == 0 ? number : refuse();
}

static uint32_t node_number(const struct pycode_node *key)
{
    uint64_t hash = site_frame((uint64_t)key->parent << 32 | key->code,
            (uint64_t)(uint32_t)key->lasti << 1 | key->is_entry);
    uint32_t number = numtable_find(&node_table, hash, same_node, key);

    if (number != 0)
        return number;
    lock_take(&lock);
    number = numtable_find(&node_table, hash, same_node, key);
    if (number == 0)
        number = add_node_locked(key, hash);
    lock_drop(&lock);
    return number;
}

uint32_t pycode_stack(const struct pyframe *frames, unsigned count)
{
    uint32_t leaf = 0;

    if (count == 0)
        return 0;
    if (!ready())
        return refuse();
    for (unsigned i = count; i-- > 0;) {
        struct pycode_node key = {.parent = leaf,
                .code = code_number(&frames[i]),
                .lasti = frames[i].lasti,
                .is_entry = frames[i].is_entry};

        leaf = key.code ? node_number(&key) : 0;
        if (leaf == 0)
            return 0; /* refused: half a stack would be a wrong one */
    }
    return leaf;
}

bool pycode_at(uint32_t number, struct pycode *ret_code, const char **ret_lines)
{
    if (number == 0 || number > atomic_load_explicit(&code_count, memory_order_acquire))
        return false;
    *ret_code = *code_slot(number);
    *ret_lines = line_span.base + ret_code->lines;
    return true;
}

bool pycode_node_at(uint32_t number, struct pycode_node *ret_node)
{
    if (number == 0 || number > atomic_load_explicit(&node_count, memory_order_acquire))
        return false;
    *ret_node = *node_slot(number);
    return true;
}

void pycode_counts(struct pycode_counts *ret_counts)
{
    /* Nodes first: what they name was added before them, so the later counts cover it. */
    ret_counts->nodes = atomic_load_explicit(&node_count, memory_order_acquire);
    ret_counts->codes = atomic_load_explicit(&code_count, memory_order_acquire);
    ret_counts->refused = atomic_load_explicit(&refused, memory_order_relaxed);
}

void pycode_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
}

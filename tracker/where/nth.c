/* SPDX-License-Identifier: MIT */
#include "tracker/where/nth.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/where/anchor.h"

#include <stdatomic.h>
#include <stdbool.h>

#define FIRST_SLOTS 4096u
#define RETRY_AFTER \
    4096u /* anchors that must pass before a table of maximum size is rebuilt again */

struct slot {
    uint64_t site;
    uint64_t size;
    uint32_t anchor;
    uint32_t count; /* 0 = empty */
};

/* In one allocation: a child forked while another thread replaces it has the old or the new. */
struct table {
    uint32_t count; /* of slots; a power of two */
    uint32_t used;
    struct slot slot[];
};

/* The open anchors: their counts must be kept. */
struct open_anchors {
    struct edge *edge;
    size_t bytes;
    size_t count;
    bool is_known;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

/* guarded by lock: */
static struct table *table;
static uint32_t newest_anchor;
static uint32_t retry_at; /* no rebuild before this anchor; 0 = any time */
static uint64_t rebuilds;

static _Atomic uint64_t lost;

static uint32_t start_of(uint32_t anchor, uint64_t site, uint64_t size)
{
    uint64_t hash =
            (site ^ size * UINT64_C(0xbf58476d1ce4e5b9) ^ anchor) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(hash >> 32);
}

static inline struct slot *nth_find_locked(struct table *in, const struct slot *key)
{
    struct slot *slot = in->slot;
    uint32_t mask = in->count - 1;
    uint32_t i = start_of(key->anchor, key->site, key->size) & mask;

    while (slot[i].count != 0
            && (slot[i].anchor != key->anchor || slot[i].site != key->site
                    || slot[i].size != key->size))
        i = (i + 1) & mask;
    return &slot[i];
}

static bool nth_has_room(const struct table *in)
{
    return in->used < in->count / 4 * 3;
}

static size_t nth_bytes_of(uint32_t count)
{
    return sizeof(struct table) + count * sizeof(struct slot);
}

static void ask_open(struct open_anchors *open)
{
    open->bytes = ANCHOR_OPEN_MAX * sizeof *open->edge;
    open->edge = meta_map(open->bytes);
    if (!open->edge)
        return;
    open->count = anchor_open_ranges(open->edge, ANCHOR_OPEN_MAX);
    open->is_known = open->count <= ANCHOR_OPEN_MAX;
}

/* Anchors opened after the query are newer than all that were open then; they are kept, too. */
static bool nth_is_kept(const struct open_anchors *open, uint32_t anchor, uint32_t newest_asked)
{
    size_t low = 0;
    size_t high = open->count;

    if (!open->is_known || anchor == 0 || anchor > newest_asked)
        return true;
    while (low < high) { /* in the order of entering, so their numbers ascend */
        size_t middle = low + (high - low) / 2;

        if (open->edge[middle].anchor == anchor)
            return true;
        if (open->edge[middle].anchor < anchor)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static uint32_t survivors_locked(const struct open_anchors *open, uint32_t newest_asked)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; table && i < table->count; i++)
        if (table->slot[i].count != 0 && nth_is_kept(open, table->slot[i].anchor, newest_asked))
            kept++;
    return kept;
}

static void move_locked(struct table *to, const struct open_anchors *open, uint32_t newest_asked)
{
    for (uint32_t i = 0; table && i < table->count; i++) {
        const struct slot *slot = &table->slot[i];

        if (slot->count == 0 || !nth_is_kept(open, slot->anchor, newest_asked))
            continue;
        *nth_find_locked(to, slot) = *slot;
        to->used++;
    }
}

/* Makes space: drops the closed anchors, and grows if that is not enough. Called and returns
 * without the lock. */
static void rebuild(uint32_t newest_asked, uint64_t seen)
{
    struct open_anchors open = {0};
    struct table *old = NULL;
    struct table *to = NULL;
    uint32_t wanted = FIRST_SLOTS;
    uint32_t kept;

    ask_open(&open);
    lock_take(&lock);
    if (rebuilds == seen) {
        kept = survivors_locked(&open, newest_asked);
        while (wanted < NTH_SLOTS_MAX && kept >= wanted / 2)
            wanted *= 2;
        /* At maximum size a scan of the whole table pays only after many anchors. */
        retry_at = wanted == NTH_SLOTS_MAX ? newest_asked + RETRY_AFTER : 0;
        to = kept < wanted / 4 * 3 ? meta_map(nth_bytes_of(wanted)) : NULL;
    }
    if (to) {
        to->count = wanted;
        move_locked(to, &open, newest_asked);
        old = table;
        __atomic_store_n(&table, to, __ATOMIC_RELEASE);
        rebuilds++;
    }
    lock_drop(&lock);
    if (old)
        meta_unmap(old, nth_bytes_of(old->count));
    if (open.edge)
        meta_unmap(open.edge, open.bytes);
}

/* The first of its key, or there is no table yet; unless another thread was faster. */
static __attribute__((noinline)) uint32_t count_first(uint32_t anchor, uint64_t site, uint64_t size)
{
    struct slot key = {.site = site, .size = size, .anchor = anchor, .count = 1};
    uint32_t before = NTH_UNKNOWN;

    for (unsigned attempt = 0; attempt < 2; attempt++) {
        struct slot *slot;
        uint32_t newest;
        uint64_t seen;
        bool may_rebuild;

        lock_take(&lock);
        if (anchor > newest_anchor)
            newest_anchor = anchor;
        newest = newest_anchor;
        seen = rebuilds;
        may_rebuild = attempt == 0 && newest >= retry_at;
        slot = table ? nth_find_locked(table, &key) : NULL;
        if (slot && slot->count != 0) {
            before = slot->count;
            slot->count += slot->count < NTH_UNKNOWN - 1;
        } else if (slot && nth_has_room(table)) {
            before = 0;
            *slot = key;
            table->used++;
        }
        lock_drop(&lock);
        if (before != NTH_UNKNOWN)
            return before;
        if (!may_rebuild)
            break;
        rebuild(newest, seen);
    }
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return NTH_UNKNOWN;
}

uint32_t nth_count(uint32_t anchor, uint64_t site, uint64_t size)
{
    struct slot key = {.site = site, .size = size, .anchor = anchor};
    uint32_t before = 0;

    lock_take_leaf(&lock);
    if (__builtin_expect(table != NULL, 1)) {
        struct slot *slot = nth_find_locked(table, &key);

        before = slot->count;
        slot->count += before > 0 && before < NTH_UNKNOWN - 1;
    }
    lock_drop_leaf(&lock);
    return __builtin_expect(before != 0, 1) ? before : count_first(anchor, site, size);
}

uint64_t nth_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

uint32_t nth_used(void)
{
    uint32_t now;

    lock_take(&lock);
    now = table ? table->used : 0;
    lock_drop(&lock);
    return now;
}

void nth_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
}

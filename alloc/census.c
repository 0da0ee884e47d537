/* SPDX-License-Identifier: MIT */
#include "alloc/census.h"

#include "alloc/block.h"
#include "alloc/heap.h"
#include "alloc/holder.h"
#include "alloc/pin.h"
#include "alloc/segment.h"
#include "alloc/tally.h"

#include <errno.h>

/* ── figures ── */

static void add_tally(struct pool_stats *to, const struct tally *tally)
{
    to->live_count += tally->live_count;
    to->live_requested += tally->live_requested;
    to->live_rounded += tally->live_rounded;
    to->used += tally->used;
    to->stored += tally->stored;
    to->reserved += tally->reserved;
    to->pending += tally->pending;
    to->quarantined += tally->kept;
    to->limbo += tally->limbo;
    to->husk += tally->husk;
    to->cached += tally->cached;
    to->used_high += tally->used_high;
    to->stored_high += tally->stored_high;
    to->reserved_high += tally->reserved_high;
    to->quarantined_high += tally->kept_high;
}

static uint64_t free_bytes(const struct heap *heap)
{
    uint64_t bytes = heap->small.bytes + heap->clean.bytes + heap->fragments.bytes
            + heap->idle.bytes + heap->recent_bytes;

    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        bytes += at->fit.bytes + at->fragments.bytes;
    return bytes;
}

static void add_heap(struct pool_stats *to, const struct heap *heap)
{
    add_tally(to, &heap->tally);
    to->free += free_bytes(heap);
    to->allocs += heap->allocs;
    to->frees += heap->frees;
    to->misses += heap->misses;
}

void census_heap(const struct heap *heap, struct pool_stats *ret)
{
    *ret = (struct pool_stats){.grows = heap->grows};
    add_heap(ret, heap);
    ret->hits = ret->allocs - ret->misses;
}

/* What has marks of its own on the device: the highest of a sum is not the sum of the highest. */
static void set_device(struct pool_stats *to, const struct device *from)
{
    to->live_requested_high += from->live_requested_high;
    to->stored_high += from->stored_high;
    to->reserved_high += from->reserved_high;
}

void census_device(struct pool *pool, int device, struct pool_stats *ret)
{
    *ret = pool->counters;
    ret->driver_calls = atomic_load_explicit(&pool->driver_calls, memory_order_relaxed);
    for (const struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap)) {
        if (device < 0 || heap->device->number == device)
            add_heap(ret, heap);
    }
    ret->stored_high = 0;
    ret->reserved_high = 0;
    for (int i = 0; i < POOL_DEVICES_MAX; i++) {
        if (device < 0 || device == i)
            set_device(ret, &pool->devices[i]);
    }
    ret->hits = ret->allocs - ret->misses;
}

/* ── invariants ── */

/* What the walk has counted of one heap, to be compared with the books. */
struct count {
    struct tally tally;
    uint32_t free_blocks; /* FREE, DECOMMITTED and IDLE */
    uint32_t holders;
    uint32_t released;
    uint32_t pinned;
    uint32_t pending; /* blocks in the open chain or epochs */
    bool busy;        /* a block or the heap is in a driver call: storage cannot be counted */
};

/* The first broken thing is the one that is told. */
static bool broken(bool is_broken, const char *text, const char **ret_what)
{
    if (is_broken)
        *ret_what = text;
    return is_broken;
}

static int check_holder(
        struct pool *pool, uint32_t index, struct count *count, const char **ret_what) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct holder *holder = holder_at(pool, block->holder);
    bool on_way = holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO;

    count->holders++;
    if (broken(holder->block != index, "a holder names another block", ret_what)
            || broken(holder->state == HOLDER_GONE && !holder->freed,
                    "a holder is gone without a free", ret_what))
        return -EINVAL;
    if (broken(block->state == BLOCK_LIVE && holder->freed, "a live block is freed in its holder",
                ret_what))
        return -EINVAL;
    if (broken(holder->mode != HINT_SHADOW && !(block->flags & BLOCK_HINTED),
                "a hint acts on a block that has no handle of its own", ret_what))
        return -EINVAL;
    if (holder_is_released(holder))
        count->released++;
    if (holder->mode != HINT_SHADOW && on_way)
        count->tally.limbo += block->node.size;
    if (holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK)
        count->tally.husk += block->node.size;
    return 0;
}

static void count_live(
        struct pool *pool, const struct block *block, struct count *count) POOL_LOCKED
{
    uint64_t requested = block->node.size - block->slack;

    count->tally.live_count++;
    count->tally.live_requested += requested;
    count->tally.live_rounded += block->node.size;
    count->tally.used += round_up(requested, 512);
    if (tally_is_stored(pool, block))
        count->tally.stored += block->node.size;
}

static bool is_alike(const struct heap *heap, const struct block *a, const struct block *b)
{
    if (a->state == BLOCK_DECOMMITTED && b->state == BLOCK_DECOMMITTED)
        return true;
    return a->state == BLOCK_FREE && b->state == BLOCK_FREE
            && !((a->flags | b->flags) & BLOCK_RECENT)
            && (a->stream == b->stream || (heap->stream_count <= 1 && (!a->stream || !b->stream)));
}

static int check_place(struct pool *pool, uint32_t number, uint32_t index, devptr_t at,
        const char **ret_what) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    const struct block *block = block_at(pool, index);
    const struct block *next = block_at(pool, block->next);

    if (broken(block->segment != number, "a block names another segment", ret_what)
            || broken(block->node.base != at, "blocks do not follow each other", ret_what)
            || broken(block->node.size == 0 || block->node.size % BESTFIT_QUANTUM,
                    "a block has an odd size", ret_what)
            || broken(starts_at(&segment->starts, at - segment->base) != index,
                    "a block cannot be looked up", ret_what)
            || broken(block_find(pool, at + block->node.size - 1) != index,
                    "an interior look-up fails", ret_what))
        return -EINVAL;
    if (!block->next) {
        if (broken(segment->last != index, "the last block is another", ret_what))
            return -EINVAL;
        return 0;
    }
    if (broken(next->prev != index || is_alike(segment->heap, block, next),
                "neighbours do not agree, or are free and not one", ret_what))
        return -EINVAL;
    return 0;
}

static int check_block(
        struct pool *pool, uint32_t index, struct count *count, const char **ret_what) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    count->pinned += block->flags & BLOCK_PINNED ? 1 : 0;
    if (block->holder && (block->state == BLOCK_LIVE || block->state == BLOCK_PENDING)) {
        if (check_holder(pool, index, count, ret_what) != 0)
            return -EINVAL;
    }
    switch ((enum block_state)block->state) {
    case BLOCK_LIVE:
        count_live(pool, block, count);
        return 0;
    case BLOCK_FREE:
    case BLOCK_DECOMMITTED:
    case BLOCK_IDLE:
        count->free_blocks++;
        return 0;
    case BLOCK_PENDING:
        if (!block->holder && !(block->flags & BLOCK_GONE))
            count->tally.pending += block->node.size;
        return 0;
    case BLOCK_KEPT:
        count->tally.kept += block->node.size;
        return 0;
    case BLOCK_BUSY:
        count->busy = true;
        return 0;
    default:
        *ret_what = "a block has no state";
        return -EINVAL;
    }
}

static void count_storage(
        struct pool *pool, const struct segment *segment, struct count *count) POOL_LOCKED
{
    if (segment->kind == SEGMENT_PLAIN)
        count->tally.reserved += segment->raw_size;
    if (segment->kind == SEGMENT_ARENA) {
        for (uint64_t at = 0; at < segment->top / segment->slot; at++)
            count->tally.reserved += segment->handles[at] ? segment->slot : 0;
    }
    if (segment->kind == SEGMENT_HINT) {
        for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
            const struct bestfit_node *node = &block_at(pool, at)->node;

            if (segment->handles[(node->base - segment->base) / segment->slot])
                count->tally.reserved += node->size;
        }
    }
}

static int check_segment(
        struct pool *pool, uint32_t number, struct count *count, const char **ret_what) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    devptr_t at = segment->base;
    uint64_t live = count->tally.live_count;

    if (broken(segment->base % GRANULE_SIZE || segment->top % GRANULE_SIZE,
                "a segment does not lie on granules", ret_what))
        return -EINVAL;
    for (uint32_t index = segment->first; index; index = block_at(pool, index)->next) {
        if (check_place(pool, number, index, at, ret_what) != 0
                || check_block(pool, index, count, ret_what) != 0)
            return -EINVAL;
        at += block_at(pool, index)->node.size;
    }
    if (broken(at != segment->base + segment->top, "blocks do not fill their segment", ret_what)
            || broken(segment->tenants != count->tally.live_count - live, "tenants are miscounted",
                    ret_what))
        return -EINVAL;
    if (broken(segment->top && granule_segment(&pool->granules, at - 1) != number,
                "a segment cannot be looked up", ret_what))
        return -EINVAL;
    count_storage(pool, segment, count);
    return 0;
}

/* Blocks in recent slots: flagged, FREE, of the class. Returns how many, UINT32_MAX if one is wrong. */
static uint32_t count_recent(struct pool *pool, const uint32_t *slots, uint32_t stream) POOL_LOCKED
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < FREECACHE_SLOTS; i++) {
        for (uint32_t at = slots[i]; at; at = block_at(pool, at)->node.left) {
            const struct block *block = block_at(pool, at);

            if (block->state != BLOCK_FREE || !(block->flags & BLOCK_RECENT)
                    || block->stream != stream
                    || block->node.size != block_at(pool, slots[i])->node.size)
                return UINT32_MAX;
            count++;
        }
    }
    return count;
}

static int check_recent(
        struct pool *pool, const struct heap *heap, const char **ret_what) POOL_LOCKED
{
    uint64_t count = count_recent(pool, heap->recent_small, 0);

    count += count_recent(pool, heap->recent_clean, 0);
    if (heap->large) {
        const struct block *held = block_at(pool, heap->large);

        count += held->state == BLOCK_FREE && held->flags & BLOCK_RECENT ? 1 : UINT32_MAX;
    }
    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        count += count_recent(pool, at->recent, at->stream);
    if (broken(count != heap->recent_count, "recent blocks are miscounted", ret_what))
        return -EINVAL;
    return 0;
}

static int check_fits(const struct heap *heap, const struct count *count, const char **ret_what)
{
    const struct bestfit *fits[] = {&heap->small, &heap->clean, &heap->fragments,
            &heap->decommitted, &heap->hint_decommitted, &heap->idle, &heap->sealed};
    uint32_t blocks = heap->recent_count;

    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        if (broken(bestfit_check(fits[i]) != 0, "an index of free blocks is broken", ret_what))
            return -EINVAL;
        blocks += fits[i]->count;
    }
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        if (broken(bestfit_check(&at->fit) != 0 || bestfit_check(&at->fragments) != 0,
                    "an index of a stream is broken", ret_what))
            return -EINVAL;
        blocks += heap_class_count(at);
    }
    if (broken(blocks != count->free_blocks, "free blocks are missing from their index", ret_what))
        return -EINVAL;
    return 0;
}

static int compare(const struct heap *heap, const struct count *count, const char **ret_what)
{
    const struct tally *is = &heap->tally;
    const struct tally *should = &count->tally;

    if (broken(is->live_count != should->live_count || is->live_requested != should->live_requested
                        || is->live_rounded != should->live_rounded || is->used != should->used,
                "live blocks are miscounted", ret_what)
            || broken(is->stored != should->stored, "stored bytes are miscounted", ret_what)
            || broken(is->limbo != should->limbo, "limbo bytes are miscounted", ret_what)
            || broken(is->husk != should->husk, "husk bytes are miscounted", ret_what)
            || broken(!count->busy && is->pending != should->pending,
                    "pending bytes are miscounted", ret_what))
        return -EINVAL;
    if (broken(!count->busy && is->kept != should->kept, "quarantined bytes are miscounted",
                ret_what))
        return -EINVAL;
    if (broken(!count->busy && is->reserved != should->reserved + is->cached,
                "held bytes are miscounted", ret_what))
        return -EINVAL;
    return 0;
}

static int check_heap(
        struct pool *pool, struct heap *heap, struct count *sum, const char **ret_what) POOL_LOCKED
{
    struct count count = {.busy = heap->busy > 0};
    uint64_t cached = 0;

    for (uint32_t number = heap->segments; number; number = segment_at(pool, number)->next) {
        if (!segment_at(pool, number)->dead && check_segment(pool, number, &count, ret_what) != 0)
            return -EINVAL;
    }
    for (const struct shelf *shelf = table_next(&heap->shelves, NULL); shelf;
            shelf = table_next(&heap->shelves, shelf))
        cached += shelf->size * shelf->count;
    if (broken(cached != heap->tally.cached, "the shelf is miscounted", ret_what))
        return -EINVAL;
    if (check_fits(heap, &count, ret_what) != 0 || check_recent(pool, heap, ret_what) != 0
            || compare(heap, &count, ret_what) != 0)
        return -EINVAL;
    sum->holders += count.holders;
    sum->pinned += count.pinned;
    sum->released += count.released;
    sum->busy = sum->busy || count.busy;
    return 0;
}

static int check_chain(
        struct pool *pool, const struct fence_chain *chain, const char **ret_what) POOL_LOCKED
{
    uint32_t count = 0;
    uint32_t last = 0;
    uint64_t bytes = 0;

    for (uint32_t at = chain->head; at; at = block_at(pool, at)->chain) {
        const struct block *block = block_at(pool, at);

        if (broken(count++ > chain->count, "a chain has a ring", ret_what))
            return -EINVAL;
        if (broken(block->state != BLOCK_PENDING && !block->holder,
                    "a chain holds what is not freed", ret_what))
            return -EINVAL;
        bytes += block->node.size;
        last = at;
    }
    if (broken(count != chain->count || bytes != chain->bytes || last != chain->tail,
                "a chain is miscounted", ret_what))
        return -EINVAL;
    return 0;
}

static int check_timelines(struct pool *pool, const char **ret_what) POOL_LOCKED
{
    uint64_t number = pool->epochs.passed;
    uint64_t bytes = 0;
    uint32_t marks = 0;

    if (check_chain(pool, &pool->open, ret_what) != 0
            || check_chain(pool, &pool->removals, ret_what) != 0)
        return -EINVAL;
    for (const struct fence_mark *mark = pool->epochs.first; mark; mark = mark->next) {
        if (broken(mark->number <= number, "epochs are out of order", ret_what))
            return -EINVAL;
        number = mark->number;
        bytes += mark->chain.bytes;
        marks++;
        if (check_chain(pool, &mark->chain, ret_what) != 0)
            return -EINVAL;
    }
    if (broken(bytes != pool->waiting_bytes || marks != pool->epochs.marks, "epochs are miscounted",
                ret_what))
        return -EINVAL;
    return 0;
}

/* Every record is of a block that says so, and that the program holds or that is kept. */
static int check_pins(struct pool *pool, const struct count *sum, const char **ret_what) POOL_LOCKED
{
    for (const struct pin *pin = table_next(&pool->pins, NULL); pin;
            pin = table_next(&pool->pins, pin)) {
        const struct block *block = block_at(pool, (uint32_t)pin->block);

        if (broken(!(block->flags & BLOCK_PINNED)
                            || (block->state != BLOCK_LIVE && block->state != BLOCK_KEPT),
                    "a pin is on a block that is free", ret_what))
            return -EINVAL;
    }
    if (broken(!sum->busy && sum->pinned != pool->pins.count, "a pinned block has no record",
                ret_what))
        return -EINVAL;
    return 0;
}

static int check_due(struct pool *pool, const char **ret_what) POOL_LOCKED
{
    size_t rules = pool->due ? hint_count(pool->hints) : 0;

    for (size_t rule = 0; rule < rules; rule++) {
        uint32_t before = 0;

        for (uint32_t at = pool->due[rule]; at; at = holder_at(pool, at)->next) {
            const struct holder *holder = holder_at(pool, at);

            if (broken(holder->rule != (int)rule || holder->prev != before
                                || holder->state != HOLDER_LIVE,
                        "a list of expected edges is broken", ret_what))
                return -EINVAL;
            before = at;
        }
    }
    return 0;
}

/* Holders under grace are those of blocks that name them. */
static int check_graces(struct pool *pool, const char **ret_what) POOL_LOCKED
{
    for (const struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        uint32_t next;

        for (uint32_t at = grace->holders; at; at = next) {
            const struct holder *holder = holder_at(pool, at);

            next = holder->next;
            if (broken(holder->state != HOLDER_DEAD || block_at(pool, holder->block)->holder != at,
                        "a grace names a holder that is not dead", ret_what))
                return -EINVAL;
        }
    }
    return 0;
}

int census_check(struct pool *pool, const char **ret_what)
{
    struct count sum = {.busy = false};
    uint64_t reserved = 0;
    uint64_t devices = 0;

    for (struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap)) {
        if (!heap->dropped && check_heap(pool, heap, &sum, ret_what) != 0)
            return -EINVAL;
        reserved += heap->tally.reserved;
        sum.busy = sum.busy || (heap->leaving && heap->busy);
    }
    for (int i = 0; i < POOL_DEVICES_MAX; i++)
        devices += pool->devices[i].reserved;
    if (broken(!sum.busy && devices != reserved, "a device's held bytes are not those of its heaps",
                ret_what))
        return -EINVAL;
    if (broken(!sum.busy && sum.holders != pool->holders.used, "a holder has no block", ret_what)
            || broken(sum.released
                            != atomic_load_explicit(&pool->gate.released, memory_order_relaxed),
                    "released ranges are miscounted", ret_what))
        return -EINVAL;
    if (check_pins(pool, &sum, ret_what) != 0 || check_timelines(pool, ret_what) != 0)
        return -EINVAL;
    if (check_graces(pool, ret_what) != 0)
        return -EINVAL;
    return check_due(pool, ret_what);
}

/* SPDX-License-Identifier: MIT */
#include "alloc/storage/headroom.h"

#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/census.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/swapset.h"
#include "alloc/heap/tally.h"

/* Free neighbours, and the whole slots inside them that are not yet counted. */
struct run {
    devptr_t lo, hi;  /* 0, 0 = none */
    devptr_t counted; /* slots below this are counted as waiting, or are not part of the run */
    uint64_t waiting; /* bytes */
};

static void end_run(struct run *run, const struct segment *segment, struct pool_room *ret)
{
    struct slots slots = slots_between(segment, run->lo, run->hi);
    uint64_t waiting = run->waiting;

    if (slots_bytes(slots) > 0) {
        /* The last slot with pending work may reach beyond the run: then it is not a whole slot of
         * the run. */
        if (run->counted > slots.hi)
            waiting -= run->counted - slots.hi;
        ret->remappable_waiting += waiting;
        ret->remappable += slots_bytes(slots) - waiting;
    }
    *run = (struct run){.lo = 0};
}

/* Adds a free block to a run; a block with pending work makes all its slots wait. */
static void headroom_add_block(
        struct pool *pool, const struct block *block, uint64_t slot, struct run *run) POOL_LOCKED
{
    devptr_t lo = block->node.base;
    devptr_t hi = lo + block->node.size;

    if (run->hi != lo)
        *run = (struct run){.lo = lo, .counted = round_up(lo, slot)};
    run->hi = hi;
    if (streams_class_of(pool, block->stream, block->seq) == 0)
        return;
    lo &= ~(slot - 1);
    hi = round_up(hi, slot);
    if (lo < run->counted)
        lo = run->counted;
    if (hi > lo) {
        run->waiting += hi - lo;
        run->counted = hi;
    }
}

static void measure_arena(
        struct pool *pool, const struct segment *segment, struct pool_room *ret) POOL_LOCKED
{
    struct run run = {.lo = 0};

    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        if (block->state == BLOCK_FREE)
            headroom_add_block(pool, block, segment->slot, &run);
        else if (run.hi)
            end_run(&run, segment, ret);
    }
    if (run.hi)
        end_run(&run, segment, ret);
}

static void raise_to_largest(
        const struct pool *pool, const struct bestfit *fit, struct pool_room *ret) POOL_LOCKED
{
    uint32_t index = bestfit_largest(fit);

    if (index)
        tally_raise(&ret->largest_free, block_at(pool, index)->node.size);
}

static void measure_heap(struct pool *pool, struct heap *heap, struct pool_room *ret) POOL_LOCKED
{
    struct pool_stats stats;

    if (heap->kind != HEAP_MAPPED) {
        census_heap(heap, &stats);
        ret->free_sync += stats.free;
    }
    freecache_settle(pool, heap);
    raise_to_largest(pool, &heap->small, ret);
    raise_to_largest(pool, &heap->clean, ret);
    raise_to_largest(pool, &heap->fragments, ret);
    raise_to_largest(pool, &heap->idle, ret);
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        raise_to_largest(pool, &at->fit, ret);
        raise_to_largest(pool, &at->fragments, ret);
    }
    ret->remappable += heap->idle.bytes;
    for (uint32_t number = heap->segments; number; number = segment_at(pool, number)->next) {
        const struct segment *segment = segment_at(pool, number);

        if (segment->kind == SEGMENT_ARENA && !segment->dead)
            measure_arena(pool, segment, ret);
    }
}

void headroom_measure(struct pool *pool, int device, struct pool_room *ret)
{
    ret->free_sync = 0;
    ret->largest_free = 0;
    ret->remappable = 0;
    ret->remappable_waiting = 0;
    for (struct heap *heap = pool->heaps; heap; heap = heap->next) {
        if (heap->device->number == device)
            measure_heap(pool, heap, ret);
    }
}

/* ── the most for one request ── */

/* True for a stored block that is free, or will be when its pending work has completed. A block
 * held by a hint counts, since it would be free without the hint (R84, answers without hints). */
static bool is_coming(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    return block->state == BLOCK_FREE
            || (block->state == BLOCK_PENDING && !(block->flags & BLOCK_GONE))
            || (block->state == BLOCK_KEPT && pin_is_hold(pool, index));
}

/* Bytes of whole slots inside runs of neighbours that are free or becoming free. */
static uint64_t whole_slots(struct pool *pool, const struct segment *segment) POOL_LOCKED
{
    devptr_t lo = 0; /* of the run, 0 = none */
    devptr_t hi = 0;
    uint64_t bytes = 0;

    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        if (is_coming(pool, at)) {
            lo = lo ? lo : block->node.base;
            hi = block->node.base + block->node.size;
        }
        if (lo && (!is_coming(pool, at) || !block->next)) {
            bytes += slots_bytes(slots_between(segment, lo, hi));
            lo = 0;
        }
    }
    return bytes;
}

/* The whole segment or nothing. */
static uint64_t whole_plain(struct pool *pool, const struct segment *segment) POOL_LOCKED
{
    if (segment->tenants)
        return 0;
    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        if (!is_coming(pool, at))
            return 0;
    }
    return segment->raw_size;
}

/* Sums of a walk over the heaps of a device, in bytes. */
struct sums {
    uint64_t back; /* returns to the driver before a request is refused */
    uint64_t owed; /* the program holds it, but a hint has released its storage */
    uint64_t live; /* the program holds it */
};

/* A block on a shared handle, which returns only as a whole: end_shared. */
static void add_shared(struct pool *pool, const struct segment *segment, uint32_t index,
        struct sums *sums) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct alias *alias = alias_find(segment->heap, alias_range(segment, block));

    if (block->state == BLOCK_LIVE && !alias)
        sums->owed += block->node.size;
    else if (alias && is_coming(pool, index))
        alias_mark(segment->heap, alias);
}

/* Adds the handles whose parts are all free or becoming free. */
static void end_shared(const struct segment *segment, struct sums *sums)
{
    const struct heap *heap = segment->heap;

    for (struct alias_handle *at = table_next(&heap->alias_handles, NULL); at;
            at = table_next(&heap->alias_handles, at)) {
        if (!(at->used & ~at->mark))
            sums->back += segment->slot;
        at->mark = 0;
    }
}

/* Blocks on handles of their own. The slot of a BUSY block belongs to the thread that works on it
 * without the lock. */
static void add_hinted(
        struct pool *pool, const struct segment *segment, struct sums *sums) POOL_LOCKED
{
    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);
        bool is_stored;

        if (block->state == BLOCK_BUSY)
            continue;
        if (block->flags & BLOCK_SHARED) {
            add_shared(pool, segment, at, sums);
            continue;
        }
        is_stored = segment->handles[(block->node.base - segment->base) / segment->slot] != 0;
        if (block->state == BLOCK_LIVE && !is_stored)
            sums->owed += block->node.size;
        else if (is_stored && (block->state == BLOCK_IDLE || is_coming(pool, at)))
            sums->back += block->node.size;
    }
    end_shared(segment, sums);
}

static void add_managed(
        struct pool *pool, const struct segment *segment, struct sums *sums) POOL_LOCKED
{
    const struct block *block = block_at(pool, segment->first);
    bool is_held = swapset_is_held(pool, block);

    if (block->state == BLOCK_LIVE && !is_held)
        sums->owed += segment->size;
    else if (is_held && is_coming(pool, segment->first))
        sums->back += segment->size;
}

static void add_segment(
        struct pool *pool, const struct segment *segment, struct sums *sums) POOL_LOCKED
{
    if (segment->dead)
        return;
    if (segment->kind == SEGMENT_PLAIN) {
        sums->back += whole_plain(pool, segment);
    } else if (segment->kind == SEGMENT_MANAGED) {
        add_managed(pool, segment, sums);
    } else if (segment->kind == SEGMENT_HINT) {
        add_hinted(pool, segment, sums);
    } else {
        sums->back += whole_slots(pool, segment);
    }
}

static void headroom_add_heap(
        struct pool *pool, const struct heap *heap, struct sums *sums) POOL_LOCKED
{
    uint64_t back = sums->back;

    sums->live += heap->tally.live_rounded;
    sums->back += heap->tally.cached;
    for (uint32_t number = heap->segments; number; number = segment_at(pool, number)->next)
        add_segment(pool, segment_at(pool, number), sums);
    if (heap->dropped)
        sums->back = back;
    else if (heap->leaving && heap->tally.live_count == 0
            && heap->tally.kept == heap->tally.held) /* all of it returns with its last block */
        sums->back = back + heap->tally.reserved;
}

uint64_t headroom_available(struct pool *pool, int device, const struct pool_memory *memory)
{
    struct sums sums = {.back = 0};
    uint64_t unit = GRANULE_SIZE; /* the largest allocation unit: the answer is no finer */
    uint64_t bytes, back;

    tally_raise(&unit, pool->devices[device].granularity);

    for (const struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap)) {
        if (heap->device->number == device)
            headroom_add_heap(pool, heap, &sums);
    }
    back = memory->may_wait ? sums.back : 0;
    bytes = memory->driver_free + pool->devices[device].spare + back;
    if (pool->opts.cap)
        bytes = min_of(
                bytes, excess_of(pool->opts.cap, excess_of(pool->devices[device].reserved, back)));
    bytes = excess_of(bytes, sums.owed);
    /* The driver was queried a moment ago: memory allocated since then is not free (R84). */
    bytes = min_of(bytes, excess_of(memory->total, sums.live));
    return bytes & ~(unit - 1);
}

int headroom_most(struct pool *pool, const struct device *device, uint64_t *ret_bytes)
{
    uint64_t total = 0;
    uint64_t available = 0;
    int r = DRIVE(pool, memory, device->number, &total, &available);

    if (r != 0)
        return r;
    lock_take(&pool->lock);
    *ret_bytes = available + device->spare + excess_of(device->reserved, device->stored);
    for (const struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap)) {
        if (heap->device == device)
            *ret_bytes += heap->tally.going + heap->tally.held;
    }
    lock_drop(&pool->lock);
    return 0;
}

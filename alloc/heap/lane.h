/* SPDX-License-Identifier: MIT */
/*
 * lane.h - allocation and free of one stream's blocks without the pool's lock, under contention.
 *
 * A lane is a separate lock for the recent blocks (freecache.h) of one class, and for the live
 * blocks of that stream. A request of the class that finds the pool's lock taken opens it. From
 * then on a block of exactly a freed size is allocated and freed with the lane's lock alone;
 * threads on different streams then share no written data but the counter of sequence numbers.
 *
 *     closed ─open─► open: the pool's lock is lent (lock.h)
 *                    └─ lock_take anywhere: lanes_recall, or close ─► closed
 *
 * So a thread that takes the pool's lock, other than by lock_take_lent, sees the state as without
 * lanes. With lock_take_lent (pool_quick.c) a thread may touch recent blocks of closed classes and
 * the sums of heaps, and no record of a block of another stream.
 *
 * Accounting. A lane keeps its changes to the sums of the heap and the device, and applies them
 * when it is closed. The high marks stay exact: an open lane holds at most the bytes that were
 * booked for it when it was opened, which are its stream's live bytes at that time and, where the
 * sums are below their marks, some credit. So the booked sums are never less than the live bytes,
 * and no open lane can raise a mark. A request that would raise a mark with lanes open recalls them
 * and checks again (lanes_would_raise).
 *
 * A lane that is closed again after a few blocks is not reopened soon: opening and closing cost
 * some hundred ns. The pool has a fixed number of lanes, chosen by a hash of the stream's number:
 * two streams on one lane use it in turns.
 * Threads: any. Memory: meta.h. Rules: R36 R70.
 * Prefixes: lanes_.
 */
#ifndef KEDGE_ALLOC_LANE_H
#define KEDGE_ALLOC_LANE_H

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/records.h"

#define LANE_LOCKED TSA(requires_capability(lane->lock))

/* Makes a pool's lanes closed; pending changes of their sums are dropped. No other thread may be
 * inside. */
void lanes_init(struct pool *pool);

static inline bool lanes_are_open(const struct pool *pool)
{
    return atomic_load_explicit(&pool->lanes_open, memory_order_relaxed) != 0;
}

static inline struct lane *lane_of(struct pool *pool, uint64_t key)
{
    return &pool->lanes[(uint32_t)key * UINT32_C(0x9e3779b1) >> (32 - LANES_SHIFT)];
}

/* Opens the lane of a class if it is free and was profitable so far. The caller drops the lock by
 * lock_drop_lent. */
void lane_open(struct pool *pool, struct heap_stream *class) POOL_LOCKED;

/* Closes the lane of a class; false: it was not open. */
bool lane_close(struct pool *pool, const struct heap_stream *class) POOL_LOCKED;

/* Closes all lanes. */
void lanes_recall(struct pool *pool) POOL_LOCKED;

/* True if lanes are open and a block of this many bytes more might raise a mark. */
bool lanes_would_raise(
        const struct pool *pool, const struct heap *heap, uint64_t rounded) POOL_LOCKED;

/* Takes sequence numbers for the lane and returns the first. */
uint64_t lane_take_numbers(struct pool *pool, struct lane *lane) LANE_LOCKED;

/* ── allocation and free ── */

/* As freecache_slot. */
static inline uint32_t *lane_slot_of(
        const struct pool *pool, struct lane *lane, uint64_t size) LANE_LOCKED
{
    const struct block *blocks = block_at(pool, 0);
    uint32_t *slot = freecache_home(&lane->class->recent, size);

    if (blocks[*slot].node.size == size)
        return slot;
    slot = freecache_other(&lane->class->recent, slot);
    return blocks[*slot].node.size == size ? slot : NULL;
}

/* As freecache_new_slot, but only an empty slot. */
static inline uint32_t *lane_empty_slot_of(struct lane *lane, uint64_t size) LANE_LOCKED
{
    uint32_t *home = freecache_home(&lane->class->recent, size);
    uint32_t *other = freecache_other(&lane->class->recent, home);

    if (!*home)
        return home;
    return *other ? NULL : other;
}

/* Counts a block more (1) or less (-1) of the program, with `requested` bytes. */
static inline void lane_owe(
        struct lane *lane, const struct block *block, uint64_t requested, int64_t by) LANE_LOCKED
{
    lane->owed.requested += by * (int64_t)requested;
    lane->owed.rounded += by * (int64_t)block->node.size;
    lane->owed.used += by * (int64_t)round_up(requested, 512);
}

/* A sequence number above all earlier ones of the stream. Unused numbers are dropped when the lane
 * is closed. */
static inline uint64_t lane_next_seq(struct pool *pool, struct lane *lane) LANE_LOCKED
{
    return lane->seq == lane->last_seq ? lane_take_numbers(pool, lane) : ++lane->seq;
}

static inline bool lane_is_booked(
        const struct lane *lane, uint64_t rounded, uint64_t requested) LANE_LOCKED
{
    return lane->owed.requested + (int64_t)requested <= 0
            && lane->owed.rounded + (int64_t)rounded <= 0
            && lane->owed.used + (int64_t)round_up(requested, 512) <= 0;
}

static inline struct pool_given lane_give(
        struct pool *pool, struct lane *lane, uint64_t rounded, uint64_t size) LANE_LOCKED
{
    uint32_t *slot = lane_slot_of(pool, lane, rounded);
    struct block *block;

    if (!slot || !lane_is_booked(lane, rounded, size))
        return (struct pool_given){0, 0};
    block = block_at(pool, *slot);
    if (block->segment != lane->segment)
        return (struct pool_given){0, 0};
    *slot = block->node.left;
    block->state = BLOCK_LIVE;
    block->flags = BLOCK_STREAMED;
    block->last = 0;
    block->slack = (uint32_t)(rounded - size);
    block->seq = lane_next_seq(pool, lane);
    lane_owe(lane, block, size, 1);
    lane->allocs++;
    return (struct pool_given){block->node.base, block->seq};
}

/* The block that begins here, if it is live, of this stream and ordinary; else NULL. Reads nothing
 * more of a block of another stream, which may be changing. */
static inline struct block *lane_find(
        struct pool *pool, const struct lane *lane, devptr_t ptr, uint32_t *ret_index) LANE_LOCKED
{
    uint32_t number = granule_segment(&pool->granules, ptr);
    const struct segment *segment = slab_at(&pool->segments, number);
    struct block *block;

    if (number != lane->segment)
        return NULL;
    *ret_index = starts_at(&segment->starts, ptr - segment->base);
    block = block_at(pool, *ret_index);
    return block->stream == lane->class->stream && block->state == BLOCK_LIVE
                    && !(block->flags & ~(unsigned)BLOCK_STREAMED) && !block->holder
            ? block
            : NULL;
}

static inline bool lane_take(struct pool *pool, struct lane *lane, devptr_t ptr,
        struct pool_taken *ret_taken) LANE_LOCKED
{
    uint32_t index;
    struct block *block = lane_find(pool, lane, ptr, &index);
    uint32_t *slot;
    uint64_t size;

    if (!block || block->node.size > FREECACHE_MAX)
        return false;
    slot = lane_slot_of(pool, lane, block->node.size);
    if (!slot)
        slot = lane_empty_slot_of(lane, block->node.size);
    if (!slot)
        return false;
    size = block->node.size - block->slack;
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = lane->point;
    block->node.left = *slot;
    *slot = index;
    lane_owe(lane, block, size, -1);
    lane->frees++;
    if (ret_taken)
        *ret_taken = (struct pool_taken){
                lane_next_seq(pool, lane), size, lane->class->heap->device->number};
    return true;
}

static inline bool lane_is_here(const struct lane *lane, uint64_t key)
{
    return atomic_load_explicit(&lane->key, memory_order_relaxed) == key;
}

/* As pool_alloc_on_quickly and pool_free_on_told, but only in an open lane; the caller has no
 * lock. */
static inline struct pool_given lane_alloc(
        struct pool *pool, uint64_t owner, uint64_t key, uint64_t size)
{
    struct lane *lane = lane_of(pool, key);
    struct pool_given given = {0, 0};

    if (!lane_is_here(lane, key))
        return given;
    lock_take_leaf(&lane->lock);
    if (lane_is_here(lane, key) && lane->owner == owner)
        given = lane_give(pool, lane, round_up(size, pool->opts.quantum), size);
    lock_drop_leaf(&lane->lock);
    return given;
}

static inline bool lane_free(
        struct pool *pool, devptr_t ptr, uint64_t key, struct pool_taken *ret_taken)
{
    struct lane *lane = lane_of(pool, key);
    bool done = false;

    if (!lane_is_here(lane, key))
        return false;
    lock_take_leaf(&lane->lock);
    if (lane_is_here(lane, key))
        done = lane_take(pool, lane, ptr, ret_taken);
    lock_drop_leaf(&lane->lock);
    return done;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * freecache.h - free blocks that are kept as they are for a moment, since the next request of their very size is often near.
 *
 * Chains of blocks of one size, in one of two slots by a hash of it, linked through node.left. They are FREE, flagged
 * BLOCK_RECENT, in no index (freelist.h) and joined with no neighbour. freecache_settle puts them where they belong: before
 * anything is called a miss, and at the beginning of every walk over free blocks.
 *
 *     free ─► put ─► slot of its class and size ─► get ─► handed out        the very size: some hundred instructions
 *                             └─ settle ─► freelist, joined with its neighbours
 *
 * A large request of a mapped heap that would be served if the last block of the range began a little lower joins only what is
 * recent below that: a step that asks for a workspace again and again keeps its small blocks as they are.
 *
 * Of the larger blocks of a mapped heap the one that was freed last may be `held`: it is in the cache as well, in no slot,
 * until a request of 64 KiB or more that it is not for has to be fitted, or a smaller one that would have another fit if it
 * were joined. (To keep more of them was measured to cost up to 0.1 of utilisation.)
 *
 * The functions that the hot path is made of are inline (pool_quick.c).
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_FREECACHE_H
#define KEDGE_ALLOC_FREECACHE_H

#include "alloc/heap/block.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/records.h"
#include "alloc/heap/streams.h"

/* Larger ones are where best fit sees them, but for the one that is held. */
#define FREECACHE_MAX (UINT64_C(1) << 20)

/* The slots of a class; NULL if there is no such class. */
static inline uint32_t *freecache_slots(struct heap *heap, uint32_t stream, bool small)
{
    struct heap_stream *class;

    if (!stream)
        return small ? heap->recent_small : heap->recent_clean;
    class = heap_class(heap, stream);
    return class ? class->recent : NULL;
}

static inline uint32_t *freecache_home(uint32_t *slots, uint64_t size)
{
    return &slots[(uint32_t)(size / BESTFIT_QUANTUM) * UINT32_C(0x9e3779b1)
            >> (32 - FREECACHE_SHIFT)];
}

/* The other slot where blocks of a size may be. */
static inline uint32_t *freecache_other(uint32_t *slots, const uint32_t *home)
{
    return &slots[(uint32_t)(home - slots) ^ 1];
}

/* The slot that holds blocks of this size, NULL if there are none. */
static inline uint32_t *freecache_slot(
        const struct pool *pool, uint32_t *slots, uint64_t size) POOL_LOCKED
{
    const struct block *blocks = block_at(pool, 0); /* which has no size */
    uint32_t *slot = freecache_home(slots, size);

    if (blocks[*slot].node.size == size)
        return slot;
    slot = freecache_other(slots, slot);
    return blocks[*slot].node.size == size ? slot : NULL;
}

/* A slot for a size that has none; what stood there is settled. */
uint32_t *freecache_new_slot(
        struct pool *pool, struct heap *heap, uint32_t *slots, uint64_t size) POOL_LOCKED;

/* The first block of a slot leaves it. */
static inline uint32_t freecache_pop(
        struct pool *pool, struct heap *heap, uint32_t *slot) POOL_LOCKED
{
    uint32_t index = *slot;
    struct block *block = block_at(pool, index);

    *slot = block->node.left;
    block->flags = 0;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
    return index;
}

/* Puts a block on top of those of its size, whose slot is known. */
static inline void freecache_push_at(struct pool *pool, struct heap *heap, uint32_t *slot,
        struct block *block, uint32_t index, uint64_t point) POOL_LOCKED
{
    (void)pool;
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = point;
    block->node.left = *slot;
    *slot = index;
    heap->recent_count++;
    heap->recent_bytes += block->node.size;
}

/* Puts a block, whose stream is that of the class already, on top of its size; the point of a clean one is 0. */
static inline void freecache_push(struct pool *pool, struct heap *heap, uint32_t *slots,
        struct block *block, uint32_t index, uint64_t point) POOL_LOCKED
{
    uint64_t size = block->node.size;
    uint32_t *slot = freecache_slot(pool, slots, size);

    if (__builtin_expect(!slot, 0))
        slot = freecache_new_slot(pool, heap, slots, size);
    freecache_push_at(pool, heap, slot, block, index, point);
}

/* The large block that is held goes where it belongs. */
void freecache_settle_held(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* As freecache_push for a block of more than FREECACHE_MAX bytes, instead of the one that was held so far. */
static inline void freecache_hold(struct pool *pool, struct heap *heap, struct block *block,
        uint32_t index, uint64_t point) POOL_LOCKED
{
    if (heap->large)
        freecache_settle_held(pool, heap);
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = point;
    heap->large = index;
    heap->recent_count++;
    heap->recent_bytes += block->node.size;
}

/* It leaves. */
static inline void freecache_unhold(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    struct block *block = block_at(pool, heap->large);

    block->flags = 0;
    heap->large = 0;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
}

/* As freelist_put, but a small block may stay by itself for a moment. */
static inline void freecache_put(
        struct pool *pool, uint32_t index, uint32_t stream, uint64_t point) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);
    struct heap *heap = segment->heap;

    if (block->node.size > FREECACHE_MAX || segment->sealed) {
        (void)freelist_put(pool, index, stream, point);
        return;
    }
    stream = streams_class_of(pool, stream, point);
    block_name_stream(pool, block, stream);
    freecache_push(pool, heap, freecache_slots(heap, stream, segment->small), block, index,
            stream ? point : 0);
}

/* Takes a block of exactly this size that is recent, BUSY; 0 = none. */
static inline uint32_t freecache_get(struct pool *pool, struct heap *heap, uint32_t stream,
        bool small, uint64_t size) POOL_LOCKED
{
    uint32_t *slots = freecache_slots(heap, stream, small);
    uint32_t *slot = slots ? freecache_slot(pool, slots, size) : NULL;

    if (!slot)
        return 0;
    block_at(pool, *slot)->state = BLOCK_BUSY;
    return freecache_pop(pool, heap, slot);
}

/* The last block of the range that grows, if it is in an index, is joined with what is recent right below it. False: nothing has
 * happened. Looks at a few blocks, so it may leave some. */
bool freecache_settle_below_top(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* No block of the heap is `recent` any more. */
void freecache_settle(struct pool *pool, struct heap *heap) POOL_LOCKED;

#endif

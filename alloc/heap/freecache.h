/* SPDX-License-Identifier: MIT */
/*
 * freecache.h - a cache of free blocks, unmerged, because a request of exactly their size often
 * follows soon.
 *
 * Chains of blocks of one size, each in one of two slots by a hash of the size, linked through
 * node.left. The blocks are FREE, flagged BLOCK_RECENT, in no index (freelist.h) and not merged
 * with neighbours. freecache_settle moves them to the free list: before a request counts as a miss,
 * and before every walk over free blocks.
 *
 *     free ─► put ─► slot of its class and size ─► get ─► allocated, some hundred instructions
 *                             └─ settle ─► freelist, merged with its neighbours
 *
 * A large request of a mapped heap that would be served if the last block of the range began a
 * little lower merges only the recent blocks below that one: a step that asks for a workspace again
 * and again keeps its small blocks cached.
 *
 * Of the larger blocks of a mapped heap the one freed last may be `held`: it is in the cache too,
 * in no slot, until a request of 64 KiB or more of another size needs a fit, or a smaller request
 * that would get a better fit if it were merged. (To keep more of them was measured to cost up to
 * 0.1 of utilisation.)
 *
 * The functions of the hot path are inline (pool_quick.c).
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_FREECACHE_H
#define KEDGE_ALLOC_FREECACHE_H

#include "alloc/heap/block.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/records.h"
#include "alloc/heap/streams.h"

/* Larger blocks go to the best-fit index, except the held one. */
#define FREECACHE_MAX (UINT64_C(1) << 20)

/* The recent blocks of a class; NULL if there is no such class. */
static inline struct freecache *freecache_of(struct heap *heap, uint32_t stream, bool small)
{
    struct heap_stream *class;

    if (!stream)
        return small ? &heap->recent_small : &heap->recent_clean;
    class = heap_class(heap, stream);
    return class ? &class->recent : NULL;
}

static inline uint32_t *freecache_home(struct freecache *cache, uint64_t size)
{
    return &cache->slot[(uint32_t)(size / BESTFIT_QUANTUM) * UINT32_C(0x9e3779b1)
            >> (32 - FREECACHE_SHIFT)];
}

/* The other slot where blocks of a size may be. */
static inline uint32_t *freecache_other(struct freecache *cache, const uint32_t *home)
{
    return &cache->slot[(uint32_t)(home - cache->slot) ^ 1];
}

/* The slot that holds blocks of this size, NULL if there are none. */
static inline uint32_t *freecache_slot(
        const struct pool *pool, struct freecache *cache, uint64_t size) POOL_LOCKED
{
    const struct block *blocks = block_at(pool, 0); /* block 0 has size 0 */
    uint32_t *slot = freecache_home(cache, size);

    if (blocks[*slot].node.size == size)
        return slot;
    slot = freecache_other(cache, slot);
    return blocks[*slot].node.size == size ? slot : NULL;
}

/* A slot for a size that has none; settles the blocks that were in it. */
uint32_t *freecache_new_slot(
        struct pool *pool, struct heap *heap, struct freecache *cache, uint64_t size) POOL_LOCKED;

/* Removes the first block of a slot. */
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

/* Pushes a block onto the slot of its size, which the caller has found. */
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

/* Pushes a block of the class onto the slot of its size; the point of an idle block is 0. */
static inline void freecache_push(struct pool *pool, struct heap *heap, struct freecache *cache,
        struct block *block, uint32_t index, uint64_t point) POOL_LOCKED
{
    uint64_t size = block->node.size;
    uint32_t *slot = freecache_slot(pool, cache, size);

    if (__builtin_expect(!slot, 0))
        slot = freecache_new_slot(pool, heap, cache, size);
    freecache_push_at(pool, heap, slot, block, index, point);
}

/* Moves the held large block to the free list. */
void freecache_settle_held(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* As freecache_push for a block of more than FREECACHE_MAX bytes, which replaces the held one. */
static inline void freecache_hold(struct pool *pool, struct heap *heap, struct block *block,
        uint32_t index, uint64_t point) POOL_LOCKED
{
    if (heap->large)
        freecache_settle_held(pool, heap);
    heap_list(heap, HEAPS_GIVING);
    heap_list(heap, HEAPS_WAITING);
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = point;
    heap->large = index;
    heap->recent_count++;
    heap->recent_bytes += block->node.size;
}

/* Removes the held block. */
static inline void freecache_unhold(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    struct block *block = block_at(pool, heap->large);

    block->flags = 0;
    heap->large = 0;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
}

/* As freelist_put, but a small block may go to the cache. */
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
    freecache_push(pool, heap, freecache_of(heap, stream, segment->small), block, index,
            stream ? point : 0);
}

/* Takes a recent block of exactly this size, BUSY; 0 = none. */
static inline uint32_t freecache_get(struct pool *pool, struct heap *heap, uint32_t stream,
        bool small, uint64_t size) POOL_LOCKED
{
    struct freecache *cache = freecache_of(heap, stream, small);
    uint32_t *slot = cache ? freecache_slot(pool, cache, size) : NULL;

    if (!slot)
        return 0;
    block_at(pool, *slot)->state = BLOCK_BUSY;
    return freecache_pop(pool, heap, slot);
}

/* Merges the last block of the growing range, if it is in an index, with the recent blocks right
 * below it. False: nothing was merged. Examines a few blocks only, so it may miss some. */
bool freecache_settle_below_top(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Moves all recent blocks of the heap to the free list. */
void freecache_settle(struct pool *pool, struct heap *heap) POOL_LOCKED;

#endif

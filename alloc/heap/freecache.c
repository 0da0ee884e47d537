/* SPDX-License-Identifier: MIT */
#include "alloc/heap/freecache.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freelist.h"

#define BELOW_MOST 8  /* blocks that are merged with the last block of a range */
#define CHAIN_MOST 64 /* blocks of one size that are examined for that */

/* Moves the blocks of one slot to the free list. */
static void settle_slot(struct pool *pool, struct heap *heap, uint32_t *slot) POOL_LOCKED
{
    while (*slot) {
        uint32_t index = freecache_pop(pool, heap, slot);
        const struct block *block = block_at(pool, index);

        (void)freelist_put(pool, index, block->stream, block->seq);
    }
}

uint32_t *freecache_new_slot(
        struct pool *pool, struct heap *heap, struct freecache *cache, uint64_t size)
{
    uint32_t *home = freecache_home(cache, size);
    uint32_t *other = freecache_other(cache, home);

    if (*home && !*other)
        home = other;
    else if (*home)
        settle_slot(pool, heap, home);
    heap_use_slots(heap, cache, UINT64_C(1) << (home - cache->slot));
    return home;
}

/* Moves one block of an arena from its slot to the free list. False: its chain is too long. */
static bool freecache_settle_one(struct pool *pool, struct heap *heap, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    uint32_t *link =
            freecache_slot(pool, freecache_of(heap, block->stream, false), block->node.size);

    for (int i = 0; *link != index; i++) {
        if (i == CHAIN_MOST)
            return false;
        link = &block_at(pool, *link)->node.left;
    }
    (void)freecache_pop(pool, heap, link);
    (void)freelist_put(pool, index, block->stream, block->seq);
    return true;
}

bool freecache_settle_below_top(struct pool *pool, struct heap *heap)
{
    const struct segment *arena = heap->arena ? slab_at(&pool->segments, heap->arena) : NULL;
    int done = 0;

    while (arena && done < BELOW_MOST) {
        const struct block *top = block_at(pool, arena->last);
        uint32_t below = top->prev;

        if (top->state != BLOCK_FREE || top->flags & BLOCK_RECENT || below == heap->large
                || !(block_at(pool, below)->flags & BLOCK_RECENT)
                || !freecache_settle_one(pool, heap, below))
            break;
        done++;
    }
    return done > 0;
}

void freecache_settle_held(struct pool *pool, struct heap *heap)
{
    uint32_t index = heap->large;
    const struct block *block = block_at(pool, index);

    freecache_unhold(pool, heap);
    (void)freelist_put(pool, index, block->stream, block->seq);
}

void freecache_settle(struct pool *pool, struct heap *heap)
{
    if (!heap->recent_count && !heap->recent)
        return;
    if (heap->large)
        freecache_settle_held(pool, heap);
    while (heap->recent) {
        struct freecache *cache = heap->recent;

        for (uint64_t used = cache->used; used; used &= used - 1)
            settle_slot(pool, heap, &cache->slot[__builtin_ctzll(used)]);
        heap_empty_slots(cache);
    }
}

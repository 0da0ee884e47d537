/* SPDX-License-Identifier: MIT */
#include "alloc/freecache.h"

#include "alloc/block.h"
#include "alloc/freelist.h"

uint32_t *freecache_new_slot(struct pool *pool, struct heap *heap, uint32_t *slots, uint64_t size)
{
    uint32_t *home = freecache_home(slots, size);
    uint32_t *other = freecache_other(slots, home);

    if (!*home || *other)
        freecache_settle_slot(pool, heap, home);
    return *home ? other : home;
}

void freecache_settle_slot(struct pool *pool, struct heap *heap, uint32_t *slot)
{
    while (*slot) {
        uint32_t index = freecache_pop(pool, heap, slot);
        const struct block *block = block_at(pool, index);

        (void)freelist_put(pool, index, block->stream, block->seq);
    }
}

void freecache_settle_held(struct pool *pool, struct heap *heap)
{
    uint32_t index = heap->large;
    const struct block *block = block_at(pool, index);

    freecache_unhold(pool, heap);
    (void)freelist_put(pool, index, block->stream, block->seq);
}

static void settle_slots(struct pool *pool, struct heap *heap, uint32_t *slots) POOL_LOCKED
{
    for (uint32_t i = 0; i < FREECACHE_SLOTS && heap->recent_count; i++)
        if (slots[i])
            freecache_settle_slot(pool, heap, &slots[i]);
}

void freecache_settle(struct pool *pool, struct heap *heap)
{
    if (!heap->recent_count)
        return;
    if (heap->large)
        freecache_settle_held(pool, heap);
    for (struct heap_stream *at = heap->streams; at; at = at->next)
        settle_slots(pool, heap, at->recent);
    settle_slots(pool, heap, heap->recent_clean);
    settle_slots(pool, heap, heap->recent_small);
}

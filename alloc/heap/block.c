/* SPDX-License-Identifier: MIT */
#include "alloc/heap/block.h"

#include "alloc/base/mutation.h"

uint32_t block_find(const struct pool *pool, devptr_t ptr)
{
    uint32_t number = granule_segment(&pool->granules, ptr);
    const struct segment *segment;
    const struct block *block;
    uint32_t index;

    if (!number)
        return 0;
    segment = slab_at(&pool->segments, number);
    index = starts_before(&segment->starts, ptr - segment->base);
    if (!index)
        return 0;
    block = block_at(pool, index);
    return ptr - block->node.base < block->node.size ? index : 0;
}

uint32_t block_new(struct pool *pool, uint32_t number, uint32_t after, devptr_t base, uint64_t size)
{
    uint32_t index = slab_take(&pool->blocks);
    struct block *block = block_at(pool, index);
    struct segment *segment;

    if (!index)
        return 0;
    block->node.base = base;
    block->node.size = size;
    block->segment = number;
    segment = block_segment(pool, block);
    block->state = BLOCK_BUSY;
    block->prev = after;
    block->next = after ? block_at(pool, after)->next : segment->first;
    if (after)
        block_at(pool, after)->next = index;
    else
        segment->first = index;
    if (block->next)
        block_at(pool, block->next)->prev = index;
    else
        segment->last = index;
    starts_set(&segment->starts, base - segment->base, index);
    return index;
}

void block_delete(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);
    struct segment *segment = block_segment(pool, block);

    if (block->prev)
        block_at(pool, block->prev)->next = block->next;
    else
        segment->first = block->next;
    if (block->next)
        block_at(pool, block->next)->prev = block->prev;
    else
        segment->last = block->prev;
    starts_clear(&segment->starts, block->node.base - segment->base);
    block_name_stream(pool, block, 0);
    slab_put(&pool->blocks, index);
}

uint32_t block_cut(struct pool *pool, uint32_t index, uint64_t size)
{
    struct block *block = block_at(pool, index);
    uint32_t rest = block_new(
            pool, block->segment, index, block->node.base + size, block->node.size - size);
    struct block *other = block_at(pool, rest);

    block->node.size = size;
    other->state = block->state;
    other->flags = block->flags;
    other->last = block->last;
    other->seq = POOL_IS_WITHOUT(CUT) ? 0 : block->seq;
    block_name_stream(pool, other, block->stream);
    return rest;
}

void block_join(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);
    struct block *other = block_at(pool, block->next);

    block->node.size += other->node.size;
    if (other->stream) {
        if (!block->stream)
            block->seq = 0;
        if ((other->seq > block->seq) != POOL_IS_WITHOUT(LEAST))
            block->seq = other->seq;
        block_name_stream(pool, block, other->stream);
    }
    block_delete(pool, block->next);
}

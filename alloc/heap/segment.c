/* SPDX-License-Identifier: MIT */
#include "alloc/heap/segment.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/tally.h"

#include <errno.h>

static void link_segment(struct pool *pool, struct heap *heap, uint32_t number) POOL_LOCKED
{
    struct segment *segment = segment_at(pool, number);

    segment->next = heap->segments;
    segment->prev = 0;
    if (heap->segments)
        segment_at(pool, heap->segments)->prev = number;
    heap->segments = number;
}

int segment_add(
        struct pool *pool, struct heap *heap, const struct segment *like, uint32_t *ret_segment)
{
    uint32_t number = slab_take(&pool->segments);
    struct segment *segment = segment_at(pool, number);
    int r;

    if (!number)
        return -ENOMEM;
    *segment = *like;
    segment->heap = heap;
    segment->place.number = ++heap->segments_added;
    r = starts_init(&segment->starts, segment->size);
    if (r != 0)
        goto put_segment;
    if (segment_is_piece(segment)) {
        r = starts_grow(&segment->starts, segment->size);
        if (r == 0)
            r = granule_prepare(&pool->granules, segment->base, segment->size);
        if (r != 0)
            goto done_starts;
        if (!block_new(pool, number, 0, segment->base, segment->size)) {
            r = -ENOMEM;
            goto done_starts;
        }
        segment->top = segment->size;
        granule_set(&pool->granules, segment->base, segment->size, number);
    } else {
        r = span_init(&segment->handle_span, segment->size / segment->slot * sizeof(uint64_t));
        if (r != 0)
            goto done_starts;
        segment->handles = (uint64_t *)(void *)segment->handle_span.base;
    }
    link_segment(pool, heap, number);
    *ret_segment = number;
    return 0;

done_starts:
    starts_done(&segment->starts);
put_segment:
    slab_put(&pool->segments, number);
    return r;
}

void segment_remove(struct pool *pool, uint32_t number)
{
    struct segment *segment = segment_at(pool, number);
    struct heap *heap = segment->heap;

    freecache_settle(pool, heap);
    while (segment->first) {
        struct block *block = block_at(pool, segment->first);

        if (block->state == BLOCK_FREE || block->state == BLOCK_DECOMMITTED
                || block->state == BLOCK_IDLE)
            freelist_pull(pool, segment->first);
        block_delete(pool, segment->first);
    }
    if (segment->top && !segment->dead)
        granule_clear(&pool->granules, segment->base, segment->top, number);
    if (segment->prev)
        segment_at(pool, segment->prev)->next = segment->next;
    else
        heap->segments = segment->next;
    if (segment->next)
        segment_at(pool, segment->next)->prev = segment->prev;
    if (heap->arena == number)
        heap->arena = 0;
    if (heap->hint == number)
        heap->hint = 0;
    starts_done(&segment->starts);
    span_done(&segment->handle_span);
    slab_put(&pool->segments, number);
}

uint32_t segment_extend(struct pool *pool, uint32_t number, uint64_t size)
{
    struct segment *segment = segment_at(pool, number);
    uint64_t top = segment->top + size;
    uint32_t index;

    if (top > segment->size || top < size || starts_grow(&segment->starts, top) != 0
            || span_commit(&segment->handle_span, top / segment->slot * sizeof(uint64_t)) != 0
            || granule_prepare(&pool->granules, segment->base + segment->top, size) != 0)
        return 0;
    index = block_new(pool, number, segment->last, segment->base + segment->top, size);
    if (!index)
        return 0;
    granule_set(&pool->granules, segment->base + segment->top, size, number);
    segment->top = top;
    segment->heap->changes++;
    return index;
}

/* Drops blocks of dead segments from a chain. A vacated slot still has to be unmapped. */
static void purge_chain(struct pool *pool, struct fence_chain *chain) POOL_LOCKED
{
    uint32_t index = chain->head;

    *chain = (struct fence_chain){0};
    while (index) {
        struct block *block = block_at(pool, index);
        uint32_t next = block->chain;

        if (!block_segment(pool, block)->dead)
            block_chain(pool, chain, index);
        else if (block->state != BLOCK_VACATED)
            block->state = BLOCK_KEPT;
        index = next;
    }
}

static void purge_timeline(struct pool *pool, struct fence_timeline *timeline) POOL_LOCKED
{
    timeline->bytes = 0;
    for (struct fence_mark *mark = timeline->first; mark; mark = mark->next) {
        purge_chain(pool, &mark->chain);
        timeline->bytes += mark->chain.bytes;
    }
}

static void purge_device(struct pool *pool, struct device *device) POOL_LOCKED
{
    purge_chain(pool, &device->open);
    purge_chain(pool, &device->aside);
    purge_timeline(pool, &device->epochs);
    purge_timeline(pool, &device->events);
}

static void purge_graces(struct pool *pool) POOL_LOCKED
{
    for (struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        uint32_t *link = &grace->holders;

        while (*link) {
            struct holder *holder = holder_at(pool, *link);

            if (block_segment(pool, block_at(pool, holder->block))->dead)
                *link = holder->next; /* the record is freed with its block */
            else
                link = &holder->next;
        }
        grace->is_held_up &= grace->holders != 0;
    }
}

static void kill_block(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct heap *heap = block_segment(pool, block)->heap;
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;
    bool dead = holder && holder->mode != HINT_SHADOW
            && (holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO);
    bool husk = holder && holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK;

    pin_forget(pool, index);
    if (block->state == BLOCK_FREE || block->state == BLOCK_DECOMMITTED
            || block->state == BLOCK_IDLE) {
        freelist_pull(pool, index);
        block->state = BLOCK_KEPT;
        return;
    }
    if (block->state == BLOCK_PENDING && block_is_awaited(pool, block) && !dead
            && !(holder && holder->swap))
        heap->tally.pending -= block->node.size;
    if (block->state == BLOCK_KEPT)
        tally_kept(heap, -(int64_t)block->node.size);
    if (dead)
        heap->tally.limbo -= block->node.size;
    if (husk && !holder->freed)
        heap->tally.husk -= block->node.size;
    if (block->state == BLOCK_LIVE && !(holder && holder->freed))
        tally_death(pool, heap, block, holder_is_stored(pool, block));
    holder_drop(pool, block);
    if (block->state != BLOCK_BUSY && block->state != BLOCK_VACATED)
        block->state = BLOCK_KEPT;
}

void segment_kill(struct pool *pool, uint32_t number)
{
    struct segment *segment = segment_at(pool, number);

    if (segment->dead)
        return;
    freecache_settle(pool, segment->heap);
    segment->dead = true;
    if (segment->top)
        granule_clear(&pool->granules, segment->base, segment->top, number);
    purge_graces(pool);
    for (uint32_t index = segment->first; index; index = block_at(pool, index)->next)
        kill_block(pool, index);
    purge_device(pool, segment->heap->device);
    purge_chain(pool, &pool->removals);
    purge_chain(pool, &pool->vacant);
    purge_chain(pool, &segment->heap->vacated);
}

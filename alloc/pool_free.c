/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/heap.h"
#include "alloc/pin.h"
#include "alloc/reclaim.h"

#include <errno.h>

/* The block is not the program's any more: told and counted. Where it goes now is the caller's. */
static inline void tell_death(struct pool *pool, struct heap *heap, const struct block *block,
        uint64_t stream, struct outcome *ret) POOL_LOCKED
{
    *ret = (struct outcome){
            .kind = OUTCOME_FREE,
            .heap = heap->kind,
            .ptr = block->node.base,
            .size = block->node.size - block->slack,
            .rounded = block->node.size,
            .seq = heap_seq(pool),
            .alloc_seq = block->seq,
            .stream = stream,
            .reserved = heap->device->reserved,
            .rule = -1,
            .device = heap->device->number,
    };
    heap_count_death(pool, heap, block);
    heap->frees++;
}

/* The storage of a hinted block is on its way out: the free is noted, the release goes its way (holder.h). */
static bool is_on_its_way(struct pool *pool, struct block *block) POOL_LOCKED
{
    struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;

    if (!holder || holder->mode == HINT_SHADOW
            || (holder->state != HOLDER_DEAD && holder->state != HOLDER_LIMBO))
        return false;
    heap_mark_released(pool, block, -1);
    (void)holder_step(holder, HOLDER_EVENT_FREE);
    block->state = BLOCK_PENDING;
    return true;
}

static void keep(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);

    heap_count_kept(heap_segment_of(pool, block)->heap, (int64_t)block->node.size);
    block->state = BLOCK_KEPT;
}

static void let_go(struct pool *pool, const struct block *block, struct outcome *ret) POOL_LOCKED
{
    const struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;
    const struct stream *stream = heap_stream_at(pool, block->stream);

    tell_death(
            pool, heap_segment_of(pool, block)->heap, block, block->stream ? stream->key : 0, ret);
    if (holder) {
        ret->rule = holder->rule;
        ret->mode = holder->mode;
    }
    if (block->flags & BLOCK_HINTED)
        ret->how = OUTCOME_HINTED;
}

/* A block that its holder lets go: the program's free came before the edge, or after everything was gone. */
static void leave_holder(struct pool *pool, struct block *block) POOL_LOCKED
{
    const struct holder *holder = heap_holder(pool, block->holder);

    if (holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK) {
        heap_count_husk(heap_segment_of(pool, block)->heap, -(int64_t)block->node.size);
        if (holder->mode == HINT_LIVE)
            block->flags |= BLOCK_GONE;
    }
    heap_drop_holder(pool, block);
}

/* The stream whose order the free keeps, 0 = it goes through an epoch. */
static uint32_t stream_of_free(struct pool *pool, const struct block *block,
        const struct pool_free_request *request) POOL_LOCKED
{
    struct heap *heap = heap_segment_of(pool, block)->heap;
    uint32_t stream;

    if (request->entrance != ENTRANCE_STREAM || request->stream == 0 || heap->kind != HEAP_MAPPED
            || block->flags & BLOCK_HINTED)
        return 0;
    stream = heap_stream_index(pool, request->stream);
    return stream && heap_prepare_stream(pool, heap, stream) ? stream : 0;
}

static void put_on_stream(
        struct pool *pool, uint32_t index, uint32_t number, uint64_t point) POOL_LOCKED
{
    struct stream *stream = heap_stream_at(pool, number);

    if (point > stream->newest)
        stream->newest = point;
    heap_put_recent(pool, index, number, point);
}

/* The event of the free is recorded at once (R71, R69): later it would cover more than it must, or could not be. */
static __attribute__((noinline)) void record_and_put(
        struct pool *pool, struct heap *heap, uint32_t index, uint32_t stream)
{
    uint64_t number = 0;
    int r = reclaim_record(pool, stream, &number);

    lock_take(&pool->lock);
    heap->busy--;
    if (heap_segment_of(pool, heap_block(pool, index))->dead)
        heap_block(pool, index)->state = BLOCK_KEPT;
    else if (r == 0)
        put_on_stream(pool, index, stream, number);
    else if (r == -EBUSY || r == -ENOMEM || r == -ECANCELED)
        put_on_stream(pool, index, stream, fence_next(&heap_stream_at(pool, stream)->line));
    else
        heap_push_open(pool, index);
    lock_drop(&pool->lock);
}

/* What a free does under the lock; returns the stream on which an event must be recorded now, 0 = all is done. */
static __attribute__((noinline)) uint32_t free_locked(struct pool *pool, uint32_t index,
        const struct pool_free_request *request, struct outcome *ret) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct heap *heap = heap_segment_of(pool, block)->heap;
    uint32_t stream;

    let_go(pool, block, ret);
    if (is_on_its_way(pool, block))
        return 0;
    if (block->holder)
        leave_holder(pool, block);
    if (request->quarantine) {
        pin_forget(pool, index);
        keep(pool, index);
        return 0;
    }
    if (pin_keep(pool, index))
        return 0;
    stream = stream_of_free(pool, block, request);
    if (!stream) {
        heap_push_open(pool, index);
        return 0;
    }
    if (request->may_fence && (request->record_now || stream != block->stream)) {
        block->state = BLOCK_BUSY;
        heap->busy++;
        return stream;
    }
    put_on_stream(pool, index, stream, fence_next(&heap_stream_at(pool, stream)->line));
    return 0;
}

/* The common cases, without a look at anything that they do not need: an ordinary block that goes to the open epoch, or
 * back to the stream that allocated it. False: nothing has happened, go the long way. */
static inline bool free_quickly(struct pool *pool, struct heap *heap, uint32_t index,
        const struct pool_free_request *request, struct outcome *ret) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct stream *stream = pool->last_stream;

    if (block->holder || request->quarantine || block->flags & (BLOCK_HINTED | BLOCK_PINNED))
        return false;
    if (heap->kind == HEAP_PLAIN) {
        tell_death(pool, heap, block, 0, ret);
        heap_push_open(pool, index);
        return true;
    }
    if (!stream || stream->index != block->stream || stream->key != request->stream
            || request->entrance != ENTRANCE_STREAM || request->record_now
            || !heap_prepare_stream(pool, heap, stream->index))
        return false;
    tell_death(pool, heap, block, stream->key, ret);
    put_on_stream(pool, index, stream->index, fence_next(&stream->line));
    return true;
}

/* In a child nothing but the granules may be looked at; else a block that was not freed is told from the rest. The driver
 * may say what the others are, unless it would take the address for a segment of ours. */
static int find_frozen(struct pool *pool, devptr_t ptr)
{
    uint32_t number = granule_segment(&pool->granules, ptr);
    const struct segment *segment;
    uint32_t index;
    int r = 0;

    if (!number)
        return -ENOENT;
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return 0;
    lock_take(&pool->lock);
    number = granule_segment(&pool->granules, ptr);
    segment = heap_segment(pool, number);
    index = number ? starts_at(&segment->starts, ptr - segment->base) : 0;
    if (!index || heap_block(pool, index)->state != BLOCK_LIVE)
        r = number && ptr == segment->raw_base ? -EINVAL : -ENOENT;
    lock_drop(&pool->lock);
    return r;
}

static __attribute__((noinline)) int free_frozen(
        struct pool *pool, devptr_t ptr, struct outcome *ret)
{
    int r = find_frozen(pool, ptr);

    if (r == 0)
        *ret = (struct outcome){.kind = OUTCOME_FREE, .ptr = ptr, .rule = -1};
    return r;
}

int pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret)
{
    const struct segment *segment;
    struct heap *heap = NULL;
    uint32_t number, index;
    uint32_t stream = 0;
    int r = 0;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return free_frozen(pool, ptr, ret);
    lock_take(&pool->lock);
    number = granule_segment(&pool->granules, ptr);
    if (!number) {
        lock_drop(&pool->lock);
        return -ENOENT;
    }
    segment = heap_segment(pool, number);
    index = starts_at(&segment->starts, ptr - segment->base);
    if (index && heap_block(pool, index)->state == BLOCK_LIVE) {
        heap = segment->heap;
        if (!free_quickly(pool, heap, index, request, ret))
            stream = free_locked(pool, index, request, ret);
    } else {
        pool->counters.bad_frees++;
        r = -EINVAL;
    }
    lock_drop(&pool->lock);
    if (stream)
        record_and_put(pool, heap, index, stream);
    return r;
}

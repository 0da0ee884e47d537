/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/records.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/reclaim.h"

#include <errno.h>

/* The storage of a hinted block is being released: records the free, and the release goes on
 * (holder.h). */
static bool is_on_its_way(struct pool *pool, struct block *block) POOL_LOCKED
{
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;

    if (!holder || holder->mode == HINT_SHADOW
            || (holder->state != HOLDER_DEAD && holder->state != HOLDER_LIMBO))
        return false;
    holder_mark_released(pool, block, -1);
    (void)holder_step(holder, HOLDER_EVENT_FREE);
    block->state = BLOCK_PENDING;
    return true;
}

/* Reports and counts that the program no longer holds the block. The caller decides where the block
 * goes. */
static void pool_free_let_go(
        struct pool *pool, const struct block *block, struct outcome *ret) POOL_LOCKED
{
    const struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;
    struct heap *heap = block_segment(pool, block)->heap;

    *ret = block_outcome(pool, block, OUTCOME_FREE, records_next_seq(pool));
    tally_death(pool, heap, block, holder_is_stored(pool, block));
    heap->frees++;
    if (holder) {
        ret->rule = holder->rule;
        ret->mode = holder->mode;
    }
    ret->how = block->flags & BLOCK_HINTED ? OUTCOME_HINTED : 0;
}

/* Ends the hold on a block: the free came before the edge, or after the release was complete.
 * Poison is checked first, unless the block stays as it is (`is_kept`). */
static void leave_holder(struct pool *pool, struct block *block, bool is_kept) POOL_LOCKED
{
    struct holder *holder = holder_at(pool, block->holder);

    if (holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK) {
        block_segment(pool, block)->heap->tally.husk -= block->node.size;
        if (holder->mode == HINT_LIVE)
            block->flags |= BLOCK_GONE;
    }
    if (block->flags & BLOCK_POISONED && !is_kept) {
        holder_mark_released(pool, block, -1);
        (void)holder_step(holder, HOLDER_EVENT_FREE);
        block_device(pool, block)->eager = true;
        return;
    }
    block->flags &= (uint8_t)~BLOCK_POISONED;
    holder_drop(pool, block);
}

/* For a hint that holds blocks: the program's free is done, and the block is kept until the edge.
 * False: the block is freed now. */
static bool pool_free_is_held(struct pool *pool, uint32_t index, struct outcome *ret) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;

    if (!holder || !holder->hold)
        return false;
    if (POOL_IS_WITHOUT(HOLD) || !hint_may(pool->hints, holder->rule, holder->mode)
            || !hint_wait_free(hint_rule(pool->hints, holder->rule),
                    &pool->due[holder->rule].passed, &holder->wait)) {
        pin_remove(pool, index, POOL_PIN_HELD);
        return false;
    }
    ret->how |= OUTCOME_HELD;
    if (holder->mode == HINT_SHADOW)
        return false;
    (void)holder_step(holder, HOLDER_EVENT_FREE);
    holder_expect(pool, block->holder);
    tally_held(block_segment(pool, block)->heap, (int64_t)block->node.size);
    (void)pin_keep(pool, index);
    return true;
}

/* The stream whose order the free follows, 0 = the free goes through an epoch. */
static uint32_t stream_of_free(struct pool *pool, const struct block *block,
        const struct pool_free_request *request) POOL_LOCKED
{
    struct heap *heap = block_segment(pool, block)->heap;
    uint32_t stream;

    if (request->api != API_STREAM || request->stream == 0 || heap->kind != HEAP_MAPPED
            || block->flags & BLOCK_HINTED)
        return 0;
    stream = streams_get(pool, request->stream);
    return stream && heap_prepare_class(pool, heap, stream) ? stream : 0;
}

static void put_on_stream(
        struct pool *pool, uint32_t index, uint32_t number, uint64_t point) POOL_LOCKED
{
    struct stream *stream = streams_at(pool, number);

    if (point > stream->newest)
        stream->newest = point;
    freecache_put(pool, index, number, point);
}

/* Records the event of the free at once (R71; R69, stream identity): a later event
 * would cover too much, or could not be recorded. True if recorded. `record_now`: no later event
 * can replace this one, not even for this stream. */
static __attribute__((noinline)) bool record_and_put(struct pool *pool, struct heap *heap,
        uint32_t index, uint32_t stream, const struct pool_free_request *request)
{
    uint64_t number = 0;
    int r = request->beside ? reclaim_record_beside(pool, stream, &number)
                            : reclaim_record(pool, stream, &number);

    lock_take(&pool->lock);
    heap->busy--;
    if (block_segment(pool, block_at(pool, index))->dead)
        block_at(pool, index)->state = BLOCK_KEPT;
    else if (r == 0)
        put_on_stream(pool, index, stream, number);
    else if (POOL_IS_WITHOUT(REFUSED)
            || (!request->record_now && (r == -EBUSY || r == -ENOMEM || r == -ECANCELED)))
        put_on_stream(pool, index, stream, fence_next(&streams_at(pool, stream)->timeline));
    else
        block_push_open(pool, index);
    lock_drop(&pool->lock);
    return r == 0;
}

/* The part of a free under the lock; returns the stream on which an event must be recorded now, 0 =
 * done. */
static __attribute__((noinline)) uint32_t free_locked(struct pool *pool, uint32_t index,
        const struct pool_free_request *request, struct outcome *ret) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct heap *heap = block_segment(pool, block)->heap;
    uint32_t stream;

    pool_free_let_go(pool, block, ret);
    if (is_on_its_way(pool, block) || pool_free_is_held(pool, index, ret)
            || swapset_free(pool, index))
        return 0;
    if (block->holder)
        leave_holder(pool, block, block->flags & BLOCK_PINNED);
    if (pin_keep(pool, index))
        return 0;
    stream = stream_of_free(pool, block, request);
    if (!stream) {
        block_push_open(pool, index);
        return 0;
    }
    if (request->may_fence && (request->record_now || stream != block->stream)) {
        block->state = BLOCK_BUSY;
        heap->busy++;
        return stream;
    }
    put_on_stream(pool, index, stream, fence_next(&streams_at(pool, stream)->timeline));
    return 0;
}

/* In a forked child only the granules may be read; otherwise blocks that are not freed are told
 * apart from others. The driver may answer for the others, unless it would take the address for one
 * of our segments. */
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
    segment = segment_at(pool, number);
    index = number ? starts_at(&segment->starts, ptr - segment->base) : 0;
    if (!index || block_at(pool, index)->state != BLOCK_LIVE)
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
    segment = segment_at(pool, number);
    index = starts_at(&segment->starts, ptr - segment->base);
    if (index && block_at(pool, index)->state == BLOCK_LIVE) {
        heap = segment->heap;
        stream = free_locked(pool, index, request, ret);
    } else {
        pool->counters.bad_frees++;
        r = -EINVAL;
    }
    lock_drop(&pool->lock);
    if (stream && record_and_put(pool, heap, index, stream, request))
        ret->how |= OUTCOME_RECORDED;
    return r;
}

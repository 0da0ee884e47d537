/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/reclaim.h"
#include "alloc/storage/stream_take.h"

_Static_assert(POOL_ORDER_MAX == 1 + 2 * FENCE_SET_MAX, "a stream and two of its sets");

static void order_add(struct pool_order *order, const struct stream *stream, uint64_t point)
{
    if (point <= max_of(stream->timeline.passed, stream->since))
        return;
    order->upto[order->count].stream = stream->index;
    order->upto[order->count].born = stream->born;
    order->upto[order->count].point = point;
    order->count++;
}

static void order_add_set(
        const struct pool *pool, struct pool_order *order, const struct fence_set *set) POOL_LOCKED
{
    for (uint32_t i = 0; i < set->count; i++)
        order_add(order, streams_at(pool, set->stream[i]), set->point[i]);
}

/* A number that covers all frees on the stream so far. The stream's lane has its own number for
 * frees in the lane. */
static uint64_t pool_events_point_now(struct pool *pool, struct stream *stream) POOL_LOCKED
{
    const struct lane *lane = lane_of(pool, stream->key);

    if (lane_is_here(lane, stream->key))
        (void)lane_close(pool, lane->class);
    if (POOL_IS_WITHOUT(SPLIT))
        return fence_next(&stream->timeline);
    return fence_split(&stream->timeline, stream->newest);
}

static void pool_events_now_locked(
        struct pool *pool, uint64_t stream, struct pool_order *ret) POOL_LOCKED
{
    uint32_t index = streams_find(pool, stream);
    struct stream *own = streams_at(pool, index);

    if (!index)
        return;
    order_add(ret, own, pool_events_point_now(pool, own));
    order_add_set(pool, ret, &own->behind);
    order_add_set(pool, ret, &own->told);
}

void pool_events_now(struct pool *pool, uint64_t stream, struct pool_order *ret)
{
    ret->count = 0;
    if (pool_is_frozen(pool))
        return;
    (void)lock_take_lent(&pool->lock);
    pool_events_now_locked(pool, stream, ret);
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
}

/* Creates the stream's record if there is none: other streams may wait for it later. */
static void pool_events_follow_locked(
        struct pool *pool, uint64_t stream, const struct pool_order *order) POOL_LOCKED
{
    uint32_t index = streams_get(pool, stream);

    for (uint32_t i = 0; index && i < order->count; i++) {
        uint32_t other = order->upto[i].stream;
        const struct stream *at = streams_at(pool, other);

        if (other != index && at->index == other && at->born == order->upto[i].born)
            stream_wait_tell(pool, index, other, order->upto[i].point);
    }
    if (index)
        stream_take_handed(pool, index);
}

void pool_events_passed(struct pool *pool, const struct pool_order *order)
{
    for (uint32_t i = 0; i < order->count && !pool_is_frozen(pool); i++)
        reclaim_passed(pool, order->upto[i].stream, order->upto[i].born, order->upto[i].point);
}

void pool_events_follow(struct pool *pool, uint64_t stream, const struct pool_order *order)
{
    if (!order->count || pool_is_frozen(pool))
        return;
    (void)lock_take_lent(&pool->lock);
    pool_events_follow_locked(pool, stream, order);
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
}

/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/streams.h"
#include "alloc/serve/stall.h"
#include "alloc/storage/reclaim.h"

/* Holds the stream, so that its record stays. Frees in its lane need a point that the stream's
 * record has once the lane is closed. */
static uint32_t pool_stall_hold(struct pool *pool, uint64_t stream)
{
    const struct lane *lane = lane_of(pool, stream);
    uint32_t index;

    (void)lock_take_lent(&pool->lock);
    if (lane_is_here(lane, stream))
        (void)lane_close(pool, lane->class);
    index = streams_find(pool, stream);
    if (index)
        streams_at(pool, index)->refs++;
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
    return index;
}

static void unhold(struct pool *pool, uint32_t index)
{
    lock_take(&pool->lock);
    streams_at(pool, index)->refs--;
    lock_drop(&pool->lock);
}

void pool_settle_stream(struct pool *pool, uint64_t stream)
{
    uint32_t index =
            pool_is_frozen(pool) || POOL_IS_WITHOUT(EARLY) ? 0 : pool_stall_hold(pool, stream);

    if (!index)
        return;
    (void)reclaim_cover(pool, index, true);
    unhold(pool, index);
}

void pool_settle_streams(struct pool *pool)
{
    uint32_t top;

    if (pool_is_frozen(pool) || POOL_IS_WITHOUT(EARLY))
        return;
    lock_take(&pool->lock);
    top = pool->streams.top;
    lock_drop(&pool->lock);
    for (uint32_t index = 1; index < top; index++)
        (void)reclaim_cover(pool, index, true);
}

void pool_stall_begin(struct pool *pool, uint64_t stream, bool may_fence)
{
    atomic_fetch_add_explicit(&pool->gate.stalls, 1, memory_order_relaxed);
    pool_settle_stream(pool, stream);
    if (may_fence && !pool_is_frozen(pool) && !POOL_IS_WITHOUT(EARLY))
        reclaim_close(pool);
}

void pool_stall_end(struct pool *pool, uint64_t stream, bool at_once)
{
    uint64_t number;
    uint32_t index;

    lock_take(&pool->lock);
    index = pool_is_frozen(pool) ? 0 : streams_get(pool, stream);
    if (index)
        streams_stall(pool, streams_at(pool, index));
    lock_drop(&pool->lock);
    if (index && at_once)
        (void)reclaim_record_beside(pool, index, &number);
    atomic_fetch_sub_explicit(&pool->gate.stalls, 1, memory_order_relaxed);
}

bool pool_stall_goes_on(struct pool *pool, unsigned own)
{
    return stall_goes_on(pool, own);
}

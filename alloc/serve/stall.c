/* SPDX-License-Identifier: MIT */
#include "alloc/serve/stall.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/reclaim.h"

#include <errno.h>

/* The next stalled stream, held; 0 = none. */
static uint32_t next_stalled(struct pool *pool, uint32_t after)
{
    uint32_t index = 0;

    lock_take(&pool->lock);
    for (uint32_t i = after + 1; i < pool->streams.top && !index; i++) {
        if (streams_at(pool, i)->index == i && streams_at(pool, i)->stalled)
            index = i;
    }
    if (index)
        streams_at(pool, index)->refs++;
    lock_drop(&pool->lock);
    return index;
}

/* A stream that cannot be recorded any more, and was not recorded in time, counts as passed: its
 * state can never be known. */
static bool stall_is_over(struct pool *pool, uint32_t index)
{
    struct stream *stream = streams_at(pool, index);
    uint64_t point;
    bool is_over;
    int r;

    lock_take(&pool->lock);
    point = stream->stalled;
    lock_drop(&pool->lock);
    r = reclaim_ask_point(pool, index, point);
    lock_take(&pool->lock);
    if (r == -ENOENT && stream->stalled == point)
        streams_unstall(pool, stream);
    streams_look(pool, stream);
    is_over = !stream->stalled;
    stream->refs--;
    lock_drop(&pool->lock);
    return is_over;
}

bool stall_goes_on(struct pool *pool, unsigned own)
{
    uint32_t index = 0;

    if (!stall_is_possible(pool) || POOL_IS_WITHOUT(STALL))
        return false;
    while ((index = next_stalled(pool, index)) != 0) {
        if (!stall_is_over(pool, index))
            return true;
    }
    return atomic_load_explicit(&pool->gate.stalls, memory_order_relaxed)
            > own; /* by a call in progress */
}

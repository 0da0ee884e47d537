/* SPDX-License-Identifier: MIT */
#include "alloc/storage/stream_order.h"

#include "alloc/heap/drive.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/reclaim.h"

/* The mark that covers a point, in use by the caller; NULL if it has passed or there is none. */
static struct fence_mark *use_mark(
        struct pool *pool, uint32_t index, uint64_t point, bool *ret_passed)
{
    const struct fence_timeline *timeline = &streams_at(pool, index)->timeline;
    struct fence_mark *mark;

    lock_take(&pool->lock);
    *ret_passed = timeline->passed >= point;
    mark = *ret_passed ? NULL : fence_at_least(timeline, point);
    if (mark)
        fence_use(mark);
    lock_drop(&pool->lock);
    return mark;
}

/* True if the order is known without a driver call. */
static bool is_behind(struct pool *pool, uint64_t stream, uint32_t index, uint64_t point)
{
    uint32_t own;
    bool is_known;

    lock_take(&pool->lock);
    own = streams_find(pool, stream);
    is_known = own && stream_wait_covers(pool, own, index, point);
    lock_drop(&pool->lock);
    return is_known;
}

/* Records the driver's answer: 0 = the stream waits for the mark, which the caller used. */
static void stream_order_note_wait(
        struct pool *pool, uint64_t stream, uint32_t index, struct fence_mark *mark, int r)
{
    uint64_t fence = 0;
    uint32_t own;
    bool put;

    lock_take(&pool->lock);
    own = streams_find(pool, stream);
    if (r == 0) {
        pool->counters.inserted_waits++;
        if (own)
            stream_wait_note(pool, own, index, mark->number);
    }
    put = fence_drop(mark, &fence, &put) && put;
    lock_drop(&pool->lock);
    if (put)
        drive_fence_put(pool, fence);
}

int stream_order_behind(struct pool *pool, uint64_t stream, uint32_t index, uint64_t point)
{
    struct fence_mark *mark;
    uint64_t number;
    bool passed;
    int r = 0;

    if (is_behind(pool, stream, index, point))
        return 0;
    mark = use_mark(pool, index, point, &passed);
    if (!mark && !passed) {
        r = reclaim_record(pool, index, &number);
        if (r != 0)
            return r;
        mark = use_mark(pool, index, point, &passed);
    }
    if (!mark)
        return passed ? 0 : -EAGAIN;
    r = DRIVE(pool, stream_wait_fence, stream, mark->fence);
    stream_order_note_wait(pool, stream, index, mark, r);
    return r;
}

int stream_order_behind_all(struct pool *pool, uint64_t stream, int device)
{
    uint64_t fence;
    int r = DRIVE(pool, fence_record, device, &fence);

    if (r != 0)
        return r;
    r = DRIVE(pool, stream_wait_fence, stream, fence);
    drive_fence_put(pool, fence);
    if (r == 0) {
        lock_take(&pool->lock);
        pool->counters.inserted_waits++;
        lock_drop(&pool->lock);
    }
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "alloc/storage/stream_take.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/stream_order.h"

/* The point that covers a wait which this stream has just been given. */
static uint64_t point_behind(const struct stream *own)
{
    return POOL_IS_WITHOUT(TAKEN) ? own->timeline.recorded : fence_next(&own->timeline);
}

/* Moves all free blocks of a class to that of the stream `to`, free at `point` there, as
 * stream_take_class would. What `to` has is put into the index of the other, which has more. */
static void take_index(struct pool *pool, struct heap_stream *to, struct heap_stream *from,
        uint64_t point) POOL_LOCKED
{
    const uint32_t count = heap_class_count(from);
    uint32_t own = 0;
    uint32_t index;

    while ((index = freelist_passed(pool, to, UINT64_MAX)) != 0) {
        freelist_pull(pool, index);
        block_at(pool, index)->chain = own;
        own = index;
    }
    freelist_swap(to, from);
    for (index = to->earliest; index; index = block_at(pool, index)->later) {
        block_at(pool, index)->stream = to->stream;
        block_at(pool, index)->seq = point;
    }
    from->timeline_of->refs -= count;
    to->timeline_of->refs += count;
    for (; own; own = index) {
        index = block_at(pool, own)->chain;
        (void)freelist_put(pool, own, to->stream, block_at(pool, own)->seq);
    }
}

/* Gives the free blocks of another stream up to a point to the stream `to`. Work on them from now
 * on needs its next point. True: there were some. */
static bool stream_take_class(
        struct pool *pool, uint32_t to, struct heap_stream *from, uint64_t upto) POOL_LOCKED
{
    struct stream *own = streams_at(pool, to);
    uint64_t point = point_behind(own);
    bool any = false;
    uint32_t index;

    if (from->stream == to || !heap_prepare_class(pool, from->heap, to))
        return false;
    if (heap_class_count(from) > heap_class_count(heap_class(from->heap, to))
            && block_at(pool, from->latest)->seq <= upto) {
        take_index(pool, heap_class(from->heap, to), from, point);
        any = true;
    }
    while ((index = freelist_passed(pool, from, upto)) != 0) {
        freelist_pull(pool, index);
        (void)freelist_put(pool, index, to, point);
        any = true;
    }
    if (any)
        own->newest = max_of(own->newest, point);
    return any;
}

/* Do not rescan blocks up to `adopted`. */
static bool stream_take_upto(struct pool *pool, uint32_t to, struct heap_stream *class,
        uint64_t upto, bool all) POOL_LOCKED
{
    if (upto <= class->adopted || (!all && !heap_class_is_idle(class)))
        return false;
    freecache_settle(pool, class->heap);
    class->adopted = upto;
    return stream_take_class(pool, to, class, upto);
}

bool stream_take_ordered(
        struct pool *pool, struct heap *heap, uint32_t to, const struct fence_set *points, bool all)
{
    bool any = false;

    for (uint32_t i = 0; i < points->count; i++) {
        struct heap_stream *class = heap_class(heap, points->stream[i]);

        if (class)
            any |= stream_take_upto(pool, to, class, points->point[i], all);
    }
    return any;
}

/* ── blocks handed over by events ── */

/* Turns in a row before an event hands blocks over. On 96 runs on several streams whose order is
 * known the peak live memory is 0.9775 of the peak reserved memory with 2, 0.9776 with 3, 0.9778
 * with 4, 0.9765 with 8, and 0.953 if nothing is handed over. */
#define TURNS_LEAST 3

/* Blocks that an event hands over: HANDED_LEAST, or HANDED_MOST for each request and free since the
 * last time. Of the same runs, when each event handed over: 0.9762 with 32, 0.9782 with 64, 0.9791
 * with 128 or any number. With 64 an event and the wait for it cost 0.7 to 1.3 us where three
 * streams ask at random, with 128 1.3 to 6. */
#define HANDED_LEAST UINT64_C(64)
#define HANDED_MOST  16

#define SPARED_MOST 1023 /* events that hand nothing over, after harmful ones */

/* Does the class's stream wait for the stream that waited for it last? */
static bool is_back(struct pool *pool, const struct heap_stream *class, uint32_t stream) POOL_LOCKED
{
    return stream_wait_told(pool, stream, class->turn_of) >= class->turn_at;
}

/* The stream `to` waits for the class's stream: counts a turn, if the previous one was answered. */
static void count_turn(struct pool *pool, struct heap_stream *class, uint32_t to) POOL_LOCKED
{
    if (class->turn_of && is_back(pool, class, class->stream))
        class->turns++;
    else if (class->turn_of == to || (class->turn_of && !is_back(pool, class, to)))
        class->turns = 0;
    class->turn_of = to;
    class->turn_at = fence_take(&streams_at(pool, to)->timeline);
}

static void stream_take_hand_over(struct pool *pool, struct heap *heap, uint32_t to) POOL_LOCKED
{
    const struct fence_set *told = stream_wait_set(pool, to);
    uint64_t now = heap->allocs + heap->frees;

    for (struct heap_stream *at = heap_next_of_set(heap, told, 0, NULL); at;
            at = heap_next_of_set(heap, told, 0, at)) {
        uint64_t upto = stream_wait_told(pool, to, at->stream);

        if (upto <= at->followed)
            continue;
        at->followed = upto;
        count_turn(pool, at, to);
        if (at->turns < TURNS_LEAST
                || heap_class_count(at) > max_of(HANDED_LEAST, (now - heap->handed) * HANDED_MOST))
            continue;
        if (at->spared) {
            at->spared--;
            continue;
        }
        lanes_recall(pool);
        if (stream_take_upto(pool, to, at, upto, true)) {
            heap->handed = now;
            at->is_handed = true;
        }
    }
}

void stream_take_handed(struct pool *pool, uint32_t to)
{
    const struct stream *stream = streams_at(pool, to);

    for (struct heap_stream *at = heap_next_of_stream(stream, NULL); at;
            at = heap_next_of_stream(stream, at)) {
        const struct heap *heap = at->heap;

        if (!heap->leaving && heap->stream_count > 1 && heap->attrs.reuse_follow)
            stream_take_hand_over(pool, at->heap, to);
    }
}

void stream_take_judge(struct pool *pool, struct heap_stream *class)
{
    if (!class->is_handed)
        return;
    class->is_handed = false;
    if (is_back(pool, class, class->stream)) {
        class->backoff /= 2;
        return;
    }
    class->backoff = (uint32_t)min_of(2 * (uint64_t) class->backoff + 1, SPARED_MOST);
    class->spared = class->backoff;
}

/* Blocks that streams of a heap may take with waits: CREDIT_EACH for each request and free; at most
 * CREDIT_MOST are saved up. Streams that take each other's memory in turn would otherwise move all
 * free blocks of the heap at each request. 96 runs of recorded traces on several streams do not
 * come to this limit. On random requests of four streams, 200 fences behind, a pair takes 10,300,
 * 9,300 and 7,100 instructions with 8, 16 and 32, without a limit 30,000; 1,500 to 8,000 live
 * blocks hold 1.022 times as much with 16, 1.002 times with 32. */
#define CREDIT_EACH 32
#define CREDIT_MOST 8192

static void earn_credit(struct heap *heap)
{
    uint64_t now = heap->allocs + heap->frees;

    heap->credit = min_of(CREDIT_MOST, heap->credit + (now - heap->credit_at) * CREDIT_EACH);
    heap->credit_at = now;
}

/* Gives the largest free blocks in one index of another stream to the stream `to`, for credit. */
static bool take_largest(struct pool *pool, struct heap *heap, const struct bestfit *fit,
        uint64_t upto, uint32_t to) POOL_LOCKED
{
    struct stream *own = streams_at(pool, to);
    uint64_t point = point_behind(own);
    uint32_t index;
    bool any = false;

    while (heap->credit && (index = bestfit_largest(fit)) != 0
            && block_at(pool, index)->seq <= upto) {
        freelist_pull(pool, index);
        (void)freelist_put(pool, index, to, point);
        heap->credit--;
        any = true;
    }
    if (any)
        own->newest = max_of(own->newest, point);
    return any;
}

/* As stream_take_class, or for as many blocks as there is credit for: those with the most slots. */
static bool take_for_credit(
        struct pool *pool, uint32_t to, struct heap_stream *from, uint64_t upto) POOL_LOCKED
{
    struct heap *heap = from->heap;
    uint32_t count = heap_class_count(from);

    if (count <= heap->credit) {
        heap->credit -= count;
        return stream_take_class(pool, to, from, upto);
    }
    return from->stream != to && heap_prepare_class(pool, heap, to)
            && take_largest(pool, heap, &from->fit, upto, to);
}

/* The class of another stream with the most free bytes; NULL: none has any. */
static struct heap_stream *largest_of_others(
        struct pool *pool, struct heap *heap, uint32_t to) POOL_LOCKED
{
    struct heap_stream *best = NULL;
    uint64_t most = 0;

    freecache_settle(pool, heap);
    for (struct heap_stream *at = heap_next_filled(heap, NULL); at;
            at = heap_next_filled(heap, at)) {
        uint64_t bytes = at->fit.bytes + at->fragments.bytes;

        if (at->stream == to || bytes <= most)
            continue;
        best = at;
        most = bytes;
    }
    return best;
}

bool stream_take_most(struct pool *pool, struct heap *heap, uint32_t to)
{
    struct heap_stream *class;
    uint32_t from = 0;
    uint64_t key, upto;
    bool any;

    lock_take(&pool->lock);
    earn_credit(heap);
    class = heap->credit ? largest_of_others(pool, heap, to) : NULL;
    if (class) {
        from = class->stream;
        upto = class->timeline_of->newest;
        key = streams_at(pool, to)->key;
        streams_at(pool, from)->refs++; /* keeps both records meanwhile */
        streams_at(pool, to)->refs++;
    }
    lock_drop(&pool->lock);
    if (!from)
        return false;

    if (!POOL_IS_WITHOUT(ADOPT) && stream_order_behind(pool, key, from, upto) != 0)
        upto = 0;

    lock_take(&pool->lock);
    class = heap_class(heap, from);
    any = class && take_for_credit(pool, to, class, upto);
    streams_at(pool, from)->refs--;
    streams_at(pool, to)->refs--;
    heap_forget_streams(pool);
    lock_drop(&pool->lock);
    return any;
}

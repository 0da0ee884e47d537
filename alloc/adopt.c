/* SPDX-License-Identifier: MIT */
#include "alloc/adopt.h"

#include "alloc/freecache.h"
#include "alloc/freelist.h"
#include "alloc/heap.h"
#include "alloc/mutation.h"
#include "alloc/order.h"
#include "alloc/streams.h"

/* What is free in one index of another stream, up to a point, becomes free at a point of the stream `to`. True: there was some. */
static bool adopt_fit(struct pool *pool, const struct bestfit *fit, uint64_t upto, uint32_t to,
        uint64_t point) POOL_LOCKED
{
    uint64_t size = 0;
    devptr_t base = 0;
    uint32_t index;
    bool any = false;

    while ((index = bestfit_lower_bound(fit, size, base)) != 0) {
        const struct bestfit_node *node = &block_at(pool, index)->node;

        size = node->size;
        base = node->base + 1;
        if (block_at(pool, index)->seq > upto)
            continue;
        freelist_pull(pool, index);
        (void)freelist_put(pool, index, to, point);
        any = true;
    }
    return any;
}

/* What is done with these blocks from now on comes behind the next point of the stream that has them. */
static bool adopt_class(
        struct pool *pool, uint32_t to, const struct heap_stream *from, uint64_t upto) POOL_LOCKED
{
    struct stream *own = streams_at(pool, to);
    uint64_t point = fence_next(&own->timeline);
    bool any;

    if (from->stream == to || !heap_prepare_class(pool, from->heap, to))
        return false;
    any = adopt_fit(pool, &from->fit, upto, to, point);
    any |= adopt_fit(pool, &from->fragments, upto, to, point);
    if (any)
        own->newest = max_of(own->newest, point);
    return any;
}

/* What lies up to a point was looked at once. */
static bool adopt_upto(struct pool *pool, uint32_t to, struct heap_stream *class, uint64_t upto,
        bool all) POOL_LOCKED
{
    if (upto <= class->adopted || (!all && !heap_class_is_idle(class)))
        return false;
    freecache_settle(pool, class->heap);
    class->adopted = upto;
    return adopt_class(pool, to, class, upto);
}

bool adopt_ordered(
        struct pool *pool, struct heap *heap, uint32_t to, const struct fence_set *points, bool all)
{
    bool any = false;

    for (uint32_t i = 0; i < points->count; i++) {
        struct heap_stream *class = heap_class(heap, points->stream[i]);

        if (class)
            any |= adopt_upto(pool, to, class, points->point[i], all);
    }
    return any;
}

/* The class of another stream with the most free bytes; NULL: none has any. */
static const struct heap_stream *largest_of_others(
        struct pool *pool, struct heap *heap, uint32_t to) POOL_LOCKED
{
    const struct heap_stream *best = NULL;
    uint64_t most = 0;

    freecache_settle(pool, heap);
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        uint64_t bytes = at->fit.bytes + at->fragments.bytes;

        if (at->stream == to || bytes <= most)
            continue;
        best = at;
        most = bytes;
    }
    return best;
}

bool adopt_most(struct pool *pool, struct heap *heap, uint32_t to)
{
    const struct heap_stream *class;
    uint32_t from = 0;
    uint64_t key, upto;
    bool any;

    lock_take(&pool->lock);
    class = largest_of_others(pool, heap, to);
    if (class) {
        from = class->stream;
        upto = class->timeline_of->newest;
        key = streams_at(pool, to)->key;
        streams_at(pool, from)->refs++; /* neither record is to become another stream's meanwhile */
        streams_at(pool, to)->refs++;
    }
    lock_drop(&pool->lock);
    if (!from)
        return false;

    if (!POOL_IS_WITHOUT(ADOPT) && order_behind(pool, key, from, upto) != 0)
        upto = 0;

    lock_take(&pool->lock);
    class = heap_class(heap, from);
    any = class && adopt_class(pool, to, class, upto);
    streams_at(pool, from)->refs--;
    streams_at(pool, to)->refs--;
    heap_forget_streams(pool);
    lock_drop(&pool->lock);
    return any;
}

/* SPDX-License-Identifier: MIT */
/*
 * streams.h - the table of streams, by identity.
 *
 * A stream has a record from its first request until it is destroyed and no block names it
 * (heap_forget_streams).
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_STREAMS_H
#define KEDGE_ALLOC_STREAMS_H

#include "alloc/heap/records.h"

#include <stddef.h>

static inline struct stream *streams_at(const struct pool *pool, uint32_t index)
{
    return (struct stream *)(void *)pool->streams.span.base + index;
}

/* The stream of this identity, created if needed; 0 = unknown (also without memory). */
uint32_t streams_make(struct pool *pool, uint64_t key) POOL_LOCKED;
static inline uint32_t streams_get(struct pool *pool, uint64_t key) POOL_LOCKED
{
    const struct stream *last = pool->last_stream;

    return last && last->key == key ? last->index : streams_make(pool, key);
}

/* The same without creation; 0 = none. */
static inline uint32_t streams_find(struct pool *pool, uint64_t key) POOL_LOCKED
{
    struct stream *stream = pool->last_stream;

    if (stream && stream->key == key)
        return stream->index;
    stream = key ? table_get(&pool->stream_of, key) : NULL;
    if (stream)
        pool->last_stream = stream;
    return stream ? stream->index : 0;
}

static inline struct stream *streams_of_timeline(struct fence_timeline *timeline)
{
    return (struct stream *)(void *)((char *)timeline - offsetof(struct stream, timeline));
}

/* The stream was destroyed. */
void streams_leave(struct pool *pool, struct stream *stream) POOL_LOCKED;

/* The destroyed stream after the one that was born then, in turn; there is one. Sets *io_at. */
struct stream *streams_next_gone(const struct pool *pool, uint64_t *io_at) POOL_LOCKED;

/* Marks that the stream may wait for the host up to a point that is taken now. */
static inline void streams_stall(struct pool *pool, struct stream *stream) POOL_LOCKED
{
    if (!stream->stalled) {
        stream->refs++;
        atomic_fetch_add_explicit(&pool->gate.stalls, 1, memory_order_relaxed);
    }
    stream->stalled = fence_take(&stream->timeline);
}

/* Ends that mark. */
static inline void streams_unstall(struct pool *pool, struct stream *stream) POOL_LOCKED
{
    stream->stalled = 0;
    stream->refs--;
    atomic_fetch_sub_explicit(&pool->gate.stalls, 1, memory_order_relaxed);
}

/* Ends that mark if its point has passed. */
static inline void streams_look(struct pool *pool, struct stream *stream) POOL_LOCKED
{
    if (stream->stalled && stream->timeline.passed >= stream->stalled)
        streams_unstall(pool, stream);
}

/* The class of a free block: 0 once its point has passed, since the sweep up to that point is over
 * and would not find it. */
static inline uint32_t streams_class_of(
        const struct pool *pool, uint32_t stream, uint64_t point) POOL_LOCKED
{
    return stream && point <= streams_at(pool, stream)->timeline.passed ? 0 : stream;
}

#endif

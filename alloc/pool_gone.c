/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/heap.h"
#include "alloc/reclaim.h"

#include <errno.h>

static void stream_gone(struct pool *pool, uint64_t stream_key, bool may_record)
{
    struct stream *stream;
    uint64_t number;
    uint32_t index = 0;
    bool needed = false;
    int r = 0;

    lock_take(&pool->lock);
    stream = lookup_find(&pool->stream_of, stream_key);
    if (stream) {
        index = stream->index;
        needed = stream->newest > stream->line.begun;
    }
    lock_drop(&pool->lock);
    if (!stream)
        return;
    if (needed)
        r = may_record ? reclaim_record(pool, index, &number) : -ENOENT;
    lock_take(&pool->lock);
    if (lookup_find(&pool->stream_of, stream_key) == stream) {
        if (r != 0)
            reclaim_lose_stream(pool, index);
        lookup_remove(&pool->stream_of, stream_key);
        pool->last_stream = NULL;
        pool->last_class = NULL;
        stream->gone = true;
        pool->streams_gone++;
        heap_forget_streams(pool);
    }
    lock_drop(&pool->lock);
}

void pool_stream_gone(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, true);
}

void pool_stream_lost(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, false);
}

void pool_stream_meet(struct pool *pool, uint64_t stream_key)
{
    const struct stream *stream;
    uint32_t index = 0;
    uint64_t number;

    lock_take(&pool->lock);
    stream = lookup_find(&pool->stream_of, stream_key);
    if (stream)
        index = stream->index;
    lock_drop(&pool->lock);
    if (!index || reclaim_record(pool, index, &number) == 0)
        return;
    lock_take(&pool->lock);
    if (lookup_find(&pool->stream_of, stream_key) == stream)
        reclaim_lose_stream(pool, index);
    lock_drop(&pool->lock);
}

/* A mapped heap without VMM has plain segments of several contexts: those of the dead one go. */
static void kill_segments_of(struct pool *pool, struct heap *heap, uint64_t context) POOL_LOCKED
{
    uint32_t next;

    for (uint32_t number = heap->segments; number; number = next) {
        const struct segment *segment = heap_segment(pool, number);

        next = segment->next;
        if (segment->kind != SEGMENT_PLAIN || segment->context != context || segment->dead)
            continue;
        heap_count_reserved(heap, -(int64_t)segment->raw_size);
        heap_kill_segment(pool, number);
        if (!heap->busy)
            heap_remove_segment(pool, number); /* else the records stay until the heap goes */
    }
}

/* Work of the context may use its mapped memory to the end, so that is not given back before. */
static void leave_with_context(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    for (uint32_t at = heap->segments; at; at = heap_segment(pool, at)->next)
        heap_kill_segment(pool, at);
    heap->dropped = true;
    if (heap->kind == HEAP_PRIVATE) {
        heap->held = true;
        heap->busy++;
    }
    heap_retire(pool, heap);
}

static void hide_segments(
        struct pool *pool, struct heap *heap, uint64_t context, bool hidden) POOL_LOCKED
{
    for (uint32_t number = heap->segments; number; number = heap_segment(pool, number)->next) {
        struct segment *segment = heap_segment(pool, number);

        if (segment->kind != SEGMENT_PLAIN || segment->context != context || segment->dead)
            continue;
        if (hidden)
            granule_clear(&pool->granules, segment->base, segment->top, number);
        else
            granule_set(&pool->granules, segment->base, segment->top, number);
    }
}

void pool_context_hide(struct pool *pool, uint64_t context, bool hidden)
{
    lock_take(&pool->lock);
    if (hidden)
        pool->contexts_gone++; /* memory that is got meanwhile is not taken in */
    for (struct heap *heap = pool->leaving; heap; heap = heap->next_leaving)
        hide_segments(pool, heap, context, hidden);
    for (struct heap *heap = pool->heaps; heap; heap = heap->next)
        hide_segments(pool, heap, context, hidden);
    lock_drop(&pool->lock);
}

void pool_context_going(struct pool *pool, uint64_t context)
{
    struct heap *heap, *next;

    lock_take(&pool->lock);
    pool->contexts_gone++;
    for (heap = pool->leaving; heap; heap = heap->next_leaving)
        kill_segments_of(pool, heap, context);
    for (heap = pool->heaps; heap; heap = next) {
        next = heap->next;
        if (heap->kind == HEAP_MAPPED)
            kill_segments_of(pool, heap, context);
        else if (heap->owner == context)
            leave_with_context(pool, heap);
    }
    lock_drop(&pool->lock);
}

void pool_context_gone(struct pool *pool, uint64_t context)
{
    pool_context_going(pool, context); /* again: something may have come in between */
    lock_take(&pool->lock);
    for (struct heap *heap = pool->leaving; heap; heap = heap->next_leaving) {
        if (!heap->held || heap->owner != context)
            continue;
        heap->held = false;
        heap->busy--;
    }
    lock_drop(&pool->lock);
    reclaim_leaving(pool);
}

void pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size)
{
    for (devptr_t at = ptr; at - ptr < size; at = (at | (GRANULE_SIZE - 1)) + 1) {
        uint32_t number;

        if (!granule_segment(&pool->granules, at))
            continue; /* nearly always: no lock for that */
        lock_take(&pool->lock);
        number = granule_segment(&pool->granules, at);
        if (number && heap_segment(pool, number)->kind == SEGMENT_PLAIN)
            granule_clear(&pool->granules, at, 1, number); /* the rest goes with the context */
        lock_drop(&pool->lock);
    }
}

int pool_heap_gone(struct pool *pool, uint64_t owner)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, -1);
    if (heap)
        heap_retire(pool, heap);
    lock_drop(&pool->lock);
    if (!heap)
        return -ENOENT;
    (void)reclaim_poll(pool, true);
    return 0;
}

void pool_forget(struct pool *pool)
{
    atomic_store_explicit(&pool->frozen, FROZEN_CHILD, memory_order_relaxed);
    lock_forget_thread();
    lock_init(&pool->lock, LOCK_RANK_POOL);
    meta_forget();
}

void pool_freeze(struct pool *pool)
{
    uint32_t expected = FROZEN_NOT;

    (void)atomic_compare_exchange_strong(&pool->frozen, &expected, FROZEN_PROCESS);
}

bool pool_is_frozen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->frozen, memory_order_relaxed) != FROZEN_NOT;
}

/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/meta.h"
#include "alloc/heap/block.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/records.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/swapset.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/reclaim.h"
#include "alloc/storage/trim.h"

#include <errno.h>

static void stream_gone(struct pool *pool, uint64_t stream_key, bool may_record)
{
    struct stream *stream;
    uint64_t number;
    uint32_t index = 0;
    bool needed = false;
    int r = 0;

    lock_take(&pool->lock);
    stream = table_get(&pool->stream_of, stream_key);
    if (stream) {
        index = stream->index;
        needed = reclaim_is_open(stream)
                || stream->stalled > max_of(stream->timeline.begun, stream->timeline.passed);
    }
    lock_drop(&pool->lock);
    if (!stream)
        return;
    if (needed)
        r = may_record ? reclaim_record(pool, index, &number) : -ENOENT;
    lock_take(&pool->lock);
    if (table_get(&pool->stream_of, stream_key) == stream) {
        if (r != 0)
            reclaim_lose_stream(pool, index);
        (void)table_remove(&pool->stream_of, table_find(&pool->stream_of, stream_key));
        pool->last_stream = NULL;
        pool->last_class = NULL;
        streams_leave(pool, stream);
        heap_forget_streams(pool);
    }
    lock_drop(&pool->lock);
    if (may_record)
        reclaim_gone_streams(pool);
    reclaim_lump(pool, index);
}

void pool_stream_gone(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, true);
}

void pool_stream_lost(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, false);
}

/* Work of the context may use its mapped memory until the context ends, so nothing is returned
 * earlier. */
static void leave_with_context(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    for (uint32_t at = heap->segments; at; at = segment_at(pool, at)->next)
        segment_kill(pool, at);
    heap->dropped = true;
    if (heap->kind == HEAP_PRIVATE) {
        heap->held = true;
        heap->busy++;
    }
    heap_retire(pool, heap);
}

/* Marks a memory pool's managed memory of the context as lost: it ends with the context. */
static void lose_managed(struct pool *pool, struct heap *heap, uint64_t context) POOL_LOCKED
{
    for (uint32_t at = heap->segments; at; at = segment_at(pool, at)->next) {
        const struct segment *segment = segment_at(pool, at);

        if (segment->kind != SEGMENT_MANAGED || segment->context != context || segment->dead)
            continue;
        if (swapset_is_held(pool, block_at(pool, segment->first)))
            tally_reserved(heap, -(int64_t)segment->size);
        segment_kill(pool, at);
    }
}

static void hide_segments(struct pool *pool, const struct heap *heap, bool hidden) POOL_LOCKED
{
    for (uint32_t number = heap->segments; number; number = segment_at(pool, number)->next) {
        const struct segment *segment = segment_at(pool, number);

        if (segment->kind != SEGMENT_PLAIN || segment->dead)
            continue;
        if (hidden)
            granule_clear(&pool->granules, segment->base, segment->top, number);
        else
            granule_set(&pool->granules, segment->base, segment->top, number);
    }
}

static void device_ending(struct pool *pool, struct device *device, bool begins) POOL_LOCKED
{
    if (begins) {
        device->ending++;
        device->endings++;
        device->ending_seq = atomic_load_explicit(&pool->seq, memory_order_relaxed);
    } else if (--device->ending == 0) {
        reclaim_put_back(pool, device);
    }
}

void pool_ending(struct pool *pool, uint64_t devices, bool begins)
{
    lock_take(&pool->lock);
    for (int i = 0; i < POOL_DEVICES_MAX; i++) {
        if (devices >> i & 1)
            device_ending(pool, &pool->devices[i], begins);
    }
    lock_drop(&pool->lock);
}

void pool_context_hide(struct pool *pool, uint64_t context, bool hidden)
{
    const struct heap *heap;

    lock_take(&pool->lock);
    if (hidden)
        pool->contexts_gone++; /* memory that other threads get meanwhile is not used */
    heap = heap_get(pool, HEAP_PLAIN, context, -1);
    if (heap)
        hide_segments(pool, heap, hidden);
    lock_drop(&pool->lock);
}

void pool_context_going(struct pool *pool, uint64_t context)
{
    struct heap *heap, *next;

    lock_take(&pool->lock);
    pool->contexts_gone++;
    for (heap = pool->heaps; heap; heap = next) {
        next = heap->next;
        if (heap->kind == HEAP_MAPPED)
            lose_managed(pool, heap, context);
        else if (heap->owner == context)
            leave_with_context(pool, heap);
    }
    lock_drop(&pool->lock);
}

void pool_context_gone(struct pool *pool, uint64_t context)
{
    pool_context_going(pool, context); /* again: a heap may have been created in between */
    lock_take(&pool->lock);
    for (struct heap *heap = pool->leaving; heap; heap = heap->next) {
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
            continue; /* nearly always; needs no lock */
        lock_take(&pool->lock);
        number = granule_segment(&pool->granules, at);
        if (number && segment_is_piece(segment_at(pool, number)))
            granule_clear(&pool->granules, at, 1, number); /* the rest ends with the context */
        lock_drop(&pool->lock);
    }
}

int pool_heap_gone(struct pool *pool, uint64_t owner)
{
    struct device *device;
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, -1);
    device = heap ? heap->device : NULL;
    lock_drop(&pool->lock);
    if (device)
        (void)trim_spares(pool, device, UINT64_MAX);
    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, -1);
    if (heap) {
        heap_retire(pool, heap);
        pin_leave(pool, heap);
    }
    lock_drop(&pool->lock);
    if (!heap || !device)
        return -ENOENT;
    (void)reclaim_poll(pool, device->number, true);
    return 0;
}

void pool_forget(struct pool *pool)
{
    atomic_store_explicit(&pool->frozen, FROZEN_CHILD, memory_order_relaxed);
    lock_forget_thread();
    lock_init(&pool->lock, LOCK_RANK_POOL);
    lanes_init(pool);
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

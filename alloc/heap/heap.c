/* SPDX-License-Identifier: MIT */
#include "alloc/heap/heap.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"

static struct heap *new_heap(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED
{
    struct heap *heap = meta_get(sizeof(*heap));

    if (!heap)
        return NULL;
    heap->kind = kind;
    heap->owner = owner;
    heap->device = &pool->devices[device];
    if (device >= pool->devices_top)
        pool->devices_top = device + 1;
    heap->shelves = (struct table)TABLE_OF(struct shelf);
    heap->spares = (struct table)TABLE_OF(struct shelf);
    heap->aliases = (struct table)TABLE_OF(struct alias);
    heap->alias_handles = (struct table)TABLE_OF(struct alias_handle);
    heap->vacated_handles = (struct table)TABLE_OF(struct vacated);
    heap->attrs.reuse_follow = true;
    heap->attrs.reuse_opportunistic = true;
    heap->attrs.reuse_internal_dependencies = true;
    bestfit_init(&heap->small, &pool->blocks);
    bestfit_init(&heap->clean, &pool->blocks);
    bestfit_init(&heap->fragments, &pool->blocks);
    bestfit_init(&heap->decommitted, &pool->blocks);
    bestfit_init(&heap->hint_decommitted, &pool->blocks);
    bestfit_init(&heap->idle, &pool->blocks);
    bestfit_init(&heap->sealed, &pool->blocks);
    if (table_put(&pool->heap_of[kind], owner, heap) != 0) {
        meta_put(heap, sizeof(*heap));
        return NULL;
    }
    heap->next = pool->heaps;
    pool->heaps = heap;
    heap->after = pool->all;
    pool->all = heap;
    return heap;
}

struct heap *heap_get(struct pool *pool, enum heap_kind kind, uint64_t owner, int device)
{
    struct heap *heap = pool->last[kind];

    if (heap && heap->owner == owner)
        return heap;
    heap = table_get(&pool->heap_of[kind], owner);
    if (!heap && device >= 0 && device < POOL_DEVICES_MAX)
        heap = new_heap(pool, kind, owner, device);
    if (heap)
        pool->last[kind] = heap;
    return heap;
}

void heap_retire(struct pool *pool, struct heap *heap)
{
    struct heap **link = &pool->heaps;

    while (*link != heap)
        link = &(*link)->next;
    *link = heap->next;
    (void)table_remove(
            &pool->heap_of[heap->kind], table_find(&pool->heap_of[heap->kind], heap->owner));
    if (pool->last[heap->kind] == heap)
        pool->last[heap->kind] = NULL;
    pool->last_class = NULL;
    heap->leaving = true;
    heap->next = pool->leaving;
    pool->leaving = heap;
}

void heap_unlist(struct pool *pool, struct heap *heap)
{
    struct heap **link = &pool->all;

    while (*link != heap)
        link = &(*link)->after;
    *link = heap->after;
}

/* True if a mutant's walk ends before this heap. */
static bool is_too_far(const struct pool *pool, const struct heap *heap) POOL_LOCKED
{
    int place = 0;

    for (const struct heap *at = heap_any(pool, NULL); at && at != heap; at = heap_any(pool, at))
        place++;
    return place >= 64;
}

struct heap *heap_walk(struct pool *pool, struct heap *held, int device)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_any(pool, held);
    while (heap && (heap->dropped || (device >= 0 && heap->device->number != device)))
        heap = heap_any(pool, heap);
    if (POOL_IS_WITHOUT(HEAPS) && heap && is_too_far(pool, heap))
        heap = NULL;
    if (heap)
        heap->busy++;
    if (held)
        held->busy--;
    lock_drop(&pool->lock);
    return heap;
}

struct heap_stream *heap_new_class(struct pool *pool, struct heap *heap, uint32_t stream)
{
    struct heap_stream *at = meta_get(sizeof(*at));

    if (!at)
        return NULL;
    if (table_put(&heap->class_of, stream, at) != 0) {
        meta_put(at, sizeof(*at));
        return NULL;
    }
    at->stream = stream;
    at->timeline_of = streams_at(pool, stream);
    at->key = at->timeline_of->key;
    at->heap = heap;
    at->asked = heap->allocs;
    at->next = heap->streams;
    bestfit_init(&at->fit, &pool->blocks);
    bestfit_init(&at->fragments, &pool->blocks);
    heap->streams = at;
    if (++heap->stream_count > 1)
        atomic_store_explicit(&pool->gate.orders, 1, memory_order_relaxed);
    return at;
}

void heap_use_slots(struct heap *heap, struct freecache *cache, uint64_t slots)
{
    if (!cache->used) {
        cache->next = heap->recent;
        cache->link = &heap->recent;
        if (cache->next)
            cache->next->link = &cache->next;
        heap->recent = cache;
    }
    cache->used |= slots;
}

void heap_empty_slots(struct freecache *cache)
{
    if (!cache->used)
        return;
    *cache->link = cache->next;
    if (cache->next)
        cache->next->link = cache->link;
    cache->used = 0;
}

static void drop_heap_stream(struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    pool->last_class = NULL;
    for (struct heap_stream **link = &heap->streams; *link; link = &(*link)->next) {
        struct heap_stream *at = *link;

        if (at->stream != stream)
            continue;
        *link = at->next;
        (void)table_remove(&heap->class_of, table_find(&heap->class_of, stream));
        heap_empty_slots(&at->recent);
        meta_put(at, sizeof(*at));
        return; /* stream_count stays: it counts every stream the heap ever had */
    }
}

static void forget_stream(struct pool *pool, uint32_t index) POOL_LOCKED
{
    for (struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap))
        drop_heap_stream(pool, heap, index);
    stream_wait_forget(pool, index);
    streams_at(pool, index)->index = 0;
    slab_put(&pool->streams, index);
    pool->streams_gone--;
}

/* records to check per call, round robin: at least as many are forgotten as are created */
#define FORGET_STEPS 256

void heap_forget_streams(struct pool *pool)
{
    uint32_t top = pool->streams.top;

    for (uint32_t i = 1; i < top && i <= FORGET_STEPS && pool->streams_gone; i++) {
        uint32_t index = pool->forgot_at = pool->forgot_at + 1 < top ? pool->forgot_at + 1 : 1;
        const struct stream *stream = streams_at(pool, index);

        if (stream->index == index && stream->gone && !stream->refs && !stream->timeline.first)
            forget_stream(pool, index);
    }
}

static void free_shelves(struct table *shelves)
{
    for (const struct shelf *at = table_next(shelves, NULL); at; at = table_next(shelves, at))
        meta_put(at->handles, at->room * sizeof(*at->handles));
    table_clear(shelves);
}

void heap_free(struct pool *pool, struct heap *heap)
{
    pool->counters.allocs += heap->allocs;
    pool->counters.frees += heap->frees;
    pool->counters.misses += heap->misses;
    pool->last_class = NULL;
    while (heap->streams) {
        struct heap_stream *at = heap->streams;

        heap->streams = at->next;
        meta_put(at, sizeof(*at));
    }
    table_clear(&heap->class_of);
    free_shelves(&heap->shelves);
    free_shelves(&heap->spares);
    table_clear(&heap->aliases);
    table_clear(&heap->alias_handles);
    table_clear(&heap->vacated_handles);
    meta_put(heap, sizeof(*heap));
}

/* SPDX-License-Identifier: MIT */
#include "alloc/heap/heap.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/streams.h"

#include <stddef.h>

static struct heap *new_heap(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED
{
    struct heap *heap = meta_get(sizeof(*heap));

    if (!heap)
        return NULL;
    heap->kind = kind;
    heap->owner = owner;
    heap->number = ++pool->heaps_made;
    for (int i = 0; i < HEAP_LIST_COUNT; i++)
        heap->listed[i].number = heap->number;
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

void heap_enlist(struct heap *heap, enum heap_list list)
{
    if (heap->is_over)
        return;
    heap->is_listed[list] = true;
    order_insert(&heap->device->heaps[list], &heap->listed[list]);
}

void heap_delist(struct heap *heap, enum heap_list list)
{
    if (heap->is_listed[list])
        order_remove(&heap->device->heaps[list], &heap->listed[list]);
    heap->is_listed[list] = false;
}

void heap_unlist(struct pool *pool, struct heap *heap)
{
    struct heap **link = &pool->all;

    for (int i = 0; i < HEAP_LIST_COUNT; i++)
        heap_delist(heap, (enum heap_list)i);
    heap->is_over = true;
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

/* Holds the heap of a walk (NULL: it is over) instead of the one before. */
static struct heap *hold_next(struct pool *pool, struct heap *heap, struct heap *held) POOL_LOCKED
{
    if (POOL_IS_WITHOUT(HEAPS) && heap && is_too_far(pool, heap))
        heap = NULL;
    if (heap)
        heap->busy++;
    if (held)
        held->busy--;
    return heap;
}

struct heap *heap_walk(struct pool *pool, struct heap *held, int device)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_any(pool, held);
    while (heap && (heap->dropped || (device >= 0 && heap->device->number != device)))
        heap = heap_any(pool, heap);
    heap = hold_next(pool, heap, held);
    lock_drop(&pool->lock);
    return heap;
}

static struct heap *of_listed(struct order_node *node, enum heap_list list)
{
    return node ? (struct heap *)(void *)((char *)(node - list) - offsetof(struct heap, listed))
                : NULL;
}

struct heap *heap_walk_list(struct pool *pool, struct heap *held, int device, enum heap_list list)
{
    struct order_node *const *root;
    struct heap *heap;

    if (device < 0 || device >= POOL_DEVICES_MAX)
        return NULL;
    root = &pool->devices[device].heaps[list];
    lock_take(&pool->lock);
    heap = of_listed(order_below(*root, held ? held->number : UINT64_MAX), list);
    while (heap && heap->dropped)
        heap = of_listed(order_below(*root, heap->number), list);
    heap = hold_next(pool, heap, held);
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
    at->place.number = ++heap->classes_made;
    at->beside.number = heap->number;
    order_insert(&at->timeline_of->classes, &at->beside);
    at->next = heap->streams;
    at->link = &heap->streams;
    if (at->next)
        at->next->link = &at->next;
    bestfit_init(&at->fit, &pool->blocks);
    bestfit_init(&at->fragments, &pool->blocks);
    heap->streams = at;
    if (++heap->stream_count > 1)
        atomic_store_explicit(&pool->gate.orders, 1, memory_order_relaxed);
    return at;
}

/* noinline: the short path calls heap_use_slots for each first block of a size. */
static __attribute__((noinline)) void list_recent(struct heap *heap, struct freecache *cache)
{
    cache->next = heap->recent;
    cache->link = &heap->recent;
    if (cache->next)
        cache->next->link = &cache->next;
    heap->recent = cache;
    heap_list(heap, HEAPS_GIVING);
    heap_list(heap, HEAPS_WAITING);
}

void heap_use_slots(struct heap *heap, struct freecache *cache, uint64_t slots)
{
    bool is_first = !cache->used;

    cache->used |= slots;
    if (is_first)
        list_recent(heap, cache);
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

static struct heap_stream *class_of_place(struct order_node *place, size_t offset)
{
    return place ? (struct heap_stream *)(void *)((char *)place - offset) : NULL;
}

struct heap_stream *heap_next_of_stream(
        const struct stream *stream, const struct heap_stream *after)
{
    uint64_t number = after ? after->beside.number : UINT64_MAX;

    return class_of_place(
            order_below(stream->classes, number), offsetof(struct heap_stream, beside));
}

struct heap_stream *heap_next_filled(struct heap *heap, const struct heap_stream *after)
{
    uint64_t number = after ? after->place.number : UINT64_MAX;
    struct heap_stream *at;

    while ((at = class_of_place(
                    order_below(heap->filled, number), offsetof(struct heap_stream, place)))
            && !heap_class_count(at) && !at->vacated) {
        order_remove(&heap->filled, &at->place);
        at->is_filled = false;
    }
    return at;
}

struct heap_stream *heap_next_of_set(const struct heap *heap, const struct fence_set *set,
        uint32_t also, const struct heap_stream *after)
{
    struct heap_stream *best = NULL;

    for (uint32_t i = 0; i <= set->count; i++) {
        struct heap_stream *at = heap_class(heap, i < set->count ? set->stream[i] : also);

        if (at && (!after || at->place.number < after->place.number)
                && (!best || at->place.number > best->place.number))
            best = at;
    }
    return best;
}

static void heap_link(struct heap_stream **list, struct heap_stream *class)
{
    class->next_moved = *list;
    class->moved_link = list;
    if (class->next_moved)
        class->next_moved->moved_link = &class->next_moved;
    *list = class;
}

void heap_fill_first(struct heap_stream *class)
{
    if (!class->moved_link)
        heap_link(&class->timeline_of->waiting, class);
    if (class->is_filled)
        return;
    class->is_filled = true;
    order_insert(&class->heap->filled, &class->place);
    heap_list(class->heap, HEAPS_WAITING);
}

void heap_note_passed(struct stream *stream)
{
    struct heap_stream *class;

    while ((class = stream->waiting) != NULL) {
        heap_unmove(class);
        heap_link(&class->heap->moved, class);
    }
}

void heap_unmove(struct heap_stream *class)
{
    if (!class->moved_link)
        return;
    *class->moved_link = class->next_moved;
    if (class->next_moved)
        class->next_moved->moved_link = class->moved_link;
    class->moved_link = NULL;
}

/* heap.stream_count stays: it counts every stream the heap ever had. */
static void drop_class(struct pool *pool, struct heap_stream *class) POOL_LOCKED
{
    struct heap *heap = class->heap;

    pool->last_class = NULL;
    *class->link = class->next;
    if (class->next)
        class->next->link = class->link;
    (void)table_remove(&heap->class_of, table_find(&heap->class_of, class->stream));
    order_remove(&class->timeline_of->classes, &class->beside);
    if (class->is_filled)
        order_remove(&heap->filled, &class->place);
    heap_unmove(class);
    heap_empty_slots(&class->recent);
    meta_put(class, sizeof(*class));
}

static void forget_stream(struct pool *pool, struct stream *stream) POOL_LOCKED
{
    uint32_t index = stream->index;

    while (stream->classes)
        drop_class(pool, heap_next_of_stream(stream, NULL));
    order_remove(&pool->gone, &stream->leaving);
    pool->points_given = max_of(pool->points_given, max_of(stream->timeline.given, stream->newest));
    stream->since = UINT64_MAX;
    stream->index = 0;
    slab_put(&pool->streams, index);
    pool->streams_gone--;
}

/* destroyed streams to check per call, in turn: more are forgotten than are created */
#define FORGET_STEPS 8

void heap_forget_streams(struct pool *pool)
{
    for (uint32_t i = 0; i < FORGET_STEPS && pool->gone; i++) {
        struct stream *stream = streams_next_gone(pool, &pool->forgot_at);

        if (!stream->refs && !stream->timeline.first)
            forget_stream(pool, stream);
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
    while (heap->streams)
        drop_class(pool, heap->streams);
    table_clear(&heap->class_of);
    free_shelves(&heap->shelves);
    free_shelves(&heap->spares);
    table_clear(&heap->aliases);
    table_clear(&heap->alias_handles);
    table_clear(&heap->vacated_handles);
    meta_put(heap, sizeof(*heap));
}

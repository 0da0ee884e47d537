/* SPDX-License-Identifier: MIT */
/*
 * heap.h - the table of heaps, by kind and owner; the per-stream classes of free blocks in a heap.
 *
 * A heap whose owner was destroyed leaves the table at once, and is freed when nothing uses it any
 * more (reclaim_leaving).
 * Threads: the caller holds the pool lock, unless it says otherwise. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HEAP_H
#define KEDGE_ALLOC_HEAP_H

#include "alloc/heap/records.h"

#define HEAP_LOOK_LEAST (UINT64_C(16) << 20)
#define HEAP_TURN_LEAST 16 /* requests or frees */

/* The heap of this key; created if `device` >= 0 and there is none. NULL: none, or no memory. */
struct heap *heap_get(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED;

/* The kind of heap that serves the sync API in a context. A device without virtual memory
 * management has no mapped heap. */
static inline enum heap_kind heap_sync_kind(struct pool *pool, uint64_t context) POOL_LOCKED
{
    const struct heap *heap = heap_get(pool, pool->sync_kind, context, -1);

    return heap && heap->no_range && !heap->range_wait ? HEAP_PLAIN : pool->sync_kind;
}

/* The heap after this one (NULL: the first) in the list of all heaps, leaving ones included; NULL =
 * it was the last. */
static inline struct heap *heap_any(const struct pool *pool, const struct heap *after) POOL_LOCKED
{
    return after ? after->after : pool->all;
}

/* Takes the lock. Returns the next heap of a device (-1: of any) after `held` (NULL: the first) and
 * holds it (heap.busy), so that the lock can be dropped meanwhile; the hold on `held` ends. NULL:
 * it was the last. A walk visits each heap that existed when it began, however many there are and
 * whichever begin to leave. Skips heaps of contexts that have ended. */
struct heap *heap_walk(struct pool *pool, struct heap *held, int device);

/* The class of a stream in this heap; NULL: none. */
static inline struct heap_stream *heap_class(const struct heap *heap, uint32_t stream)
{
    struct heap_stream *newest = heap->streams; /* mostly the only one */

    return newest && newest->stream == stream ? newest : table_get(&heap->class_of, stream);
}

/* Bytes that are free, or will be, and that the device may still use. */
static inline uint64_t heap_unclean(const struct heap *heap)
{
    const struct tally *tally = &heap->tally;

    return excess_of(tally->reserved,
            tally->stored + tally->cached + heap->clean.bytes + heap->fragments.bytes);
}

/* Highest live sizes below which programs on the stream API have rules of their own (DESIGN.md has
 * the figures). A small one moves storage and waits before it holds a slot more than what is live,
 * and joins recent blocks before each search. For a tiny one the age of neighbours decides nothing,
 * and any whole slot moves. */
#define HEAP_SMALL (UINT64_C(128) << 20)
#define HEAP_TINY  (UINT64_C(64) << 20)

static inline bool heap_is_below(const struct heap *heap, uint64_t live)
{
    return heap->kind == HEAP_MAPPED && heap->device->stored_high < live;
}

/* Number of requests, or frees, that change the layout enough to matter: a quarter of the live
 * blocks. */
static inline uint64_t heap_turn(const struct heap *heap)
{
    return max_of(heap->tally.live_count / 4, HEAP_TURN_LEAST);
}

/* Is it time to query the fences of streams, so that their frees can merge? Until then free
 * neighbours of several streams are fitted and cut separately. With a query in each turn, and a
 * budget of 1.05 for moves as well, three streams on a device that keeps up had a utilisation of
 * 0.953 to 0.964 instead of 0.925 to 0.929. */
static inline bool heap_look_is_due(const struct heap *heap)
{
    return heap->stream_count > 1 && heap->frees - heap->looked_frees > heap_turn(heap)
            && heap->attrs.reuse_opportunistic && heap_unclean(heap) >= HEAP_LOOK_LEAST;
}

/* Number of free blocks of a stream. */
static inline uint32_t heap_class_count(const struct heap_stream *class)
{
    return class->fit.count + class->fragments.count;
}

/* A stream without requests for a turn does not need its freed blocks back. */
static inline bool heap_class_is_idle(const struct heap_stream *class)
{
    return class->heap->allocs - class->asked > heap_turn(class->heap);
}

/* The class of the next older heap that a stream has one in; `after` NULL: of the newest. */
struct heap_stream *heap_next_of_stream(
        const struct stream *stream, const struct heap_stream *after);

/* Creates the class of a stream in this heap, so that blocks can have it; NULL or false: no
 * memory. */
struct heap_stream *heap_new_class(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED;
static inline bool heap_prepare_class(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    return heap_class(heap, stream) || heap_new_class(pool, heap, stream);
}

/* The heap is in a list of its device's from here on, or not. */
void heap_enlist(struct heap *heap, enum heap_list list);
void heap_delist(struct heap *heap, enum heap_list list);
static inline void heap_list(struct heap *heap, enum heap_list list)
{
    if (!heap->is_listed[list])
        heap_enlist(heap, list);
}

/* As heap_walk, for the heaps of a device that are in a list; no heap for what is no device's
 * number. */
struct heap *heap_walk_list(struct pool *pool, struct heap *held, int device, enum heap_list list);

/* The class gets a free block in an index, or a vacated slot. */
void heap_fill_first(struct heap_stream *class);
static inline void heap_fill(struct heap_stream *class)
{
    if (!class->is_filled || !class->moved_link)
        heap_fill_first(class);
}

/* The next older class with free blocks or vacated slots; `after` NULL: the newest one. NULL: it
 * was the last. */
struct heap_stream *heap_next_filled(struct heap *heap, const struct heap_stream *after);

/* The same for the classes of the streams in a set, and of another stream (0: none). */
struct heap_stream *heap_next_of_set(const struct heap *heap, const struct fence_set *set,
        uint32_t also, const struct heap_stream *after);

/* The stream has passed a point: its filled classes have to be swept. */
void heap_note_passed(struct stream *stream);
/* The class is about to be swept. */
void heap_unmove(struct heap_stream *class);

/* These slots of a class, a bit each, may have recent blocks from now on; none has any. */
void heap_use_slots(struct heap *heap, struct freecache *cache, uint64_t slots);
void heap_empty_slots(struct freecache *cache);

/* Forgets destroyed streams that no block names. */
void heap_forget_streams(struct pool *pool) POOL_LOCKED;

/* Takes the lock and ends a hold on the heap (heap.busy). */
static inline void heap_let_go(struct pool *pool, struct heap *heap)
{
    lock_take(&pool->lock);
    heap->busy--;
    lock_drop(&pool->lock);
}

/* Removes a leaving heap from the list of all: only the caller sees it from here on. */
void heap_unlist(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Takes a heap out of the table; it is freed when nothing uses it any more (pool->leaving). */
void heap_retire(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Frees the record of a heap that has no segment and is in no list. */
void heap_free(struct pool *pool, struct heap *heap) POOL_LOCKED;

#endif

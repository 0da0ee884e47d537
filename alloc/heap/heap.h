/* SPDX-License-Identifier: MIT */
/*
 * heap.h - the table of heaps, by kind and owner; the classes of free blocks that streams have in a heap.
 *
 * A heap whose owner is gone leaves the table at once and is given back when nothing holds it any more (reclaim_leaving).
 * Threads: the caller holds the pool lock, unless it says otherwise. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HEAP_H
#define KEDGE_ALLOC_HEAP_H

#include "alloc/heap/records.h"

#define HEAP_LOOK_LEAST (UINT64_C(16) << 20)
#define HEAP_TURN_LEAST 16 /* requests or frees */

/* The heap of this key; made if `device` >= 0 and there is none. NULL: none, or no memory. */
struct heap *heap_get(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED;

/* The kind of the heap that serves the sync API in a context. A device that has no virtual memory management has no mapped one. */
static inline enum heap_kind heap_sync_kind(struct pool *pool, uint64_t context) POOL_LOCKED
{
    const struct heap *heap = heap_get(pool, pool->sync_kind, context, -1);

    return heap && heap->no_range && !heap->range_wait ? HEAP_PLAIN : pool->sync_kind;
}

/* The heap after this one (NULL: the first) of all that are there, those that leave included; NULL = it was the last. */
static inline struct heap *heap_any(const struct pool *pool, const struct heap *after) POOL_LOCKED
{
    return after ? after->after : pool->all;
}

/*
 * Takes the lock. The next heap of a device (-1: of any) after `held` (NULL: the first), with a hold on it (heap.busy), so that the lock
 * can be let go meanwhile; the hold on `held` is over. NULL: it was the last. A walk finds each heap that was there when it
 * began, however many there are and whichever begin to leave. Not those of contexts that have gone.
 */
struct heap *heap_walk(struct pool *pool, struct heap *held, int device);

static inline struct heap_stream *heap_class(const struct heap *heap, uint32_t stream)
{
    struct heap_stream *at = heap->streams;

    while (at && at->stream != stream)
        at = at->next;
    return at;
}

/* Bytes that are free, or wait to be, and that the host does not know the device to be done with. */
static inline uint64_t heap_unclean(const struct heap *heap)
{
    const struct tally *tally = &heap->tally;

    return excess_of(tally->reserved,
            tally->stored + tally->cached + heap->clean.bytes + heap->fragments.bytes);
}

/* So many requests, or frees, are enough to change what lies where: a quarter of the live blocks. */
static inline uint64_t heap_turn(const struct heap *heap)
{
    return max_of(heap->tally.live_count / 4, HEAP_TURN_LEAST);
}

/*
 * Is it time to ask the fences of streams, so that what they freed can join? Until then free neighbours of several streams are
 * fitted and cut each by itself. With a look in each turn, and a budget of 1.05 for moves as well, three streams on a device that keeps
 * up had a utilisation of 0.953 to 0.964 instead of 0.925 to 0.929.
 */
static inline bool heap_look_is_due(const struct heap *heap)
{
    return heap->stream_count > 1 && heap->frees - heap->looked_frees > heap_turn(heap)
            && heap->attrs.reuse_opportunistic && heap_unclean(heap) >= HEAP_LOOK_LEAST;
}

/* Free blocks of a stream. */
static inline uint32_t heap_class_count(const struct heap_stream *class)
{
    return class->fit.count + class->fragments.count;
}

/* A stream that has asked for nothing for a turn does not need back what it has freed. */
static inline bool heap_class_is_idle(const struct heap_stream *class)
{
    return class->heap->allocs - class->asked > heap_turn(class->heap);
}

/* Makes sure that blocks can have this class in this heap; false: no memory. */
struct heap_stream *heap_new_class(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED;
static inline bool heap_prepare_class(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    return heap_class(heap, stream) || heap_new_class(pool, heap, stream);
}

/* Forgets streams that are gone and that nobody names. */
void heap_forget_streams(struct pool *pool) POOL_LOCKED;

/* Takes the lock: a call that is under way for the heap is over (heap.busy). */
static inline void heap_let_go(struct pool *pool, struct heap *heap)
{
    lock_take(&pool->lock);
    heap->busy--;
    lock_drop(&pool->lock);
}

/* A heap that leaves is in the list of all no more: only the caller sees it from here on. */
void heap_unlist(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Takes a heap out of the table; it goes when nothing holds it any more (pool->leaving). */
void heap_retire(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* The record of a heap whose segments are all gone and that no list names any more. */
void heap_free(struct pool *pool, struct heap *heap) POOL_LOCKED;

#endif

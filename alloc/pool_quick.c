/* SPDX-License-Identifier: MIT */
/*
 * pool_quick.c - the short forms of pool_alloc and pool_free, written for the number of their
 * instructions.
 *
 * They do the work of the long forms, with a minimal outcome, separately for each API. A hit in the
 * free cache (freecache.h) is one hash and at most two compares; a free is one load of the segment
 * and one of the block. All figures are kept, high marks included: they are a third of the cost. A
 * block by best fit is cut, merged and indexed exactly, which is ten times as many instructions,
 * and as independent of the number of blocks.
 *
 * On the stream-ordered API each form is written twice. The first serves a thread that finds the
 * pool's lock free and not lent to lanes; else the second (`_crowded`) tries the stream's lane
 * (lane.h), and opens it. Lanes are recalled before anything but a cached block is touched.
 */
#include "alloc/pool.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/records.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/serve/serve.h"
#include "alloc/storage/fit.h"
#include "alloc/storage/reclaim.h"

#define QUICK         static inline __attribute__((always_inline))
#define UNLIKELY(is_) __builtin_expect(!!(is_), 0)

/* For functions that begin with the pool's lock held and end without it: so that the most frequent
 * ones end with a tail call and save no register. */
#define POOL_DROPS TSA(release_capability(pool->lock)) TSA(no_thread_safety_analysis)
#define APART      static __attribute__((noinline))

APART struct pool_given end_slowly(struct pool_given given, struct lock *lock, uint32_t word)
        TSA(no_thread_safety_analysis)
{
    lock_drop_slowly(lock, lock_held | lock->bit, word);
    return given;
}

/* As lock_drop_leaf; returns `given`. */
QUICK struct pool_given pool_quick_end(struct pool *pool, struct pool_given given) POOL_DROPS
{
    uint32_t word = atomic_exchange_explicit(&pool->lock.word, 0, memory_order_release);

    return UNLIKELY(word != 1) ? end_slowly(given, &pool->lock, word) : given;
}

APART bool end_free_slowly(bool done, struct lock *lock, uint32_t word)
        TSA(no_thread_safety_analysis)
{
    lock_drop_slowly(lock, lock_held | lock->bit, word);
    return done;
}

QUICK bool end_free(struct pool *pool, bool done) POOL_DROPS
{
    uint32_t word = atomic_exchange_explicit(&pool->lock.word, 0, memory_order_release);

    return UNLIKELY(word != 1) ? end_free_slowly(done, &pool->lock, word) : done;
}

/* ── alloc ── */

/* As freecache_slot, but also returns the block. Record 0 exists and has size 0, so it is never the
 * answer. */
QUICK struct block *first_recent(const struct pool *pool, struct freecache *cache, uint64_t rounded,
        uint32_t **ret_slot) POOL_LOCKED
{
    struct block *blocks = block_at(pool, 0);
    uint32_t *slot = freecache_home(cache, rounded);
    struct block *block = blocks + *slot;

    if (UNLIKELY(block->node.size != rounded)) {
        slot = freecache_other(cache, slot);
        block = blocks + *slot;
        if (block->node.size != rounded)
            return NULL;
    }
    *ret_slot = slot;
    return block;
}

/* Hands a block that is in no index to the program. */
QUICK struct pool_given pool_quick_give(struct pool *pool, struct heap *heap, struct block *block,
        uint64_t size, uint8_t flags) POOL_LOCKED
{
    block->state = BLOCK_LIVE;
    block->flags = flags;
    block->last = 0;
    block->slack = (uint32_t)(block->node.size - size);
    block->seq = records_next_seq(pool);
    heap->allocs++;
    tally_birth(pool, heap, block, size, true);
    return (struct pool_given){block->node.base, block->seq};
}

/* Serves `rounded` bytes for a stream by best fit. */
static __attribute__((noinline)) struct pool_given give_fit(
        struct pool *pool, struct heap_stream *class, uint64_t rounded, uint64_t size) POOL_LOCKED
{
    const struct want want = {
            .size = rounded, .align = pool->opts.quantum, .stream = class->stream};
    struct block *block;
    uint32_t index, last;

    if (rounded > UINT64_MAX / 4 || heap_look_is_due(class->heap)
            || slab_prepare(&pool->blocks, 3) != 0)
        return (struct pool_given){0, 0};
    index = fit_fit(pool, class->heap, &want);
    if (!index)
        return (struct pool_given){0, 0};
    class->asked = class->heap->allocs;
    block = block_at(pool, index);
    last = block->stream ? block->stream : block->last;
    pool->counters.cross_reuses += last && (uint16_t)last != (uint16_t) class->stream;
    block_name_stream(pool, block, class->stream);
    return pool_quick_give(pool, class->heap, block, size, BLOCK_STREAMED);
}

/* The same for the sync API. */
static __attribute__((noinline)) struct pool_given give_sync_fit(
        struct pool *pool, struct heap *heap, uint64_t size) POOL_LOCKED
{
    uint32_t index = serve_fit(pool, heap, size);

    if (!index)
        return (struct pool_given){0, 0};
    return pool_quick_give(pool, heap, block_at(pool, index), size, 0);
}

/* Serves the first block of a slot. */
QUICK struct pool_given give_first(struct pool *pool, struct heap *heap, uint32_t *slot,
        struct block *block, uint64_t size, uint8_t flags) POOL_LOCKED
{
    *slot = block->node.left;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
    return pool_quick_give(pool, heap, block, size, flags);
}

struct pool_given pool_alloc_quickly(struct pool *pool, uint64_t owner, uint64_t size)
{
    uint64_t rounded = round_up(size, pool->opts.quantum);
    struct block *block;
    struct heap *heap;
    struct pool_given given = {0, 0};
    uint32_t *slot;

    if (UNLIKELY(!rounded))
        return given; /* size 0, or more than exists */
    lock_take_leaf(&pool->lock);
    heap = pool->last[pool->sync_kind];
    if (UNLIKELY(!heap || heap->owner != owner))
        heap = heap_get(pool, pool->sync_kind, owner, -1);
    if (UNLIKELY(!heap || reclaim_is_due(pool, heap->device)))
        goto drop; /* the long form closes an epoch that is due */
    block = first_recent(pool,
            rounded <= pool->opts.small ? &heap->recent_small : &heap->recent_clean, rounded,
            &slot);
    if (UNLIKELY(!block || rounded > FREECACHE_MAX))
        given = give_sync_fit(pool, heap, size);
    else
        given = give_first(pool, heap, slot, block, size, 0);
drop:
    lock_drop_leaf(&pool->lock);
    return given;
}

/* The class of a stream in a heap, other than the last one used; NULL if there is none yet. */
static __attribute__((noinline)) struct heap_stream *find_class(
        struct pool *pool, uint64_t owner, uint64_t key) POOL_LOCKED
{
    struct heap *heap = heap_get(pool, HEAP_MAPPED, owner, -1);
    uint32_t number = streams_find(pool, key);
    struct heap_stream *class = heap && number ? heap_class(heap, number) : NULL;

    if (class)
        pool->last_class = class;
    return class;
}

/* The stream has no cached block: take an idle one of any stream, or the best fit. */
QUICK struct pool_given take_another(
        struct pool *pool, struct heap_stream *class, uint64_t rounded, uint64_t size) POOL_LOCKED
{
    struct heap *heap = class->heap;
    uint32_t *slot;
    struct block *block = first_recent(pool, &heap->recent_clean, rounded, &slot);
    struct pool_given given;

    if (!block)
        return give_fit(pool, class, rounded, size);
    pool->counters.cross_reuses += block->last && block->last != (uint16_t) class->stream;
    given = give_first(pool, heap, slot, block, size, BLOCK_STREAMED);
    block_name_stream(pool, block, class->stream);
    return given;
}

/* A large request: take the block that is kept for it, if its size matches. */
QUICK struct pool_given take_large(
        struct pool *pool, struct heap_stream *class, uint64_t rounded, uint64_t size) POOL_LOCKED
{
    struct heap *heap = class->heap;
    struct block *block = block_at(pool, heap->large);

    if (block->node.size != rounded || block->stream != class->stream)
        return give_fit(pool, class, rounded, size);
    freecache_unhold(pool, heap);
    return pool_quick_give(pool, heap, block, size, BLOCK_STREAMED);
}

/* The class of a stream in a heap; NULL if there is none yet. */
QUICK struct heap_stream *pool_quick_class_of(
        struct pool *pool, uint64_t owner, uint64_t key) POOL_LOCKED
{
    struct heap_stream *class = pool->last_class;

    if (UNLIKELY(!class || class->key != key || class->heap->owner != owner))
        class = find_class(pool, owner, key);
    return class;
}

/* From a class: a recent block, or a free one of another size or stream. */
QUICK struct pool_given pool_quick_take_any(
        struct pool *pool, struct heap_stream *class, uint64_t rounded, uint64_t size) POOL_LOCKED
{
    struct block *block;
    uint32_t *slot;

    if (rounded > FREECACHE_MAX)
        return take_large(pool, class, rounded, size);
    block = first_recent(pool, &class->recent, rounded, &slot);
    return block ? give_first(pool, class->heap, slot, block, size, BLOCK_STREAMED)
                 : take_another(pool, class, rounded, size);
}

/* True if the recent list has a slot for the block as it is. */
static bool has_slot(struct pool *pool, struct heap_stream *class, uint64_t size) POOL_LOCKED
{
    return size <= FREECACHE_MAX && freecache_slot(pool, &class->recent, size);
}

/* With the pool's lock, just taken or lent to lanes. */
APART struct pool_given alloc_lent(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size)
{
    uint64_t rounded = round_up(size, pool->opts.quantum);
    bool opens = lock_take_lent(&pool->lock);
    struct pool_given given = {0, 0};
    struct heap_stream *class;

    class = pool_quick_class_of(pool, owner, stream);
    if (!class)
        goto drop;
    opens |= lanes_are_open(pool);
    (void)lane_close(pool, class);
    if (!has_slot(pool, class, rounded) || lanes_would_raise(pool, class->heap, rounded))
        lanes_recall(pool);
    given = pool_quick_take_any(pool, class, rounded, size);
    if (opens && given.ptr)
        lane_open(pool, class);
drop:
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
    return given;
}

/* Tries the stream's lane, then the lent lock. */
APART struct pool_given alloc_crowded(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size)
{
    struct pool_given given = lane_alloc(pool, owner, stream, size);

    return given.ptr ? given : alloc_lent(pool, owner, stream, size);
}

APART struct pool_given alloc_large(
        struct pool *pool, struct heap_stream *class, uint64_t rounded, uint64_t size) POOL_DROPS
{
    return pool_quick_end(pool, take_large(pool, class, rounded, size));
}

/* From another class than the last one, or without a recent block. */
APART struct pool_given alloc_otherwise(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size) POOL_DROPS
{
    struct heap_stream *class = pool_quick_class_of(pool, owner, stream);
    struct pool_given given = {0, 0};

    if (class)
        given = pool_quick_take_any(pool, class, round_up(size, pool->opts.quantum), size);
    return pool_quick_end(pool, given);
}

struct pool_given pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size)
{
    uint64_t rounded = round_up(size, pool->opts.quantum);
    struct heap_stream *class;
    struct block *block;
    uint32_t *slot;

    if (UNLIKELY(!rounded))
        return (struct pool_given){0, 0}; /* size 0, or more than exists */
    if (UNLIKELY(lanes_are_open(pool)) || !lock_try_leaf(&pool->lock))
        return alloc_crowded(pool, owner, stream, size);
    class = pool->last_class;
    if (UNLIKELY(!class || class->key != stream || class->heap->owner != owner))
        return alloc_otherwise(pool, owner, stream, size);
    if (UNLIKELY(rounded > FREECACHE_MAX))
        return alloc_large(pool, class, rounded, size);
    block = first_recent(pool, &class->recent, rounded, &slot);
    if (UNLIKELY(!block))
        return alloc_otherwise(pool, owner, stream, size);
    return pool_quick_end(pool, give_first(pool, class->heap, slot, block, size, BLOCK_STREAMED));
}

/* ── free ── */

/* The block that begins here, if it is live and ordinary (no holder, no pin); else NULL. *ret_index
 * is its number. */
QUICK struct block *pool_quick_find(
        const struct pool *pool, devptr_t ptr, uint32_t *ret_index) POOL_LOCKED
{
    /* Record 0 of each table exists: a segment without blocks, and a block that is never live. */
    const struct segment *segment = segment_at(pool, granule_segment(&pool->granules, ptr));
    uint32_t index = starts_at(&segment->starts, ptr - segment->base);
    struct block *block = block_at(pool, index);

    *ret_index = index;
    if (UNLIKELY(block->state != BLOCK_LIVE || block->flags & ~(unsigned)BLOCK_STREAMED
                || block->holder))
        return NULL;
    return block;
}

/* Counts the free of a block, and reports it if the caller asked. */
QUICK void pool_quick_take(struct pool *pool, struct heap *heap, const struct block *block,
        struct pool_taken *ret_taken) POOL_LOCKED
{
    heap->frees++;
    tally_death(pool, heap, block, true);
    if (ret_taken)
        *ret_taken = (struct pool_taken){
                records_next_seq(pool), block->node.size - block->slack, heap->device->number};
}

/* With the pool's lock held. */
QUICK bool free_sync_held(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken) POOL_DROPS
{
    uint32_t index;
    struct block *block = pool_quick_find(pool, ptr, &index);
    struct heap *heap;

    if (UNLIKELY(!block))
        return end_free(pool, false);
    heap = block_segment(pool, block)->heap;
    if (UNLIKELY(heap->kind == HEAP_MAPPED))
        return end_free(pool, false); /* frees there know their streams */
    pool_quick_take(pool, heap, block, ret_taken);
    block->state = BLOCK_PENDING;
    heap->tally.pending += block->node.size;
    block_chain(pool, &heap->device->open, index);
    return end_free(pool, true);
}

/* Another thread has the lock. */
APART bool free_sync_waiting(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken)
{
    lock_take_leaf(&pool->lock);
    return free_sync_held(pool, ptr, ret_taken);
}

QUICK bool free_sync(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken)
{
    if (!lock_try_leaf(&pool->lock))
        return free_sync_waiting(pool, ptr, ret_taken);
    return free_sync_held(pool, ptr, ret_taken);
}

/* The stream's class, if the short form may free a block there; else NULL. */
QUICK struct heap_stream *class_of_free(
        struct pool *pool, const struct segment *segment, uint64_t key) POOL_LOCKED
{
    struct heap_stream *class = pool->last_class;

    if (UNLIKELY(!class || class->key != key || class->heap != segment->heap)) {
        if (segment->heap->kind != HEAP_MAPPED)
            return NULL;
        class = find_class(pool, segment->heap->owner, key);
        if (!class || class->heap != segment->heap)
            return NULL;
    }
    return segment->sealed ? NULL : class;
}

/* The point that must pass before a block freed now is idle. */
QUICK uint64_t pool_quick_point_now(const struct heap_stream *class)
{
    struct stream *stream = class->timeline_of;
    uint64_t point = fence_next(&stream->timeline);

    if (point > stream->newest)
        stream->newest = point;
    return point;
}

/* Adds a block of the class to its recent list. */
QUICK void put_recent(struct pool *pool, struct heap_stream *class, struct block *block,
        uint32_t index) POOL_LOCKED
{
    uint64_t point = pool_quick_point_now(class);

    if (UNLIKELY(block->node.size > FREECACHE_MAX))
        freecache_hold(pool, class->heap, block, index, point);
    else
        freecache_push(pool, class->heap, &class->recent, block, index, point);
}

/* The part of free_lent under the lock. A block of another stream may be in an open lane. */
static bool free_with_lock(
        struct pool *pool, devptr_t ptr, uint64_t key, struct pool_taken *ret_taken) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, granule_segment(&pool->granules, ptr));
    uint32_t index = starts_at(&segment->starts, ptr - segment->base);
    struct heap_stream *class = index ? class_of_free(pool, segment, key) : NULL;
    struct block *block = block_at(pool, index);

    if (!class || block->stream != class->stream)
        return false;
    (void)lane_close(pool, class);
    block = pool_quick_find(pool, ptr, &index);
    if (!block)
        return false;
    if (!has_slot(pool, class, block->node.size))
        lanes_recall(pool);
    pool_quick_take(pool, class->heap, block, ret_taken);
    put_recent(pool, class, block, index);
    return true;
}

/* With the pool's lock, just taken or lent to lanes. */
APART bool free_lent(struct pool *pool, devptr_t ptr, uint64_t key, struct pool_taken *ret_taken)
{
    bool done;

    (void)lock_take_lent(&pool->lock);
    done = free_with_lock(pool, ptr, key, ret_taken);
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
    return done;
}

/* Tries the stream's lane, then the lent lock. */
APART bool free_crowded(struct pool *pool, devptr_t ptr, uint64_t key, struct pool_taken *ret_taken)
{
    return lane_free(pool, ptr, key, ret_taken) || free_lent(pool, ptr, key, ret_taken);
}

APART bool free_large(struct pool *pool, struct heap_stream *class, struct block *block,
        uint32_t index, struct pool_taken *ret_taken) POOL_DROPS
{
    pool_quick_take(pool, class->heap, block, ret_taken);
    put_recent(pool, class, block, index);
    return end_free(pool, true);
}

/* The first recent block of its size. */
APART bool free_first(struct pool *pool, struct heap_stream *class, struct block *block,
        uint32_t index, struct pool_taken *ret_taken) POOL_DROPS
{
    uint32_t *slot = freecache_new_slot(pool, class->heap, &class->recent, block->node.size);

    pool_quick_take(pool, class->heap, block, ret_taken);
    freecache_push_at(pool, class->heap, slot, block, index, pool_quick_point_now(class));
    return end_free(pool, true);
}

/* For another class than the last one used. */
APART bool free_otherwise(struct pool *pool, struct block *block, uint32_t index, uint64_t key,
        struct pool_taken *ret_taken) POOL_DROPS
{
    struct heap_stream *class = class_of_free(pool, block_segment(pool, block), key);

    if (!class || block->stream != class->stream)
        return end_free(pool, false);
    pool_quick_take(pool, class->heap, block, ret_taken);
    put_recent(pool, class, block, index);
    return end_free(pool, true);
}

QUICK bool free_on(struct pool *pool, devptr_t ptr, uint64_t key, struct pool_taken *ret_taken)
{
    struct heap_stream *class;
    struct block *block;
    uint32_t *slot;
    uint32_t index;

    if (UNLIKELY(lanes_are_open(pool)) || !lock_try_leaf(&pool->lock))
        return free_crowded(pool, ptr, key, ret_taken);
    block = pool_quick_find(pool, ptr, &index);
    if (UNLIKELY(!block))
        return end_free(pool, false);
    class = pool->last_class;
    if (UNLIKELY(!class || class->key != key || block->stream != class->stream
                || class->heap != block_segment(pool, block)->heap))
        return free_otherwise(pool, block, index, key, ret_taken);
    if (UNLIKELY(block->node.size > FREECACHE_MAX))
        return free_large(pool, class, block, index, ret_taken);
    slot = freecache_slot(pool, &class->recent, block->node.size);
    if (UNLIKELY(!slot))
        return free_first(pool, class, block, index, ret_taken);
    pool_quick_take(pool, class->heap, block, ret_taken);
    freecache_push_at(pool, class->heap, slot, block, index, pool_quick_point_now(class));
    return end_free(pool, true);
}

bool pool_free_quickly(struct pool *pool, devptr_t ptr)
{
    return free_sync(pool, ptr, NULL);
}

bool pool_free_told(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken)
{
    return free_sync(pool, ptr, ret_taken);
}

bool pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream)
{
    return free_on(pool, ptr, stream, NULL);
}

bool pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken)
{
    return free_on(pool, ptr, stream, ret_taken);
}

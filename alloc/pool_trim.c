/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/census.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/outcome_queue.h"
#include "alloc/heap/records.h"
#include "alloc/storage/headroom.h"
#include "alloc/storage/reclaim.h"
#include "alloc/storage/trim.h"

#include <errno.h>
#include <sched.h>

#define TRIM_LOOKS   64 /* queries of fences that a trim has just recorded */
#define SETTLE_LOOKS 20 /* likewise, before a capture */
#define IDLE_STAYS   8  /* the fraction of held memory that may stay free in an idle program */

int pool_poll(struct pool *pool, bool may_fence, struct outcome *ret, size_t max, size_t *ret_count)
{
    size_t count = 0;
    bool is_told = true;
    int r = 0;

    *ret_count = 0;
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    if (may_fence)
        r = reclaim_poll(pool, -1, false);
    while (count < max && is_told) {
        lock_take(&pool->lock);
        is_told = outcome_queue_take(pool, &ret[count]);
        lock_drop(&pool->lock);
        count += is_told;
    }
    *ret_count = count;
    return r;
}

bool pool_waits_for_readers(struct pool *pool)
{
    bool waits;

    lock_take(&pool->lock);
    waits = reclaim_grace(pool) != NULL;
    lock_drop(&pool->lock);
    return waits;
}

/* Finds the heap of a key and holds it; NULL: none. */
static struct heap *hold_heap(struct pool *pool, enum heap_kind kind, uint64_t owner)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap)
        heap->busy++;
    lock_drop(&pool->lock);
    return heap;
}

/* True if memory of the heap, freed or released by a hint, waits only for a fence. */
static bool is_waiting(struct pool *pool, const struct heap *heap)
{
    bool waiting;

    lock_take(&pool->lock);
    waiting = heap->tally.pending + heap->tally.limbo + heap->vacated.bytes > 0;
    for (const struct heap_stream *at = heap->streams; at && !waiting; at = at->next)
        waiting = heap_class_count(at) > 0;
    lock_drop(&pool->lock);
    return waiting;
}

/* A program that trims has mostly synchronised before, but our fences are recorded only now, and
 * take some microseconds to pass on an idle device. */
static void look_at_fences(struct pool *pool, struct heap *heap)
{
    for (int i = 0; i < TRIM_LOOKS; i++) {
        (void)reclaim_poll(pool, heap->device->number, true);
        (void)reclaim_points(pool, heap, 0);
        if (!is_waiting(pool, heap))
            return;
        (void)sched_yield();
    }
}

static uint64_t bytes_of(struct pool *pool, const struct heap *heap)
{
    uint64_t held;

    lock_take(&pool->lock);
    held = heap->tally.reserved;
    lock_drop(&pool->lock);
    return held;
}

/* Bytes that the heap holds above the limit, after fences were queried. */
static uint64_t held_above(struct pool *pool, struct heap *heap, uint64_t keep_bytes)
{
    look_at_fences(pool, heap);
    return excess_of(bytes_of(pool, heap), keep_bytes);
}

int pool_trim(struct pool *pool, enum heap_kind kind, uint64_t owner, uint64_t keep_bytes,
        uint64_t *ret_bytes)
{
    struct heap *heap = hold_heap(pool, kind, owner);

    if (!heap)
        return -ENOENT;
    (void)trim_spares(pool, heap->device, UINT64_MAX); /* an explicit request of the program */
    *ret_bytes = trim_heap(pool, heap, held_above(pool, heap, keep_bytes));
    heap_let_go(pool, heap);
    return 0;
}

/* True if enough of a memory pool's heap is free, or will be, that a handle could go. A destroyed
 * pool keeps nothing back, whatever its threshold. *ret_keep: bytes that it may hold. */
static bool is_over_threshold(struct pool *pool, const struct heap *heap, uint64_t *ret_keep)
{
    const struct tally *tally = &heap->tally;
    bool is_over;

    lock_take(&pool->lock);
    *ret_keep = heap->leaving && !POOL_IS_WITHOUT(DESTROYED) ? 0 : heap->attrs.release_threshold;
    is_over = heap->kind == HEAP_MAPPED && tally->reserved > *ret_keep
            && excess_of(tally->reserved, tally->stored) >= heap->device->granularity
            && (heap->leaving || pool->opts.trim != POOL_TRIM_NEVER);
    lock_drop(&pool->lock);
    return is_over;
}

static uint64_t trim_once(
        struct pool *pool, int device, bool may_wait, struct reclaim_patience *patience)
{
    (void)reclaim_poll(pool, device, true);
    reclaim_events(pool, device);
    if (may_wait)
        reclaim_wait_device_points(pool, device, patience);
    (void)reclaim_device_points(pool, device);
    /* Then wait for epochs: frees of a destroyed stream wait for one from here on. */
    while (may_wait && reclaim_wait(pool, device, patience) == 0)
        ;
    reclaim_leaving(pool);
    return trim_device(pool, device, UINT64_MAX);
}

uint64_t pool_trim_device(struct pool *pool, int device, bool may_wait)
{
    struct reclaim_patience patience = {.end_ns = 0};
    uint64_t bytes;

    if (device < 0 || atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    bytes = trim_once(pool, device, may_wait, &patience);
    if (bytes > 0 || !patience.missed)
        return bytes;
    patience.for_ends = true;
    return trim_once(pool, device, may_wait, &patience);
}

bool pool_could_have(struct pool *pool, int device, uint64_t bytes)
{
    uint64_t most;

    return device < 0 || device >= POOL_DEVICES_MAX
            || headroom_most(pool, &pool->devices[device], &most) != 0 || bytes <= most;
}

static bool is_used(struct pool *pool, int device)
{
    bool used;

    lock_take(&pool->lock);
    used = pool->devices[device].reserved + pool->devices[device].spare > 0;
    lock_drop(&pool->lock);
    return used;
}

/* Returns free memory of all devices after fences were queried. */
static void trim_all(struct pool *pool)
{
    (void)reclaim_poll(pool, -1, true);
    for (int device = 0; device < POOL_DEVICES_MAX; device++) {
        if (is_used(pool, device))
            (void)trim_device(pool, device, UINT64_MAX);
    }
}

/* ── after idleness ── */

/* Bytes of a device's heaps that can go so that an eighth stays free; 0: no more than that is
 * free. */
static uint64_t idle_excess(struct pool *pool, int device)
{
    struct pool_stats stats;

    lock_take(&pool->lock);
    census_device(pool, device, &stats);
    lock_drop(&pool->lock);
    return excess_of(stats.free + stats.cached, stats.reserved / IDLE_STAYS);
}

/* True if frees still wait for a fence afterwards. */
static bool poll_once(struct pool *pool)
{
    bool more = false;

    (void)reclaim_poll(pool, -1, true);
    lock_take(&pool->lock);
    for (int i = 0; i < pool->devices_top && !more; i++)
        more = pool->devices[i].open.head != 0 || pool->devices[i].epochs.first != NULL;
    lock_drop(&pool->lock);
    return more;
}

void pool_settle(struct pool *pool)
{
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return;
    for (int i = 0; i < SETTLE_LOOKS && poll_once(pool); i++)
        (void)sched_yield();
    for (int device = 0; device < POOL_DEVICES_MAX; device++) {
        if (is_used(pool, device))
            (void)reclaim_device_points(pool, device);
    }
}

uint64_t pool_idle(struct pool *pool, uint64_t now_ns)
{
    uint64_t before = atomic_exchange_explicit(&pool->seen_ns, now_ns, memory_order_relaxed);
    uint64_t given = 0;
    uint64_t excess;

    if (before == 0 || now_ns < before || !pool->opts.idle_ns
            || now_ns - before < pool->opts.idle_ns || pool->opts.trim == POOL_TRIM_NEVER
            || atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    for (int i = 0; i < TRIM_LOOKS && poll_once(pool); i++)
        (void)sched_yield();
    for (int device = 0; device < POOL_DEVICES_MAX; device++) {
        if (!is_used(pool, device))
            continue;
        (void)reclaim_device_points(pool, device);
        given += trim_spares(pool, &pool->devices[device], UINT64_MAX);
        excess = idle_excess(pool, device);
        if (excess)
            given += trim_device(pool, device, excess);
    }
    return given;
}

static uint64_t points_of(struct pool *pool)
{
    uint64_t points;

    lock_take(&pool->lock);
    points = pool->counters.points;
    lock_drop(&pool->lock);
    return points;
}

/* Does one of these devices have an epoch that has not passed? */
static bool has_epochs(struct pool *pool, uint64_t devices)
{
    bool any = false;

    lock_take(&pool->lock);
    for (int i = 0; i < pool->devices_top; i++)
        any |= devices >> i & 1 && pool->devices[i].epochs.first;
    lock_drop(&pool->lock);
    return any;
}

/* Queries the fences that hold back memory of heaps above their thresholds, each once, however many
 * heaps wait for it; points that no fence covers are recorded. Returns the devices of heaps that
 * still wait, a bit each. */
static uint64_t look_once(struct pool *pool)
{
    uint64_t look = reclaim_begin_look(pool);
    uint64_t polled = 0;
    uint64_t waiting = 0;
    uint64_t keep;

    for (struct heap *heap = heap_walk(pool, NULL, -1); heap; heap = heap_walk(pool, heap, -1)) {
        uint64_t bit = UINT64_C(1) << heap->device->number;

        if (!is_over_threshold(pool, heap, &keep))
            continue;
        if (!(polled & bit))
            (void)reclaim_poll(pool, heap->device->number, true);
        (void)reclaim_points_once(pool, heap, look);
        polled |= bit;
        waiting |= is_waiting(pool, heap) ? bit : 0;
    }
    return waiting;
}

/* Fences that are recorded now take some microseconds to pass on an idle device. Those recorded
 * before the program's wait are queried once. */
static void look_at_all(struct pool *pool)
{
    uint64_t before = points_of(pool);
    uint64_t waiting = look_once(pool);
    bool is_new = points_of(pool) != before;

    for (int i = 1; i < TRIM_LOOKS && waiting && (is_new || has_epochs(pool, waiting)); i++) {
        (void)sched_yield();
        waiting = look_once(pool);
    }
}

void pool_synchronised(struct pool *pool)
{
    uint64_t keep;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return;
    if (pool->opts.trim == POOL_TRIM_EAGER)
        trim_all(pool);
    look_at_all(pool);
    for (struct heap *heap = heap_walk(pool, NULL, -1); heap; heap = heap_walk(pool, heap, -1)) {
        if (is_over_threshold(pool, heap, &keep))
            (void)trim_at_wait(pool, heap, excess_of(bytes_of(pool, heap), keep));
    }
    reclaim_leaving(pool);
}

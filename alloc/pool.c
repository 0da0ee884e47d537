/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/meta.h"
#include "alloc/heap/block.h"
#include "alloc/heap/census.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/outcome_queue.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/records.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/serve/serve.h"
#include "alloc/storage/headroom.h"
#include "alloc/storage/trim.h"
#include "alloc/swap/swap.h"

#include <string.h>

/* ── creation ── */

void pool_opts_init(struct pool_opts *opts)
{
    *opts = (struct pool_opts){
            .quantum = 512, /* Frameworks assume 512 of cudaMalloc, which promises 256. */
            .large = GRANULE_SIZE,
            /* Measured on real training steps: holds 1.05 x of what native allocations hold, with a
             * tenth of their driver calls. */
            .cut = 2,
            /* Small blocks have their own segments, so that a forgotten small block does not hold a
             * large segment. */
            .small = UINT64_C(1) << 20,
            /* Exact segments: a segment with one block returns to the driver when that block dies,
             * so held memory stays near live memory. Larger segments were not better on real traces
             * (0.904 against 0.906). */
            .chunk = 0,
            /* Recording a fence costs microseconds, querying it too; */
            .epoch_bytes = UINT64_C(64) << 20,
            .epoch_count = 128, /* over so many frees the cost is negligible. */
            .fence_timeout_ms = 5000,
            .move_ns = UINT64_C(5) * 1000 * 1000, /* half a percent of the program's time */
            /* Allocating again costs some 20 ms per GiB, so an idle program keeps its memory for a
             * minute. */
            .idle_ns = UINT64_C(60) * 1000 * 1000 * 1000,
    };
}

static bool is_power(uint64_t n)
{
    return n && !(n & (n - 1));
}

static int check_opts(const struct pool_opts *opts)
{
    if (!is_power(opts->quantum) || opts->quantum < BESTFIT_QUANTUM || opts->quantum > GRANULE_SIZE
            || opts->cut == 0 || opts->small > opts->large || opts->epoch_count == 0)
        return -EINVAL;
    return 0;
}

int pool_new(const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool)
{
    struct pool *pool;
    int r = check_opts(opts);

    if (r != 0)
        return r;
    pool = meta_map(sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    pool->driver = *driver;
    pool->opts = *opts;
    pool->sync_kind = HEAP_PLAIN;
    if (opts->sync_mapped) {
        pool->sync_kind = HEAP_PRIVATE;
        pool->opts.small = 0; /* one address range for all sizes */
    }
    lock_init(&pool->lock, LOCK_RANK_POOL);
    lanes_init(pool);
    pool->pins = (struct table)TABLE_OF(struct pin);
    for (int i = 0; i < POOL_DEVICES_MAX; i++) {
        pool->devices[i].number = i;
        pool->devices[i].epoch_bytes = opts->epoch_bytes;
    }
    r = slab_init(&pool->blocks, sizeof(struct block), BLOCKS_MAX);
    if (r == 0)
        r = slab_init(&pool->segments, sizeof(struct segment), SEGMENTS_MAX);
    if (r == 0)
        r = slab_init(&pool->holders, sizeof(struct holder), HOLDERS_MAX);
    if (r == 0)
        r = slab_init(&pool->swaps, sizeof(struct swap), SWAPS_MAX);
    if (r == 0)
        r = slab_init(&pool->streams, sizeof(struct stream), STREAMS_MAX);
    if (r == 0)
        r = granule_init(&pool->granules);
    /* Record 0 of each table is read but never written; it must exist. */
    if (r == 0
            && (slab_prepare(&pool->blocks, 1) != 0 || slab_prepare(&pool->segments, 1) != 0
                    || slab_prepare(&pool->holders, 1) != 0 || slab_prepare(&pool->swaps, 1) != 0
                    || slab_prepare(&pool->streams, 1) != 0))
        r = -ENOMEM;
    if (r != 0) {
        pool_free_all(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

static void free_timeline(struct pool *pool, struct fence_timeline *timeline)
{
    struct fence_mark *mark;
    uint64_t fence;
    bool put;

    while ((mark = fence_pass(timeline, UINT64_MAX)) != NULL) {
        if (fence_drop(mark, &fence, &put) && put)
            drive_fence_put(pool, fence);
    }
}

static void pool_free_lists(struct pool *pool) TSA(no_thread_safety_analysis)
{
    struct outcome untold;

    for (uint32_t i = 1; i < pool->streams.top; i++)
        free_timeline(pool, &((struct stream *)streams_at(pool, i))->timeline);
    for (int i = 0; i < pool->devices_top; i++) {
        free_timeline(pool, &pool->devices[i].epochs);
        free_timeline(pool, &pool->devices[i].events);
    }
    while (pool->grace_first) {
        struct grace *grace = pool->grace_first;

        pool->grace_first = grace->next;
        meta_put(grace, sizeof(*grace));
    }
    while (outcome_queue_take(pool, &untold))
        ;
    table_clear(&pool->stream_of);
    table_clear(&pool->pins);
    table_clear(&pool->matched);
    for (int i = 0; i < HEAP_KIND_COUNT; i++)
        table_clear(&pool->heap_of[i]);
    if (pool->due)
        meta_put(pool->due, (hint_count(pool->hints) + 1) * sizeof(*pool->due));
}

/* No other thread is inside, so shared fields are read without the lock. */
void pool_free_all(struct pool *pool) TSA(no_thread_safety_analysis)
{
    struct heap *heap;

    if (!pool)
        return;
    lanes_recall(pool);
    while (pool->heaps)
        heap_retire(pool, pool->heaps);
    while (pool->leaving) {
        heap = pool->leaving;
        pool->leaving = heap->next;
        heap_unlist(pool, heap);
        trim_whole_heap(pool, heap);
    }
    swap_give_host(pool);
    swapset_done(pool);
    swap_flush(pool);
    if (pool->streams.span.base)
        pool_free_lists(pool);
    slab_done(&pool->blocks);
    slab_done(&pool->segments);
    slab_done(&pool->holders);
    slab_done(&pool->swaps);
    slab_done(&pool->streams);
    granule_done(&pool->granules);
    meta_unmap(pool, sizeof(*pool));
}

int pool_set_hints(struct pool *pool, struct hints *hints)
{
    struct rule_due *due = meta_get((hint_count(hints) + 1) * sizeof(*due));
    int r = 0;

    if (!due)
        return -ENOMEM;
    lock_take(&pool->lock);
    if (pool->hints) {
        r = -EEXIST;
    } else {
        pool->hints = hints;
        pool->due = due;
    }
    lock_drop(&pool->lock);
    if (r != 0)
        meta_put(due, (hint_count(hints) + 1) * sizeof(*due));
    return r;
}

void pool_is_not_recorded(struct pool *pool)
{
    lock_take(&pool->lock);
    pool->unrecorded = true;
    lock_drop(&pool->lock);
}

/* ── allocation ── */

int pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return -EAGAIN;
    if (request->size == 0 || request->owner == 0 || request->device < 0
            || request->device >= POOL_DEVICES_MAX)
        return -EINVAL;
    return serve_request(pool, request, ret);
}

/* ── lookup ── */

static void fill_segment(struct pool *pool, const struct block *block, devptr_t ptr,
        struct block_info *ret) POOL_LOCKED
{
    const struct segment *segment = block_segment(pool, block);

    ret->segment_tenants = segment->tenants;
    ret->context = segment->context;
    ret->mapped = segment->kind != SEGMENT_PLAIN;
    ret->managed = segment->kind == SEGMENT_MANAGED;
    switch (segment->kind) {
    case SEGMENT_PLAIN:
        ret->segment_base = segment->raw_base;
        ret->segment_size = segment->raw_size;
        break;
    case SEGMENT_ARENA:
        ret->segment_base = ptr & ~(segment->slot - 1);
        ret->segment_size = segment->slot;
        break;
    case SEGMENT_HINT:
        ret->segment_base = block->node.base & ~(segment->slot - 1);
        ret->segment_size = max_of(block->node.size, segment->slot);
        break;
    case SEGMENT_MANAGED:
        ret->segment_base = segment->base;
        ret->segment_size = segment->size;
        break;
    }
}

static void fill_info(struct pool *pool, const struct block *block, devptr_t ptr,
        struct block_info *ret) POOL_LOCKED
{
    const struct heap *heap = block_segment(pool, block)->heap;
    const struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;

    *ret = (struct block_info){
            .heap = heap->kind,
            .owner = heap->owner,
            .base = block->node.base,
            .rounded = block->node.size,
            .state = HOLDER_GONE,
            .rule = -1,
            .device = heap->device->number,
    };
    fill_segment(pool, block, ptr, ret);
    if (block->state != BLOCK_LIVE)
        return;
    ret->size = block->node.size - block->slack;
    ret->state = holder ? holder->state : HOLDER_LIVE;
    ret->mode = holder ? holder->mode : HINT_OFF;
    ret->rule = holder ? holder->rule : -1;
    ret->stream = block->stream ? streams_at(pool, block->stream)->key : 0;
    ret->alloc_seq = block->seq;
}

int pool_find(struct pool *pool, devptr_t ptr, struct block_info *ret)
{
    uint32_t index;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return -EAGAIN;
    if (!granule_segment(&pool->granules, ptr))
        return -ENOENT; /* Most addresses asked about are not ours; they need no lock. */
    lock_take(&pool->lock);
    index = block_find(pool, ptr);
    if (index)
        fill_info(pool, block_at(pool, index), ptr, ret);
    lock_drop(&pool->lock);
    return index ? 0 : -ENOENT;
}

/* Moves the free blocks of a segment from the index that requests search to the sealed index, which
 * they do not search. Later frees go to the sealed index directly (freelist_put). */
static void seal(struct pool *pool, struct segment *segment) POOL_LOCKED
{
    freecache_settle(pool, segment->heap);
    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        if (block->state != BLOCK_FREE)
            continue;
        freelist_pull(pool, at);
        segment->sealed = true;
        (void)freelist_put(
                /* merges nothing: the block was already merged */
                pool, at, block->stream, block->seq);
        segment->sealed = false;
    }
    segment->sealed = true;
}

static int export_locked(struct pool *pool, devptr_t ptr) POOL_LOCKED
{
    uint32_t index = block_find(pool, ptr);
    struct segment *segment;
    struct block *block;

    if (!index)
        return -ENOENT;
    block = block_at(pool, index);
    segment = block_segment(pool, block);
    if (segment->kind != SEGMENT_PLAIN || block->state != BLOCK_LIVE || block->node.base != ptr)
        return -EINVAL;
    if (segment->raw_base != ptr || segment->tenants != 1)
        return -EBUSY;
    if (!segment->sealed)
        seal(pool, segment);
    return 0;
}

int pool_export(struct pool *pool, devptr_t ptr)
{
    int r;

    if (!granule_segment(&pool->granules, ptr))
        return -ENOENT;
    lock_take(&pool->lock);
    r = export_locked(pool, ptr);
    lock_drop(&pool->lock);
    return r;
}

/* ── figures ── */

int pool_heap_attrs(struct pool *pool, uint64_t owner, int device, struct pool_heap_attrs *ret)
{
    const struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, device);
    if (heap)
        *ret = heap->attrs;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOMEM;
}

int pool_set_heap_attrs(
        struct pool *pool, uint64_t owner, int device, const struct pool_heap_attrs *attrs)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, device);
    if (heap)
        heap->attrs = *attrs;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOMEM;
}

void pool_stats(struct pool *pool, int device, struct pool_stats *ret)
{
    lock_take(&pool->lock);
    census_device(pool, device, ret);
    lock_drop(&pool->lock);
}

void pool_room(struct pool *pool, int device, struct pool_room *ret)
{
    lock_take(&pool->lock);
    census_device(pool, device, &ret->stats);
    headroom_measure(pool, device, ret);
    lock_drop(&pool->lock);
}

uint64_t pool_range_errors(struct pool *pool)
{
    uint64_t errors;

    lock_take(&pool->lock);
    errors = pool->counters.range_errors;
    lock_drop(&pool->lock);
    return errors;
}

uint64_t pool_available(struct pool *pool, int device, const struct pool_memory *memory)
{
    uint64_t bytes;

    if (device < 0 || device >= POOL_DEVICES_MAX)
        return memory->driver_free;
    lock_take(&pool->lock);
    bytes = headroom_available(pool, device, memory);
    lock_drop(&pool->lock);
    return bytes;
}

int pool_heap_stats(struct pool *pool, enum heap_kind kind, uint64_t owner, struct pool_stats *ret)
{
    const struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap)
        census_heap(heap, ret);
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOENT;
}

int pool_reset_high(
        struct pool *pool, enum heap_kind kind, uint64_t owner, bool used, bool reserved)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap && used) {
        heap->tally.used_high = heap->tally.used + heap->tally.native_used;
    }
    if (heap && reserved)
        heap->tally.reserved_high = heap->tally.reserved + heap->tally.native_reserved;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOENT;
}

void pool_note_native(
        struct pool *pool, uint64_t owner, int device, uint64_t used, uint64_t reserved)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, device);
    if (heap) {
        heap->tally.native_used = used;
        heap->tally.native_reserved = reserved;
        tally_raise(&heap->tally.used_high, heap->tally.used + used);
        tally_raise(&heap->tally.reserved_high, heap->tally.reserved + reserved);
    }
    lock_drop(&pool->lock);
}

uint64_t pool_seq_next(struct pool *pool)
{
    return records_next_seq(pool);
}

int pool_check(struct pool *pool, const char **ret_what)
{
    const char *what;

    lock_take(&pool->lock);
    what = census_check(pool);
    lock_drop(&pool->lock);
    if (!what)
        return 0;
    *ret_what = what;
    return -EINVAL;
}

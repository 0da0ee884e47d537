/* SPDX-License-Identifier: MIT */
#include "alloc/storage/vacate.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/spot.h"

#include <errno.h>
#include <sched.h>

/* polls of submissions in progress before the storage is left in place */
#define READERS_PATIENCE 64

static bool has_passed(const struct pool *pool, const struct block *block) POOL_LOCKED
{
    return POOL_IS_WITHOUT(UNMAP) || block->seq <= streams_at(pool, block->stream)->timeline.passed;
}

static void leave_class(struct pool *pool, struct heap *heap, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);

    heap_class(heap, block->stream)->vacated--;
    block_name_stream(pool, block, 0);
}

void vacate_ready(struct pool *pool, uint32_t index)
{
    block_at(pool, index)->slack = 1;
    block_chain(pool, &pool->vacant, index);
}

/* Waits for its point, or if its stream was lost meanwhile, for an epoch. */
static void wait_for_point(struct pool *pool, struct heap *heap, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);

    if (block->seq > streams_at(pool, block->stream)->newest) {
        block_name_stream(pool, block, 0);
        block_chain(pool, &heap->device->open, index);
    } else if (has_passed(pool, block)) {
        block_name_stream(pool, block, 0);
        vacate_ready(pool, index);
    } else {
        heap_fill(heap_class(heap, block->stream));
        heap_class(heap, block->stream)->vacated++;
        block_chain(pool, &heap->vacated, index);
    }
}

int vacate_slot(struct pool *pool, uint32_t index, uint32_t *ret_rest, uint64_t *ret_handle)
{
    struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);
    struct heap *heap = segment->heap;
    uint64_t handle = *spot_handles(pool, block);
    struct vacated *vacated;

    if (slab_prepare(&pool->blocks, 1) != 0)
        return -ENOMEM;
    vacated = table_add(&heap->vacated_handles, handle);
    if (!vacated)
        return -ENOMEM;
    *ret_rest = block->node.size > segment->slot ? block_cut(pool, index, segment->slot) : 0;
    *ret_handle = handle;
    if (POOL_IS_WITHOUT(VACATE)) {
        spot_put_back(pool, index);
        return 0;
    }
    vacated->at = block->node.base;
    vacated->mappings++;
    block->state = BLOCK_VACATED;
    block->flags = BLOCK_GONE;
    block->slack = 0;
    heap->vacating++;
    wait_for_point(pool, heap, index);
    return 0;
}

/* Counts one mapping less of a handle. */
static void vacate_forget(struct heap *heap, uint64_t handle, devptr_t at)
{
    struct vacated *vacated = table_find(&heap->vacated_handles, handle);

    heap->vacating--;
    if (!vacated)
        return;
    if (vacated->at == at)
        vacated->at = 0;
    if (--vacated->mappings == 0)
        (void)table_remove(&heap->vacated_handles, vacated);
}

/* Removes a block from the middle of a chain; false: it is not there. */
static bool unchain(struct pool *pool, struct fence_chain *chain, uint32_t index) POOL_LOCKED
{
    uint32_t before = 0;
    uint32_t at = chain->head;

    while (at && at != index) {
        before = at;
        at = block_at(pool, at)->chain;
    }
    if (!at)
        return false;
    if (before)
        block_at(pool, before)->chain = block_at(pool, index)->chain;
    else
        chain->head = block_at(pool, index)->chain;
    if (chain->tail == index)
        chain->tail = before;
    chain->count--;
    chain->bytes -= block_at(pool, index)->node.size;
    return true;
}

bool vacate_return(struct pool *pool, struct heap *heap, uint64_t handle)
{
    const struct vacated *vacated = table_find(&heap->vacated_handles, handle);
    devptr_t at = vacated ? vacated->at : 0;
    uint32_t index = at ? block_find(pool, at) : 0;
    struct block *block = block_at(pool, index);

    if (!index || block->state != BLOCK_VACATED || block->slack)
        return false;
    vacate_forget(heap, handle, at);
    block->flags = 0;
    if (unchain(pool, &heap->vacated, index)) {
        heap_class(heap, block->stream)->vacated--;
        block->state = BLOCK_BUSY;
        spot_put_back(pool, index);
    } else { /* in an epoch: a free block there has storage now */
        block->state = BLOCK_PENDING;
        heap->tally.pending += block->node.size;
    }
    return true;
}

/* Sorts the waiting slots: those whose points have passed become ready; those of a lost stream,
 * after this point, go to this chain. */
static void sort_waiting(struct pool *pool, struct heap *heap, const struct stream *lost,
        uint64_t point, struct fence_chain *chain) POOL_LOCKED
{
    uint32_t at = heap->vacated.head;

    heap->vacated = (struct fence_chain){0};
    while (at) {
        const struct block *block = block_at(pool, at);
        uint32_t next = block->chain;

        if (lost && block->stream == lost->index && block->seq > point) {
            leave_class(pool, heap, at);
            block_chain(pool, chain, at);
        } else if (!lost && has_passed(pool, block)) {
            leave_class(pool, heap, at);
            vacate_ready(pool, at);
        } else {
            block_chain(pool, &heap->vacated, at);
        }
        at = next;
    }
}

void vacate_sweep(struct pool *pool, struct heap *heap)
{
    sort_waiting(pool, heap, NULL, 0, NULL);
}

void vacate_lose(struct pool *pool, struct heap *heap, const struct stream *stream, uint64_t point,
        struct fence_chain *chain)
{
    sort_waiting(pool, heap, stream, point, chain);
}

/* ── unmapping ── */

bool vacate_is_quiet(struct pool *pool)
{
    uint64_t snapshot = drive_readers_snapshot(pool);

    if (POOL_IS_WITHOUT(GRACE))
        return true;
    for (int i = 0; i < READERS_PATIENCE; i++) {
        if (drive_readers_passed(pool, snapshot) == 0)
            return true;
        (void)sched_yield();
    }
    return false;
}

/* Adjacent ready slots: BUSY, and their heap busy for each. */
struct ready {
    uint32_t first, last; /* 0 = none */
    struct bestfit_node node;
};

/* The first ready slot and the ones that follow it both by address and in the chain. */
static struct ready take_ready(struct pool *pool) POOL_LOCKED
{
    struct ready ready = {.first = pool->vacant.head};

    while (pool->vacant.head
            && (!ready.last || block_at(pool, ready.last)->next == pool->vacant.head)) {
        struct block *block;

        ready.last = pool->vacant.head;
        (void)unchain(pool, &pool->vacant, ready.last);
        block = block_at(pool, ready.last);
        block->state = BLOCK_BUSY;
        block_segment(pool, block)->heap->busy++;
        if (ready.last == ready.first)
            ready.node.base = block->node.base;
        ready.node.size += block->node.size;
    }
    return ready;
}

/* Handles the driver's answer. */
static void vacate_settle(struct pool *pool, uint32_t index, int r) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);
    uint64_t *handle = spot_handles(pool, block);

    segment->heap->busy--;
    if (r != 0) {
        block->state = BLOCK_VACATED;
        if (!segment->dead)
            block_chain(pool, &pool->vacant, index);
        return;
    }
    vacate_forget(segment->heap, *handle, block->node.base);
    *handle = 0;
    if (segment->dead)
        block->state = BLOCK_KEPT;
    else
        freelist_put_decommitted(pool, index);
}

/* Clears one BUSY slot, unmapped already or not yet. *ret_next: the next slot. */
static int vacate_clear_one(struct pool *pool, uint32_t index, bool is_done, uint32_t *ret_next)
{
    struct bestfit_node node;
    int r = 0;

    lock_take(&pool->lock);
    node = block_at(pool, index)->node;
    *ret_next = block_at(pool, index)->next; /* before it is merged with gaps */
    lock_drop(&pool->lock);
    if (!is_done)
        r = DRIVE(pool, unmap, node.base, node.size);
    lock_take(&pool->lock);
    vacate_settle(pool, index, r);
    lock_drop(&pool->lock);
    return r;
}

/* 0, or the driver's code for the last one that it refused; -ENOENT: none is ready. */
static int clear_some(struct pool *pool)
{
    struct ready ready;
    uint32_t at, next;
    bool is_done;
    int r = 0;

    lock_take(&pool->lock);
    ready = take_ready(pool);
    lock_drop(&pool->lock);
    if (!ready.first)
        return -ENOENT;
    is_done =
            ready.first != ready.last && DRIVE(pool, unmap, ready.node.base, ready.node.size) == 0;
    for (at = ready.first; at; at = at == ready.last ? 0 : next) {
        int one = vacate_clear_one(pool, at, is_done, &next);

        r = one ? one : r;
    }
    return r;
}

void vacate_clear(struct pool *pool)
{
    bool any;

    lock_take(&pool->lock);
    any = pool->vacant.head != 0;
    lock_drop(&pool->lock);
    if (!any || !vacate_is_quiet(pool))
        return;
    while (clear_some(pool) == 0)
        ;
}

void vacate_end(struct pool *pool, struct heap *heap)
{
    for (uint32_t number = heap->segments; number; number = segment_at(pool, number)->next) {
        for (uint32_t at = segment_at(pool, number)->first; at; at = block_at(pool, at)->next) {
            struct block *block = block_at(pool, at);
            if (block->state != BLOCK_VACATED
                    || DRIVE(pool, unmap, block->node.base, block->node.size) != 0)
                continue;
            vacate_forget(heap, *spot_handles(pool, block), block->node.base);
            *spot_handles(pool, block) = 0;
            block->state = BLOCK_KEPT;
        }
    }
}

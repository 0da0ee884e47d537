/* SPDX-License-Identifier: MIT */
#include "alloc/room.h"

/* Free neighbours, and the whole slots inside them that are not counted yet. */
struct run {
    devptr_t lo, hi;  /* 0, 0 = none */
    devptr_t counted; /* slots below this are among the waiting ones, or do not belong to the run */
    uint64_t waiting; /* bytes */
};

static void end_run(struct run *run, uint64_t slot, struct pool_room *ret)
{
    devptr_t lo = heap_round(run->lo, slot);
    devptr_t hi = run->hi & ~(slot - 1);
    uint64_t waiting;

    if (hi <= lo) {
        *run = (struct run){.lo = 0};
        return;
    }
    /* The last slot that something awaited lies in may reach beyond the run: then it is none of its whole slots. */
    waiting = run->waiting;
    if (run->counted > hi)
        waiting -= run->counted - hi;
    ret->remappable_waiting += waiting;
    ret->remappable += hi - lo - waiting;
    *run = (struct run){.lo = 0};
}

/* A free block that belongs to a run; one that is awaited makes all slots that it touches wait. */
static void add_block(
        struct pool *pool, const struct block *block, uint64_t slot, struct run *run) POOL_LOCKED
{
    devptr_t lo = block->node.base;
    devptr_t hi = lo + block->node.size;

    if (run->hi != lo)
        *run = (struct run){.lo = lo, .counted = heap_round(lo, slot)};
    run->hi = hi;
    if (heap_class_of(pool, block->stream, block->seq) == 0)
        return;
    lo &= ~(slot - 1);
    hi = heap_round(hi, slot);
    if (lo < run->counted)
        lo = run->counted;
    if (hi > lo) {
        run->waiting += hi - lo;
        run->counted = hi;
    }
}

static void measure_arena(
        struct pool *pool, const struct segment *segment, struct pool_room *ret) POOL_LOCKED
{
    struct run run = {.lo = 0};

    for (uint32_t at = segment->first; at; at = heap_block(pool, at)->next) {
        const struct block *block = heap_block(pool, at);

        if (block->state == BLOCK_FREE)
            add_block(pool, block, segment->slot, &run);
        else if (run.hi)
            end_run(&run, segment->slot, ret);
    }
    if (run.hi)
        end_run(&run, segment->slot, ret);
}

static void raise_to_largest(
        const struct pool *pool, const struct bestfit *fit, struct pool_room *ret) POOL_LOCKED
{
    uint32_t index = bestfit_largest(fit);

    if (index)
        heap_raise(&ret->largest_free, heap_block(pool, index)->node.size);
}

static void measure_heap(struct pool *pool, struct heap *heap, struct pool_room *ret) POOL_LOCKED
{
    heap_settle(pool, heap);
    raise_to_largest(pool, &heap->small, ret);
    raise_to_largest(pool, &heap->clean, ret);
    raise_to_largest(pool, &heap->crumbs, ret);
    raise_to_largest(pool, &heap->planned, ret);
    raise_to_largest(pool, &heap->idle, ret);
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        raise_to_largest(pool, &at->fit, ret);
        raise_to_largest(pool, &at->crumbs, ret);
        raise_to_largest(pool, &at->planned, ret);
    }
    ret->remappable += heap->idle.bytes;
    for (uint32_t number = heap->segments; number; number = heap_segment(pool, number)->next) {
        const struct segment *segment = heap_segment(pool, number);

        if (segment->kind == SEGMENT_ARENA && !segment->dead)
            measure_arena(pool, segment, ret);
    }
}

void room_measure(struct pool *pool, int device, struct pool_room *ret)
{
    ret->largest_free = 0;
    ret->remappable = 0;
    ret->remappable_waiting = 0;
    for (struct heap *heap = pool->heaps; heap; heap = heap->next) {
        if (heap->device->number == device)
            measure_heap(pool, heap, ret);
    }
}

/* SPDX-License-Identifier: MIT */
#include "alloc/heap/tally.h"

void tally_reserved(struct heap *heap, int64_t by)
{
    heap->tally.reserved += (uint64_t)by;
    heap->device->reserved += (uint64_t)by;
    tally_raise(&heap->tally.reserved_high, heap->tally.reserved + heap->tally.native_reserved);
    tally_raise(&heap->device->reserved_high, heap->device->reserved);
}

void tally_kept(struct heap *heap, int64_t by)
{
    heap->tally.kept += (uint64_t)by;
    tally_raise(&heap->tally.kept_high, heap->tally.kept);
}

void tally_stored(struct heap *heap, int64_t by)
{
    heap->tally.stored += (uint64_t)by;
    heap->device->stored += (uint64_t)by;
    tally_raise(&heap->tally.stored_high, heap->tally.stored);
    tally_raise(&heap->device->stored_high, heap->device->stored);
}

void tally_held(struct heap *heap, int64_t by)
{
    heap->tally.held += (uint64_t)by;
    tally_stored(heap, by);
}

void tally_keep(struct pool *pool, struct block *block)
{
    block->state = BLOCK_KEPT;
    tally_kept(block_segment(pool, block)->heap, (int64_t)block->node.size);
}

/* SPDX-License-Identifier: MIT */
/*
 * tally.h - the sums of each heap and of each device, updated with each change.
 *
 * struct pool_stats defines the sums; census.h counts everything again and compares.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_TALLY_H
#define KEDGE_ALLOC_TALLY_H

#include "alloc/heap/block.h"
#include "alloc/heap/records.h"

static inline void tally_raise(uint64_t *high, uint64_t value)
{
    if (value > *high)
        *high = value;
}

/* Adds to a sum of the heap that its device has, too, or that has a high mark. */
void tally_reserved(struct heap *heap, int64_t by);
void tally_kept(struct heap *heap, int64_t by);

/* Bytes that need storage. */
void tally_stored(struct heap *heap, int64_t by);

/* Bytes that hints hold: they need storage although the program has freed them. */
void tally_held(struct heap *heap, int64_t by);

/* A block is KEPT from now on. */
void tally_keep(struct pool *pool, struct block *block);

/* The program gets a block of `requested` bytes, or frees it. `is_stored`: as holder_is_stored. */
static inline void tally_birth(struct pool *pool, struct heap *heap, const struct block *block,
        uint64_t requested, bool is_stored)
{
    struct tally *tally = &heap->tally;
    struct device *device = heap->device;
    uint64_t size = block->node.size;

    block_segment(pool, block)->tenants++;
    tally->live_count++;
    tally->live_rounded += size;
    tally->live_requested += requested;
    tally->used += round_up(requested, 512);
    device->live_requested += requested;
    if (is_stored) {
        tally->stored += size;
        device->stored += size;
    }
    tally_raise(&tally->used_high, tally->used + tally->native_used);
    tally_raise(&tally->stored_high, tally->stored);
    tally_raise(&device->live_requested_high, device->live_requested);
    tally_raise(&device->stored_high, device->stored);
}

static inline void tally_death(
        struct pool *pool, struct heap *heap, const struct block *block, bool is_stored)
{
    struct tally *tally = &heap->tally;
    struct device *device = heap->device;
    uint64_t size = block->node.size;
    uint64_t requested = size - block->slack;

    block_segment(pool, block)->tenants--;
    tally->live_count--;
    tally->live_rounded -= size;
    tally->live_requested -= requested;
    tally->used -= round_up(requested, 512);
    device->live_requested -= requested;
    if (is_stored) {
        tally->stored -= size;
        device->stored -= size;
    }
}

#endif

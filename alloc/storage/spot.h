/* SPDX-License-Identifier: MIT */
/*
 * spot.h - the address in a mapped heap where a request needs the least new storage.
 *
 * A request that fits no free block may use a free block together with the gap beside it, so that
 * only the gap needs storage. Addresses cost nothing and storage does, so the run of free blocks
 * and gaps with the fewest slots without storage is chosen; of equal ones the smallest gap; a run
 * without a gap below the top comes last:
 *
 *     LIVE │ FREE │ DECOMMITTED │ FREE │ LIVE │ DECOMMITTED │ LIVE │ FREE │ top ┄┄┄
 *          └──── a spot ───────┘      └─────┘      └────── spots ┄┄┄
 *
 * Gaps are reused before a range grows, and free blocks are extended in place. Free
 * blocks of another stream are not part of a spot: they need a wait (serve.c). Does not map the
 * storage (grow.c does).
 * Threads: the caller holds the pool lock. Rules: R36 R70.
 */
#ifndef KEDGE_ALLOC_SPOT_H
#define KEDGE_ALLOC_SPOT_H

#include "alloc/heap/block.h"
#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

/* The alignment of a request's address. Whole slots begin on a slot: otherwise they would share one
 * at each end with their neighbours, and those could not move when they are free. */
uint64_t spot_align(
        const struct pool *pool, const struct heap *heap, const struct want *want) POOL_LOCKED;

/* Finds the spot with the least missing. 0, or -ENOENT: no stretch of addresses is long enough.
 * Meets each gap; those that are too short with what is free beside them are passed over. */
int spot_find(struct pool *pool, struct heap *heap, const struct want *want,
        struct spot *ret) POOL_LOCKED;

/* Takes the blocks of a spot that was found in this hold of the lock: each BUSY, in a row from the
 * returned one to *ret_last. 0 = no memory, nothing has changed. */
uint32_t spot_take(struct pool *pool, const struct spot *spot, uint32_t *ret_last) POOL_LOCKED;

/* The entry of the handle of a block's first slot; those of its other slots follow; 0 there = no
 * storage. */
static inline uint64_t *spot_handles(const struct pool *pool, const struct block *block)
{
    const struct segment *segment = block_segment(pool, block);

    return &segment->handles[(block->node.base - segment->base) / segment->slot];
}

/* Puts a BUSY block back unchanged; one whose stream was lost meanwhile waits for all streams. */
void spot_put_back(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * spot.h - where in the addresses of a mapped heap a request can stand for the least storage.
 *
 * A request that fits no free block can still stand on a free block and the gap beside it, so that only what the gap lacks
 * has to be brought there. Addresses cost nothing and storage does, so the run of free blocks and gaps with the fewest
 * slots without storage is chosen; of equal ones the smallest gap, and one that has no gap below the top comes last:
 *
 *     LIVE │ FREE │ DECOMMITTED │ FREE │ LIVE │ DECOMMITTED │ LIVE │ FREE │ top ┄┄┄
 *          └──── a spot ───────┘      └─────┘      └────── spots ┄┄┄
 *
 * Of a heap's ranges those grow whose slots are as the request wants them (grow_wish); gaps of all are looked at.
 * So gaps are used again before the range grows, and free blocks are widened where they stand. What is free but belongs to
 * another stream is no part of a spot: that needs a wait (serve.c).
 * Does not bring the storage (grow.c does). Threads: the caller holds the pool lock. Rules: R36 R70.
 */
#ifndef KEDGE_ALLOC_SPOT_H
#define KEDGE_ALLOC_SPOT_H

#include "alloc/heap/block.h"
#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

struct spot {
    uint32_t segment;
    uint32_t first;   /* the block that it begins in, 0 = at the top */
    uint64_t skip;    /* bytes of a first gap that do not belong to it, whole slots */
    uint64_t bytes;   /* from its beginning to the end of the request */
    uint64_t missing; /* of these, without storage: whole slots */
};

/* What a request's place is a multiple of. Whole slots begin on a slot: else they would share one at each end with what is beside them,
 * and so much could not move when they are free. */
uint64_t spot_align(
        const struct pool *pool, const struct heap *heap, const struct want *want) POOL_LOCKED;

/* The spot with the least missing. 0, or -ENOENT: no stretch of addresses is long enough. Looks at each gap. */
int spot_find(struct pool *pool, struct heap *heap, const struct want *want,
        struct spot *ret) POOL_LOCKED;

/* Takes the blocks of a spot that was found in this hold of the lock: BUSY each, in a row from the one returned to
 * *ret_last. 0 = no memory, nothing has happened. */
uint32_t spot_take(struct pool *pool, const struct spot *spot, uint32_t *ret_last) POOL_LOCKED;

/* Where the handle of a block's first slot stands, and those of the others behind it; 0 there = no storage. */
static inline uint64_t *spot_handles(const struct pool *pool, const struct block *block)
{
    const struct segment *segment = block_segment(pool, block);

    return &segment->handles[(block->node.base - segment->base) / segment->slot];
}

/* A BUSY block goes back to where it was taken from, as it is; one whose stream was lost meanwhile waits for all. */
void spot_put_back(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * fit.h - which free block a request is cut from, and from which end of it.
 *
 * The rules, in the order in which they decide:
 *
 *     which block   a fragment before others; the smallest that fits; the free block at the top of the arena after all others,
 *                   since what is cut from it is in the way of the next large request
 *     which end     beside a block of the request's own size; else where fewer whole slots are cut; else beside the older one
 *
 * A hole between blocks of one size becomes a hole of that size again. What is young goes sooner than what is old, so the rest of
 * the hole, which lies beside it, will grow.
 *
 * Measured on the 296 traces of DESIGN.md, four passes, a device so far behind that nothing can move. Geometric mean of E, and
 * how many are worse than PyTorch's model:
 *
 *     all rules                               0.970     2
 *     without the top / own size / age        0.965     6     0.968     6     0.967     2
 *     only the top / own size / age           0.966    10     0.965     7     0.964    16
 *     none of them: best fit                  0.964    16
 *
 * (the end that costs fewer slots in every line)
 *
 * Threads, memory: as records.h.
 */
#ifndef KEDGE_ALLOC_FIT_H
#define KEDGE_ALLOC_FIT_H

#include "alloc/heap/records.h"

/* What fit_take may use. */
struct want {
    uint64_t size; /* rounded */
    uint64_t align;
    uint32_t stream; /* whose free blocks are allowed beside clean ones; 0 = none */
    bool small;      /* from the small segments of a plain heap */
    bool whole;      /* a segment of its own, all of it (R16) */
    uint64_t most;   /* no larger block is cut for it, 0 = any */
    uint64_t slot;   /* of the ranges that may grow for it, 0 = as the arena has them */
    bool on_slot;    /* it is whole slots, and a new place for it begins on one (spot.h) */
    bool rests; /* of large plain segments, too, if nothing else fits: there is no more memory */
};

/* A free block in an index that the request fits in, of its stream or clean; 0 = none. Recent ones are not seen. */
uint32_t fit_find(
        const struct pool *pool, const struct heap *heap, const struct want *want) POOL_LOCKED;

/* Where in a block that it fits in the request is cut out: bytes from the block's beginning. */
uint64_t fit_skip(
        const struct pool *pool, const struct block *block, const struct want *want) POOL_LOCKED;

/* A best-fit block of exactly want->size, BUSY, cut free of what is around it; 0 = none. Needs two records. */
uint32_t fit_take(struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED;

/* The same without a look into the free cache: for who has looked there. */
uint32_t fit_fit(struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED;

#endif

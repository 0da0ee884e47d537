/* SPDX-License-Identifier: MIT */
/*
 * fit.h - which free block serves a request, and from which end it is cut.
 *
 * The rules, in order of priority:
 *
 *     which block   a fragment before others; the smallest that fits; the free block at the top of
 *                   the arena last, since a piece cut from it blocks the next large request
 *     which end     beside a block of the request's own size; else where fewer whole slots are cut;
 *                   else beside the older neighbour; in a tiny program (heap.h) at the low end
 *
 * A hole between blocks of one size becomes a hole of that size again. Young blocks are freed
 * sooner than old ones, so the rest of the hole, which lies beside the younger neighbour, will
 * grow.
 *
 * Measured on the 296 traces of DESIGN.md, four passes, a device so far behind that nothing can
 * move. Geometric mean of E, and the number of traces that are worse than PyTorch's model:
 *
 *     all rules                               0.970     2
 *     without the top / own size / age        0.965     6     0.968     6     0.967     2
 *     only the top / own size / age           0.966    10     0.965     7     0.964    16
 *     none of them: best fit                  0.964    16
 *
 * (every line cuts the end that costs fewer slots)
 *
 * Threads, memory: as records.h.
 */
#ifndef KEDGE_ALLOC_FIT_H
#define KEDGE_ALLOC_FIT_H

#include "alloc/heap/records.h"

/* The blocks that fit_take may use. */
struct want {
    uint64_t size; /* rounded */
    uint64_t align;
    uint32_t stream; /* stream whose free blocks are allowed in addition to idle ones; 0 = none */
    bool small;      /* from the small segments of a plain heap */
    bool whole;      /* a segment of its own, all of it (R16, export-safe placement) */
    uint64_t most;   /* larger blocks are not cut for it, 0 = no limit */
    bool on_slot;    /* it is whole slots, and a new place for it begins on a slot (spot.h) */
    /* fragments of large plain segments, too, if nothing else fits: memory is exhausted */
    bool rests;
};

/* From this size on recent blocks of an arena are merged before a fit is searched, unless there is
 * a tight fit or few are unmerged (DESIGN.md has the figures). */
#define FIT_JOINED_MIN (UINT64_C(64) << 10)

/* An indexed free block that fits the request, of its stream or idle; 0 = none. Recent blocks are
 * not searched. */
uint32_t fit_find(
        const struct pool *pool, const struct heap *heap, const struct want *want) POOL_LOCKED;

/* Is an idle block of just this size free, recent ones included? */
bool fit_is_exact(const struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED;

/* Where the request is cut out of a block that fits: bytes from the block's beginning. */
uint64_t fit_skip(
        const struct pool *pool, const struct block *block, const struct want *want) POOL_LOCKED;

/* A best-fit block of exactly want->size, BUSY, cut out; 0 = none. Needs two records. */
uint32_t fit_take(struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED;

/* The same without the free cache: for callers that have searched it. */
uint32_t fit_fit(struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED;

#endif

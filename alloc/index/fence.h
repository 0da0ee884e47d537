/* SPDX-License-Identifier: MIT */
/*
 * fence.h - freed blocks that wait until the device has finished with them.
 *
 * A free may arrive anywhere: in a stream capture, in a host callback, after the driver is shut
 * down. So a free only pushes here, and an allocation closes an epoch: one fence for everything
 * freed before. Two kinds:
 *
 *     epochs (the streams are unknown: one fence for all streams of all contexts that may use the
 *     memory)
 *     freed ─push─► open ─close─► epoch 1 … epoch n ─passed─► idle (bestfit.h)
 *
 *     points (the stream is known: numbers on that stream's own timeline)
 *     freed on S ─► "needs point k of S" ─begin, record─► fence of point k ─passed─► S has passed k
 *
 * A point is a number per stream that rises by one with each record: the number is taken *before*
 * the driver is called (fence_begin), and a block freed from then on needs the next one. So a
 * record covers every block that needs its number or a smaller one, in whatever order several
 * threads reach the driver; the same holds for epochs, whose number is taken when they are closed.
 * Hence: when one has passed, all earlier ones have passed, even those still being recorded. A set
 * keeps the maximum per stream (R70, point sets), and a block holds numbers, not fences.
 *
 * A set of points has a fixed size; adding a stream too many fails, and the caller uses a full
 * fence instead.
 *
 * Does not call the driver (reclaim.c does) and does not read the clock.
 * Threads: none of it is safe alone; the caller holds the pool lock. Memory: meta.h.
 * Rules: R1 R2 R12 R70 R71.
 */
#ifndef KEDGE_ALLOC_FENCE_H
#define KEDGE_ALLOC_FENCE_H

#include "alloc/base/meta.h"
#include "alloc/base/types.h"

#define FENCE_SET_MAX 4 /* streams in a point set */

/* Blocks by index, linked through a word of each block that the caller passes. */
struct fence_chain {
    uint32_t head, tail;
    uint32_t count;
    uint64_t bytes;
};

/* One recorded fence of the driver: an epoch's or a point's. Several threads may query it at once
 * without the lock, so it is destroyed when the last of them has finished. */
struct fence_mark {
    struct fence_mark *next, *prev; /* later and earlier ones of the same timeline */
    uint64_t number;
    uint64_t fence; /* of the driver; valid if `recorded` */
    uint32_t users; /* threads that query it or wait for it, and the timeline itself */
    bool recorded;
    bool is_listed;           /* by a timeline */
    struct fence_chain chain; /* blocks that wait; empty for points */
};

/* The epochs of a pool, or the points of a stream: marks in rising order of number. */
struct fence_timeline {
    struct fence_mark *first, *last;
    uint64_t given;    /* the greatest number taken */
    uint64_t begun;    /* the number of the newest mark; less than `given` after a fence_split */
    uint64_t recorded; /* the greatest number that has a fence */
    uint64_t passed;   /* all numbers up to this one have passed */
    uint32_t marks;    /* waiting marks, */
    uint64_t bytes;    /* and bytes that wait for them */
    bool is_streams;   /* it is that of a stream */
    bool stalled;      /* a wait timed out, and nothing of the timeline has passed since */
};

/* {stream -> point}; `stream` are indices of the pool's stream table. 0 entries = idle. */
struct fence_set {
    uint32_t count;
    uint32_t stream[FENCE_SET_MAX];
    uint64_t point[FENCE_SET_MAX];
};

/* ── chains ── */

/* Appends block `index`, whose link word is `next`; `tail_next` is the link word of the current
 * tail (unused while the chain is empty). */
static inline void fence_chain_push(struct fence_chain *chain, uint32_t index, uint64_t bytes,
        uint32_t *next, uint32_t *tail_next)
{
    *next = 0;
    if (chain->head)
        *tail_next = index;
    else
        chain->head = index;
    chain->tail = index;
    chain->count++;
    chain->bytes += bytes;
}

/* ── timelines ── */

/* Opens a new mark at the end of the timeline, not yet recorded, on which the chain (moved; may be
 * NULL) waits. NULL without memory; the chain is then unchanged. The caller is one of the mark's
 * users. */
struct fence_mark *fence_begin(struct fence_timeline *timeline, struct fence_chain *chain);

/* The driver has recorded a fence for this mark. */
void fence_recorded(struct fence_timeline *timeline, struct fence_mark *mark, uint64_t fence);

/* The driver failed to record: removes the mark from the timeline and returns its blocks in
 * *ret_chain (to be pushed again, or put before the open ones). The number stays used: a later mark
 * covers it. */
void fence_failed(
        struct fence_timeline *timeline, struct fence_mark *mark, struct fence_chain *ret_chain);

/* Moves a recorded mark to the end of another timeline, where this chain (moved) waits for it. */
void fence_move(struct fence_timeline *from, struct fence_mark *mark, struct fence_timeline *to,
        struct fence_chain *chain);

/* Moves a mark to the end of its timeline, which is unordered. */
void fence_turn(struct fence_timeline *timeline, struct fence_mark *mark);

/* The oldest recorded mark with at least this number, NULL if none. */
struct fence_mark *fence_at_least(const struct fence_timeline *timeline, uint64_t number);

/* A mark has passed, and so have all earlier ones. Call until it returns NULL: each call removes
 * one such mark from the timeline; the caller gets its chain and the timeline's use of it
 * (fence_drop). */
struct fence_mark *fence_pass(struct fence_timeline *timeline, uint64_t number);

/* Counts uses so that the fence is destroyed exactly once: fence_drop returns true when the last
 * use ends; the mark is then freed, and if *ret_put the caller destroys the fence in *ret_fence. */
void fence_use(struct fence_mark *mark);
bool fence_drop(struct fence_mark *mark, uint64_t *ret_fence, bool *ret_put);

/* The number that a block freed now needs. */
static inline uint64_t fence_next(const struct fence_timeline *timeline)
{
    return timeline->given + 1;
}

/* Separates frees from now on, which need a greater number, from earlier ones, which need `newest`
 * at most; without a mark. Returns a number that covers all earlier frees and no later one. */
static inline uint64_t fence_split(struct fence_timeline *timeline, uint64_t newest)
{
    if (newest > timeline->given)
        timeline->given = newest;
    return timeline->given;
}

/* A new number, covered by no earlier event or fence and by each later one. */
static inline uint64_t fence_take(struct fence_timeline *timeline)
{
    return ++timeline->given;
}

/* ── sets ── */

/* Point-wise maximum. 0, or -ENOSPC if the set is full; it is then unchanged. */
int fence_set_add(struct fence_set *set, uint32_t stream, uint64_t point);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * fence.h - freed blocks waiting until the device is done with them.
 *
 * A free may arrive anywhere: in a stream capture, in a host callback, after the driver is gone. So a free only pushes
 * here, and an allocation closes an epoch: one fence for everything freed before. Two kinds:
 *
 *     epochs (the streams are unknown: one fence for all streams of all contexts)
 *     freed ─push─► open ─close─► epoch 1 … epoch n ─passed─► clean (bestfit.h)
 *
 *     points (the stream is known: numbers on that stream's own line)
 *     freed on S ─► "needs point k of S" ─record─► fence of point k ─passed─► S has passed k
 *
 * A point is a number per stream that rises by one with each fence recorded on it: a block freed on S after point k was
 * recorded needs point k + 1, whenever that is recorded. So a record covers every block freed before it, merging two
 * sets is a maximum per stream (R70), and a block holds numbers, not fences.
 *
 * A set of points is of fixed size; a stream too many does not fit, and the block goes through an epoch instead, which
 * covers every stream.
 *
 * Does not call the driver (pool.c does, with what fence_* tells it) and does not read the clock.
 * Threads: none of it is safe alone; the caller holds the pool lock. Memory: meta.h. Rules: R1 R2 R12 R70 R71.
 */
#ifndef KEDGE_ALLOC_FENCE_H
#define KEDGE_ALLOC_FENCE_H

#include "alloc/meta.h"
#include "alloc/types.h"

#define FENCE_SET_MAX 4 /* streams in a point set */

/* One chain of blocks, by index, linked through a caller-chosen word. */
struct fence_chain {
    uint32_t head, tail;
    uint32_t count;
    uint64_t bytes;
};

/* An epoch: the fence and what waits for it. */
struct fence_epoch {
    struct fence_epoch *next;
    uint64_t number; /* 1, 2, ... in the order of closing */
    uint64_t fence;  /* of the driver; 0 while it is being recorded */
    struct fence_chain chain;
};

/* The epochs of a pool. */
struct fence_line {
    struct fence_chain open;
    struct fence_epoch *first, *last;
    uint64_t closed;        /* number of the newest epoch */
    uint32_t epochs;        /* how many wait */
    uint64_t waiting_bytes; /* in epochs, without `open` */
};

/* A recorded point of a stream. */
struct fence_point {
    struct fence_point *next;
    uint64_t number;
    uint64_t fence;
};

/* The line of one stream. */
struct fence_stream {
    uint64_t recorded; /* number of the newest recorded point */
    uint64_t passed;   /* all points up to here have passed */
    struct fence_point *first, *last;
};

/* {stream -> point}. `stream` are indices of the pool's stream table, ascending; 0 entries = clean. */
struct fence_set {
    uint32_t count;
    uint32_t stream[FENCE_SET_MAX];
    uint64_t point[FENCE_SET_MAX];
};

/* ── epochs ── */

/* Appends to a chain. `next` is the link word of block `index`, `tail_next` the one of the chain's tail (ignored if the
 * chain is empty). */
void fence_chain_push(struct fence_chain *chain, uint32_t index, uint64_t bytes,
        uint32_t *tail_next, uint32_t *next);

/* Takes all open blocks into a new epoch at the end of the line, with no fence yet; NULL if nothing is open or there is
 * no memory. */
struct fence_epoch *fence_close(struct fence_line *line);
/* The record for an epoch failed: its blocks are open again, before those freed since. `tail_next` is the link word of
 * the epoch's last block. */
void fence_reopen(struct fence_line *line, struct fence_epoch *epoch, uint32_t *tail_next);
/* Takes a passed epoch off the line (it need not be the oldest) and hands out what waited. The epoch is gone then. */
struct fence_chain fence_pop(struct fence_line *line, struct fence_epoch *epoch);

/* ── points ── */

/* The number that a block freed now on this stream needs. */
uint64_t fence_next_point(const struct fence_stream *stream);
/* A fence was recorded on the stream: the newest point is its. 0 or -ENOMEM (the caller puts the fence). */
int fence_recorded(struct fence_stream *stream, uint64_t fence);
/* The oldest recorded point that has not passed; NULL if none. */
struct fence_point *fence_oldest(const struct fence_stream *stream);
/* The oldest point has passed: returns its fence for the caller to put. */
uint64_t fence_passed(struct fence_stream *stream);

/* ── sets ── */

/* Point-wise maximum. 0, or -ENOSPC if there is no room; the set is unchanged then. */
int fence_set_add(struct fence_set *set, uint32_t stream, uint64_t point);
int fence_set_merge(struct fence_set *set, const struct fence_set *other);
/* The point that the set needs of a stream; 0 = none. */
uint64_t fence_set_point(const struct fence_set *set, uint32_t stream);

#endif

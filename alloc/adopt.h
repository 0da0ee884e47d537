/* SPDX-License-Identifier: MIT */
/*
 * adopt.h - free blocks of other streams become a stream's own, behind a wait.
 *
 * A stream that waits for a point of another one comes behind everything that was freed there before that point. So those blocks
 * can serve it as its own do. They join its own free neighbours, and storage under them can move for it (remap.h). Left in the
 * classes of their streams, neighbours that are free stay apart, and a slot that they share can move for nobody.
 *
 *     FREE on B, point p ─ A waits for B's point p ─► FREE on A, at the next point of A
 *
 * B itself gets such a block back only behind A. So it is done only where the alternative is to hold more than the budget, or
 * to wait on the host (serve.c). Where blocks that lie side by side fit, a stream that still asks for memory loses no more than these.
 * Rules: R36 R70 R72.
 */
#ifndef KEDGE_ALLOC_ADOPT_H
#define KEDGE_ALLOC_ADOPT_H

#include "alloc/records.h"

/* The stream `to` comes behind these points: what is free of their streams in the heap, up to there, becomes its own, but for streams
 * that still ask for memory (heap_class_is_idle); with `all` for these too. True: there was some. */
bool adopt_ordered(struct pool *pool, struct heap *heap, uint32_t to,
        const struct fence_set *points, bool all) POOL_LOCKED;

/* [driver] Puts the stream `to` behind the one of the others that has most free in the heap, and makes that its own. Any thread, with
 * no lock held; the caller keeps the heap busy. False: there is none, or the driver refuses the wait. */
bool adopt_most(struct pool *pool, struct heap *heap, uint32_t to);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * stream_take.h - free blocks of other streams become a stream's own, because it comes behind them.
 *
 * A stream that waits for a point of another one comes behind everything that was freed there before that point. So those blocks
 * can serve it as its own do. They join its own free neighbours, and storage under them can move for it (remap.h). Left in the
 * classes of their streams, neighbours that are free stay apart, and a slot that they share can move for nobody.
 *
 *     FREE on B, point p ─ A comes behind B's point p ─► FREE on A, at the next point of A
 *
 * B itself gets such a block back only behind A. So behind a wait of ours it is done only where the alternative is to hold more than
 * the budget, or to wait on the host (serve.c). Where blocks that lie side by side fit, a stream that still asks for memory loses no
 * more than these.
 *
 * An event of the program's costs nothing, but what B lacks then it would ask the driver for. Two streams take turns if each comes behind
 * the other before that one comes behind it again; a program whose data goes from stream to stream is of that kind. There all of B's
 * memory is handed over with the event, up to a bounded number of blocks, as if both were one stream. If B asks for memory and has not come
 * behind A by then, the next events hand nothing over: 1, 3, 7 ... 1023 of them.
 * Rules: R36 R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_TAKE_H
#define KEDGE_ALLOC_STREAM_TAKE_H

#include "alloc/heap/records.h"

/* The stream `to` comes behind these points: what is free of their streams in the heap, up to there, becomes its own, but for streams
 * that still ask for memory (heap_class_is_idle); with `all` for these too. True: there was some. */
bool stream_take_ordered(struct pool *pool, struct heap *heap, uint32_t to,
        const struct fence_set *points, bool all) POOL_LOCKED;

/* The program has put the stream `to` behind others: it gets what those hand over that it takes turns with. Lanes may
 * be open (lane.h). */
void stream_take_handed(struct pool *pool, uint32_t to) POOL_LOCKED;

/* A request of the class's stream is to be fitted: does it lack what was handed over? Then less is from here on. */
void stream_take_judge(struct pool *pool, struct heap_stream *class) POOL_LOCKED;

/* [driver] Puts the stream `to` behind the one of the others that has most free in the heap, and makes that its own. Any thread, with
 * no lock held; the caller keeps the heap busy. False: there is none, or the driver refuses the wait. */
bool stream_take_most(struct pool *pool, struct heap *heap, uint32_t to);

#endif

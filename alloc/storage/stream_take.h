/* SPDX-License-Identifier: MIT */
/*
 * stream_take.h - gives free blocks of other streams to a stream that waits for them.
 *
 * A stream that waits for a point of another one runs after everything freed there before that
 * point. So those blocks can serve it like its own. Given to it, they merge with its own free
 * neighbours, and their storage can move for it (remap.h). In the classes of their own streams,
 * free neighbours stay separate blocks, and a slot that they share cannot move for any stream.
 *
 *     FREE on B, point p ─ A waits for B's point p ─► FREE on A, at the next point of A
 *
 * B gets such a block back only after A. So for a wait of kedge this is done only where the
 * alternative is to hold more than the budget, or to wait on the host (serve.c). Where blocks that
 * lie side by side fit, a stream that still allocates loses only these.
 *
 * An event of the program is free, but B may then have to allocate new memory. Two streams take
 * turns if each waits for the other before that one waits for it again; a program whose data goes
 * from stream to stream is of that kind. There the event hands over all of B's memory, up to a
 * bounded number of blocks, as if both were one stream. If B allocates without having waited for A
 * by then, the next events hand nothing over: 1, 3, 7 ... 1023 of them.
 * Rules: R36 R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_TAKE_H
#define KEDGE_ALLOC_STREAM_TAKE_H

#include "alloc/heap/records.h"

/* The stream `to` waits for these points: gives it the free blocks of their streams in the heap, up
 * to there, except those of streams that still allocate (heap_class_is_idle); with `all` these,
 * too. True: there were some. */
bool stream_take_ordered(struct pool *pool, struct heap *heap, uint32_t to,
        const struct fence_set *points, bool all) POOL_LOCKED;

/* The program has made the stream `to` wait for others: it gets the blocks of those that it takes
 * turns with. Lanes may be open (lane.h). */
void stream_take_handed(struct pool *pool, uint32_t to) POOL_LOCKED;

/* A request of the class's stream needs a fit: does it lack the blocks that were handed over? Then
 * fewer are from here on. */
void stream_take_judge(struct pool *pool, struct heap_stream *class) POOL_LOCKED;

/* [driver] Makes the stream `to` wait for the stream with the most free bytes in the heap, and
 * gives it those, or the largest of them if there are more than such streams may take now. Any
 * thread, with no lock held; the caller keeps the heap busy. False: none, or the driver refuses the
 * wait. */
bool stream_take_most(struct pool *pool, struct heap *heap, uint32_t to);

#endif

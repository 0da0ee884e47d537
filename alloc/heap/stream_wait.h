/* SPDX-License-Identifier: MIT */
/*
 * stream_wait.h - which streams are known to come behind others, and up to which points of theirs.
 *
 * A stream that was made to wait for a point of another one comes behind it with all that it is given from then on. So whatever of the
 * other one needs that point or an earlier one may be this stream's without a wait (R72). It is made to wait by kedge, or by the program,
 * with an event:
 *
 *     stream_order_behind(B, A, 7) ─► the driver has it ─► B: {A: 7}     stream_order_behind(B, A, 5): nothing to do
 *                                                                 stream_order_behind(B, A, 8): another wait
 *     pool_events_now(A) = {A: 7} ─► event recorded on A ─► B waits for it ─► pool_events_follow(B, {A: 7}) ─► B: {A: 7}
 *                                                          C waits for an event of B ─────────────────────► C: {A: 7, B: ...}
 *
 * An event stands for a number of its stream that is taken for it (fence_split), since what is freed behind the event must need a
 * later one than what it covers. No fence is recorded for that number: a later one covers it.
 *
 * The two are told apart. A wait of kedge's was for one request, and what it has ordered was taken then (stream_take.h); the rest was left to its
 * stream. An order of the program's serves all requests that come behind it.
 * Threads: the caller holds the pool lock. Rules: R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_WAIT_H
#define KEDGE_ALLOC_STREAM_WAIT_H

#include "alloc/heap/records.h"

/* The driver has made the stream wait for this point of another one: by kedge (note), by the program (tell). Of more than FENCE_SET_MAX
 * streams whose points have not passed the one that was noted first is forgotten: it is waited for again. */
void stream_wait_note(
        struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;
void stream_wait_tell(
        struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* Does all that the stream is given from now on come behind this point of another one? */
bool stream_wait_covers(
        const struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* Up to which point a set has a stream; 0 = not at all. */
uint64_t stream_wait_upto(const struct fence_set *set, uint32_t other);

/* Up to which point of another one it does so by the program's word; 0 = by none. */
uint64_t stream_wait_told(const struct pool *pool, uint32_t stream, uint32_t other) POOL_LOCKED;

/* The record of a stream is about to become another one's. */
void stream_wait_forget(struct pool *pool, uint32_t other) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * stream_wait.h - which streams are known to wait for others, and up to which points.
 *
 * Once a stream was made to wait for a point of another one, all its later work runs after that
 * point. So blocks of the other stream that need that point or an earlier one may be given to this
 * stream without a wait (R72, order of supply). kedge inserts the wait, or the program does, with
 * an event:
 *
 *     stream_order_behind(B, A, 7) ─► the driver has it ─► B: {A: 7}
 *         stream_order_behind(B, A, 5): nothing to do; stream_order_behind(B, A, 8): another wait
 *     pool_events_now(A) = {A: 7} ─► event recorded on A ─► B waits for it
 *         ─► pool_events_follow(B, {A: 7}) ─► B: {A: 7}
 *     then C waits for an event of B ─► C: {A: 7, B: ...}
 *
 * An event takes a number of its stream (fence_split), since frees after the event must need a
 * later number than the event covers. No fence is recorded for that number: a later one covers it.
 *
 * The two kinds of wait are kept apart. A wait of kedge serves one request, and the blocks that it
 * ordered were taken then (stream_take.h); the rest stays with its stream. A wait of the program
 * serves all later requests.
 * Threads: the caller holds the pool lock. Rules: R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_WAIT_H
#define KEDGE_ALLOC_STREAM_WAIT_H

#include "alloc/heap/records.h"

/* The driver has made the stream wait for this point of another one: for kedge (note), for the
 * program (tell). Keeps FENCE_SET_MAX streams whose points have not passed, and forgets the oldest
 * beyond that: it is waited for again. */
void stream_wait_note(
        struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;
void stream_wait_tell(
        struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* True if all later work of the stream waits for this point of the other one. */
bool stream_wait_covers(
        const struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* The point up to which a set has a stream; 0 = not at all. */
uint64_t stream_wait_upto(const struct fence_set *set, uint32_t other);

/* The same by waits of the program; 0 = none. */
uint64_t stream_wait_told(const struct pool *pool, uint32_t stream, uint32_t other) POOL_LOCKED;

/* The streams that the program has made this one wait for, without those that are forgotten. */
const struct fence_set *stream_wait_set(const struct pool *pool, uint32_t stream) POOL_LOCKED;

#endif

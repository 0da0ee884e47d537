/* SPDX-License-Identifier: MIT */
/*
 * behind.h - which streams are known to come behind others, and up to which points of theirs.
 *
 * A stream that was made to wait for a point of another one comes behind it with all that it is given from then on. So whatever of the
 * other one needs that point or an earlier one may be this stream's without a second wait (R72):
 *
 *     order_behind(B, A, 7) ─► the driver has it ─► B: {A: 7}     order_behind(B, A, 5): nothing to do
 *                                                                 order_behind(B, A, 8): another wait
 *
 * Orders by way of a third stream, and those that the program makes by its own events, are not known here.
 * Threads: the caller holds the pool lock. Rules: R70 R72.
 */
#ifndef KEDGE_ALLOC_BEHIND_H
#define KEDGE_ALLOC_BEHIND_H

#include "alloc/records.h"

/* The driver has made the stream wait for this point of another one. Of more than FENCE_SET_MAX streams whose points have not passed
 * the last is not noted: it is waited for again. */
void behind_note(struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* Does all that the stream is given from now on come behind this point of another one? */
bool behind_covers(
        const struct pool *pool, uint32_t stream, uint32_t other, uint64_t point) POOL_LOCKED;

/* The record of a stream is about to become another one's. */
void behind_forget(struct pool *pool, uint32_t other) POOL_LOCKED;

#endif

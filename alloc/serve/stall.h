/* SPDX-License-Identifier: MIT */
/*
 * stall.h - streams that may wait for something that the device does not do by itself: the host,
 * another process.
 *
 *     pool_stall_begin(S) ─► pending frees get their fence ─► REAL(cuStreamWaitValue32) on S
 *         ─► pool_stall_end(S): S is stalled up to a point
 *     a request above the budget ─► stall_goes_on? ─► query the point's fence
 *         ─► not passed: no stream is made to wait
 *
 * Such a stream may wait for an action of the program that follows another stream's work. So kedge
 * makes nothing wait for it that does not wait natively (R104, no useless waits): earlier frees get
 * their fence before the call, and no wait is inserted while there is other memory, for any stream:
 * streams that wait for the stalled one, by events or by the default stream, are not identified.
 *
 * A stream is stalled until a fence that was recorded after the call has passed. The fence is
 * recorded and queried on demand.
 * Threads: any, with no lock held, unless it says locked. Rules: R71 R72 R104.
 */
#ifndef KEDGE_ALLOC_STALL_H
#define KEDGE_ALLOC_STALL_H

#include "alloc/heap/records.h"

/* True if a stream was stalled and is not known to have passed that point. One load. */
static inline bool stall_is_possible(const struct pool *pool)
{
    return atomic_load_explicit(&pool->gate.stalls, memory_order_relaxed) != 0;
}

/* [driver] May some stream be waiting for the host now? One load where none was stalled. `own`: as
 * for pool_stall_goes_on. */
bool stall_goes_on(struct pool *pool, unsigned own);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * stall.h - streams that may wait for something that the device does not do by itself: the host, another process.
 *
 *     pool_stall_begin(S) ─► what was freed gets its fence ─► REAL(cuStreamWaitValue32) on S ─► pool_stall_end(S): S is stalled up to a point
 *     a request above the budget ─► stall_goes_on? ─► the point's fence asked ─► not passed: no stream is made to wait
 *
 * What such a stream waits for may be what the program does once another stream is done. So nobody may be made to wait for it who natively
 * is not (R104): a fence of what was freed before the call is recorded before the call, and no wait is inserted as long as there is other
 * memory, whichever stream it would be for: who comes behind the stalled one, by events or by the default stream, is not looked at.
 *
 * A stream is stalled until a fence that was recorded behind the call has passed. It is recorded and asked when somebody wants to know.
 * Threads: any, with no lock held, unless it says locked. Rules: R71 R72 R104.
 */
#ifndef KEDGE_ALLOC_STALL_H
#define KEDGE_ALLOC_STALL_H

#include "alloc/heap/records.h"

/* Has one been stalled that is not known to have gone on? One load. */
static inline bool stall_is_possible(const struct pool *pool)
{
    return atomic_load_explicit(&pool->gate.stalls, memory_order_relaxed) != 0;
}

/* [driver] May some stream be waiting for the host now? One load where none has been stalled. `own`: as for
 * pool_stall_goes_on. */
bool stall_goes_on(struct pool *pool, unsigned own);

#endif

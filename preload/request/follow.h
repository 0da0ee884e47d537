/* SPDX-License-Identifier: MIT */
/*
 * follow.h - the events by which the program orders its streams, told to the pool (R72).
 *
 *     cuEventRecord(e, A)      pool_order_now(A) ─► e is not known ─► REAL ─► e: that order
 *     cuStreamWaitEvent(B, e)  e: known, turn t  ─► REAL ─► still turn t? ─► pool_order_follow(B, order)
 *     cuStreamSynchronize(A)   pool_order_now(A) ─► REAL ─► pool_order_passed(order); of an event likewise
 *
 * What the pool is told must be true whatever other threads do, for it hands out memory by it. An event is known only from the end of
 * one record to the beginning of the next, and while no two are under way at once: then the driver has no other record of it. So each
 * way to record an event is hooked. One that says less than cuEventRecord (in a capture, by a launch, of a whole context) leaves the event
 * unknown. Records that no call of this process makes, by nodes of graphs and in other processes, cannot be seen: with the first event that
 * is given to either, no event is followed any more (follow_end). A handle may come back as another event's, so a new event is unknown, and one
 * that goes is forgotten.
 *
 * Only what was recorded lately is kept: an event whose place another one has taken is unknown. While a pool serves one stream alone all
 * of this is two loads and a branch. No driver call but for the number of a stream.
 * Threads: any; one lock, for a few words. Memory: static. Rules: R37 R72.
 */
#ifndef KEDGE_PRELOAD_FOLLOW_H
#define KEDGE_PRELOAD_FOLLOW_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The pool that is told; NULL before follow_start, and after follow_end, which may come first, for good. */
extern struct pool *_Atomic follow_pool;

static inline bool follow_is_on(void)
{
    const struct pool *pool = atomic_load_explicit(&follow_pool, memory_order_acquire);

    return pool && pool_wants_orders(pool);
}

void follow_start(struct pool *pool);
void follow_end(void);

/* One call, from before the driver has it until after. */
struct follow {
    CUevent event; /* NULL: nothing is followed */
    uint64_t turn;
    struct pool_order order;
};

/* A record of an event; `covers`: on this stream, as cuEventRecord does. Else it covers less, or nobody knows what. */
void follow_record_begin(
        struct follow *follow, CUevent event, bool covers, CUstream stream, bool per_thread);
void follow_record_end(struct follow *follow, CUresult result);

void follow_wait_begin(struct follow *follow, CUevent event);
void follow_wait_end(struct follow *follow, CUresult result, CUstream stream, bool per_thread);

/*
 * The host waits for a stream, or for an event: what was freed before is over. Around the call; `follow` stays empty while nothing is
 * followed.
 */
void follow_host_begin(struct follow *follow, CUevent event, CUstream stream, bool per_thread);
void follow_host_end(const struct follow *follow, CUresult result);

/* The event is about to go, or the handle is a new one's. */
void follow_forget(CUevent event);

#endif

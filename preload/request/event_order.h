/* SPDX-License-Identifier: MIT */
/*
 * event_order.h - the events by which the program orders its streams, told to the pool (R72).
 *
 *     cuEventRecord(e, A)      pool_events_now(A) ─► e is not known ─► REAL ─► e: that order
 *     cuStreamWaitEvent(B, e)  e: known, turn t  ─► REAL ─► still turn t? ─► pool_events_follow(B, order)
 *     cuStreamSynchronize(A)   pool_events_now(A) ─► REAL ─► pool_events_passed(order); of an event likewise
 *
 * What the pool is told must be true whatever other threads do, for it hands out memory by it. An event is known only from the end of
 * one record to the beginning of the next, and while no two are under way at once: then the driver has no other record of it. So each
 * way to record an event is hooked. One that says less than cuEventRecord (in a capture, by a launch, of a whole context) leaves the event
 * unknown. Records that no call of this process makes, by nodes of graphs and in other processes, cannot be seen: with the first event that
 * is given to either, no event is followed any more (event_order_end). A handle may come back as another event's, so a new event is unknown, and one
 * that goes is forgotten.
 *
 * Only what was recorded lately is kept: an event whose place another one has taken is unknown. While a pool serves one stream alone all
 * of this is two loads and a branch. No driver call but for the number of a stream.
 * Threads: any; one lock, for a few words. Memory: static. Rules: R37 R72.
 */
#ifndef KEDGE_PRELOAD_EVENT_ORDER_H
#define KEDGE_PRELOAD_EVENT_ORDER_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The pool that is told; NULL before event_order_start, and after event_order_end, which may come first, for good. */
extern struct pool *_Atomic event_order_pool;

static inline bool event_order_is_on(void)
{
    const struct pool *pool = atomic_load_explicit(&event_order_pool, memory_order_acquire);

    return pool && pool_wants_orders(pool);
}

void event_order_start(struct pool *pool);
void event_order_end(void);

/* One call, from before the driver has it until after. */
struct event_order {
    CUevent event; /* NULL: nothing is followed */
    uint64_t turn;
    struct pool_order order;
};

/* A record of an event; `covers`: on this stream, as cuEventRecord does. Else it covers less, or nobody knows what. */
void event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread);
void event_order_record_end(struct event_order *follow, CUresult result);

void event_order_wait_begin(struct event_order *follow, CUevent event);
void event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread);

/*
 * The host waits for a stream, or for an event: what was freed before is over. Around the call; `follow` stays empty while nothing is
 * followed.
 */
void event_order_host_begin(
        struct event_order *follow, CUevent event, CUstream stream, bool per_thread);
void event_order_host_end(const struct event_order *follow, CUresult result);

/* The event is about to go, or the handle is a new one's. */
void event_order_forget(CUevent event);

#endif

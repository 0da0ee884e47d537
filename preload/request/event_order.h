/* SPDX-License-Identifier: MIT */
/*
 * event_order.h - passes the order of streams, set by the program's events, to the pool (R72, order
 * of supply).
 *
 *     cuEventRecord(e, A)      pool_events_now(A) ─► e is not known ─► REAL ─► e: that order
 *     cuStreamWaitEvent(B, e)  e: known, turn t  ─► REAL ─► still turn t?
 *                                                             └─► pool_events_follow(B, order)
 *     cuStreamSynchronize(A)   pool_events_now(A) ─► REAL ─► pool_events_passed(order)
 *                              (likewise for an event)
 *
 * The order must be true whatever other threads do, for the pool hands out memory by it. An event
 * is known only from the end of one record to the beginning of the next, and while no two records
 * are under way at once: then the driver has no other record of it. So every way to record an event
 * is hooked. A record that covers less than cuEventRecord (in a capture, by a launch, of a whole
 * context) leaves the event unknown. Records by graph nodes and by other processes cannot be seen:
 * once an event is passed to either, no event is followed any more (event_order_end). The driver
 * may reuse a handle for another event, so a new event is unknown, and a destroyed one is
 * forgotten.
 *
 * Only recent records are kept: an event whose slot another event has taken is unknown. While a
 * pool serves only one stream, the cost is two loads and a branch. The only driver call asks for
 * the number of a stream. Threads: any; one lock, for a few words. Memory: static. Rules: R37 R72.
 */
#ifndef KEDGE_PRELOAD_EVENT_ORDER_H
#define KEDGE_PRELOAD_EVENT_ORDER_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The pool that gets the order; NULL before event_order_start, and for good after event_order_end,
 * which may come first.
 */
extern struct pool *_Atomic event_order_pool;

static inline bool event_order_is_on(void)
{
    const struct pool *pool = atomic_load_explicit(&event_order_pool, memory_order_acquire);

    return pool && pool_wants_orders(pool);
}

void event_order_start(struct pool *pool);
void event_order_end(void);

/* The state of one hooked call, from before the driver gets it until after. */
struct event_order {
    CUevent event; /* NULL: nothing is followed */
    uint64_t turn;
    struct pool_order order;
};

/*
 * A record of an event. `covers`: it covers this stream, as cuEventRecord does; else it covers
 * less, or an unknown amount.
 */
void event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread);
void event_order_record_end(struct event_order *follow, CUresult result);

void event_order_wait_begin(struct event_order *follow, CUevent event);
void event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread);

/*
 * The host waits for a stream or an event: frees before it are over. Called around the wait;
 * `follow` stays empty while no event is followed.
 */
void event_order_host_begin(
        struct event_order *follow, CUevent event, CUstream stream, bool per_thread);
void event_order_host_end(const struct event_order *follow, CUresult result);

/* The event is about to be destroyed, or its handle is a new event's. */
void event_order_forget(CUevent event);

#endif

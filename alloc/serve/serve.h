/* SPDX-License-Identifier: MIT */
/*
 * serve.h - one request on its way: the ladder from a hit to the driver's refusal.
 *
 *     sync, hinted   hit ─► poll ─► above the budget: wait for the oldest epoch, hit again, trim ─► grow ─► full device
 *     stream         hit ─► points ─► join neighbours ─► in the budget: storage moves (remap.h), grow
 *                    ─► above: make the stream wait for others (stream_take.h) ─► trim other heaps ─► storage moves, grow ─► full device
 *     full device    stream: wait for others ─► the host waits for what is pending and in limbo, hit again ─► sync: a free segment that would be cut goes back, grow
 *                    ─► hit whatever is free ─► all that is free moves, grow ─► trim everything ─► grow ─► the driver's code
 *
 * A hint that cannot be placed as it asks (no VMM, no room for a handle of its own) is served as an ordinary request and
 * acts on paper only.
 * Threads: any, with no lock held. Rules: R6 R15 R31 R72 R73 R74 R82.
 */
#ifndef KEDGE_ALLOC_SERVE_H
#define KEDGE_ALLOC_SERVE_H

#include "alloc/heap/records.h"

/* The whole ladder; see pool_alloc for the results. */
int serve_request(struct pool *pool, const struct pool_request *request, struct outcome *ret);

/* The block that an ordinary sync request of `size` bytes is served from by best fit, BUSY and cut to size, for the short forms
 * (pool_quick.c), which have looked into the free cache; 0 = there is none. */
uint32_t serve_fit(struct pool *pool, struct heap *heap, uint64_t size) POOL_LOCKED;

#endif

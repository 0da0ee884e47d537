/* SPDX-License-Identifier: MIT */
/*
 * serve.h - serving one request: the ladder from a hit to the driver's refusal.
 *
 *     sync, hinted   hit, or on mapped memory first wait for a better place (hit_in_places) ─► poll
 *                    ─► above the budget: wait for most epochs, hit again, trim
 *                    ─► grow ─► full device
 *     stream         hit ─► points ─► merge neighbours
 *                    ─► within the budget: storage moves (remap.h), grow
 *                    ─► above: make the stream wait for others (stream_take.h) ─► trim other heaps
 *                    ─► storage moves, grow ─► full device
 *     full device    stream: wait for others ─► the host waits for pending frees and limbo, hit
 *                    again ─► sync: return a free segment that would be cut, grow
 *                    ─► hit any free block ─► all free storage moves, grow
 *                    ─► trim everything ─► grow ─► the driver's code
 *
 * A hint that cannot be placed as it asks (no VMM, no space for a handle of its own) is served as
 * an ordinary request and only recorded, as in shadow.
 * Threads: any, with no lock held. Rules: R6 R15 R31 R72 R73 R74 R82.
 */
#ifndef KEDGE_ALLOC_SERVE_H
#define KEDGE_ALLOC_SERVE_H

#include "alloc/heap/records.h"

/* Runs the whole ladder; see pool_alloc for the results. */
int serve_request(struct pool *pool, const struct pool_request *request, struct outcome *ret);

/* Takes the best-fit block for an ordinary sync request of `size` bytes, BUSY and cut to size, for
 * the short forms (pool_quick.c), which have searched the free cache; 0 = none. */
uint32_t serve_fit(struct pool *pool, struct heap *heap, uint64_t size) POOL_LOCKED;

#endif

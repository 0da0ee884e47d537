/* SPDX-License-Identifier: MIT */
/*
 * serve.h - one request on its way: the ladder from a hit to the driver's refusal.
 *
 *     sync, hinted   hit ─► poll ─► above the budget: wait for the oldest epoch, hit again, trim ─► grow ─► full device
 *     stream         hit ─► points ─► join neighbours ─► eager: storage moves (remap.h) ─► in the budget: grow
 *                    ─► above: make the stream wait for another ─► storage moves ─► trim others ─► grow ─► full device
 *     full device    wait for what is pending and in limbo, hit again ─► all that is free moves, grow
 *                    ─► trim everything ─► grow ─► the driver's code
 *
 * The step that served a request is counted (enum pool_step): a miss is one of them, and never a hit as well.
 *
 * A hint that cannot be placed as it asks (no VMM, no room for a handle of its own) is served as an ordinary request and
 * acts on paper only.
 * Threads: any, with no lock held. Rules: R6 R15 R31 R72 R73 R74 R82.
 */
#ifndef KEDGE_ALLOC_SERVE_H
#define KEDGE_ALLOC_SERVE_H

#include "alloc/heap.h"

struct serve {
    const struct pool_request *request;
    struct heap *heap;
    struct heap_want want;
    uint32_t stream; /* index of the request's stream */
    bool hinted;     /* a handle of its own */
    bool full;       /* the device is: all that is free moves before more is asked for */
    bool last;       /* the last attempt: the reserve is not spared any more, any block is cut */
    uint32_t how;    /* enum outcome_how */
    enum pool_step step; /* what has served it, if it is served now */
    uint64_t reserved_before;
    uint64_t released_before; /* counters.released_count as the request began */
    uint32_t contexts_gone;   /* as the request began */
    struct outcome *ret;
};

/* The whole ladder; see pool_alloc for the results. */
int serve_request(struct pool *pool, const struct pool_request *request, struct outcome *ret);

/* Bytes that the device's heaps may hold before growth looks for other ways (pool_opts.budget). */
uint64_t serve_budget(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* A BUSY block of the wanted size becomes the program's, and *serve->ret is filled. */
void serve_hand_out(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED;

/* A hit by best fit, for the short forms (pool_quick.c); ptr 0 = there is none. `stream` as in the table. */
struct pool_given serve_fit(
        struct pool *pool, struct heap *heap, uint32_t stream, uint64_t size) POOL_LOCKED;

#endif

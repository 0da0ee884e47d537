/* SPDX-License-Identifier: MIT */
/*
 * commit.h - a request on its way, and its end: a block becomes the program's.
 *
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_COMMIT_H
#define KEDGE_ALLOC_COMMIT_H

#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"
#include "alloc/storage/reclaim.h"

struct serve {
    const struct pool_request *request;
    struct heap *heap;
    struct want want;
    uint32_t stream;      /* index of the request's stream */
    bool hinted;          /* a mapping of its own, */
    bool shares;          /* of a handle that others have, too */
    bool full;            /* the device is: all that is free moves before more is asked for */
    struct swap_set *set; /* where such a block is, */
    uint32_t swap; /* the record of a block that is made without storage (swapset.h), 0 = none */
    bool last;     /* the last attempt: the reserve is not spared any more, any block is cut */
    uint32_t how;  /* enum outcome_how */
    struct reclaim_patience patience; /* for all that it waits for (R73) */
    /* the device will not have so much, whatever passes (R104), or there is the reserve still (R73) */
    bool no_waits;
    uint64_t reserved_before;
    uint32_t contexts_gone; /* as the request began */
    struct outcome *ret;
};

/* Bytes that the device's heaps may hold before growth looks for other ways (pool_opts.budget), no more than the cap. */
uint64_t commit_budget(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* The same for storage that can move, which costs driver calls and neither a wait nor what another heap has: so it is less. */
uint64_t commit_move_budget(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* A BUSY block of the wanted size becomes the program's, and *serve->ret is filled. */
void commit_block(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED;

/* The same for a BUSY block that the request fits in: its piece is cut out, where fit.h says. Needs two records. */
void commit_piece(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED;

#endif

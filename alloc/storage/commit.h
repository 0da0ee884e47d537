/* SPDX-License-Identifier: MIT */
/*
 * commit.h - a request in progress, and its end: handing a block to the program.
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
    uint32_t stream; /* index of the request's stream */
    bool hinted;     /* the block gets a mapping of its own, */
    bool shares;     /* of a handle that is shared with other blocks */
    bool full; /* the device is full: all free storage moves before the driver is asked for more */
    struct swap_set *set; /* the set of an evictable block, */
    uint32_t swap;        /* record of a block made without storage (swapset.h), 0 = none */
    bool last;            /* the last attempt: the reserve may be used, and any block may be cut */
    uint32_t how;         /* enum outcome_how */
    struct reclaim_patience patience; /* for all waits of the request (R73, host waits) */
    /* no wait helps: the device will not have enough memory (R104, no useless waits), or the
     * reserve is still there (R73) */
    bool no_waits;
    uint64_t reserved_before;
    uint32_t contexts_gone; /* at the beginning of the request */
    struct outcome *ret;
};

/* Bytes that the device's heaps may hold before growth tries other ways (pool_opts.budget), at most
 * the cap. */
uint64_t commit_budget(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* The same for movable storage. It is less: a move costs driver calls, but no wait and no memory of
 * another heap. */
uint64_t commit_move_budget(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* Hands a BUSY block of the wanted size to the program, and fills *serve->ret. */
void commit_block(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED;

/* The same for a larger BUSY block: cuts out the request's piece where fit.h says. Needs two
 * records. */
void commit_piece(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED;

#endif

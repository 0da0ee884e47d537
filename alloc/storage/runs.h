/* SPDX-License-Identifier: MIT */
/*
 * runs.h - free neighbours of different classes, hence separate blocks, that together fit a
 * request.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_RUNS_H
#define KEDGE_ALLOC_RUNS_H

#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

/* Blocks that one search examines; the shortest run among them wins. A search goes from the free
 * blocks of streams to their neighbours, so live blocks cost nothing. */
#define RUNS_LOOKS 1024

/* Blocks that a run may contain: idle ones, and ... */
enum runs_whose {
    RUNS_OWN, /* those of the request's stream */
    /* and those of streams that it waits for by an event of the program, up to that point
     * (stream_wait.h) */
    RUNS_TOLD,
    RUNS_ANY, /* those of all streams */
};

/* Finds the shortest run of free neighbours that together fit, and returns its first and last
 * block. 0, or -ENOENT. */
int runs_find(struct pool *pool, struct heap *heap, const struct want *want, enum runs_whose whose,
        uint32_t *ret_first, uint32_t *ret_last) POOL_LOCKED;

/* Merges a run into one BUSY block. */
uint32_t runs_join(struct pool *pool, uint32_t first, uint32_t last) POOL_LOCKED;

#endif

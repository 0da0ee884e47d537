/* SPDX-License-Identifier: MIT */
/*
 * runs.h - free neighbours that fit together although they are of different classes, and so are not one block.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_RUNS_H
#define KEDGE_ALLOC_RUNS_H

#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

/* Blocks that one search looks at; the shortest run among them counts. A search goes from the free blocks of streams to their
 * neighbours, so live blocks cost nothing. */
#define RUNS_LOOKS 1024

/* Whose blocks a run may have: clean ones, and ... */
enum runs_whose {
    RUNS_OWN, /* of the request's stream */
    RUNS_TOLD, /* and of those that it comes behind by the program's word, up to there (stream_wait.h) */
    RUNS_ANY, /* of all */
};

/* A run of free neighbours that together fit. Writes the first and the last block of the shortest such run. 0, or -ENOENT. */
int runs_find(struct pool *pool, struct heap *heap, const struct want *want, enum runs_whose whose,
        uint32_t *ret_first, uint32_t *ret_last) POOL_LOCKED;

/* Makes one BUSY block of a run. */
uint32_t runs_join(struct pool *pool, uint32_t first, uint32_t last) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_pool_parts.h - what a memory pool is made of, for the files that take it apart.
 *
 * sim_pool.c carves pieces out of chunks, sim_poolset.c makes and asks pools, sim_graphmem.c has
 * the pieces that belong to no pool. The picture is in sim_pool.h.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_POOL_PARTS_H
#define KEDGE_TESTS_SIM_SIM_POOL_PARTS_H

#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/memory/sim_va.h"

/* One free on a stream; shared by the pieces that the freed one was cut into. */
struct sim_token {
    unsigned references;
    bool done;
    struct sim_queue *queue;
    uint64_t number;
    struct sim_clock known;
};

struct sim_chunk {
    uint64_t addr, size;
    struct sim_file file;     /* of a pool that may be exported, else none */
    struct sim_piece *pieces; /* by address */
    struct sim_chunk *next;
};

struct sim_piece {
    struct CUmemPoolHandle_st *pool; /* NULL: a graph's */
    struct sim_chunk *chunk;
    uint64_t addr, size;
    bool used;
    struct sim_token *token; /* of the free; NULL: free since the chunk was made */
    int device;
    bool orphan; /* a graph's whose graph is gone: closed by the free */
    bool backed; /* a graph's: it has bytes */
    struct sim_block *block;
    struct sim_piece *prev, *next;
};

struct CUmemPoolHandle_st {
    CUmemPoolProps props;
    int device; /* the host's pools count with device 0 and take nothing from it */
    bool host;
    bool imported; /* another process's: nothing is allocated from it */
    int owner_pid; /* whose it is, and its number there */
    uint64_t number;
    bool destroyed;
    bool reuse[4]; /* by attribute, 1 to 3 */
    uint64_t threshold;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    uint16_t readable, writable; /* one bit per device */
    struct sim_chunk *chunks;
    struct CUmemPoolHandle_st *next;
};

/* In the list of pools from now on, until it is destroyed and empty. */
void sim_pool_link(struct CUmemPoolHandle_st *pool);

/* Gives free chunks back until no more than `keep` bytes are reserved. */
void sim_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);

/* A destroyed pool that has nothing any more is freed. */
void sim_pool_put(struct CUmemPoolHandle_st *pool);

/* The piece gets its block in the ledger. */
void sim_pool_register(struct sim_piece *piece);

/* Free, and the free has run. */
bool sim_pool_is_freed(const struct sim_piece *piece);

void sim_pool_token_put(struct sim_token *token);

#endif

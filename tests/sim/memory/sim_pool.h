/* SPDX-License-Identifier: MIT */
/*
 * sim_pool.h - memory pools: allocations and frees in the order of streams.
 *
 *     chunk (multiple of 2 MiB, held on the device)
 *     ┌───────────┬────────┬──────────────────────────────┐
 *     │ used      │ free   │ used ...                     │   pieces, together the whole chunk
 *     └───────────┴────────┴──────────────────────────────┘
 *
 * A free is an operation on a stream. Until it has run, the piece counts as freed for its pool and
 * as alive for the device. It is given out again on the same stream at once, on a stream that is
 * ordered behind the free (REUSE_FOLLOW_EVENT_DEPENDENCIES), once the free has run
 * (REUSE_ALLOW_OPPORTUNISTIC), and before the device is out of memory on any stream with a wait
 * put in (REUSE_ALLOW_INTERNAL_DEPENDENCIES). Free chunks above the release threshold go back to
 * the device when the program synchronises.
 *
 * A piece without a pool is a graph's memory node (sim_graphmem.h).
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_POOL_H
#define KEDGE_TESTS_SIM_SIM_POOL_H

#include "tests/sim/stream/sim_stream.h"

struct sim_piece;

bool sim_pool_piece_is_live(const struct sim_piece *piece);
bool sim_pool_piece_may_touch(const struct sim_piece *piece, int device, bool write);
unsigned sim_pool_handle_types(const struct sim_piece *piece);
bool sim_pool_is_hosts(const struct sim_piece *piece); /* memory of the host, not of a device */
CUmemoryPool sim_pool_of(const struct sim_piece *piece);

/* cuMemFree of such a piece: the caller says that nobody uses it any more. */
int sim_pool_free_now(struct sim_piece *piece);

/* The program waited for the device: chunks above the release threshold are given back. */
void sim_pool_synchronized(void);

/* Frees in the order of the stream; of pools and of graphs. */
int sim_pool_free_ordered(struct sim_piece *piece, struct CUstream_st *stream);

/* The same on a queue of a graph launch. */
void sim_pool_free_on(struct sim_piece *piece, struct sim_queue *queue,
        const struct sim_clock *after, const struct sim_clock *known);

#endif

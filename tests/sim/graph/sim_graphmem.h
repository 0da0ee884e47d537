/* SPDX-License-Identifier: MIT */
/*
 * sim_graphmem.h - memory of graphs: what a memory node allocates, and the figures of it.
 *
 * Addresses are fixed when the node is made. The bytes are the device's from the first launch or upload
 * of an instance on (CUDA driver API, cuGraphUpload), until the graph and its instances are gone or
 * cuDeviceGraphMemTrim finds them idle. The memory is used from a launch of the node until a free, in the
 * graph or outside of it.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GRAPHMEM_H
#define KEDGE_TESTS_SIM_SIM_GRAPHMEM_H

#include "tests/sim/memory/sim_pool.h"

int sim_graphmem_open(int device, uint64_t size, struct sim_piece **ret_piece, uint64_t *ret_addr);

/* Before a launch, and at an upload: 0, or CUDA_ERROR_OUT_OF_MEMORY. */
int sim_graphmem_back(struct sim_piece *piece);

/* A launch allocates it; a free, whoever makes it, ends that. */
void sim_graphmem_use(struct sim_piece *piece);
void sim_graphmem_unuse(const struct sim_piece *piece);

/* Whether the piece is a graph's and not a pool's. */
bool sim_graphmem_has(const struct sim_piece *piece);

/* Its graph and all instances are gone: closes it now, or when the program frees it. */
void sim_graphmem_orphan(struct sim_piece *piece);
void sim_graphmem_close(struct sim_piece *piece);

#endif

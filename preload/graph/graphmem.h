/* SPDX-License-Identifier: MIT */
/*
 * graphmem.h - memory of graphs: nodes that allocate or free, and what each launch allocates.
 *
 * A node that allocates gives its address when it is added, long before a launch backs it; it is recorded there, and ends with
 * the node that frees it, or with the program's free. What the driver holds for graphs is another figure: its pool keeps memory
 * between launches. That one is asked for when a device is looked at (device_stats_look).
 *
 *     node added ─► record ──► first launch ─► freed by the program ─► launch: a record anew
 *                                     └──────► launched again (an instance that frees at launch): an end, and a record anew
 *
 * What a node of the same graph frees begins and ends with each launch, and is recorded once, when the nodes are added. Threads:
 * any, inside life_enter but for graphmem_launched. A lock inside, none across other calls. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_GRAPHMEM_H
#define KEDGE_PRELOAD_GRAPHMEM_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"
#include "preload/base/gate.h"

#include <stdbool.h>

/* A node of a graph, or a captured call, allocates this at each launch, or frees it. Graph 0: not known. */
void graphmem_allocates(uint64_t graph, devptr_t ptr, uint64_t size, int device);
void graphmem_frees(uint64_t graph, devptr_t ptr);

/* An instance of a graph was made; a graph or an instance is gone. */
void graphmem_instantiated(uint64_t graph, uint64_t exec);
void graphmem_gone(uint64_t owner);

/* A capture has ended (pins_capture_ended); with what the graph allocates that is no more. */
void graphmem_capture_ended(const struct gate_capture *capture, uint64_t graph);

/* What is known of an owner is another's from now on: it is set aside under a name that no owner has, and put back. */
void graphmem_move(uint64_t from, uint64_t to);

/* The program freed an address that the driver served, outside of graphs. */
void graphmem_freed(devptr_t ptr);

/* An instance was launched: writes down what that allocated. */
void graphmem_launched(uint64_t exec);

/* Where a node allocates: a device, or -1 for the host. */
int graphmem_device(const CUDA_MEM_ALLOC_NODE_PARAMS *params);

/* A node was added: records what it allocates or frees, if it is about memory. */
void graphmem_alloc_added(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params);
void graphmem_free_added(CUgraph graph, CUdeviceptr ptr);
void graphmem_added(CUgraph graph, const CUgraphNodeParams *params);

/* It was refused for lack of memory, and there is room now: once more. */
bool graphmem_wants_room(
        const CUgraphNodeParams *params, CUresult result, struct pool_ladder *ladder);

/* What it came to in the end. */
void graphmem_refused(
        const CUgraphNodeParams *params, CUresult result, const struct pool_ladder *ladder);

#endif

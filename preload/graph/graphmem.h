/* SPDX-License-Identifier: MIT */
/*
 * graphmem.h - memory of graphs: nodes that allocate or free, and the allocations of each launch.
 *
 * A node that allocates returns its address when it is added, long before a launch backs it. It is
 * recorded then, and ends with the node that frees it, or with the program's free. The memory that
 * the driver holds for graphs is another figure, since its pool keeps memory between launches;
 * device_stats_look asks for that one.
 *
 *     node added ─► record ──► first launch ─► freed by the program ─► launch: a new record
 *                                     └──────► launched again (an instance that frees at launch):
 *                                               an end, and a new record
 *
 * Memory that a node of the same graph frees begins and ends with each launch, and is recorded
 * once, when the nodes are added. Threads: any, inside life_enter but for graphmem_launched. A lock
 * inside, none across other calls. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_GRAPHMEM_H
#define KEDGE_PRELOAD_GRAPHMEM_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"
#include "preload/base/gate.h"

#include <stdbool.h>

/*
 * A node of a graph, or a captured call, allocates this at each launch, or (below) frees it. Graph
 * 0: unknown.
 */
void graphmem_allocates(uint64_t graph, devptr_t ptr, uint64_t size, int device);
void graphmem_frees(uint64_t graph, devptr_t ptr);

/* An instance of a graph was made. Below: a graph or an instance has ended. */
void graphmem_instantiated(uint64_t graph, uint64_t exec);
void graphmem_gone(uint64_t owner);

/*
 * A capture has ended (pins_capture_ended). Below: with the allocations of a graph that does not
 * exist any more.
 */
void graphmem_capture_ended(const struct gate_capture *capture, uint64_t graph);

/*
 * Moves the nodes of an owner to another id: set aside under an id that no owner has, and later put
 * back.
 */
void graphmem_move(uint64_t from, uint64_t to);

/* The program freed an address that the driver served, outside of graphs. */
void graphmem_freed(devptr_t ptr);

/* An instance was launched: records its allocations. */
void graphmem_launched(uint64_t exec);

/* The device that a node allocates on, -1 for the host. */
int graphmem_device(const CUDA_MEM_ALLOC_NODE_PARAMS *params);

/* A node was added: records its allocation or its free. Below: a node of any kind. */
void graphmem_alloc_added(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params);
void graphmem_free_added(CUgraph graph, CUdeviceptr ptr);
void graphmem_added(CUgraph graph, const CUgraphNodeParams *params);

/* The call was refused for lack of memory, and kedge has freed some: true = make it once more. */
bool graphmem_wants_room(
        const CUgraphNodeParams *params, CUresult result, struct pool_ladder *ladder);

/* Records the final refusal of the call. */
void graphmem_refused(
        const CUgraphNodeParams *params, CUresult result, const struct pool_ladder *ladder);

#endif

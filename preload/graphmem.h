/* SPDX-License-Identifier: MIT */
/* graphmem.h - memory nodes in the generic form of a node (hooks_graphmem.c), for the hooks of that form (hooks_graph.c). */
#ifndef KEDGE_PRELOAD_GRAPHMEM_H
#define KEDGE_PRELOAD_GRAPHMEM_H

#include "alloc/pool.h"
#include "preload/cuda_abi.h"

#include <stdbool.h>

/* A node was added: records what it allocates or frees, if it is about memory. */
void graphmem_added(const CUgraphNodeParams *params);

/* It was refused for lack of memory, and there is room now: once more. */
bool graphmem_wants_room(
        const CUgraphNodeParams *params, CUresult result, struct pool_ladder *ladder);

/* What it came to in the end. */
void graphmem_refused(
        const CUgraphNodeParams *params, CUresult result, const struct pool_ladder *ladder);

#endif

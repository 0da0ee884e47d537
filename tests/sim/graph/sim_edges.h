/* SPDX-License-Identifier: MIT */
/*
 * sim_edges.h - what an edge of a graph says beside its two nodes: at which port of a kernel it begins, and its type.
 *
 * An edge whose data are all zero is plain. Others begin at a port of a kernel: when its blocks have started
 * (LAUNCH_ORDER), or when they let the next kernel begin (PROGRAMMATIC). Here every edge holds its second node until
 * the first one is done, which any of them allows.
 *
 * A question that has no room for these data is refused with CUDA_ERROR_LOSSY_QUERY where an edge has some (CUDA driver
 * API: cuStreamGetCaptureInfo, cuGraphGetEdges, cuGraphNodeGetDependencies, cuGraphNodeGetDependentNodes).
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_EDGES_H
#define KEDGE_TESTS_SIM_SIM_EDGES_H

#include "tests/sim/base/sim_abi.h"

#include <stdbool.h>

#define SIM_EDGE_PORT_PROGRAMMATIC 1
#define SIM_EDGE_PORT_LAUNCH_ORDER 2
#define SIM_EDGE_TYPE_PROGRAMMATIC 1

/* Of no data at all, too. */
bool sim_edges_are_plain(const CUgraphEdgeData *edges, size_t count);

/*
 * 0, or CUDA_ERROR_INVALID_VALUE for data that no edge from `from` has to a node of type `to` (NULL: which type it will
 * be is not known yet). `from` is a node; NULL data are plain.
 */
int sim_edges_check(CUgraphNode from, const CUgraphNodeType *to, const CUgraphEdgeData *edge);

/* The data that an edge to a node of type `to` gets: no programmatic one leads to anything but a kernel. */
CUgraphEdgeData sim_edges_towards(CUgraphNodeType to, CUgraphEdgeData edge);

#endif

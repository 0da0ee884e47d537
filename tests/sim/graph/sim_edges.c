/* SPDX-License-Identifier: MIT */
#include "tests/sim/graph/sim_edges.h"

#include "tests/sim/graph/sim_graph_parts.h"

#include <string.h>

static const CUgraphEdgeData plain;

bool sim_edges_are_plain(const CUgraphEdgeData *edges, size_t count)
{
    for (size_t i = 0; edges && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
            return false;
    return true;
}

static bool is_kernel(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_KERNEL;
}

int sim_edges_check(CUgraphNode from, const CUgraphNodeType *to, const CUgraphEdgeData *edge)
{
    static const unsigned char zeros[sizeof(edge->reserved)];

    if (sim_edges_are_plain(edge, 1))
        return 0;
    if (edge->to_port || memcmp(edge->reserved, zeros, sizeof(zeros)) != 0
            || edge->from_port > SIM_EDGE_PORT_LAUNCH_ORDER
            || edge->type > SIM_EDGE_TYPE_PROGRAMMATIC || !is_kernel(from->type))
        return CUDA_ERROR_INVALID_VALUE;
    if (edge->type != SIM_EDGE_TYPE_PROGRAMMATIC)
        return edge->from_port == SIM_EDGE_PORT_PROGRAMMATIC ? CUDA_ERROR_INVALID_VALUE : 0;
    return edge->from_port == 0 || (to && !is_kernel(*to)) ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUgraphEdgeData sim_edges_towards(CUgraphNodeType to, CUgraphEdgeData edge)
{
    return edge.type == SIM_EDGE_TYPE_PROGRAMMATIC && !is_kernel(to) ? plain : edge;
}

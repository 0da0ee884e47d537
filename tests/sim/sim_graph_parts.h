/* SPDX-License-Identifier: MIT */
/*
 * sim_graph_parts.h - what a graph is made of, for sim_graph.c (nodes) and sim_exec.c (instances).
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GRAPH_PARTS_H
#define KEDGE_TESTS_SIM_SIM_GRAPH_PARTS_H

#include "tests/sim/sim_graph.h"

/* Shared by the node that made it and all instances. */
struct sim_node_memory {
    unsigned references;
    struct sim_piece *piece;
    uint64_t addr, size;
};

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeType type;
    struct sim_op *op;              /* NULL: empty and memory nodes */
    struct sim_node_memory *memory; /* MEM_ALLOC */
    uint64_t addr;                  /* MEM_FREE */
    CUgraphNode *deps;
    size_t deps_count;
    unsigned position; /* in the graph: made later, stands later */
};

struct CUgraph_st {
    CUgraphNode *nodes;
    unsigned count;
};

/* One reference less; the last one closes the memory, or leaves it to the program's free. */
void sim_graph_memory_put(struct sim_node_memory *memory);

/* The first form of a kernel node has no kernel handle and no context. */
CUDA_KERNEL_NODE_PARAMS sim_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params);

#endif

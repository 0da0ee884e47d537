/* SPDX-License-Identifier: MIT */
/*
 * sim_graph_parts.h - what a graph is made of, for the files that take it apart.
 *
 *     sim_graph.c   graphs, edges, clones, and what is asked about them
 *     sim_nodes.c   nodes: made of parameters, given new ones, asked for them
 *     sim_exec.c    instances: made, changed, updated
 *     sim_dag.c     launches: the nodes of an instance on queues
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GRAPH_PARTS_H
#define KEDGE_TESTS_SIM_SIM_GRAPH_PARTS_H

#include "tests/sim/graph/sim_graph.h"
#include "tests/sim/graph/sim_userobject.h"

/* Shared by the node that made it and all instances. */
struct sim_node_memory {
    unsigned references;
    struct sim_piece *piece;
    uint64_t addr, size;
};

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeType type;
    struct sim_op *op;              /* KERNEL, MEMCPY, MEMSET, HOST */
    struct sim_node_memory *memory; /* MEM_ALLOC */
    uint64_t addr;                  /* MEM_FREE */
    CUevent event;                  /* EVENT_RECORD, WAIT_EVENT */
    CUgraph child;                  /* GRAPH: the node's own copy */
    CUgraphNode *deps;
    CUgraphEdgeData *edges; /* of deps */
    size_t deps_count;
    uint64_t original; /* id of the node of which this is a clone */
    uint64_t id;       /* of all nodes that ever were */
    void *shown;       /* pointers to parameters that a question gave out */
    /* of a walk through the graph */
    unsigned index;
    uint64_t visit;
};

struct CUgraph_st {
    CUgraphNode *nodes; /* in the order in which they were made */
    unsigned count;
    bool embedded;     /* a child graph's: belongs to its node */
    bool moved;        /* it was a graph of its own before */
    uint64_t original; /* id of the graph of which this is a clone */
    uint64_t id;
    struct sim_holdings holdings; /* user objects */
};

/* One node of an instance. Child graphs are laid out flat, between an entry and an exit. */
struct sim_item {
    CUgraphNode node; /* of the graph; may be gone, compared only. NULL: the exit of a child */
    CUgraphNodeType type;
    struct sim_op *op;
    struct sim_node_memory *memory;
    uint64_t addr;
    CUevent event;
    unsigned *deps; /* earlier items */
    unsigned deps_count;
    /* entry of a child graph: so many items follow that are its own, with the exit */
    unsigned inside;
    bool disabled;
};

struct CUgraphExec_st {
    struct sim_item *items; /* in an order in which they may run */
    unsigned count;
    unsigned long long flags;
    bool is_chain;         /* every item comes right behind the one before it */
    struct sim_clock last; /* launches of one instance run one after the other */
    struct sim_holdings holdings;
};

/* One reference less; the last one closes the memory, or leaves it to the program's free. */
void sim_graph_memory_put(struct sim_node_memory *memory);

/* The first form of a kernel node has no kernel handle and no context. */
CUDA_KERNEL_NODE_PARAMS sim_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params);

/* 0, or the code for dependencies that are none: not of this graph, or named twice. */
int sim_graph_check_deps(CUgraph graph, const CUgraphNode *deps, size_t count);
CUgraphNode sim_graph_node_add(
        CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps, size_t count);

/* The data of the edges to the node, one for each of its dependencies; NULL: they are plain. */
void sim_graph_node_edges(CUgraphNode node, const CUgraphEdgeData *edges);

/* A copy of graph and nodes; NULL if there is something in it that cannot be copied. */
CUgraph sim_graph_copy(CUgraph graph);

/* Puts the graph's nodes into *ret_nodes, each behind what it depends on; false if they go round. */
bool sim_graph_sort(CUgraph graph, CUgraphNode **ret_nodes);

/* The operation that a node of that type runs, from the form of parameters that all types share. */
int sim_nodes_make(const CUgraphNodeParams *params, struct sim_op **ret_op);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_graph.h - graphs: nodes that hold operations, instances of them, launches.
 *
 * A node keeps the operation as it was submitted; an instance keeps copies. A launch lays the DAG
 * out on queues: what comes behind one another goes on one queue, branches get queues of their own,
 * and a last operation on the stream comes behind all of them. So branches run in any order that
 * the edges allow, mixed with all other work, and nothing counts as ordered that has no edge.
 *
 *     stream   ──begin──┬── a ── b ──────────┬──end──   what follows on the stream
 *     queue             └────── c ── d ──────┘
 *
 * Addresses of memory nodes are fixed when the node is made and stay the graph's until the last
 * instance and the graph are gone.
 *
 * Nodes: kernels, copies, sets, host functions, empty, memory alloc and free, child graphs, event
 * record and wait. Conditional, semaphore and batch nodes are refused with
 * CUDA_ERROR_NOT_SUPPORTED, and so are copies of graphs with memory nodes, as CUDA has it.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GRAPH_H
#define KEDGE_TESTS_SIM_SIM_GRAPH_H

#include "tests/sim/stream/sim_stream.h"

struct sim_piece;
struct CUevent_st;

CUgraph sim_graph_new(void);
void sim_graph_free(CUgraph graph);

/* The operation is the node's from now on; NULL makes an empty node. */
CUgraphNode sim_graph_add_operation(
        CUgraph graph, struct sim_op *op, const CUgraphNode *deps, size_t count);

/* EVENT_RECORD or WAIT_EVENT. */
CUgraphNode sim_graph_add_event(CUgraph graph, CUgraphNodeType type, struct CUevent_st *event,
        const CUgraphNode *deps, size_t count);

/* A node that stands for `child`, which is the node's from now on. */
CUgraphNode sim_graph_add_child(
        CUgraph graph, CUgraph child, const CUgraphNode *deps, size_t count);

/* Whether the node is one of `after` or comes before one of them. */
bool sim_graph_comes_before(CUgraphNode node, const CUgraphNode *after, size_t count);

/* cuMemAllocAsync and cuMemFreeAsync on a capturing stream. */
int sim_graph_capture_alloc(
        struct CUstream_st *stream, int device, uint64_t size, CUdeviceptr *ret_ptr);
int sim_graph_capture_free(struct CUstream_st *stream, uint64_t addr);

#endif

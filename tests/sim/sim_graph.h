/* SPDX-License-Identifier: MIT */
/*
 * sim_graph.h - graphs: nodes that hold operations, instances of them, launches.
 *
 * A node keeps the operation as it was submitted; an instance keeps copies in an order in which
 * they may run; a launch puts copies of these on the stream one behind the other. Addresses of
 * memory nodes are fixed when the node is made and stay the graph's until the last instance and
 * the graph are gone.
 *
 * Nodes: kernels, copies, sets, host functions, empty, memory alloc and free. Child graphs, event
 * and conditional nodes are refused with CUDA_ERROR_NOT_SUPPORTED.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_GRAPH_H
#define KEDGE_TESTS_SIM_SIM_GRAPH_H

#include "tests/sim/sim_stream.h"

struct sim_piece;

CUgraph sim_graph_new(void);
void sim_graph_free(CUgraph graph);

/* The operation is the node's from now on; NULL makes an empty node. */
CUgraphNode sim_graph_add_operation(
        CUgraph graph, struct sim_op *op, const CUgraphNode *deps, size_t count);

/* Whether the node is one of `after` or comes before one of them. */
bool sim_graph_comes_before(CUgraphNode node, const CUgraphNode *after, size_t count);

/* cuMemAllocAsync and cuMemFreeAsync on a capturing stream. */
int sim_graph_capture_alloc(
        struct CUstream_st *stream, int device, uint64_t size, CUdeviceptr *ret_ptr);
int sim_graph_capture_free(struct CUstream_st *stream, uint64_t addr);

#endif

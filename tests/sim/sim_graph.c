/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_capture.h"
#include "tests/sim/sim_context.h"
#include "tests/sim/sim_copy.h"
#include "tests/sim/sim_graph_parts.h"
#include "tests/sim/sim_graphmem.h"
#include "tests/sim/sim_launch.h"
#include "tests/sim/sim_oracle.h"
#include "tests/sim/sim_pool.h"

#include <stdlib.h>
#include <string.h>

void sim_graph_memory_put(struct sim_node_memory *memory)
{
    if (!memory || --memory->references)
        return;
    sim_graphmem_orphan(memory->piece);
    free(memory);
}

CUDA_KERNEL_NODE_PARAMS sim_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS wide = {0};

    if (params)
        memcpy(&wide, params, sizeof(*params));
    return wide;
}

/* ---- graphs and nodes ---- */

CUgraph sim_graph_new(void)
{
    CUgraph graph = sim_new(sizeof(*graph));

    sim_handle_add(graph, SIM_KIND_GRAPH);
    return graph;
}

static void node_free(CUgraphNode node)
{
    if (node->op)
        sim_op_free(node->op);
    sim_graph_memory_put(node->memory);
    sim_handle_remove(node);
    free(node->deps);
    free(node);
}

void sim_graph_free(CUgraph graph)
{
    for (unsigned i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    sim_handle_remove(graph);
    free(graph->nodes);
    free(graph);
}

static CUgraphNode node_add(
        CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = sim_new(sizeof(*node));

    node->graph = graph;
    node->type = type;
    node->position = graph->count;
    if (count) {
        node->deps = sim_new(count * sizeof(CUgraphNode));
        memcpy(node->deps, deps, count * sizeof(CUgraphNode));
        node->deps_count = count;
    }
    graph->nodes = sim_grow(graph->nodes, (graph->count + 1) * sizeof(CUgraphNode));
    graph->nodes[graph->count++] = node;
    sim_handle_add(node, SIM_KIND_NODE);
    return node;
}

static CUgraphNodeType type_of(const struct sim_op *op)
{
    if (!op)
        return CU_GRAPH_NODE_TYPE_EMPTY;
    if (op->host)
        return CU_GRAPH_NODE_TYPE_HOST;
    if (sim_launch_is(op))
        return CU_GRAPH_NODE_TYPE_KERNEL;
    return sim_copy_is_set(op) ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY;
}

CUgraphNode sim_graph_add_operation(
        CUgraph graph, struct sim_op *op, const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = node_add(graph, type_of(op), deps, count);

    node->op = op;
    if (op)
        op->generation = sim_oracle_generation();
    return node;
}

bool sim_graph_comes_before(CUgraphNode node, const CUgraphNode *after, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (after[i] == node || sim_graph_comes_before(node, after[i]->deps, after[i]->deps_count))
            return true;
    return false;
}

static int check_deps(CUgraph graph, const CUgraphNode *deps, size_t count)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!sim_handle_is(deps[i], SIM_KIND_NODE) || deps[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

static int add_alloc(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
        int device, uint64_t size, uint64_t *ret_addr)
{
    struct sim_node_memory *memory;
    struct sim_piece *piece;
    int r;

    if (size == 0 || size > (uint64_t)1 << 44)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_graphmem_open(device, size, &piece, ret_addr);
    if (r)
        return r;
    memory = sim_new(sizeof(*memory));
    *memory = (struct sim_node_memory){
            .references = 1, .piece = piece, .addr = *ret_addr, .size = size};
    *ret_node = node_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, deps, count);
    (*ret_node)->memory = memory;
    return 0;
}

int sim_graph_capture_alloc(
        struct CUstream_st *stream, int device, uint64_t size, CUdeviceptr *ret_ptr)
{
    CUgraphNode node;
    uint64_t addr;
    int r = sim_capture_status(stream);

    if (r == 0)
        r = add_alloc(&node, sim_capture_graph(stream), stream->frontier, stream->frontier_count,
                device, size, &addr);
    if (r)
        return r;
    *ret_ptr = addr;
    return sim_capture_add_node(stream, node);
}

int sim_graph_capture_free(struct CUstream_st *stream, uint64_t addr)
{
    CUgraphNode node;
    int r = sim_capture_status(stream);

    if (r)
        return r;
    node = node_add(sim_capture_graph(stream), CU_GRAPH_NODE_TYPE_MEM_FREE, stream->frontier,
            stream->frontier_count);
    node->addr = addr;
    return sim_capture_add_node(stream, node);
}

/* ---- the calls that make graphs ---- */

CUresult cuGraphCreate(CUgraph *ret_graph, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_graph || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_graph = sim_graph_new();
    return sim_leave(&call, r);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !sim_handle_is(graph, SIM_KIND_GRAPH))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        sim_graph_free(graph);
    return sim_leave(&call, r);
}

CUresult cuGraphAddEmptyNode(
        CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_node ? check_deps(graph, deps, count) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_node = sim_graph_add_operation(graph, NULL, deps, count);
    return sim_leave(&call, r);
}

/* A node of an operation that was made from the node's parameters. */
static int add_made(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
        int made, struct sim_op *op)
{
    int r = ret_node ? check_deps(graph, deps, count) : CUDA_ERROR_INVALID_VALUE;

    if (made)
        return made;
    if (r)
        sim_op_free(op);
    else
        *ret_node = sim_graph_add_operation(graph, op, deps, count);
    return r;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_launch_make(call.ctx, params, &op);
        r = add_made(ret_node, graph, deps, count, made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    CUDA_KERNEL_NODE_PARAMS wide = sim_graph_widen(params);
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_launch_make(call.ctx, &wide, &op);
        r = add_made(ret_node, graph, deps, count, made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    struct CUctx_st *at;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = sim_context_get(ctx, &at);
    if (r == 0) {
        int made = sim_copy_make_3d(at, copy, &op);
        r = add_made(ret_node, graph, deps, count, made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    struct CUctx_st *at;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = set ? sim_context_get(ctx, &at) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        int made = sim_copy_make_set(at, set, &op);
        r = add_made(ret_node, graph, deps, count, made, op);
    }
    return sim_leave(&call, r);
}

static void run_host_node(struct sim_op *op)
{
    const CUDA_HOST_NODE_PARAMS *host = (const CUDA_HOST_NODE_PARAMS *)op->payload;

    host->fn(host->userData);
}

CUresult cuGraphAddHostNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!params || !params->fn))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        struct sim_op *op = sim_op_new("host node", sizeof(*params));
        op->host = run_host_node;
        memcpy(op->payload, params, sizeof(*params));
        r = add_made(ret_node, graph, deps, count, 0, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sim_call call;
    uint64_t addr;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_node && params ? check_deps(graph, deps, count) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == 0
            && (params->poolProps.location.id < 0
                    || params->poolProps.location.id >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        r = add_alloc(ret_node, graph, deps, count, params->poolProps.location.id, params->bytesize,
                &addr);
    if (r == 0)
        params->dptr = addr;
    return sim_leave(&call, r);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    const struct sim_block *block = r ? NULL : sim_ledger_find(ptr);

    if (r == 0)
        r = ret_node ? check_deps(graph, deps, count) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && (!block || block->kind != SIM_BLOCK_GRAPH || block->addr != ptr))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        *ret_node = node_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, deps, count);
        (*ret_node)->addr = ptr;
    }
    return sim_leave(&call, r);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *ret_params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_params || !sim_handle_is(node, SIM_KIND_NODE) || !node->memory))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_params = (CUDA_MEM_ALLOC_NODE_PARAMS){
                .dptr = node->memory->addr, .bytesize = (size_t)node->memory->size};
    return sim_leave(&call, r);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *ret_ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0
            && (!ret_ptr || !sim_handle_is(node, SIM_KIND_NODE)
                    || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_ptr = node->addr;
    return sim_leave(&call, r);
}

/* The operation that a node of that type runs, made from the form that all types share. */
static int make_operation(const CUgraphNodeParams *params, struct sim_op **ret_op)
{
    CUDA_MEMSET_NODE_PARAMS set;
    struct CUctx_st *ctx = NULL;
    int r = sim_context_get(params->type == CU_GRAPH_NODE_TYPE_MEMSET ? params->memset.ctx
                    : params->type == CU_GRAPH_NODE_TYPE_MEMCPY       ? params->memcpy.copyCtx
                                                                      : NULL,
            &ctx);

    if (r)
        return r;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_launch_make(ctx, &params->kernel, ret_op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_copy_make_3d(ctx, &params->memcpy.copyParams, ret_op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &params->memset, sizeof(set)); /* the first fields of the longer form */
        return sim_copy_make_set(ctx, &set, ret_op);
    case CU_GRAPH_NODE_TYPE_HOST:
        if (!params->host.fn)
            return CUDA_ERROR_INVALID_VALUE;
        *ret_op = sim_op_new("host node", sizeof(params->host));
        (*ret_op)->host = run_host_node;
        memcpy((*ret_op)->payload, &params->host, sizeof(params->host));
        return 0;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *ret_op = NULL;
        return 0;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static int add_any(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
        CUgraphNodeParams *params)
{
    struct sim_op *op = NULL;
    uint64_t addr;
    int r = ret_node && params ? check_deps(graph, deps, count) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        if (params->alloc.poolProps.location.id < 0
                || params->alloc.poolProps.location.id >= sim_config.devices)
            return CUDA_ERROR_INVALID_DEVICE;
        r = add_alloc(ret_node, graph, deps, count, params->alloc.poolProps.location.id,
                params->alloc.bytesize, &addr);
        if (r == 0)
            params->alloc.dptr = addr;
        return r;
    }
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        const struct sim_block *block = sim_ledger_find(params->free.dptr);
        if (!block || block->kind != SIM_BLOCK_GRAPH || block->addr != params->free.dptr)
            return CUDA_ERROR_INVALID_VALUE;
        *ret_node = node_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, deps, count);
        (*ret_node)->addr = params->free.dptr;
        return 0;
    }
    r = make_operation(params, &op);
    if (r == 0)
        *ret_node = sim_graph_add_operation(graph, op, deps, count);
    return r;
}

CUresult cuGraphAddNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
        CUgraphNodeParams *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = add_any(ret_node, graph, deps, count, params);
    return sim_leave(&call, r);
}

CUresult cuGraphAddNode_v2(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    (void)edges;
    if (r == 0)
        r = add_any(ret_node, graph, deps, count, params);
    return sim_leave(&call, r);
}

static int add_dependencies(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    int r = check_deps(graph, from, count);

    if (r == 0)
        r = check_deps(graph, to, count);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (from[i]->position >= to[i]->position)
            r = CUDA_ERROR_NOT_SUPPORTED; /* nodes run in the order in which they were made */
    for (size_t i = 0; r == 0 && i < count; i++) {
        to[i]->deps = sim_grow(to[i]->deps, (to[i]->deps_count + 1) * sizeof(CUgraphNode));
        to[i]->deps[to[i]->deps_count++] = from[i];
    }
    return r;
}

CUresult cuGraphAddDependencies(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = add_dependencies(graph, from, to, count);
    return sim_leave(&call, r);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edges, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)edges;
    if (r == 0)
        r = add_dependencies(graph, from, to, count);
    return sim_leave(&call, r);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *ret_type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_type || !sim_handle_is(node, SIM_KIND_NODE)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_type = node->type;
    return sim_leave(&call, r);
}

/* Without an array only the number is asked for; a larger array is filled up with NULL. */
static int list_nodes(CUgraph graph, bool roots, CUgraphNode *ret_nodes, size_t *count)
{
    size_t found = 0;

    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < graph->count; i++) {
        if (roots && graph->nodes[i]->deps_count)
            continue;
        if (ret_nodes && found < *count)
            ret_nodes[found] = graph->nodes[i];
        found++;
    }
    for (size_t i = found; ret_nodes && i < *count; i++)
        ret_nodes[i] = NULL;
    if (!ret_nodes || *count > found)
        *count = found;
    return 0;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = list_nodes(graph, false, ret_nodes, count);
    return sim_leave(&call, r);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = list_nodes(graph, true, ret_nodes, count);
    return sim_leave(&call, r);
}

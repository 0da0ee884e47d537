/* SPDX-License-Identifier: MIT */
/* Nodes of graphs: made of parameters, given new ones, asked for them. See sim_graph.h. */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_edges.h"
#include "tests/sim/graph/sim_graph_parts.h"
#include "tests/sim/graph/sim_graphmem.h"
#include "tests/sim/kernel/sim_launch.h"
#include "tests/sim/memory/sim_copy.h"
#include "tests/sim/stream/sim_oracle.h"

#include <stdlib.h>
#include <string.h>

CUDA_KERNEL_NODE_PARAMS sim_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS wide = {0};

    if (params)
        memcpy(&wide, params, sizeof(*params));
    return wide;
}

/* ---- operations of parameters ---- */

static int make_host(const CUDA_HOST_NODE_PARAMS *params, struct sim_op **ret_op)
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_op = sim_stream_make_host("host node", params->fn, params->userData);
    return 0;
}

static int make_copy(CUcontext handle, const CUDA_MEMCPY3D *params, struct sim_op **ret_op)
{
    struct CUctx_st *ctx;
    int r = sim_context_get(handle, &ctx);

    return r ? r : sim_copy_make_3d(ctx, params, ret_op);
}

static int make_set(CUcontext handle, const CUDA_MEMSET_NODE_PARAMS *params, struct sim_op **ret_op)
{
    struct CUctx_st *ctx;
    int r = params ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_VALUE;

    return r ? r : sim_copy_make_set(ctx, params, ret_op);
}

static int make_kernel(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_op **ret_op)
{
    struct CUctx_st *ctx;
    int r = sim_context_current(&ctx);

    return r ? r : sim_launch_make(ctx, params, ret_op);
}

int sim_nodes_make(const CUgraphNodeParams *params, struct sim_op **ret_op)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    CUDA_MEMSET_NODE_PARAMS set;

    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return make_kernel(&params->kernel, ret_op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return make_copy(params->memcpy.copyCtx, &params->memcpy.copyParams, ret_op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &params->memset, sizeof(set)); /* the first fields of the longer form */
        return make_set(params->memset.ctx, &set, ret_op);
    case CU_GRAPH_NODE_TYPE_HOST:
        return make_host(&params->host, ret_op);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        memcpy(&batch, &params->memOp, sizeof(batch)); /* the same under another name */
        return sim_stream_make_batch(&batch, ret_op);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- adding ---- */

/* Where a node is to be added. */
struct place {
    CUgraphNode *ret_node;
    CUgraph graph;
    const CUgraphNode *deps;
    size_t count;
    const CUgraphEdgeData *edges; /* NULL: plain ones */
};

static int check_place(const struct place *at)
{
    return at->ret_node ? sim_graph_check_deps(at->graph, at->deps, at->count)
                        : CUDA_ERROR_INVALID_VALUE;
}

/* `made` is what making the operation returned. */
static int add_made(struct place at, int made, struct sim_op *op)
{
    int r = check_place(&at);

    if (made)
        return made;
    if (r)
        sim_op_free(op);
    else
        *at.ret_node = sim_graph_add_operation(at.graph, op, at.deps, at.count);
    return r;
}

static int add_empty(struct place at)
{
    int r = check_place(&at);

    if (r == 0)
        *at.ret_node = sim_graph_add_operation(at.graph, NULL, at.deps, at.count);
    return r;
}

static int add_event(struct place at, CUgraphNodeType type, CUevent event)
{
    int r = check_place(&at);

    if (r == 0 && !sim_handle_is(event, SIM_KIND_EVENT))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *at.ret_node = sim_graph_add_event(at.graph, type, event, at.deps, at.count);
    return r;
}

/* The node gets a copy of the graph, or the graph itself, which may have memory nodes then. */
static int add_child(struct place at, CUgraph child, bool moves)
{
    int r = check_place(&at);

    if (r == 0
            && (!sim_handle_is(child, SIM_KIND_GRAPH) || child == at.graph || child->moved
                    || (moves && child->embedded)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    if (!moves)
        child = sim_graph_copy(child);
    if (!child)
        return CUDA_ERROR_NOT_SUPPORTED;
    child->moved = moves;
    *at.ret_node = sim_graph_add_child(at.graph, child, at.deps, at.count);
    return 0;
}

static int add_alloc(struct place at, int device, uint64_t size, uint64_t *ret_addr)
{
    struct sim_node_memory *memory;
    struct sim_piece *piece;
    CUgraphNode node;
    int r;

    if (size == 0 || size > (uint64_t)1 << 44)
        return CUDA_ERROR_INVALID_VALUE;
    if (at.graph->embedded)
        return CUDA_ERROR_NOT_SUPPORTED; /* no more memory nodes in a child graph */
    r = sim_graphmem_open(device, size, &piece, ret_addr);
    if (r)
        return r;
    memory = sim_new(sizeof(*memory));
    *memory = (struct sim_node_memory){
            .references = 1, .piece = piece, .addr = *ret_addr, .size = size};
    node = sim_graph_node_add(at.graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, at.deps, at.count);
    node->memory = memory;
    *at.ret_node = node;
    return 0;
}

/* A memory node by hand: a place on a device, or what CUDA says to other places. */
static int add_alloc_by(struct place at, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    int r = params ? check_place(&at) : CUDA_ERROR_INVALID_VALUE;
    uint64_t addr;

    if (r)
        return r;
    if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (params->poolProps.location.id < 0 || params->poolProps.location.id >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    r = add_alloc(at, params->poolProps.location.id, params->bytesize, &addr);
    if (r == 0)
        params->dptr = addr;
    return r;
}

static int add_free(struct place at, CUdeviceptr ptr)
{
    const struct sim_block *block = sim_ledger_find(ptr);
    int r = check_place(&at);

    if (r == 0 && (!block || block->kind != SIM_BLOCK_GRAPH || block->addr != ptr))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && at.graph->embedded)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == 0) {
        *at.ret_node = sim_graph_node_add(at.graph, CU_GRAPH_NODE_TYPE_MEM_FREE, at.deps, at.count);
        (*at.ret_node)->addr = ptr;
    }
    return r;
}

int sim_graph_capture_alloc(
        struct CUstream_st *stream, int device, uint64_t size, CUdeviceptr *ret_ptr)
{
    CUgraphNode node;
    uint64_t addr;
    int r = sim_capture_status(stream);

    if (r == 0)
        r = add_alloc((struct place){&node, sim_capture_graph(stream), stream->frontier,
                              stream->frontier_count, NULL},
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

    if (r == 0 && sim_capture_graph(stream)->embedded)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r)
        return r;
    node = sim_graph_node_add(sim_capture_graph(stream), CU_GRAPH_NODE_TYPE_MEM_FREE,
            stream->frontier, stream->frontier_count);
    node->addr = addr;
    return sim_capture_add_node(stream, node);
}

static int add_any(struct place at, CUgraphNodeParams *params)
{
    struct sim_op *op = NULL;

    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return add_empty(at);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_alloc_by(at, &params->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return add_free(at, params->free.dptr);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return add_event(at, params->type, sim_abi_event(params));
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(at, sim_abi_child(params).graph,
                sim_abi_child(params).ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    default: {
        int made = sim_nodes_make(params, &op);
        return add_made(at, made, op);
    }
    }
}

static int add_with_edges(struct place at, CUgraphNodeParams *params)
{
    int r = params ? check_place(&at) : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; r == 0 && at.edges && i < at.count; i++)
        r = sim_edges_check(at.deps[i], &params->type, &at.edges[i]);
    if (r == 0)
        r = add_any(at, params);
    if (r == 0)
        sim_graph_node_edges(*at.ret_node, at.edges);
    return r;
}

#define AT            ((struct place){ret_node, graph, deps, count, NULL})
#define AT_WITH_EDGES ((struct place){ret_node, graph, deps, count, edges})

/* The head of each of these calls, and the call `r = body` if it may go on. */
#define ADD_CALL(name, needs, params, body)        \
    CUresult name params                           \
    {                                              \
        struct sim_call call;                      \
        struct sim_op *op = NULL;                  \
        int r = sim_enter(&call, __func__, needs); \
        (void)op;                                  \
        return sim_leave(&call, r ? r : (body));   \
    }
ADD_CALL(cuGraphAddEmptyNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count),
        add_empty(AT))
ADD_CALL(cuGraphAddKernelNode_v2, SIM_NEED_CONTEXT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_KERNEL_NODE_PARAMS *params),
        (r = make_kernel(params, &op), add_made(AT, r, op)))
ADD_CALL(cuGraphAddMemcpyNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_MEMCPY3D *params, CUcontext ctx),
        (r = make_copy(ctx, params, &op), add_made(AT, r, op)))
ADD_CALL(cuGraphAddMemsetNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
        (r = make_set(ctx, params, &op), add_made(AT, r, op)))
ADD_CALL(cuGraphAddHostNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_HOST_NODE_PARAMS *params),
        (r = make_host(params, &op), add_made(AT, r, op)))
ADD_CALL(cuGraphAddBatchMemOpNode, SIM_NEED_CONTEXT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
        (r = sim_stream_make_batch(params, &op), add_made(AT, r, op)))
ADD_CALL(cuGraphAddChildGraphNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUgraph child),
        add_child(AT, child, false))
ADD_CALL(cuGraphAddEventRecordNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUevent event),
        add_event(AT, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
ADD_CALL(cuGraphAddEventWaitNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUevent event),
        add_event(AT, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
ADD_CALL(cuGraphAddMemAllocNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUDA_MEM_ALLOC_NODE_PARAMS *params),
        add_alloc_by(AT, params))
ADD_CALL(cuGraphAddMemFreeNode, SIM_NEED_INIT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUdeviceptr ptr),
        add_free(AT, ptr))
ADD_CALL(cuGraphAddNode, SIM_NEED_CONTEXT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUgraphNodeParams *params),
        add_any(AT, params))
ADD_CALL(cuGraphAddNode_v2, SIM_NEED_CONTEXT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps,
                const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params),
        add_with_edges(AT_WITH_EDGES, params))
ADD_CALL(cuGraphAddNode_v3, SIM_NEED_CONTEXT,
        (CUgraphNode * ret_node, CUgraph graph, const CUgraphNode *deps,
                const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params),
        add_with_edges(AT_WITH_EDGES, params))

CUresult cuGraphAddKernelNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        CUDA_KERNEL_NODE_PARAMS wide = sim_graph_widen(params);
        int made = make_kernel(&wide, &op);
        r = add_made(AT, made, op);
    }
    return sim_leave(&call, r);
}

/* ---- asking ---- */

static bool is_node(CUgraphNode node, CUgraphNodeType type)
{
    return sim_handle_is(node, SIM_KIND_NODE) && node->type == type;
}

static void kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
    free(node->shown);
    sim_launch_params(node->op, ret_params, &node->shown);
}

/* Asks one node of one type: `answer` is run if it is one and there is a place for the answer. */
#define ASK_CALL(name, type, params, out, answer)          \
    CUresult name params                                   \
    {                                                      \
        struct sim_call call;                              \
        int r = sim_enter(&call, __func__, SIM_NEED_INIT); \
        if (r == 0 && (!(out) || !is_node(node, type)))    \
            r = CUDA_ERROR_INVALID_VALUE;                  \
        if (r == 0) {                                      \
            answer;                                        \
        }                                                  \
        return sim_leave(&call, r);                        \
    }
ASK_CALL(cuGraphKernelNodeGetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL,
        (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out), out, kernel_params(node, out))
ASK_CALL(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY,
        (CUgraphNode node, CUDA_MEMCPY3D *out), out, sim_copy_params(node->op, out))
ASK_CALL(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET,
        (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out), out, sim_copy_set_params(node->op, out))
ASK_CALL(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST,
        (CUgraphNode node, CUDA_HOST_NODE_PARAMS *out), out, sim_stream_host_params(node->op, out))
ASK_CALL(cuGraphBatchMemOpNodeGetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        (CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out), out,
        sim_stream_batch_params(node->op, out))
ASK_CALL(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, (CUgraphNode node, CUgraph *out),
        out, *out = node->child)
ASK_CALL(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        (CUgraphNode node, CUevent *out), out, *out = node->event)
ASK_CALL(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        (CUgraphNode node, CUevent *out), out, *out = node->event)
ASK_CALL(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE,
        (CUgraphNode node, CUdeviceptr *out), out, *out = node->addr)
ASK_CALL(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out), out,
        *out = ((CUDA_MEM_ALLOC_NODE_PARAMS){
                .dptr = node->memory->addr, .bytesize = (size_t)node->memory->size}))

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!out || !is_node(node, CU_GRAPH_NODE_TYPE_KERNEL)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        CUDA_KERNEL_NODE_PARAMS wide;
        kernel_params(node, &wide);
        memcpy(out, &wide, sizeof(*out));
    }
    return sim_leave(&call, r);
}

/* ---- changing ---- */

static int set_made(CUgraphNode node, CUgraphNodeType type, int made, struct sim_op *op)
{
    if (made)
        return made;
    if (!is_node(node, type)) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op->generation = sim_oracle_generation();
    sim_op_free(node->op);
    free(node->shown); /* points into the old one */
    node->shown = NULL;
    node->op = op;
    return 0;
}

static int set_event(CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    if (!is_node(node, type))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    node->event = event;
    return 0;
}

static int set_any(CUgraphNode node, const CUgraphNodeParams *params)
{
    struct sim_op *op = NULL;

    if (!params || !is_node(node, params->type))
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
            || params->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        return set_event(node, params->type, sim_abi_event(params));
    int made = sim_nodes_make(params, &op);
    return set_made(node, params->type, made, op);
}

ADD_CALL(cuGraphKernelNodeSetParams_v2, SIM_NEED_CONTEXT,
        (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (r = make_kernel(params, &op), set_made(node, CU_GRAPH_NODE_TYPE_KERNEL, r, op)))
ADD_CALL(cuGraphMemcpyNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphNode node, const CUDA_MEMCPY3D *params),
        (r = make_copy(NULL, params, &op), set_made(node, CU_GRAPH_NODE_TYPE_MEMCPY, r, op)))
ADD_CALL(cuGraphMemsetNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params),
        (r = make_set(NULL, params, &op), set_made(node, CU_GRAPH_NODE_TYPE_MEMSET, r, op)))
ADD_CALL(cuGraphBatchMemOpNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
        (r = sim_stream_make_batch(params, &op),
                set_made(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, r, op)))
ADD_CALL(cuGraphHostNodeSetParams, SIM_NEED_INIT,
        (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
        (r = make_host(params, &op), set_made(node, CU_GRAPH_NODE_TYPE_HOST, r, op)))
ADD_CALL(cuGraphEventRecordNodeSetEvent, SIM_NEED_INIT, (CUgraphNode node, CUevent event),
        set_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
ADD_CALL(cuGraphEventWaitNodeSetEvent, SIM_NEED_INIT, (CUgraphNode node, CUevent event),
        set_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
ADD_CALL(cuGraphNodeSetParams, SIM_NEED_CONTEXT, (CUgraphNode node, CUgraphNodeParams *params),
        set_any(node, params))
ADD_CALL(cuGraphNodeSetParams_v2, SIM_NEED_CONTEXT, (CUgraphNode node, CUgraphNodeParams *params),
        set_any(node, params))

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        CUDA_KERNEL_NODE_PARAMS wide = sim_graph_widen(params);
        int made = make_kernel(&wide, &op);
        r = set_made(node, CU_GRAPH_NODE_TYPE_KERNEL, made, op);
    }
    return sim_leave(&call, r);
}

/* SPDX-License-Identifier: MIT */
/* Instances of graphs: made, changed, launched. The explanation is in sim_graph.h. */
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

struct item {
    CUgraphNode node; /* of the graph; may be gone, compared only */
    CUgraphNodeType type;
    struct sim_op *op;
    struct sim_node_memory *memory;
    uint64_t addr;
};

struct CUgraphExec_st {
    struct item *items;
    unsigned count;
    unsigned long long flags;
    struct sim_clock last; /* launches of one instance run one after the other */
};

/* ---- instances ---- */

static int instantiate(CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags)
{
    CUgraphExec exec;

    if (!ret_exec || !sim_handle_is(graph, SIM_KIND_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    exec = sim_new(sizeof(*exec));
    exec->flags = flags;
    exec->count = graph->count;
    exec->items = graph->count ? sim_new(graph->count * sizeof(*exec->items)) : NULL;
    for (unsigned i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        exec->items[i] = (struct item){.node = node,
                .type = node->type,
                .op = node->op ? sim_op_clone(node->op) : NULL,
                .memory = node->memory,
                .addr = node->addr};
        if (node->memory)
            node->memory->references++;
    }
    sim_handle_add(exec, SIM_KIND_EXEC);
    *ret_exec = exec;
    return 0;
}

CUresult cuGraphInstantiate(
        CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_bad, char *log, size_t log_size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = instantiate(ret_exec, graph, 0);
    if (r == 0 && ret_bad)
        *ret_bad = NULL;
    if (r == 0 && log && log_size)
        log[0] = '\0';
    return sim_leave(&call, r);
}

CUresult cuGraphInstantiate_v2(
        CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_bad, char *log, size_t log_size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = instantiate(ret_exec, graph, 0);
    if (r == 0 && ret_bad)
        *ret_bad = NULL;
    if (r == 0 && log && log_size)
        log[0] = '\0';
    return sim_leave(&call, r);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = instantiate(ret_exec, graph, flags);
    return sim_leave(&call, r);
}

static int instantiate_params(
        CUgraphExec *ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    int r = params ? instantiate(ret_exec, graph, params->flags) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0) {
        params->hErrNode_out = NULL;
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    }
    return r;
}

CUresult cuGraphInstantiateWithParams(
        CUgraphExec *ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = instantiate_params(ret_exec, graph, params);
    return sim_leave(&call, r);
}

CUresult cuGraphInstantiateWithParams_ptsz(
        CUgraphExec *ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = instantiate_params(ret_exec, graph, params);
    return sim_leave(&call, r);
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *ret_flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_flags || !sim_handle_is(exec, SIM_KIND_EXEC)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_flags = exec->flags;
    return sim_leave(&call, r);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !sim_handle_is(exec, SIM_KIND_EXEC))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        for (unsigned i = 0; i < exec->count; i++) {
            if (exec->items[i].op)
                sim_op_free(exec->items[i].op);
            sim_graph_memory_put(exec->items[i].memory);
        }
        sim_handle_remove(exec);
        sim_clock_clear(&exec->last);
        free(exec->items);
        free(exec);
    }
    return sim_leave(&call, r);
}

static struct item *find_item(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type)
{
    if (!sim_handle_is(exec, SIM_KIND_EXEC) || !sim_handle_is(node, SIM_KIND_NODE))
        return NULL;
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->items[i].node == node && exec->items[i].type == type)
            return &exec->items[i];
    return NULL;
}

static int set_item(struct item *item, int made, struct sim_op *op)
{
    if (made)
        return made;
    if (!item) {
        sim_op_free(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op->generation = sim_oracle_generation();
    sim_op_free(item->op);
    item->op = op;
    return 0;
}

CUresult cuGraphExecKernelNodeSetParams_v2(
        CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_launch_make(call.ctx, params, &op);
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_KERNEL), made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphExecKernelNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    CUDA_KERNEL_NODE_PARAMS wide = sim_graph_widen(params);
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_launch_make(call.ctx, &wide, &op);
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_KERNEL), made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphExecMemcpyNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    struct CUctx_st *at;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = sim_context_get(ctx, &at);
    if (r == 0) {
        int made = sim_copy_make_3d(at, copy, &op);
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY), made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphExecMemsetNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    struct CUctx_st *at;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = set ? sim_context_get(ctx, &at) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        int made = sim_copy_make_set(at, set, &op);
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_MEMSET), made, op);
    }
    return sim_leave(&call, r);
}

/* ---- launches ---- */

static bool frees(const struct CUgraphExec_st *exec, uint64_t addr)
{
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->items[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE && exec->items[i].addr == addr)
            return true;
    return false;
}

/* Memory of an earlier launch that nobody freed: an error, or freed now if the flag says so. */
static int free_leftovers(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    for (unsigned i = 0; i < exec->count; i++) {
        struct sim_node_memory *memory = exec->items[i].memory;
        if (!memory || frees(exec, memory->addr) || !sim_pool_piece_is_live(memory->piece))
            continue;
        if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return CUDA_ERROR_INVALID_VALUE;
        int r = sim_pool_free_ordered(memory->piece, stream);
        if (r)
            return r;
    }
    return 0;
}

static int launch_item(struct item *item, struct CUstream_st *stream, const struct sim_clock *after)
{
    const struct sim_block *block;
    struct sim_op *op;

    switch (item->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        sim_graphmem_use(item->memory->piece);
        return 0;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        block = sim_ledger_live(item->addr);
        if (!block || block->kind != SIM_BLOCK_GRAPH)
            return CUDA_ERROR_INVALID_VALUE;
        return sim_pool_free_ordered(block->piece, stream);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return 0;
    default:
        sim_oracle_replay(item->op);
        op = sim_op_clone(item->op);
        return sim_stream_submit_after(stream, op, after, after);
    }
}

static int launch(struct CUstream_st *stream, CUgraphExec exec)
{
    int r = sim_handle_is(exec, SIM_KIND_EXEC) ? 0 : CUDA_ERROR_INVALID_VALUE;

    if (r == 0 && stream->capture)
        r = sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); /* child graphs */
    if (r == 0)
        r = free_leftovers(exec, stream);
    for (unsigned i = 0; r == 0 && i < exec->count; i++)
        r = launch_item(&exec->items[i], stream, &exec->last);
    if (r == 0) {
        sim_clock_clear(&exec->last);
        sim_clock_set(&exec->last, stream->queue, stream->queue->submitted);
        sim_stats.graph_launches++;
    }
    return r;
}

static int upload(CUgraphExec exec)
{
    return sim_handle_is(exec, SIM_KIND_EXEC) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

SIM_STREAM_CALL(
        cuGraphLaunch, SIM_NEED_CONTEXT, (CUgraphExec exec, CUstream handle), launch(stream, exec))
SIM_STREAM_CALL(cuGraphUpload, SIM_NEED_CONTEXT, (CUgraphExec exec, CUstream handle),
        ((void)stream, upload(exec)))

static void run_host(struct sim_op *op)
{
    const CUDA_HOST_NODE_PARAMS *host = (const CUDA_HOST_NODE_PARAMS *)op->payload;

    host->fn(host->userData);
}

CUresult cuGraphExecHostNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!params || !params->fn))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        struct sim_op *op = sim_op_new("host node", sizeof(*params));
        op->host = run_host;
        memcpy(op->payload, params, sizeof(*params));
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_HOST), 0, op);
    }
    return sim_leave(&call, r);
}

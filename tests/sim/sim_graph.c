/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_graph.h"

#include "tests/sim/sim_capture.h"
#include "tests/sim/sim_context.h"
#include "tests/sim/sim_copy.h"
#include "tests/sim/sim_module.h"
#include "tests/sim/sim_oracle.h"
#include "tests/sim/sim_pool.h"

#include <stdlib.h>
#include <string.h>

/* Shared by the node that made it and all instances. */
struct memory {
    unsigned references;
    struct sim_piece *piece;
    uint64_t addr, size;
};

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeType type;
    struct sim_op *op;     /* NULL: empty and memory nodes */
    struct memory *memory; /* MEM_ALLOC */
    uint64_t addr;         /* MEM_FREE */
    CUgraphNode *deps;
    size_t deps_count;
    unsigned position; /* in the graph: made later, stands later */
};

struct CUgraph_st {
    CUgraphNode *nodes;
    unsigned count;
};

struct item {
    CUgraphNode node; /* of the graph; may be gone, compared only */
    CUgraphNodeType type;
    struct sim_op *op;
    struct memory *memory;
    uint64_t addr;
};

struct CUgraphExec_st {
    struct item *items;
    unsigned count;
    unsigned long long flags;
    struct sim_clock last; /* launches of one instance run one after the other */
};

/* ---- memory ---- */

static void memory_put(struct memory *memory)
{
    if (!memory || --memory->references)
        return;
    sim_pool_graph_orphan(memory->piece);
    free(memory);
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
    memory_put(node->memory);
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
    if (sim_module_is_launch(op))
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
    struct memory *memory;
    struct sim_piece *piece;
    int r;

    if (size == 0 || size > (uint64_t)1 << 44)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_pool_graph_open(device, size, &piece, ret_addr);
    if (r)
        return r;
    memory = sim_new(sizeof(*memory));
    *memory = (struct memory){.references = 1, .piece = piece, .addr = *ret_addr, .size = size};
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
        int made = sim_module_make_launch(call.ctx, params, &op);
        r = add_made(ret_node, graph, deps, count, made, op);
    }
    return sim_leave(&call, r);
}

/* The first form has no kernel handle and no context. */
static CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS wide = {0};

    if (params)
        memcpy(&wide, params, sizeof(*params));
    return wide;
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps,
        size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    CUDA_KERNEL_NODE_PARAMS wide = widen(params);
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_module_make_launch(call.ctx, &wide, &op);
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
            memory_put(exec->items[i].memory);
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
        int made = sim_module_make_launch(call.ctx, params, &op);
        r = set_item(find_item(exec, node, CU_GRAPH_NODE_TYPE_KERNEL), made, op);
    }
    return sim_leave(&call, r);
}

CUresult cuGraphExecKernelNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_call call;
    struct sim_op *op = NULL;
    CUDA_KERNEL_NODE_PARAMS wide = widen(params);
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        int made = sim_module_make_launch(call.ctx, &wide, &op);
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
        struct memory *memory = exec->items[i].memory;
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
        sim_pool_graph_use(item->memory->piece);
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

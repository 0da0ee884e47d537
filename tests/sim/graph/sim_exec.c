/* SPDX-License-Identifier: MIT */
/* Instances of graphs: made, changed, updated. The explanation is in sim_graph.h. */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_graph_parts.h"
#include "tests/sim/kernel/sim_launch.h"
#include "tests/sim/memory/sim_copy.h"
#include "tests/sim/stream/sim_oracle.h"

#include <stdlib.h>
#include <string.h>

/* ---- laying out ---- */

/* Items that are being collected. */
struct items {
    struct sim_item *at;
    unsigned count;
};

static void item_clear(struct sim_item *item)
{
    if (item->op)
        sim_op_free(item->op);
    sim_graph_memory_put(item->memory);
    free(item->deps);
}

static void items_clear(struct items *items)
{
    for (unsigned i = 0; i < items->count; i++)
        item_clear(&items->at[i]);
    free(items->at);
    *items = (struct items){0};
}

static struct sim_item *item_add(struct items *items, CUgraphNodeType type)
{
    items->at = sim_grow(items->at, (items->count + 1) * sizeof(*items->at));
    items->at[items->count] = (struct sim_item){.type = type};
    return &items->at[items->count++];
}

static void item_depend(struct sim_item *item, unsigned on)
{
    item->deps = sim_grow(item->deps, (item->deps_count + 1) * sizeof(*item->deps));
    item->deps[item->deps_count++] = on;
}

/* The exit of a child graph comes behind those of its items that nothing inside comes behind. */
static void add_exit(struct items *items, unsigned entry)
{
    unsigned count = items->count;
    bool *has_dependent = sim_new(count);

    for (unsigned i = entry + 1; i < count; i++)
        for (unsigned k = 0; k < items->at[i].deps_count; k++)
            has_dependent[items->at[i].deps[k]] = true;
    struct sim_item *exit = item_add(items, CU_GRAPH_NODE_TYPE_EMPTY);
    for (unsigned i = entry; i < count; i++)
        if (!has_dependent[i])
            item_depend(exit, i);
    free(has_dependent);
}

/* Appends the graph; what depends on nothing comes behind `entry`. False if its edges go round. */
static bool lay_out(struct items *items, CUgraph graph, int entry)
{
    CUgraphNode *sorted = NULL;
    bool sound = sim_graph_sort(graph, &sorted);

    for (unsigned i = 0; sound && i < graph->count; i++) {
        CUgraphNode node = sorted[i];
        struct sim_item *item = item_add(items, node->type);
        item->node = node;
        item->op = node->op ? sim_op_clone(node->op) : NULL;
        item->memory = node->memory;
        item->addr = node->addr;
        item->event = node->event;
        if (node->memory)
            node->memory->references++;
        for (size_t k = 0; k < node->deps_count; k++)
            item_depend(item, node->deps[k]->index);
        if (node->deps_count == 0 && entry >= 0)
            item_depend(item, (unsigned)entry);
        node->index = items->count - 1;
        if (node->type != CU_GRAPH_NODE_TYPE_GRAPH)
            continue;
        unsigned child = node->index;
        sound = lay_out(items, node->child, (int)child);
        add_exit(items, child);
        items->at[child].inside = items->count - 1 - child;
        node->index = items->count - 1;
    }
    free(sorted);
    return sound;
}

static bool is_chain(const struct items *items)
{
    for (unsigned i = 0; i < items->count; i++) {
        const struct sim_item *item = &items->at[i];
        if (item->deps_count != (i > 0) || (i > 0 && item->deps[0] != i - 1))
            return false;
    }
    return true;
}

/* ---- instances ---- */

/* User objects of the graph and of all graphs in it. */
static void share_objects(struct sim_holdings *holdings, CUgraph graph)
{
    sim_userobject_share(holdings, &graph->holdings);
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->nodes[i]->child)
            share_objects(holdings, graph->nodes[i]->child);
}

static int instantiate(CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags)
{
    struct items items = {0};
    CUgraphExec exec;

    if (!ret_exec || !sim_handle_is(graph, SIM_KIND_GRAPH) || graph->embedded)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!lay_out(&items, graph, -1)) {
        items_clear(&items);
        return CUDA_ERROR_INVALID_VALUE;
    }
    exec = sim_new(sizeof(*exec));
    exec->flags = flags;
    exec->count = items.count;
    exec->items = items.at;
    exec->is_chain = is_chain(&items);
    share_objects(&exec->holdings, graph);
    sim_handle_add(exec, SIM_KIND_EXEC);
    *ret_exec = exec;
    return 0;
}

/* The forms that tell what went wrong by a node and a text; nothing here has more to say. */
static int instantiate_logged(
        CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *ret_bad, char *log, size_t log_size)
{
    int r = instantiate(ret_exec, graph, 0);

    if (ret_bad)
        *ret_bad = NULL;
    if (log && log_size)
        log[0] = '\0';
    return r;
}

static int instantiate_params(
        CUgraphExec *ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    int r = params ? instantiate(ret_exec, graph, params->flags) : CUDA_ERROR_INVALID_VALUE;

    if (params) {
        params->hErrNode_out = NULL;
        params->result_out = r == 0             ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                : r == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                : CUDA_GRAPH_INSTANTIATE_ERROR;
    }
    return r;
}

#define EXEC_CALL(name, needs, params, body)       \
    CUresult name params                           \
    {                                              \
        struct sim_call call;                      \
        int r = sim_enter(&call, __func__, needs); \
        return sim_leave(&call, r ? r : (body));   \
    }
EXEC_CALL(cuGraphInstantiate, SIM_NEED_CONTEXT,
        (CUgraphExec * ret_exec, CUgraph graph, CUgraphNode *ret_bad, char *log, size_t log_size),
        instantiate_logged(ret_exec, graph, ret_bad, log, log_size))
EXEC_CALL(cuGraphInstantiate_v2, SIM_NEED_CONTEXT,
        (CUgraphExec * ret_exec, CUgraph graph, CUgraphNode *ret_bad, char *log, size_t log_size),
        instantiate_logged(ret_exec, graph, ret_bad, log, log_size))
EXEC_CALL(cuGraphInstantiateWithFlags, SIM_NEED_CONTEXT,
        (CUgraphExec * ret_exec, CUgraph graph, unsigned long long flags),
        instantiate(ret_exec, graph, flags))
EXEC_CALL(cuGraphInstantiateWithParams, SIM_NEED_CONTEXT,
        (CUgraphExec * ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
        instantiate_params(ret_exec, graph, params))
EXEC_CALL(cuGraphInstantiateWithParams_ptsz, SIM_NEED_CONTEXT,
        (CUgraphExec * ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
        instantiate_params(ret_exec, graph, params))
EXEC_CALL(cuGraphExecGetFlags, SIM_NEED_INIT, (CUgraphExec exec, cuuint64_t *ret_flags),
        !ret_flags || !sim_handle_is(exec, SIM_KIND_EXEC) ? CUDA_ERROR_INVALID_VALUE
                                                          : (*ret_flags = exec->flags, 0))

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !sim_handle_is(exec, SIM_KIND_EXEC))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        struct items items = {exec->items, exec->count};
        items_clear(&items);
        sim_userobject_put(&exec->holdings, &exec->last);
        sim_handle_remove(exec);
        sim_clock_clear(&exec->last);
        free(exec);
    }
    return sim_leave(&call, r);
}

/* ---- one node of an instance ---- */

static struct sim_item *find_item(CUgraphExec exec, CUgraphNode node)
{
    if (!sim_handle_is(exec, SIM_KIND_EXEC) || !sim_handle_is(node, SIM_KIND_NODE))
        return NULL;
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->items[i].node == node)
            return &exec->items[i];
    return NULL;
}

static struct sim_item *find_typed(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type)
{
    struct sim_item *item = find_item(exec, node);

    return item && item->type == type ? item : NULL;
}

static int set_item(struct sim_item *item, int made, struct sim_op *op)
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

/* The node's new operation, from the form of parameters that all types share. */
static int set_made(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    struct sim_op *op = NULL;
    int made = sim_nodes_make(params, &op);

    return set_item(find_typed(exec, node, params->type), made, op);
}

static int set_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    struct sim_item *item = find_typed(exec, node, type);

    if (!item)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    item->event = event;
    return 0;
}

static int set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    if (!kernel)
        return CUDA_ERROR_INVALID_VALUE;
    params.kernel = *kernel;
    return set_made(exec, node, &params);
}

static int set_kernel_v1(
        CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    CUDA_KERNEL_NODE_PARAMS wide = sim_graph_widen(kernel);

    return set_kernel(exec, node, kernel ? &wide : NULL);
}

static int set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    params.memcpy.copyParams = *copy;
    params.memcpy.copyCtx = ctx;
    return set_made(exec, node, &params);
}

static int set_set(
        CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};

    if (!set)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params.memset, set, sizeof(*set));
    params.memset.ctx = ctx;
    return set_made(exec, node, &params);
}

static int set_host(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST};

    if (!host)
        return CUDA_ERROR_INVALID_VALUE;
    params.host = *host;
    return set_made(exec, node, &params);
}

static int set_batch(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

    if (!batch)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params.memOp, batch, sizeof(*batch));
    return set_made(exec, node, &params);
}

/* ---- updating: the same shape with other operations ---- */

/* The first difference in shape between `count` items of each, or SUCCESS. */
static CUgraphExecUpdateResult compare(
        const struct sim_item *old, const struct sim_item *new, unsigned count, unsigned *ret_at)
{
    for (unsigned i = 0; i < count; i++) {
        *ret_at = i;
        if (old[i].type != new[i].type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (old[i].deps_count != new[i].deps_count
                || (old[i].deps_count
                        && memcmp(old[i].deps, new[i].deps,
                                old[i].deps_count * sizeof(*old[i].deps))))
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (old[i].memory != new[i].memory || old[i].addr != new[i].addr)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static void take_over(struct sim_item *old, struct sim_item *new, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct sim_op *op = old[i].op;
        old[i].op = new[i].op;
        new[i].op = op; /* freed with the new items */
        old[i].event = new[i].event;
    }
}

static int update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret_info)
{
    struct items items = {0};
    unsigned at = 0;

    if (!ret_info || !sim_handle_is(exec, SIM_KIND_EXEC) || !sim_handle_is(graph, SIM_KIND_GRAPH)
            || graph->embedded)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!lay_out(&items, graph, -1)) {
        items_clear(&items);
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (items.count != exec->count)
        ret_info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    else
        ret_info->result = compare(exec->items, items.at, exec->count, &at);
    if (ret_info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        take_over(exec->items, items.at, exec->count);
    else if (at < items.count)
        ret_info->errorNode = items.at[at].node;
    items_clear(&items);
    return ret_info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? 0
                                                            : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static int update_v1(
        CUgraphExec exec, CUgraph graph, CUgraphNode *ret_bad, CUgraphExecUpdateResult *ret_result)
{
    CUgraphExecUpdateResultInfo info;
    int r = ret_result ? update(exec, graph, &info) : CUDA_ERROR_INVALID_VALUE;

    if (r && r != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        return r;
    *ret_result = info.result;
    if (ret_bad)
        *ret_bad = info.errorNode;
    return r;
}

/* The items inside of a child graph's entry, from a graph of the same shape. */
static int set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    struct sim_item *entry = find_typed(exec, node, CU_GRAPH_NODE_TYPE_GRAPH);
    struct items items = {0};
    unsigned at, first, count;
    int r = CUDA_ERROR_INVALID_VALUE;

    if (!entry || !sim_handle_is(child, SIM_KIND_GRAPH))
        return r;
    first = (unsigned)(entry - exec->items) + 1;
    count = entry->inside - 1;           /* without the exit */
    for (unsigned i = 0; i < first; i++) /* so that the numbers of items are the same */
        (void)item_add(&items, CU_GRAPH_NODE_TYPE_EMPTY);
    if (lay_out(&items, child, (int)first - 1) && items.count == first + count
            && compare(exec->items + first, items.at + first, count, &at)
                    == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        take_over(exec->items + first, items.at + first, count);
        r = 0;
    }
    items_clear(&items);
    return r;
}

static int set_any(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return set_event(exec, node, params->type, sim_abi_event(params));
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return set_child(exec, node, sim_abi_child(params).graph);
    default:
        return set_made(exec, node, params);
    }
}

EXEC_CALL(cuGraphExecKernelNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        set_kernel_v1(exec, node, params))
EXEC_CALL(cuGraphExecKernelNodeSetParams_v2, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        set_kernel(exec, node, params))
EXEC_CALL(cuGraphExecMemcpyNodeSetParams, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext ctx),
        set_copy(exec, node, params, ctx))
EXEC_CALL(cuGraphExecMemsetNodeSetParams, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
        set_set(exec, node, params, ctx))
EXEC_CALL(cuGraphExecBatchMemOpNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
        set_batch(exec, node, params))
EXEC_CALL(cuGraphExecHostNodeSetParams, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
        set_host(exec, node, params))
EXEC_CALL(cuGraphExecChildGraphNodeSetParams, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, CUgraph child), set_child(exec, node, child))
EXEC_CALL(cuGraphExecEventRecordNodeSetEvent, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, CUevent event),
        set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event))
EXEC_CALL(cuGraphExecEventWaitNodeSetEvent, SIM_NEED_INIT,
        (CUgraphExec exec, CUgraphNode node, CUevent event),
        set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event))
EXEC_CALL(cuGraphExecNodeSetParams, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params),
        set_any(exec, node, params))
EXEC_CALL(cuGraphExecUpdate, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraph graph, CUgraphNode *ret_bad,
                CUgraphExecUpdateResult *ret_result),
        update_v1(exec, graph, ret_bad, ret_result))
EXEC_CALL(cuGraphExecUpdate_v2, SIM_NEED_CONTEXT,
        (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret_info),
        update(exec, graph, ret_info))

/* Kernels, copies and sets can be switched off; then they are empty. */
static int enabled(CUgraphExec exec, CUgraphNode node, struct sim_item **ret_item)
{
    struct sim_item *item = find_item(exec, node);

    if (!item
            || (item->type != CU_GRAPH_NODE_TYPE_KERNEL && item->type != CU_GRAPH_NODE_TYPE_MEMCPY
                    && item->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_item = item;
    return 0;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int is_enabled)
{
    struct sim_call call;
    struct sim_item *item;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = enabled(exec, node, &item);
    if (r == 0)
        item->disabled = !is_enabled;
    return sim_leave(&call, r);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *ret_enabled)
{
    struct sim_call call;
    struct sim_item *item;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_enabled ? enabled(exec, node, &item) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_enabled = !item->disabled;
    return sim_leave(&call, r);
}

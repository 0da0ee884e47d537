/* SPDX-License-Identifier: MIT */
/*
 * Graphs. Every later launch uses the memory that a node names, and a launch has no arguments to
 * check. So blocks are pinned when their addresses are put into a graph, until the graph and its
 * instances have ended (R12, frees during captures; R80, pinned blocks):
 *
 *     captured call (submit.c) ─┐                        ┌─ instantiate ─► instance ─► destroy
 *     node added, set ──────────┴► graph, by node ───────┼─ clone, child ─► another graph
 *                                    └─ destroy ─► done  └─ update ──────► instance, anew
 *
 * While uses are recorded, memory outside kedge's blocks is noted in the same way, without a pin,
 * and a launch is a use of all memory that its instance names. A node whose parameters change loses
 * its earlier pins. A block that the program frees meanwhile is kept (alloc/heap/pin.h). Pointers
 * inside device memory are not seen. graphnodes.h knows the graph of a node.
 */
#include "preload/driver/contexts.h"
#include "preload/driver/hostwait.h"
#include "preload/driver/reach.h"
#include "preload/driver/session.h"
#include "preload/graph/graphkernels.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/hostfn.h"
#include "preload/graph/launches.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/graphnodes.h"
#include "preload/hints/params.h"
#include "preload/hints/pins.h"
#include "preload/request/event_order.h"
#include "preload/request/submit.h"
#include "tracker/capture/uses.h"

#include <string.h>

/* Begins a call whose blocks are pinned by argcheck_range. */
static bool hooks_graph_begin(struct pins *pins, int slot)
{
    if (!life_enter(slot))
        return false;
    *pins = PINS_NONE(POOL_PIN_GRAPH);
    guard_read_begin();
    if (session_pool || uses_on())
        guard_thread.pins = pins;
    return true;
}

static void hooks_graph_end(void)
{
    guard_read_end();
    life_leave();
}

static uint64_t hooks_graph_key(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* ---- the memory that a node names ---------------------------------------------------------- */

/* Whichever of the two is set. */
static CUfunction kernel_of(CUfunction func, CUkernel kernel)
{
    return func ? func : (CUfunction)(void *)kernel;
}

static bool hooks_graph_kernel_touches(
        CUfunction func, CUkernel kernel, void **params, void **extra, const char *what)
{
    if (!func)
        params_kernels_told(NULL, &kernel, kernel != NULL);
    return params_touch(kernel_of(func, kernel), params, extra, what);
}

static bool kernel_v1_touches(const CUDA_KERNEL_NODE_PARAMS_v1 *params, const char *what)
{
    return params
            && hooks_graph_kernel_touches(
                    params->func, NULL, params->kernelParams, params->extra, what);
}

static bool kernel_v2_touches(const CUDA_KERNEL_NODE_PARAMS *params, const char *what)
{
    return params
            && hooks_graph_kernel_touches(
                    params->func, params->kern, params->kernelParams, params->extra, what);
}

static bool copy_touches(const CUDA_MEMCPY3D *copy, const char *what)
{
    return ARGCHECK_COPY_3D(copy, what);
}

static bool memset_touches(const CUDA_MEMSET_NODE_PARAMS *set, const char *what)
{
    return set
            && argcheck_rows(
                    set->dst, set->pitch, set->width * set->elementSize, set->height, what);
}

static bool words_touch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch, const char *what)
{
    return batch && params_words_touch(batch->paramArray, batch->count, what);
}

/* The graph of a child node: first in the union since 12.2; cuda_abi.h need not name it. */
static CUgraph hooks_graph_child_of(const CUgraphNodeParams *params)
{
    return (CUgraph)(uintptr_t)params->reserved1[0];
}

static void child_touches(CUgraph child)
{
    if (guard_thread.pins)
        pins_copy(guard_thread.pins, PINS_OF_GRAPH, graphnodes_owner(hooks_graph_key(child)));
}

/*
 * The value after the graph of a child node in its description, since 12.9:
 * CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE.
 */
#define OWNERSHIP_MOVE 1u

/* Whether the graph itself becomes the node's, and not a copy of it. */
static bool child_moves(const CUgraphNodeParams *params)
{
    return params->type == CU_GRAPH_NODE_TYPE_GRAPH
            && (unsigned)params->reserved1[1] == OWNERSHIP_MOVE;
}

/* All members of the union since 13.4 are at its start. */
static bool copies_touch(const CUgraphNodeParams *params, const char *what)
{
    CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 batch;

    memcpy(&batch, params->reserved1, sizeof batch);
    return argcheck_copies(batch.dsts, batch.srcs, batch.sizes, batch.count, what);
}

static bool fabric_touches(const CUgraphNodeParams *params, const char *what)
{
    CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 batch;

    memcpy(&batch, params->reserved1, sizeof batch);
    return argcheck_fabric(batch.opList, batch.numOps, what);
}

static bool node_touches(const CUgraphNodeParams *params, const char *what)
{
    if (!params)
        return false;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return hooks_graph_kernel_touches(params->kernel.func, params->kernel.kern,
                params->kernel.kernelParams, params->kernel.extra, what);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_touches(&params->memcpy.copyParams, what);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return argcheck_rows(params->memset.dst, params->memset.pitch,
                params->memset.width * params->memset.elementSize, params->memset.height, what);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (!child_moves(params)) /* a moved child brings its pins with it */
            child_touches(hooks_graph_child_of(params));
        return false;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return params_words_touch(params->memOp.paramArray, params->memOp.count, what);
    /* its bodies are graphs of their own, and run with this one */
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return argcheck_untold();
    case CU_GRAPH_NODE_TYPE_MEMCPY_BATCH:
        return copies_touch(params, what);
    case CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH:
        return fabric_touches(params, what);
    default: /* semaphores and the like name no memory; kinds of a later driver may */
        return params->type > CU_GRAPH_NODE_TYPE_CONDITIONAL && argcheck_untold();
    }
}

/* The instance's node got these parameters. */
static void node_runs(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        graphkernels_set(exec, node, kernel_of(params->kernel.func, params->kernel.kern));
    else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        graphkernels_set_child(exec, node, hooks_graph_child_of(params));
}

/* ---- nodes of graphs ------------------------------------------------------------------------ */

static CUresult added(struct pins *pins, CUresult result, CUgraph graph, const CUgraphNode *node)
{
    bool is_wanted = guard_thread.pins != NULL;

    guard_thread.pins = NULL;
    /* only the driver knows the device that it runs on */
    if (is_wanted && guard_has(GUARD_DEVICES))
        pins_runs_on(pins, REACH_ALL);
    if (result == CUDA_SUCCESS && node && is_wanted)
        graphnodes_note(hooks_graph_key(graph), hooks_graph_key(*node));
    pins_settle(pins, result == CUDA_SUCCESS, PINS_OF_GRAPH,
            graphnodes_owner(hooks_graph_key(graph)), node ? hooks_graph_key(*node) : 0);
    hooks_graph_end();
    return result;
}

/*
 * Graphs that become a part of this one: a child that was moved into it, the bodies of a
 * conditional node.
 */
static void embedded(CUgraph graph, const CUgraphNodeParams *params)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);
    CUgraph const *bodies = (CUgraph const *)(uintptr_t)params->reserved1[2];
    unsigned count = (unsigned)((unsigned long long)params->reserved1[1] >> 32);

    if (child_moves(params)) {
        pins_take(&pins, PINS_OF_GRAPH, hooks_graph_key(hooks_graph_child_of(params)));
        graphnodes_embed(hooks_graph_key(graph), hooks_graph_key(hooks_graph_child_of(params)));
        pins_give(&pins, PINS_OF_GRAPH, graphnodes_owner(hooks_graph_key(graph)), PINS_SAME_PARTS);
    }
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        for (unsigned i = 0; bodies && i < count; i++)
            graphnodes_embed(hooks_graph_key(graph), hooks_graph_key(bodies[i]));
}

/*
 * A node's earlier pins are undone once the new ones are in. A node of an unknown graph keeps both
 * for good.
 */
static CUresult changed(
        struct pins *pins, CUresult result, enum pins_owner owner, uint64_t id, CUgraphNode node)
{
    struct pins before = PINS_NONE(POOL_PIN_GRAPH);

    guard_thread.pins = NULL;
    if (result != CUDA_SUCCESS) {
        pins_undo(pins);
    } else if (id == 0) {
        pins_keep(pins);
    } else {
        /* it may run on another device than before */
        if (owner == PINS_OF_GRAPH && guard_has(GUARD_DEVICES))
            pins_runs_on(pins, REACH_ALL);
        pins_take_parts(&before, owner, id, hooks_graph_key(node), hooks_graph_key(node) + 1, -1);
        pins_give(pins, owner, id, hooks_graph_key(node));
        pins_undo(&before);
    }
    hooks_graph_end();
    return result;
}

/*
 * A hook for a call whose memory is checked, and pinned for the owner in `then`. `first` runs
 * before entering, `done` after success.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define NAMES(symbol, params, args, first, check, done, then)                   \
    CUresult symbol params                                                      \
    {                                                                           \
        first;                                                                  \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                             \
        struct pins pins;                                                       \
        if (!hooks_graph_begin(&pins, SLOT_##symbol))                                       \
            return REAL(symbol) args;                                           \
        if (!(check))                                                           \
            result = REAL(symbol) args;                                         \
        if (hookrow_again(result))                                              \
            result = REAL(symbol) args;                                         \
        if (result == CUDA_SUCCESS)                                             \
            done;                                                               \
        return then;                                                            \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#define ADD(symbol, params, args, check)                                        \
    NAMES(symbol, params, args, (void)0, check, (void)0, added(&pins, result, graph, ret_node))
#define SET(symbol, params, args, check)                                        \
    SET_WITH(symbol, params, args, (void)0, check)
#define SET_WITH(symbol, params, args, first, check)                            \
    NAMES(symbol, params, args, first, check, (void)0,                          \
            changed(&pins, result, PINS_OF_GRAPH, graphnodes_graph(hooks_graph_key(node)), node))
#define SET_EXEC(symbol, params, args, check)                                   \
    SET_EXEC_WITH(symbol, params, args, (void)0, check, (void)0)
#define SET_EXEC_WITH(symbol, params, args, first, check, runs)                 \
    NAMES(symbol, params, args, first, check, runs,                             \
            changed(&pins, result, PINS_OF_EXEC, hooks_graph_key(exec), node))

ADD(cuGraphAddKernelNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (ret_node, graph, deps, count, params), kernel_v1_touches(params, __func__))
ADD(cuGraphAddKernelNode_v2,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_KERNEL_NODE_PARAMS *params),
        (ret_node, graph, deps, count, params), kernel_v2_touches(params, __func__))
ADD(cuGraphAddMemcpyNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_MEMCPY3D *copy, CUcontext ctx),
        (ret_node, graph, deps, count, copy, ctx), copy_touches(copy, __func__))
ADD(cuGraphAddMemsetNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx),
        (ret_node, graph, deps, count, set, ctx), memset_touches(set, __func__))
ADD(cuGraphAddBatchMemOpNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
        (ret_node, graph, deps, count, batch), (hostwait_in_graph(), words_touch(batch, __func__)))
ADD(cuGraphAddChildGraphNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child),
        (ret_node, graph, deps, count, child), (child_touches(child), false))
/* clang-format on */

/*
 * A graph records events without a call that kedge sees. A node of an unknown kind may wait for the
 * host.
 */
static void look_at_kind(const CUgraphNodeParams *params)
{
    switch (params ? params->type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        event_order_end();
        break;
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        break;
    default:
        hostwait_in_graph();
    }
}

/*
 * Host nodes get a function of ours; whether the call is the program's is determined before
 * entering (hostfn.h).
 */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define GIVEN                                                                   \
    CUgraphNodeParams copy;                                                     \
    CUgraphNodeParams *given = hostfn_node(params, &copy);                      \
    look_at_kind(params)
#define ADD_ANY(symbol, params_list, args)                                      \
    CUresult symbol params_list                                                 \
    {                                                                           \
        GIVEN;                                                                  \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                             \
        struct pool_ladder ladder = {.waits = 0};                               \
        struct pins pins;                                                       \
        if (!hooks_graph_begin(&pins, SLOT_##symbol))                                       \
            return REAL(symbol) args;                                           \
        if (!node_touches(params, __func__))                                    \
            result = REAL(symbol) args;                                         \
        if (graphmem_wants_room(params, result, &ladder))                       \
            result = REAL(symbol) args;                                         \
        graphmem_refused(params, result, &ladder);                              \
        if (result == CUDA_SUCCESS && params) {                                 \
            graphmem_added(graph, params);                                      \
            embedded(graph, params);                                            \
        }                                                                       \
        return added(&pins, result, graph, ret_node);                           \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

ADD_ANY(cuGraphAddNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                CUgraphNodeParams *params),
        (ret_node, graph, deps, count, given))
ADD_ANY(cuGraphAddNode_v2,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                size_t count, CUgraphNodeParams *params),
        (ret_node, graph, deps, edges, count, given))
ADD_ANY(cuGraphAddNode_v3,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                size_t count, CUgraphNodeParams *params),
        (ret_node, graph, deps, edges, count, given))
/* clang-format on */

/* clang-format off */
SET(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (node, params), kernel_v1_touches(params, __func__))
SET(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (node, params), kernel_v2_touches(params, __func__))
SET(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *copy), (node, copy),
        copy_touches(copy, __func__))
SET(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set), (node, set),
        memset_touches(set, __func__))

SET(cuGraphBatchMemOpNodeSetParams, (CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
        (node, batch), words_touch(batch, __func__))

SET_EXEC(cuGraphExecBatchMemOpNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch),
        (exec, node, batch), words_touch(batch, __func__))
SET_EXEC_WITH(cuGraphExecKernelNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (exec, node, params), (void)0, kernel_v1_touches(params, __func__),
        graphkernels_set(exec, node, params->func))
SET_EXEC_WITH(cuGraphExecKernelNodeSetParams_v2,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (exec, node, params), (void)0, kernel_v2_touches(params, __func__),
        graphkernels_set(exec, node, kernel_of(params->func, params->kern)))
SET_EXEC(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx),
        (exec, node, copy, ctx), copy_touches(copy, __func__))
SET_EXEC(cuGraphExecMemsetNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx),
        (exec, node, set, ctx), memset_touches(set, __func__))
SET_EXEC_WITH(cuGraphExecChildGraphNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, CUgraph child), (exec, node, child), (void)0,
        (child_touches(child), false), graphkernels_set_child(exec, node, child))

SET_WITH(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *params), (node, given),
        GIVEN, node_touches(params, __func__))
SET_WITH(cuGraphNodeSetParams_v2, (CUgraphNode node, CUgraphNodeParams *params), (node, given),
        GIVEN, node_touches(params, __func__))
SET_EXEC_WITH(cuGraphExecNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params), (exec, node, given),
        GIVEN, node_touches(params, __func__), node_runs(exec, node, params))
/* clang-format on */

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);
    uint64_t key = hooks_graph_key(node);
    uint64_t graph;
    CUresult result;

    if (!life_enter(SLOT_cuGraphDestroyNode))
        return REAL(cuGraphDestroyNode)(node);
    graph = graphnodes_graph(key);
    if (graph)
        pins_take_parts(&pins, PINS_OF_GRAPH, graph, key, key + 1, -1);
    /* before the call: the handle may be reused for another node at once */
    graphnodes_node_gone(key);
    result = REAL(cuGraphDestroyNode)(node);
    if (result != CUDA_SUCCESS)
        graphnodes_note(graph, key);
    pins_end(&pins, result == CUDA_SUCCESS, PINS_OF_GRAPH, graph);
    life_leave();
    return result;
}

/* ---- instances, copies, ends ---------------------------------------------------------------- */

/* Before the driver copies a graph, its blocks are pinned once more, for the copy. */
static bool hooks_graph_begin_copy(struct pins *pins, int slot, CUgraph graph)
{
    if (!life_enter(slot))
        return false;
    *pins = PINS_NONE(POOL_PIN_GRAPH);
    if (session_pool || uses_on())
        pins_copy(pins, PINS_OF_GRAPH, graphnodes_owner(hooks_graph_key(graph)));
    return true;
}

static CUresult hooks_graph_copied(
        struct pins *pins, CUresult result, enum pins_owner owner, uint64_t id)
{
    pins_settle(pins, result == CUDA_SUCCESS, owner, id, PINS_SAME_PARTS);
    if (result == CUDA_SUCCESS && owner == PINS_OF_EXEC)
        launches_made(id);
    life_leave();
    return result;
}

/*
 * An instance needs memory of its own, for its nodes and on the device (R81, shared OOM retry).
 * True: kedge has freed some; make the call once more.
 */
static bool lacks_memory(CUresult result, struct pool_ladder *ladder)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY
            && dispatch_make_room((int)result, 0, dispatch_device(), ladder);
}

static void made(CUgraph graph, CUgraphExec exec)
{
    graphmem_instantiated(hooks_graph_key(graph), hooks_graph_key(exec));
    graphkernels_made(exec, graph);
}

/* The stream that an instance is uploaded on when it is made. */
static CUstream upload_stream(const CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    const struct {
        cuuint64_t flags;
        CUstream stream;
    } *head = (const void *)params; /* its beginning (CUDA driver API) */

    return head && head->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? head->stream : STREAM_NONE;
}

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define INSTANTIATE(symbol, params, args)                                       \
    CUresult symbol params                                                      \
    INSTANTIATE_BODY(symbol, args)
#define INSTANTIATE_ON(symbol, per_thread)                                      \
    ON_STREAM(symbol,                                                           \
            (CUgraphExec *ret_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), \
            upload_stream(params), per_thread,                                  \
            INSTANTIATE_BODY(symbol, (ret_exec, graph, params)))
#define INSTANTIATE_BODY(symbol, args)                                          \
    {                                                                           \
        struct pool_ladder ladder = {.waits = 0};                               \
        struct pins pins;                                                 \
        CUresult result;                                                        \
        if (!hooks_graph_begin_copy(&pins, SLOT_##symbol, graph))                           \
            return REAL(symbol) args;                                           \
        result = REAL(symbol) args;                                             \
        if (lacks_memory(result, &ladder))                                      \
            result = REAL(symbol) args;                                         \
        if (result == CUDA_ERROR_OUT_OF_MEMORY)                                 \
            dispatch_refused((int)result, 0, dispatch_device(), &ladder);         \
        if (result == CUDA_SUCCESS)                                             \
            made(graph, *ret_exec);                                             \
        return hooks_graph_copied(&pins, result, PINS_OF_EXEC, result == CUDA_SUCCESS ? hooks_graph_key(*ret_exec) : 0); \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

INSTANTIATE(cuGraphInstantiate,
        (CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *error, char *log, size_t size),
        (ret_exec, graph, error, log, size))
INSTANTIATE(cuGraphInstantiate_v2,
        (CUgraphExec *ret_exec, CUgraph graph, CUgraphNode *error, char *log, size_t size),
        (ret_exec, graph, error, log, size))
INSTANTIATE(cuGraphInstantiateWithFlags,
        (CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags), (ret_exec, graph, flags))
INSTANTIATE_ON(cuGraphInstantiateWithParams, false)
INSTANTIATE_ON(cuGraphInstantiateWithParams_ptsz, true)
/* clang-format on */

/* Maps a node of a graph to its node in the clone; nodes deeper inside are not distinguished. */
static uint64_t node_of_clone(uint64_t node, void *clone)
{
    CUgraphNode copy = NULL;

    if (!node
            || REAL(cuGraphNodeFindInClone)(&copy, (CUgraphNode)(uintptr_t)node, clone)
                    != CUDA_SUCCESS)
        return 0;
    graphnodes_note(hooks_graph_key(clone), hooks_graph_key(copy));
    return hooks_graph_key(copy);
}

CUresult cuGraphClone(CUgraph *ret_graph, CUgraph graph)
{
    struct pins pins;
    CUresult result;

    if (!hooks_graph_begin_copy(&pins, SLOT_cuGraphClone, graph))
        return REAL(cuGraphClone)(ret_graph, graph);
    result = REAL(cuGraphClone)(ret_graph, graph);
    if (hookrow_again(result))
        result = REAL(cuGraphClone)(ret_graph, graph);
    if (result == CUDA_SUCCESS)
        pins_map_parts(&pins, node_of_clone, *ret_graph);
    return hooks_graph_copied(
            &pins, result, PINS_OF_GRAPH, result == CUDA_SUCCESS ? hooks_graph_key(*ret_graph) : 0);
}

/* An update replaces all memory that the instance names. */
static CUresult updated(struct pins *pins, CUresult result, CUgraphExec exec, CUgraph graph)
{
    struct pins before = PINS_NONE(POOL_PIN_GRAPH);

    if (result == CUDA_SUCCESS) {
        pins_take(&before, PINS_OF_EXEC, hooks_graph_key(exec));
        graphkernels_updated(exec, graph);
    }
    result = hooks_graph_copied(pins, result, PINS_OF_EXEC, hooks_graph_key(exec));
    pins_undo(&before);
    return result;
}

/*
 * The state of a graph or an instance is set aside before the driver is asked to end it, under an
 * odd number that is no handle, because the handle may be reused before the call returns.
 * Afterwards the state is dropped, or put back.
 */
static void move_known(uint64_t from, uint64_t to)
{
    launches_move(from, to);
    graphkernels_move((CUgraphExec)(uintptr_t)from, (CUgraphExec)(uintptr_t)to);
    graphmem_move(from, to);
}

static void set_aside(uint64_t object, uint64_t aside, bool ended)
{
    if (!ended) {
        move_known(aside, object);
        return;
    }
    launches_gone(aside);
    graphkernels_gone((CUgraphExec)(uintptr_t)aside);
    graphmem_gone(aside);
}

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define UPDATES(symbol, params, args)                                           \
    CUresult symbol params                                                      \
    {                                                                           \
        struct pins pins;                                                       \
        CUresult result;                                                        \
        if (!hooks_graph_begin_copy(&pins, SLOT_##symbol, graph))                           \
            return REAL(symbol) args;                                           \
        result = REAL(symbol) args;                                             \
        if (hookrow_again(result))                                              \
            result = REAL(symbol) args;                                         \
        return updated(&pins, result, exec, graph);                             \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

UPDATES(cuGraphExecUpdate,
        (CUgraphExec exec, CUgraph graph, CUgraphNode *error, CUgraphExecUpdateResult *ret_result),
        (exec, graph, error, ret_result))
UPDATES(cuGraphExecUpdate_v2,
        (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret_info),
        (exec, graph, ret_info))
/*
 * An instance may be destroyed while a launch of it runs: blocks that it kept are reused after a
 * fence, like any freed block.
 */
HOOKROW_OWNER(cuGraphDestroy, CUgraph, PINS_OF_GRAPH, hooks_graph_key(object),
        (graphnodes_gone(hooks_graph_key(object)), move_known(hooks_graph_key(object), hooks_graph_key(&pins) | 1)),
        set_aside(hooks_graph_key(object), hooks_graph_key(&pins) | 1, result == CUDA_SUCCESS))
HOOKROW_OWNER(cuGraphExecDestroy, CUgraphExec, PINS_OF_EXEC, hooks_graph_key(object),
        move_known(hooks_graph_key(object), hooks_graph_key(&pins) | 1),
        set_aside(hooks_graph_key(object), hooks_graph_key(&pins) | 1, result == CUDA_SUCCESS))
HOOKROW(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int is_on),
        (exec, node, is_on), graphkernels_switched(exec, node, is_on != 0))
/* clang-format on */

/* ---- nodes and graphs that the driver returns ----------------------------------------------- */

/*
 * Notes the nodes of a known graph, whose parameters the program may set. `from` or the driver has
 * filled the list.
 */
static void nodes_told(uint64_t graph, const CUgraphNode *nodes, const size_t *count)
{
    if (!graph || !nodes || !count || !(session_pool || uses_on()))
        return;
    for (size_t i = 0; i < *count; i++)
        graphnodes_note(graph, hooks_graph_key(nodes[i]));
}

static void edges_told(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const size_t *count)
{
    nodes_told(hooks_graph_key(graph), from, count);
    nodes_told(hooks_graph_key(graph), to, count);
}

static void capture_told(const CUstreamCaptureStatus *status, const CUgraph *graph,
        const CUgraphNode *const *nodes, const size_t *count)
{
    if (status && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph && nodes)
        nodes_told(hooks_graph_key(*graph), *nodes, count);
}

/* clang-format off */
HOOKROW(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count),
        nodes_told(hooks_graph_key(graph), nodes, count))
HOOKROW(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count),
        nodes_told(hooks_graph_key(graph), nodes, count))
HOOKROW(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
        (graph, from, to, count), edges_told(graph, from, to, count))
HOOKROW(cuGraphGetEdges_v2,
        (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count),
        (graph, from, to, edges, count), edges_told(graph, from, to, count))
#define NEIGHBOURS(symbol)                                                                \
    HOOKROW(symbol, (CUgraphNode node, CUgraphNode *nodes, size_t *count),                \
            (node, nodes, count), nodes_told(graphnodes_graph(hooks_graph_key(node)), nodes, count))  \
    HOOKROW(symbol##_v2,                                                                  \
            (CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count), \
            (node, nodes, edges, count),                                                  \
            nodes_told(graphnodes_graph(hooks_graph_key(node)), nodes, count))
NEIGHBOURS(cuGraphNodeGetDependencies)
NEIGHBOURS(cuGraphNodeGetDependentNodes)
HOOKROW(cuGraphNodeFindInClone, (CUgraphNode *ret_node, CUgraphNode node, CUgraph clone),
        (ret_node, node, clone), nodes_told(hooks_graph_key(clone), ret_node, &(const size_t){1}))
HOOKROW(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *ret_graph), (node, ret_graph),
        graphnodes_embed(graphnodes_graph(hooks_graph_key(node)), hooks_graph_key(*ret_graph)))
#define CAPTURE_INFO(symbol, params, args)                                                \
    HOOKROW_ON(symbol, params, args, STREAM_NONE, false,                                  \
            capture_told(status, graph, nodes, count))
#define CAPTURE_INFO_2                                                                    \
    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,      \
            const CUgraphNode **nodes, size_t *count)
#define CAPTURE_INFO_3                                                                    \
    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,      \
            const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
CAPTURE_INFO(cuStreamGetCaptureInfo_v2, CAPTURE_INFO_2, (stream, status, id, graph, nodes, count))
CAPTURE_INFO(cuStreamGetCaptureInfo_v2_ptsz, CAPTURE_INFO_2, (stream, status, id, graph, nodes, count))
CAPTURE_INFO(cuStreamGetCaptureInfo_v3, CAPTURE_INFO_3, (stream, status, id, graph, nodes, edges, count))
CAPTURE_INFO(cuStreamGetCaptureInfo_v3_ptsz, CAPTURE_INFO_3, (stream, status, id, graph, nodes, edges, count))
/* clang-format on */

/* ---- launches ------------------------------------------------------------------------------- */

/*
 * A launch has no arguments to check: the memory of its nodes is used or, if the launch is
 * captured, the instance becomes a child.
 */
static __attribute__((noinline)) bool launched_among_hints(CUgraphExec exec)
{
    argcheck_runs(pins_devices(PINS_OF_EXEC, hooks_graph_key(exec)));
    if (guard_thread.pins)
        pins_copy(guard_thread.pins, PINS_OF_EXEC, hooks_graph_key(exec));
    else if (uses_on())
        pins_use(PINS_OF_EXEC, hooks_graph_key(exec), &guard_thread.moment);
    return guard_thread.bring
            && (pins_bring(PINS_OF_EXEC, hooks_graph_key(exec))
                    || evict_in_ready() != CUDA_SUCCESS);
}

/* True: the launch must not be made. */
static inline __attribute__((always_inline)) bool launched(CUgraphExec exec)
{
    if (__builtin_expect(guard_thread.pins || guard_thread.bring || guard_thread.from, 0))
        return launched_among_hints(exec);
    if (uses_on())
        pins_use(PINS_OF_EXEC, hooks_graph_key(exec), &guard_thread.moment);
    return false;
}

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define LAUNCH(symbol, per_thread)                                              \
    ON_STREAM(symbol, (CUgraphExec exec, CUstream stream), stream, per_thread,  \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                             \
        struct submit submit;                                                   \
        bool is_event = false;                                                  \
        if (guard_is_idle()) {                                                  \
            SUBMIT_CALL(symbol, REAL(symbol)(exec, stream), false);                         \
            return result;                                                      \
        }                                                                       \
        if (guard_has(GUARD_LAUNCHES))                                          \
            is_event = launches_graph_begins(exec, stream, per_thread);         \
        if (!submit_begin(&submit, stream, per_thread)) {                       \
            SUBMIT_CALL(symbol, REAL(symbol)(exec, stream), false);                         \
        } else {                                                                \
            if (!launched(exec))                                                \
                SUBMIT_CALL(symbol, REAL(symbol)(exec, stream), true);                      \
            result = submit_end(&submit, result);                               \
        }                                                                       \
        if (is_event)                                                           \
            submit_event_end();                                                 \
        if (result == CUDA_SUCCESS && guard_has(GUARD_LAUNCHES)) {              \
            launches_graph(exec, stream, per_thread);                           \
            graphmem_launched(hooks_graph_key(exec));                                       \
        }                                                                       \
        return result;                                                          \
    )
/* NOLINTEND(bugprone-macro-parentheses) */

LAUNCH(cuGraphLaunch, false)
LAUNCH(cuGraphLaunch_ptsz, true)
/* An instance allocates its memory at its upload, or else at its first launch. */
HOOKROW_LOAD_ON(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream), stream, false, (void)0)
HOOKROW_LOAD_ON(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream), stream, true, (void)0)
/* clang-format on */

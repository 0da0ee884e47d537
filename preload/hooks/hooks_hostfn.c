/* SPDX-License-Identifier: MIT */
/*
 * Host functions: in a stream, in a capture, as nodes of a graph. The driver runs a function of
 * ours, which marks the thread as one that must make no driver call, and calls the program's
 * (hostfn.h, R38). A captured callback is a node too: the driver's answers about a node are
 * translated to what the program put there.
 */
#include "preload/driver/contexts.h"
#include "preload/driver/hostwait.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/hostfn.h"

/* ---- in a stream ---------------------------------------------------------------------------- */

/*
 * A graph may run a captured function any number of times. Only the driver knows whether the call
 * is captured: a capture may have begun by an entry that has no hook.
 */
static struct hostfn hostfn_wrap(
        CUhostFn fn, CUstreamCallback callback, void *data, CUstream stream, bool per_thread)
{
    return stream_is_captured(stream_named(stream, per_thread)) ? hostfn_kept(fn, callback, data)
                                                                : hostfn_once(fn, callback, data);
}

static CUresult hooks_hostfn_started(struct hostfn *given, CUresult result)
{
    if (result != CUDA_SUCCESS)
        hostfn_cancel(given);
    life_leave();
    return result;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define HOSTFN(symbol, per_thread, params, args, given_args)                          \
    ON_STREAM(symbol, params, stream, per_thread,                                     \
        struct hostfn given;                                                          \
        if (!life_enter(SLOT_##symbol))                                               \
            return REAL(symbol) args;                                                 \
        given = hostfn_wrap(fn, NULL, data, stream, per_thread);                             \
        return hooks_hostfn_started(&given, REAL(symbol) given_args);                              \
    )
#define HOSTFN_V1(symbol, per_thread)                                                 \
    HOSTFN(symbol, per_thread, (CUstream stream, CUhostFn fn, void *data),            \
            (stream, fn, data), (stream, given.fn, given.data))
#define HOSTFN_V2(symbol, per_thread)                                                 \
    HOSTFN(symbol, per_thread,                                                        \
            (CUstream stream, CUhostFn fn, void *data, unsigned int sync_mode),       \
            (stream, fn, data, sync_mode), (stream, given.fn, given.data, sync_mode))
#define CALLBACK(symbol, per_thread)                                                  \
    ON_STREAM(symbol,                                                                 \
            (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags), \
            stream, per_thread,                                                       \
        struct hostfn given;                                                          \
        if (!life_enter(SLOT_##symbol))                                               \
            return REAL(symbol)(stream, callback, data, flags);                       \
        given = hostfn_wrap(NULL, callback, data, stream, per_thread);                       \
        return hooks_hostfn_started(&given, REAL(symbol)(stream, given.callback, given.data, flags)); \
    )

HOSTFN_V1(cuLaunchHostFunc, false)
HOSTFN_V1(cuLaunchHostFunc_ptsz, true)
HOSTFN_V2(cuLaunchHostFunc_v2, false)
HOSTFN_V2(cuLaunchHostFunc_v2_ptsz, true)
CALLBACK(cuStreamAddCallback, false)
CALLBACK(cuStreamAddCallback_ptsz, true)
/* clang-format on */

/* ---- as a node ------------------------------------------------------------------------------ */

/* clang-format off */
#define NODE(symbol, params, args)                                                    \
    CUresult symbol params                                                            \
    {                                                                                 \
        CUDA_HOST_NODE_PARAMS copy;                                                   \
        hostwait_in_graph();                                                          \
        CUresult result = resolve_ready() ? REAL(symbol) args : resolve_missing();    \
        if (life_enter(SLOT_##symbol))                                                \
            life_leave();                                                             \
        return result;                                                                \
    }

NODE(cuGraphAddHostNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count,
                const CUDA_HOST_NODE_PARAMS *host),
        (ret_node, graph, deps, count, hostfn_host_node(host, &copy)))
NODE(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host),
        (node, hostfn_host_node(host, &copy)))
NODE(cuGraphExecHostNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host),
        (exec, node, hostfn_host_node(host, &copy)))
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

static void node_told(CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_HOST)
        hostfn_original(&params->host);
}

HOOKROW_LOAD(cuGraphNodeGetParams, (CUgraphNode node, CUgraphNodeParams *made), (node, made),
        node_told(made))
HOOKROW_LOAD(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *made),
        (node, made), hostfn_original(made))

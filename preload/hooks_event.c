/* SPDX-License-Identifier: MIT */
/* Events: what ties streams to each other (R69, R72), and whatever else records one. */
#include "preload/follow.h"
#include "preload/hookrow.h"

/* ---- beginnings and ends -------------------------------------------------------------------- */

/* A context that ends takes its events with it, and other interfaces make some. So a handle is looked at when an event comes, and when one
 * goes. */
HOOKROW_LOAD(cuEventCreate, (CUevent * ret_event, unsigned int flags), (ret_event, flags),
        follow_forget(*ret_event))

CUresult cuEventDestroy(CUevent event)
{
    follow_forget(event);
    return resolve_ready() ? REAL(cuEventDestroy)(event) : resolve_missing();
}

CUresult cuEventDestroy_v2(CUevent event)
{
    follow_forget(event);
    return resolve_ready() ? REAL(cuEventDestroy_v2)(event) : resolve_missing();
}

/* ---- records, and waits for them ------------------------------------------------------------ */

/* With a flag the record becomes a node of a graph that is captured. */
static bool covers_with(unsigned flags)
{
    if (flags != 0)
        follow_end();
    return flags == 0;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot stand in parentheses of their own */
/* clang-format off */
#define RECORDS(symbol, params, args, covers, on_stream, per_thread)               \
    CUresult symbol params                                                         \
    {                                                                              \
        bool is_full = covers;                                                     \
        struct follow follow;                                                      \
        CUresult result;                                                           \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        if (!follow_is_on())                                                       \
            return REAL(symbol) args;                                              \
        follow_record_begin(&follow, event, is_full, on_stream, per_thread);       \
        result = REAL(symbol) args;                                                \
        follow_record_end(&follow, result);                                        \
        return result;                                                             \
    }
#define RECORDS_PTSZ(symbol, params, args, covers)                                 \
    RECORDS(symbol, params, args, covers, stream, false)                           \
    RECORDS(symbol##_ptsz, params, args, covers, stream, true)
/* With a flag the wait becomes such a node, and holds no stream. */
#define WAITS(symbol, per_thread)                                                  \
    CUresult symbol(CUstream stream, CUevent event, unsigned int flags)            \
    {                                                                              \
        struct follow follow;                                                      \
        CUresult result;                                                           \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        submit_notice(stream, per_thread);                                         \
        if (!follow_is_on() || flags != 0)                                         \
            return REAL(symbol)(stream, event, flags);                             \
        follow_wait_begin(&follow, event);                                         \
        result = REAL(symbol)(stream, event, flags);                               \
        follow_wait_end(&follow, result, stream, per_thread);                      \
        return result;                                                             \
    }

RECORDS_PTSZ(cuEventRecord, (CUevent event, CUstream stream), (event, stream), true)
RECORDS_PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags),
        (event, stream, flags), covers_with(flags))
RECORDS(cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event), false, NULL, false)
RECORDS(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), (context, event), false, NULL, false)
WAITS(cuStreamWaitEvent, false)
WAITS(cuStreamWaitEvent_ptsz, true)

/* ---- records that are not seen -------------------------------------------------------------- */

#define ENDS(symbol, params, args)                                                 \
    CUresult symbol params                                                         \
    {                                                                              \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        follow_end();                                                              \
        return REAL(symbol) args;                                                  \
    }

ENDS(cuIpcGetEventHandle, (CUipcEventHandle *ret_handle, CUevent event), (ret_handle, event))
ENDS(cuIpcOpenEventHandle, (CUevent *ret_event, CUipcEventHandle handle), (ret_event, handle))
ENDS(cuGraphAddEventRecordNode,
        (CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent event),
        (ret_node, graph, deps, count, event))
ENDS(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), (node, event))
ENDS(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
        (exec, node, event))
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

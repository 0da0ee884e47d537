/* SPDX-License-Identifier: MIT */
/*
 * Events: they order streams (R69, identity of streams; R72, order of supply). Also the other calls
 * that record one.
 */
#include "preload/graph/hookrow.h"
#include "preload/request/event_order.h"

/* ---- beginnings and ends -------------------------------------------------------------------- */

/*
 * A context that ends takes its events with it, and other interfaces create some. So a handle's old
 * state is dropped both when an event is created and when one is destroyed.
 */
HOOKROW_LOAD(cuEventCreate, (CUevent * ret_event, unsigned int flags), (ret_event, flags),
        event_order_forget(*ret_event))

/* `first` runs before the call, inside or outside of kedge. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define AFTER(symbol, params, args, first)                                         \
    CUresult symbol params                                                         \
    {                                                                              \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        first;                                                                     \
        return REAL(symbol) args;                                                  \
    }

AFTER(cuEventDestroy, (CUevent event), (event), event_order_forget(event))
AFTER(cuEventDestroy_v2, (CUevent event), (event), event_order_forget(event))

/* ---- records, and waits for them ------------------------------------------------------------ */

/* With a flag the record becomes a node of the graph that is being captured. */
static bool covers_with(unsigned flags)
{
    if (flags != 0)
        event_order_end();
    return flags == 0;
}

#define RECORD(symbol, args, covers, on_stream, per_thread)                        \
    {                                                                              \
        bool is_full = covers;                                                     \
        struct event_order follow;                                                      \
        CUresult result;                                                           \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        if (!event_order_is_on())                                                       \
            return REAL(symbol) args;                                              \
        event_order_record_begin(&follow, event, is_full, on_stream, per_thread);       \
        result = REAL(symbol) args;                                                \
        event_order_record_end(&follow, result);                                        \
        return result;                                                             \
    }
#define RECORDS_ON(symbol, params, args, covers, per_thread)                       \
    ON_STREAM(symbol, params, stream, per_thread,                                  \
            RECORD(symbol, args, covers, stream, per_thread))
#define RECORDS_PTSZ(symbol, params, args, covers)                                 \
    RECORDS_ON(symbol, params, args, covers, false)                                \
    RECORDS_ON(symbol##_ptsz, params, args, covers, true)
/* Records work of all streams of a context. */
#define RECORDS_ALL(symbol, params, args)                                          \
    CUresult symbol params                                                         \
    RECORD(symbol, args, false, NULL, false)
/* With a flag the wait becomes such a node, and holds up no stream. */
#define WAITS(symbol, per_thread)                                                  \
    ON_STREAM(symbol, (CUstream stream, CUevent event, unsigned int flags), stream, per_thread, \
        struct event_order follow;                                                      \
        CUresult result;                                                           \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        if (!event_order_is_on() || flags != 0)                                         \
            return REAL(symbol)(stream, event, flags);                             \
        event_order_wait_begin(&follow, event);                                         \
        result = REAL(symbol)(stream, event, flags);                               \
        event_order_wait_end(&follow, result, stream, per_thread);                      \
        return result;                                                             \
    )

RECORDS_PTSZ(cuEventRecord, (CUevent event, CUstream stream), (event, stream), true)
RECORDS_PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags),
        (event, stream, flags), covers_with(flags))
RECORDS_ALL(cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event))
RECORDS_ALL(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), (context, event))
WAITS(cuStreamWaitEvent, false)
WAITS(cuStreamWaitEvent_ptsz, true)

/* ---- records that kedge does not see -------------------------------------------------------- */

#define ENDS(symbol, params, args) AFTER(symbol, params, args, event_order_end())

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

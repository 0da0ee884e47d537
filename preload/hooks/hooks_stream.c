/* SPDX-License-Identifier: MIT */
/*
 * Streams: they are numbered when created (R69, identity of streams) and forgotten when destroyed
 * (R5, destroyed streams); captures begin and end (gate.h); the program waits (R78, pool
 * attributes).
 */
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/hostfn.h"
#include "preload/graph/launches.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "preload/request/event_order.h"
#include "preload/request/submit.h"
#include "tracker/capture/uses.h"

/* ---- capture -------------------------------------------------------------------------------- */

static void began(CUresult result, CUstream stream, bool per_thread, bool is_programs)
{
    uint64_t key = stream_capture_key(stream, per_thread);
    struct stream named = {.context = 0};
    bool runs = result == CUDA_SUCCESS;
    uint64_t graph = 0;

    /* a capture ends with the context of its stream, not with the current one */
    if (runs) {
        (void)stream_here(stream, per_thread, &named);
        /* a free must not ask the driver (R2, no driver call in free), so it is asked here */
        if (session_pool || uses_on())
            graph = stream_captured_graph(stream_named(stream, per_thread));
    }
    gate_begin_leave(runs, key, named.context, graph);
    if (runs && is_programs)
        gate_stays(key);
}

/*
 * Whether the driver says that the stream captures no more. If it does not answer (no context is
 * current): true.
 */
static bool hooks_stream_is_over(CUstream named)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult asked = CUDA_ERROR_INVALID_HANDLE;

    if (REAL_HAS(cuStreamIsCapturing))
        asked = REAL(cuStreamIsCapturing)(named, &status);
    if (asked == CUDA_SUCCESS)
        return status == CU_STREAM_CAPTURE_STATUS_NONE;
    return asked == CUDA_ERROR_INVALID_HANDLE || asked == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* False: the capture continues. */
static bool ended(CUresult result, CUstream stream, bool per_thread, const CUgraph *ret_graph)
{
    CUgraph graph = result == CUDA_SUCCESS && ret_graph ? *ret_graph : NULL;
    bool was_one = result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct gate_capture capture;

    if (result != CUDA_SUCCESS && !hooks_stream_is_over(stream_named(stream, per_thread)))
        return false;
    if (gate_ended(stream_capture_key(stream, per_thread), was_one, &capture))
        graphmem_capture_ended(&capture, (uintptr_t)graph);
    else if (result == CUDA_SUCCESS)
        gate_unseen();
    return true;
}

/* The entries differ in their arguments only. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define BEGIN(symbol, params, args, per_thread)                \
    BEGIN_WITH(symbol, params, args, per_thread, (void)0, false)
#define BEGIN_WITH(symbol, params, args, per_thread, first, is_programs) \
    ON_STREAM(symbol, params, STREAM_NONE, per_thread,         \
        bool entered = life_enter(SLOT_##symbol);              \
        CUresult result;                                       \
        if (entered) {                                         \
            first;                                             \
            dispatch_settle();                                 \
            gate_begin_enter();                                \
        }                                                      \
        result = REAL(symbol) args;                            \
        if (entered) {                                         \
            began(result, stream, per_thread, is_programs);    \
            life_leave();                                      \
            if (result == CUDA_SUCCESS)                        \
                launches_capture_begins(stream_capture_key(stream, per_thread)); \
        }                                                      \
        return result;                                         \
    )
#define BEGIN_AGAIN(symbol, per_thread)                        \
    BEGIN_WITH(symbol,                                         \
            (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, \
                    CUgraphRecaptureCallback callback, void *data), \
            (stream, mode, graph, callback, data), per_thread, \
            callback = hostfn_recapture(callback, &data), true)
#define BEGIN_TO_GRAPH_PARAMS                                                                 \
    (CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,   \
            size_t count, CUstreamCaptureMode mode)

BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), false)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), true)
BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), false)
BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), true)
BEGIN_WITH(cuStreamBeginCaptureToGraph, BEGIN_TO_GRAPH_PARAMS, (stream, graph, deps, edges, count, mode), false, (void)0, true)
BEGIN_WITH(cuStreamBeginCaptureToGraph_ptsz, BEGIN_TO_GRAPH_PARAMS, (stream, graph, deps, edges, count, mode), true, (void)0, true)
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph, false)
BEGIN_AGAIN(cuStreamBeginRecaptureToGraph_ptsz, true)
BEGIN(cuStreamBeginCaptureToCig, (CUstream stream, CUstreamCigCaptureParams *params), (stream, params), false)
BEGIN(cuStreamBeginCaptureToCig_ptsz, (CUstream stream, CUstreamCigCaptureParams *params), (stream, params), true)

#define END(symbol, params, args, per_thread, ret_graph)       \
    ON_STREAM(symbol, params, STREAM_NONE, per_thread,         \
        bool entered = life_enter(SLOT_##symbol);              \
        CUresult result = REAL(symbol) args;                   \
        bool over = entered && ended(result, stream, per_thread, ret_graph); \
        if (entered)                                           \
            life_leave();                                      \
        if (over)                                              \
            launches_capture_ends(stream_capture_key(stream, per_thread)); \
        return result;                                         \
    )

#define END_GRAPH(symbol, per_thread)                          \
    END(symbol, (CUstream stream, CUgraph *ret_graph), (stream, ret_graph), per_thread, ret_graph)
#define END_CIG(symbol, per_thread)                            \
    END(symbol, (CUstream stream), (stream), per_thread, NULL)

END_GRAPH(cuStreamEndCapture, false)
END_GRAPH(cuStreamEndCapture_ptsz, true)
END_CIG(cuStreamEndCaptureToCig, false)
END_CIG(cuStreamEndCaptureToCig_ptsz, true)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- beginnings ------------------------------------------------------------------------------ */

/*
 * A stream that the program cannot use yet, so that later orderings are noticed in time. If its
 * number may be asked for (`is_told`: a capture, or hints), it gets one now.
 */
static void made(CUresult result, const CUstream *ret_stream, unsigned flags, bool is_told)
{
    struct stream stream;

    if (result != CUDA_SUCCESS || !ret_stream)
        return;
    if (!(flags & CU_STREAM_NON_BLOCKING) && session_pool)
        stream_made();
    if (is_told)
        (void)stream_here(*ret_stream, false, &stream);
}

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define CREATES(symbol, params, args)                          \
    CUresult symbol params                                     \
    {                                                          \
        CUresult result = resolve_ready() ? REAL(symbol) args : resolve_missing(); \
        bool entered = life_enter(SLOT_##symbol);              \
        if (entered && hookrow_again(result))                  \
            result = REAL(symbol) args;                        \
        made(result, ret_stream, flags,                        \
                entered && (session_records || hints_run.hints)); \
        if (entered)                                           \
            life_leave();                                      \
        return result;                                         \
    }

CREATES(cuStreamCreate, (CUstream *ret_stream, unsigned int flags), (ret_stream, flags))
CREATES(cuStreamCreateWithPriority, (CUstream *ret_stream, unsigned int flags, int priority),
        (ret_stream, flags, priority))
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- ends of streams ------------------------------------------------------------------------ */

/* A capture that this invalidates still counts: no event is recorded on its stream any more. */
static void hooks_stream_going(CUstream stream)
{
    uint64_t identity;

    if (guard_in_callback())
        return;
    identity = stream_identity(stream);
    if (identity && session_pool)
        /* records its last point while that is possible */
        pool_stream_gone(session_pool, identity);
    stream_forget(identity);
}

/* The capture on a stream has another key while the stream is destroyed. */
static void capture_move(uint64_t from, uint64_t to)
{
    gate_move(from, to);
    launches_capture_move(from, to);
}

/* clang-format off */
#define DESTROYS(symbol)                                       \
    CUresult symbol(CUstream stream)                           \
    {                                                          \
        bool entered = life_enter(SLOT_##symbol);              \
        struct gate_capture capture;                           \
        uint64_t aside = (uintptr_t)&capture | 1; /* never the number of a handle */ \
        CUresult result;                                       \
        if (entered) {                                         \
            hooks_stream_going(stream);                                     \
            capture_move((uintptr_t)stream, aside);            \
        }                                                      \
        result = REAL(symbol)(stream);                         \
        if (!entered)                                          \
            return result;                                     \
        if (result != CUDA_SUCCESS)                            \
            capture_move(aside, (uintptr_t)stream);            \
        else if (gate_ended(aside, false, &capture))           \
            graphmem_capture_ended(&capture, 0);                   \
        life_leave();                                          \
        if (result == CUDA_SUCCESS)                            \
            launches_capture_ends(aside);                      \
        return result;                                         \
    }

DESTROYS(cuStreamDestroy)
DESTROYS(cuStreamDestroy_v2)
/* clang-format on */

/* ---- waits of the program -------------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define WAITED(symbol, args, before, after)                    \
    {                                                          \
        CUresult result;                                       \
        before;                                                \
        result = resolve_ready() ? REAL(symbol) args : resolve_missing(); \
        after;                                                 \
        if (life_enter(SLOT_##symbol)) {                       \
            if (result == CUDA_SUCCESS)                        \
                dispatch_synchronised();                       \
            else                                               \
                life_driver_said((int)result);                 \
            life_leave();                                      \
        }                                                      \
        return result;                                         \
    }
#define WAIT(symbol, params, args)                             \
    CUresult symbol params                                     \
    WAITED(symbol, args, (void)0, (void)0)
/* Waits for a part of the work: its event or stream says which earlier frees are covered. */
#define WAITED_FOR(symbol, args, event, stream, per_thread)    \
    WAITED(symbol, args, struct event_order follow;                 \
            event_order_host_begin(&follow, event, stream, per_thread), \
            event_order_host_end(&follow, result))
#define WAIT_EVENT(symbol)                                     \
    CUresult symbol(CUevent event)                             \
    WAITED_FOR(symbol, (event), event, NULL, false)
#define WAIT_ON(symbol, per_thread)                            \
    ON_STREAM(symbol, (CUstream stream), STREAM_NONE, false,   \
            WAITED_FOR(symbol, (stream), NULL, stream, per_thread))

WAIT(cuCtxSynchronize, (void), ())
WAIT(cuCtxSynchronize_v2, (CUcontext context), (context))
WAIT_EVENT(cuEventSynchronize)
WAIT_ON(cuStreamSynchronize, false)
WAIT_ON(cuStreamSynchronize_ptsz, true)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

/* SPDX-License-Identifier: MIT */
/*
 * Streams: captures begin and end (gate.h), streams go away (R5), the program waits (R78).
 */
#include "preload/conduct.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/resolve.h"

/* ---- capture -------------------------------------------------------------------------------- */

static CUstream special(CUstream stream, bool per_thread)
{
    if (stream)
        return stream;
    return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static void began(CUresult result, CUstream stream, bool per_thread)
{
    struct context context = {.generation = 0};
    bool runs = result == CUDA_SUCCESS;

    if (runs)
        (void)context_here(&context);
    gate_begin_leave(runs, (uintptr_t)special(stream, per_thread), context.generation);
}

/* Whether the driver says that the stream captures no more. Where it does not answer (no context is current), it may. */
static bool is_over(CUstream named)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult asked = CUDA_ERROR_INVALID_HANDLE;

    if (REAL_HAS(cuStreamIsCapturing))
        asked = REAL(cuStreamIsCapturing)(named, &status);
    if (asked == CUDA_SUCCESS)
        return status == CU_STREAM_CAPTURE_STATUS_NONE;
    return asked == CUDA_ERROR_INVALID_HANDLE || asked == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void ended(CUresult result, CUstream stream, bool per_thread)
{
    CUstream named = special(stream, per_thread);

    if (result == CUDA_SUCCESS || is_over(named))
        (void)gate_ended((uintptr_t)named);
}

/* The entries differ in their arguments only; what is done around them does not. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot stand in parentheses of their own */
/* clang-format off */
#define BEGIN(symbol, params, args, per_thread)                \
    CUresult symbol params                                     \
    {                                                          \
        bool entered = life_enter(SLOT_##symbol);              \
        CUresult result;                                       \
        if (entered)                                           \
            gate_begin_enter();                                \
        result = REAL(symbol) args;                            \
        if (entered) {                                         \
            began(result, stream, per_thread);                 \
            life_leave();                                      \
        }                                                      \
        return result;                                         \
    }
#define BEGIN_TO_GRAPH_PARAMS                                                                 \
    (CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,   \
            size_t count, CUstreamCaptureMode mode)

BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), false)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), true)
BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), false)
BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), true)
BEGIN(cuStreamBeginCaptureToGraph, BEGIN_TO_GRAPH_PARAMS, (stream, graph, deps, edges, count, mode), false)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, BEGIN_TO_GRAPH_PARAMS, (stream, graph, deps, edges, count, mode), true)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret_graph)
{
    bool entered = life_enter(SLOT_cuStreamEndCapture);
    CUresult result = REAL(cuStreamEndCapture)(stream, ret_graph);

    if (entered) {
        ended(result, stream, false);
        life_leave();
    }
    return result;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret_graph)
{
    bool entered = life_enter(SLOT_cuStreamEndCapture_ptsz);
    CUresult result = REAL(cuStreamEndCapture_ptsz)(stream, ret_graph);

    if (entered) {
        ended(result, stream, true);
        life_leave();
    }
    return result;
}

/* ---- ends of streams ------------------------------------------------------------------------ */

/* A capture that is spoilt by this still counts: nothing is recorded on its stream any more. */
static void going(CUstream stream)
{
    uint64_t identity;

    if (guard_in_callback())
        return;
    identity = stream_identity(stream);
    if (identity && conduct_pool())
        pool_stream_gone(conduct_pool(), identity); /* its last point is recorded while it can be */
    stream_forget(identity);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUresult result;
    bool entered = life_enter(SLOT_cuStreamDestroy_v2);

    if (entered)
        going(stream);
    result = REAL(cuStreamDestroy_v2)(stream);
    if (entered) {
        if (result == CUDA_SUCCESS)
            (void)gate_ended((uintptr_t)stream);
        life_leave();
    }
    return result;
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult result;
    bool entered = life_enter(SLOT_cuStreamDestroy);

    if (entered)
        going(stream);
    result = REAL(cuStreamDestroy)(stream);
    if (entered) {
        if (result == CUDA_SUCCESS)
            (void)gate_ended((uintptr_t)stream);
        life_leave();
    }
    return result;
}

/* ---- waits of the program's ----------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define WAIT(symbol, params, args)                             \
    CUresult symbol params                                     \
    {                                                          \
        CUresult result = resolve_ready() ? REAL(symbol) args : resolve_missing(); \
        if (life_enter(SLOT_##symbol)) {                       \
            if (result == CUDA_SUCCESS)                        \
                conduct_synchronised();                        \
            else                                               \
                life_driver_said((int)result);                 \
            life_leave();                                      \
        }                                                      \
        return result;                                         \
    }

WAIT(cuCtxSynchronize_v2, (CUcontext context), (context))
WAIT(cuEventSynchronize, (CUevent event), (event))
WAIT(cuStreamSynchronize, (CUstream stream), (stream))
WAIT(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

CUresult cuCtxSynchronize(void)
{
    CUresult result = resolve_ready() ? REAL(cuCtxSynchronize)() : resolve_missing();

    if (life_enter(SLOT_cuCtxSynchronize)) {
        if (result == CUDA_SUCCESS)
            conduct_synchronised();
        else
            life_driver_said((int)result);
        life_leave();
    }
    return result;
}

/* SPDX-License-Identifier: MIT */
/* Capture, and graphs as a capture makes them. */
#include "tests/sim/runtime/runtime_core.h"

RUNTIME_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
        cuStreamBeginCapture_v2, (stream, (CUstreamCaptureMode)mode))

RUNTIME_PTSZ(cudaStreamBeginCaptureToGraph,
        (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *deps,
                const cudaGraphEdgeData *edges, size_t deps_count, enum cudaStreamCaptureMode mode),
        cuStreamBeginCaptureToGraph,
        (stream, graph, deps, edges, deps_count, (CUstreamCaptureMode)mode))

RUNTIME_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), cuStreamEndCapture,
        (stream, graph))

typedef CUresult is_capturing_fn(CUstream, CUstreamCaptureStatus *);

static cudaError_t is_capturing(is_capturing_fn *const *entry, cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_status)
        return runtime_fail(cudaErrorInvalidValue);
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    error = runtime_done((*entry)(stream, &status));
    if (error == cudaSuccess)
        *ret_status = (enum cudaStreamCaptureStatus)status;
    return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status)
{
    return is_capturing(&runtime_driver.cuStreamIsCapturing, stream, ret_status);
}

cudaError_t cudaStreamIsCapturing_ptsz(
        cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status)
{
    return is_capturing(&runtime_driver.cuStreamIsCapturing_ptsz, stream, ret_status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    CUstreamCaptureMode raw;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!mode)
        return runtime_fail(cudaErrorInvalidValue);
    raw = (CUstreamCaptureMode)*mode;
    error = runtime_done(DRIVER(cuThreadExchangeStreamCaptureMode, (&raw)));
    if (error == cudaSuccess)
        *mode = (enum cudaStreamCaptureMode)raw;
    return error;
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    return RUNTIME_CALL(cuGraphCreate, (graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return RUNTIME_CALL(cuGraphDestroy, (graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
    return RUNTIME_CALL(cuGraphClone, (clone, graph));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return RUNTIME_CALL(cuGraphGetNodes, (graph, nodes, count));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *ret_type)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_type)
        return runtime_fail(cudaErrorInvalidValue);
    error = runtime_done(DRIVER(cuGraphNodeGetType, (node, &type)));
    if (error == cudaSuccess)
        *ret_type = (enum cudaGraphNodeType)type;
    return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
#if RUNTIME_MAJOR \
        < 12 /* a place for the node that is wrong, and more that is never written where none is */
    flags = 0;
#endif
    return RUNTIME_CALL(cuGraphInstantiateWithFlags, (exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(
        cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return RUNTIME_CALL(cuGraphInstantiateWithFlags, (exec, graph, flags));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return RUNTIME_CALL(cuGraphExecDestroy, (exec));
}

RUNTIME_PTSZ(
        cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphUpload, (exec, stream))

RUNTIME_PTSZ(
        cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphLaunch, (exec, stream))

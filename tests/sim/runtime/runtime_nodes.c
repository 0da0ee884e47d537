/* SPDX-License-Identifier: MIT */
/* Nodes of graphs: made by hand, asked for their parameters, given others; instances that are changed. */
#include "tests/sim/runtime/runtime_nodes.h"

#include "tests/sim/runtime/runtime_core.h"

#include <string.h>

#define AT_PARAMS \
    cudaGraphNode_t *ret_node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count
#define AT ret_node, graph, deps, count

/* Structures that the driver has by other names. */
#define SETS(params_)  ((const CUDA_MEMSET_NODE_PARAMS *)(const void *)(params_))
#define HOSTS(params_) ((const CUDA_HOST_NODE_PARAMS *)(const void *)(params_))

cudaError_t cudaGraphAddEmptyNode(AT_PARAMS)
{
    return RUNTIME_CALL(cuGraphAddEmptyNode, (AT));
}

cudaError_t cudaGraphAddChildGraphNode(AT_PARAMS, cudaGraph_t child)
{
    return RUNTIME_CALL(cuGraphAddChildGraphNode, (AT, child));
}

cudaError_t cudaGraphAddEventRecordNode(AT_PARAMS, cudaEvent_t event)
{
    return RUNTIME_CALL(cuGraphAddEventRecordNode, (AT, event));
}

cudaError_t cudaGraphAddEventWaitNode(AT_PARAMS, cudaEvent_t event)
{
    return RUNTIME_CALL(cuGraphAddEventWaitNode, (AT, event));
}

cudaError_t cudaGraphAddHostNode(AT_PARAMS, const struct cudaHostNodeParams *params)
{
    return RUNTIME_CALL(cuGraphAddHostNode, (AT, HOSTS(params)));
}

cudaError_t cudaGraphAddMemsetNode(AT_PARAMS, const struct cudaMemsetParams *params)
{
    return RUNTIME_CALL(cuGraphAddMemsetNode, (AT, SETS(params), NULL));
}

cudaError_t cudaGraphAddMemAllocNode(AT_PARAMS, struct cudaMemAllocNodeParams *params)
{
    return RUNTIME_CALL(cuGraphAddMemAllocNode, (AT, (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)params));
}

cudaError_t cudaGraphAddMemFreeNode(AT_PARAMS, void *ptr)
{
    return RUNTIME_CALL(cuGraphAddMemFreeNode, (AT, (CUdeviceptr)(uintptr_t)ptr));
}

static CUDA_MEMCPY3D linear(void *dst, const void *src, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
            .srcDevice = (CUdeviceptr)(uintptr_t)src,
            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
            .dstDevice = (CUdeviceptr)(uintptr_t)dst,
            .WidthInBytes = bytes,
            .Height = 1,
            .Depth = 1};
}

cudaError_t cudaGraphAddMemcpyNode1D(
        AT_PARAMS, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = linear(dst, src, bytes);

    (void)kind; /* addresses say it themselves */
    return RUNTIME_CALL(cuGraphAddMemcpyNode, (AT, &copy, NULL));
}

/* Of kernels: what is launched is a function of the host, or a kernel of a library. */
static cudaError_t kernel_params(
        const struct cudaKernelNodeParams *params, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
    CUkernel kernel = NULL;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!params)
        return runtime_fail(cudaErrorInvalidValue);
    error = runtime_kernel(params->func, &kernel);
    if (error != cudaSuccess)
        return error;
    *ret_params = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = params->gridDim.x,
            .gridDimY = params->gridDim.y,
            .gridDimZ = params->gridDim.z,
            .blockDimX = params->blockDim.x,
            .blockDimY = params->blockDim.y,
            .blockDimZ = params->blockDim.z,
            .sharedMemBytes = params->sharedMemBytes,
            .kernelParams = params->kernelParams,
            .extra = params->extra,
            .kern = kernel};
    return cudaSuccess;
}

cudaError_t cudaGraphAddKernelNode(AT_PARAMS, const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS raw;
    cudaError_t error = kernel_params(params, &raw);

    return error != cudaSuccess ? error : runtime_done(DRIVER(cuGraphAddKernelNode_v2, (AT, &raw)));
}

cudaError_t cudaGraphKernelNodeSetParams(
        cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS raw;
    cudaError_t error = kernel_params(params, &raw);

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuGraphKernelNodeSetParams_v2, (node, &raw)));
}

cudaError_t cudaGraphExecKernelNodeSetParams(
        cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS raw;
    cudaError_t error = kernel_params(params, &raw);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuGraphExecKernelNodeSetParams_v2, (exec, node, &raw)));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
        void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = linear(dst, src, bytes);

    (void)kind;
    return RUNTIME_CALL(cuGraphExecMemcpyNodeSetParams, (exec, node, &copy, NULL));
}

/* The rest is the driver's by another name. */
#define SAME(name_, symbol_, params_, args_) \
    cudaError_t name_ params_                \
    {                                        \
        return RUNTIME_CALL(symbol_, args_); \
    }
SAME(cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams,
        (cudaGraphNode_t node, struct cudaMemsetParams *ret_params),
        (node, (CUDA_MEMSET_NODE_PARAMS *)(void *)ret_params))
SAME(cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams,
        (cudaGraphNode_t node, const struct cudaMemsetParams *params), (node, SETS(params)))
SAME(cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams,
        (cudaGraphNode_t node, struct cudaHostNodeParams *ret_params),
        (node, (CUDA_HOST_NODE_PARAMS *)(void *)ret_params))
SAME(cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams,
        (cudaGraphNode_t node, const struct cudaHostNodeParams *params), (node, HOSTS(params)))
SAME(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph,
        (cudaGraphNode_t node, cudaGraph_t *ret_graph), (node, ret_graph))
SAME(cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent,
        (cudaGraphNode_t node, cudaEvent_t *ret_event), (node, ret_event))
SAME(cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent,
        (cudaGraphNode_t node, cudaEvent_t event), (node, event))
SAME(cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent,
        (cudaGraphNode_t node, cudaEvent_t *ret_event), (node, ret_event))
SAME(cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent,
        (cudaGraphNode_t node, cudaEvent_t event), (node, event))
SAME(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams,
        (cudaGraphNode_t node, struct cudaMemAllocNodeParams *ret_params),
        (node, (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)ret_params))
SAME(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams,
        (cudaGraphNode_t node, void *ret_ptr), (node, ret_ptr))
SAME(cudaGraphNodeFindInClone, cuGraphNodeFindInClone,
        (cudaGraphNode_t * ret_node, cudaGraphNode_t node, cudaGraph_t clone),
        (ret_node, node, clone))
SAME(cudaGraphGetRootNodes, cuGraphGetRootNodes,
        (cudaGraph_t graph, cudaGraphNode_t *ret_nodes, size_t *count), (graph, ret_nodes, count))
SAME(cudaGraphDestroyNode, cuGraphDestroyNode, (cudaGraphNode_t node), (node))
SAME(cudaGraphDebugDotPrint, cuGraphDebugDotPrint,
        (cudaGraph_t graph, const char *path, unsigned int flags), (graph, path, flags))
SAME(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams,
        (cudaGraphExec_t * ret_exec, cudaGraph_t graph, cudaGraphInstantiateParams *params),
        (ret_exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)params))
SAME(cudaGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,
        (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemsetParams *params),
        (exec, node, SETS(params), NULL))
SAME(cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,
        (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaHostNodeParams *params),
        (exec, node, HOSTS(params)))
SAME(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child), (exec, node, child))
SAME(cudaGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))
SAME(cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))
SAME(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled,
        (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled), (exec, node, enabled))
SAME(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled,
        (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int *ret_enabled),
        (exec, node, ret_enabled))
#if RUNTIME_MAJOR >= 12 /* before, it had two places for its result */
SAME(cudaGraphExecUpdate, cuGraphExecUpdate_v2,
        (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *ret_info),
        (exec, graph, (CUgraphExecUpdateResultInfo *)(void *)ret_info))
#endif

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *ret_flags)
{
    cuuint64_t flags = 0;
    cudaError_t error = RUNTIME_CALL(cuGraphExecGetFlags, (exec, ret_flags ? &flags : NULL));

    if (error == cudaSuccess)
        *ret_flags = flags;
    return error;
}

SAME(cudaUserObjectCreate, cuUserObjectCreate,
        (cudaUserObject_t * ret_object, void *data, cudaHostFn_t destroy, unsigned int count,
                unsigned int flags),
        (ret_object, data, destroy, count, flags))
SAME(cudaUserObjectRetain, cuUserObjectRetain, (cudaUserObject_t object, unsigned int count),
        (object, count))
SAME(cudaUserObjectRelease, cuUserObjectRelease, (cudaUserObject_t object, unsigned int count),
        (object, count))
SAME(cudaGraphRetainUserObject, cuGraphRetainUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
        (graph, object, count, flags))
SAME(cudaGraphReleaseUserObject, cuGraphReleaseUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count), (graph, object, count))

/* SPDX-License-Identifier: MIT */
/* Prints sizes, offsets and values of what tests/sim/base/sim_abi.h declares: by ours, or by the toolkit's header. */
#ifdef ABI_TOOLKIT
#    define __CUDA_API_VERSION_INTERNAL
#    include <cuda.h>
#    include <cudaProfiler.h>
#    include <cuda_profiler_api.h>
#    include <cuda_runtime_api.h>
#    define KEDGE_ABI_PROTOTYPES_ONLY /* a prototype of ours that differs does not compile */
#    include "tests/sim/base/sim_abi.h"
#    include "tests/sim/runtime/runtime_nodes.h"
/* Structures of the runtime that are passed on as the driver's. */
#    define DRIVERS(type, runtime)     struct runtime
#    define SIDE(field, runtime_field) runtime_field
#else
#    include "tests/sim/base/sim_abi.h"
#    include "tests/sim/runtime/runtime_nodes.h"
#    define DRIVERS(type, runtime)     type
#    define SIDE(field, runtime_field) field
#endif

#include <stddef.h>
#include <stdio.h>

#define TYPE(type)         printf("%s %zu\n", #type, sizeof(type));
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field));
#define SAME(type, runtime, field, runtime_field)                                       \
    printf("%s %zu %s %zu\n", #runtime, sizeof(DRIVERS(type, runtime)), #runtime_field, \
            offsetof(DRIVERS(type, runtime), SIDE(field, runtime_field)));
#define VALUE(name) printf("%s %lld\n", #name, (long long)(name));

int main(void)
{
    TYPE(CUDA_CHILD_GRAPH_NODE_PARAMS)
    FIELD(CUDA_CHILD_GRAPH_NODE_PARAMS, graph)
    FIELD(CUDA_CHILD_GRAPH_NODE_PARAMS, ownership)
    TYPE(CUDA_EVENT_RECORD_NODE_PARAMS)
    FIELD(CUDA_EVENT_RECORD_NODE_PARAMS, event)
    FIELD(CUgraphNodeParams, reserved1)
    VALUE(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    VALUE(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
    TYPE(CUdevprop)
    FIELD(CUdevprop, maxThreadsPerBlock)
    FIELD(CUdevprop, maxThreadsDim)
    FIELD(CUdevprop, maxGridSize)
    FIELD(CUdevprop, sharedMemPerBlock)
    FIELD(CUdevprop, totalConstantMemory)
    FIELD(CUdevprop, SIMDWidth)
    FIELD(CUdevprop, memPitch)
    FIELD(CUdevprop, regsPerBlock)
    FIELD(CUdevprop, clockRate)
    FIELD(CUdevprop, textureAlign)
    FIELD(struct cudaKernelNodeParams, gridDim)
    FIELD(struct cudaKernelNodeParams, blockDim)
    FIELD(struct cudaKernelNodeParams, sharedMemBytes)
    FIELD(struct cudaKernelNodeParams, kernelParams)
    FIELD(struct cudaKernelNodeParams, extra)
    SAME(CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, pitch, pitch)
    SAME(CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, value, value)
    SAME(CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, elementSize, elementSize)
    SAME(CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, width, width)
    SAME(CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, height, height)
    SAME(CUDA_HOST_NODE_PARAMS, cudaHostNodeParams, fn, fn)
    SAME(CUDA_HOST_NODE_PARAMS, cudaHostNodeParams, userData, userData)
    SAME(CUDA_MEM_ALLOC_NODE_PARAMS, cudaMemAllocNodeParams, accessDescs, accessDescs)
    SAME(CUDA_MEM_ALLOC_NODE_PARAMS, cudaMemAllocNodeParams, bytesize, bytesize)
    SAME(CUDA_MEM_ALLOC_NODE_PARAMS, cudaMemAllocNodeParams, dptr, dptr)
    SAME(CUDA_GRAPH_INSTANTIATE_PARAMS, cudaGraphInstantiateParams_st, hUploadStream, uploadStream)
    SAME(CUDA_GRAPH_INSTANTIATE_PARAMS, cudaGraphInstantiateParams_st, hErrNode_out, errNode_out)
    SAME(CUDA_GRAPH_INSTANTIATE_PARAMS, cudaGraphInstantiateParams_st, result_out, result_out)
    SAME(CUgraphExecUpdateResultInfo, cudaGraphExecUpdateResultInfo_st, errorNode, errorNode)
    SAME(CUgraphExecUpdateResultInfo, cudaGraphExecUpdateResultInfo_st, errorFromNode,
            errorFromNode)
    TYPE(CUstreamAttrID)
    TYPE(CUstreamAttrValue)
    VALUE(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    VALUE(CU_GRAPH_USER_OBJECT_MOVE)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
    VALUE(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
    VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX)
    VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)
    VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)
    return 0;
}

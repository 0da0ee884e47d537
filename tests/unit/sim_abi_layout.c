/* SPDX-License-Identifier: MIT */
/* Prints sizes, offsets and values of what tests/sim/sim_abi.h declares: by ours, or by the toolkit's header. */
#ifdef ABI_TOOLKIT
#    define __CUDA_API_VERSION_INTERNAL
#    include <cuda.h>
#    include <cudaProfiler.h>
#    include <cuda_profiler_api.h>
#    include <cuda_runtime_api.h>
#    define KEDGE_ABI_PROTOTYPES_ONLY /* a prototype of ours that differs does not compile */
#    include "tests/sim/sim_abi.h"
#else
#    include "tests/sim/sim_abi.h"
#endif

#include <stddef.h>
#include <stdio.h>

#define TYPE(type)         printf("%s %zu\n", #type, sizeof(type));
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field));
#define VALUE(name)        printf("%s %lld\n", #name, (long long)(name));

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
    TYPE(CUstreamAttrID)
    TYPE(CUstreamAttrValue)
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

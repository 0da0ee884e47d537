/* SPDX-License-Identifier: MIT */
/* A library that asks for memory: who asks decides whether kedge serves it (R20). Also loaded under a framework's name. */
#include "tests/sim/base/program_abi.h"

CUresult ask(__typeof__(&cuMemAlloc_v2) alloc, CUdeviceptr *ret_ptr, size_t size);
CUresult ask_on_stream(
        __typeof__(&cuMemAllocAsync) alloc, CUdeviceptr *ret_ptr, size_t size, CUstream stream);
cudaError_t ask_runtime(void **ret_ptr, size_t size);

CUresult ask(__typeof__(&cuMemAlloc_v2) alloc, CUdeviceptr *ret_ptr, size_t size)
{
    volatile CUresult result =
            alloc(ret_ptr, size); /* a call, so that this library is the caller */

    return result;
}

CUresult ask_on_stream(
        __typeof__(&cuMemAllocAsync) alloc, CUdeviceptr *ret_ptr, size_t size, CUstream stream)
{
    volatile CUresult result = alloc(ret_ptr, size, stream);

    return result;
}

#ifdef ASKS_RUNTIME
cudaError_t ask_runtime(void **ret_ptr, size_t size)
{
    volatile cudaError_t result = cudaMalloc(ret_ptr, size);

    return result;
}
#endif

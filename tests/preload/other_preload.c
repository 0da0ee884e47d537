/* SPDX-License-Identifier: MIT */
/* Another preload behind kedge: it wraps two entries of the driver by symbol, as small tools do. */
#include "preload/cuda_abi.h"

#include <dlfcn.h>

#pragma GCC visibility push(default)
extern int other_allocs, other_syncs;
int other_allocs, other_syncs;
#pragma GCC visibility pop

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size)
{
    static __typeof__(&cuMemAlloc_v2) next;

    if (!next)
        next = (__typeof__(&cuMemAlloc_v2))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    other_allocs++;
    return next ? next(ptr, size) : CUDA_ERROR_NOT_FOUND;
}

CUresult cuCtxSynchronize(void)
{
    static __typeof__(&cuCtxSynchronize) next;

    if (!next)
        next = (__typeof__(&cuCtxSynchronize))dlsym(RTLD_NEXT, "cuCtxSynchronize");
    other_syncs++;
    return next ? next() : CUDA_ERROR_NOT_FOUND;
}

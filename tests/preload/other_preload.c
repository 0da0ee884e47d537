/* SPDX-License-Identifier: MIT */
/* Another preload behind kedge: it wraps two entries of the driver by symbol, as small tools do. */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <string.h>

#pragma GCC visibility push(default)
extern int other_allocs, other_syncs, other_look_ups, other_opens, other_asks;
int other_allocs, other_syncs, other_look_ups, other_opens, other_asks;
#pragma GCC visibility pop

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size)
{
    static __typeof__(&cuMemAlloc_v2) next;

    if (!next)
        next = (__typeof__(&cuMemAlloc_v2))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    other_allocs++;
    return next ? next(ptr, size) : CUDA_ERROR_NOT_FOUND;
}

/* What its look-up hands out is a function of its own, which no symbol names. */
static CUresult nameless_alloc(CUdeviceptr *ptr, size_t size)
{
    return cuMemAlloc_v2(ptr, size);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *symbol_status)
{
    __typeof__(&cuGetProcAddress_v2) next =
            (__typeof__(&cuGetProcAddress_v2))dlsym(RTLD_NEXT, "cuGetProcAddress_v2");
    CUresult result =
            next ? next(symbol, pfn, cuda_version, flags, symbol_status) : CUDA_ERROR_NOT_FOUND;

    other_look_ups++;
    if (result == CUDA_SUCCESS && symbol && strcmp(symbol, "cuMemAlloc") == 0
            && cuda_version >= 3020)
        *pfn = (void *)nameless_alloc;
    return result;
}

CUresult cuCtxSynchronize(void)
{
    static __typeof__(&cuCtxSynchronize) next;

    if (!next)
        next = (__typeof__(&cuCtxSynchronize))dlsym(RTLD_NEXT, "cuCtxSynchronize");
    other_syncs++;
    return next ? next() : CUDA_ERROR_NOT_FOUND;
}

/* It also watches the loader, as heap profilers do. Versions: those of x86-64 and of aarch64. */
static void *libc_has(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");

    return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
}

void *dlopen(const char *file, int mode)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))libc_has("dlopen");

    other_opens++;
    return real ? real(file, mode) : NULL;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
    void *(*real)(void *, const char *) = (void *(*)(void *, const char *))libc_has("dlsym");

    other_asks++;
    return real ? real(handle, name) : NULL;
}

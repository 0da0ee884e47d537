/* SPDX-License-Identifier: MIT */
/*
 * A program that holds memory of several classes when it ends, one block of it asked for by a library with the name of one of
 * CUDA's own. memory_report.py reads the report of it.
 */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <stdio.h>

#define MB ((size_t)1 << 20)

static void *driver;

#define DRIVER(symbol) ((__typeof__(&(symbol)))dlsym(driver, #symbol))

static int fail(const char *what)
{
    printf("memory_program: %s\n", what);
    return 1;
}

static int begin(void)
{
    CUcontext context;

    return driver && DRIVER(cuInit)(0) == CUDA_SUCCESS
            && DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS
            && DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
}

int main(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUresult (*ask)(__typeof__(&cuMemAlloc_v2), CUdeviceptr *, size_t);
    void *library, *host;
    CUdeviceptr ptr;
    CUarray array;

    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!begin())
        return fail("no driver");
    library = dlopen(LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);
    ask = library ? (__typeof__(ask))dlsym(library, "ask") : NULL;
    if (!ask || ask(DRIVER(cuMemAlloc_v2), &ptr, 32 * MB) != CUDA_SUCCESS)
        return fail("the library got no workspace");
    if (DRIVER(cuMemAlloc_v2)(&ptr, 8 * MB) != CUDA_SUCCESS
            || DRIVER(cuMemAlloc_v2)(&ptr, 4 * MB) != CUDA_SUCCESS
            || DRIVER(cuMemFree_v2)(ptr) != CUDA_SUCCESS)
        return fail("no device memory");
    if (DRIVER(cuMemHostAlloc)(&host, 100 * MB, 0) != CUDA_SUCCESS
            || DRIVER(cuArrayCreate_v2)(&array, &desc) != CUDA_SUCCESS
            || DRIVER(cuMemAllocManaged)(&ptr, 6 * MB, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS
            || DRIVER(cuCtxSynchronize)() != CUDA_SUCCESS)
        return fail("no other memory");
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * sources_program LIBRARY...: asks for memory of several kinds, by itself and through libraries (asking_lib.c). The first one
 * asks for 3 MiB and gives them back, the second for 5 MiB of a stream's, and so on in turn. With SOURCES_WAITS it waits for the
 * device at the end.
 */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB (1u << 20)

typedef CUresult (*ask_fn)(__typeof__(&cuMemAlloc_v2), CUdeviceptr *, size_t);
typedef CUresult (*ask_on_stream_fn)(__typeof__(&cuMemAllocAsync), CUdeviceptr *, size_t, CUstream);

static void must(int is_fine, const char *what)
{
    if (!is_fine) {
        (void)fprintf(stderr, "%s\n", what);
        __builtin_trap();
    }
}

int main(int argc, char **argv)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUcontext context;
    CUdeviceptr ptr;
    void *host;

    must(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS
                    && cuCtxSetCurrent(context) == CUDA_SUCCESS,
            "no device");
    must(cuMemAlloc_v2(&ptr, 2 * MIB) == CUDA_SUCCESS, "cuMemAlloc");
    must(cuMemCreate(&handle, 4 * MIB, &prop, 0) == CUDA_SUCCESS, "cuMemCreate");
    must(cuMemAllocManaged(&ptr, 1 * MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS, "managed");
    must(cuMemAllocHost_v2(&host, 6 * MIB) == CUDA_SUCCESS, "cuMemAllocHost");
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        ask_fn ask = library ? (ask_fn)dlsym(library, "ask") : NULL;
        ask_on_stream_fn ask_on_stream =
                library ? (ask_on_stream_fn)dlsym(library, "ask_on_stream") : NULL;

        must(ask && ask_on_stream, argv[i]);
        if (i % 2 == 0) {
            must(ask_on_stream(cuMemAllocAsync, &ptr, 5 * MIB, NULL) == CUDA_SUCCESS, "async");
            continue;
        }
        must(ask(cuMemAlloc_v2, &ptr, 3 * MIB) == CUDA_SUCCESS, "ask");
        must(cuMemFree_v2(ptr) == CUDA_SUCCESS, "free");
    }
    if (getenv("SOURCES_WAITS"))
        must(cuCtxSynchronize() == CUDA_SUCCESS, "cuCtxSynchronize");
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The real static CUDA runtime on the simulated driver. It fetches all its driver entries, asks for private tables that a
 * simulated driver has not, and gives up; the fetching is what this is about. Then the program itself uses the driver once,
 * so that a capture with the coverage record is written, and prints how each entry was reached:
 *
 *     cuMemAlloc_v2 cuGetProcAddress 1
 */
#include "preload/cuda_abi.h"
#include "tracker/read.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int use_driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(&cuInit) init = handle ? (__typeof__(&cuInit))dlsym(handle, "cuInit") : NULL;
    __typeof__(&cuCtxCreate_v2) create =
            handle ? (__typeof__(&cuCtxCreate_v2))dlsym(handle, "cuCtxCreate_v2") : NULL;
    __typeof__(&cuMemAllocManaged) alloc =
            handle ? (__typeof__(&cuMemAllocManaged))dlsym(handle, "cuMemAllocManaged") : NULL;
    CUcontext context;
    CUdeviceptr ptr;

    return init && create && alloc && init(0) == CUDA_SUCCESS
                    && create(&context, 0, 0) == CUDA_SUCCESS
                    && alloc(&ptr, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS
            ? 0
            : 1;
}

int main(void)
{
    const char *file = getenv("KEDGE_CAPTURE");
    struct read_capture *capture;
    void *ptr = NULL;
    int result = (int)cudaMalloc(&ptr, 4096);

    printf("cudaMalloc %d\n", result);
    if (use_driver() != 0) {
        printf("the driver cannot be used\n");
        return 1;
    }
    if (!file || read_open(file, &capture, NULL) != 0) {
        printf("no capture\n");
        return 0;
    }
    for (size_t i = 0; i < capture->coverage_count; i++)
        printf("%s %s %llu\n", capture->coverage[i].hook, capture->coverage[i].route,
                (unsigned long long)capture->coverage[i].count);
    read_close(capture);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A program that gives a kernel an address inside a larger parameter after it has left the anchor that it asked for the memory
 * in: it writes nothing there, or, with an argument, so many bytes. With a second argument it never frees it. receipts.py
 * verifies a hint of that memory.
 */
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES ((size_t)8 << 20)

static const char module_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry kedge_fill_view(.param .align 8 .b8 view[16])\n"
                                  "{\n    ret;\n}\n";

static void *driver;

#define DRIVER(symbol) ((__typeof__(&(symbol)))dlsym(driver, #symbol))

static int begin(void)
{
    CUcontext context;

    return driver && DRIVER(cuInit)(0) == CUDA_SUCCESS
            && DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS
            && DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
}

static int make(CUdeviceptr *ret_ptr, CUfunction *ret_fill)
{
    CUmodule module;
    int ok;

    ok = DRIVER(cuModuleLoadData)(&module, module_text) == CUDA_SUCCESS
            && DRIVER(cuModuleGetFunction)(ret_fill, module, "kedge_fill_view") == CUDA_SUCCESS;
    (void)puts("START PHASE_0");
    ok = ok && DRIVER(cuMemAlloc_v2)(ret_ptr, BYTES) == CUDA_SUCCESS
            && DRIVER(cuMemsetD8_v2)(*ret_ptr, 1, BYTES) == CUDA_SUCCESS;
    (void)puts("END PHASE_0");
    return ok;
}

int main(int argc, char **argv)
{
    CUdeviceptr ptr;
    CUfunction fill;

    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!begin() || !make(&ptr, &fill))
        return 1;
    struct {
        CUdeviceptr at;
        uint64_t bytes;
    } view = {ptr, argc > 1 ? strtoull(argv[1], NULL, 10) : 0};
    void *params[] = {&view};
    CUresult result = DRIVER(cuLaunchKernel)(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);

    if (result == CUDA_SUCCESS)
        result = DRIVER(cuCtxSynchronize)();
    if (result == CUDA_SUCCESS && argc < 3)
        result = DRIVER(cuMemFree_v2)(ptr);
    (void)printf("%d\n", (int)result);
    return result != CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
#include "tests/sim/nccl/nccl_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    NO_DRIVER = 999, /* the driver's "unknown" */
};

static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry kedge_pack(.param .u64 dst, .param .u64 src, .param .u64 bytes) { ret; }\n"
        ".visible .entry kedge_unpack(.param .u64 dst, .param .u64 src, .param .u64 bytes)"
        " { ret; }\n"
        ".visible .entry kedge_fold(.param .u64 dst, .param .u64 src, .param .u64 bytes,"
        " .param .u64 type, .param .u64 op, .param .u64 ranks) { ret; }\n";

static void *driver(const char *name)
{
    static void *handle;

    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_LAZY);
    return handle ? dlsym(handle, name) : NULL;
}

#define CALL(function_, ...)                                                               \
    (driver(#function_) ? (int)((__typeof__(&(function_)))driver(#function_))(__VA_ARGS__) \
                        : NO_DRIVER)

int nccl_device_load(struct nccl_kernels *ret_kernels)
{
    int r = CALL(cuModuleLoadData, &ret_kernels->module, ptx);

    if (r == 0)
        r = CALL(cuModuleGetFunction, &ret_kernels->pack, ret_kernels->module, "kedge_pack");
    if (r == 0)
        r = CALL(cuModuleGetFunction, &ret_kernels->unpack, ret_kernels->module, "kedge_unpack");
    if (r == 0)
        r = CALL(cuModuleGetFunction, &ret_kernels->fold, ret_kernels->module, "kedge_fold");
    return r;
}

void nccl_device_unload(struct nccl_kernels *kernels)
{
    (void)CALL(cuModuleUnload, kernels->module);
}

int nccl_device_context(CUcontext *ret_context)
{
    int r = CALL(cuInit, 0);

    if (r == 0)
        r = CALL(cuCtxGetCurrent, ret_context);
    if (r != 0 || *ret_context)
        return r;
    r = CALL(cuDevicePrimaryCtxRetain, ret_context, 0);
    return r ? r : CALL(cuCtxSetCurrent, *ret_context);
}

int nccl_device_number(int *ret_device)
{
    return CALL(cuCtxGetDevice, ret_device);
}

int nccl_device_enter(CUcontext context)
{
    return CALL(cuCtxPushCurrent_v2, context);
}

int nccl_device_enter_idle(CUcontext context)
{
    int r = nccl_device_enter(context);

    if (r == 0)
        (void)CALL(cuCtxSynchronize, ); /* work that failed is over, too */
    return r;
}

void nccl_device_leave(void)
{
    CUcontext context;

    (void)CALL(cuCtxPopCurrent_v2, &context);
}

int nccl_device_copy(CUstream stream, void *dst, const void *src, uint64_t bytes)
{
    return CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src,
            bytes, stream);
}

int nccl_device_register(void *memory, size_t bytes)
{
    return CALL(cuMemHostRegister_v2, memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
}

void nccl_device_unregister(void *memory)
{
    (void)CALL(cuMemHostUnregister, memory);
}

int nccl_device_wait(CUstream stream, const uint64_t *at, uint64_t number)
{
    return CALL(cuStreamWaitValue64_v2, stream, (CUdeviceptr)(uintptr_t)at, number,
            CU_STREAM_WAIT_VALUE_GEQ);
}

int nccl_device_write(CUstream stream, uint64_t *at, uint64_t number)
{
    return CALL(cuStreamWriteValue64_v2, stream, (CUdeviceptr)(uintptr_t)at, number, 0);
}

static int launch(CUfunction kernel, CUstream stream, void *dst, const void *src, uint64_t bytes)
{
    void *args[] = {&dst, &src, &bytes};

    return CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

int nccl_device_pack(const struct nccl_kernels *kernels, CUstream stream, void *packed,
        const void *src, uint64_t bytes)
{
    return launch(kernels->pack, stream, packed, src, bytes);
}

int nccl_device_unpack(const struct nccl_kernels *kernels, CUstream stream, void *dst,
        const void *packed, uint64_t bytes)
{
    return launch(kernels->unpack, stream, dst, packed, bytes);
}

int nccl_device_fold(const struct nccl_kernels *kernels, CUstream stream, void *dst,
        const void *packed, uint64_t bytes, const struct nccl_fold *fold)
{
    struct nccl_fold f = *fold;
    void *args[] = {&dst, &packed, &bytes, &f.type, &f.op, &f.ranks};

    return CALL(cuLaunchKernel, kernels->fold, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

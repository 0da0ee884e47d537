/* SPDX-License-Identifier: MIT */
/*
 * The forms of CUDA 2 and 3, with 32-bit addresses and sizes.
 *
 * A driver of today exports them still, and they belong to contexts that were made by the interface
 * of that time. Every context here is of a later one, and a call that mixes the two is answered with
 * CUDA_ERROR_INVALID_CONTEXT, which is what the reference says of it. So a look-up for CUDA 2 finds
 * the same symbols as with a driver, and nothing is ever cut to 32 bits.
 *
 * The first forms of stream memory operations are switched off in drivers and here.
 */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_device.h"
#include "tests/sim/memory/sim_memory.h"
#include "tests/sim/stream/sim_stream.h"

#include <limits.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* nobody looks at them */

static CUresult mixed(const char *name)
{
    struct sim_call call;
    int r = sim_enter(&call, name, SIM_NEED_CONTEXT);

    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_CONTEXT);
}

#define OLD(name, params)       \
    CUresult name params        \
    {                           \
        return mixed(__func__); \
    }

OLD(cuArray3DCreate, (CUarray * a, const CUDA_ARRAY3D_DESCRIPTOR_v1 *b))
OLD(cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR_v1 * a, CUarray b))
OLD(cuArrayCreate, (CUarray * a, const CUDA_ARRAY_DESCRIPTOR_v1 *b))
OLD(cuArrayGetDescriptor, (CUDA_ARRAY_DESCRIPTOR_v1 * a, CUarray b))
OLD(cuCtxPopCurrent, (CUcontext * a))
OLD(cuCtxPushCurrent, (CUcontext a))
OLD(cuMemAlloc, (CUdeviceptr_v1 * a, unsigned int b))
OLD(cuMemAllocHost, (void **a, unsigned int b))
OLD(cuMemAllocPitch,
        (CUdeviceptr_v1 * a, unsigned int *b, unsigned int c, unsigned int d, unsigned int e))
OLD(cuMemFree, (CUdeviceptr_v1 a))
OLD(cuMemGetAddressRange, (CUdeviceptr_v1 * a, unsigned int *b, CUdeviceptr_v1 c))
OLD(cuMemGetInfo, (unsigned int *a, unsigned int *b))
OLD(cuMemHostGetDevicePointer, (CUdeviceptr_v1 * a, void *b, unsigned int c))
OLD(cuMemcpy2D, (const CUDA_MEMCPY2D_v1 *a))
OLD(cuMemcpy2DAsync, (const CUDA_MEMCPY2D_v1 *a, CUstream b))
OLD(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D_v1 *a))
OLD(cuMemcpy3D, (const CUDA_MEMCPY3D_v1 *a))
OLD(cuMemcpy3DAsync, (const CUDA_MEMCPY3D_v1 *a, CUstream b))
OLD(cuMemcpyAtoA, (CUarray a, unsigned int b, CUarray c, unsigned int d, unsigned int e))
OLD(cuMemcpyAtoD, (CUdeviceptr_v1 a, CUarray b, unsigned int c, unsigned int d))
OLD(cuMemcpyAtoH, (void *a, CUarray b, unsigned int c, unsigned int d))
OLD(cuMemcpyAtoHAsync, (void *a, CUarray b, unsigned int c, unsigned int d, CUstream e))
OLD(cuMemcpyDtoA, (CUarray a, unsigned int b, CUdeviceptr_v1 c, unsigned int d))
OLD(cuMemcpyDtoD, (CUdeviceptr_v1 a, CUdeviceptr_v1 b, unsigned int c))
OLD(cuMemcpyDtoDAsync, (CUdeviceptr_v1 a, CUdeviceptr_v1 b, unsigned int c, CUstream d))
OLD(cuMemcpyDtoH, (void *a, CUdeviceptr_v1 b, unsigned int c))
OLD(cuMemcpyDtoHAsync, (void *a, CUdeviceptr_v1 b, unsigned int c, CUstream d))
OLD(cuMemcpyHtoA, (CUarray a, unsigned int b, const void *c, unsigned int d))
OLD(cuMemcpyHtoAAsync, (CUarray a, unsigned int b, const void *c, unsigned int d, CUstream e))
OLD(cuMemcpyHtoD, (CUdeviceptr_v1 a, const void *b, unsigned int c))
OLD(cuMemcpyHtoDAsync, (CUdeviceptr_v1 a, const void *b, unsigned int c, CUstream d))
OLD(cuMemsetD16, (CUdeviceptr_v1 a, unsigned short b, unsigned int c))
OLD(cuMemsetD2D16,
        (CUdeviceptr_v1 a, unsigned int b, unsigned short c, unsigned int d, unsigned int e))
OLD(cuMemsetD2D32,
        (CUdeviceptr_v1 a, unsigned int b, unsigned int c, unsigned int d, unsigned int e))
OLD(cuMemsetD2D8,
        (CUdeviceptr_v1 a, unsigned int b, unsigned char c, unsigned int d, unsigned int e))
OLD(cuMemsetD32, (CUdeviceptr_v1 a, unsigned int b, unsigned int c))
OLD(cuMemsetD8, (CUdeviceptr_v1 a, unsigned char b, unsigned int c))
OLD(cuModuleGetGlobal, (CUdeviceptr_v1 * a, unsigned int *b, CUmodule c, const char *d))

/* A context of that time is not to be had. */
CUresult cuCtxCreate(CUcontext *ret_ctx, unsigned int flags, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuDeviceTotalMem(unsigned int *ret_bytes, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !ret_bytes)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && (device < 0 || device >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        *ret_bytes =
                sim_device_total_bytes() > UINT_MAX ? UINT_MAX : (unsigned)sim_device_total_bytes();
    return sim_leave(&call, r);
}

/* Sizes are whole in this one; only its context is of that time. */
OLD(cuMemHostRegister, (void *at, size_t size, unsigned int flags))

#define OLD_VALUE(name, params) \
    SIM_STREAM_CALL(name, SIM_NEED_CONTEXT, params, CUDA_ERROR_NOT_SUPPORTED)
OLD_VALUE(cuStreamWaitValue32,
        (CUstream handle, CUdeviceptr addr, cuuint32_t value, unsigned int flags))
OLD_VALUE(cuStreamWaitValue64,
        (CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned int flags))
OLD_VALUE(cuStreamWriteValue32,
        (CUstream handle, CUdeviceptr addr, cuuint32_t value, unsigned int flags))
OLD_VALUE(cuStreamWriteValue64,
        (CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned int flags))
OLD_VALUE(cuStreamBatchMemOp,
        (CUstream handle, unsigned int count, CUstreamBatchMemOpParams *items, unsigned int flags))

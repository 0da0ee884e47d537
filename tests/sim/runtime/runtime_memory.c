/* SPDX-License-Identifier: MIT */
/* Memory: both allocation APIs, pools, host memory, pointers, other processes. */
#include "tests/sim/base/simcuda.h"
#include "tests/sim/runtime/runtime_core.h"

#include <string.h>

static CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

/* ---- the witness ---- */

/* In a per-thread call handle 0 means the thread's stream. */
static cudaStream_t per_thread(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

/* Hands a new block to the program, which is what makes it the program's. */
static cudaError_t born(CUresult r, void **ret_ptr, CUdeviceptr ptr, size_t bytes, CUstream stream)
{
    if (r != CUDA_SUCCESS)
        return runtime_done(r);
    if (runtime_driver.witness_birth)
        runtime_driver.witness_birth(ptr, bytes, stream);
    *ret_ptr = (void *)(uintptr_t)ptr;
    return cudaSuccess;
}

static void dies(const void *ptr, CUstream stream)
{
    if (runtime_driver.witness_death)
        runtime_driver.witness_death(address(ptr), stream);
}

/* ---- the sync API ---- */

cudaError_t cudaMalloc(void **ret_ptr, size_t bytes)
{
    CUdeviceptr ptr = 0;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_ptr = NULL;
    if (bytes == 0) /* an error for the driver, nothing for the runtime */
        return cudaSuccess;
    r = DRIVER(cuMemAlloc_v2, (&ptr, bytes));
    return born(r, ret_ptr, ptr, bytes, SIMCUDA_NO_STREAM);
}

cudaError_t cudaFree(void *ptr)
{
    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ptr) /* the usual way to ask for a context */
        return cudaSuccess;
    dies(ptr, SIMCUDA_NO_STREAM);
    return runtime_done(DRIVER(cuMemFree_v2, (address(ptr))));
}

cudaError_t cudaMallocManaged(void **ret_ptr, size_t bytes, unsigned int flags)
{
    CUdeviceptr ptr = 0;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr)
        return runtime_fail(cudaErrorInvalidValue);
    r = DRIVER(cuMemAllocManaged, (&ptr, bytes, flags));
    return born(r, ret_ptr, ptr, bytes, SIMCUDA_NO_STREAM);
}

cudaError_t cudaMallocPitch(void **ret_ptr, size_t *ret_pitch, size_t width, size_t height)
{
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    cudaError_t error;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr || !ret_pitch)
        return runtime_fail(cudaErrorInvalidValue);
    r = DRIVER(cuMemAllocPitch_v2, (&ptr, &pitch, width, height, 4));
    error = born(r, ret_ptr, ptr, pitch * height, SIMCUDA_NO_STREAM);
    if (error == cudaSuccess)
        *ret_pitch = pitch;
    return error;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *ret_ptr, struct cudaExtent extent)
{
    void *ptr = NULL;
    size_t pitch = 0;
    size_t rows = extent.height * extent.depth;
    CUdeviceptr raw = 0;
    cudaError_t error;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr)
        return runtime_fail(cudaErrorInvalidValue);
    r = DRIVER(cuMemAllocPitch_v2, (&raw, &pitch, extent.width, rows, 4));
    error = born(r, &ptr, raw, pitch * rows, SIMCUDA_NO_STREAM);
    if (error == cudaSuccess)
        *ret_ptr = (struct cudaPitchedPtr){ptr, pitch, extent.width, extent.height};
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    return RUNTIME_CALL(cuMemGetInfo_v2, (free_bytes, total_bytes));
}

/* ---- the stream API ---- */

typedef CUresult alloc_async_fn(CUdeviceptr *, size_t, CUstream);
typedef CUresult alloc_from_pool_fn(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult free_async_fn(CUdeviceptr, CUstream);

/*
 * `entry` is a field of the driver's table, which is empty before runtime_enter. `meant` names the stream that `stream`
 * means in this form of the call.
 */
static cudaError_t malloc_async(alloc_async_fn *const *entry, void **ret_ptr, size_t bytes,
        cudaStream_t stream, cudaStream_t meant)
{
    CUdeviceptr ptr = 0;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_ptr = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    r = (*entry)(&ptr, bytes, stream);
    return born(r, ret_ptr, ptr, bytes, meant);
}

static cudaError_t malloc_from_pool(alloc_from_pool_fn *const *entry, void **ret_ptr, size_t bytes,
        cudaMemPool_t pool, cudaStream_t stream, cudaStream_t meant)
{
    CUdeviceptr ptr = 0;
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_ptr)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_ptr = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    r = (*entry)(&ptr, bytes, pool, stream);
    return born(r, ret_ptr, ptr, bytes, meant);
}

static cudaError_t free_async(
        free_async_fn *const *entry, void *ptr, cudaStream_t stream, cudaStream_t meant)
{
    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ptr)
        return cudaSuccess;
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    dies(ptr, meant);
    return runtime_done((*entry)(address(ptr), stream));
}

cudaError_t cudaMallocAsync(void **ret_ptr, size_t bytes, cudaStream_t stream)
{
    return malloc_async(&runtime_driver.cuMemAllocAsync, ret_ptr, bytes, stream, stream);
}

cudaError_t cudaMallocAsync_ptsz(void **ret_ptr, size_t bytes, cudaStream_t stream)
{
    return malloc_async(
            &runtime_driver.cuMemAllocAsync_ptsz, ret_ptr, bytes, stream, per_thread(stream));
}

cudaError_t cudaMallocFromPoolAsync(
        void **ret_ptr, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return malloc_from_pool(
            &runtime_driver.cuMemAllocFromPoolAsync, ret_ptr, bytes, pool, stream, stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(
        void **ret_ptr, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return malloc_from_pool(&runtime_driver.cuMemAllocFromPoolAsync_ptsz, ret_ptr, bytes, pool,
            stream, per_thread(stream));
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    return free_async(&runtime_driver.cuMemFreeAsync, ptr, stream, stream);
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream)
{
    return free_async(&runtime_driver.cuMemFreeAsync_ptsz, ptr, stream, per_thread(stream));
}

/* The structures and enumerations of both interfaces are the same, byte for byte. */
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "pool properties");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "access");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "location");
_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData), "export");

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
    return RUNTIME_CALL(cuMemPoolCreate, (pool, (const CUmemPoolProps *)(const void *)props));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return RUNTIME_CALL(cuMemPoolDestroy, (pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes)
{
    return RUNTIME_CALL(cuMemPoolTrimTo, (pool, bytes));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value)
{
    return RUNTIME_CALL(cuMemPoolSetAttribute, (pool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value)
{
    return RUNTIME_CALL(cuMemPoolGetAttribute, (pool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolSetAccess(
        cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    return RUNTIME_CALL(
            cuMemPoolSetAccess, (pool, (const CUmemAccessDesc *)(const void *)list, count));
}

cudaError_t cudaMemPoolGetAccess(
        enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location)
{
    return RUNTIME_CALL(cuMemPoolGetAccess,
            ((CUmemAccess_flags *)(void *)flags, pool, (CUmemLocation *)(void *)location));
}

cudaError_t cudaMemPoolExportToShareableHandle(
        void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type, unsigned int flags)
{
    return RUNTIME_CALL(cuMemPoolExportToShareableHandle,
            (handle, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
        enum cudaMemAllocationHandleType type, unsigned int flags)
{
    return RUNTIME_CALL(cuMemPoolImportFromShareableHandle,
            (pool, handle, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *ptr)
{
    return RUNTIME_CALL(
            cuMemPoolExportPointer, ((CUmemPoolPtrExportData *)(void *)data, address(ptr)));
}

cudaError_t cudaMemPoolImportPointer(
        void **ret_ptr, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data)
{
    return RUNTIME_CALL(cuMemPoolImportPointer,
            ((CUdeviceptr *)(void *)ret_ptr, pool, (CUmemPoolPtrExportData *)(void *)data));
}

cudaError_t cudaMemGetDefaultMemPool(
        cudaMemPool_t *pool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
    return RUNTIME_CALL(cuMemGetDefaultMemPool,
            (pool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemGetMemPool(
        cudaMemPool_t *pool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
    return RUNTIME_CALL(
            cuMemGetMemPool, (pool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemSetMemPool(
        struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t pool)
{
    return RUNTIME_CALL(
            cuMemSetMemPool, ((CUmemLocation *)(void *)location, (CUmemAllocationType)type, pool));
}

/* ---- host memory ---- */

cudaError_t cudaMallocHost(void **ret_ptr, size_t bytes)
{
    return RUNTIME_CALL(cuMemHostAlloc, (ret_ptr, bytes, 0));
}

cudaError_t cudaHostAlloc(void **ret_ptr, size_t bytes, unsigned int flags)
{
    return RUNTIME_CALL(cuMemHostAlloc, (ret_ptr, bytes, flags));
}

cudaError_t cudaFreeHost(void *ptr)
{
    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    return ptr ? runtime_done(DRIVER(cuMemFreeHost, (ptr))) : cudaSuccess;
}

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned int flags)
{
    return RUNTIME_CALL(cuMemHostRegister_v2, (ptr, bytes, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
    return RUNTIME_CALL(cuMemHostUnregister, (ptr));
}

cudaError_t cudaHostGetDevicePointer(void **ret_ptr, void *host, unsigned int flags)
{
    return RUNTIME_CALL(
            cuMemHostGetDevicePointer_v2, ((CUdeviceptr *)(void *)ret_ptr, host, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    return RUNTIME_CALL(cuMemHostGetFlags, (flags, host));
}

/* ---- what a pointer is ---- */

#if RUNTIME_MAJOR >= 13
#    define POINTER_ATTRIBUTES struct cudaPointerAttributes
#else
#    define POINTER_ATTRIBUTES struct program_abi_pointer_attributes_v12
#endif

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *ret_attributes, const void *ptr)
{
    CUmemorytype type = 0;
    unsigned int managed = 0;
    CUdeviceptr device_pointer = 0;
    void *host_pointer = NULL;
    int device = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &device_pointer, &host_pointer, &device};
    POINTER_ATTRIBUTES result = {.type = cudaMemoryTypeUnregistered, .device = cudaInvalidDeviceId};
    CUresult r;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_attributes)
        return runtime_fail(cudaErrorInvalidValue);
    /* of an address that the driver does not know it says nothing, and that is no error */
    r = DRIVER(cuPointerGetAttributes, (5, attributes, values, address(ptr)));
    if (r != CUDA_SUCCESS)
        return runtime_done(r);
    if ((int)type == 0) {
        union {
            const void *from;
            void *to;
        } same = {.from = ptr};

        result.hostPointer = same.to;
    } else {
        result.type = managed ? cudaMemoryTypeManaged : (enum cudaMemoryType)type;
        result.device = device;
        result.devicePointer = (void *)(uintptr_t)device_pointer;
        result.hostPointer = host_pointer;
    }
    memcpy(ret_attributes, &result, sizeof(result));
    return cudaSuccess;
}

RUNTIME_PTSZ(cudaStreamAttachMemAsync,
        (cudaStream_t stream, void *ptr, size_t bytes, unsigned int flags), cuStreamAttachMemAsync,
        (stream, address(ptr), bytes, flags))

/* ---- other processes ---- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr)
{
    return RUNTIME_CALL(cuIpcGetMemHandle, ((CUipcMemHandle *)(void *)handle, address(ptr)));
}

cudaError_t cudaIpcOpenMemHandle(void **ret_ptr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle raw;

    memcpy(&raw, &handle, sizeof(raw));
    return RUNTIME_CALL(cuIpcOpenMemHandle_v2, ((CUdeviceptr *)(void *)ret_ptr, raw, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *ptr)
{
    return RUNTIME_CALL(cuIpcCloseMemHandle, (address(ptr)));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return RUNTIME_CALL(cuIpcGetEventHandle, ((CUipcEventHandle *)(void *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *ret_event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle raw;

    memcpy(&raw, &handle, sizeof(raw));
    return RUNTIME_CALL(cuIpcOpenEventHandle, (ret_event, raw));
}

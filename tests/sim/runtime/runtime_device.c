/* SPDX-License-Identifier: MIT */
/* Versions, errors, devices, limits, peers. */
#include "tests/sim/runtime/runtime_core.h"

#include <string.h>

/* ---- versions and look-up ---- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return runtime_fail(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return runtime_fail(cudaErrorInvalidValue);
    *version = 0;
    if (runtime_boot() == cudaErrorInsufficientDriver)
        return cudaSuccess; /* no driver is version 0, and not an error */
    return runtime_done(DRIVER(cuDriverGetVersion, (version)));
}

static cudaError_t entry_point(const char *symbol, void **ret_entry, unsigned int version,
        unsigned long long flags, enum cudaDriverEntryPointQueryResult *ret_status)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t error = runtime_boot();
    CUresult r;

    if (error != cudaSuccess)
        return error;
    if (!symbol || !ret_entry)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_entry = NULL;
    r = runtime_driver.get_proc_address(symbol, ret_entry, (int)version, flags, &status);
    if (ret_status)
        *ret_status = (enum cudaDriverEntryPointQueryResult)status;
    if (r == CUDA_ERROR_NOT_FOUND && ret_status)
        return cudaSuccess; /* the status says it */
    return runtime_done(r);
}

#if RUNTIME_MAJOR < 12
#    define STATUS(ret_status_) ((void)(ret_status_), NULL) /* CUDA 11 has no such argument */
#else
#    define STATUS(ret_status_) (ret_status_)
#endif

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **ret_entry, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *ret_status)
{
    return entry_point(symbol, ret_entry, RUNTIME_VERSION, flags, STATUS(ret_status));
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **ret_entry,
        unsigned long long flags, enum cudaDriverEntryPointQueryResult *ret_status)
{
    return entry_point(symbol, ret_entry, RUNTIME_VERSION, flags ? flags : 2, STATUS(ret_status));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **ret_entry,
        unsigned int version, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *ret_status)
{
    return entry_point(symbol, ret_entry, version, flags, ret_status);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **ret_entry,
        unsigned int version, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *ret_status)
{
    return entry_point(symbol, ret_entry, version, flags ? flags : 2, ret_status);
}

/* The tables behind this are private to NVIDIA's runtime and driver; there are none here. */
cudaError_t cudaGetExportTable(const void **ret_table, const cudaUUID_t *id)
{
    (void)id;
    if (ret_table)
        *ret_table = NULL;
    return runtime_fail(cudaErrorSymbolNotFound);
}

cudaError_t cudaProfilerStart(void)
{
    return RUNTIME_CALL(cuProfilerStart, ());
}

cudaError_t cudaProfilerStop(void)
{
    return RUNTIME_CALL(cuProfilerStop, ());
}

/* ---- errors in words ---- */

const char *cudaGetErrorName(cudaError_t error)
{
    static const struct {
        cudaError_t error;
        const char *name;
    } names[] = {
#define ROW(name_, value_) {name_, #name_},
            CUDA_ABI_ERRORS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].error == error)
            return names[i].name;
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    static const struct {
        cudaError_t error;
        const char *words;
    } words[] = {
            {cudaSuccess, "no error"},
            {cudaErrorInvalidValue, "invalid argument"},
            {cudaErrorMemoryAllocation, "out of memory"},
            {cudaErrorInitializationError, "the runtime could not be started"},
            {cudaErrorInsufficientDriver, "no driver was found, or one that is too old"},
            {cudaErrorCallRequiresNewerDriver, "the driver is too old for this call"},
            {cudaErrorNoDevice, "there is no device"},
            {cudaErrorInvalidDevice, "there is no device of this number"},
            {cudaErrorInvalidKernelImage, "the kernel image is not one that the device can run"},
            {cudaErrorInvalidResourceHandle, "invalid handle"},
            {cudaErrorSymbolNotFound, "there is nothing of this name"},
            {cudaErrorNotReady, "not ready yet"},
            {cudaErrorIllegalAddress, "an operation touched memory that it may not"},
            {cudaErrorLaunchFailure, "a kernel failed"},
            {cudaErrorNotPermitted, "not permitted here"},
            {cudaErrorNotSupported, "not supported here"},
            {cudaErrorStreamCaptureUnsupported, "not permitted while a stream is capturing"},
            {cudaErrorStreamCaptureInvalidated, "an earlier error has invalidated the capture"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].error == error)
            return words[i].words;
    }
    return cudaGetErrorName(error);
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess ? error : runtime_done(DRIVER(cuDeviceGetCount, (count)));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuDeviceGetAttribute, (value, (CUdevice_attribute)attr, device)));
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuDeviceGetPCIBusId, (id, size, device)));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess ? error : runtime_done(DRIVER(cuDeviceGetByPCIBusId, (device, id)));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuDevicePrimaryCtxSetFlags_v2, (runtime_device(), flags)));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    cudaError_t error = runtime_boot();
    int active;

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuDevicePrimaryCtxGetState, (runtime_device(), flags, &active)));
}

cudaError_t cudaDeviceSynchronize(void)
{
    return RUNTIME_CALL(cuCtxSynchronize, ());
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return RUNTIME_CALL(cuCtxSetLimit, ((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    return RUNTIME_CALL(cuCtxGetLimit, (value, (CUlimit)limit));
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    return RUNTIME_CALL(cuCtxSetCacheConfig, ((CUfunc_cache)config));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return RUNTIME_CALL(cuCtxGetStreamPriorityRange, (least, greatest));
}

/* ---- peers ---- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuDeviceCanAccessPeer, (can, device, peer)));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext ctx;
    cudaError_t error = runtime_enter();

    if (error == cudaSuccess)
        error = runtime_done(runtime_primary(peer, &ctx));
    return error != cudaSuccess ? error : runtime_done(DRIVER(cuCtxEnablePeerAccess, (ctx, flags)));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext ctx;
    cudaError_t error = runtime_enter();

    if (error == cudaSuccess)
        error = runtime_done(runtime_primary(peer, &ctx));
    return error != cudaSuccess ? error : runtime_done(DRIVER(cuCtxDisablePeerAccess, (ctx)));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int src, int dst)
{
    cudaError_t error = runtime_boot();

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuDeviceGetP2PAttribute,
                                        (value, (CUdevice_P2PAttribute)attr, src, dst)));
}

/* ---- pools of a device ---- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return RUNTIME_CALL(cuDeviceGetDefaultMemPool, (pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return RUNTIME_CALL(cuDeviceGetMemPool, (pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return RUNTIME_CALL(cuDeviceSetMemPool, (device, pool));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    return RUNTIME_CALL(cuDeviceGraphMemTrim, (device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(
        int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return RUNTIME_CALL(cuDeviceGetGraphMemAttribute, (device, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(
        int device, enum cudaGraphMemAttributeType attr, void *value)
{
    return RUNTIME_CALL(cuDeviceSetGraphMemAttribute, (device, (CUgraphMem_attribute)attr, value));
}

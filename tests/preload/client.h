/* SPDX-License-Identifier: MIT */
/*
 * client.h - the CUDA driver as a program gets it, by one of the three routes that programs take.
 *
 *     TEST_ROUTE=linked   the program is linked with libcuda.so.1 and calls the symbol
 *     TEST_ROUTE=dlsym    dlopen("libcuda.so.1", RTLD_LOCAL) and dlsym of the real symbol
 *     TEST_ROUTE=gpa      the same for cuGetProcAddress_v2 only, the rest by (name, version, flags), as a static runtime does
 *
 * The tests call cu->cuMemAlloc_v2(...) and know nothing of kedge, whose presence shows in what the driver answers.
 * Without the simulated driver they are skipped. client_init also makes device 0's primary context current.
 */
#ifndef KEDGE_TESTS_PRELOAD_CLIENT_H
#define KEDGE_TESTS_PRELOAD_CLIENT_H

#include "tests/check.h"
#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"

/* clang-format off */
#define CLIENT_API(X)                                                                             \
    X(cuInit, "cuInit", 2000, 0)                                                                  \
    X(cuDriverGetVersion, "cuDriverGetVersion", 2020, 0)                                          \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0)                                      \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)                              \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)                            \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)                        \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0)                                                     \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0)                                                   \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0)                                                \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0)                                                \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                                              \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                                       \
    X(cuMemFree_v2, "cuMemFree", 3020, 0)                                                         \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                                             \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                                            \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                                                  \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, 0)                                                    \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                                               \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 2)                                          \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                                                 \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 2)                                            \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)                               \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0)                                               \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0)                                             \
    X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0)                                         \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                                               \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0)                                   \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0)                                   \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 0)                           \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0)                                         \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                                                   \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0)                                   \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0)                                    \
    X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0)                                  \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0)                                            \
    X(cuMemAddressReserve, "cuMemAddressReserve", 10020, 0)                                       \
    X(cuMemAddressFree, "cuMemAddressFree", 10020, 0)                                             \
    X(cuMemCreate, "cuMemCreate", 10020, 0)                                                       \
    X(cuMemRelease, "cuMemRelease", 10020, 0)                                                     \
    X(cuMemMap, "cuMemMap", 10020, 0)                                                             \
    X(cuMemUnmap, "cuMemUnmap", 10020, 0)                                                         \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0)                       \
    X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0)                                                   \
    X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                                                   \
    X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0)                                         \
    X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0)                                         \
    X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0)                                                   \
    X(cuMemcpy2D_v2, "cuMemcpy2D", 3020, 0)                                                       \
    X(cuMemsetD8_v2, "cuMemsetD8", 3020, 0)                                                       \
    X(cuMemsetD8Async, "cuMemsetD8Async", 3020, 0)                                                \
    X(cuMemsetD32_v2, "cuMemsetD32", 3020, 0)                                                     \
    X(cuStreamCreate, "cuStreamCreate", 2000, 0)                                                  \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                                             \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)                                        \
    X(cuStreamQuery, "cuStreamQuery", 2000, 0)                                                    \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, 0)                                            \
    X(cuEventCreate, "cuEventCreate", 2000, 0)                                                    \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, 0)                                               \
    X(cuEventRecord, "cuEventRecord", 2000, 0)                                                    \
    X(cuEventRecord_ptsz, "cuEventRecord", 7000, 2)                                               \
    X(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, 0)                                 \
    X(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, 0)                                             \
    X(cuIpcGetEventHandle, "cuIpcGetEventHandle", 4010, 0)                                        \
    X(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode", 11010, 0)                           \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0)                                  \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0)                                         \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, 0)                                       \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, 0)           \
    X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, 0)                                           \
    X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, 0)                                             \
    X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, 0)                                             \
    X(cuStreamAddCallback, "cuStreamAddCallback", 5000, 0)                                        \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0)                                               \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0)                                         \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0)                                        \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0)                                                 \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0)                                             \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, 0)                                                  \
    X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, 0)                                      \
    X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, 0)                                        \
    X(cuMemSetAccess, "cuMemSetAccess", 10020, 0)                                                 \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 0)                     \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0)                 \
    X(cuGraphCreate, "cuGraphCreate", 10000, 0)                                                   \
    X(cuGraphDestroy, "cuGraphDestroy", 10000, 0)                                                 \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0)                                         \
    X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0)                                 \
    X(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode", 11040, 0)                                   \
    X(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0)                                              \
    X(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", 11040, 0)                     \
    X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0)                                    \
    X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, 0)                                  \
    X(cuMemPoolGetAccess, "cuMemPoolGetAccess", 11020, 0)                                         \
    X(cuMemcpy3DBatchAsync_v2, "cuMemcpy3DBatchAsync", 13000, 0)                                  \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0)                                  \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0)                                \
    X(cuMulticastCreate, "cuMulticastCreate", 12010, 0)                                           \
    X(cuMulticastGetGranularity, "cuMulticastGetGranularity", 12010, 0)                           \
    X(cuImportExternalMemory, "cuImportExternalMemory", 10000, 0)                                 \
    X(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", 10000, 0)               \
    X(cuDestroyExternalMemory, "cuDestroyExternalMemory", 10000, 0)                               \
    X(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020, 0)             \
    X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0)         \
    X(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, 0)                                 \
    X(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020, 0)                                 \
    X(cuModuleLoadData, "cuModuleLoadData", 2000, 0)                                              \
    X(cuModuleUnload, "cuModuleUnload", 2000, 0)                                                  \
    X(cuModuleGetFunction, "cuModuleGetFunction", 2000, 0)                                        \
    X(cuLaunchKernel, "cuLaunchKernel", 4000, 0)                                                  \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0)                       \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                                                   \
    X(cuGraphAddHostNode, "cuGraphAddHostNode", 10000, 0)                                         \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0)
/* clang-format on */

struct client {
#define CLIENT_ROW(symbol, name, version, flags) __typeof__(&symbol) symbol;
    CLIENT_API(CLIENT_ROW)
#undef CLIENT_ROW
    void *libcuda;
    CUcontext context; /* device 0's primary one, current */
    CUdevice device;
};

extern const struct client *const cu;

/* Fills `cu` by the route that the environment names. false: not on the simulated device. */
bool client_load(void);

/* The same, and a current context. Skips the test where there is no simulated driver. */
void client_init(void);

/* A function of the simulated device itself (simcuda_*). */
void *client_sim(const char *symbol);

/* The driver's own function, past every hook: found in the library's table of symbols. */
void *client_driver(const char *symbol);

/* How often the driver was asked for this, below kedge. */
uint64_t client_calls(const char *call);

/* The sum kernel: adds up `bytes` at src into the eight bytes at out. */
CUfunction client_sum_kernel(void);
CUresult client_sum(
        CUfunction sum, CUdeviceptr out, CUdeviceptr src, size_t bytes, CUstream stream);

/* Memory of the pool's plain heap lies in a segment that is larger than the request. */
bool client_is_pooled(CUdeviceptr ptr, size_t size);

#endif

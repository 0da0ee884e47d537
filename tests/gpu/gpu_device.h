/* SPDX-License-Identifier: MIT */
/*
 * gpu_device.h - a real GPU for the tests of this folder, through the driver alone.
 *
 * What is marked "to be confirmed on a GPU" in our rules is asked here, in plain C: libcuda.so.1 by dlopen, kernels as PTX
 * text. No toolkit, no runtime, nothing of kedge: tests/gpu/visit puts libkedge.so in front and compares.
 *
 *     gpu_init();                        skips the test (77) where there is no GPU; then a context is current
 *     gpu->cuMemAlloc_v2(&ptr, size)     NULL where the driver has no such entry
 *     gpu_fact("name", "%d", value);     "fact name value" on stdout: what was found out, compared between runs
 *
 * With TEST_GPU_ON_SIM=1 the simulated device will do: it proves that a test runs, not what it says about GPUs.
 * Threads: gpu_init once, in the thread of the test; gpu_here() in others.
 */
#ifndef KEDGE_TESTS_GPU_DEVICE_H
#define KEDGE_TESTS_GPU_DEVICE_H

#include "tests/check.h"
#include "tests/sim/base/program_abi.h"

/* clang-format off */
#define GPU_API(X)                                                                                        \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute)        \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset_v2) X(cuDevicePrimaryCtxRelease_v2)             \
    X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxRecordEvent) X(cuCtxEnablePeerAccess)                   \
    X(cuDeviceCanAccessPeer) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemFreeAsync)        \
    X(cuMemGetInfo_v2) X(cuMemGetAddressRange_v2) X(cuPointerGetAttribute) X(cuIpcGetMemHandle)           \
    X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(cuMemGetHandleForAddressRange)                      \
    X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap)   \
    X(cuMemSetAccess) X(cuMemGetAllocationGranularity) X(cuMemcpyDtoH_v2) X(cuMemsetD8_v2)                \
    X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuStreamCreate) X(cuStreamDestroy_v2)                        \
    X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture)          \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)               \
    X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventDestroy_v2)          \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLibraryLoadData)                     \
    X(cuLibraryGetKernel) X(cuLibraryUnload) X(cuFuncGetParamInfo) X(cuKernelGetParamInfo)                \
    X(cuTexObjectCreate) X(cuTexObjectDestroy) X(cuGetProcAddress_v2) X(cuDeviceGetDefaultMemPool)        \
    X(cuMemHostAlloc) X(cuMemHostGetDevicePointer_v2) X(cuMemFreeHost) X(cuMemcpyDtoDAsync_v2)            \
    X(cuMemcpyDtoD_v2) X(cuStreamGetId) X(cuStreamGetCtx) X(cuStreamGetFlags) X(cuStreamIsCapturing)      \
    X(cuCtxGetId) X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuFuncGetName) X(cuKernelGetName)                \
    X(cuMemRetainAllocationHandle) X(cuMemExportToShareableHandle) X(cuPointerSetAttribute)
/* clang-format on */

struct gpu {
#define GPU_ROW(symbol) __typeof__(&symbol) symbol;
    GPU_API(GPU_ROW)
#undef GPU_ROW
    void *libcuda;
    CUcontext context; /* device 0's primary one */
    CUdevice device;
    int devices, version;
    bool simulated, under_kedge;
};

extern const struct gpu *const gpu;

#define GPU_OK(call) CHECK_EQ(gpu->call, CUDA_SUCCESS)

/* Loads the driver only: before a fork, for a program whose children use the device. Skips without one. */
void gpu_load(void);

/* The device, its primary context current, and the kernels. */
void gpu_init(void);

/* Makes the context current in another thread. */
void gpu_here(void);

/* "fact name value". A name that begins with "cost." is a figure, which nobody compares. */
void gpu_fact(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gpu_attribute(CUdevice_attribute attribute);

double gpu_microseconds(void);

/*
 * Runs the question in a process of its own, which calls gpu_init itself: the answer may be a crash, or an error that ends the
 * context. Returns its status as waitpid gives it; 0 if every check in it held. Skips if the process did.
 */
int gpu_in_a_process(void (*question)(void));

/* A buffer of the host that the device writes; *ret_device is its address there. */
uint32_t *gpu_mailbox(CUdeviceptr *ret_device);

/* New ones; events without times. */
CUstream gpu_stream(unsigned flags);
CUevent gpu_event(void);

/*
 * Keeps the stream busy for some milliseconds, so that what follows on it is late. The simulated device is late by itself
 * (SIMCUDA_SCHED=lazy).
 */
void gpu_hold(CUstream stream, unsigned milliseconds);

/* out += sum of the words at src, each by its place: changes when one of them does. */
void gpu_sum(CUdeviceptr out, CUdeviceptr src, size_t bytes, CUstream stream);

#endif

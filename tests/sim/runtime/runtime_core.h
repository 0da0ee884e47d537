/* SPDX-License-Identifier: MIT */
/*
 * runtime_core.h - the simulated CUDA runtime (libcudart.so.13 and .12), inside.
 *
 * The real runtime cannot run on a driver of ours, and programs want a runtime. This one offers the same calls over
 * whatever libcuda.so.1 is found, simulated or real, and reaches it as the real one does: one dlopen, one dlsym of
 * cuGetProcAddress_v2, then look-ups by name and version, going on with the cuGetProcAddress that the look-up itself
 * returned. So what hooks the driver's resolution hooks this runtime too.
 *
 *     cudaMalloc ─► runtime_enter: driver there? context bound? ─► DRIVER(cuMemAlloc_v2) ─► runtime_done: last error
 *                                                            └─► witness: this block was born
 *
 * It stands above anything that is put between program and driver, and so it is the oracle's witness: it tells the
 * simulated driver (simcuda.h), if that is the one, which blocks the program was given and gave back.
 *
 * It has no export tables, no textures, arrays, graphics; calls of that kind exist and return cudaErrorNotSupported
 * (runtime_absent.def).
 *
 * Threads: any. The last error, the device and its binding belong to the thread; primary contexts and kernels are
 * shared, each under a mutex of its own. RUNTIME_MAJOR (13, 12 or 11) is set by the build.
 */
#ifndef KEDGE_TESTS_SIM_RUNTIME_CORE_H
#define KEDGE_TESTS_SIM_RUNTIME_CORE_H

#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/sim_abi.h"

#include <stdbool.h>

#if RUNTIME_MAJOR == 13
#    define RUNTIME_VERSION 13000
#elif RUNTIME_MAJOR == 12
#    define RUNTIME_VERSION 12090
#elif RUNTIME_MAJOR == 11
#    define RUNTIME_VERSION 11080
#else
#    error "RUNTIME_MAJOR is 13, 12 or 11"
#endif

/* Driver entries, by symbol; NULL where the driver has none. Written once, before anything reads them. */
struct runtime_driver {
    CUresult (*get_proc_address)(
            const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
#define RUNTIME_ENTRY(symbol_, name_, version_, flags_) __typeof__(&symbol_) symbol_;
#include "tests/sim/runtime/runtime_entries.def"
#undef RUNTIME_ENTRY
    /* of the simulated driver, NULL with another: */
    void (*witness_birth)(CUdeviceptr, size_t, CUstream);
    void (*witness_death)(CUdeviceptr, CUstream);
    void (*witness_step)(void);
};

extern struct runtime_driver runtime_driver;

/* The driver's answer; an entry that it has not is a driver that is too old for the call. */
#define DRIVER(symbol_, args_) \
    (runtime_driver.symbol_ ? runtime_driver.symbol_ args_ : CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)

/* A whole runtime call that is one driver call. */
#define RUNTIME_CALL(symbol_, args_) \
    (runtime_enter() != cudaSuccess ? runtime_last() : runtime_done(DRIVER(symbol_, args_)))

/* Defines a runtime call and its per-thread twin, each over the driver's form of the same kind. */
#define RUNTIME_PTSZ(name_, params_, symbol_, args_) \
    cudaError_t name_ params_                        \
    {                                                \
        return RUNTIME_CALL(symbol_, args_);         \
    }                                                \
    cudaError_t name_##_ptsz params_                 \
    {                                                \
        return RUNTIME_CALL(symbol_##_ptsz, args_);  \
    }

/* ---- runtime_boot.c ---- */

/* Finds the driver and starts it; no context. The error becomes the thread's last. */
cudaError_t runtime_boot(void);

/* As runtime_boot, then binds the thread's device unless the program bound a context itself. */
cudaError_t runtime_enter(void);

/* Keeps an error as the thread's last and returns it. */
cudaError_t runtime_done(CUresult r);
/* The same for a question whether work is done. "Not ready" is no error and is not kept: CUDA's Programming Guide, on
   error checking, says so of cudaStreamQuery and cudaEventQuery, and of these alone. */
cudaError_t runtime_asked(CUresult r);
cudaError_t runtime_fail(cudaError_t error);
cudaError_t runtime_last(void);

/* The device that calls of this thread are for. */
int runtime_device(void);

/* Retains the primary context of a device, once. */
CUresult runtime_primary(int device, CUcontext *ret_ctx);

/* ---- runtime_nvcc.c ---- */

/* What cudaLaunchKernel and its kin take: a host function that nvcc registered, or a kernel of a library. */
cudaError_t runtime_kernel(const void *func, CUkernel *ret_kernel);

/* Lets a kernel be launched by its handle, until its library is forgotten. */
cudaError_t runtime_remember_kernel(CUkernel kernel, CUlibrary library);
void runtime_forget_library(CUlibrary library);

/* ---- calls that the real runtime has and program_abi.h has not, because their forms differ between versions ---- */

struct runtime_device_prop;   /* cudaDeviceProp */
struct runtime_channel_desc { /* cudaChannelFormatDesc */
    int x, y, z, w;
    int kind;
};
struct uint3;

#pragma GCC visibility push(default)

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
        const char *device_name, int thread_limit, struct uint3 *thread, struct uint3 *block,
        dim3 *block_dim, dim3 *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *device_name,
        int external, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device_address,
        const char *device_name, int external, size_t size, int constant, int global);
void __cudaRegisterHostVar(void **handle, const char *device_name, char *host, size_t size);
void __cudaRegisterUnifiedTable(void **handle, const void *table);
unsigned int __cudaPushCallConfiguration(
        dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t cudaGetSymbolAddress(void **ret_ptr, const void *symbol);
cudaError_t cudaGetSymbolSize(size_t *ret_bytes, const void *symbol);
cudaError_t cudaMemcpyToSymbol(
        const void *symbol, const void *src, size_t bytes, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromSymbol(
        void *dst, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes,
        size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes, size_t offset,
        enum cudaMemcpyKind kind, cudaStream_t stream);

cudaError_t cudaMemRangeGetAttribute(
        void *ret_value, size_t room, int attribute, const void *ptr, size_t bytes);
cudaError_t cudaMemRangeGetAttributes(void **ret_values, size_t *rooms, int *attributes,
        size_t count, const void *ptr, size_t bytes);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *, const void *, int, size_t, unsigned int);
struct runtime_channel_desc cudaCreateChannelDesc(int x, int y, int z, int w, int kind);

#if RUNTIME_MAJOR >= 13
cudaError_t cudaGetDeviceProperties(struct runtime_device_prop *ret_properties, int device);
cudaError_t cudaMemAdvise(const void *, size_t, int advice, struct cudaMemLocation);
CUDA_ABI_PTSZ(cudaError_t, cudaMemPrefetchAsync,
        (const void *, size_t, struct cudaMemLocation, unsigned int, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetCaptureInfo,
        (cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
                cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
                const cudaGraphEdgeData **ret_edges, size_t *ret_count));
#else
cudaError_t cudaGetDeviceProperties_v2(struct runtime_device_prop *ret_properties, int device);
cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaThreadSynchronize(void);
cudaError_t cudaThreadExit(void);
/* of CUDA 11: writes 728 bytes */
cudaError_t cudaGetDeviceProperties(struct runtime_device_prop *ret_properties, int device);
cudaError_t cudaMemAdvise(const void *, size_t, int advice, int device);
cudaError_t cudaMemAdvise_v2(const void *, size_t, int advice, struct cudaMemLocation);
CUDA_ABI_PTSZ(cudaError_t, cudaMemPrefetchAsync, (const void *, size_t, int device, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaMemPrefetchAsync_v2,
        (const void *, size_t, struct cudaMemLocation, unsigned int, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetCaptureInfo_v2,
        (cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
                cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps, size_t *ret_count));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetCaptureInfo_v3,
        (cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
                cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
                const cudaGraphEdgeData **ret_edges, size_t *ret_count));
#endif

#pragma GCC visibility pop

#endif

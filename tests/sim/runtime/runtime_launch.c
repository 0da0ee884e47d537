/* SPDX-License-Identifier: MIT */
/* Libraries, kernels, launches. */
#include "tests/sim/runtime/runtime_core.h"

/* ---- libraries ---- */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
        enum cudaJitOption *jit_options, void **jit_values, unsigned int jit_count,
        enum cudaLibraryOption *options, void **values, unsigned int count)
{
    return RUNTIME_CALL(cuLibraryLoadData,
            (library, code, (CUjit_option *)(void *)jit_options, jit_values, jit_count,
                    (CUlibraryOption *)(void *)options, values, count));
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
        enum cudaJitOption *jit_options, void **jit_values, unsigned int jit_count,
        enum cudaLibraryOption *options, void **values, unsigned int count)
{
    return RUNTIME_CALL(cuLibraryLoadFromFile,
            (library, path, (CUjit_option *)(void *)jit_options, jit_values, jit_count,
                    (CUlibraryOption *)(void *)options, values, count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    cudaError_t error = RUNTIME_CALL(cuLibraryUnload, (library));

    if (error == cudaSuccess)
        runtime_forget_library(library);
    return error;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    cudaError_t error = RUNTIME_CALL(cuLibraryGetKernel, (kernel, library, name));

    return error != cudaSuccess ? error : runtime_remember_kernel(*kernel, library);
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library)
{
    return RUNTIME_CALL(cuLibraryGetKernelCount, (count, library));
}

cudaError_t cudaLibraryEnumerateKernels(
        cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library)
{
    cudaError_t error = RUNTIME_CALL(cuLibraryEnumerateKernels, (kernels, count, library));

    for (unsigned int i = 0; i < count && error == cudaSuccess; i++) {
        if (kernels[i]) /* fewer than asked for leave the rest as it was */
            error = runtime_remember_kernel(kernels[i], library);
    }
    return error;
}

cudaError_t cudaLibraryGetGlobal(
        void **ret_ptr, size_t *ret_bytes, cudaLibrary_t library, const char *name)
{
    return RUNTIME_CALL(
            cuLibraryGetGlobal, ((CUdeviceptr *)(void *)ret_ptr, ret_bytes, library, name));
}

/* A CUkernel may stand wherever a launch takes a CUfunction. */
static CUfunction as_function(CUkernel kernel)
{
    return (CUfunction)(void *)kernel;
}

/* ---- what a kernel is like ---- */

static int kernel_attribute(CUkernel kernel, CUfunction_attribute attribute)
{
    int value = 0;

    (void)DRIVER(cuKernelGetAttribute, (&value, attribute, kernel, runtime_device()));
    return value;
}

enum {
#if RUNTIME_MAJOR < 12 /* ends before the clusters */
    ATTRIBUTES_BYTES = offsetof(struct cudaFuncAttributes, clusterDimMustBeSet),
#else
    ATTRIBUTES_BYTES = sizeof(struct cudaFuncAttributes),
#endif
};

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *ret_attributes, const void *func)
{
    struct cudaFuncAttributes attributes;
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    if (error != cudaSuccess)
        return error;
    if (!ret_attributes)
        return runtime_fail(cudaErrorInvalidValue);
    attributes = (struct cudaFuncAttributes){
            .sharedSizeBytes =
                    (size_t)kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
            .constSizeBytes = (size_t)kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
            .localSizeBytes = (size_t)kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
            .maxThreadsPerBlock = kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            .numRegs = kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS),
            .ptxVersion = kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION),
            .binaryVersion = kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
            .maxDynamicSharedSizeBytes =
                    kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    };
    memcpy(ret_attributes, &attributes, ATTRIBUTES_BYTES);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attribute, int value)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuKernelSetAttribute,
                    ((CUfunction_attribute)attribute, value, kernel, runtime_device())));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *ret_function, const void *func)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuKernelGetFunction, (ret_function, kernel)));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    CUfunction function = NULL;
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    if (error == cudaSuccess)
        error = runtime_done(DRIVER(cuKernelGetFunction, (&function, kernel)));
    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuFuncSetCacheConfig, (function, (CUfunc_cache)config)));
}

cudaError_t cudaFuncGetName(const char **ret_name, const void *func)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess ? error : runtime_done(DRIVER(cuKernelGetName, (ret_name, kernel)));
}

cudaError_t cudaFuncGetParamInfo(
        const void *func, size_t index, size_t *ret_offset, size_t *ret_size)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuKernelGetParamInfo, (kernel, index, ret_offset, ret_size)));
}

/* ---- launches ---- */

#define LAUNCH(symbol_, kernel_)                                                      \
    DRIVER(symbol_,                                                                   \
            (as_function(kernel_), grid.x, grid.y, grid.z, block.x, block.y, block.z, \
                    (unsigned int)shared_bytes, stream, args, NULL))

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess ? error : runtime_done(LAUNCH(cuLaunchKernel, kernel));
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess ? error : runtime_done(LAUNCH(cuLaunchKernel_ptsz, kernel));
}

#define LAUNCH_COOPERATIVE(symbol_, kernel_)                                          \
    DRIVER(symbol_,                                                                   \
            (as_function(kernel_), grid.x, grid.y, grid.z, block.x, block.y, block.z, \
                    (unsigned int)shared_bytes, stream, args))

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, kernel));
}

cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, kernel));
}

static cudaError_t launch_config(const cudaLaunchConfig_t *config, const void *func,
        CUlaunchConfig *ret_config, CUkernel *ret_kernel)
{
    if (!config)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_config = (CUlaunchConfig){
            .gridDimX = config->gridDim.x,
            .gridDimY = config->gridDim.y,
            .gridDimZ = config->gridDim.z,
            .blockDimX = config->blockDim.x,
            .blockDimY = config->blockDim.y,
            .blockDimZ = config->blockDim.z,
            .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
            .hStream = config->stream,
            .attrs = (CUlaunchAttribute *)(void *)config->attrs, /* laid out alike */
            .numAttrs = config->numAttrs,
    };
    return runtime_kernel(func, ret_kernel);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    CUlaunchConfig raw = {0};
    CUkernel kernel = NULL;
    cudaError_t error = launch_config(config, func, &raw, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuLaunchKernelEx, (&raw, as_function(kernel), args, NULL)));
}

cudaError_t cudaLaunchKernelExC_ptsz(
        const cudaLaunchConfig_t *config, const void *func, void **args)
{
    CUlaunchConfig raw = {0};
    CUkernel kernel = NULL;
    cudaError_t error = launch_config(config, func, &raw, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuLaunchKernelEx_ptsz, (&raw, as_function(kernel), args, NULL)));
}

/* The two that nvcc's host code calls; their kernel is what __cudaGetKernel gave. */
cudaError_t __cudaLaunchKernel(cudaKernel_t func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    return cudaLaunchKernel((const void *)func, grid, block, args, shared_bytes, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t func, dim3 grid, dim3 block, void **args,
        size_t shared_bytes, cudaStream_t stream)
{
    return cudaLaunchKernel_ptsz((const void *)func, grid, block, args, shared_bytes, stream);
}

/* ---- occupancy ---- */

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        int *ret_blocks, const void *func, int block_size, size_t shared_bytes)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                    (ret_blocks, as_function(kernel), block_size, shared_bytes)));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *ret_blocks, const void *func, int block_size, size_t shared_bytes, unsigned int flags)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_kernel(func, &kernel);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                    (ret_blocks, as_function(kernel), block_size, shared_bytes, flags)));
}

/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_module.h"

#include "tests/sim/driver/sim_attributes.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/kernel/sim_guess.h"
#include "tests/sim/kernel/sim_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUfunc_st {
    const struct sim_kernel *kernel;
    CUmodule module;
    int dynamic_shared;
    struct sim_module_launch launch;
    struct CUfunc_st *next;
};

struct CUmod_st {
    struct sim_image *image; /* the library's, if there is one */
    struct CUctx_st *ctx;
    CUlibrary library; /* whose module in ctx it is, or NULL */
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};

struct CUkern_st {
    const struct sim_kernel *kernel;
    CUlibrary library;
    struct CUkern_st *next;
};

struct CUlib_st {
    struct sim_image *image;
    struct CUkern_st *kernels;
};

/* ---- handles ---- */

/* Given back, to be handed out again, the last one first: a handle of the driver may be another kernel's soon after. */
static struct CUfunc_st *spare_functions;
static struct CUkern_st *spare_kernels;

static struct CUfunc_st *function_new(void)
{
    struct CUfunc_st *function = spare_functions;

    if (function)
        spare_functions = function->next;
    else
        function = sim_new(sizeof(*function));
    *function = (struct CUfunc_st){0};
    return function;
}

static struct CUkern_st *kernel_new(void)
{
    struct CUkern_st *kernel = spare_kernels;

    if (kernel)
        spare_kernels = kernel->next;
    else
        kernel = sim_new(sizeof(*kernel));
    return kernel;
}

static void functions_free(CUmodule module)
{
    while (module->functions) {
        struct CUfunc_st *function = module->functions;

        module->functions = function->next;
        sim_handle_remove(function);
        function->next = spare_functions;
        spare_functions = function;
    }
}

static void kernels_free(CUlibrary library)
{
    while (library->kernels) {
        struct CUkern_st *kernel = library->kernels;

        library->kernels = kernel->next;
        sim_handle_remove(kernel);
        kernel->next = spare_kernels;
        spare_kernels = kernel;
    }
}

/* ---- modules ---- */

static CUmodule module_add(struct CUctx_st *ctx, struct sim_image *image, CUlibrary library)
{
    CUmodule module = sim_new(sizeof(*module));

    module->image = image;
    module->ctx = ctx;
    module->library = library;
    module->next = ctx->modules;
    ctx->modules = module;
    sim_handle_add(module, SIM_KIND_MODULE);
    return module;
}

static void module_free(CUmodule module)
{
    struct CUmod_st **link = &module->ctx->modules;

    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    functions_free(module);
    sim_handle_remove(module);
    if (!module->library)
        sim_image_close(module->image);
    free(module);
}

void sim_module_end_context(struct CUctx_st *ctx)
{
    while (ctx->modules)
        module_free(ctx->modules);
}

static int load(struct CUctx_st *ctx, CUmodule *ret_module, const void *data)
{
    struct sim_image *image;
    int r = ret_module ? sim_image_open(data, &image) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0)
        *ret_module = module_add(ctx, image, NULL);
    return r;
}

CUresult cuModuleLoadData(CUmodule *ret_module, const void *data)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = load(call.ctx, ret_module, data);
    return sim_leave(&call, r);
}

CUresult cuModuleLoadDataEx(CUmodule *ret_module, const void *data, unsigned int count,
        CUjit_option *options, void **values)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && count && (!options || !values))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = load(call.ctx, ret_module, data);
    return sim_leave(&call, r);
}

CUresult cuModuleLoadFatBinary(CUmodule *ret_module, const void *data)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = load(call.ctx, ret_module, data);
    return sim_leave(&call, r);
}

/* The text of a file, to be freed; NULL if it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    long size;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 4 && size < 64 << 20
            && fseek(file, 0, SEEK_SET) == 0) {
        text = sim_new((size_t)size + 1);
        if (fread(text, 1, (size_t)size, file) != (size_t)size) {
            free(text);
            text = NULL;
        }
    }
    (void)fclose(file);
    return text;
}

CUresult cuModuleLoad(CUmodule *ret_module, const char *path)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);
    char *text = r || !path ? NULL : read_file(path);

    if (r == 0)
        r = text ? load(call.ctx, ret_module, text) : CUDA_ERROR_FILE_NOT_FOUND;
    free(text);
    return sim_leave(&call, r);
}

CUresult cuModuleUnload(CUmodule module)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0 && (!sim_handle_is(module, SIM_KIND_MODULE) || module->library))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        module_free(module);
    return sim_leave(&call, r);
}

static CUfunction function_of(CUmodule module, const struct sim_kernel *kernel)
{
    struct CUfunc_st *function = module->functions;

    while (function && function->kernel != kernel)
        function = function->next;
    if (function)
        return function;
    function = function_new();
    function->kernel = kernel;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    sim_handle_add(function, SIM_KIND_FUNCTION);
    return function;
}

CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
    struct sim_call call;
    const struct sim_kernel *kernel = NULL;
    int r;

    sim_guess_prepare();
    r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);
    if (r == 0 && (!ret_function || !name))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_handle_is(module, SIM_KIND_MODULE))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0 && !(kernel = sim_image_kernel(module->image, name)))
        r = CUDA_ERROR_NOT_FOUND;
    if (r == 0)
        *ret_function = function_of(module, kernel);
    return sim_leave(&call, r);
}

CUresult cuModuleGetFunctionCount(unsigned int *ret_count, CUmodule module)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_count || !sim_handle_is(module, SIM_KIND_MODULE)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_count = sim_image_count(module->image);
    return sim_leave(&call, r);
}

CUresult cuModuleGetGlobal_v2(
        CUdeviceptr *ret_ptr, size_t *ret_size, CUmodule module, const char *name)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    (void)ret_ptr;
    (void)ret_size;
    if (r == 0 && (!name || !sim_handle_is(module, SIM_KIND_MODULE)))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_FOUND); /* no variables in simulated modules */
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *ret_mode)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !ret_mode)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_mode = CU_MODULE_LAZY_LOADING;
    return sim_leave(&call, r);
}

/* ---- libraries ---- */

static int library_load(CUlibrary *ret_library, const void *data)
{
    struct sim_image *image;
    int r = ret_library ? sim_image_open(data, &image) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    *ret_library = sim_new(sizeof(**ret_library));
    (*ret_library)->image = image;
    sim_handle_add(*ret_library, SIM_KIND_LIBRARY);
    return 0;
}

CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, CUjit_option *jit_options,
        void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
        unsigned int count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0
            && ((jit_count && (!jit_options || !jit_values)) || (count && (!options || !values))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = library_load(ret_library, code);
    return sim_leave(&call, r);
}

CUresult cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, CUjit_option *jit_options,
        void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
        unsigned int count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);
    char *text = r || !path ? NULL : read_file(path);

    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    if (r == 0)
        r = text ? library_load(ret_library, text) : CUDA_ERROR_FILE_NOT_FOUND;
    free(text);
    return sim_leave(&call, r);
}

static void forget_library(struct CUctx_st *ctx, void *library)
{
    for (struct CUmod_st *module = ctx->modules, *next; module; module = next) {
        next = module->next;
        if (module->library == library)
            module_free(module);
    }
}

CUresult cuLibraryUnload(CUlibrary library)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0 && !sim_handle_is(library, SIM_KIND_LIBRARY))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0) {
        sim_context_each(forget_library, library);
        kernels_free(library);
        sim_handle_remove(library);
        sim_image_close(library->image);
        free(library);
    }
    return sim_leave(&call, r);
}

static CUkernel kernel_of(CUlibrary library, const struct sim_kernel *which)
{
    struct CUkern_st *kernel = library->kernels;

    while (kernel && kernel->kernel != which)
        kernel = kernel->next;
    if (kernel)
        return kernel;
    kernel = kernel_new();
    *kernel = (struct CUkern_st){which, library, library->kernels};
    library->kernels = kernel;
    sim_handle_add(kernel, SIM_KIND_KERNEL);
    return kernel;
}

CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
    struct sim_call call;
    const struct sim_kernel *kernel = NULL;
    int r;

    sim_guess_prepare();
    r = sim_enter(&call, __func__, SIM_NEED_INIT);
    if (r == 0 && (!ret_kernel || !name))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_handle_is(library, SIM_KIND_LIBRARY))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0 && !(kernel = sim_image_kernel(library->image, name)))
        r = CUDA_ERROR_NOT_FOUND;
    if (r == 0)
        *ret_kernel = kernel_of(library, kernel);
    return sim_leave(&call, r);
}

CUresult cuLibraryGetKernelCount(unsigned int *ret_count, CUlibrary library)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_count || !sim_handle_is(library, SIM_KIND_LIBRARY)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_count = sim_image_count(library->image);
    return sim_leave(&call, r);
}

CUresult cuLibraryEnumerateKernels(CUkernel *ret_kernels, unsigned int count, CUlibrary library)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_kernels || !sim_handle_is(library, SIM_KIND_LIBRARY)))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < count && i < sim_image_count(library->image); i++)
        ret_kernels[i] = kernel_of(library, sim_image_at(library->image, i));
    return sim_leave(&call, r);
}

static CUmodule library_module(CUlibrary library, struct CUctx_st *ctx)
{
    for (struct CUmod_st *module = ctx->modules; module; module = module->next)
        if (module->library == library)
            return module;
    return module_add(ctx, library->image, library);
}

CUresult cuLibraryGetModule(CUmodule *ret_module, CUlibrary library)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_module || !sim_handle_is(library, SIM_KIND_LIBRARY)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_module = library_module(library, call.ctx);
    return sim_leave(&call, r);
}

CUresult cuLibraryGetGlobal(
        CUdeviceptr *ret_ptr, size_t *ret_size, CUlibrary library, const char *name)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    (void)ret_ptr;
    (void)ret_size;
    if (r == 0 && (!name || !sim_handle_is(library, SIM_KIND_LIBRARY)))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_FOUND);
}

CUresult cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !ret_function)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_handle_is(kernel, SIM_KIND_KERNEL))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_function = function_of(library_module(kernel->library, call.ctx), kernel->kernel);
    return sim_leave(&call, r);
}

CUresult cuKernelGetLibrary(CUlibrary *ret_library, CUkernel kernel)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_library || !sim_handle_is(kernel, SIM_KIND_KERNEL)))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_library = kernel->library;
    return sim_leave(&call, r);
}

/* ---- what a function is ---- */

/* A CUfunction or a CUkernel: the program may cast one into the other. */
const struct sim_kernel *sim_module_kernel(const void *handle)
{
    if (sim_handle_is(handle, SIM_KIND_FUNCTION))
        return ((const struct CUfunc_st *)handle)->kernel;
    if (sim_handle_is(handle, SIM_KIND_KERNEL))
        return ((const struct CUkern_st *)handle)->kernel;
    return NULL;
}

struct sim_module_launch *sim_module_launch(CUfunction function)
{
    return sim_handle_is(function, SIM_KIND_FUNCTION) ? &function->launch : NULL;
}

static int param_info(const void *handle, size_t index, size_t *ret_offset, size_t *ret_size)
{
    const struct sim_kernel *kernel = sim_module_kernel(handle);

    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel->has_layout)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!ret_offset || index >= kernel->params_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_offset = kernel->params[index].offset;
    if (ret_size)
        *ret_size = kernel->params[index].size;
    return 0;
}

static int name_of(const void *handle, const char **ret_name)
{
    const struct sim_kernel *kernel = sim_module_kernel(handle);

    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_name)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_name = kernel->name;
    return 0;
}

static int attribute_of(const void *handle, CUfunction_attribute which, int *ret_value)
{
    if (!sim_module_kernel(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *ret_value = 1024;
        return 0;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *ret_value = 32;
        return 0;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *ret_value = 80;
        return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *ret_value = sim_handle_is(handle, SIM_KIND_FUNCTION)
                        && ((const struct CUfunc_st *)handle)->dynamic_shared
                ? ((const struct CUfunc_st *)handle)->dynamic_shared
                : 49152;
        return 0;
    default:
        *ret_value = 0;
        return (unsigned)which <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
                ? 0
                : CUDA_ERROR_INVALID_VALUE;
    }
}

/* Questions about a function or kernel that need no context. */
#define ASK(name, params, answer)                          \
    CUresult name params                                   \
    {                                                      \
        struct sim_call call;                              \
        int r = sim_enter(&call, __func__, SIM_NEED_INIT); \
        if (r == 0)                                        \
            r = answer;                                    \
        return sim_leave(&call, r);                        \
    }
ASK(cuFuncGetParamInfo, (CUfunction f, size_t index, size_t *ret_offset, size_t *ret_size),
        param_info(f, index, ret_offset, ret_size))
ASK(cuKernelGetParamInfo, (CUkernel k, size_t index, size_t *ret_offset, size_t *ret_size),
        param_info(k, index, ret_offset, ret_size))
ASK(cuFuncGetName, (const char **ret_name, CUfunction f), name_of(f, ret_name))
ASK(cuKernelGetName, (const char **ret_name, CUkernel k), name_of(k, ret_name))
ASK(cuFuncGetAttribute, (int *ret_value, CUfunction_attribute which, CUfunction f),
        attribute_of(f, which, ret_value))
ASK(cuKernelGetAttribute, (int *ret_value, CUfunction_attribute which, CUkernel k, CUdevice device),
        ((void)device, attribute_of(k, which, ret_value)))
ASK(cuFuncLoad, (CUfunction f), sim_module_kernel(f) ? 0 : CUDA_ERROR_INVALID_HANDLE)
ASK(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache config),
        ((void)config, sim_module_kernel(f) ? 0 : CUDA_ERROR_INVALID_HANDLE))

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !sim_module_kernel(f))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0 && value < 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            && sim_handle_is(f, SIM_KIND_FUNCTION))
        f->dynamic_shared = value;
    return sim_leave(&call, r);
}

CUresult cuFuncGetModule(CUmodule *ret_module, CUfunction f)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_module || !sim_handle_is(f, SIM_KIND_FUNCTION)))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_module = f->module;
    return sim_leave(&call, r);
}

/* The most shared memory that a block may have. */
static size_t shared_most(void)
{
    return (size_t)sim_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
}

static CUresult occupancy(
        const char *name, int *ret_blocks, CUfunction f, int block_size, size_t dynamic)
{
    struct sim_call call;
    int r = sim_enter(&call, name, SIM_NEED_INIT);

    int most = sim_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 0);
    int threads = sim_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0);

    if (r == 0 && (!ret_blocks || block_size <= 0 || block_size > 1024 || dynamic > shared_most()))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_module_kernel(f))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_blocks = threads / block_size > most ? most : threads / block_size;
    return sim_leave(&call, r);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *ret_blocks, CUfunction f, int block_size, size_t dynamic)
{
    return occupancy(__func__, ret_blocks, f, block_size, dynamic);
}

CUresult cuModuleEnumerateFunctions(CUfunction *ret_functions, unsigned int count, CUmodule module)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_functions || !sim_handle_is(module, SIM_KIND_MODULE)))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < count && i < sim_image_count(module->image); i++)
        ret_functions[i] = function_of(module, sim_image_at(module->image, i));
    return sim_leave(&call, r);
}

static int is_loaded(const void *handle, CUfunctionLoadingState *ret_state)
{
    if (!ret_state)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_state = CU_FUNCTION_LOADING_STATE_LOADED;
    return sim_module_kernel(handle) ? 0 : CUDA_ERROR_INVALID_HANDLE;
}

ASK(cuFuncIsLoaded, (CUfunctionLoadingState * ret_state, CUfunction f), is_loaded(f, ret_state))
ASK(cuFuncSetSharedMemConfig, (CUfunction f, CUsharedconfig config),
        ((void)config, sim_module_kernel(f) ? 0 : CUDA_ERROR_INVALID_HANDLE))
ASK(cuKernelSetAttribute, (CUfunction_attribute which, int value, CUkernel k, CUdevice device),
        ((void)which, (void)device,
                value < 0                      ? CUDA_ERROR_INVALID_VALUE
                        : sim_module_kernel(k) ? 0
                                               : CUDA_ERROR_INVALID_HANDLE))

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *ret_blocks, CUfunction f, int block_size, size_t dynamic, unsigned int flags)
{
    (void)flags; /* about caches that do not exist here */
    return occupancy(__func__, ret_blocks, f, block_size, dynamic);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(
        size_t *ret_bytes, CUfunction f, int blocks, int block_size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_bytes || blocks <= 0 || block_size <= 0 || block_size > 1024))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_module_kernel(f))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_bytes =
                shared_most() / (size_t)blocks > 49152 ? 49152 : shared_most() / (size_t)blocks;
    return sim_leave(&call, r);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && (device < 0 || device >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0 && !sim_handle_is(kernel, SIM_KIND_KERNEL))
        r = CUDA_ERROR_INVALID_HANDLE;
    return sim_leave(&call, r);
}

/* No library here has managed variables or functions of all devices. */
static CUresult not_in_library(
        const char *call_name, const void *out, CUlibrary library, const char *name)
{
    struct sim_call call;
    int r = sim_enter(&call, call_name, SIM_NEED_INIT);

    if (r == 0 && (!out || !name))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_handle_is(library, SIM_KIND_LIBRARY))
        r = CUDA_ERROR_INVALID_HANDLE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_FOUND);
}

CUresult cuLibraryGetManaged(
        CUdeviceptr *ret_ptr, size_t *ret_size, CUlibrary library, const char *name)
{
    return not_in_library(
            __func__, ret_ptr ? (const void *)ret_ptr : (const void *)ret_size, library, name);
}

CUresult cuLibraryGetUnifiedFunction(void **ret_function, CUlibrary library, const char *name)
{
    return not_in_library(__func__, ret_function, library, name);
}

/* SPDX-License-Identifier: MIT */
/*
 * Launches: the parameters are checked like the arguments of a copy (R86, guard of hints). params.h
 * knows their layout.
 */
#include "preload/driver/life.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/kernelnames.h"
#include "preload/graph/launches.h"
#include "preload/hints/params.h"
#include "preload/request/event_order.h"
#include "preload/request/submit.h"

/*
 * Several devices are no reason to check: a kernel's access to another device's memory is known
 * from elsewhere (reach.h).
 */
static bool hooks_launch_kernel_touches(
        CUfunction func, void **params, void **extra, const char *what)
{
    if (guard_thread.from && !guard_thread.pins && !guard_has(GUARD_ACTING | GUARD_USES))
        return false;
    return params_touch(func, params, extra, what);
}

/* SUBMIT_ON, which also reports the kernel's name if that is wanted. */
/* clang-format off */
#define LAUNCH_ON(symbol, params, args, check, on_stream, per_thread)              \
    SUBMIT_FIRST(symbol, params, args, launches_kernel(func, on_stream, per_thread), check,        \
            on_stream, per_thread)
#define LAUNCH_PTSZ(symbol, params, args, check)                                   \
    LAUNCH_ON(symbol, params, args, check, stream, false)                          \
    LAUNCH_ON(symbol##_ptsz, params, args, check, stream, true)

LAUNCH_PTSZ(cuLaunchKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params, void **extra),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                extra),
        hooks_launch_kernel_touches(func, params, extra, __func__))
LAUNCH_PTSZ(cuLaunchCooperativeKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params),
        hooks_launch_kernel_touches(func, params, NULL, __func__))
/* clang-format on */

/* ---- launches with attributes --------------------------------------------------------------- */

/* Events that a launch records, one for each kind of attribute. */
enum {
    EVENTS_MOST = 2,
};

/* Such an event covers less than the end of the kernel (CUDA driver API, CUlaunchAttributeID). */
static CUevent event_of(const CUlaunchAttribute *attribute)
{
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        return attribute->value.programmaticEvent.event;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        return attribute->value.launchCompletionEvent.event;
    return NULL;
}

static unsigned begin_records(
        const CUlaunchConfig *config, struct event_order ret_follow[EVENTS_MOST])
{
    unsigned count = 0;

    for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++) {
        CUevent event = event_of(&config->attrs[i]);

        if (event && count == EVENTS_MOST)
            event_order_end();
        else if (event)
            event_order_record_begin(&ret_follow[count++], event, false, NULL, false);
    }
    return count;
}

/* NOLINTBEGIN(bugprone-macro-parentheses) */
/* clang-format off */
#define EX_PARAMS (const CUlaunchConfig *config, CUfunction func, void **params, void **extra)
#define EX_ARGS   (config, func, params, extra)
#define EX_STREAM (config ? config->hStream : SUBMIT_NO_STREAM)
#define LAUNCH_EX(symbol, inner, per_thread)                                       \
    static CUresult inner EX_PARAMS                                                \
    SUBMIT_BODY(symbol, EX_ARGS, launches_kernel(func, EX_STREAM, per_thread),     \
            hooks_launch_kernel_touches(func, params, extra, #symbol), EX_STREAM, per_thread)     \
    ON_STREAM(symbol, EX_PARAMS, EX_STREAM, per_thread,                            \
        struct event_order follow[EVENTS_MOST];                                         \
        unsigned count;                                                            \
        CUresult result;                                                           \
        if (!event_order_is_on())                                                       \
            return inner EX_ARGS;                                                  \
        count = begin_records(config, follow);                                     \
        result = inner EX_ARGS;                                                    \
        while (count > 0)                                                          \
            event_order_record_end(&follow[--count], result);                           \
        return result;                                                             \
    )

/*
 * NOLINTBEGIN(readability-function-cognitive-complexity): most of it is in the macros that all
 * hooks share
 */
LAUNCH_EX(cuLaunchKernelEx, launch_ex, false)
LAUNCH_EX(cuLaunchKernelEx_ptsz, launch_ex_ptsz, true)
/* NOLINTEND(readability-function-cognitive-complexity) */
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

static bool any_touches(const CUDA_LAUNCH_PARAMS *list, unsigned count, const char *what)
{
    for (unsigned i = 0; list && i < count; i++)
        if (hooks_launch_kernel_touches(list[i].function, list[i].kernelParams, NULL, what))
            return true;
    return false;
}

/* All launches share one reader section. */
static bool launches_all(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    bool is_event = false;

    for (unsigned i = 0; list && i < count; i++) {
        bool begun = launches_kernel(list[i].function, list[i].hStream, false);

        if (begun && is_event)
            guard_read_end();
        is_event |= begun;
    }
    return is_event;
}

/* Default streams cannot be named here (CUDA driver API). */
SUBMIT_FIRST(cuLaunchCooperativeKernelMultiDevice,
        (CUDA_LAUNCH_PARAMS * list, unsigned int devices, unsigned int flags),
        (list, devices, flags), launches_all(list, devices), any_touches(list, devices, __func__),
        SUBMIT_NO_STREAM, false)

/* ---- ends of modules ------------------------------------------------------------------------ */

CUresult cuModuleUnload(CUmodule module)
{
    if (life_enter(SLOT_cuModuleUnload))
        life_leave();
    params_forget(); /* before the call: the handles may be reused for other kernels at once */
    kernelnames_forget();
    return REAL(cuModuleUnload)(module);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    if (life_enter(SLOT_cuLibraryUnload))
        life_leave();
    params_forget();
    params_library_gone(library);
    kernelnames_forget();
    return REAL(cuLibraryUnload)(library);
}

/* ---- modules and libraries ------------------------------------------------------------------- */

/* The driver fills the list up to the number of kernels. */
static void kernels_listed(CUlibrary library, const CUkernel *kernels, unsigned room)
{
    unsigned count = 0;

    if (!REAL_HAS(cuLibraryGetKernelCount)
            || REAL(cuLibraryGetKernelCount)(&count, library) != CUDA_SUCCESS)
        return;
    params_kernels_told(library, kernels, count < room ? count : room);
}

/* clang-format off */
HOOKROW_LOAD(cuModuleLoad, (CUmodule *made, const char *name), (made, name), (void)0)
HOOKROW_LOAD(cuModuleLoadData, (CUmodule *made, const void *image), (made, image), (void)0)
HOOKROW_LOAD(cuModuleLoadDataEx,
        (CUmodule *made, const void *image, unsigned int count, CUjit_option *options, void **values),
        (made, image, count, options, values), (void)0)
HOOKROW_LOAD(cuModuleLoadFatBinary, (CUmodule *made, const void *image), (made, image), (void)0)
HOOKROW_LOAD(cuModuleGetFunction, (CUfunction *func, CUmodule module, const char *name),
        (func, module, name), (void)0)
HOOKROW_LOAD(cuModuleGetGlobal_v2,
        (CUdeviceptr *ptr, size_t *size, CUmodule module, const char *name),
        (ptr, size, module, name), (void)0)
#define LIBRARY_LOAD(symbol, type)                                                 \
    HOOKROW_LOAD(symbol,                                                           \
            (CUlibrary *made, const type *code, CUjit_option *jit, void **jit_values, \
                    unsigned int jit_count, CUlibraryOption *options, void **values, \
                    unsigned int count),                                           \
            (made, code, jit, jit_values, jit_count, options, values, count), (void)0)
LIBRARY_LOAD(cuLibraryLoadData, void)
LIBRARY_LOAD(cuLibraryLoadFromFile, char)
HOOKROW_LOAD(cuLibraryGetModule, (CUmodule *module, CUlibrary library), (module, library), (void)0)
HOOKROW_LOAD(cuLibraryGetGlobal,
        (CUdeviceptr *ptr, size_t *size, CUlibrary library, const char *name),
        (ptr, size, library, name), (void)0)
HOOKROW_LOAD(cuKernelGetFunction, (CUfunction *func, CUkernel kernel), (func, kernel), (void)0)
HOOKROW_LOAD(cuFuncLoad, (CUfunction func), (func), (void)0)

/*
 * A launch takes a CUkernel in the place of a CUfunction; params.h must know which one a handle is.
 */
HOOKROW_LOAD(cuLibraryGetKernel, (CUkernel *kernel, CUlibrary library, const char *name),
        (kernel, library, name), params_kernels_told(library, kernel, 1))
HOOKROW_LOAD(cuLibraryEnumerateKernels,
        (CUkernel *kernels, unsigned int count, CUlibrary library),
        (kernels, count, library), kernels_listed(library, kernels, count))
/* clang-format on */

/* SPDX-License-Identifier: MIT */
/* Launches: the parameters are looked at like the arguments of a copy (R86). Where they lie, params.h knows. */
#include "preload/launches.h"
#include "preload/life.h"
#include "preload/params.h"
#include "preload/submit.h"

/* SUBMIT_ON, and the kernel's name on the way, where it is wanted. */
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
        params_touch(func, params, extra, __func__))
LAUNCH_ON(cuLaunchKernelEx,
        (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),
        (config, func, params, extra), params_touch(func, params, extra, __func__),
        config ? config->hStream : SUBMIT_NO_STREAM, false)
LAUNCH_ON(cuLaunchKernelEx_ptsz,
        (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),
        (config, func, params, extra), params_touch(func, params, extra, __func__),
        config ? config->hStream : SUBMIT_NO_STREAM, true)
LAUNCH_PTSZ(cuLaunchCooperativeKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params),
        params_touch(func, params, NULL, __func__))
/* clang-format on */

static bool any_touches(const CUDA_LAUNCH_PARAMS *list, unsigned count, const char *what)
{
    for (unsigned i = 0; list && i < count; i++)
        if (params_touch(list[i].function, list[i].kernelParams, NULL, what))
            return true;
    return false;
}

/* One section for all. */
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

SUBMIT_FIRST(cuLaunchCooperativeKernelMultiDevice,
        (CUDA_LAUNCH_PARAMS * list, unsigned int devices, unsigned int flags),
        (list, devices, flags), launches_all(list, devices), any_touches(list, devices, __func__),
        SUBMIT_NO_STREAM, false)

/* ---- ends of modules ------------------------------------------------------------------------ */

CUresult cuModuleUnload(CUmodule module)
{
    if (life_enter(SLOT_cuModuleUnload))
        life_leave();
    params_forget(); /* before: the handles may be another kernel's right after */
    launches_forget();
    return REAL(cuModuleUnload)(module);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    if (life_enter(SLOT_cuLibraryUnload))
        life_leave();
    params_forget();
    launches_forget();
    return REAL(cuLibraryUnload)(library);
}

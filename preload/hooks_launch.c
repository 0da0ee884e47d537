/* SPDX-License-Identifier: MIT */
/* Launches: the parameters are looked at like the arguments of a copy (R86). Where they lie, params.h knows. */
#include "preload/life.h"
#include "preload/params.h"
#include "preload/submit.h"

/* clang-format off */
SUBMIT_PTSZ(cuLaunchKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params, void **extra),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                extra),
        params_touch(func, params, extra, __func__))
SUBMIT_ON(cuLaunchKernelEx,
        (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),
        (config, func, params, extra), params_touch(func, params, extra, __func__),
        config ? config->hStream : SUBMIT_NO_STREAM, false)
SUBMIT_ON(cuLaunchKernelEx_ptsz,
        (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),
        (config, func, params, extra), params_touch(func, params, extra, __func__),
        config ? config->hStream : SUBMIT_NO_STREAM, true)
SUBMIT_PTSZ(cuLaunchCooperativeKernel,
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

SUBMIT(cuLaunchCooperativeKernelMultiDevice,
        (CUDA_LAUNCH_PARAMS * list, unsigned int devices, unsigned int flags),
        (list, devices, flags), any_touches(list, devices, __func__))

/* ---- ends of modules ------------------------------------------------------------------------ */

CUresult cuModuleUnload(CUmodule module)
{
    if (life_enter(SLOT_cuModuleUnload))
        life_leave();
    params_forget(); /* before: the handles may be another kernel's right after */
    return REAL(cuModuleUnload)(module);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    if (life_enter(SLOT_cuLibraryUnload))
        life_leave();
    params_forget();
    return REAL(cuLibraryUnload)(library);
}

/* SPDX-License-Identifier: MIT */
/*
 * Launches: the parameters are looked at like the arguments of a copy (R86). Where each parameter lies and how large it is,
 * the driver knows since 12.4; asked once per kernel and kept (params.h). A parameter of eight bytes is a pointer or looks
 * like one; larger ones are looked through in steps of eight.
 *
 * A graph launch has no arguments to look at, and what a graph was built from may be released later: as long as such
 * blocks cannot be pinned (R80), hints release nothing more once a program launches graphs.
 */
#include "preload/conduct.h"
#include "preload/hostfn.h"
#include "preload/life.h"
#include "preload/params.h"
#include "preload/submit.h"

#include <string.h>

enum {
    POINTER_BYTES = 8,
};

/* Eight bytes at `at`, which need not be aligned. */
static devptr_t word_at(const char *at)
{
    devptr_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

static bool bytes_touch(const char *bytes, size_t size, const char *what)
{
    if (size == POINTER_BYTES)
        return conduct_touch(word_at(bytes), 1, TOUCH_POINTER, what);
    for (size_t i = 0; i + POINTER_BYTES <= size; i += POINTER_BYTES)
        if (conduct_touch(word_at(bytes + i), 1, TOUCH_INSIDE, what))
            return true;
    return false;
}

static bool params_touch(const struct params *layout, void **params, const char *what)
{
    for (unsigned i = 0; i < layout->count; i++)
        if (params[i] && bytes_touch(params[i], layout->param[i].size, what))
            return true;
    return false;
}

/* The buffer and its size from an `extra` list. */
static const char *extra_buffer(void **extra, size_t *ret_size)
{
    const char *buffer = NULL;

    *ret_size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *ret_size = *(const size_t *)extra[1];
    }
    return buffer;
}

static bool extra_touches(const struct params *layout, void **extra, const char *what)
{
    size_t size;
    const char *buffer = extra_buffer(extra, &size);

    if (!buffer)
        return false;
    if (!layout) /* every word of it may be a pointer */
        return size >= POINTER_BYTES && bytes_touch(buffer, size & ~(size_t)7, what);
    for (unsigned i = 0; i < layout->count; i++)
        if (layout->param[i].offset + layout->param[i].size <= size
                && bytes_touch(buffer + layout->param[i].offset, layout->param[i].size, what))
            return true;
    return false;
}

static bool touches(CUfunction func, void **params, void **extra, const char *what)
{
    const struct params *layout = params || extra ? params_of(func) : NULL;

    if (params && layout && params_touch(layout, params, what))
        return true;
    return extra && extra_touches(layout, extra, what);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot stand in parentheses of their own */
/* clang-format off */
#define LAUNCH(symbol, params, args, check)                                        \
    CUresult symbol params                                                         \
    {                                                                              \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                \
        if (guard_is_idle() || !submit_begin())                                    \
            return REAL(symbol) args;                                              \
        if (!(check))                                                              \
            result = REAL(symbol) args;                                            \
        submit_end();                                                              \
        return result;                                                             \
    }
#define LAUNCH_PTSZ(symbol, params, args, check)                                   \
    LAUNCH(symbol, params, args, check) LAUNCH(symbol##_ptsz, params, args, check)
/* NOLINTEND(bugprone-macro-parentheses) */

LAUNCH_PTSZ(cuLaunchKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params, void **extra),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                extra),
        touches(func, params, extra, __func__))
LAUNCH_PTSZ(cuLaunchKernelEx,
        (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),
        (config, func, params, extra), touches(func, params, extra, __func__))
LAUNCH_PTSZ(cuLaunchCooperativeKernel,
        (CUfunction func, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void **params),
        (func, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params),
        touches(func, params, NULL, __func__))
/* clang-format on */

static bool any_touches(const CUDA_LAUNCH_PARAMS *list, unsigned count, const char *what)
{
    for (unsigned i = 0; list && i < count; i++)
        if (touches(list[i].function, list[i].kernelParams, NULL, what))
            return true;
    return false;
}

LAUNCH(cuLaunchCooperativeKernelMultiDevice,
        (CUDA_LAUNCH_PARAMS * list, unsigned int devices, unsigned int flags),
        (list, devices, flags), any_touches(list, devices, __func__))

/* ---- graphs --------------------------------------------------------------------------------- */

static bool graph_seen(void)
{
    conduct_stop_hints("the program launches CUDA graphs, whose blocks cannot be pinned yet");
    return false;
}

/* clang-format off */
LAUNCH_PTSZ(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), graph_seen())
/* clang-format on */

static bool kernel_node_touches(
        CUfunction func, CUkernel kernel, void **params, void **extra, const char *what)
{
    return touches(func ? func : (CUfunction)(void *)kernel, params, extra, what);
}

LAUNCH(cuGraphExecKernelNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (exec, node, params),
        params &&kernel_node_touches(
                params->func, NULL, params->kernelParams, params->extra, __func__))

LAUNCH(cuGraphExecKernelNodeSetParams_v2,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (exec, node, params),
        params &&kernel_node_touches(
                params->func, params->kern, params->kernelParams, params->extra, __func__))

static bool memcpy_touches(const CUDA_MEMCPY3D *copy, const char *what)
{
    if (!copy)
        return false;
    return (copy->srcMemoryType != CU_MEMORYTYPE_ARRAY
                   && conduct_touch(copy->srcDevice, 1, TOUCH_POINTER, what))
            || (copy->dstMemoryType != CU_MEMORYTYPE_ARRAY
                    && conduct_touch(copy->dstDevice, 1, TOUCH_POINTER, what));
}

LAUNCH(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext ctx),
        (exec, node, copy, ctx), memcpy_touches(copy, __func__))

LAUNCH(cuGraphExecMemsetNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx),
        (exec, node, set, ctx), set &&conduct_touch(set->dst, 1, TOUCH_POINTER, __func__))

static bool node_touches(const CUgraphNodeParams *params, const char *what)
{
    if (!params)
        return false;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_node_touches(params->kernel.func, params->kernel.kern,
                params->kernel.kernelParams, params->kernel.extra, what);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return memcpy_touches(&params->memcpy.copyParams, what);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return conduct_touch(params->memset.dst, 1, TOUCH_POINTER, what);
    default:
        return false;
    }
}

LAUNCH(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params),
        (exec, node, hostfn_node(params, &(CUgraphNodeParams){0})), node_touches(params, __func__))

/* ---- descriptors that carry addresses ------------------------------------------------------- */

/*
 * What a descriptor names is used by launches that we cannot see into. Released storage is refused; a block that a hint
 * may release later would have to be pinned (R80), so hints stop instead.
 */
static bool describes(devptr_t ptr, const char *what)
{
    if (conduct_touch(ptr, 1, TOUCH_POINTER, what))
        return true;
    if (conduct_is_hinted(ptr))
        conduct_stop_hints(what);
    return false;
}

static bool resource_describes(const CUDA_RESOURCE_DESC *resource, const char *what)
{
    if (!resource)
        return false;
    if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
        return describes(resource->res.linear.devPtr, what);
    if (resource->resType == CU_RESOURCE_TYPE_PITCH2D)
        return describes(resource->res.pitch2D.devPtr, what);
    return false;
}

/* clang-format off */
LAUNCH(cuTexObjectCreate,
        (CUtexObject *ret_object, const CUDA_RESOURCE_DESC *resource,
                const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view),
        (ret_object, resource, texture, view), resource_describes(resource, __func__))
LAUNCH(cuSurfObjectCreate, (CUsurfObject *ret_object, const CUDA_RESOURCE_DESC *resource),
        (ret_object, resource), resource_describes(resource, __func__))
LAUNCH(cuTensorMapEncodeTiled,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, box, element_strides, interleave, swizzle, l2,
                oob),
        describes((devptr_t)(uintptr_t)address, __func__))
LAUNCH(cuTensorMapEncodeIm2col,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, const int *lower_corner,
                const int *upper_corner, cuuint32_t channels, cuuint32_t column,
                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, lower_corner, upper_corner, channels, column,
                element_strides, interleave, swizzle, l2, oob),
        describes((devptr_t)(uintptr_t)address, __func__))
LAUNCH(cuTensorMapEncodeIm2colWide,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, int lower_corner_width,
                int upper_corner_width, cuuint32_t channels, cuuint32_t column, const cuuint32_t *element_strides,
                CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, lower_corner_width, upper_corner_width, channels, column,
                element_strides, interleave, mode, swizzle, l2, oob),
        describes((devptr_t)(uintptr_t)address, __func__))
LAUNCH(cuTensorMapReplaceAddress, (CUtensorMap *map, void *address), (map, address),
        describes((devptr_t)(uintptr_t)address, __func__))
/* clang-format on */

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

/* SPDX-License-Identifier: MIT */
/*
 * Objects that name addresses for longer than a call: tensor maps, textures, surfaces, multicast
 * objects. Released storage is refused like any visible use; a block that is named is pinned until
 * the object ends (R80, pinned blocks). A tensor map is bytes of the program's own and has no end,
 * so its block is pinned for good.
 */
#include "preload/base/guard.h"
#include "preload/graph/hookrow.h"
#include "preload/hints/pins.h"

/* From the check to the driver's return the thread is a reader (R66, reader sections). */
static bool hooks_objects_begin(struct pins *pins, enum pool_pin kind, int slot)
{
    if (!life_enter(slot))
        return false;
    *pins = PINS_NONE(kind);
    guard_read_begin();
    return true;
}

static void hooks_objects_end(void)
{
    guard_read_end();
    life_leave();
}

/*
 * The call is made unless `check` finds released storage; `then` settles the pins for the object.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define NAMES(symbol, kind, params, args, check, then)                                          \
    CUresult symbol params                                                                      \
    {                                                                                           \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                             \
        struct pins pins;                                                                       \
        if (!hooks_objects_begin(&pins, kind, SLOT_##symbol))                                                 \
            return REAL(symbol) args;                                                           \
        if (!(check))                                                                           \
            result = REAL(symbol) args;                                                         \
        if (hookrow_again(result))                                                              \
            result = REAL(symbol) args;                                                         \
        then;                                                                                   \
        hooks_objects_end();                                                                                  \
        return pins_result(&pins, result);                                                      \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

/* ---- tensor maps ---------------------------------------------------------------------------- */

static void encoded(struct pins *pins, CUresult result, const char *what)
{
    pins_shared(pins, what, false);
    if (result == CUDA_SUCCESS)
        pins_keep(pins);
    else
        pins_undo(pins);
}

/* clang-format off */
#define ENCODE(symbol, params, args, address)                                                   \
    NAMES(symbol, POOL_PIN_LIVE, params, args,                                                  \
            pins_collect(&pins, (devptr_t)(uintptr_t)(address), 1, TOUCH_POINTER, __func__),    \
            encoded(&pins, result, __func__))

ENCODE(cuTensorMapEncodeTiled,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, box, element_strides, interleave, swizzle, l2,
                oob),
        address)
ENCODE(cuTensorMapEncodeIm2col,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, const int *lower_corner,
                const int *upper_corner, cuuint32_t channels, cuuint32_t column,
                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, lower_corner, upper_corner, channels, column,
                element_strides, interleave, swizzle, l2, oob),
        address)
ENCODE(cuTensorMapEncodeIm2colWide,
        (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                const cuuint64_t *dim, const cuuint64_t *strides, int lower_corner_width,
                int upper_corner_width, cuuint32_t channels, cuuint32_t column,
                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill oob),
        (map, type, rank, address, dim, strides, lower_corner_width, upper_corner_width, channels,
                column, element_strides, interleave, mode, swizzle, l2, oob),
        address)
ENCODE(cuTensorMapReplaceAddress, (CUtensorMap *map, void *address), (map, address), address)
/* clang-format on */

/* ---- textures and surfaces ------------------------------------------------------------------ */

/* Arrays are not pooled: only linear memory and pitched images of it have an address. */
static bool resource_touches(
        struct pins *pins, const CUDA_RESOURCE_DESC *resource, const char *what)
{
    const CUDA_RESOURCE_DESC *r = resource;
    size_t size;

    if (!r)
        return false;
    if (r->resType == CU_RESOURCE_TYPE_LINEAR) {
        size = r->res.linear.sizeInBytes ? r->res.linear.sizeInBytes : 1;
        return pins_collect(pins, r->res.linear.devPtr, size, TOUCH_POINTER, what);
    }
    if (r->resType == CU_RESOURCE_TYPE_PITCH2D) {
        size = r->res.pitch2D.pitchInBytes * r->res.pitch2D.height;
        return pins_collect(pins, r->res.pitch2D.devPtr, size ? size : 1, TOUCH_POINTER, what);
    }
    return false;
}

static void described(
        struct pins *pins, CUresult result, enum pins_owner owner, const unsigned long long *object)
{
    pins_shared(pins, NULL, false);
    pins_settle(pins, result == CUDA_SUCCESS, owner, result == CUDA_SUCCESS ? *object : 0, 0);
}

/* clang-format off */
NAMES(cuTexObjectCreate, POOL_PIN_LIVE,
        (CUtexObject *made, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                const CUDA_RESOURCE_VIEW_DESC *view),
        (made, resource, texture, view), resource_touches(&pins, resource, __func__),
        described(&pins, result, PINS_OF_TEXTURE, made))
NAMES(cuSurfObjectCreate, POOL_PIN_LIVE, (CUsurfObject *made, const CUDA_RESOURCE_DESC *resource),
        (made, resource), resource_touches(&pins, resource, __func__),
        described(&pins, result, PINS_OF_SURFACE, made))
HOOKROW_OWNER(cuTexObjectDestroy, CUtexObject, PINS_OF_TEXTURE, object, (void)0, (void)0)
HOOKROW_OWNER(cuSurfObjectDestroy, CUsurfObject, PINS_OF_SURFACE, object, (void)0, (void)0)
/* clang-format on */

/* ---- multicast ------------------------------------------------------------------------------ */

/*
 * A bind shares whole granules with other devices: every block in the range is pinned, and its hint
 * is off (R85, fitness of hints).
 */
static bool bind_touches(struct pins *pins, devptr_t ptr, size_t size, const char *what)
{
    if (pins_collect(pins, ptr, size, TOUCH_POINTER, what))
        return true;
    pins_shared(pins, what, true);
    return false;
}

NAMES(cuMulticastBindAddr, POOL_PIN_SHOWN,
        (CUmemGenericAllocationHandle mc_handle, size_t mc_offset, CUdeviceptr memptr, size_t size,
                unsigned long long flags),
        (mc_handle, mc_offset, memptr, size, flags), bind_touches(&pins, memptr, size, __func__),
        pins_settle(&pins, result == CUDA_SUCCESS, PINS_OF_MULTICAST, mc_handle, mc_offset))

NAMES(cuMulticastBindAddr_v2, POOL_PIN_SHOWN,
        (CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset,
                CUdeviceptr memptr, size_t size, unsigned long long flags),
        (mc_handle, device, mc_offset, memptr, size, flags),
        bind_touches(&pins, memptr, size, __func__),
        pins_settle(&pins, result == CUDA_SUCCESS, PINS_OF_MULTICAST, mc_handle, mc_offset))

/* ---- logical endpoints ---------------------------------------------------------------------- */

/* An endpoint's number may be 0, which is not a valid owner id. */
static uint64_t endpoint_key(CUlogicalEndpointId endpoint)
{
    return (uint64_t)endpoint + 1;
}

NAMES(cuLogicalEndpointBindAddr, POOL_PIN_SHOWN,
        (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset, void *ptr,
                cuuint64_t size, unsigned long long flags),
        (endpoint, device, offset, ptr, size, flags),
        bind_touches(&pins, (devptr_t)(uintptr_t)ptr, size, __func__),
        pins_settle(
                &pins, result == CUDA_SUCCESS, PINS_OF_ENDPOINT, endpoint_key(endpoint), offset))

HOOKROW_OWNER(cuLogicalEndpointDestroy, CUlogicalEndpointId, PINS_OF_ENDPOINT, endpoint_key(object),
        (void)0, (void)0)

/* ---- binds by handle, and unbinds ----------------------------------------------------------- */

/*
 * Binds a handle that the program retained from a block of kedge: the object relies on the block
 * also after the handle's release.
 */
/* clang-format off */
#define BINDS(symbol, params, args, owner, object, part)                                        \
    NAMES(symbol, POOL_PIN_SHOWN, params, args,                                                 \
            (pins_copy(&pins, PINS_OF_HANDLE, mem_handle), false),                              \
            pins_settle(&pins, result == CUDA_SUCCESS, owner, object, part))
#define UNBINDS(symbol, params, args, owner, object, offset)                                    \
    HOOKROW_UNPINS(symbol, params, args,                                                        \
            pins_take_parts(&pins, owner, object, offset, (uint64_t)(offset) + size, device),   \
            owner, object, (void)0)

BINDS(cuMulticastBindMem,
        (CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
                CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
                unsigned long long flags),
        (mc_handle, mc_offset, mem_handle, mem_offset, size, flags),
        PINS_OF_MULTICAST, mc_handle, mc_offset)
BINDS(cuMulticastBindMem_v2,
        (CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset,
                CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
                unsigned long long flags),
        (mc_handle, device, mc_offset, mem_handle, mem_offset, size, flags),
        PINS_OF_MULTICAST, mc_handle, mc_offset)
BINDS(cuLogicalEndpointBindMem,
        (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset,
                CUmemGenericAllocationHandle mem_handle, cuuint64_t mem_offset, cuuint64_t size,
                unsigned long long flags),
        (endpoint, device, offset, mem_handle, mem_offset, size, flags),
        PINS_OF_ENDPOINT, endpoint_key(endpoint), offset)
UNBINDS(cuMulticastUnbind,
        (CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset, size_t size),
        (mc_handle, device, mc_offset, size), PINS_OF_MULTICAST, mc_handle, mc_offset)
UNBINDS(cuLogicalEndpointUnbind,
        (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset, cuuint64_t size),
        (endpoint, device, offset, size), PINS_OF_ENDPOINT, endpoint_key(endpoint), offset)
/* clang-format on */

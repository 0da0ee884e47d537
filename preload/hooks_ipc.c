/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program shows to others. The driver exports what an address lies in, from its base: for a block inside a
 * segment that would be the neighbours too, at the wrong offset. So a block is exported when it is all of its segment, and
 * refused with CUDA_ERROR_NOT_SUPPORTED and one line otherwise (R23). What was shown is pinned (R80): no hint releases it,
 * and it is not handed out again after its free (R24).
 */
#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/pins.h"
#include "preload/resolve.h"

#include <stdatomic.h>

static void say_refused(const char *call, devptr_t ptr, const char *why)
{
    static atomic_bool said;

    if (!atomic_exchange(&said, true))
        msg_warn("%s(%p) is refused: %s; KEDGE_MODE=track serves such memory by the driver", call,
                (void *)(uintptr_t)ptr, why);
}

/* The hint that placed or watches the block ends with the request, whatever comes of it (R85). */
static void hint_off(const struct block_info *info, const char *call)
{
    if (info->rule >= 0)
        conduct_hint_off(info->rule, call);
}

static bool is_ours(devptr_t ptr, struct block_info *ret_info)
{
    return conduct_pool() && pool_find(conduct_pool(), ptr, ret_info) == 0;
}

/* The legacy handle shows all of the allocation that an address lies in, from its base. */
static bool may_show(const char *call, devptr_t ptr, const struct block_info *info)
{
    hint_off(info, call);
    if (info->mapped) {
        say_refused(call, ptr, "stream-ordered and hinted memory cannot be shared this way");
        return false;
    }
    if (info->base != info->segment_base || info->segment_tenants != 1 || info->size == 0) {
        say_refused(call, ptr, "the block shares its segment with others");
        return false;
    }
    return true;
}

/* There is no call that takes an IPC handle back. */
static void shown(struct pins *pins, CUresult result)
{
    if (result == CUDA_SUCCESS)
        pins_keep(pins);
    else
        pins_undo(pins);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuIpcGetMemHandle);
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    struct block_info info;

    if (!entered || !is_ours(ptr, &info)) {
        result = REAL(cuIpcGetMemHandle)(ret_handle, ptr);
    } else if (may_show("cuIpcGetMemHandle", ptr, &info)) {
        (void)pins_collect(&pins, info.base, info.size, TOUCH_POINTER, NULL);
        result = REAL(cuIpcGetMemHandle)(ret_handle, ptr);
        shown(&pins, result);
    }
    if (entered)
        life_leave();
    return result;
}

/*
 * The handle under an address. A hinted block stands on one of its own, which then is the program's too, until it releases
 * it (cuMemRelease); the handles of other mapped memory are ours and may carry other blocks.
 */
static CUresult retain_of_ours(
        CUmemGenericAllocationHandle *ret_handle, void *address, const struct block_info *info)
{
    const char *call = "cuMemRetainAllocationHandle";
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result;

    hint_off(info, call);
    if (info->segment_base != info->base || info->segment_size != info->rounded
            || info->size == 0) {
        say_refused(call, (devptr_t)(uintptr_t)address, "the handle carries other blocks too");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (pins_collect(&pins, (devptr_t)(uintptr_t)address, 1, TOUCH_POINTER, call))
        return CUDA_ERROR_INVALID_VALUE;
    result = REAL(cuMemRetainAllocationHandle)(ret_handle, address);
    if (result == CUDA_SUCCESS && ret_handle)
        pins_give(&pins, PINS_OF_HANDLE, *ret_handle, 0);
    else
        pins_undo(&pins);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
    bool entered = life_enter(SLOT_cuMemRetainAllocationHandle);
    struct block_info info;
    CUresult result;

    if (entered && is_ours((devptr_t)(uintptr_t)address, &info) && info.mapped)
        result = retain_of_ours(ret_handle, address, &info);
    else
        result = REAL(cuMemRetainAllocationHandle)(ret_handle, address);
    if (entered)
        life_leave();
    return result;
}

/* A range, not a base: any part of one block can be shown, and nothing beyond it. There is no end to it that we see. */
static CUresult show_range(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags, const struct block_info *info)
{
    const char *call = "cuMemGetHandleForAddressRange";
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result;

    hint_off(info, call);
    if (info->size == 0 || size > info->rounded || ptr - info->base > info->rounded - size) {
        say_refused(call, ptr, "the range reaches beyond one block");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (pins_collect(&pins, info->base, info->size, TOUCH_POINTER, call))
        return CUDA_ERROR_INVALID_VALUE;
    result = REAL(cuMemGetHandleForAddressRange)(ret_handle, ptr, size, handle_type, flags);
    shown(&pins, result);
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemGetHandleForAddressRange);
    struct block_info info;
    CUresult result;

    if (entered && is_ours(ptr, &info))
        result = show_range(ret_handle, ptr, size, handle_type, flags, &info);
    else
        result = REAL(cuMemGetHandleForAddressRange)(ret_handle, ptr, size, handle_type, flags);
    if (entered)
        life_leave();
    return result;
}

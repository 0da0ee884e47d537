/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program shows to others. The driver exports what an address lies in, from its base: for a block inside a
 * segment that would be the neighbours too, at the wrong offset. So a block is exported when it is all of its segment, and
 * refused with CUDA_ERROR_NOT_SUPPORTED and one line otherwise (R23). An exported block is never handed out again (R24).
 */
#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/resolve.h"

#include <stdatomic.h>

static void say_refused(const char *call, devptr_t ptr, const char *why)
{
    static atomic_bool said;

    if (!atomic_exchange(&said, true))
        msg_warn("%s(%p) is refused: %s; KEDGE_MODE=track serves such memory by the driver", call,
                (void *)(uintptr_t)ptr, why);
}

/* Whether `ptr` may be shown as the driver would show it. */
static bool may_show(const char *call, devptr_t ptr)
{
    struct block_info info;

    if (!conduct_pool() || pool_find(conduct_pool(), ptr, &info) != 0)
        return true;
    if (conduct_is_hinted(ptr))
        conduct_stop_hints(call);
    if (info.mapped) {
        say_refused(call, ptr, "stream-ordered and hinted memory cannot be shared this way");
        return false;
    }
    if (info.base != info.segment_base || info.segment_tenants != 1 || info.size == 0) {
        say_refused(call, ptr, "the block shares its segment with others");
        return false;
    }
    conduct_exported(info.base);
    return true;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuIpcGetMemHandle);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (!entered || may_show("cuIpcGetMemHandle", ptr))
        result = REAL(cuIpcGetMemHandle)(ret_handle, ptr);
    if (entered)
        life_leave();
    return result;
}

/* The handle under an address: of a mapped heap it is ours, and may carry other blocks. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
    bool entered = life_enter(SLOT_cuMemRetainAllocationHandle);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    struct block_info info;

    if (entered && conduct_pool()
            && pool_find(conduct_pool(), (devptr_t)(uintptr_t)address, &info) == 0 && info.mapped)
        (void)may_show("cuMemRetainAllocationHandle", (devptr_t)(uintptr_t)address);
    else
        result = REAL(cuMemRetainAllocationHandle)(ret_handle, address);
    if (entered)
        life_leave();
    return result;
}

/* A range, not a base: of the plain heap any part of one block can be shown, and nothing beyond it. */
static bool may_show_range(devptr_t ptr, size_t size)
{
    const char *call = "cuMemGetHandleForAddressRange";
    struct block_info info;

    if (!conduct_pool() || pool_find(conduct_pool(), ptr, &info) != 0)
        return true;
    if (info.mapped)
        return may_show(call, ptr);
    if (ptr < info.base || size > info.rounded || ptr - info.base > info.rounded - size) {
        say_refused(call, ptr, "the range reaches beyond one block");
        return false;
    }
    conduct_exported(info.base);
    return true;
}

CUresult cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemGetHandleForAddressRange);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (!entered || may_show_range(ptr, size))
        result = REAL(cuMemGetHandleForAddressRange)(ret_handle, ptr, size, handle_type, flags);
    if (entered)
        life_leave();
    return result;
}

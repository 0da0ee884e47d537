/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program shows to others. The driver exports what an address lies in, from its base: for a block inside a
 * segment that would be the neighbours too, at the wrong offset. So a block is exported when it is all of its segment, and
 * refused with CUDA_ERROR_NOT_SUPPORTED and one line otherwise (R23). An exported block is never handed out again (R24).
 */
#include "preload/addrmap.h"
#include "preload/conduct.h"
#include "preload/imports.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/resolve.h"
#include "preload/vmm.h"

#include "alloc/lock.h"

#include <errno.h>
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
    int r;

    if (!conduct_pool() || pool_find(conduct_pool(), ptr, &info) != 0)
        return true;
    if (conduct_is_hinted(ptr))
        conduct_stop_hints(call);
    if (info.mapped) {
        say_refused(call, ptr, "stream-ordered and hinted memory cannot be shared this way");
        return false;
    }
    r = pool_export(conduct_pool(), ptr);
    if (r == -EBUSY || r == -EINVAL)
        say_refused(call, ptr, "the block shares its segment with others, or begins elsewhere");
    return r == 0;
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

/* ---- what others show to us ----------------------------------------------------------------- */

/* An allocation that is opened twice is one address, closed twice. */
static struct lock imports_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static struct addrmap imports; /* guarded by imports_lock; address: how often it is open */

void imports_ipc_fork_child(void)
{
    lock_init(&imports_lock, LOCK_RANK_PRELOAD);
}

static void opened(devptr_t ptr)
{
    struct addrmap_entry *known;
    CUdeviceptr base = 0;
    size_t size = 0;
    bool is_new;

    lock_take(&imports_lock);
    known = addrmap_add(&imports, ptr);
    is_new = known && known->value[0]++ == 0;
    lock_drop(&imports_lock);
    if (!is_new)
        return;
    (void)REAL(cuMemGetAddressRange_v2)(&base, &size, ptr);
    conduct_made(MEMCLASS_IMPORTED, ptr, size, conduct_device());
}

/* true: it was the last time. */
static bool closed(devptr_t ptr)
{
    struct addrmap_entry *known;
    bool is_last;

    lock_take(&imports_lock);
    known = addrmap_find(&imports, ptr);
    is_last = known && --known->value[0] == 0;
    if (is_last)
        addrmap_remove(&imports, known);
    lock_drop(&imports_lock);
    return is_last;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret_ptr, CUipcMemHandle handle, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuIpcOpenMemHandle_v2);
    CUresult result = REAL(cuIpcOpenMemHandle_v2)(ret_ptr, handle, flags);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        opened(*ret_ptr);
    if (entered)
        life_leave();
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *ret_ptr, CUipcMemHandle handle, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuIpcOpenMemHandle);
    CUresult result = REAL(cuIpcOpenMemHandle)(ret_ptr, handle, flags);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        opened(*ret_ptr);
    if (entered)
        life_leave();
    return result;
}

/* The record goes before the real call: afterwards the address may be something else's. */
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuIpcCloseMemHandle);
    CUresult result;

    if (entered && closed(ptr))
        conduct_gone(ptr);
    result = REAL(cuIpcCloseMemHandle)(ptr);
    if (entered)
        life_leave();
    return result;
}

/* ---- handles of mapped memory --------------------------------------------------------------- */

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
    if (entered && result == CUDA_SUCCESS && ret_handle)
        vmm_retained(*ret_handle, (devptr_t)(uintptr_t)address);
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

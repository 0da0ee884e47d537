/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program shares with other processes. The driver exports the allocation around an
 * address, from its base: for a block inside a segment that would include its neighbours, at the
 * wrong offset. So a block is exported if it fills its segment, and refused with
 * CUDA_ERROR_NOT_SUPPORTED and one line otherwise (R23, refused IPC exports). An exported block is
 * never reused (R24, exported blocks; R80, pinned blocks). A mapped block of the cudaMalloc API
 * gets a handle of kedge, which other programs under kedge can open (ipc.h).
 */
#include "preload/base/forklock.h"
#include "preload/base/msg.h"
#include "preload/base/results.h"
#include "preload/base/vmm.h"
#include "preload/driver/backend.h"
#include "preload/driver/session.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/ipc.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/hit.h"
#include "preload/hints/pins.h"

#include "alloc/base/table.h"
#include "tracker/capture/uses.h"

#include <errno.h>
#include <stdatomic.h>

/* The result of a refused call; the first one prints a line. */
static CUresult say_refused(const char *call, devptr_t ptr, const char *why)
{
    static atomic_bool said;

    if (!atomic_exchange(&said, true))
        msg_warn("%s(%p) is refused: %s; KEDGE_MODE=track serves such memory by the driver", call,
                (void *)(uintptr_t)ptr, why);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * The request ends the hint that placed or watches the block, whatever its result, and no hint is
 * suggested for its site (R85, fitness of hints).
 */
static void hint_off(const struct block_info *info, const char *call)
{
    if (info->size > 0)
        hit_shared(info->base, info->size, info->device);
    if (info->rule >= 0)
        hints_run_rule_off(info->rule, call);
}

static bool hooks_ipc_is_ours(devptr_t ptr, struct block_info *ret_info)
{
    return session_pool && pool_find(session_pool, ptr, ret_info) == 0;
}

/* Natively no address any more: the block was freed, and is only waiting. */
static bool hooks_ipc_is_gone(const struct block_info *info)
{
    return info->state == HOLDER_GONE || info->size == 0;
}

/*
 * 0: export it as the driver would; then its segment is never shared with other blocks (R24). Else
 * the result for the program.
 */
static CUresult may_show(const char *call, devptr_t ptr, const struct block_info *info)
{
    if (hooks_ipc_is_gone(info))
        /* the driver would export the segment, or the next block there */
        return CUDA_ERROR_INVALID_VALUE;
    hint_off(info, call);
    /*
     * The driver refuses this call for stream-ordered memory, natively and on kedge's handles
     * alike: it answers itself.
     */
    if (info->mapped && ((info->heap == HEAP_MAPPED && info->rule < 0) || ipc_shows(info)))
        return CUDA_SUCCESS;
    if (info->mapped)
        return say_refused(call, ptr, "stream-ordered and hinted memory cannot be shared this way");
    if (pool_export(session_pool, ptr) == 0)
        return CUDA_SUCCESS;
    return say_refused(call, ptr, "the block shares its segment with others, or begins elsewhere");
}

static CUresult refused(struct pins *pins)
{
    CUresult result = pins_result(pins, CUDA_ERROR_INVALID_VALUE);

    pins_undo(pins);
    return result;
}

static void say_for_whom(const char *call, devptr_t ptr)
{
    static atomic_bool said;

    if (!atomic_exchange(&said, true))
        msg_warn("%s(%p): mapped memory, which programs under kedge alone can open; "
                 "KEDGE_POOL=sync=plain serves "
                 "others",
                call, (void *)(uintptr_t)ptr);
}

/* Exports a mapped block, by a handle of kedge. */
static CUresult show_mapped(
        const char *call, CUipcMemHandle *ret_handle, devptr_t ptr, const struct block_info *info)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUipcMemHandle unused;
    int r = (int)REAL(cuIpcGetMemHandle)(&unused, ptr);

    if (results_is_sticky(r)) /* else the driver does not know the address */
        return (CUresult)r;
    if (!ret_handle || hooks_ipc_is_gone(info))
        return CUDA_ERROR_INVALID_VALUE;
    hint_off(info, call);
    if (pins_collect(&pins, info->base, info->size, TOUCH_POINTER, call))
        return refused(&pins);
    r = ipc_export(info, ret_handle);
    if (r == 0) {
        pins_keep(&pins);
        say_for_whom(call, ptr);
        return CUDA_SUCCESS;
    }
    pins_undo(&pins);
    if (r > 0 && results_is_sticky(r))
        return (CUresult)r;
    return say_refused(call, ptr,
            r == -EMFILE ? "it needs more descriptors than this process may have"
                         : "its handles cannot be exported");
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuIpcGetMemHandle);
    CUresult result = CUDA_SUCCESS;
    struct block_info info;
    struct context here;
    bool is_shown = false;

    if (entered && hooks_ipc_is_ours(ptr, &info)) {
        /* without a context the driver answers */
        is_shown = ipc_shows(&info) && context_here(&here) != -ENOENT;
        result = is_shown ? show_mapped("cuIpcGetMemHandle", ret_handle, ptr, &info)
                          : may_show("cuIpcGetMemHandle", ptr, &info);
    }
    if (result == CUDA_SUCCESS && !is_shown)
        result = REAL(cuIpcGetMemHandle)(ret_handle, ptr);
    if (entered && result == CUDA_SUCCESS)
        uses_shown(ptr, 1);
    if (entered)
        life_leave();
    return result;
}

/* A block of a shared pool: always served by the driver, never by kedge. */
HOOKROW(cuMemPoolExportPointer, (CUmemPoolPtrExportData * ret_data, CUdeviceptr ptr),
        (ret_data, ptr), uses_shown(ptr, 1))

/* ---- memory that other processes share with us ---------------------------------------------- */

/* An allocation that is opened twice has one address and is closed twice. */
struct import {
    uint64_t ptr;
    uint64_t opens;
};

FORKLOCK(imports_lock);
static struct table imports = TABLE_OF(struct import); /* guarded by imports_lock */

static void imported(devptr_t ptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    (void)REAL(cuMemGetAddressRange_v2)(&base, &size, ptr);
    dispatch_made(MEMCLASS_IMPORTED, ptr, size, dispatch_device());
}

/*
 * From another process, or from another pool of this one. It is freed, and so recorded, like any
 * other.
 */
HOOKROW(cuMemPoolImportPointer,
        (CUdeviceptr * made, CUmemoryPool mempool, CUmemPoolPtrExportData *data),
        (made, mempool, data), imported(*made))

/* Counts one more open of the address; true: it is the first. */
static bool note_open(devptr_t ptr)
{
    struct import *known;
    bool is_new;

    lock_take(&imports_lock);
    known = table_add(&imports, ptr);
    is_new = known && known->opens++ == 0;
    lock_drop(&imports_lock);
    return is_new;
}

/* The number of opens of the address before this close; it is now one less. */
static uint64_t closing(devptr_t ptr)
{
    struct import *known;
    uint64_t opens;

    lock_take(&imports_lock);
    known = table_find(&imports, ptr);
    opens = known ? known->opens-- : 0;
    if (opens == 1)
        (void)table_remove(&imports, known);
    lock_drop(&imports_lock);
    return opens;
}

#define LAZY_PEERS 1u /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag that exists */

/* Opens a handle of kedge. False: the driver answers. */
static bool open_mapped(
        CUdeviceptr *made, const CUipcMemHandle *handle, unsigned int flags, CUresult *ret_result)
{
    uint64_t size = 0;
    int r;

    if (!made || flags != LAZY_PEERS || !ipc_is_ours(handle))
        return false;
    r = ipc_open(handle, made, &size);
    if (r < 0)
        return false;
    if (r == 0 && size > 0)
        dispatch_made(MEMCLASS_IMPORTED, *made, size, dispatch_device());
    *ret_result = (CUresult)r;
    return true;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
#define OPENS(symbol)                                                             \
    CUresult symbol(CUdeviceptr *made, CUipcMemHandle handle, unsigned int flags) \
    {                                                                             \
        bool entered = life_enter(SLOT_##symbol);                                 \
        CUresult result;                                                          \
        if (!entered || !open_mapped(made, &handle, flags, &result)) {            \
            result = REAL(symbol)(made, handle, flags);                           \
            if (entered && hookrow_again(result))                                 \
                result = REAL(symbol)(made, handle, flags);                       \
            if (entered && result == CUDA_SUCCESS && note_open(*made))            \
                imported(*made);                                                  \
        }                                                                         \
        if (entered)                                                              \
            life_leave();                                                         \
        return result;                                                            \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

OPENS(cuIpcOpenMemHandle)
OPENS(cuIpcOpenMemHandle_v2)

/* -ENOENT: not opened by kedge. */
static int close_mapped(CUdeviceptr ptr)
{
    struct dispatch_end end = dispatch_end(ptr);
    bool is_last = false;
    int r = ipc_close(ptr, &is_last);

    if (is_last)
        dispatch_ended(&end, r);
    return r;
}

/* Counted before the real call: afterwards the address may be reused. */
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuIpcCloseMemHandle);
    int r = entered ? close_mapped(ptr) : -ENOENT;
    uint64_t opens = entered && r < 0 ? closing(ptr) : 0;
    struct dispatch_end end = {.key = 0};
    CUresult result;

    if (r >= 0) {
        life_leave();
        return (CUresult)r;
    }
    if (opens == 1)
        end = dispatch_end(ptr);
    result = REAL(cuIpcCloseMemHandle)(ptr);
    if (opens > 0 && result != CUDA_SUCCESS)
        (void)note_open(ptr);
    dispatch_ended(&end, (int)result);
    if (entered)
        life_leave();
    return result;
}

/* ---- handles of mapped memory --------------------------------------------------------------- */

/*
 * The handle under an address. A hinted block has a handle of its own, which then also belongs to
 * the program until it releases it (cuMemRelease); handles of other mapped memory are kedge's and
 * may carry other blocks.
 */
static CUresult retain_of_ours(
        CUmemGenericAllocationHandle *ret_handle, void *address, const struct block_info *info)
{
    const char *call = "cuMemRetainAllocationHandle";
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    struct block_info now;
    CUresult result;

    if (hooks_ipc_is_gone(info) || ipc_shows(info)) /* natively memory without a handle */
        return CUDA_ERROR_INVALID_VALUE;
    /* so is memory of a pool: the driver answers as for an address without a mapping */
    if (info->heap == HEAP_MAPPED)
        return REAL(cuMemRetainAllocationHandle)(ret_handle, NULL);
    hint_off(info, call);
    if (pins_collect(&pins, (devptr_t)(uintptr_t)address, 1, TOUCH_POINTER, call))
        return refused(&pins);
    /* Checked again: only now the block is certain to be on the device. */
    if (!hooks_ipc_is_ours((devptr_t)(uintptr_t)address, &now) || now.segment_base != now.base
            || now.segment_size != now.rounded) {
        pins_undo(&pins);
        return say_refused(
                call, (devptr_t)(uintptr_t)address, "the handle carries other blocks too");
    }
    result = REAL(cuMemRetainAllocationHandle)(ret_handle, address);
    pins_settle(&pins, result == CUDA_SUCCESS, PINS_OF_HANDLE,
            result == CUDA_SUCCESS ? *ret_handle : 0, 0);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
    bool entered = life_enter(SLOT_cuMemRetainAllocationHandle);
    struct block_info info;
    CUresult result;

    if (entered && hooks_ipc_is_ours((devptr_t)(uintptr_t)address, &info) && info.mapped)
        result = retain_of_ours(ret_handle, address, &info);
    else
        result = REAL(cuMemRetainAllocationHandle)(ret_handle, address);
    if (entered && result == CUDA_SUCCESS && ret_handle) {
        vmm_retained(*ret_handle, (devptr_t)(uintptr_t)address);
        uses_shown((uintptr_t)address, 1);
    }
    if (entered)
        life_leave();
    return result;
}

/*
 * The call is not for memory of a pool (CUDA driver API: only for cuMemAlloc's and
 * cuMemAddressReserve's), and kedge's handles under it would be accepted. So the driver is asked
 * about no address, and reports any other error of the call.
 */
static CUresult show_range_of_pool(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags, const struct block_info *info)
{
    enum {
        PAGE = 4096,
        DMA_BUF = 1, /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, the only value */
        FLAGS = 1,
    };
    CUresult said = REAL(cuMemGetHandleForAddressRange)(ret_handle, 0, size, handle_type, flags);
    bool is_sound = ret_handle && handle_type == DMA_BUF && flags <= FLAGS && size > 0
            && (ptr | size) % PAGE == 0 && size <= info->rounded
            && ptr - info->base <= info->rounded - size;

    return said == CUDA_ERROR_INVALID_VALUE && is_sound ? CUDA_ERROR_NOT_SUPPORTED : said;
}

/*
 * A range, not a base: any part of one block can be exported, and nothing beyond it. kedge does not
 * see the export's end.
 */
static CUresult show_range(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags, const struct block_info *info)
{
    const char *call = "cuMemGetHandleForAddressRange";
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result;

    if (hooks_ipc_is_gone(info))
        return CUDA_ERROR_INVALID_VALUE;
    if (info->heap == HEAP_MAPPED)
        return show_range_of_pool(ret_handle, ptr, size, handle_type, flags, info);
    hint_off(info, call);
    if (size > info->rounded || ptr - info->base > info->rounded - size)
        return say_refused(call, ptr, "the range reaches beyond one block");
    if (pins_collect(&pins, info->base, info->size, TOUCH_POINTER, call))
        return refused(&pins);
    result = REAL(cuMemGetHandleForAddressRange)(ret_handle, ptr, size, handle_type, flags);
    if (result == CUDA_SUCCESS)
        pins_keep(&pins);
    else
        pins_undo(&pins);
    return result;
}

CUresult cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemGetHandleForAddressRange);
    struct block_info info;
    CUresult result;

    if (entered && hooks_ipc_is_ours(ptr, &info))
        result = show_range(ret_handle, ptr, size, handle_type, flags, &info);
    else
        result = REAL(cuMemGetHandleForAddressRange)(ret_handle, ptr, size, handle_type, flags);
    if (entered && result == CUDA_SUCCESS)
        uses_shown(ptr, size);
    if (entered)
        life_leave();
    return result;
}

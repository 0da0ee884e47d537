/* SPDX-License-Identifier: MIT */
/*
 * Questions about memory. On the plain heap the driver's truth stands: base and size are the segment's, which is what
 * libraries need that export `base` and add `ptr - base` (R21). On the mapped heap the driver knows one handle's mapping,
 * which is nothing the program ever asked for: there the block answers, also when a hint has taken its storage (R79).
 */
#include "preload/conduct.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/mempools.h"
#include "preload/resolve.h"

/* ---- how much is there ---------------------------------------------------------------------- */

/*
 * As if each block were an allocation of its own: what we hold counts as free, what the program holds does not, whatever
 * hints did to its storage (R22, R84).
 */
static size_t free_for_program(size_t native_free, size_t total, int device)
{
    struct pool_stats stats;
    uint64_t available;

    pool_stats(conduct_pool(), device, &stats);
    available = native_free + stats.reserved;
    available = available > stats.live_rounded ? available - stats.live_rounded : 0;
    if (stats.live_rounded <= total && available > total - stats.live_rounded)
        available = total - stats.live_rounded;
    return (size_t)available;
}

CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    bool entered = life_enter(SLOT_cuMemGetInfo_v2);
    CUresult result = REAL(cuMemGetInfo_v2)(ret_free, ret_total);
    struct context context;

    if (entered && result == CUDA_SUCCESS && ret_free && ret_total && !guard_in_callback()
            && context_here(&context) == 0) {
        conduct_looked(context.device, *ret_free, *ret_total);
        if (conduct_pool() && !conduct_meminfo_raw())
            *ret_free = free_for_program(*ret_free, *ret_total, context.device);
    }
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemGetInfo(unsigned int *ret_free, unsigned int *ret_total)
{
    if (life_enter(SLOT_cuMemGetInfo))
        life_leave();
    return REAL(cuMemGetInfo)(ret_free, ret_total);
}

/* ---- what is at an address ------------------------------------------------------------------ */

/* true: ptr lies in mapped memory of ours. */
static bool is_mapped(devptr_t ptr, struct block_info *ret_info)
{
    return conduct_pool() && pool_find(conduct_pool(), ptr, ret_info) == 0 && ret_info->mapped;
}

/* Held by the program: natively a freed address is no address any more. */
static bool is_held(const struct block_info *info)
{
    return info->state != HOLDER_GONE && info->size > 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuMemGetAddressRange_v2);
    struct block_info info;
    CUresult result;

    if (!entered || !is_mapped(ptr, &info)) {
        result = REAL(cuMemGetAddressRange_v2)(ret_base, ret_size, ptr);
    } else if (!is_held(&info)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        result = CUDA_SUCCESS;
        if (ret_base)
            *ret_base = info.base;
        if (ret_size)
            *ret_size = info.size;
    }
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *ret_base, unsigned int *ret_size, CUdeviceptr_v1 ptr)
{
    if (life_enter(SLOT_cuMemGetAddressRange))
        life_leave();
    return REAL(cuMemGetAddressRange)(ret_base, ret_size, ptr);
}

/* Attributes whose answer is the block's in every state. false: not one of them. */
static bool answer_block(void *value, CUpointer_attribute attribute, const struct block_info *info)
{
    struct mempool mempool;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = info->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = info->size;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* of this tenant, never used again */
        *(unsigned long long *)value = info->alloc_seq | UINT64_C(1) << 63;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        if (info->heap == HEAP_PRIVATE || !mempool_of_id(info->owner, &mempool))
            mempool.handle = NULL;
        *(CUmemoryPool *)value = mempool.handle;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)value = 1;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)value = 0;
        return true;
    default:
        return false;
    }
}

/* The others, for a range that has no storage to ask the driver about (limbo is not told apart: both are dead). */
static bool answer_husk(
        void *value, CUpointer_attribute attribute, const struct block_info *info, devptr_t ptr)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = ptr;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = info->device;
        return true;
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
        struct context context;

        *(CUcontext *)value =
                context_of_generation(info->context, &context) ? context.handle : NULL;
        return true;
    }
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)value = 0;
        return true;
    default:
        return false;
    }
}

/* One attribute of an address in mapped memory of ours; the driver answers what we have nothing to say about. */
static CUresult attribute_of(
        void *value, CUpointer_attribute attribute, devptr_t ptr, const struct block_info *info)
{
    bool husk = info->state == HOLDER_HUSK || info->state == HOLDER_LIMBO;

    if (!is_held(info))
        return CUDA_ERROR_INVALID_VALUE;
    if (answer_block(value, attribute, info) || (husk && answer_husk(value, attribute, info, ptr)))
        return CUDA_SUCCESS;
    return REAL(cuPointerGetAttribute)(value, attribute, ptr);
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuPointerGetAttribute);
    struct block_info info;
    CUresult result;

    if (entered && value && is_mapped(ptr, &info))
        result = attribute_of(value, attribute, ptr, &info);
    else
        result = REAL(cuPointerGetAttribute)(value, attribute, ptr);
    if (entered)
        life_leave();
    return result;
}

/*
 * The plural call never fails for an unknown address: it answers zeroes. So the driver answers first, and the block's own
 * answers are written over it.
 */
static void overlay(unsigned count, const CUpointer_attribute *attributes, void **values,
        devptr_t ptr, const struct block_info *info)
{
    bool husk = info->state == HOLDER_HUSK || info->state == HOLDER_LIMBO;

    for (unsigned i = 0; i < count && is_held(info); i++)
        if (values[i] && !answer_block(values[i], attributes[i], info) && husk)
            (void)answer_husk(values[i], attributes[i], info, ptr);
}

CUresult cuPointerGetAttributes(
        unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuPointerGetAttributes);
    CUresult result = REAL(cuPointerGetAttributes)(count, attributes, values, ptr);
    struct block_info info;

    if (entered && result == CUDA_SUCCESS && attributes && values && is_mapped(ptr, &info))
        overlay(count, attributes, values, ptr, &info);
    if (entered)
        life_leave();
    return result;
}

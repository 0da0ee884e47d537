/* SPDX-License-Identifier: MIT */
/*
 * Queries about memory. On the plain heap the driver's answers stand: base and size are the
 * segment's, which libraries need that export `base` and add `ptr - base` (R21, address range
 * queries). On the mapped heap the driver would report one handle's mapping, which the program
 * never asked for: kedge answers with the block, also when a hint has released its storage (R79,
 * mapped range queries).
 */
#include "preload/base/guard.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/mempools.h"
#include "preload/driver/session.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/ipc.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/hints_run.h"

#include <string.h>

/* ---- free memory ------------------------------------------------------------------------ */

/*
 * The free memory that the program sees, whatever hints did to the storage of its blocks (R22, free
 * memory figure; R84, answers ignore hints).
 */
static size_t free_for_program(size_t native_free, size_t total, int device)
{
    const struct pool_memory memory = {
            .driver_free = native_free,
            .total = total,
            .may_wait = session_may_fence() && !pool_is_frozen(session_pool),
    };

    return (size_t)pool_available(session_pool, device, &memory);
}

static void answer_free(size_t *ret_free, const size_t *ret_total)
{
    struct context context;

    if (!ret_free || !ret_total || guard_in_callback() || context_here(&context) != 0)
        return;
    device_stats_looked(context.device, *ret_free, *ret_total);
    if (session_pool && !session_meminfo_raw)
        *ret_free = free_for_program(*ret_free, *ret_total, context.device);
}

HOOKROW(cuMemGetInfo_v2, (size_t * ret_free, size_t *ret_total), (ret_free, ret_total),
        answer_free(ret_free, ret_total))

/* ---- memory at an address -------------------------------------------------------------------- */

/* true: ptr is in mapped memory of kedge. */
static bool hooks_query_is_mapped(devptr_t ptr, struct block_info *ret_info)
{
    return session_pool && pool_find(session_pool, ptr, ret_info) == 0 && ret_info->mapped;
}

/* true: ptr is in memory of another process that ipc.h has opened, in several mappings. */
static bool is_imported(devptr_t ptr, struct block_info *ret_info)
{
    *ret_info = (struct block_info){.state = HOLDER_LIVE, .rule = -1};
    return ipc_find(ptr, &ret_info->base, &ret_info->size);
}

/* An address without any memory: the driver answers for it as for a freed one. */
#define NOWHERE ((CUdeviceptr)0)

/* Whether the program holds the block: natively a freed address is no address any more. */
static bool hooks_query_is_held(const struct block_info *info)
{
    return info->state != HOLDER_GONE && info->size > 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuMemGetAddressRange_v2);
    struct block_info info;
    CUresult result;

    if (!entered || (!is_imported(ptr, &info) && !hooks_query_is_mapped(ptr, &info))) {
        result = REAL(cuMemGetAddressRange_v2)(ret_base, ret_size, ptr);
    } else if (!hooks_query_is_held(&info)) {
        result = REAL(cuMemGetAddressRange_v2)(ret_base, ret_size, NOWHERE);
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

/*
 * Only the driver knows the size of a boolean: it writes its own answer first (the plural call
 * always has one), then kedge writes the correct value.
 */
static bool put_bool(void *value, CUpointer_attribute attribute, devptr_t ptr, bool is)
{
    (void)REAL(cuPointerGetAttributes)(1, &attribute, &value, ptr);
    *(unsigned char *)value = is;
    return true;
}

static bool put_word(void *value, uint64_t word)
{
    memcpy(value, &word, sizeof word);
    return true;
}

static bool put_int(void *value, unsigned number)
{
    memcpy(value, &number, sizeof number);
    return true;
}

/* Attributes that the block answers in every state. false: not one of them. */
static bool answer_block(
        void *value, CUpointer_attribute attribute, const struct block_info *info, devptr_t ptr)
{
    struct mempool mempool;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return put_word(value, info->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return put_word(value, info->size);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* unique per block, never reused */
        return put_word(value, info->alloc_seq | UINT64_C(1) << 63);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        if (info->heap == HEAP_PRIVATE || !mempool_of_id(info->owner, &mempool))
            mempool.handle = NULL;
        return put_word(value, (uintptr_t)mempool.handle);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return put_bool(value, attribute, ptr, true);
    /* the handles are kedge's and cannot be exported */
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return put_word(value, 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: /* decided by ipc.h */
        return put_bool(value, attribute, ptr, ipc_shows(info));
    default:
        return false;
    }
}

/* The context of memory that the program asked for in a context; stream-ordered memory has none. */
static bool answer_context(void *value, const struct block_info *info)
{
    struct context context;

    if (info->heap != HEAP_PRIVATE || !context_of_generation(info->owner, &context))
        return false;
    return put_word(value, (uintptr_t)context.handle);
}

/*
 * The other attributes, for a range without storage to ask the driver about (limbo is treated
 * alike: both are dead).
 */
static bool answer_husk(
        void *value, CUpointer_attribute attribute, const struct block_info *info, devptr_t ptr)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return put_int(value, (unsigned)CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return put_word(value, ptr);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return put_int(value, (unsigned)info->device);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return put_bool(value, attribute, ptr, false);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return put_int(value, (unsigned)CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: /* the block had a handle of its own */
        return put_word(value, info->base);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return put_word(value, info->rounded);
    default:
        return false;
    }
}

/*
 * A block that may be evicted is answered for as if it were, so that the program sees no
 * difference.
 */
static bool is_out_of_reach(const struct block_info *info)
{
    return info->state == HOLDER_HUSK || info->state == HOLDER_LIMBO
            || hints_run_is_evict_rule(info->rule);
}

/*
 * For memory that a hint has made managed the driver returns a host address; the memory that the
 * program asked for has none.
 */
static bool is_of_host(CUpointer_attribute attribute, const struct block_info *info)
{
    return info->managed && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER;
}

/* Attributes that kedge answers instead of the driver. */
static bool hooks_query_answer(
        void *value, CUpointer_attribute attribute, const struct block_info *info, devptr_t ptr)
{
    if (is_of_host(attribute, info))
        return put_word(value, 0);
    return answer_block(value, attribute, info, ptr)
            || (attribute == CU_POINTER_ATTRIBUTE_CONTEXT && answer_context(value, info))
            || (is_out_of_reach(info) && answer_husk(value, attribute, info, ptr));
}

/* One attribute of an address in mapped memory of kedge; the driver answers the rest. */
static CUresult attribute_of(
        void *value, CUpointer_attribute attribute, devptr_t ptr, const struct block_info *info)
{
    struct evict_in bring;
    CUresult result;

    if (!hooks_query_is_held(info) || is_of_host(attribute, info))
        return REAL(cuPointerGetAttribute)(value, attribute, NOWHERE);
    if (hooks_query_answer(value, attribute, info, ptr))
        return CUDA_SUCCESS;
    if (!hints_run_is_evict_rule(info->rule) || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER
            || !session_may_fence())
        return REAL(cuPointerGetAttribute)(value, attribute, ptr);
    /* Rarely asked for, and only the driver knows it: the block must be on the device. */
    guard_read_begin();
    (void)evict_in_pinned(&bring, ptr, 1);
    result = REAL(cuPointerGetAttribute)(value, attribute, ptr);
    (void)evict_in_end(&bring, CUDA_SUCCESS);
    guard_read_end();
    return result;
}

/* An opened block is one range, in as many mappings as it has physical handles. */
static bool answer_imported(void *value, CUpointer_attribute attribute, devptr_t ptr)
{
    struct block_info info;

    if (!is_imported(ptr, &info))
        return false;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        return put_word(value, info.base);
    return attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE && put_word(value, info.size);
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuPointerGetAttribute);
    struct block_info info;
    CUresult result;

    if (entered && value && hooks_query_is_mapped(ptr, &info))
        result = attribute_of(value, attribute, ptr, &info);
    else if (entered && value && answer_imported(value, attribute, ptr))
        result = CUDA_SUCCESS;
    else
        result = REAL(cuPointerGetAttribute)(value, attribute, ptr);
    if (entered)
        life_leave();
    return result;
}

/*
 * The plural call never fails for an unknown address: it answers zeroes, or -2 for a device. So the
 * driver answers first, for NOWHERE if the address would natively be invalid, and the block's own
 * answers are written over that.
 */
CUresult cuPointerGetAttributes(
        unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuPointerGetAttributes);
    struct block_info info;
    bool ours = entered && hooks_query_is_mapped(ptr, &info);
    bool held = ours && hooks_query_is_held(&info);
    CUresult result =
            REAL(cuPointerGetAttributes)(count, attributes, values, ours && !held ? NOWHERE : ptr);

    for (unsigned i = 0; entered && result == CUDA_SUCCESS && attributes && values && i < count;
            i++)
        if (values[i] && !(held && hooks_query_answer(values[i], attributes[i], &info, ptr))
                && !ours)
            (void)answer_imported(values[i], attributes[i], ptr);
    if (entered)
        life_leave();
    return result;
}

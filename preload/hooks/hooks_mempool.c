/* SPDX-License-Identifier: MIT */
/*
 * The memory pools of stream-ordered allocations. The driver's own pool stays in place behind each
 * of ours: it checks arguments, keeps settings and access, and serves requests that ours cannot, so
 * its figures are added to ours (R77, pools served; R78, pool attributes).
 */
#include "preload/base/guard.h"
#include "preload/driver/backend.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/mempools.h"
#include "preload/driver/session.h"
#include "preload/graph/hookrow.h"
#include "preload/request/spill.h"

/* Finds the pool behind a handle; true if a heap of ours serves it. */
static bool is_served(CUmemoryPool handle, struct mempool *ret_mempool)
{
    if (!session_pool)
        return false;
    if (!guard_in_callback())
        mempool_learn_defaults();
    return mempool_find(handle, ret_mempool);
}

static void pool_made(CUmemoryPool mempool, const CUmemPoolProps *props)
{
    if (session_pool)
        mempool_created(mempool, props);
}

HOOKROW(cuMemPoolCreate, (CUmemoryPool * made, const CUmemPoolProps *props), (made, props),
        pool_made(*made, props))

CUresult cuMemPoolDestroy(CUmemoryPool mempool)
{
    bool entered = life_enter(SLOT_cuMemPoolDestroy);
    struct mempool known = {.served = false};
    uint64_t id = 0;
    CUresult result;

    if (entered && session_pool) {
        if (!guard_in_callback())
            mempool_learn_defaults();
        id = mempool_destroy_begin(mempool);
    }
    result = REAL(cuMemPoolDestroy)(mempool);
    if (id)
        mempool_destroy_end(id, result == CUDA_SUCCESS, &known);
    if (known.served && result == CUDA_SUCCESS) {
        (void)pool_heap_gone(session_pool, known.id);
        device_stats_reserved(known.device);
    }
    if (entered)
        life_leave();
    return result;
}

static uint64_t reserved_of(const struct mempool *mempool)
{
    struct pool_stats stats;

    if (pool_heap_stats(session_pool, HEAP_MAPPED, mempool->id, &stats) != 0)
        return 0;
    return stats.reserved;
}

CUresult cuMemPoolTrimTo(CUmemoryPool mempool, size_t keep)
{
    bool entered = life_enter(SLOT_cuMemPoolTrimTo);
    uint64_t native_keep = keep;
    struct mempool known;
    CUresult result;

    if (entered && is_served(mempool, &known) && session_may_fence()) {
        uint64_t left, bytes;

        if (pool_trim(session_pool, HEAP_MAPPED, known.id, keep, &bytes) == 0)
            device_stats_reserved(known.device);
        left = reserved_of(&known);
        native_keep = left < keep ? keep - left : 0; /* together never below the bytes asked for */
    }
    result = REAL(cuMemPoolTrimTo)(mempool, native_keep);
    if (entered)
        spill_look_again();
    if (entered)
        life_leave();
    return result;
}

static void mirror_setting(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value)
{
    struct pool_heap_attrs attrs;
    struct pool *pool = session_pool;
    struct mempool known;

    if (!is_served(handle, &known) || pool_heap_attrs(pool, known.id, known.device, &attrs) != 0)
        return;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        attrs.release_threshold = *(const cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        attrs.reuse_follow = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        attrs.reuse_opportunistic = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        attrs.reuse_internal_dependencies = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* the driver accepted the value, so it was 0 */
        spill_look_again();
        (void)pool_reset_high(pool, HEAP_MAPPED, known.id,
                attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
        return;
    default:
        return;
    }
    (void)pool_set_heap_attrs(pool, known.id, known.device, &attrs);
}

HOOKROW(cuMemPoolSetAttribute, (CUmemoryPool mempool, CUmemPool_attribute attribute, void *value),
        (mempool, attribute, value), mirror_setting(mempool, attribute, value))

/* The heap's share of an attribute; 0 for settings, which the driver's pool keeps. */
static uint64_t hooks_mempool_share_of(const struct mempool *mempool, CUmemPool_attribute attribute)
{
    struct pool_stats stats;

    if (pool_heap_stats(session_pool, HEAP_MAPPED, mempool->id, &stats) != 0)
        return 0;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return stats.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return stats.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return stats.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return stats.used_high;
    default:
        return 0;
    }
}

/* Joins both shares. The heap's high marks already include the driver's pool. */
static cuuint64_t together(CUmemPool_attribute attribute, cuuint64_t native, uint64_t share)
{
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
            || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return native > share ? native : share;
    return native + share;
}

/* Adds the heap's share. Settings have no share, and their values may be narrower than 64 bits. */
static void add_share(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct mempool known;
    uint64_t share = is_served(handle, &known) ? hooks_mempool_share_of(&known, attribute) : 0;

    if (share > 0)
        *(cuuint64_t *)value = together(attribute, *(cuuint64_t *)value, share);
}

HOOKROW(cuMemPoolGetAttribute, (CUmemoryPool mempool, CUmemPool_attribute attribute, void *value),
        (mempool, attribute, value), add_share(mempool, attribute, value))

static CUresult give_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    struct mempool known;
    int r = map && is_served(handle, &known) ? backend_apply_access(known.id, map, count) : 0;

    return r > 0 ? (CUresult)r : CUDA_SUCCESS;
}

HOOKROW(cuMemPoolSetAccess, (CUmemoryPool mempool, const CUmemAccessDesc *map, size_t count),
        (mempool, map, count), result = give_access(mempool, map, count))

/* The driver's pool was given the same access, so its answer holds for ours. */
HOOKROW(cuMemPoolGetAccess,
        (CUmemAccess_flags * ret_flags, CUmemoryPool mempool, CUmemLocation *location),
        (ret_flags, mempool, location), (void)0)

HOOKROW(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool mempool), (device, mempool),
        mempool_changed(device))
HOOKROW(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool mempool),
        (location, type, mempool), mempool_changed(-1))

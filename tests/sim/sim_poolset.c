/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_poolset.h"

#include "tests/sim/sim_pool_parts.h"

#include <string.h>

static CUmemoryPool default_pools[SIMCUDA_MAX_DEVICES];
static CUmemoryPool current_pools[SIMCUDA_MAX_DEVICES];

static struct CUmemPoolHandle_st *pool_open(int device, const CUmemPoolProps *props)
{
    struct CUmemPoolHandle_st *pool = sim_new(sizeof(*pool));

    pool->props = *props;
    pool->device = device;
    for (int i = 1; i < 4; i++)
        pool->reuse[i] = true;
    pool->readable = pool->writable = (uint16_t)(1U << device);
    sim_pool_link(pool);
    sim_handle_add(pool, SIM_KIND_POOL);
    return pool;
}

static CUmemoryPool default_pool(int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};

    if (!default_pools[device])
        default_pools[device] = pool_open(device, &props);
    return default_pools[device];
}

CUmemoryPool sim_poolset_current(int device)
{
    if (!sim_handle_is(current_pools[device], SIM_KIND_POOL))
        current_pools[device] = default_pool(device);
    return current_pools[device];
}

static int create(CUmemoryPool *ret_pool, const CUmemPoolProps *props)
{
    if (!ret_pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE
            || props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED; /* host pools and pools of several processes */
    if (props->location.id < 0 || props->location.id >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_pool = pool_open(props->location.id, props);
    return 0;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *props)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = create(ret_pool, props);
    return sim_leave(&call, r);
}

/* Blocks that are still used keep the pool's memory until they are freed. */
static int destroy(CUmemoryPool pool)
{
    if (!sim_handle_is(pool, SIM_KIND_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config.devices; i++)
        if (default_pools[i] == pool)
            return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config.devices; i++)
        if (current_pools[i] == pool)
            current_pools[i] = NULL; /* the default pool is current again */
    sim_handle_remove(pool);
    pool->destroyed = true;
    sim_pool_put(pool);
    return 0;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(pool);
    return sim_leave(&call, r);
}

static int usable(CUmemoryPool pool)
{
    return sim_handle_is(pool, SIM_KIND_POOL) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = usable(pool);
    if (r == 0)
        sim_pool_trim(pool, keep);
    return sim_leave(&call, r);
}

static int set_attribute(CUmemoryPool pool, CUmemPool_attribute which, const void *value)
{
    int flag;
    cuuint64_t number;

    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&flag, value, sizeof(flag));
        pool->reuse[which] = flag != 0;
        return 0;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&number, value, sizeof(number));
        pool->threshold = number;
        return 0;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&number, value, sizeof(number));
        if (number)
            return CUDA_ERROR_INVALID_VALUE;
        if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->reserved;
        return 0;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = value ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = set_attribute(pool, which, value);
    return sim_leave(&call, r);
}

static int get_attribute(
        const struct CUmemPoolHandle_st *pool, CUmemPool_attribute which, void *out)
{
    const cuuint64_t numbers[] = {
            [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold,
            [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = pool->reserved,
            [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = pool->reserved_high,
            [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used,
            [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->used_high,
    };

    if ((int)which < 1 || (size_t)which >= sizeof(numbers) / sizeof(numbers[0]))
        return CUDA_ERROR_INVALID_VALUE;
    if (which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        int flag = pool->reuse[which];
        memcpy(out, &flag, sizeof(flag));
    } else {
        memcpy(out, &numbers[which], sizeof(numbers[which]));
    }
    return 0;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *ret_value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_value ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = get_attribute(pool, which, ret_value);
    return sim_leave(&call, r);
}

static int set_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int device = desc[i].location.id;
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (device < 0 || device >= sim_config.devices)
            return CUDA_ERROR_INVALID_DEVICE;
        if (device == pool->device && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned bit = 1U << desc[i].location.id;
        bool read = desc[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
        bool write = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        pool->readable = (uint16_t)(read ? pool->readable | bit : pool->readable & ~bit);
        pool->writable = (uint16_t)(write ? pool->writable | bit : pool->writable & ~bit);
    }
    return 0;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = desc && count ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = set_access(pool, desc, count);
    return sim_leave(&call, r);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool pool, CUmemLocation *where)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_flags && where ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0
            && (where->type != CU_MEM_LOCATION_TYPE_DEVICE || where->id < 0
                    || where->id >= sim_config.devices))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0)
        *ret_flags = (pool->writable >> where->id) & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                : (pool->readable >> where->id) & 1    ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(&call, r);
}

static int valid(CUdevice device)
{
    return device >= 0 && device < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = default_pool(device);
    return sim_leave(&call, r);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = sim_poolset_current(device);
    return sim_leave(&call, r);
}

static int set_current(CUdevice device, CUmemoryPool pool)
{
    int r = valid(device);

    if (r == 0)
        r = usable(pool);
    if (r == 0 && pool->device != device)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        current_pools[device] = pool;
    return r;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = set_current(device, pool);
    return sim_leave(&call, r);
}

/* The forms of 13.0 name a location instead of a device; there are device pools only. */
static int located(const CUmemLocation *where, CUmemAllocationType type)
{
    if (!where || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (where->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    return valid(where->id);
}

CUresult cuMemGetDefaultMemPool(
        CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = default_pool(where->id);
    return sim_leave(&call, r);
}

CUresult cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = sim_poolset_current(where->id);
    return sim_leave(&call, r);
}

CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = located(where, type);
    if (r == 0)
        r = set_current(where->id, pool);
    return sim_leave(&call, r);
}

/* Pools of several processes are not made here, so there is none to export or import. */
CUresult cuMemPoolExportToShareableHandle(void *ret_handle, CUmemoryPool pool,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)type;
    (void)flags;
    if (r == 0)
        r = ret_handle ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *os_handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)os_handle;
    (void)type;
    (void)flags;
    if (r == 0 && !ret_pool)
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_data || !sim_ledger_live(ptr)))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolImportPointer(
        CUdeviceptr *ret_ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_ptr && data ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_INVALID_VALUE);
}

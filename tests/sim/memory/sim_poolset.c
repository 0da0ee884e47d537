/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_poolset.h"

#include "tests/sim/memory/sim_ipc.h"
#include "tests/sim/memory/sim_pool_parts.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUmemoryPool default_pools[SIMCUDA_MAX_DEVICES];
static CUmemoryPool current_pools[SIMCUDA_MAX_DEVICES];
static CUmemoryPool host_pool; /* of cuMemGetDefaultMemPool for the host */
static CUmemoryPool current_host_pool;
static uint64_t next_number = 1;

static struct CUmemPoolHandle_st *pool_open(int device, const CUmemPoolProps *props)
{
    struct CUmemPoolHandle_st *pool = sim_new(sizeof(*pool));

    pool->props = *props;
    pool->device = device;
    pool->owner_pid = getpid();
    pool->number = next_number++;
    for (int i = 1; i < 4; i++)
        pool->reuse[i] = true;
    pool->readable = pool->writable = (uint16_t)(1U << device);
    sim_pool_link(pool);
    sim_handle_add(pool, SIM_KIND_POOL);
    return pool;
}

/* Those of all devices are there before any that the program makes: the handle of one that it has destroyed never becomes that of a default
 * pool, whoever asks for that first. */
static CUmemoryPool default_pool(int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    bool is_first = !default_pools[0];

    for (int i = 0; is_first && i < sim_config.devices; i++) {
        props.location.id = i;
        default_pools[i] = pool_open(i, &props);
    }
    return default_pools[device];
}

CUmemoryPool sim_poolset_current(int device)
{
    if (!sim_handle_is(current_pools[device], SIM_KIND_POOL))
        current_pools[device] = default_pool(device);
    return current_pools[device];
}

static CUmemoryPool open_host_pool(const CUmemPoolProps *props)
{
    CUmemoryPool pool = pool_open(0, props);

    pool->host = true;
    pool->readable = pool->writable = UINT16_MAX;
    return pool;
}

static CUmemoryPool default_host_pool(void)
{
    CUmemPoolProps props = {
            .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};

    if (!host_pool)
        host_pool = open_host_pool(&props);
    return host_pool;
}

static bool is_host(const CUmemLocation *where)
{
    return where->type == CU_MEM_LOCATION_TYPE_HOST
            || (where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && where->id == 0);
}

static int create(CUmemoryPool *ret_pool, const CUmemPoolProps *props)
{
    if (!ret_pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED
            || props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    (void)default_pool(0);
    if (is_host(&props->location)) {
        if (props->handleTypes)
            return CUDA_ERROR_INVALID_VALUE;
        *ret_pool = open_host_pool(props);
        return 0;
    }
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
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
        if (default_pools[i] == pool || host_pool == pool)
            return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_config.devices; i++)
        if (current_pools[i] == pool)
            current_pools[i] = NULL; /* the default pool is current again */
    if (current_host_pool == pool)
        current_host_pool = NULL;
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
    if (r == 0 && (pool->device != device || pool->host || pool->imported))
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

/* The forms of 13.0 name a location instead of a device. */
static int located(const CUmemLocation *where, CUmemAllocationType type)
{
    if (!where || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_host(where))
        return 0;
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE ? valid(where->id) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetDefaultMemPool(
        CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_pool = is_host(where) ? default_host_pool() : default_pool(where->id);
    return sim_leave(&call, r);
}

CUresult cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *where, CUmemAllocationType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_pool ? located(where, type) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && is_host(where))
        *ret_pool = current_host_pool ? current_host_pool : default_host_pool();
    else if (r == 0)
        *ret_pool = sim_poolset_current(where->id);
    return sim_leave(&call, r);
}

static int set_host(CUmemoryPool pool)
{
    if (usable(pool) || !pool->host)
        return CUDA_ERROR_INVALID_VALUE;
    current_host_pool = pool;
    return 0;
}

CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool pool)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = located(where, type);
    if (r == 0)
        r = is_host(where) ? set_host(pool) : set_current(where->id, pool);
    return sim_leave(&call, r);
}

/* ---- other processes ---- */

#define POOL_MAGIC    0x53494d43504f4f4cU
#define POINTER_MAGIC 0x53494d4350545231U

/* What is in the file that stands for a pool. */
struct pool_identity {
    uint64_t magic;
    int32_t pid, device;
    uint64_t number;
};

/* What the 64 bytes of an exported pointer say. */
struct pointer_export {
    uint64_t magic;
    int32_t pid, fd;
    uint64_t pool;
    uint64_t bytes; /* of the chunk */
    uint64_t offset, size;
};

_Static_assert(sizeof(struct pointer_export) <= sizeof(CUmemPoolPtrExportData), "64 bytes");

static int export_pool(void *ret_handle, const struct CUmemPoolHandle_st *pool)
{
    struct pool_identity identity = {POOL_MAGIC, pool->owner_pid, pool->device, pool->number};
    int fd = memfd_create("simcuda-pool-handle", MFD_CLOEXEC);

    if (fd < 0 || write(fd, &identity, sizeof(identity)) != (ssize_t)sizeof(identity)) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(ret_handle, &fd, sizeof(fd));
    return 0;
}

CUresult cuMemPoolExportToShareableHandle(void *ret_handle, CUmemoryPool pool,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_handle && !flags ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0
            && (pool->imported || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                    || !(pool->props.handleTypes & type)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = export_pool(ret_handle, pool);
    return sim_leave(&call, r);
}

static int import_pool(CUmemoryPool *ret_pool, int fd)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    struct pool_identity identity;

    if (pread(fd, &identity, sizeof(identity), 0) != (ssize_t)sizeof(identity)
            || identity.magic != POOL_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (valid(identity.device))
        return CUDA_ERROR_INVALID_DEVICE;
    props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, identity.device};
    *ret_pool = pool_open(identity.device, &props);
    (*ret_pool)->imported = true;
    (*ret_pool)->owner_pid = identity.pid;
    (*ret_pool)->number = identity.number;
    return 0;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *os_handle,
        CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = import_pool(ret_pool, (int)(intptr_t)os_handle);
    return sim_leave(&call, r);
}

static int export_pointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr ptr)
{
    const struct sim_block *block = sim_ledger_live(ptr);
    const struct sim_piece *piece = block ? block->piece : NULL;
    struct pointer_export export;

    if (!ret_data || !piece || !piece->pool || piece->chunk->file.fd < 0 || piece->addr != ptr)
        return CUDA_ERROR_INVALID_VALUE;
    export = (struct pointer_export){POINTER_MAGIC, getpid(), piece->chunk->file.fd,
            piece->pool->number, piece->chunk->size, piece->addr - piece->chunk->addr, piece->size};
    memset(ret_data, 0, sizeof(*ret_data));
    memcpy(ret_data, &export, sizeof(export));
    return 0;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = export_pointer(ret_data, ptr);
    return sim_leave(&call, r);
}

static int import_pointer(
        CUdeviceptr *ret_ptr, CUmemoryPool pool, const CUmemPoolPtrExportData *data)
{
    struct pointer_export export;
    uint64_t base;
    int r;

    if (!ret_ptr || !data || usable(pool))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&export, data, sizeof(export));
    if (export.magic != POINTER_MAGIC || !pool->imported || export.pid != pool->owner_pid
            || export.pool != pool->number)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_ipc_map(export.pid, export.fd, export.bytes, &base);
    if (r)
        return r;
    (void)sim_ledger_add((struct sim_block){.addr = base + export.offset,
            .size = export.size,
            .kind = SIM_BLOCK_IMPORTED,
            .device = pool->device,
            .va_size = export.bytes,
            .physical_offset = export.offset,
            .from_pool = true});
    *ret_ptr = base + export.offset;
    return 0;
}

CUresult cuMemPoolImportPointer(
        CUdeviceptr *ret_ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = import_pointer(ret_ptr, pool, data);
    return sim_leave(&call, r);
}

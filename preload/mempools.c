/* SPDX-License-Identifier: MIT */
#include "preload/mempools.h"

#include "preload/contexts.h"
#include "preload/resolve.h"

#include "alloc/lock.h"

#include <errno.h>
#include <stdatomic.h>

struct access {
    size_t count;
    CUmemAccessDesc desc[MEMPOOL_ACCESS_MAX];
};

static struct lock mempools_lock = LOCK_INIT(LOCK_RANK_PRELOAD);

/* guarded by mempools_lock: */
static struct mempool pools[MEMPOOLS_MAX]; /* id 0 = free */
static struct access pool_access[MEMPOOLS_MAX];
static uint64_t last_id;
static uint64_t
        peers[DEVICES_MAX]; /* bit per device that may access the private heaps of this one */

static _Atomic(uint64_t) current_id[DEVICES_MAX]; /* 0 = ask the driver */
static atomic_uint mempool_changes;               /* of what is current anywhere */

static int find_locked(CUmemoryPool handle)
{
    for (int i = 0; i < MEMPOOLS_MAX; i++)
        if (pools[i].id && pools[i].handle == handle && !pools[i].dying)
            return i;
    return -1;
}

static void add(CUmemoryPool handle, int device, bool served, bool on_host)
{
    int at;

    lock_take(&mempools_lock);
    at = find_locked(handle);
    for (int i = 0; i < MEMPOOLS_MAX && at < 0; i++)
        if (!pools[i].id)
            at = i;
    if (at >= 0 && !pools[at].id) {
        pools[at] = (struct mempool){.handle = handle,
                .id = ++last_id,
                .device = device,
                .served = served,
                .on_host = on_host};
        pool_access[at].count = 0;
    }
    lock_drop(&mempools_lock);
}

void mempool_created(CUmemoryPool handle, const CUmemPoolProps *props)
{
    bool served = props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED
            && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && props->location.id >= 0
            && props->location.id < DEVICES_MAX && props->handleTypes == CU_MEM_HANDLE_TYPE_NONE
            && props->maxSize == 0 && props->usage == 0;

    add(handle, props->location.id, served, props->location.type != CU_MEM_LOCATION_TYPE_DEVICE);
}

uint64_t mempool_destroy_begin(CUmemoryPool handle)
{
    uint64_t id = 0;
    int at;

    lock_take(&mempools_lock);
    at = find_locked(handle);
    if (at >= 0) {
        id = pools[at].id;
        pools[at].dying = true;
    }
    lock_drop(&mempools_lock);
    if (id)
        mempool_changed(-1);
    return id;
}

void mempool_destroy_end(uint64_t id, bool gone, struct mempool *ret_pool)
{
    lock_take(&mempools_lock);
    for (int i = 0; i < MEMPOOLS_MAX && id; i++) {
        if (pools[i].id != id)
            continue;
        *ret_pool = pools[i];
        pools[i].dying = false;
        if (gone)
            pools[i].id = 0;
        break;
    }
    lock_drop(&mempools_lock);
    if (gone)
        mempool_changed(-1); /* destroying the current pool makes the default one current */
}

bool mempool_is_host(CUmemoryPool handle)
{
    bool is_host;
    int at;

    lock_take(&mempools_lock);
    at = find_locked(handle);
    is_host = at >= 0 && pools[at].on_host;
    lock_drop(&mempools_lock);
    return is_host;
}

bool mempool_find(CUmemoryPool handle, struct mempool *ret_pool)
{
    bool served;
    int at;

    lock_take(&mempools_lock);
    at = find_locked(handle);
    served = at >= 0 && pools[at].served;
    if (served)
        *ret_pool = pools[at];
    lock_drop(&mempools_lock);
    return served;
}

bool mempool_of_id(uint64_t id, struct mempool *ret_pool)
{
    bool found = false;

    lock_take(&mempools_lock);
    for (int i = 0; i < MEMPOOLS_MAX && !found; i++) {
        found = id != 0 && pools[i].id == id && !pools[i].dying;
        if (found)
            *ret_pool = pools[i];
    }
    lock_drop(&mempools_lock);
    return found;
}

/* Asks the driver which pool is current, and gets to know the default one on the way. */
static int ask_current(int device, struct mempool *ret_pool)
{
    CUmemoryPool handle = NULL;
    CUmemoryPool fallback = NULL;
    int r;

    if (!REAL_HAS(cuDeviceGetMemPool) || !REAL_HAS(cuDeviceGetDefaultMemPool))
        return -ENOENT;
    r = (int)REAL(cuDeviceGetMemPool)(&handle, device);
    if (r != 0)
        return r;
    if (REAL(cuDeviceGetDefaultMemPool)(&fallback, device) == CUDA_SUCCESS)
        add(fallback, device, true, false);
    return mempool_find(handle, ret_pool) ? 0 : -ENOENT;
}

void mempool_learn_defaults(void)
{
    static atomic_bool learned;
    CUmemoryPool handle = NULL;

    if (atomic_load(&learned) || !REAL_HAS(cuDeviceGetDefaultMemPool))
        return;
    for (int device = 0; device < DEVICES_MAX; device++) {
        if (REAL(cuDeviceGetDefaultMemPool)(&handle, device) != CUDA_SUCCESS)
            break;
        add(handle, device, true, false);
        atomic_store(&learned, true);
    }
}

int mempool_current(int device, struct mempool *ret_pool)
{
    unsigned before = atomic_load(&mempool_changes);
    uint64_t id;
    int r;

    if (device < 0 || device >= DEVICES_MAX)
        return -ENOENT;
    id = atomic_load_explicit(&current_id[device], memory_order_acquire);
    if (id && mempool_of_id(id, ret_pool))
        return 0;
    r = ask_current(device, ret_pool);
    if (r == 0)
        atomic_store(&current_id[device], ret_pool->id);
    if (atomic_load(&mempool_changes)
            != before) /* while the driver was asked: the next one asks again */
        atomic_store(&current_id[device], 0);
    return r;
}

bool mempool_is_still(CUmemoryPool handle, int device, uint64_t id)
{
    struct mempool pool;

    if (device < 0 || device >= DEVICES_MAX)
        return false;
    if (handle)
        return mempool_find(handle, &pool) && pool.id == id;
    return atomic_load(&current_id[device]) == id && mempool_of_id(id, &pool);
}

void mempool_changed(int device)
{
    atomic_fetch_add(&mempool_changes, 1);
    context_changed();
    for (int i = 0; i < DEVICES_MAX; i++)
        if (device < 0 || i == device)
            atomic_store(&current_id[i], 0);
}

static void set_one_locked(struct access *access, const CUmemAccessDesc *desc)
{
    for (size_t i = 0; i < access->count; i++) {
        if (access->desc[i].location.type != desc->location.type
                || access->desc[i].location.id != desc->location.id)
            continue;
        access->desc[i].flags = desc->flags;
        return;
    }
    if (access->count < MEMPOOL_ACCESS_MAX)
        access->desc[access->count++] = *desc;
}

void mempool_set_access(uint64_t id, const CUmemAccessDesc *descs, size_t count)
{
    lock_take(&mempools_lock);
    for (int i = 0; i < MEMPOOLS_MAX; i++)
        for (size_t k = 0; k < count && id && pools[i].id == id; k++)
            set_one_locked(&pool_access[i], &descs[k]);
    lock_drop(&mempools_lock);
}

void mempool_set_peer(int device, int accessor, bool enabled)
{
    if (device < 0 || device >= DEVICES_MAX || accessor < 0 || accessor >= DEVICES_MAX)
        return;
    lock_take(&mempools_lock);
    if (enabled)
        peers[device] |= UINT64_C(1) << accessor;
    else
        peers[device] &= ~(UINT64_C(1) << accessor);
    lock_drop(&mempools_lock);
}

static CUmemAccessDesc desc_of(int device)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = device;
    return desc;
}

/* What the program asked for in one pool; the device's own entry is the first already. */
static size_t access_of_pool_locked(uint64_t id, int device, CUmemAccessDesc *descs, size_t max)
{
    size_t n = 0;

    for (int i = 0; i < MEMPOOLS_MAX; i++) {
        if (pools[i].id != id)
            continue;
        for (size_t k = 0; k < pool_access[i].count && n < max; k++)
            if (pool_access[i].desc[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE
                    || pool_access[i].desc[k].location.id != device)
                descs[n++] = pool_access[i].desc[k];
    }
    return n;
}

size_t mempool_access(uint64_t id, int device, CUmemAccessDesc *ret_descs, size_t max)
{
    size_t n = 0;

    if (max == 0)
        return 0;
    ret_descs[n++] = desc_of(device);
    lock_take(&mempools_lock);
    if (id)
        n += access_of_pool_locked(id, device, ret_descs + n, max - n);
    for (int i = 0; i < DEVICES_MAX && !id && device >= 0 && device < DEVICES_MAX && n < max; i++)
        if (i != device && (peers[device] >> i & 1))
            ret_descs[n++] = desc_of(i);
    lock_drop(&mempools_lock);
    return n;
}

void mempool_fork_child(void)
{
    lock_init(&mempools_lock, LOCK_RANK_PRELOAD);
}

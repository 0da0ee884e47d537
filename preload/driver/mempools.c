/* SPDX-License-Identifier: MIT */
#include "preload/driver/mempools.h"

#include "preload/base/forklock.h"
#include "preload/driver/contexts.h"
#include "preload/driver/reach.h"
#include "preload/driver/resolve.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"

#include <errno.h>
#include <stdatomic.h>

struct entry {
    struct mempool pool;
    size_t count; /* of the access that the program gave */
    CUmemAccessDesc desc[MEMPOOL_ACCESS_MAX];
};

FORKLOCK(mempools_lock);

/* guarded by mempools_lock: */
static struct table pools = TABLE_OF(struct entry); /* by id */
static uint64_t last_id;
static struct peering *peerings;

/* Access of one context to another context's memory. */
struct peering {
    struct peering *next;
    uint64_t from, to; /* generations */
    int device;        /* device of the memory */
    int accessor;
};

static _Atomic(uint64_t) current_id[DEVICES_MAX]; /* 0 = ask the driver */
static atomic_uint mempool_changes;               /* changes of any device's current pool */

static struct entry *mempools_find_locked(CUmemoryPool handle)
{
    struct entry *at = table_next(&pools, NULL);

    while (at && (at->pool.handle != handle || at->pool.dying))
        at = table_next(&pools, at);
    return at;
}

static void mempools_add_pool(CUmemoryPool handle, int device, bool served, bool on_host)
{
    struct entry *entry;

    lock_take(&mempools_lock);
    entry = mempools_find_locked(handle) ? NULL : table_add(&pools, last_id + 1);
    if (entry)
        entry->pool = (struct mempool){.id = ++last_id,
                .handle = handle,
                .device = device,
                .served = served,
                .on_host = on_host};
    lock_drop(&mempools_lock);
}

void mempool_created(CUmemoryPool handle, const CUmemPoolProps *props)
{
    bool served = props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED
            && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && props->location.id >= 0
            && props->location.id < DEVICES_MAX && props->handleTypes == CU_MEM_HANDLE_TYPE_NONE
            && props->maxSize == 0 && props->usage == 0;

    mempools_add_pool(handle, props->location.id, served,
            props->location.type != CU_MEM_LOCATION_TYPE_DEVICE);
}

uint64_t mempool_destroy_begin(CUmemoryPool handle)
{
    struct entry *entry;
    uint64_t id = 0;

    lock_take(&mempools_lock);
    entry = mempools_find_locked(handle);
    if (entry) {
        id = entry->pool.id;
        entry->pool.dying = true;
    }
    lock_drop(&mempools_lock);
    if (id)
        mempool_changed(-1);
    return id;
}

void mempool_destroy_end(uint64_t id, bool gone, struct mempool *ret_pool)
{
    struct entry *entry;

    lock_take(&mempools_lock);
    entry = table_find(&pools, id);
    if (entry) {
        *ret_pool = entry->pool;
        entry->pool.dying = false;
    }
    if (gone)
        (void)table_remove(&pools, entry);
    lock_drop(&mempools_lock);
    if (gone)
        mempool_changed(-1); /* destroying the current pool makes the default one current */
}

bool mempool_is_host(CUmemoryPool handle)
{
    const struct entry *entry;
    bool is_host;

    lock_take(&mempools_lock);
    entry = mempools_find_locked(handle);
    is_host = entry && entry->pool.on_host;
    lock_drop(&mempools_lock);
    return is_host;
}

bool mempool_find(CUmemoryPool handle, struct mempool *ret_pool)
{
    const struct entry *entry;
    bool served;

    lock_take(&mempools_lock);
    entry = mempools_find_locked(handle);
    served = entry && entry->pool.served;
    if (served)
        *ret_pool = entry->pool;
    lock_drop(&mempools_lock);
    return served;
}

bool mempool_of_id(uint64_t id, struct mempool *ret_pool)
{
    const struct entry *entry;
    bool found;

    lock_take(&mempools_lock);
    entry = table_find(&pools, id);
    found = entry && !entry->pool.dying;
    if (found)
        *ret_pool = entry->pool;
    lock_drop(&mempools_lock);
    return found;
}

/* Asks the driver for the current pool, and learns the default one from the answer. */
static int mempools_ask_current(int device, struct mempool *ret_pool)
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
        mempools_add_pool(fallback, device, true, false);
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
        mempools_add_pool(handle, device, true, false);
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
    r = mempools_ask_current(device, ret_pool);
    if (r == 0)
        atomic_store(&current_id[device], ret_pool->id);
    if (atomic_load(&mempool_changes) != before) /* a change meanwhile: the next call asks again */
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

static void set_one_locked(struct entry *entry, const CUmemAccessDesc *desc)
{
    for (size_t i = 0; i < entry->count; i++) {
        if (entry->desc[i].location.type != desc->location.type
                || entry->desc[i].location.id != desc->location.id)
            continue;
        entry->desc[i].flags = desc->flags;
        return;
    }
    if (entry->count < MEMPOOL_ACCESS_MAX)
        entry->desc[entry->count++] = *desc;
}

atomic_bool mempool_has_access;

void mempool_set_access(uint64_t id, const CUmemAccessDesc *descs, size_t count)
{
    struct entry *entry;

    atomic_store(&mempool_has_access, true);
    lock_take(&mempools_lock);
    entry = table_find(&pools, id);
    for (size_t k = 0; k < count && entry; k++) {
        if (descs[k].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            reach_add(descs[k].location.id, entry->pool.device);
        set_one_locked(entry, &descs[k]);
    }
    lock_drop(&mempools_lock);
}

/* Whether any context of device `accessor` has access to memory of the device. */
static bool is_peer_locked(int device, int accessor)
{
    const struct peering *at = peerings;

    while (at && (at->device != device || at->accessor != accessor))
        at = at->next;
    return at != NULL;
}

/* Removes peerings from a context (0: any) to another one (0: any). */
static void end_peerings_locked(uint64_t from, uint64_t to)
{
    struct peering **link = &peerings;

    while (*link) {
        struct peering *at = *link;

        if ((from && at->from != from) || (to && at->to != to)) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        meta_put(at, sizeof *at);
    }
}

bool mempool_set_peer(const struct context *from, const struct context *to, bool enabled)
{
    struct peering *made = enabled ? meta_get(sizeof *made) : NULL;
    bool was, is;

    lock_take(&mempools_lock);
    was = is_peer_locked(to->device, from->device);
    end_peerings_locked(from->generation, to->generation);
    if (made) {
        *made = (struct peering){
                peerings, from->generation, to->generation, to->device, from->device};
        peerings = made;
    }
    is = is_peer_locked(to->device, from->device);
    lock_drop(&mempools_lock);
    /* access stays in force if there is no memory to record its end */
    return was != is || (enabled && !made);
}

void mempool_context_gone(uint64_t generation)
{
    lock_take(&mempools_lock);
    end_peerings_locked(generation, 0);
    end_peerings_locked(0, generation);
    lock_drop(&mempools_lock);
}

static CUmemAccessDesc desc_of(int device)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = device;
    return desc;
}

/* Access that the program set for one pool; the device's own entry comes first already. */
static size_t access_of_pool_locked(uint64_t id, int device, CUmemAccessDesc *descs, size_t max)
{
    const struct entry *entry = table_find(&pools, id);
    size_t n = 0;

    for (size_t k = 0; entry && k < entry->count && n < max; k++)
        if (entry->desc[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE
                || entry->desc[k].location.id != device)
            descs[n++] = entry->desc[k];
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
        if (i != device && is_peer_locked(device, i))
            ret_descs[n++] = desc_of(i);
    lock_drop(&mempools_lock);
    return n;
}

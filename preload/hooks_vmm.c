/* SPDX-License-Identifier: MIT */
/*
 * The program's own virtual memory: physical handles count as allocations (of their size, under the handle's number), until
 * the last reference and the last mapping are gone. Addresses are not memory and are not counted. Never pooled (R18, L12).
 */
#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/resolve.h"
#include "preload/vmm.h"

#include "alloc/lock.h"
#include "alloc/table.h"

/* A handle that is recorded. */
struct vmm_handle {
    uint64_t handle; /* key */
    uint64_t references;
    uint64_t mappings;
    UT_hash_handle hh;
};

/* A mapping of one. */
struct vmm_mapping {
    devptr_t ptr; /* key */
    uint64_t size;
    uint64_t handle;
    UT_hash_handle hh;
};

static struct lock vmm_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static struct vmm_handle *vmm_handles;   /* guarded by vmm_lock */
static struct vmm_mapping *vmm_mappings; /* guarded by vmm_lock */

void vmm_fork_child(void)
{
    lock_init(&vmm_lock, LOCK_RANK_PRELOAD);
}

/* true: it is in the table, to be recorded. */
static bool note_handle(uint64_t handle)
{
    struct vmm_handle *fresh = meta_get(sizeof *fresh);
    bool added;

    if (!fresh)
        return false;
    fresh->handle = handle;
    fresh->references = 1;
    lock_take(&vmm_lock);
    HASH_ADD(hh, vmm_handles, handle, sizeof fresh->handle, fresh);
    added = TABLE_ADDED(fresh);
    lock_drop(&vmm_lock);
    if (!added)
        meta_put(fresh, sizeof *fresh);
    return added;
}

/* Takes away one reference or mapping; true if nothing holds the memory any more. */
static bool drop_locked(struct vmm_handle *known, bool mapping)
{
    uint64_t *count = mapping ? &known->mappings : &known->references;

    if (*count > 0)
        --*count;
    if (known->references > 0 || known->mappings > 0)
        return false;
    HASH_DEL(vmm_handles, known);
    return true;
}

static void drop(uint64_t handle, bool mapping)
{
    struct vmm_handle *known = NULL;
    bool gone = false;

    lock_take(&vmm_lock);
    HASH_FIND(hh, vmm_handles, &handle, sizeof handle, known);
    if (known)
        gone = drop_locked(known, mapping);
    lock_drop(&vmm_lock);
    if (!gone)
        return;
    meta_put(known, sizeof *known);
    conduct_handle_gone(handle);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemCreate);
    CUresult result = REAL(cuMemCreate)(ret_handle, size, prop, flags);
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

    if (entered && on_device && conduct_make_room((int)result, prop->location.id))
        result = REAL(cuMemCreate)(ret_handle, size, prop, flags);
    if (entered && on_device && result == CUDA_SUCCESS && ret_handle && note_handle(*ret_handle))
        conduct_handle_made(*ret_handle, size, prop->location.id, __builtin_return_address(0));
    if (entered)
        life_leave();
    return result;
}

/* The record goes before the real call: afterwards the number may be another handle's. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    bool entered = life_enter(SLOT_cuMemRelease);
    CUresult result;

    if (entered)
        drop(handle, false);
    result = REAL(cuMemRelease)(handle);
    if (entered)
        life_leave();
    return result;
}

static void note_mapping(devptr_t ptr, uint64_t size, uint64_t handle)
{
    struct vmm_mapping *fresh = meta_get(sizeof *fresh);
    struct vmm_handle *known = NULL;

    if (!fresh)
        return;
    *fresh = (struct vmm_mapping){.ptr = ptr, .size = size, .handle = handle};
    lock_take(&vmm_lock);
    HASH_FIND(hh, vmm_handles, &handle, sizeof handle, known);
    if (known) {
        HASH_ADD(hh, vmm_mappings, ptr, sizeof fresh->ptr, fresh);
        known->mappings += TABLE_ADDED(fresh) ? 1 : 0;
    }
    if (!known || !TABLE_ADDED(fresh)) {
        lock_drop(&vmm_lock);
        meta_put(fresh, sizeof *fresh);
        return;
    }
    lock_drop(&vmm_lock);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemMap);
    CUresult result = REAL(cuMemMap)(ptr, size, offset, handle, flags);

    if (entered && result == CUDA_SUCCESS)
        note_mapping(ptr, size, handle);
    if (entered)
        life_leave();
    return result;
}

/* One call may take away several mappings: all that lie inside. */
static bool take_mapping_inside(devptr_t ptr, uint64_t size, struct vmm_mapping *ret_mapping)
{
    struct vmm_mapping *mapping;

    lock_take(&vmm_lock);
    for (mapping = vmm_mappings; mapping; mapping = mapping->hh.next)
        if (mapping->ptr >= ptr && mapping->ptr - ptr < size)
            break;
    if (mapping) {
        *ret_mapping = *mapping;
        HASH_DEL(vmm_mappings, mapping);
    }
    lock_drop(&vmm_lock);
    meta_put(mapping, sizeof *mapping);
    return mapping != NULL;
}

static bool take_mapping_at(devptr_t ptr, uint64_t size, struct vmm_mapping *ret_mapping)
{
    struct vmm_mapping *mapping = NULL;

    lock_take(&vmm_lock);
    HASH_FIND(hh, vmm_mappings, &ptr, sizeof ptr, mapping);
    if (mapping && mapping->size == size) {
        *ret_mapping = *mapping;
        HASH_DEL(vmm_mappings, mapping);
    } else {
        mapping = NULL;
    }
    lock_drop(&vmm_lock);
    meta_put(mapping, sizeof *mapping);
    return mapping != NULL;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    bool entered = life_enter(SLOT_cuMemUnmap);
    CUresult result = REAL(cuMemUnmap)(ptr, size);
    struct vmm_mapping mapping;

    if (entered && result == CUDA_SUCCESS) {
        if (take_mapping_at(ptr, size, &mapping))
            drop(mapping.handle, true);
        else
            while (take_mapping_inside(ptr, size, &mapping))
                drop(mapping.handle, true);
    }
    if (entered)
        life_leave();
    return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * The program's own virtual memory: physical handles count as allocations (of their size, under the handle's number), until
 * the last reference and the last mapping are gone. Addresses are not memory and are not counted. Never pooled (R18, L12).
 */
#include "preload/addrmap.h"
#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/pins.h"
#include "preload/resolve.h"
#include "preload/vmm.h"

#include "alloc/lock.h"

/* Values by handle. */
enum handle_value {
    HANDLE_REFERENCES,
    HANDLE_MAPPINGS,
};

/* Values by address of a mapping. */
enum mapping_value {
    MAPPING_SIZE,
    MAPPING_HANDLE,
};

static struct lock vmm_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static struct addrmap vmm_handles;  /* guarded by vmm_lock */
static struct addrmap vmm_mappings; /* guarded by vmm_lock */

void vmm_fork_child(void)
{
    lock_init(&vmm_lock, LOCK_RANK_PRELOAD);
}

/* true: it is in the table, to be recorded. */
static bool note_handle(uint64_t handle)
{
    struct addrmap_entry *known;

    lock_take(&vmm_lock);
    known = addrmap_add(&vmm_handles, handle);
    if (known)
        known->value[HANDLE_REFERENCES] = 1;
    lock_drop(&vmm_lock);
    return known != NULL;
}

/* One reference or mapping less; the record ends when nothing holds the memory any more. */
static void drop(uint64_t handle, enum handle_value what)
{
    struct addrmap_entry *known;
    bool gone = false;

    lock_take(&vmm_lock);
    known = addrmap_find(&vmm_handles, handle);
    if (known && known->value[what] > 0)
        known->value[what]--;
    if (known && known->value[HANDLE_REFERENCES] == 0 && known->value[HANDLE_MAPPINGS] == 0) {
        addrmap_remove(&vmm_handles, known);
        gone = true;
    }
    lock_drop(&vmm_lock);
    if (gone)
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
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result;

    if (entered) {
        drop(handle, HANDLE_REFERENCES);
        pins_take_one(&pins, PINS_OF_HANDLE, handle); /* of a block of ours (hooks_ipc.c) */
    }
    result = REAL(cuMemRelease)(handle);
    if (entered) {
        pins_end(&pins, result == CUDA_SUCCESS, PINS_OF_HANDLE, handle);
        life_leave();
    }
    return result;
}

static void note_mapping(devptr_t ptr, uint64_t size, uint64_t handle)
{
    struct addrmap_entry *known, *mapping;

    lock_take(&vmm_lock);
    known = addrmap_find(&vmm_handles, handle);
    mapping = known ? addrmap_add(&vmm_mappings, ptr) : NULL;
    if (mapping) {
        mapping->value[MAPPING_SIZE] = size;
        mapping->value[MAPPING_HANDLE] = handle;
        known->value[HANDLE_MAPPINGS]++;
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

/* One that begins inside [ptr, ptr + size), NULL if none is left: one call may take away several. */
static struct addrmap_entry *inside_locked(devptr_t ptr, uint64_t size)
{
    struct addrmap_entry *exact = addrmap_find(&vmm_mappings, ptr);

    if (exact && exact->value[MAPPING_SIZE] >= size)
        return exact;
    for (uint32_t i = 0; i < vmm_mappings.capacity; i++) {
        struct addrmap_entry *mapping = &vmm_mappings.slots[i];

        if (mapping->key && mapping->key >= ptr && mapping->key - ptr < size)
            return mapping;
    }
    return NULL;
}

static bool take_mapping(devptr_t ptr, uint64_t size, uint64_t *ret_handle, bool *ret_last)
{
    struct addrmap_entry *mapping;

    lock_take(&vmm_lock);
    mapping = vmm_mappings.used > 0 ? inside_locked(ptr, size) : NULL;
    if (mapping) {
        *ret_handle = mapping->value[MAPPING_HANDLE];
        *ret_last = mapping->key == ptr && mapping->value[MAPPING_SIZE] >= size;
        addrmap_remove(&vmm_mappings, mapping);
    }
    lock_drop(&vmm_lock);
    return mapping != NULL;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    bool entered = life_enter(SLOT_cuMemUnmap);
    CUresult result = REAL(cuMemUnmap)(ptr, size);
    uint64_t handle;
    bool last = false;

    while (entered && result == CUDA_SUCCESS && !last && take_mapping(ptr, size, &handle, &last))
        drop(handle, HANDLE_MAPPINGS);
    if (entered)
        life_leave();
    return result;
}

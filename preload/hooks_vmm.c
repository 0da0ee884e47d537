/* SPDX-License-Identifier: MIT */
/*
 * The program's own virtual memory: physical handles count as allocations (of their size, under the handle's number), until
 * the last reference and the last mapping are gone. References come from cuMemCreate, from imports and from
 * cuMemRetainAllocationHandle (hooks_ipc.c calls vmm_retained). An import tells its size only when it is mapped, and is
 * recorded then. Addresses are not memory: reservations are recorded as such. Never pooled (R18, L12).
 */
#include "preload/vmm.h"

#include "preload/addrmap.h"
#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/pins.h"
#include "preload/resolve.h"

#include "alloc/lock.h"

/* Values by handle. An alias is another number for a handle that is known: it holds one reference of that one. */
enum handle_value {
    HANDLE_REFERENCES,
    HANDLE_MAPPINGS,
    HANDLE_MORE, /* of an alias: the handle that is meant; else a HANDLE_IS_... */
};

enum {
    HANDLE_IS_RECORDED,
    HANDLE_IS_UNSIZED, /* imported, not mapped yet, on no record */
};

/* Values by address of a mapping, or by tile of an array. */
enum mapping_value {
    MAPPING_SIZE, /* of a tile: the array */
    MAPPING_HANDLE,
};

static struct lock vmm_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
/* guarded by vmm_lock: */
static struct addrmap vmm_handles;
static struct addrmap vmm_aliases;
static struct addrmap vmm_mappings;
static struct addrmap vmm_tiles;

void vmm_fork_child(void)
{
    lock_init(&vmm_lock, LOCK_RANK_PRELOAD);
}

static uint64_t key_of(uint64_t handle)
{
    return conduct_key(MEMCLASS_VMM, handle);
}

/* One more reference. true: the handle is new. */
static bool note_handle(uint64_t handle, uint64_t more)
{
    struct addrmap_entry *known;
    bool is_new = false;

    lock_take(&vmm_lock);
    known = addrmap_find(&vmm_handles, handle);
    if (!known) {
        known = addrmap_add(&vmm_handles, handle);
        is_new = known != NULL;
        if (known)
            known->value[HANDLE_MORE] = more;
    }
    if (known)
        known->value[HANDLE_REFERENCES]++;
    lock_drop(&vmm_lock);
    return is_new;
}

/* The handle that a number stands for; an alias loses one of its references if `drops`. */
static uint64_t resolve_locked(uint64_t handle, bool drops)
{
    struct addrmap_entry *alias = addrmap_find(&vmm_aliases, handle);
    uint64_t meant;

    if (!alias)
        return handle;
    meant = alias->value[HANDLE_MORE];
    if (drops && --alias->value[HANDLE_REFERENCES] == 0)
        addrmap_remove(&vmm_aliases, alias);
    return meant;
}

/* One reference or mapping less; the record ends when nothing holds the memory any more. */
static void drop(uint64_t handle, enum handle_value what)
{
    struct addrmap_entry *known;
    bool gone = false;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, what == HANDLE_REFERENCES);
    known = addrmap_find(&vmm_handles, handle);
    if (known && known->value[what] > 0)
        known->value[what]--;
    if (known && known->value[HANDLE_REFERENCES] == 0 && known->value[HANDLE_MAPPINGS] == 0) {
        gone = known->value[HANDLE_MORE] == HANDLE_IS_RECORDED;
        addrmap_remove(&vmm_handles, known);
    }
    lock_drop(&vmm_lock);
    if (gone)
        conduct_gone(key_of(handle));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemCreate);
    CUresult result = REAL(cuMemCreate)(ret_handle, size, prop, flags);
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct pool_ladder ladder = {.waits = 0};

    if (entered && on_device && conduct_make_room((int)result, prop->location.id, &ladder))
        result = REAL(cuMemCreate)(ret_handle, size, prop, flags);
    if (entered && on_device)
        conduct_refused((int)result, size, prop->location.id, &ladder);
    if (entered && result == CUDA_SUCCESS && ret_handle
            && note_handle(*ret_handle, HANDLE_IS_RECORDED))
        conduct_made(on_device ? MEMCLASS_VMM : MEMCLASS_HOST, key_of(*ret_handle), size,
                on_device ? prop->location.id : -1);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *os_handle,
        CUmemAllocationHandleType handle_type)
{
    bool entered = life_enter(SLOT_cuMemImportFromShareableHandle);
    CUresult result = REAL(cuMemImportFromShareableHandle)(ret_handle, os_handle, handle_type);

    if (entered && result == CUDA_SUCCESS && ret_handle)
        (void)note_handle(*ret_handle, HANDLE_IS_UNSIZED);
    if (entered)
        life_leave();
    return result;
}

/* An address space over memory that is counted where it was made. */
CUresult cuMulticastCreate(
        CUmemGenericAllocationHandle *ret_handle, const CUmulticastObjectProp *prop)
{
    bool entered = life_enter(SLOT_cuMulticastCreate);
    CUresult result = REAL(cuMulticastCreate)(ret_handle, prop);

    if (entered && result == CUDA_SUCCESS && ret_handle && prop
            && note_handle(*ret_handle, HANDLE_IS_RECORDED))
        conduct_made(MEMCLASS_MULTICAST, key_of(*ret_handle), prop->size, -1);
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

/* ---- mappings ------------------------------------------------------------------------------- */

/* true: an import whose size is known now, to be recorded. */
static bool note_mapping(devptr_t ptr, uint64_t size, uint64_t handle, uint64_t *ret_handle)
{
    struct addrmap_entry *known, *mapping;
    bool sized = false;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, false);
    known = addrmap_find(&vmm_handles, handle);
    mapping = known ? addrmap_add(&vmm_mappings, ptr) : NULL;
    if (mapping) {
        mapping->value[MAPPING_SIZE] = size;
        mapping->value[MAPPING_HANDLE] = handle;
        known->value[HANDLE_MAPPINGS]++;
        sized = known->value[HANDLE_MORE] == HANDLE_IS_UNSIZED;
        known->value[HANDLE_MORE] = HANDLE_IS_RECORDED;
    }
    lock_drop(&vmm_lock);
    *ret_handle = handle;
    return sized;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemMap);
    CUresult result = REAL(cuMemMap)(ptr, size, offset, handle, flags);
    uint64_t meant;

    if (entered && result == CUDA_SUCCESS) {
        if (note_mapping(ptr, size, handle, &meant))
            conduct_made(MEMCLASS_IMPORTED, key_of(handle), offset + size, conduct_device());
        conduct_mapped(key_of(meant), ptr, size);
    }
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

static bool take_mapping(
        devptr_t ptr, uint64_t size, uint64_t *ret_handle, devptr_t *ret_at, bool *ret_last)
{
    struct addrmap_entry *mapping;

    lock_take(&vmm_lock);
    mapping = vmm_mappings.used > 0 ? inside_locked(ptr, size) : NULL;
    if (mapping) {
        *ret_handle = mapping->value[MAPPING_HANDLE];
        *ret_at = mapping->key;
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
    devptr_t at;
    bool last = false;

    while (entered && result == CUDA_SUCCESS && !last
            && take_mapping(ptr, size, &handle, &at, &last)) {
        conduct_unmapped(key_of(handle), at);
        drop(handle, HANDLE_MAPPINGS);
    }
    if (entered)
        life_leave();
    return result;
}

/* The mapping that an address lies in, NULL = none of ours. */
static struct addrmap_entry *around_locked(devptr_t ptr)
{
    for (uint32_t i = 0; i < vmm_mappings.capacity; i++) {
        struct addrmap_entry *mapping = &vmm_mappings.slots[i];

        if (mapping->key && mapping->key <= ptr
                && ptr - mapping->key < mapping->value[MAPPING_SIZE])
            return mapping;
    }
    return NULL;
}

void vmm_retained(uint64_t handle, devptr_t ptr)
{
    struct addrmap_entry *mapping, *known, *alias = NULL;

    lock_take(&vmm_lock);
    mapping = around_locked(ptr);
    known = mapping ? addrmap_find(&vmm_handles, mapping->value[MAPPING_HANDLE]) : NULL;
    if (known && known->key != handle) {
        alias = addrmap_add(&vmm_aliases, handle);
        if (alias) {
            alias->value[HANDLE_MORE] = known->key;
            alias->value[HANDLE_REFERENCES]++;
        }
    }
    if (known && (alias || known->key == handle))
        known->value[HANDLE_REFERENCES]++;
    lock_drop(&vmm_lock);
}

/* ---- arrays that are mapped in tiles -------------------------------------------------------- */

enum {
    MAP_OPERATION_MAP = 1,
    MAP_OPERATION_UNMAP = 2,
};

/* A tile's name: the array and the place in it, folded into one number. */
static uint64_t tile_key(const CUarrayMapInfo *info)
{
    const unsigned char *bytes = (const unsigned char *)&info->subresource;
    uint64_t hash = UINT64_C(1469598103934665603) ^ (uintptr_t)info->resource.array;
    size_t length = info->subresourceType == 0 ? sizeof info->subresource.sparseLevel
                                               : sizeof info->subresource.miptail;

    hash = (hash ^ info->subresourceType) * UINT64_C(1099511628211);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* What the tile was before is gone. 0 = nothing. */
static uint64_t take_tile(uint64_t key)
{
    struct addrmap_entry *tile;
    uint64_t handle = 0;

    lock_take(&vmm_lock);
    tile = addrmap_find(&vmm_tiles, key);
    if (tile) {
        handle = tile->value[MAPPING_HANDLE];
        addrmap_remove(&vmm_tiles, tile);
    }
    lock_drop(&vmm_lock);
    return handle;
}

static void note_tile(const CUarrayMapInfo *info)
{
    struct addrmap_entry *known, *tile;
    uint64_t handle = info->memHandle.memHandle;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, false);
    known = addrmap_find(&vmm_handles, handle);
    tile = known ? addrmap_add(&vmm_tiles, tile_key(info)) : NULL;
    if (tile) {
        tile->value[MAPPING_SIZE] = (uintptr_t)info->resource.array;
        tile->value[MAPPING_HANDLE] = handle;
        known->value[HANDLE_MAPPINGS]++;
    }
    lock_drop(&vmm_lock);
}

static void tiles_moved(const CUarrayMapInfo *infos, unsigned count)
{
    for (unsigned i = 0; infos && i < count; i++) {
        uint64_t before = take_tile(tile_key(&infos[i]));

        if (infos[i].memOperationType == MAP_OPERATION_MAP)
            note_tile(&infos[i]);
        if (before)
            drop(before, HANDLE_MAPPINGS);
    }
}

/* One tile of an array that ends, 0 = none is left. */
static uint64_t take_tile_of(uint64_t array)
{
    uint64_t handle = 0;

    lock_take(&vmm_lock);
    for (uint32_t i = 0; vmm_tiles.used > 0 && i < vmm_tiles.capacity && !handle; i++) {
        struct addrmap_entry *tile = &vmm_tiles.slots[i];

        if (!tile->key || tile->value[MAPPING_SIZE] != array)
            continue;
        handle = tile->value[MAPPING_HANDLE];
        addrmap_remove(&vmm_tiles, tile);
    }
    lock_drop(&vmm_lock);
    return handle;
}

void vmm_array_gone(uint64_t array)
{
    uint64_t handle;

    while ((handle = take_tile_of(array)) != 0)
        drop(handle, HANDLE_MAPPINGS);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
    bool entered = life_enter(SLOT_cuMemMapArrayAsync);
    CUresult result = REAL(cuMemMapArrayAsync)(infos, count, stream);

    if (entered && result == CUDA_SUCCESS)
        tiles_moved(infos, count);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *infos, unsigned int count, CUstream stream)
{
    bool entered = life_enter(SLOT_cuMemMapArrayAsync_ptsz);
    CUresult result = REAL(cuMemMapArrayAsync_ptsz)(infos, count, stream);

    if (entered && result == CUDA_SUCCESS)
        tiles_moved(infos, count);
    if (entered)
        life_leave();
    return result;
}

/* ---- addresses ------------------------------------------------------------------------------ */

CUresult cuMemAddressReserve(CUdeviceptr *ret_ptr, size_t size, size_t alignment, CUdeviceptr ptr,
        unsigned long long flags)
{
    bool entered = life_enter(SLOT_cuMemAddressReserve);
    CUresult result = REAL(cuMemAddressReserve)(ret_ptr, size, alignment, ptr, flags);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        conduct_made(MEMCLASS_VIRTUAL, conduct_key(MEMCLASS_VIRTUAL, *ret_ptr), size, -1);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    bool entered = life_enter(SLOT_cuMemAddressFree);
    CUresult result = REAL(cuMemAddressFree)(ptr, size);

    if (entered && result == CUDA_SUCCESS)
        conduct_gone(conduct_key(MEMCLASS_VIRTUAL, ptr));
    if (entered)
        life_leave();
    return result;
}

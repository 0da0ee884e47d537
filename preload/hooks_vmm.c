/* SPDX-License-Identifier: MIT */
/*
 * The program's own virtual memory: physical handles count as allocations (of their size, under the handle's number), until
 * the last reference and the last mapping are gone. References come from cuMemCreate, from imports and from
 * cuMemRetainAllocationHandle (hooks_ipc.c calls vmm_retained). An import tells its size only when it is mapped, and is
 * recorded then. Never pooled (R18, L12).
 */
#include "preload/vmm.h"

#include "preload/forklock.h"
#include "preload/hookrow.h"
#include "preload/pins.h"

#include "alloc/table.h"

/* What holds the memory of a handle. */
enum hold {
    HOLD_REFERENCE,
    HOLD_MAPPING,
    HOLD_COUNT,
};

struct handle {
    uint64_t handle;
    uint64_t holds[HOLD_COUNT];
    bool is_unsized; /* imported, not mapped yet, on no record */
};

/* Another number for a handle that is known; each of its references holds one of that one's. */
struct alias {
    uint64_t number;
    uint64_t meant;
    uint64_t references;
};

struct mapping {
    uint64_t ptr;
    uint64_t size;
    uint64_t handle;
};

struct tile {
    uint64_t name;
    uint64_t array;
    uint64_t handle;
};

FORKLOCK(vmm_lock);
/* guarded by vmm_lock: */
static struct table vmm_handles = TABLE_OF(struct handle);
static struct table vmm_aliases = TABLE_OF(struct alias);
static struct table vmm_mappings = TABLE_OF(struct mapping);
static struct table vmm_tiles = TABLE_OF(struct tile);

static uint64_t key_of(uint64_t handle)
{
    return dispatch_key(MEMCLASS_VMM, handle);
}

/* One more reference. true: the handle is new. */
static bool note_handle(uint64_t handle, bool is_unsized)
{
    struct handle *known;
    bool is_new;

    lock_take(&vmm_lock);
    known = table_add(&vmm_handles, handle);
    is_new = known && !known->holds[HOLD_REFERENCE] && !known->holds[HOLD_MAPPING];
    if (is_new)
        known->is_unsized = is_unsized;
    if (known)
        known->holds[HOLD_REFERENCE]++;
    lock_drop(&vmm_lock);
    return is_new;
}

/* The handle that a number stands for; an alias loses one of its references if `drops`. */
static uint64_t resolve_locked(uint64_t handle, bool drops)
{
    struct alias *alias = table_find(&vmm_aliases, handle);
    uint64_t meant;

    if (!alias)
        return handle;
    meant = alias->meant;
    if (drops && --alias->references == 0)
        (void)table_remove(&vmm_aliases, alias);
    return meant;
}

/* One reference or mapping less; the record ends when nothing holds the memory any more. */
static void drop(uint64_t handle, enum hold what)
{
    struct handle *known;
    bool gone = false;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, what == HOLD_REFERENCE);
    known = table_find(&vmm_handles, handle);
    if (known && known->holds[what] > 0)
        known->holds[what]--;
    if (known && !known->holds[HOLD_REFERENCE] && !known->holds[HOLD_MAPPING]) {
        gone = !known->is_unsized;
        (void)table_remove(&vmm_handles, known);
    }
    lock_drop(&vmm_lock);
    if (gone)
        dispatch_gone(key_of(handle));
}

static int device_of(const CUmemAllocationProp *prop)
{
    return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
}

static void made_for(uint64_t handle, uint64_t size, int device)
{
    if (note_handle(handle, false))
        dispatch_made(device >= 0 ? MEMCLASS_VMM : MEMCLASS_HOST, key_of(handle), size, device);
}

HOOKROW_ROOM(cuMemCreate,
        (CUmemGenericAllocationHandle * made, size_t size, const CUmemAllocationProp *prop,
                unsigned long long flags),
        (made, size, prop, flags), size, device_of(prop), made_for(*made, size, device_of(prop)))

HOOKROW(cuMemImportFromShareableHandle,
        (CUmemGenericAllocationHandle * made, void *os_handle, CUmemAllocationHandleType type),
        (made, os_handle, type), (void)note_handle(*made, true))

/* An address space over memory that is counted where it was made. */
static void multicast_made(uint64_t handle, uint64_t size)
{
    if (note_handle(handle, false))
        dispatch_made(MEMCLASS_MULTICAST, key_of(handle), size, -1);
}

HOOKROW(cuMulticastCreate, (CUmemGenericAllocationHandle * made, const CUmulticastObjectProp *prop),
        (made, prop), multicast_made(*made, prop->size))

/* The record goes before the real call: afterwards the number may be another handle's. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    bool entered = life_enter(SLOT_cuMemRelease);
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    CUresult result;

    if (entered) {
        drop(handle, HOLD_REFERENCE);
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
    struct handle *known;
    struct mapping *mapping;
    bool sized = false;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, false);
    known = table_find(&vmm_handles, handle);
    mapping = known ? table_add(&vmm_mappings, ptr) : NULL;
    if (mapping) {
        mapping->size = size;
        mapping->handle = handle;
        known->holds[HOLD_MAPPING]++;
        sized = known->is_unsized;
        known->is_unsized = false;
    }
    lock_drop(&vmm_lock);
    *ret_handle = handle;
    return sized;
}

static void mapped(devptr_t ptr, uint64_t size, uint64_t offset, uint64_t handle)
{
    uint64_t meant;

    if (note_mapping(ptr, size, handle, &meant))
        dispatch_made(MEMCLASS_IMPORTED, key_of(handle), offset + size, dispatch_device());
    dispatch_mapped(key_of(meant), ptr, size);
}

HOOKROW(cuMemMap,
        (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags),
        (ptr, size, offset, handle, flags), mapped(ptr, size, offset, handle))

/* One that begins inside [ptr, ptr + size), NULL if none is left: one call may take away several. */
static struct mapping *inside_locked(devptr_t ptr, uint64_t size)
{
    struct mapping *at = table_find(&vmm_mappings, ptr);

    if (at && at->size >= size)
        return at;
    at = table_next(&vmm_mappings, NULL);
    while (at && (at->ptr < ptr || at->ptr - ptr >= size))
        at = table_next(&vmm_mappings, at);
    return at;
}

static bool take_mapping(
        devptr_t ptr, uint64_t size, uint64_t *ret_handle, devptr_t *ret_at, bool *ret_last)
{
    struct mapping *mapping;

    lock_take(&vmm_lock);
    mapping = inside_locked(ptr, size);
    if (mapping) {
        *ret_handle = mapping->handle;
        *ret_at = mapping->ptr;
        *ret_last = mapping->ptr == ptr && mapping->size >= size;
        (void)table_remove(&vmm_mappings, mapping);
    }
    lock_drop(&vmm_lock);
    return mapping != NULL;
}

static void unmapped(devptr_t ptr, uint64_t size)
{
    uint64_t handle;
    devptr_t at;
    bool last = false;

    while (!last && take_mapping(ptr, size, &handle, &at, &last)) {
        dispatch_mapped(key_of(handle), at, 0);
        drop(handle, HOLD_MAPPING);
    }
}

HOOKROW(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size), unmapped(ptr, size))

/* The mapping that an address lies in, NULL = none of ours. */
static const struct mapping *around_locked(devptr_t ptr)
{
    const struct mapping *at = table_next(&vmm_mappings, NULL);

    while (at && (at->ptr > ptr || ptr - at->ptr >= at->size))
        at = table_next(&vmm_mappings, at);
    return at;
}

void vmm_retained(uint64_t handle, devptr_t ptr)
{
    const struct mapping *mapping;
    struct handle *known;
    struct alias *alias = NULL;

    lock_take(&vmm_lock);
    mapping = around_locked(ptr);
    known = mapping ? table_find(&vmm_handles, mapping->handle) : NULL;
    if (known && known->handle != handle) {
        alias = table_add(&vmm_aliases, handle);
        if (alias) {
            alias->meant = known->handle;
            alias->references++;
        }
    }
    if (known && (alias || known->handle == handle))
        known->holds[HOLD_REFERENCE]++;
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
    struct tile *tile;
    uint64_t handle;

    lock_take(&vmm_lock);
    tile = table_find(&vmm_tiles, key);
    handle = tile ? tile->handle : 0;
    (void)table_remove(&vmm_tiles, tile);
    lock_drop(&vmm_lock);
    return handle;
}

static void note_tile(const CUarrayMapInfo *info)
{
    struct handle *known;
    struct tile *tile;
    uint64_t handle = info->memHandle.memHandle;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle, false);
    known = table_find(&vmm_handles, handle);
    tile = known ? table_add(&vmm_tiles, tile_key(info)) : NULL;
    if (tile) {
        tile->array = (uintptr_t)info->resource.array;
        tile->handle = handle;
        known->holds[HOLD_MAPPING]++;
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
            drop(before, HOLD_MAPPING);
    }
}

/* One tile of an array that ends, 0 = none is left. */
static uint64_t take_tile_of(uint64_t array)
{
    struct tile *tile;
    uint64_t handle;

    lock_take(&vmm_lock);
    tile = table_next(&vmm_tiles, NULL);
    while (tile && tile->array != array)
        tile = table_next(&vmm_tiles, tile);
    handle = tile ? tile->handle : 0;
    (void)table_remove(&vmm_tiles, tile);
    lock_drop(&vmm_lock);
    return handle;
}

void vmm_array_gone(uint64_t array)
{
    uint64_t handle;

    while ((handle = take_tile_of(array)) != 0)
        drop(handle, HOLD_MAPPING);
}

HOOKROW(cuMemMapArrayAsync, (CUarrayMapInfo * infos, unsigned int count, CUstream stream),
        (infos, count, stream), tiles_moved(infos, count))

HOOKROW(cuMemMapArrayAsync_ptsz, (CUarrayMapInfo * infos, unsigned int count, CUstream stream),
        (infos, count, stream), tiles_moved(infos, count))

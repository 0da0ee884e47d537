/* SPDX-License-Identifier: MIT */
/*
 * The program's own virtual memory: physical handles count as allocations (of their size, under the
 * handle's number), until the last reference and the last mapping have ended. References come from
 * cuMemCreate, from imports and from cuMemRetainAllocationHandle (hooks_ipc.c calls vmm_retained).
 * The size of an import is known only when it is mapped, so it is recorded then. Never pooled (R18,
 * L12).
 *
 * The object that a call ends is removed from the records before the driver is called, because
 * another thread may get its number or address before the call returns. It is put back if the
 * driver refuses.
 */
#include "preload/base/vmm.h"
#include "preload/driver/contexts.h"

#include "preload/base/forklock.h"
#include "preload/graph/hookrow.h"
#include "preload/hints/pins.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "tracker/base/peek.h"

/* Kinds of references that keep the memory of a handle. */
enum hold {
    HOLD_REFERENCE,
    HOLD_MAPPING,
    HOLD_COUNT,
};

struct handle {
    uint64_t handle;
    uint64_t holds[HOLD_COUNT];
    bool is_unsized; /* imported, not mapped yet, and not recorded */
};

/* Another number for a known handle; each of its references counts as one of that handle. */
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

static uint64_t hooks_vmm_key_of(uint64_t handle)
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

/* The handle behind a number. */
static uint64_t resolve_locked(uint64_t handle)
{
    const struct alias *alias = table_find(&vmm_aliases, handle);

    return alias ? alias->meant : handle;
}

/* The records that a call which ends an object has removed. */
struct vmm_taken {
    struct vmm_taken *next;
    enum hold what;
    uint64_t handle;
    uint64_t number;   /* for a reference: the number by which the program names it */
    uint64_t at, size; /* for a mapping: its address; for a tile: its key and its array */
    bool is_tile;
    bool is_last;            /* nothing else keeps the memory */
    bool is_unsized;         /* and it was never recorded */
    struct dispatch_end end; /* for the capture, if the recorded allocation ends */
};

static void take_alias_locked(uint64_t number)
{
    struct alias *alias = table_find(&vmm_aliases, number);

    if (alias && --alias->references == 0)
        (void)table_remove(&vmm_aliases, alias);
}

/* False: no memory to note it. */
static bool give_alias_locked(uint64_t number, uint64_t handle)
{
    struct alias *alias = number != handle ? table_add(&vmm_aliases, number) : NULL;

    if (alias) {
        alias->meant = handle;
        alias->references++;
    }
    return alias || number == handle;
}

/* Removes one reference or mapping. */
static void take_hold_locked(struct vmm_taken *taken)
{
    struct handle *known = table_find(&vmm_handles, taken->handle);

    if (!known || !known->holds[taken->what]) {
        taken->handle = 0; /* an unknown object */
        return;
    }
    known->holds[taken->what]--;
    taken->is_last = !known->holds[HOLD_REFERENCE] && !known->holds[HOLD_MAPPING];
    taken->is_unsized = taken->is_last && known->is_unsized;
    if (taken->is_last)
        (void)table_remove(&vmm_handles, known);
    if (taken->is_last && !taken->is_unsized)
        taken->end = dispatch_end(hooks_vmm_key_of(taken->handle));
}

static void give_hold_locked(const struct vmm_taken *taken)
{
    struct handle *known = taken->handle ? table_add(&vmm_handles, taken->handle) : NULL;

    if (!known)
        return;
    known->holds[taken->what]++;
    if (taken->is_last)
        known->is_unsized = taken->is_unsized;
    if (taken->what == HOLD_REFERENCE)
        (void)give_alias_locked(taken->number, taken->handle);
}

static void give_place_locked(const struct vmm_taken *taken)
{
    struct mapping *mapping;
    struct tile *tile;

    if (taken->what != HOLD_MAPPING || !taken->handle)
        return;
    if (taken->is_tile) {
        tile = table_add(&vmm_tiles, taken->at);
        if (tile) {
            tile->array = taken->size;
            tile->handle = taken->handle;
        }
        return;
    }
    mapping = table_add(&vmm_mappings, taken->at);
    if (mapping) {
        mapping->size = taken->size;
        mapping->handle = taken->handle;
    }
}

/* The driver has answered: the removal is final, or is undone. */
static void hooks_vmm_settle_one(const struct vmm_taken *taken, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        dispatch_ended(&taken->end, CUDA_SUCCESS);
        return;
    }
    lock_take(&vmm_lock);
    give_hold_locked(taken);
    give_place_locked(taken);
    lock_drop(&vmm_lock);
    if (taken->handle && taken->what == HOLD_MAPPING && !taken->is_tile)
        dispatch_mapped(hooks_vmm_key_of(taken->handle), taken->at, taken->size);
}

static void hooks_vmm_settle(struct vmm_taken *taken, CUresult result)
{
    while (taken) {
        struct vmm_taken *next = taken->next;

        hooks_vmm_settle_one(taken, result);
        meta_put(taken, sizeof *taken);
        taken = next;
    }
}

static struct vmm_taken take_reference(uint64_t number)
{
    struct vmm_taken taken = {.what = HOLD_REFERENCE, .number = number};

    lock_take(&vmm_lock);
    taken.handle = resolve_locked(number);
    if (taken.handle != number)
        take_alias_locked(number);
    take_hold_locked(&taken);
    lock_drop(&vmm_lock);
    return taken;
}

static int hooks_vmm_device_of(const CUmemAllocationProp *prop)
{
    return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
}

static void hooks_vmm_made(enum memclass memclass, uint64_t handle, uint64_t size, int device)
{
    if (note_handle(handle, false))
        dispatch_made(memclass, hooks_vmm_key_of(handle), size, device);
}

HOOKROW_ROOM(cuMemCreate,
        (CUmemGenericAllocationHandle * made, size_t size, const CUmemAllocationProp *prop,
                unsigned long long flags),
        (made, size, prop, flags), size, hooks_vmm_device_of(prop),
        hooks_vmm_made(hooks_vmm_device_of(prop) >= 0 ? MEMCLASS_VMM : MEMCLASS_HOST, *made, size,
                hooks_vmm_device_of(prop)))

HOOKROW(cuMemImportFromShareableHandle,
        (CUmemGenericAllocationHandle * made, void *os_handle, CUmemAllocationHandleType type),
        (made, os_handle, type), (void)note_handle(*made, true))

/* An address space over memory that is counted where it was allocated. */
HOOKROW(cuMulticastCreate, (CUmemGenericAllocationHandle * made, const CUmulticastObjectProp *prop),
        (made, prop), hooks_vmm_made(MEMCLASS_MULTICAST, *made, prop->size, -1))

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    bool entered = life_enter(SLOT_cuMemRelease);
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    struct vmm_taken taken;
    CUresult result;

    if (entered) {
        taken = take_reference(handle);
        pins_take_one(&pins, PINS_OF_HANDLE, handle); /* of a block of kedge (hooks_ipc.c) */
    }
    result = REAL(cuMemRelease)(handle);
    if (entered) {
        hooks_vmm_settle_one(&taken, result);
        pins_end(&pins, result == CUDA_SUCCESS, PINS_OF_HANDLE, handle);
        life_leave();
    }
    return result;
}

/* ---- mappings ------------------------------------------------------------------------------- */

/* true: an import whose size is now known and must be recorded. */
static bool note_mapping(devptr_t ptr, uint64_t size, uint64_t handle, uint64_t *ret_handle)
{
    struct handle *known;
    struct mapping *mapping;
    bool sized = false;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle);
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
        dispatch_made(
                MEMCLASS_IMPORTED, hooks_vmm_key_of(handle), offset + size, dispatch_device());
    dispatch_mapped(hooks_vmm_key_of(meant), ptr, size);
}

HOOKROW(cuMemMap,
        (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags),
        (ptr, size, offset, handle, flags), mapped(ptr, size, offset, handle))

/*
 * A mapping that begins inside [ptr, ptr + size), NULL if none is left: one call may remove
 * several.
 */
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

/* False: there was none. */
static bool take_mapping(devptr_t ptr, uint64_t size, struct vmm_taken *taken, bool *ret_last)
{
    struct mapping *mapping;

    lock_take(&vmm_lock);
    mapping = inside_locked(ptr, size);
    if (mapping) {
        taken->what = HOLD_MAPPING;
        taken->handle = mapping->handle;
        taken->at = mapping->ptr;
        taken->size = mapping->size;
        *ret_last = mapping->ptr == ptr && mapping->size >= size;
        (void)table_remove(&vmm_mappings, mapping);
        take_hold_locked(taken);
    }
    lock_drop(&vmm_lock);
    return mapping != NULL;
}

/*
 * Removes all mappings in [ptr, ptr + size). Mappings without memory to keep the removal stay
 * recorded.
 */
static struct vmm_taken *unmapping(devptr_t ptr, uint64_t size)
{
    struct vmm_taken *first = NULL;
    bool is_last = false;

    while (!is_last) {
        struct vmm_taken *taken = meta_get(sizeof *taken);

        if (!taken)
            break;
        *taken = (struct vmm_taken){.next = first};
        if (!take_mapping(ptr, size, taken, &is_last)) {
            meta_put(taken, sizeof *taken);
            break;
        }
        if (taken->handle)
            dispatch_mapped(hooks_vmm_key_of(taken->handle), taken->at, 0);
        first = taken;
    }
    return first;
}

/* Around a call that ends the object of `taking`. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define ENDS(symbol, params, args, taking, then)                                  \
    CUresult symbol params                                                         \
    ENDS_BODY(symbol, args, taking, then)
#define ENDS_BODY(symbol, args, taking, then)                                     \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        struct vmm_taken *taken = entered ? (taking) : NULL;                           \
        CUresult result = REAL(symbol) args;                                       \
        if (!entered)                                                              \
            return result;                                                         \
        hooks_vmm_settle(taken, result);                                                     \
        if (result == CUDA_SUCCESS)                                                \
            then;                                                                  \
        life_leave();                                                              \
        return result;                                                             \
    }
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

ENDS(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size), unmapping(ptr, size), (void)0)

/* The mapping around an address, NULL = none known. */
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

    lock_take(&vmm_lock);
    mapping = around_locked(ptr);
    known = mapping ? table_find(&vmm_handles, mapping->handle) : NULL;
    if (known && give_alias_locked(handle, known->handle))
        known->holds[HOLD_REFERENCE]++;
    lock_drop(&vmm_lock);
}

/* ---- arrays that are mapped in tiles -------------------------------------------------------- */

enum {
    MAP_OPERATION_MAP = 1,
    MAP_OPERATION_UNMAP,
};

static bool is_operation(unsigned type)
{
    return type == MAP_OPERATION_MAP || type == MAP_OPERATION_UNMAP;
}

enum {
    TILE_NUMBERS = 8, /* most numbers in the position of a tile */
};

/*
 * The key of a tile: the array and the numbers of its position, hashed. The program need not set
 * the bytes between and after these numbers.
 */
static uint64_t tile_key(const CUarrayMapInfo *info)
{
    const __typeof__(info->subresource.sparseLevel) *at = &info->subresource.sparseLevel;
    const __typeof__(info->subresource.miptail) *tail = &info->subresource.miptail;
    const uint64_t level[TILE_NUMBERS] = {at->level, at->layer, at->offsetX, at->offsetY,
            at->offsetZ, at->extentWidth, at->extentHeight, at->extentDepth};
    const uint64_t in_tail[TILE_NUMBERS] = {tail->layer, tail->offset, tail->size};
    const uint64_t *place = info->subresourceType == 0 ? level : in_tail;
    uint64_t hash = UINT64_C(1469598103934665603) ^ (uintptr_t)info->resource.array;

    hash = (hash ^ info->subresourceType) * UINT64_C(1099511628211);
    for (int i = 0; i < TILE_NUMBERS; i++)
        hash = (hash ^ place[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/*
 * Removes a known tile, with the reference of its mapping. NULL: it is unknown, or there is no
 * memory.
 */
static struct vmm_taken *take_tile_locked(struct tile *tile, struct vmm_taken *next)
{
    struct vmm_taken *taken = tile ? meta_get(sizeof *taken) : NULL;

    if (!taken)
        return next;
    *taken = (struct vmm_taken){
            .next = next,
            .what = HOLD_MAPPING,
            .handle = tile->handle,
            .at = tile->name,
            .size = tile->array,
            .is_tile = true,
    };
    (void)table_remove(&vmm_tiles, tile);
    take_hold_locked(taken);
    return taken;
}

static bool has_tiles(void)
{
    bool has;

    lock_take(&vmm_lock);
    has = table_next(&vmm_tiles, NULL) != NULL;
    lock_drop(&vmm_lock);
    return has;
}

/*
 * Removes the earlier state of the tiles. The driver has not checked the list yet, which it may
 * refuse unread: kedge reads it only if it may contain a known tile, as far as it is readable and
 * its operations are valid.
 */
static struct vmm_taken *tiles_moving(const CUarrayMapInfo *infos, unsigned count)
{
    struct vmm_taken *first = NULL;
    CUarrayMapInfo info;

    for (unsigned i = 0; i < count && has_tiles(); i++) {
        /* not a C pointer: the program's may be NULL or invalid */
        uintptr_t at = (uintptr_t)infos + i * sizeof info;

        if (!peek_copy(&info, (const void *)at, sizeof info)
                || !is_operation(info.memOperationType))
            break;
        lock_take(&vmm_lock);
        first = take_tile_locked(table_find(&vmm_tiles, tile_key(&info)), first);
        lock_drop(&vmm_lock);
    }
    return first;
}

static void note_tile(const CUarrayMapInfo *info)
{
    struct handle *known;
    struct tile *tile;
    uint64_t handle = info->memHandle.memHandle;

    lock_take(&vmm_lock);
    handle = resolve_locked(handle);
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
    for (unsigned i = 0; infos && i < count; i++)
        if (infos[i].memOperationType == MAP_OPERATION_MAP)
            note_tile(&infos[i]);
}

struct vmm_taken *vmm_array_ends(uint64_t array)
{
    struct vmm_taken *first = NULL;
    struct tile *tile;

    lock_take(&vmm_lock);
    for (;;) {
        struct vmm_taken *before = first;

        tile = table_next(&vmm_tiles, NULL);
        while (tile && tile->array != array)
            tile = table_next(&vmm_tiles, tile);
        first = take_tile_locked(tile, first);
        if (first == before)
            break;
    }
    lock_drop(&vmm_lock);
    return first;
}

void vmm_array_ended(struct vmm_taken *taken, CUresult result)
{
    hooks_vmm_settle(taken, result);
}

#define MAPS_TILES(symbol, per_thread)                                                       \
    ON_STREAM(symbol, (CUarrayMapInfo * infos, unsigned int count, CUstream stream), stream, \
            per_thread,                                                                      \
            ENDS_BODY(symbol, (infos, count, stream), tiles_moving(infos, count),            \
                    tiles_moved(infos, count)))

MAPS_TILES(cuMemMapArrayAsync, false)
MAPS_TILES(cuMemMapArrayAsync_ptsz, true)

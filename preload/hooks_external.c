/* SPDX-License-Identifier: MIT */
/*
 * Memory of other interfaces: Vulkan, Direct3D, OpenGL. Its bytes belong to whoever allocated them, so they are recorded
 * with the import, under its handle, and never count as this process's device memory. What is mapped out of an import is
 * recorded with no bytes of its own, so that its free is not taken for that of something unknown.
 */
#include "preload/addrmap.h"
#include "preload/conduct.h"
#include "preload/imports.h"
#include "preload/life.h"
#include "preload/resolve.h"

#include "alloc/lock.h"

CUresult cuImportExternalMemory(
        CUexternalMemory *ret_memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    bool entered = life_enter(SLOT_cuImportExternalMemory);
    CUresult result = REAL(cuImportExternalMemory)(ret_memory, desc);

    if (entered && result == CUDA_SUCCESS && ret_memory && desc)
        conduct_made(MEMCLASS_EXTERNAL, conduct_key(MEMCLASS_EXTERNAL, (uintptr_t)*ret_memory),
                desc->size, conduct_device());
    if (entered)
        life_leave();
    return result;
}

CUresult cuExternalMemoryGetMappedBuffer(
        CUdeviceptr *ret_ptr, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    bool entered = life_enter(SLOT_cuExternalMemoryGetMappedBuffer);
    CUresult result = REAL(cuExternalMemoryGetMappedBuffer)(ret_ptr, memory, desc);

    if (entered && result == CUDA_SUCCESS && ret_ptr) /* freed by cuMemFree */
        conduct_made(MEMCLASS_EXTERNAL, *ret_ptr, 0, conduct_device());
    if (entered)
        life_leave();
    return result;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *ret_array,
        CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    bool entered = life_enter(SLOT_cuExternalMemoryGetMappedMipmappedArray);
    CUresult result = REAL(cuExternalMemoryGetMappedMipmappedArray)(ret_array, memory, desc);

    if (entered && result == CUDA_SUCCESS && ret_array) /* ended by cuMipmappedArrayDestroy */
        conduct_made(MEMCLASS_EXTERNAL, conduct_key(MEMCLASS_ARRAY, (uintptr_t)*ret_array), 0,
                conduct_device());
    if (entered)
        life_leave();
    return result;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    bool entered = life_enter(SLOT_cuDestroyExternalMemory);
    struct conduct_end end = {.key = 0};
    CUresult result;

    if (entered && memory)
        end = conduct_end(conduct_key(MEMCLASS_EXTERNAL, (uintptr_t)memory));
    result = REAL(cuDestroyExternalMemory)(memory);
    if (entered) {
        conduct_ended(&end, (int)result);
        life_leave();
    }
    return result;
}

/* ---- graphics resources --------------------------------------------------------------------- */

/* A mapped resource is on record from the question for its address until it is unmapped. */
static struct lock graphics_lock = LOCK_INIT(LOCK_RANK_PRELOAD);
static struct addrmap graphics; /* guarded by graphics_lock; resource: no values */

void imports_external_fork_child(void)
{
    lock_init(&graphics_lock, LOCK_RANK_PRELOAD);
}

static bool note_resource(CUgraphicsResource resource)
{
    uint32_t before;
    bool is_new;

    lock_take(&graphics_lock);
    before = graphics.used;
    is_new = addrmap_add(&graphics, (uintptr_t)resource) && graphics.used > before;
    lock_drop(&graphics_lock);
    return is_new;
}

static bool forget_resource(CUgraphicsResource resource)
{
    struct addrmap_entry *known;

    lock_take(&graphics_lock);
    known = addrmap_find(&graphics, (uintptr_t)resource);
    if (known)
        addrmap_remove(&graphics, known);
    lock_drop(&graphics_lock);
    return known != NULL;
}

CUresult cuGraphicsResourceGetMappedPointer_v2(
        CUdeviceptr *ret_ptr, size_t *ret_size, CUgraphicsResource resource)
{
    bool entered = life_enter(SLOT_cuGraphicsResourceGetMappedPointer_v2);
    CUresult result = REAL(cuGraphicsResourceGetMappedPointer_v2)(ret_ptr, ret_size, resource);

    if (entered && result == CUDA_SUCCESS && ret_size && note_resource(resource))
        conduct_made(MEMCLASS_EXTERNAL, conduct_key(MEMCLASS_EXTERNAL, (uintptr_t)resource),
                *ret_size, conduct_device());
    if (entered)
        life_leave();
    return result;
}

static void unmapped(unsigned count, const CUgraphicsResource *resources)
{
    for (unsigned i = 0; resources && i < count; i++)
        if (forget_resource(resources[i]))
            conduct_gone(conduct_key(MEMCLASS_EXTERNAL, (uintptr_t)resources[i]));
}

CUresult cuGraphicsUnmapResources(
        unsigned int count, CUgraphicsResource *resources, CUstream stream)
{
    bool entered = life_enter(SLOT_cuGraphicsUnmapResources);
    CUresult result = REAL(cuGraphicsUnmapResources)(count, resources, stream);

    if (entered && result == CUDA_SUCCESS)
        unmapped(count, resources);
    if (entered)
        life_leave();
    return result;
}

CUresult cuGraphicsUnmapResources_ptsz(
        unsigned int count, CUgraphicsResource *resources, CUstream stream)
{
    bool entered = life_enter(SLOT_cuGraphicsUnmapResources_ptsz);
    CUresult result = REAL(cuGraphicsUnmapResources_ptsz)(count, resources, stream);

    if (entered && result == CUDA_SUCCESS)
        unmapped(count, resources);
    if (entered)
        life_leave();
    return result;
}

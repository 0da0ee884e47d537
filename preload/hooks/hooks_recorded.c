/* SPDX-License-Identifier: MIT */
/*
 * Memory that is only recorded, and left to the driver (R18, memory never pooled): each function
 * that makes it or ends it is a row (hookrow.h).
 *
 * Host memory is not device memory, and no figure of a report counts it as such. Memory of other
 * interfaces (Vulkan, Direct3D) belongs to its allocator: it is recorded at its import, under its
 * handle. Ranges mapped from it are recorded with 0 bytes, so that their frees are not taken for
 * frees of unknown memory.
 */
#include "preload/base/vmm.h"
#include "preload/driver/device_stats.h"
#include "preload/graph/arrays.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/hookrow.h"

/* clang-format off */

/* ---- host memory: allocated by the driver, or the program's own and registered -------------- */

HOOKROW_MADE(cuMemHostAlloc, (void **made, size_t size, unsigned int flags), (made, size, flags),
        HOST, (uintptr_t)*made, size)
HOOKROW_MADE(cuMemAllocHost_v2, (void **made, size_t size), (made, size),
        HOST, (uintptr_t)*made, size)
HOOKROW_END(cuMemFreeHost, (void *ptr), (ptr), (uintptr_t)ptr)
HOOKROW_MADE(cuMemHostRegister, (void *ptr, size_t size, unsigned int flags), (ptr, size, flags),
        REGISTERED, (uintptr_t)ptr, size)
HOOKROW_MADE(cuMemHostRegister_v2, (void *ptr, size_t size, unsigned int flags), (ptr, size, flags),
        REGISTERED, (uintptr_t)ptr, size)
HOOKROW_END(cuMemHostUnregister, (void *ptr), (ptr), (uintptr_t)ptr)

/* ---- memory of other interfaces ------------------------------------------------------------- */

HOOKROW_MADE(cuImportExternalMemory,
        (CUexternalMemory *made, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc), (made, desc),
        EXTERNAL, hookrow_key(MEMCLASS_EXTERNAL, *made), desc->size)
HOOKROW_MADE(cuExternalMemoryGetMappedBuffer,
        (CUdeviceptr *made, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
        (made, memory, desc),
        EXTERNAL, *made, 0) /* freed by cuMemFree */
HOOKROW_MADE(cuExternalMemoryGetMappedMipmappedArray,
        (CUmipmappedArray *made, CUexternalMemory memory,
                const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc),
        (made, memory, desc),
        EXTERNAL, hookrow_key(MEMCLASS_ARRAY, *made), 0) /* ended by cuMipmappedArrayDestroy */
HOOKROW_END(cuDestroyExternalMemory, (CUexternalMemory memory), (memory),
        hookrow_key(MEMCLASS_EXTERNAL, memory))

/* ---- arrays: opaque device memory, under its handle ----------------------------------------- */

HOOKROW_ROOM(cuArrayCreate_v2, (CUarray *made, const CUDA_ARRAY_DESCRIPTOR *desc), (made, desc),
        arrays_least_flat(desc), dispatch_device(), arrays_made_flat(*made, desc))
HOOKROW_ROOM(cuArray3DCreate_v2, (CUarray *made, const CUDA_ARRAY3D_DESCRIPTOR *desc), (made, desc),
        arrays_least(desc, 1), dispatch_device(), arrays_made(*made, NULL, desc, 1))
HOOKROW_ROOM(cuMipmappedArrayCreate,
        (CUmipmappedArray *made, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels),
        (made, desc, levels),
        arrays_least(desc, levels), dispatch_device(), arrays_made(NULL, *made, desc, levels))

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be put in parentheses here */
#define ARRAY_END(symbol, type)                                                   \
    CUresult symbol(type array)                                                    \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        struct vmm_taken *tiles = NULL;                                            \
        struct dispatch_end end = {.key = 0};                                       \
        CUresult result;                                                           \
        if (entered && array) {                                                    \
            tiles = vmm_array_ends((uintptr_t)array);                              \
            end = dispatch_end(hookrow_key(MEMCLASS_ARRAY, array));                 \
        }                                                                          \
        result = REAL(symbol)(array);                                              \
        if (entered) {                                                             \
            vmm_array_ended(tiles, result);                                        \
            dispatch_ended(&end, (int)result);                                      \
            life_leave();                                                          \
        }                                                                          \
        return result;                                                             \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

ARRAY_END(cuArrayDestroy, CUarray)
ARRAY_END(cuMipmappedArrayDestroy, CUmipmappedArray)

/* ---- addresses: no memory ------------------------------------------------------------------- */

HOOKROW(cuMemAddressReserve,
        (CUdeviceptr *made, size_t size, size_t alignment, CUdeviceptr ptr, unsigned long long flags),
        (made, size, alignment, ptr, flags),
        dispatch_made(MEMCLASS_VIRTUAL, dispatch_key(MEMCLASS_VIRTUAL, *made), size, -1))
HOOKROW_END(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size),
        ptr ? dispatch_key(MEMCLASS_VIRTUAL, ptr) : 0)

/* ---- memory nodes of graphs, and the driver's pool behind them ------------------------------ */

HOOKROW_ROOM(cuGraphAddMemAllocNode,
        (CUgraphNode *made, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                CUDA_MEM_ALLOC_NODE_PARAMS *params),
        (made, graph, dependencies, count, params),
        params ? params->bytesize : 0, graphmem_device(params), graphmem_alloc_added(graph, params))
HOOKROW(cuGraphAddMemFreeNode,
        (CUgraphNode *made, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUdeviceptr ptr),
        (made, graph, dependencies, count, ptr), graphmem_free_added(graph, ptr))
HOOKROW(cuDeviceGraphMemTrim, (CUdevice device), (device), device_stats_look(device))
HOOKROW(cuDeviceGetGraphMemAttribute,
        (CUdevice device, CUgraphMem_attribute which, void *value), (device, which, value),
        device_stats_look(device)) /* a caller wants the figures of this moment */
/* clang-format on */

/* Resets a high mark of the driver; kedge's mark stays, since the report covers the whole run. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
    bool entered = life_enter(SLOT_cuDeviceSetGraphMemAttribute);
    CUresult result;

    if (entered)
        device_stats_look(device);
    result = REAL(cuDeviceSetGraphMemAttribute)(device, which, value);
    if (entered)
        life_leave();
    return result;
}

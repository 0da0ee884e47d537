/* SPDX-License-Identifier: MIT */
/*
 * Memory of graphs. A node that allocates gives its address when it is added, long before a launch backs it; it is recorded
 * there, and ends with the node that frees it, or with the program's free; later launches are recorded anew (graphmem.h). What the driver holds for graphs is another
 * figure: its pool keeps memory between launches. That one is asked for when a device is looked at (conduct_look).
 */
#include "preload/graphmem.h"

#include "preload/conduct.h"
#include "preload/life.h"
#include "preload/resolve.h"

static void added(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    bool on_device = params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE;

    conduct_made(on_device ? MEMCLASS_GRAPH : MEMCLASS_HOST, params->dptr, params->bytesize,
            on_device ? params->poolProps.location.id : -1);
    graphmem_allocates((uintptr_t)graph, params->dptr, params->bytesize,
            on_device ? params->poolProps.location.id : -1);
}

static void freed(CUgraph graph, CUdeviceptr ptr)
{
    conduct_gone(ptr);
    graphmem_frees((uintptr_t)graph, ptr);
}

static int device_of(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    return params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE
            ? params->poolProps.location.id
            : -1;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *ret_node, CUgraph graph,
        const CUgraphNode *dependencies, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    bool entered = life_enter(SLOT_cuGraphAddMemAllocNode);
    CUresult result = REAL(cuGraphAddMemAllocNode)(ret_node, graph, dependencies, count, params);
    struct pool_ladder ladder = {.waits = 0};

    if (entered && params && conduct_make_room((int)result, device_of(params), &ladder))
        result = REAL(cuGraphAddMemAllocNode)(ret_node, graph, dependencies, count, params);
    if (entered && params)
        conduct_refused((int)result, params->bytesize, device_of(params), &ladder);
    if (entered && result == CUDA_SUCCESS && params)
        added(graph, params);
    if (entered)
        life_leave();
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *ret_node, CUgraph graph,
        const CUgraphNode *dependencies, size_t count, CUdeviceptr ptr)
{
    bool entered = life_enter(SLOT_cuGraphAddMemFreeNode);
    CUresult result = REAL(cuGraphAddMemFreeNode)(ret_node, graph, dependencies, count, ptr);

    if (entered && result == CUDA_SUCCESS)
        freed(graph, ptr);
    if (entered)
        life_leave();
    return result;
}

void graphmem_added(CUgraph graph, const CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        added(graph, &params->alloc);
    else if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        freed(graph, params->free.dptr);
}

bool graphmem_wants_room(
        const CUgraphNodeParams *params, CUresult result, struct pool_ladder *ladder)
{
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
            && conduct_make_room((int)result, device_of(&params->alloc), ladder);
}

void graphmem_refused(
        const CUgraphNodeParams *params, CUresult result, const struct pool_ladder *ladder)
{
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        conduct_refused((int)result, params->alloc.bytesize, device_of(&params->alloc), ladder);
}

/* ---- the driver's pool for graphs ----------------------------------------------------------- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDeviceGraphMemTrim);
    CUresult result = REAL(cuDeviceGraphMemTrim)(device);

    if (entered && result == CUDA_SUCCESS)
        conduct_look(device);
    if (entered)
        life_leave();
    return result;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
    bool entered = life_enter(SLOT_cuDeviceGetGraphMemAttribute);
    CUresult result = REAL(cuDeviceGetGraphMemAttribute)(device, which, value);

    if (entered && result == CUDA_SUCCESS)
        conduct_look(device); /* whoever asks wants to know now */
    if (entered)
        life_leave();
    return result;
}

/* Resets a high mark: ours stays what it was, the report speaks of the whole run. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
    bool entered = life_enter(SLOT_cuDeviceSetGraphMemAttribute);

    if (entered)
        conduct_look(device);
    CUresult result = REAL(cuDeviceSetGraphMemAttribute)(device, which, value);
    if (entered)
        life_leave();
    return result;
}

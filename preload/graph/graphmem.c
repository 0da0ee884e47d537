/* SPDX-License-Identifier: MIT */
#include "preload/graph/graphmem.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"

#include <stdatomic.h>

enum {
    BATCH = 32,
};

/* A node's allocation at each launch. */
struct node {
    struct node *next;
    devptr_t ptr;
    uint64_t size;
    int device;
};

/* State of the memory at an address. The record of the node stands for the first launch. */
enum state {
    STATE_NONE,
    STATE_ADDED,
    STATE_HELD,   /* a launch allocated it, and it has not been freed */
    STATE_FREED,  /* the program has freed it */
    STATE_BEYOND, /* another graph frees it, at launches that kedge does not record */
};

struct place {
    uint64_t ptr;
    enum state state;
};

FORKLOCK(lock);
/* guarded by lock: */
static struct table owners; /* by graph or instance: the first of its nodes */
static struct table states = TABLE_OF(struct place);

static atomic_bool is_used; /* a node has existed */

static void set_state(devptr_t ptr, enum state state, bool make)
{
    struct place *place = make ? table_add(&states, ptr) : table_find(&states, ptr);

    if (place)
        place->state = state;
}

/* False: no memory; its launches are not recorded then. */
static bool graphmem_push(uint64_t owner, const struct node *like)
{
    struct node *node = meta_get(sizeof *node);

    if (!node)
        return false;
    *node = *like;
    node->next = table_get(&owners, owner);
    if (table_put(&owners, owner, node) == 0)
        return true;
    meta_put(node, sizeof *node);
    return false;
}

static bool graphmem_drop(uint64_t owner, devptr_t ptr)
{
    struct node *node = table_get(&owners, owner);
    struct node *before = NULL;

    while (node && node->ptr != ptr) {
        before = node;
        node = node->next;
    }
    if (!node)
        return false;
    if (before)
        before->next = node->next;
    else
        (void)table_put(&owners, owner, node->next);
    meta_put(node, sizeof *node);
    return true;
}

void graphmem_allocates(uint64_t graph, devptr_t ptr, uint64_t size, int device)
{
    struct node node = {.ptr = ptr, .size = size, .device = device};

    lock_take(&lock);
    if (graph && graphmem_push(graph, &node))
        set_state(ptr, STATE_ADDED, true);
    lock_drop(&lock);
    atomic_store(&is_used, true);
}

void graphmem_frees(uint64_t graph, devptr_t ptr)
{
    lock_take(&lock);
    if (!graphmem_drop(graph, ptr))
        set_state(ptr, STATE_BEYOND, false);
    lock_drop(&lock);
}

void graphmem_instantiated(uint64_t graph, uint64_t exec)
{
    bool any = false;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    for (const struct node *node = table_get(&owners, graph); node; node = node->next)
        any |= graphmem_push(exec, node);
    lock_drop(&lock);
    if (any)
        guard_set(GUARD_LAUNCHES);
}

void graphmem_gone(uint64_t owner)
{
    struct node *node;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    node = table_get(&owners, owner);
    (void)table_remove(&owners, table_find(&owners, owner));
    lock_drop(&lock);
    while (node) {
        struct node *next = node->next;

        meta_put(node, sizeof *node);
        node = next;
    }
}

void graphmem_capture_ended(const struct gate_capture *capture, uint64_t graph)
{
    if (pins_capture_ended(capture, graph))
        graphmem_gone(capture->graph);
}

void graphmem_move(uint64_t from, uint64_t to)
{
    struct node *node;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    node = table_get(&owners, from);
    if (node && table_put(&owners, to, node) == 0)
        (void)table_remove(&owners, table_find(&owners, from));
    lock_drop(&lock);
}

void graphmem_freed(devptr_t ptr)
{
    struct place *place;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    place = table_find(&states, ptr);
    if (place && place->state != STATE_BEYOND)
        place->state = STATE_FREED;
    lock_drop(&lock);
}

/* One node that was launched. */
struct birth {
    struct node node;
    enum state was;
};

/*
 * Marks up to BATCH nodes of an instance as launched, after the first `skip`; returns their
 * previous states.
 */
static size_t launch_some(uint64_t exec, size_t skip, struct birth list[BATCH])
{
    const struct node *node;
    size_t count = 0;

    lock_take(&lock);
    for (node = table_get(&owners, exec); node && count < BATCH; node = node->next) {
        struct place *place = table_find(&states, node->ptr);

        if (skip > 0) {
            skip--;
            continue;
        }
        list[count++] = (struct birth){*node, place ? place->state : STATE_NONE};
        if (place && place->state != STATE_BEYOND)
            place->state = STATE_HELD;
    }
    lock_drop(&lock);
    return count;
}

static void graphmem_tell(const struct birth *birth)
{
    if (birth->was == STATE_HELD) /* an instance that frees at its next launch */
        dispatch_gone(birth->node.ptr);
    if (birth->was == STATE_HELD || birth->was == STATE_FREED)
        dispatch_made(birth->node.device >= 0 ? MEMCLASS_GRAPH : MEMCLASS_HOST, birth->node.ptr,
                birth->node.size, birth->node.device);
}

void graphmem_launched(uint64_t exec)
{
    struct birth list[BATCH];
    size_t all = 0;
    size_t count;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed) || guard_depth() > 0
            || !life_begin_edge())
        return;
    do {
        count = launch_some(exec, all, list);
        for (size_t i = 0; i < count; i++)
            graphmem_tell(&list[i]);
        all += count;
    } while (count == BATCH);
    life_leave();
}

/* ---- nodes, when they are added ------------------------------------------------------------- */

int graphmem_device(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    return params && params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE
            ? params->poolProps.location.id
            : -1;
}

void graphmem_alloc_added(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    int device = graphmem_device(params);

    dispatch_made(
            device >= 0 ? MEMCLASS_GRAPH : MEMCLASS_HOST, params->dptr, params->bytesize, device);
    graphmem_allocates((uintptr_t)graph, params->dptr, params->bytesize, device);
}

void graphmem_free_added(CUgraph graph, CUdeviceptr ptr)
{
    dispatch_gone(ptr);
    graphmem_frees((uintptr_t)graph, ptr);
}

void graphmem_added(CUgraph graph, const CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        graphmem_alloc_added(graph, &params->alloc);
    else if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        graphmem_free_added(graph, params->free.dptr);
}

bool graphmem_wants_room(
        const CUgraphNodeParams *params, CUresult result, struct pool_ladder *ladder)
{
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
            && dispatch_make_room(
                    (int)result, params->alloc.bytesize, graphmem_device(&params->alloc), ladder);
}

void graphmem_refused(
        const CUgraphNodeParams *params, CUresult result, const struct pool_ladder *ladder)
{
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        dispatch_refused(
                (int)result, params->alloc.bytesize, graphmem_device(&params->alloc), ladder);
}

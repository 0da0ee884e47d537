/* SPDX-License-Identifier: MIT */
#include "preload/graph/graphkernels.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/base/forklock.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/kernelnames.h"
#include "tracker/capture/capture.h"

#include <stdatomic.h>

/* A kernel, or a child graph, which comes before its content. */
struct node {
    struct node *next;
    CUgraphNode handle;
    CUgraph child; /* during reading: its content comes next */
    uint32_t name; /* 0 = its name is not wanted */
    bool is_off;
};

FORKLOCK(lock);
static struct table instances; /* guarded by lock: the first node, by CUgraphExec */

static uint64_t graphkernels_key(CUgraphExec exec)
{
    return (uint64_t)(uintptr_t)exec;
}

/* ---- asking the driver --------------------------------------------------------------------- */

static void say_once(atomic_bool *io_said, const char *text)
{
    if (atomic_exchange(io_said, true))
        return;
    msg_warn("%s", text);
    session_report(capture_note(1, text));
}

static void lack_memory(void)
{
    static atomic_bool said;

    say_once(&said, "kernels of a graph are no events: there was no memory to note them");
}

static uint32_t graphkernels_name_of(CUfunction function)
{
    static atomic_bool said;
    bool is_known;
    uint32_t name = function ? kernelnames_of(function, &is_known) : 0;

    if (function && !is_known)
        say_once(&said, "a kernel of a graph is no event: the driver does not tell its name");
    return name;
}

/* False: the node is of another kind. */
static bool graphkernels_look(struct node *node)
{
    CUDA_KERNEL_NODE_PARAMS params = {.func = NULL};
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    static atomic_bool said;

    (void)REAL(cuGraphNodeGetType)(node->handle, &type);
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        say_once(&said, "kernels in the body of a conditional node of a graph are no events");
    if (type == CU_GRAPH_NODE_TYPE_GRAPH)
        return REAL(cuGraphChildGraphNodeGetGraph)(node->handle, &node->child) == CUDA_SUCCESS;
    if (type != CU_GRAPH_NODE_TYPE_KERNEL
            || REAL(cuGraphKernelNodeGetParams_v2)(node->handle, &params) != CUDA_SUCCESS)
        return false;
    node->name = graphkernels_name_of(params.func ? params.func : (CUfunction)(void *)params.kern);
    return true;
}

/* Inserts the nodes of one graph before *at. */
static void read_graph(struct node **at, CUgraph graph)
{
    size_t count = 0;
    size_t bytes;
    CUgraphNode *handles;

    if (REAL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
        return;
    bytes = count * sizeof(CUgraphNode);
    handles = meta_get(bytes);
    if (!handles)
        lack_memory();
    if (!handles || REAL(cuGraphGetNodes)(graph, handles, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        struct node like = {.next = *at, .handle = handles[i]};
        struct node *node = graphkernels_look(&like) ? meta_get(sizeof *node) : NULL;

        if (!node) {
            if (like.child || like.name)
                lack_memory();
            continue;
        }
        *node = like;
        *at = node;
        at = &node->next;
    }
    if (handles)
        meta_put(handles, bytes);
}

static struct node *read_all(CUgraph graph)
{
    struct node *first = NULL;

    read_graph(&first, graph);
    for (struct node *node = first; node; node = node->next)
        if (node->child)
            read_graph(&node->next, node->child);
    return first;
}

/* ---- instances ------------------------------------------------------------------------------ */

static struct node *graphkernels_take(CUgraphExec exec)
{
    struct node *first;

    lock_take(&lock);
    first = table_get(&instances, graphkernels_key(exec));
    (void)table_remove(&instances, table_find(&instances, graphkernels_key(exec)));
    lock_drop(&lock);
    return first;
}

static void graphkernels_forget(struct node *node)
{
    while (node) {
        struct node *next = node->next;

        meta_put(node, sizeof *node);
        node = next;
    }
}

static void graphkernels_give(CUgraphExec exec, struct node *first)
{
    int r = 0;

    lock_take(&lock);
    if (first)
        r = table_put(&instances, graphkernels_key(exec), first);
    lock_drop(&lock);
    if (r == 0)
        return;
    graphkernels_forget(first);
    lack_memory();
}

void graphkernels_made(CUgraphExec exec, CUgraph graph)
{
    if (!kernelnames_are_wanted())
        return;
    /* an entry is left if the instance ended with its context */
    graphkernels_forget(graphkernels_take(exec));
    graphkernels_give(exec, read_all(graph));
}

/*
 * The graph has the same shape, and calls still name the nodes of the graph that the instance was
 * made of.
 */
void graphkernels_updated(CUgraphExec exec, CUgraph graph)
{
    struct node *first, *old;

    if (!kernelnames_are_wanted())
        return;
    first = read_all(graph);
    old = graphkernels_take(exec);
    for (struct node *to = first, *from = old; to && from; to = to->next, from = from->next) {
        to->handle = from->handle;
        to->is_off = from->is_off;
    }
    graphkernels_forget(old);
    graphkernels_give(exec, first);
}

void graphkernels_gone(CUgraphExec exec)
{
    if (kernelnames_are_wanted())
        graphkernels_forget(graphkernels_take(exec));
}

void graphkernels_move(CUgraphExec from, CUgraphExec to)
{
    if (kernelnames_are_wanted())
        graphkernels_give(to, graphkernels_take(from));
}

static struct node *graphkernels_find_locked(CUgraphExec exec, CUgraphNode handle)
{
    struct node *node = table_get(&instances, graphkernels_key(exec));

    while (node && node->handle != handle)
        node = node->next;
    return node;
}

void graphkernels_set(CUgraphExec exec, CUgraphNode handle, CUfunction function)
{
    struct node *node;
    uint32_t name;

    if (!kernelnames_are_wanted() || !function)
        return;
    name = graphkernels_name_of(function);
    lock_take(&lock);
    node = graphkernels_find_locked(exec, handle);
    if (node)
        node->name = name;
    lock_drop(&lock);
}

void graphkernels_set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child)
{
    struct node *first, *node;

    if (!kernelnames_are_wanted() || !child)
        return;
    first = read_all(child);
    lock_take(&lock);
    node = graphkernels_find_locked(exec, handle);
    for (const struct node *from = first; node && node->next && from; from = from->next) {
        node = node->next;
        node->name = from->name;
    }
    lock_drop(&lock);
    graphkernels_forget(first);
}

void graphkernels_switched(CUgraphExec exec, CUgraphNode handle, bool is_on)
{
    struct node *node;

    if (!kernelnames_are_wanted())
        return;
    lock_take(&lock);
    node = graphkernels_find_locked(exec, handle);
    if (node)
        node->is_off = !is_on;
    lock_drop(&lock);
}

size_t graphkernels_names(CUgraphExec exec, size_t skip, uint32_t *ret_names, size_t max)
{
    size_t count = 0;

    lock_take(&lock);
    for (const struct node *node = table_get(&instances, graphkernels_key(exec));
            node && count < max; node = node->next) {
        if (!node->name || node->is_off)
            continue;
        if (skip > 0)
            skip--;
        else
            ret_names[count++] = node->name;
    }
    lock_drop(&lock);
    return count;
}

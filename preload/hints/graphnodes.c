/* SPDX-License-Identifier: MIT */
#include "preload/hints/graphnodes.h"

#include "preload/base/forklock.h"

#include "alloc/base/table.h"

#include <stddef.h>

/* A node, or a graph inside another one: both are entries in the list of the graph around them. */
struct part {
    uint64_t handle;
    uint64_t graph; /* the outermost graph */
    uint64_t before, after;
};

struct whole {
    uint64_t graph;
    uint64_t first; /* first entry of its list */
};

FORKLOCK(graphnodes_lock);
/* guarded by graphnodes_lock: */
static struct table parts = TABLE_OF(struct part);
static struct table wholes = TABLE_OF(struct whole);

static uint64_t graphnodes_owner_locked(uint64_t handle)
{
    const struct part *part = table_find(&parts, handle);

    return part ? part->graph : 0;
}

uint64_t graphnodes_graph(uint64_t node)
{
    uint64_t graph;

    lock_take(&graphnodes_lock);
    graph = graphnodes_owner_locked(node);
    lock_drop(&graphnodes_lock);
    return graph;
}

uint64_t graphnodes_owner(uint64_t graph)
{
    uint64_t outer = graphnodes_graph(graph);

    return outer ? outer : graph;
}

/* Removes the part from its list. */
static void graphnodes_unlink_locked(const struct part *part)
{
    struct part *before = table_find(&parts, part->before);
    struct part *after = table_find(&parts, part->after);
    struct whole *whole = before ? NULL : table_find(&wholes, part->graph);

    if (before)
        before->after = part->after;
    if (after)
        after->before = part->before;
    if (whole)
        whole->first = part->after;
    if (whole && !whole->first)
        (void)table_remove(&wholes, whole);
}

static void graphnodes_link_locked(uint64_t graph, uint64_t handle)
{
    struct part *part = table_add(&parts, handle);
    struct whole *whole;
    struct part *first;

    if (!part || part->graph == graph)
        return;
    if (part->graph) /* part of a graph whose end was not seen, or that is moved */
        graphnodes_unlink_locked(part);
    whole = table_add(&wholes, graph);
    if (!whole) {
        (void)table_remove(&parts, part);
        return;
    }
    first = table_find(&parts, whole->first);
    if (first)
        first->before = handle;
    *part = (struct part){.handle = handle, .graph = graph, .before = 0, .after = whole->first};
    whole->first = handle;
}

void graphnodes_note(uint64_t graph, uint64_t node)
{
    uint64_t outer;

    if (!graph || !node)
        return;
    lock_take(&graphnodes_lock);
    outer = graphnodes_owner_locked(graph);
    graphnodes_link_locked(outer ? outer : graph, node);
    lock_drop(&graphnodes_lock);
}

void graphnodes_embed(uint64_t graph, uint64_t inner)
{
    const struct whole *whole;
    uint64_t outer;

    if (!graph || !inner)
        return;
    lock_take(&graphnodes_lock);
    outer = graphnodes_owner_locked(graph);
    outer = outer ? outer : graph;
    while (outer != inner && (whole = table_find(&wholes, inner)) != NULL) {
        uint64_t handle = whole->first;

        graphnodes_link_locked(outer, handle);
        if (graphnodes_owner_locked(handle) != outer)
            break; /* no memory */
    }
    if (outer != inner)
        graphnodes_link_locked(outer, inner);
    lock_drop(&graphnodes_lock);
}

void graphnodes_node_gone(uint64_t node)
{
    struct part *part;

    lock_take(&graphnodes_lock);
    part = table_find(&parts, node);
    if (part)
        graphnodes_unlink_locked(part);
    (void)table_remove(&parts, part);
    lock_drop(&graphnodes_lock);
}

void graphnodes_gone(uint64_t graph)
{
    struct whole *whole;
    uint64_t at;

    lock_take(&graphnodes_lock);
    whole = table_find(&wholes, graph);
    at = whole ? whole->first : 0;
    (void)table_remove(&wholes, whole);
    while (at) {
        struct part *part = table_find(&parts, at);

        at = part ? part->after : 0;
        (void)table_remove(&parts, part);
    }
    lock_drop(&graphnodes_lock);
}

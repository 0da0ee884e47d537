/* SPDX-License-Identifier: MIT */
#include "preload/graphmem.h"

#include "preload/addrmap.h"
#include "preload/conduct.h"
#include "preload/guard.h"
#include "preload/life.h"

#include "alloc/lock.h"
#include "alloc/meta.h"

#include <stdatomic.h>

enum {
    BATCH = 32,
};

/* What a node allocates at each launch. */
struct node {
    struct node *next;
    devptr_t ptr;
    uint64_t size;
    int device;
};

/* How far the memory at an address is. The record of the node stands for the first launch. */
enum state {
    STATE_NONE,
    STATE_ADDED,
    STATE_HELD,   /* a launch allocated it, nobody has freed it */
    STATE_FREED,  /* the program has */
    STATE_BEYOND, /* another graph frees it, at launches that nobody looks at */
};

static struct lock lock = LOCK_INIT(LOCK_RANK_PRELOAD);
/* guarded by lock: */
static struct addrmap owners; /* graph or instance: its nodes */
static struct addrmap states; /* address: state */

static atomic_bool is_used; /* there has been a node */

static struct node *first_of(const struct addrmap_entry *owner)
{
    return owner ? (struct node *)(uintptr_t)owner->value[0] : NULL;
}

static void set_state(devptr_t ptr, enum state state, bool make)
{
    struct addrmap_entry *entry = make ? addrmap_add(&states, ptr) : addrmap_find(&states, ptr);

    if (entry)
        entry->value[0] = state;
}

/* False: no memory; its launches are not recorded then. */
static bool push(uint64_t owner, const struct node *like)
{
    struct node *node = meta_get(sizeof *node);
    struct addrmap_entry *entry = node ? addrmap_add(&owners, owner) : NULL;

    if (!entry) {
        if (node)
            meta_put(node, sizeof *node);
        return false;
    }
    *node = *like;
    node->next = first_of(entry);
    entry->value[0] = (uintptr_t)node;
    return true;
}

static bool drop(uint64_t owner, devptr_t ptr)
{
    struct addrmap_entry *entry = addrmap_find(&owners, owner);
    struct node *node = first_of(entry);
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
        entry->value[0] = (uintptr_t)node->next;
    meta_put(node, sizeof *node);
    return true;
}

void graphmem_allocates(uint64_t graph, devptr_t ptr, uint64_t size, int device)
{
    struct node node = {.ptr = ptr, .size = size, .device = device};

    lock_take(&lock);
    if (graph && push(graph, &node))
        set_state(ptr, STATE_ADDED, true);
    lock_drop(&lock);
    atomic_store(&is_used, true);
}

void graphmem_frees(uint64_t graph, devptr_t ptr)
{
    lock_take(&lock);
    if (!drop(graph, ptr))
        set_state(ptr, STATE_BEYOND, false);
    lock_drop(&lock);
}

void graphmem_instantiated(uint64_t graph, uint64_t exec)
{
    bool any = false;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    for (const struct node *node = first_of(addrmap_find(&owners, graph)); node; node = node->next)
        any |= push(exec, node);
    lock_drop(&lock);
    if (any)
        guard_set(GUARD_LAUNCHES);
}

void graphmem_gone(uint64_t owner)
{
    struct addrmap_entry *entry;
    struct node *node;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    entry = addrmap_find(&owners, owner);
    node = first_of(entry);
    if (entry)
        addrmap_remove(&owners, entry);
    lock_drop(&lock);
    while (node) {
        struct node *next = node->next;

        meta_put(node, sizeof *node);
        node = next;
    }
}

void graphmem_freed(devptr_t ptr)
{
    const struct addrmap_entry *entry;

    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    lock_take(&lock);
    entry = addrmap_find(&states, ptr);
    if (entry && entry->value[0] != STATE_BEYOND)
        set_state(ptr, STATE_FREED, false);
    lock_drop(&lock);
}

/* One node that was launched. */
struct birth {
    struct node node;
    enum state was;
};

/* Up to BATCH nodes of an instance, after so many; what was there before they were launched. */
static size_t launch_some(uint64_t exec, size_t skip, struct birth list[BATCH])
{
    const struct node *node;
    size_t count = 0;

    lock_take(&lock);
    for (node = first_of(addrmap_find(&owners, exec)); node && count < BATCH; node = node->next) {
        struct addrmap_entry *state = addrmap_find(&states, node->ptr);

        if (skip > 0) {
            skip--;
            continue;
        }
        list[count++] = (struct birth){*node, state ? (enum state)state->value[0] : STATE_NONE};
        if (state && state->value[0] != STATE_BEYOND)
            state->value[0] = STATE_HELD;
    }
    lock_drop(&lock);
    return count;
}

static void tell(const struct birth *birth)
{
    if (birth->was == STATE_HELD) /* an instance that frees at its next launch */
        conduct_gone(birth->node.ptr);
    if (birth->was == STATE_HELD || birth->was == STATE_FREED)
        conduct_made(birth->node.device >= 0 ? MEMCLASS_GRAPH : MEMCLASS_HOST, birth->node.ptr,
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
            tell(&list[i]);
        all += count;
    } while (count == BATCH);
    life_leave();
}

void graphmem_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_PRELOAD);
}

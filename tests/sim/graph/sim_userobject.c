/* SPDX-License-Identifier: MIT */
#include "tests/sim/graph/sim_userobject.h"

#include "tests/sim/graph/sim_graph_parts.h"

#include <stdatomic.h>
#include <stdlib.h>

struct CUuserObject_st {
    CUhostFn destroy;
    void *data;
    unsigned references;
    struct CUuserObject_st *next; /* of those whose destructor is due */
};

/* References of an instance that is gone while its work is not. */
struct leaving {
    struct sim_clock after;
    struct sim_holdings holdings;
    struct leaving *next;
};

static struct CUuserObject_st *due; /* guarded by the lock */
static struct leaving *leaving;
static atomic_bool something; /* in either list: to be looked at without the lock */

static void put(CUuserObject object, unsigned count)
{
    object->references -= count;
    if (object->references)
        return;
    sim_handle_remove(object);
    object->next = due;
    due = object;
    atomic_store(&something, true);
}

static void hold(struct sim_holdings *holdings, CUuserObject object, unsigned count)
{
    for (unsigned i = 0; i < holdings->count; i++)
        if (holdings->at[i].object == object) {
            holdings->at[i].count += count;
            return;
        }
    holdings->at = sim_grow(holdings->at, (holdings->count + 1) * sizeof(*holdings->at));
    holdings->at[holdings->count++] = (struct sim_holding){object, count};
}

void sim_userobject_share(struct sim_holdings *to, const struct sim_holdings *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        from->at[i].object->references++;
        hold(to, from->at[i].object, 1);
    }
}

static void put_all(struct sim_holdings *holdings)
{
    for (unsigned i = 0; i < holdings->count; i++)
        if (holdings->at[i].count)
            put(holdings->at[i].object, holdings->at[i].count);
    free(holdings->at);
    *holdings = (struct sim_holdings){0};
}

void sim_userobject_put(struct sim_holdings *holdings, const struct sim_clock *after)
{
    struct leaving *made;

    if (!after || holdings->count == 0 || sim_clock_is_done(after)) {
        put_all(holdings);
        return;
    }
    made = sim_new(sizeof(*made));
    sim_clock_merge(&made->after, after);
    made->holdings = *holdings;
    *holdings = (struct sim_holdings){0};
    made->next = leaving;
    leaving = made;
    atomic_store(&something, true);
}

static void let_leave(void)
{
    for (struct leaving **link = &leaving; *link;) {
        struct leaving *gone = *link;
        if (!sim_clock_is_done(&gone->after)) {
            link = &gone->next;
            continue;
        }
        *link = gone->next;
        put_all(&gone->holdings);
        sim_clock_clear(&gone->after);
        free(gone);
    }
}

void sim_userobject_drain(void)
{
    struct sim_thread *me = sim_self();
    struct CUuserObject_st *list;

    if (!atomic_load(&something) || me->in_host_function)
        return;
    sim_lock();
    let_leave();
    list = due;
    due = NULL;
    atomic_store(&something, leaving != NULL);
    sim_unlock();
    while (list) {
        struct CUuserObject_st *object = list;
        list = object->next;
        me->in_host_function = true;
        object->destroy(object->data);
        me->in_host_function = false;
        free(object);
    }
}

/* ---- calls ---- */

static int create(
        CUuserObject *ret_object, void *data, CUhostFn destroy, unsigned count, unsigned flags)
{
    CUuserObject object;

    if (!ret_object || !destroy || count == 0 || count > INT32_MAX
            || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    object = sim_new(sizeof(*object));
    *object = (struct CUuserObject_st){.destroy = destroy, .data = data, .references = count};
    sim_handle_add(object, SIM_KIND_USER_OBJECT);
    *ret_object = object;
    return 0;
}

static int change(CUuserObject object, unsigned count, bool retain)
{
    if (!sim_handle_is(object, SIM_KIND_USER_OBJECT) || count == 0 || count > INT32_MAX
            || (!retain && count > object->references))
        return CUDA_ERROR_INVALID_VALUE;
    if (retain)
        object->references += count;
    else
        put(object, count);
    return 0;
}

static int graph_retain(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !sim_handle_is(object, SIM_KIND_USER_OBJECT)
            || count == 0 || count > INT32_MAX || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE
            || (flags && count > object->references))
        return CUDA_ERROR_INVALID_VALUE;
    if (!flags) /* else the caller's references are the graph's from now on */
        object->references += count;
    hold(&graph->holdings, object, count);
    return 0;
}

static int graph_release(CUgraph graph, CUuserObject object, unsigned count)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !sim_handle_is(object, SIM_KIND_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < graph->holdings.count; i++) {
        struct sim_holding *holding = &graph->holdings.at[i];
        if (holding->object != object || holding->count < count || count == 0)
            continue;
        holding->count -= count;
        if (holding->count == 0)
            *holding = graph->holdings.at[--graph->holdings.count];
        put(object, count);
        return 0;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

#define OBJECT_CALL(name, params, body)                    \
    CUresult name params                                   \
    {                                                      \
        struct sim_call call;                              \
        int r = sim_enter(&call, __func__, SIM_NEED_INIT); \
        return sim_leave(&call, r ? r : (body));           \
    }
OBJECT_CALL(cuUserObjectCreate,
        (CUuserObject * ret_object, void *data, CUhostFn destroy, unsigned int count,
                unsigned int flags),
        create(ret_object, data, destroy, count, flags))
OBJECT_CALL(
        cuUserObjectRetain, (CUuserObject object, unsigned int count), change(object, count, true))
OBJECT_CALL(cuUserObjectRelease, (CUuserObject object, unsigned int count),
        change(object, count, false))
OBJECT_CALL(cuGraphRetainUserObject,
        (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags),
        graph_retain(graph, object, count, flags))
OBJECT_CALL(cuGraphReleaseUserObject, (CUgraph graph, CUuserObject object, unsigned int count),
        graph_release(graph, object, count))

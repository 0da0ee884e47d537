/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_capture.h"
#include "tests/sim/sim_context.h"
#include "tests/sim/sim_copy.h"
#include "tests/sim/sim_graph_parts.h"
#include "tests/sim/sim_graphmem.h"
#include "tests/sim/sim_launch.h"
#include "tests/sim/sim_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_id = 1;
static uint64_t visit;

void sim_graph_memory_put(struct sim_node_memory *memory)
{
    if (!memory || --memory->references)
        return;
    sim_graphmem_orphan(memory->piece);
    free(memory);
}

/* ---- graphs and nodes ---- */

CUgraph sim_graph_new(void)
{
    CUgraph graph = sim_new(sizeof(*graph));

    graph->id = next_id++;
    sim_handle_add(graph, SIM_KIND_GRAPH);
    return graph;
}

static void node_free(CUgraphNode node)
{
    if (node->op)
        sim_op_free(node->op);
    if (node->child)
        sim_graph_free(node->child);
    sim_graph_memory_put(node->memory);
    sim_handle_remove(node);
    free(node->shown);
    free(node->deps);
    free(node);
}

void sim_graph_free(CUgraph graph)
{
    for (unsigned i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    sim_userobject_put(&graph->holdings, NULL);
    sim_handle_remove(graph);
    free(graph->nodes);
    free(graph);
}

CUgraphNode sim_graph_node_add(
        CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = sim_new(sizeof(*node));

    node->graph = graph;
    node->type = type;
    node->id = next_id++;
    if (count) {
        node->deps = sim_new(count * sizeof(CUgraphNode));
        memcpy(node->deps, deps, count * sizeof(CUgraphNode));
        node->deps_count = count;
    }
    graph->nodes = sim_grow(graph->nodes, (graph->count + 1) * sizeof(CUgraphNode));
    graph->nodes[graph->count++] = node;
    sim_handle_add(node, SIM_KIND_NODE);
    return node;
}

static CUgraphNodeType type_of(const struct sim_op *op)
{
    if (!op)
        return CU_GRAPH_NODE_TYPE_EMPTY;
    if (op->host)
        return CU_GRAPH_NODE_TYPE_HOST;
    if (sim_launch_is(op))
        return CU_GRAPH_NODE_TYPE_KERNEL;
    if (sim_stream_is_batch(op))
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    return sim_copy_is_set(op) ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY;
}

CUgraphNode sim_graph_add_operation(
        CUgraph graph, struct sim_op *op, const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = sim_graph_node_add(graph, type_of(op), deps, count);

    node->op = op;
    if (op)
        op->generation = sim_oracle_generation();
    return node;
}

CUgraphNode sim_graph_add_event(CUgraph graph, CUgraphNodeType type, struct CUevent_st *event,
        const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = sim_graph_node_add(graph, type, deps, count);

    node->event = event;
    return node;
}

CUgraphNode sim_graph_add_child(CUgraph graph, CUgraph child, const CUgraphNode *deps, size_t count)
{
    CUgraphNode node = sim_graph_node_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, deps, count);

    child->embedded = true;
    node->child = child;
    return node;
}

int sim_graph_check_deps(CUgraph graph, const CUgraphNode *deps, size_t count)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    visit++;
    for (size_t i = 0; i < count; i++) {
        if (!sim_handle_is(deps[i], SIM_KIND_NODE) || deps[i]->graph != graph
                || deps[i]->visit == visit)
            return CUDA_ERROR_INVALID_VALUE;
        deps[i]->visit = visit;
    }
    return 0;
}

/* ---- walks ---- */

static bool reach(CUgraphNode node, CUgraphNode from)
{
    if (from == node)
        return true;
    if (from->visit == visit)
        return false;
    from->visit = visit;
    for (size_t i = 0; i < from->deps_count; i++)
        if (reach(node, from->deps[i]))
            return true;
    return false;
}

bool sim_graph_comes_before(CUgraphNode node, const CUgraphNode *after, size_t count)
{
    visit++;
    for (size_t i = 0; i < count; i++)
        if (reach(node, after[i]))
            return true;
    return false;
}

/* Of the nodes whose dependencies are all placed the one that was made first, again and again. */
bool sim_graph_sort(CUgraph graph, CUgraphNode **ret_nodes)
{
    CUgraphNode *sorted = sim_new((graph->count + 1) * sizeof(CUgraphNode));
    unsigned placed = 0, first = 0;

    visit++;
    while (placed < graph->count) {
        unsigned i = first;
        for (; i < graph->count; i++) {
            CUgraphNode node = graph->nodes[i];
            size_t ready = 0;
            if (node->visit == visit)
                continue;
            while (ready < node->deps_count && node->deps[ready]->visit == visit)
                ready++;
            if (ready == node->deps_count)
                break;
        }
        if (i == graph->count) {
            free(sorted);
            return false;
        }
        graph->nodes[i]->visit = visit;
        sorted[placed++] = graph->nodes[i];
        while (first < graph->count && graph->nodes[first]->visit == visit)
            first++;
    }
    *ret_nodes = sorted;
    return true;
}

/* ---- copies ---- */

/* Such a graph is not copied, and nothing is taken out of it. */
static bool has_memory(CUgraph graph)
{
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
                || graph->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return true;
    return false;
}

CUgraph sim_graph_copy(CUgraph graph)
{
    CUgraph copy;

    if (has_memory(graph))
        return NULL;
    copy = sim_graph_new();
    copy->original = graph->id;
    sim_userobject_share(&copy->holdings, &graph->holdings);
    for (unsigned i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        CUgraphNode made = sim_graph_node_add(copy, node->type, node->deps, node->deps_count);
        node->index = i;
        made->original = node->id;
        made->event = node->event;
        made->op = node->op ? sim_op_clone(node->op) : NULL;
        if (node->child) {
            made->child = sim_graph_copy(node->child);
            made->child->embedded = true;
        }
    }
    for (unsigned i = 0; i < graph->count; i++)
        for (size_t k = 0; k < copy->nodes[i]->deps_count; k++)
            copy->nodes[i]->deps[k] = copy->nodes[copy->nodes[i]->deps[k]->index];
    return copy;
}

CUresult cuGraphClone(CUgraph *ret_graph, CUgraph graph)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_graph || !sim_handle_is(graph, SIM_KIND_GRAPH)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        CUgraph copy = sim_graph_copy(graph);
        if (copy)
            *ret_graph = copy;
        else
            r = CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_leave(&call, r);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *ret_node, CUgraphNode node, CUgraph clone)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    CUgraphNode found = NULL;

    if (r == 0
            && (!ret_node || !sim_handle_is(node, SIM_KIND_NODE)
                    || !sim_handle_is(clone, SIM_KIND_GRAPH)))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < clone->count; i++)
        if (clone->nodes[i]->original == node->id)
            found = clone->nodes[i];
    if (r == 0 && !found)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_node = found;
    return sim_leave(&call, r);
}

/* ---- making and taking apart ---- */

CUresult cuGraphCreate(CUgraph *ret_graph, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_graph || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_graph = sim_graph_new();
    return sim_leave(&call, r);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!sim_handle_is(graph, SIM_KIND_GRAPH) || graph->embedded))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        sim_graph_free(graph);
    return sim_leave(&call, r);
}

static bool remove_dep(CUgraphNode node, CUgraphNode dep)
{
    for (size_t i = 0; i < node->deps_count; i++)
        if (node->deps[i] == dep) {
            node->deps[i] = node->deps[--node->deps_count];
            return true;
        }
    return false;
}

/* Its edges go with it. From a graph with memory nodes nothing is taken away, as CUDA has it. */
static int destroy_node(CUgraphNode node)
{
    CUgraph graph;

    if (!sim_handle_is(node, SIM_KIND_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    graph = node->graph;
    if (has_memory(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    unsigned kept = 0;
    for (unsigned i = 0; i < graph->count; i++) {
        if (graph->nodes[i] == node)
            continue;
        (void)remove_dep(graph->nodes[i], node);
        graph->nodes[kept++] = graph->nodes[i];
    }
    graph->count = kept;
    node_free(node);
    return 0;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy_node(node);
    return sim_leave(&call, r);
}

/* ---- edges ---- */

static bool has_dep(CUgraphNode node, CUgraphNode dep)
{
    for (size_t i = 0; i < node->deps_count; i++)
        if (node->deps[i] == dep)
            return true;
    return false;
}

/* Whether all edges exist (`wanted`), or none of them does. */
static int check_edges(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool wanted)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!sim_handle_is(from[i], SIM_KIND_NODE) || !sim_handle_is(to[i], SIM_KIND_NODE)
                || from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i]
                || has_dep(to[i], from[i]) != wanted)
            return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

static int add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    int r = check_edges(graph, from, to, count, false);

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (has_dep(to[i], from[i]))
            return CUDA_ERROR_INVALID_VALUE; /* named twice */
        to[i]->deps = sim_grow(to[i]->deps, (to[i]->deps_count + 1) * sizeof(CUgraphNode));
        to[i]->deps[to[i]->deps_count++] = from[i];
    }
    return r;
}

static int remove_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    int r = check_edges(graph, from, to, count, true);

    if (r == 0 && count && has_memory(graph))
        r = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!remove_dep(to[i], from[i]))
            r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

/* Edges with ports and programmatic launches mean more than an order. */
static bool are_plain(const CUgraphEdgeData *edges, size_t count)
{
    static const CUgraphEdgeData plain = {0};

    for (size_t i = 0; edges && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
            return false;
    return true;
}

CUresult cuGraphAddDependencies(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = add_edges(graph, from, to, count);
    return sim_leave(&call, r);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edges, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !are_plain(edges, count))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == 0)
        r = add_edges(graph, from, to, count);
    return sim_leave(&call, r);
}

CUresult cuGraphRemoveDependencies(
        CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = remove_edges(graph, from, to, count);
    return sim_leave(&call, r);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edges, size_t count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && !are_plain(edges, count))
        r = CUDA_ERROR_INVALID_VALUE; /* there is no such edge */
    if (r == 0)
        r = remove_edges(graph, from, to, count);
    return sim_leave(&call, r);
}

/* ---- questions ---- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *ret_type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_type || !sim_handle_is(node, SIM_KIND_NODE)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_type = node->type;
    return sim_leave(&call, r);
}

/*
 * An answer that is a list: the caller's arrays, which may not be there, and how much they hold.
 * Without an array only the number is asked for; a larger array is filled up with NULL.
 */
struct list {
    CUgraphNode *first, *second;
    CUgraphEdgeData *edges;
    size_t room, found;
};

static void list_put(struct list *list, CUgraphNode first, CUgraphNode second)
{
    size_t at = list->found++;

    if (at >= list->room)
        return;
    if (list->first)
        list->first[at] = first;
    if (list->second)
        list->second[at] = second;
    if (list->edges)
        memset(&list->edges[at], 0, sizeof(list->edges[at]));
}

static void list_end(const struct list *list, size_t *count)
{
    for (size_t i = list->found; i < list->room; i++) {
        if (list->first)
            list->first[i] = NULL;
        if (list->second)
            list->second[i] = NULL;
    }
    if ((!list->first && !list->second) || *count > list->found)
        *count = list->found;
}

static int list_nodes(CUgraph graph, bool roots, CUgraphNode *ret_nodes, size_t *count)
{
    struct list list = {.first = ret_nodes};

    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.room = ret_nodes ? *count : 0;
    for (unsigned i = 0; i < graph->count; i++)
        if (!roots || graph->nodes[i]->deps_count == 0)
            list_put(&list, graph->nodes[i], NULL);
    list_end(&list, count);
    return 0;
}

static int list_edges(CUgraph graph, struct list list, size_t *count)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !count || !list.first != !list.second)
        return CUDA_ERROR_INVALID_VALUE;
    list.room = list.first ? *count : 0;
    for (unsigned i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->deps_count; k++)
            list_put(&list, graph->nodes[i]->deps[k], graph->nodes[i]);
    list_end(&list, count);
    return 0;
}

/* What the node depends on, or what depends on it. */
static int list_neighbours(CUgraphNode node, bool dependents, struct list list, size_t *count)
{
    if (!sim_handle_is(node, SIM_KIND_NODE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.room = list.first ? *count : 0;
    for (size_t i = 0; !dependents && i < node->deps_count; i++)
        list_put(&list, node->deps[i], NULL);
    for (unsigned i = 0; dependents && i < node->graph->count; i++)
        if (has_dep(node->graph->nodes[i], node))
            list_put(&list, node->graph->nodes[i], NULL);
    list_end(&list, count);
    return 0;
}

#define QUESTION(name, params, answer)                     \
    CUresult name params                                   \
    {                                                      \
        struct sim_call call;                              \
        int r = sim_enter(&call, __func__, SIM_NEED_INIT); \
        return sim_leave(&call, r ? r : (answer));         \
    }
QUESTION(cuGraphGetNodes, (CUgraph graph, CUgraphNode *ret_nodes, size_t *count),
        list_nodes(graph, false, ret_nodes, count))
QUESTION(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *ret_nodes, size_t *count),
        list_nodes(graph, true, ret_nodes, count))
QUESTION(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
        list_edges(graph, (struct list){.first = from, .second = to}, count))
QUESTION(cuGraphGetEdges_v2,
        (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count),
        list_edges(graph, (struct list){.first = from, .second = to, .edges = edges}, count))
QUESTION(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *ret_nodes, size_t *count),
        list_neighbours(node, false, (struct list){.first = ret_nodes}, count))
QUESTION(cuGraphNodeGetDependencies_v2,
        (CUgraphNode node, CUgraphNode *ret_nodes, CUgraphEdgeData *edges, size_t *count),
        list_neighbours(node, false, (struct list){.first = ret_nodes, .edges = edges}, count))
QUESTION(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode *ret_nodes, size_t *count),
        list_neighbours(node, true, (struct list){.first = ret_nodes}, count))
QUESTION(cuGraphNodeGetDependentNodes_v2,
        (CUgraphNode node, CUgraphNode *ret_nodes, CUgraphEdgeData *edges, size_t *count),
        list_neighbours(node, true, (struct list){.first = ret_nodes, .edges = edges}, count))

static int print_dot(CUgraph graph, const char *path)
{
    FILE *file;

    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !path)
        return CUDA_ERROR_INVALID_VALUE;
    file = fopen(path, "we");
    if (!file)
        return CUDA_ERROR_OPERATING_SYSTEM;
    (void)fprintf(file, "digraph graph_%llu {\n", (unsigned long long)graph->id);
    for (unsigned i = 0; i < graph->count; i++) {
        const struct CUgraphNode_st *node = graph->nodes[i];
        (void)fprintf(file, "  n%llu [label=\"%s\"];\n", (unsigned long long)node->id,
                node->op ? node->op->name : "node");
        for (size_t k = 0; k < node->deps_count; k++)
            (void)fprintf(file, "  n%llu -> n%llu;\n", (unsigned long long)node->deps[k]->id,
                    (unsigned long long)node->id);
    }
    (void)fprintf(file, "}\n");
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : 0;
}

QUESTION(cuGraphDebugDotPrint, (CUgraph graph, const char *path, unsigned int flags),
        ((void)flags, print_dot(graph, path)))

/* Conditional nodes choose on the device; there is none that could. */
QUESTION(cuGraphConditionalHandleCreate,
        (CUgraphConditionalHandle * ret_handle, CUgraph graph, CUcontext ctx, unsigned int preset,
                unsigned int flags),
        ((void)ctx, (void)preset, (void)flags,
                !ret_handle || !sim_handle_is(graph, SIM_KIND_GRAPH) ? CUDA_ERROR_INVALID_VALUE
                                                                     : CUDA_ERROR_NOT_SUPPORTED))

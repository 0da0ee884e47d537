/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_edges.h"
#include "tests/sim/graph/sim_graph_parts.h"
#include "tests/sim/graph/sim_graphmem.h"
#include "tests/sim/kernel/sim_launch.h"
#include "tests/sim/memory/sim_copy.h"
#include "tests/sim/stream/sim_oracle.h"

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
    free(node->edges);
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
        node->edges = sim_new(count * sizeof(CUgraphEdgeData));
        node->deps_count = count;
    }
    graph->nodes = sim_grow(graph->nodes, (graph->count + 1) * sizeof(CUgraphNode));
    graph->nodes[graph->count++] = node;
    sim_handle_add(node, SIM_KIND_NODE);
    return node;
}

void sim_graph_node_edges(CUgraphNode node, const CUgraphEdgeData *edges)
{
    for (size_t i = 0; edges && i < node->deps_count; i++)
        node->edges[i] = sim_edges_towards(node->type, edges[i]);
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

/* Such a graph is not copied, and nothing is taken out of it. A child graph that was moved may have memory, too. */
static bool has_memory(CUgraph graph)
{
    for (unsigned i = 0; i < graph->count; i++) {
        const struct CUgraphNode_st *node = graph->nodes[i];

        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE
                || (node->child && has_memory(node->child)))
            return true;
    }
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
        sim_graph_node_edges(made, node->edges);
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
            node->edges[i] = node->edges[node->deps_count];
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

/* The data of the edge between the two; NULL: there is none. */
static const CUgraphEdgeData *edge_between(CUgraphNode from, CUgraphNode to)
{
    for (size_t i = 0; i < to->deps_count; i++)
        if (to->deps[i] == from)
            return &to->edges[i];
    return NULL;
}

/* Edges that a call names. */
struct edges {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *data; /* NULL: all are plain */
    size_t count;
};

static CUgraphEdgeData data_of(const struct edges *edges, size_t i)
{
    return edges->data ? edges->data[i] : (CUgraphEdgeData){0};
}

static int check_ends(CUgraph graph, CUgraphNode from, CUgraphNode to)
{
    return sim_handle_is(from, SIM_KIND_NODE) && sim_handle_is(to, SIM_KIND_NODE)
                    && from->graph == graph && to->graph == graph && from != to
            ? 0
            : CUDA_ERROR_INVALID_VALUE;
}

/* Whether all edges exist with their data (`wanted`), or none of them does. */
static int check_edges(CUgraph graph, const struct edges *edges, bool wanted)
{
    int r = sim_handle_is(graph, SIM_KIND_GRAPH) && (!edges->count || (edges->from && edges->to))
            ? 0
            : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; r == 0 && i < edges->count; i++) {
        CUgraphNode from = edges->from[i], to = edges->to[i];
        CUgraphEdgeData data = data_of(edges, i);
        const CUgraphEdgeData *found;

        r = check_ends(graph, from, to);
        if (r)
            return r;
        found = edge_between(from, to);
        if (wanted != (found != NULL) || (found && memcmp(found, &data, sizeof(data)) != 0))
            return CUDA_ERROR_INVALID_VALUE;
        r = wanted ? 0 : sim_edges_check(from, &to->type, &data);
    }
    return r;
}

static int add_edges(CUgraph graph, struct edges edges)
{
    int r = check_edges(graph, &edges, false);

    for (size_t i = 0; r == 0 && i < edges.count; i++) {
        CUgraphNode to = edges.to[i];

        if (edge_between(edges.from[i], to))
            return CUDA_ERROR_INVALID_VALUE; /* named twice */
        to->deps = sim_grow(to->deps, (to->deps_count + 1) * sizeof(*to->deps));
        to->edges = sim_grow(to->edges, (to->deps_count + 1) * sizeof(*to->edges));
        to->edges[to->deps_count] = data_of(&edges, i);
        to->deps[to->deps_count++] = edges.from[i];
    }
    return r;
}

static int remove_edges(CUgraph graph, struct edges edges)
{
    int r = check_edges(graph, &edges, true);

    if (r == 0 && edges.count && has_memory(graph))
        r = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; r == 0 && i < edges.count; i++)
        if (!remove_dep(edges.to[i], edges.from[i]))
            r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

#define EDGES_CALL(name, params, body)                     \
    CUresult name params                                   \
    {                                                      \
        struct sim_call call;                              \
        int r = sim_enter(&call, __func__, SIM_NEED_INIT); \
        return sim_leave(&call, r ? r : (body));           \
    }
EDGES_CALL(cuGraphAddDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        add_edges(graph, (struct edges){from, to, NULL, count}))
EDGES_CALL(cuGraphAddDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                const CUgraphEdgeData *edges, size_t count),
        add_edges(graph, (struct edges){from, to, edges, count}))
EDGES_CALL(cuGraphRemoveDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        remove_edges(graph, (struct edges){from, to, NULL, count}))
EDGES_CALL(cuGraphRemoveDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                const CUgraphEdgeData *edges, size_t count),
        remove_edges(graph, (struct edges){from, to, edges, count}))

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
 * Without an array only the number is asked for; a larger array is filled up with NULL. Where edges are asked for
 * without their data, these must be plain.
 */
struct list {
    CUgraphNode *first, *second;
    CUgraphEdgeData *edges;
    size_t room, found;
    bool is_lossy;
};

static void list_put(
        struct list *list, CUgraphNode first, CUgraphNode second, const CUgraphEdgeData *edge)
{
    size_t at = list->found++;

    if (list->first && !list->edges && !sim_edges_are_plain(edge, 1))
        list->is_lossy = true;
    if (at >= list->room)
        return;
    if (list->first)
        list->first[at] = first;
    if (list->second)
        list->second[at] = second;
    if (list->edges)
        list->edges[at] = *edge;
}

/* 0, or the code of a question that would leave something out. */
static int list_end(const struct list *list, size_t *count)
{
    if (list->is_lossy)
        return CUDA_ERROR_LOSSY_QUERY;
    for (size_t i = list->found; i < list->room; i++) {
        if (list->first)
            list->first[i] = NULL;
        if (list->second)
            list->second[i] = NULL;
    }
    if ((!list->first && !list->second) || *count > list->found)
        *count = list->found;
    return 0;
}

static int list_nodes(CUgraph graph, bool roots, CUgraphNode *ret_nodes, size_t *count)
{
    struct list list = {.first = ret_nodes};

    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.room = ret_nodes ? *count : 0;
    for (unsigned i = 0; i < graph->count; i++)
        if (!roots || graph->nodes[i]->deps_count == 0)
            list_put(&list, graph->nodes[i], NULL, NULL);
    return list_end(&list, count);
}

static int list_edges(CUgraph graph, struct list list, size_t *count)
{
    if (!sim_handle_is(graph, SIM_KIND_GRAPH) || !count || !list.first != !list.second
            || (list.edges && !list.first))
        return CUDA_ERROR_INVALID_VALUE;
    list.room = list.first ? *count : 0;
    for (unsigned i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->deps_count; k++)
            list_put(&list, graph->nodes[i]->deps[k], graph->nodes[i], &graph->nodes[i]->edges[k]);
    return list_end(&list, count);
}

/* What the node depends on, or what depends on it. */
static int list_neighbours(CUgraphNode node, bool dependents, struct list list, size_t *count)
{
    if (!sim_handle_is(node, SIM_KIND_NODE) || !count || (list.edges && !list.first))
        return CUDA_ERROR_INVALID_VALUE;
    list.room = list.first ? *count : 0;
    for (size_t i = 0; !dependents && i < node->deps_count; i++)
        list_put(&list, node->deps[i], NULL, &node->edges[i]);
    for (unsigned i = 0; dependents && i < node->graph->count; i++) {
        const CUgraphEdgeData *edge = edge_between(node, node->graph->nodes[i]);

        if (edge)
            list_put(&list, node->graph->nodes[i], NULL, edge);
    }
    return list_end(&list, count);
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

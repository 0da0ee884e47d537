/* SPDX-License-Identifier: MIT */
/* covers: graphkernels.c */
/* Names of the kernels of graphs where there is no memory for them. */
#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/base/msg.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/graphkernels.h"
#include "preload/graph/kernelnames.h"
#include "tests/check.h"
#include "tracker/capture/capture.h"

#include <errno.h>
#include <stdarg.h>

enum {
    NODES = 100,
};

void *resolve_real[SLOT_COUNT];
static bool is_full; /* the table of instances */
static char warned[200];
static unsigned warnings, notes;

int __real_table_put(struct table *table, uint64_t key, void *to);
int __wrap_table_put(struct table *table, uint64_t key, void *to);

int __wrap_table_put(struct table *table, uint64_t key, void *to)
{
    return is_full ? -ENOMEM : __real_table_put(table, key, to);
}

bool kernelnames_are_wanted(void)
{
    return true;
}

uint32_t kernelnames_of(CUfunction function, bool *ret_is_known)
{
    *ret_is_known = true;
    return (uint32_t)(uintptr_t)function;
}

void msg_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(warned, sizeof warned, format, args);
    va_end(args);
    warnings++;
}

int capture_note(unsigned severity, const char *text)
{
    CHECK_EQ(severity, 1);
    CHECK_STR_EQ(text, warned);
    notes++;
    return 0;
}

void session_report(int r)
{
    CHECK_EQ(r, 0);
}

/* A graph of kernels, whose names are the numbers of their nodes. */
/* NOLINTBEGIN(performance-no-int-to-ptr): handles are numbers here */
#define GRAPH ((CUgraph)(uintptr_t)0x10)
#define EXEC  ((CUgraphExec)(uintptr_t)0x20)
#define OTHER ((CUgraphExec)(uintptr_t)0x30)

/* Others of a few nodes each, whose kinds are letters: a kernel, a child graph and what is in it, anything else. */
static const char *const kinds[] = {"kck", "kk", "kxk", "xx", ""};
#define SMALL(which)     ((CUgraph)(uintptr_t)(0x1000 * ((which) + 1)))
#define NODE(which, i)   ((CUgraphNode)(uintptr_t)(0x1000 * ((which) + 1) + (i)))
#define FUNCTION(number) ((CUfunction)(uintptr_t)(number))

static char kind_of(CUgraphNode node)
{
    uintptr_t at = (uintptr_t)node;

    return at < 0x1000 ? 'k' : kinds[at / 0x1000 - 1][at % 0x1000];
}

static CUresult get_small_nodes(unsigned which, CUgraphNode *ret_nodes, size_t *io_count)
{
    *io_count = strlen(kinds[which]);
    for (uintptr_t i = 0; ret_nodes && i < *io_count; i++)
        ret_nodes[i] = NODE(which, i);
    return CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *io_count)
{
    if (graph != GRAPH)
        return get_small_nodes((unsigned)((uintptr_t)graph / 0x1000 - 1), ret_nodes, io_count);
    *io_count = NODES;
    for (uintptr_t i = 0; ret_nodes && i < NODES; i++)
        ret_nodes[i] = (CUgraphNode)(i + 1);
    return CUDA_SUCCESS;
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *ret_type)
{
    char kind = kind_of(node);

    *ret_type = kind == 'k' ? CU_GRAPH_NODE_TYPE_KERNEL
            : kind == 'c'   ? CU_GRAPH_NODE_TYPE_GRAPH
                            : CU_GRAPH_NODE_TYPE_EMPTY;
    return CUDA_SUCCESS;
}

static CUresult get_child(CUgraphNode node, CUgraph *ret_child)
{
    CHECK_EQ(kind_of(node), 'c');
    *ret_child = SMALL(1);
    return CUDA_SUCCESS;
}

static CUresult get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
    ret_params->func = (CUfunction)(void *)node;
    return CUDA_SUCCESS;
}
/* NOLINTEND(performance-no-int-to-ptr) */

static void start(void)
{
    resolve_real[SLOT_cuGraphGetNodes] = (void *)(uintptr_t)get_nodes;
    resolve_real[SLOT_cuGraphNodeGetType] = (void *)(uintptr_t)get_type;
    resolve_real[SLOT_cuGraphChildGraphNodeGetGraph] = (void *)(uintptr_t)get_child;
    resolve_real[SLOT_cuGraphKernelNodeGetParams_v2] = (void *)(uintptr_t)get_params;
}

static size_t count_of(CUgraphExec exec)
{
    uint32_t names[NODES + 1];

    return graphkernels_names(exec, 0, names, NODES + 1);
}

TEST(an_instance_has_the_names_of_its_kernels_until_it_is_gone)
{
    start();
    graphkernels_made(EXEC, GRAPH);
    CHECK_EQ(count_of(EXEC), NODES);
    graphkernels_move(EXEC, OTHER);
    CHECK_EQ(count_of(EXEC), 0);
    CHECK_EQ(count_of(OTHER), NODES);
    graphkernels_gone(OTHER);
    CHECK_EQ(count_of(OTHER), 0);
    CHECK_EQ(warnings, 0);
}

/* The names of an instance are these numbers, and no more; also where they are asked for one by one. */
static void names_are(CUgraphExec exec, const uint32_t *expected, size_t count)
{
    uint32_t names[10];
    uint32_t name;

    CHECK_EQ(graphkernels_names(exec, 0, names, 10), count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(names[i], expected[i]);
        CHECK_EQ(graphkernels_names(exec, i, &name, 1), 1);
        CHECK_EQ(name, expected[i]);
    }
    CHECK_EQ(graphkernels_names(exec, count, &name, 1), 0);
}
#define NAMES_ARE(exec, ...)                         \
    names_are(exec, (const uint32_t[]){__VA_ARGS__}, \
            sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

TEST(what_is_in_a_child_comes_in_its_place)
{
    start();
    graphkernels_made(EXEC, SMALL(0));
    NAMES_ARE(EXEC, 0x1000, 0x2000, 0x2001, 0x1002);
    graphkernels_made(OTHER, SMALL(2));
    NAMES_ARE(OTHER, 0x3000, 0x3002);
    graphkernels_made(OTHER, SMALL(3)); /* no kernels */
    CHECK_EQ(count_of(OTHER), 0);
    graphkernels_made(OTHER, SMALL(4));
    CHECK_EQ(count_of(OTHER), 0);
    NAMES_ARE(EXEC, 0x1000, 0x2000, 0x2001, 0x1002);
}

TEST(a_node_that_is_changed_or_switched_off_is_another_name_or_none)
{
    start();
    graphkernels_made(EXEC, SMALL(0));
    graphkernels_set(EXEC, NODE(0, 2), FUNCTION(7));
    NAMES_ARE(EXEC, 0x1000, 0x2000, 0x2001, 7);
    graphkernels_set(EXEC, NODE(0, 0), NULL); /* not a kernel */
    graphkernels_set(EXEC, NODE(2, 0), FUNCTION(8));
    graphkernels_set(OTHER, NODE(0, 0), FUNCTION(8));
    NAMES_ARE(EXEC, 0x1000, 0x2000, 0x2001, 7);
    graphkernels_set_child(EXEC, NODE(0, 1), SMALL(2));
    NAMES_ARE(EXEC, 0x1000, 0x3000, 0x3002, 7);
    graphkernels_switched(EXEC, NODE(0, 0), false);
    NAMES_ARE(EXEC, 0x3000, 0x3002, 7);
    /* calls go on to name the nodes of the first graph, and one that is off stays off */
    graphkernels_updated(EXEC, SMALL(0));
    NAMES_ARE(EXEC, 0x2000, 0x2001, 0x1002);
    graphkernels_switched(EXEC, NODE(0, 0), true);
    NAMES_ARE(EXEC, 0x1000, 0x2000, 0x2001, 0x1002);
    graphkernels_updated(EXEC, SMALL(2));
    NAMES_ARE(EXEC, 0x3000, 0x3002);
    graphkernels_set(EXEC, NODE(0, 0), FUNCTION(9));
    NAMES_ARE(EXEC, 9, 0x3002);
}

/* What was read of the graph is given back, and it is said once. */
TEST(what_there_is_no_room_for_is_forgotten_and_said)
{
    uint64_t before;

    start();
    is_full = true;
    graphkernels_made(EXEC, GRAPH);
    before = meta_bytes();
    for (int i = 0; i < 1000; i++) {
        graphkernels_made(EXEC, GRAPH);
        graphkernels_updated(EXEC, GRAPH);
    }
    CHECK_EQ(meta_bytes(), before);
    CHECK_EQ(count_of(EXEC), 0);
    CHECK_EQ(warnings, 1);
    CHECK_EQ(notes, 1);
    CHECK_STR_EQ(warned, "kernels of a graph are no events: there was no memory to note them");
}

/* SPDX-License-Identifier: MIT */
/* Names of the kernels of graphs where there is no memory for them. */
#include "alloc/meta.h"
#include "alloc/table.h"
#include "preload/dispatch.h"
#include "preload/graphkernels.h"
#include "preload/launches.h"
#include "preload/msg.h"
#include "preload/resolve.h"
#include "tests/check.h"
#include "tracker/capture.h"

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

bool launches_names_kernels(void)
{
    return true;
}

uint32_t launches_name(CUfunction function, bool *ret_is_known)
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

void dispatch_told(int r)
{
    CHECK_EQ(r, 0);
}

/* A graph of kernels, whose names are the numbers of their nodes. */
/* NOLINTBEGIN(performance-no-int-to-ptr): handles are numbers here */
#define GRAPH ((CUgraph)(uintptr_t)0x10)
#define EXEC  ((CUgraphExec)(uintptr_t)0x20)
#define OTHER ((CUgraphExec)(uintptr_t)0x30)

static CUresult get_nodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *io_count)
{
    CHECK(graph == GRAPH);
    *io_count = NODES;
    for (uintptr_t i = 0; ret_nodes && i < NODES; i++)
        ret_nodes[i] = (CUgraphNode)(i + 1);
    return CUDA_SUCCESS;
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *ret_type)
{
    (void)node;
    *ret_type = CU_GRAPH_NODE_TYPE_KERNEL;
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

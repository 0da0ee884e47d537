/* SPDX-License-Identifier: MIT */
/* covers: graphmem.c */
/* What launches of graphs allocate, on record: the first one is what was recorded with its node, each other one is another allocation. */
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/graph/graphmem.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

#include "alloc/base/meta.h"

#include <stdarg.h>

enum {
    GRAPH = 1,
    EXEC = 2,
    OTHER = 3,
};

static char told[2048]; /* "+AT/SIZE" made, "-AT" gone */
static int inside;
static bool is_on = true;

static void tell(const char *format, ...)
{
    size_t used = strlen(told);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(told + used, sizeof told - used, format, args);
    va_end(args);
}

static void are_told(const char *expected)
{
    CHECK_STR_EQ(told, expected);
    told[0] = '\0';
}

void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int device)
{
    CHECK_EQ(memclass, device >= 0 ? MEMCLASS_GRAPH : MEMCLASS_HOST);
    tell("+%lu/%lu@%d ", (unsigned long)key, (unsigned long)size, device);
}

void dispatch_gone(uint64_t key)
{
    tell("-%lu ", (unsigned long)key);
}

bool dispatch_make_room(int result, uint64_t size, int device, struct pool_ladder *ladder)
{
    (void)ladder;
    tell("room %d %lu@%d ", result, (unsigned long)size, device);
    return true;
}

void dispatch_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder)
{
    (void)ladder;
    tell("refused %d %lu@%d ", result, (unsigned long)size, device);
}

static bool is_ended;

bool pins_capture_ended(const struct gate_capture *capture, uint64_t graph)
{
    (void)capture;
    (void)graph;
    return is_ended;
}

bool life_begin_edge(void)
{
    inside += is_on;
    return is_on;
}

void life_leave(void)
{
    inside--;
}

static bool lacks_memory;

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    return lacks_memory ? NULL : __real_meta_get(size);
}

static void launch(uint64_t exec, const char *expected)
{
    graphmem_launched(exec);
    CHECK_EQ(inside, 0);
    are_told(expected);
}

TEST(each_launch_but_the_first_is_an_allocation)
{
    graphmem_instantiated(GRAPH, EXEC); /* nothing is known yet */
    launch(EXEC, "");
    CHECK(!guard_has(GUARD_LAUNCHES));
    graphmem_allocates(GRAPH, 100, 10, 0);
    graphmem_allocates(GRAPH, 200, 20, -1);
    graphmem_instantiated(OTHER, 9); /* of a graph without memory */
    CHECK(!guard_has(GUARD_LAUNCHES));
    graphmem_instantiated(GRAPH, EXEC);
    CHECK(guard_has(GUARD_LAUNCHES));
    launch(EXEC, "");
    graphmem_freed(100);
    launch(EXEC, "+100/10@0 -200 +200/20@-1 "); /* what was not freed is freed by the launch */
    launch(EXEC, "-100 +100/10@0 -200 +200/20@-1 ");
    graphmem_freed(100);
    graphmem_freed(200);
    graphmem_freed(300); /* no node's */
    launch(EXEC, "+100/10@0 +200/20@-1 ");
    launch(OTHER, "");
    graphmem_gone(EXEC);
    launch(EXEC, "");
    graphmem_instantiated(GRAPH, EXEC);
    graphmem_gone(GRAPH); /* the instance lives on */
    launch(EXEC, "-100 +100/10@0 -200 +200/20@-1 ");
}

TEST(a_capture_that_ends_takes_the_nodes_of_a_graph_that_is_no_more)
{
    const struct gate_capture capture = {.graph = GRAPH};

    graphmem_allocates(GRAPH, 100, 10, 0);
    graphmem_capture_ended(&capture, GRAPH);
    graphmem_instantiated(GRAPH, EXEC);
    launch(EXEC, "");
    launch(EXEC, "-100 +100/10@0 ");
    graphmem_gone(EXEC);
    is_ended = true;
    graphmem_capture_ended(&capture, OTHER);
    graphmem_instantiated(GRAPH, EXEC);
    launch(EXEC, "");
    launch(EXEC, "");
}

TEST(nothing_is_told_where_kedge_is_not_on_or_calls_itself)
{
    graphmem_allocates(GRAPH, 100, 10, 0);
    graphmem_instantiated(GRAPH, EXEC);
    launch(EXEC, "");
    is_on = false;
    launch(EXEC, "");
    is_on = true;
    guard_push();
    launch(EXEC, "");
    guard_pop();
    launch(EXEC, "-100 +100/10@0 ");
}

/* What a node of the same graph frees is freed by each launch; what another graph frees, by launches that nobody looks at. */
TEST(what_a_node_frees_is_no_launchs_to_tell)
{
    for (devptr_t at = 100; at <= 400; at += 100)
        graphmem_allocates(GRAPH, at, at / 10, 0);
    graphmem_frees(GRAPH, 200); /* inside of the list, then its newest and its oldest */
    graphmem_frees(GRAPH, 400);
    graphmem_frees(GRAPH, 100);
    graphmem_frees(GRAPH, 500); /* nobody knows it */
    graphmem_instantiated(GRAPH, EXEC);
    launch(EXEC, "");
    launch(EXEC, "-300 +300/30@0 ");
    graphmem_frees(OTHER, 300);
    graphmem_freed(300);
    launch(EXEC, "");
    launch(EXEC, "");
    graphmem_frees(GRAPH, 300);
    graphmem_instantiated(GRAPH, OTHER);
    launch(OTHER, "");
    graphmem_allocates(GRAPH, 300, 31, 0); /* another node at the same address */
    graphmem_instantiated(GRAPH, 9);
    launch(9, "");
    launch(9, "-300 +300/31@0 ");
}

TEST(what_is_set_aside_comes_back_under_another_name)
{
    graphmem_move(GRAPH, OTHER);
    graphmem_allocates(GRAPH, 100, 10, 0);
    graphmem_instantiated(GRAPH, EXEC);
    graphmem_move(EXEC, 77);
    launch(EXEC, "");
    graphmem_freed(100);
    graphmem_move(EXEC, 78); /* which has nothing now */
    graphmem_move(77, EXEC);
    launch(78, "");
    launch(77, "");
    launch(EXEC, "+100/10@0 ");
}

/* More nodes than are told at a time, each once. */
TEST(a_launch_of_many_nodes_tells_each_once)
{
    static const unsigned counts[] = {31, 32, 33, 64, 65, 100};
    char expected[2048] = "";

    for (unsigned i = 0; i < 6; i++) {
        expected[0] = '\0';
        for (unsigned n = 0; n < counts[i]; n++) {
            graphmem_allocates(GRAPH, 1000 + n, 1, 0);
            (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                    "+%u/1@0 ", 1000 + n);
        }
        graphmem_instantiated(GRAPH, EXEC);
        for (unsigned n = 0; n < counts[i]; n++)
            graphmem_freed(1000 + n);
        launch(EXEC, expected);
        graphmem_gone(GRAPH);
        graphmem_gone(EXEC);
    }
}

TEST(graphs_that_come_and_go_leave_nothing)
{
    uint64_t before = 0;

    for (uint64_t round = 1; round <= 100000; round++) {
        graphmem_allocates(round, 100, 10, 0);
        graphmem_allocates(round, 200, 10, 0);
        graphmem_allocates(round, 300, 10, 0);
        graphmem_frees(round, 200);
        graphmem_instantiated(round, 1000000 + round);
        graphmem_move(1000000 + round, 5);
        graphmem_move(5, 2000000 + round);
        graphmem_gone(2000000 + round);
        graphmem_gone(round);
        before = round > 10 ? before : meta_bytes();
    }
    CHECK_EQ(meta_bytes(), before);
}

TEST(what_there_is_no_memory_for_is_not_told)
{
    graphmem_allocates(GRAPH, 100, 10, 0);
    lacks_memory = true;
    graphmem_allocates(GRAPH, 200, 10, 0);
    graphmem_instantiated(GRAPH, EXEC);
    lacks_memory = false;
    CHECK(!guard_has(GUARD_LAUNCHES));
    launch(EXEC, "");
    graphmem_allocates(0, 300, 10, 0); /* of a graph that nobody knows */
    graphmem_instantiated(GRAPH, EXEC);
    graphmem_freed(100);
    launch(EXEC, "+100/10@0 ");
}

/* ---- nodes, as they are added --------------------------------------------------------------- */

TEST(a_node_that_is_added_is_recorded_if_it_is_about_memory)
{
    const CUgraph graph = (CUgraph)(uintptr_t)GRAPH;
    CUgraphNodeParams made = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphNodeParams freed = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    CUgraphNodeParams other = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    struct pool_ladder ladder = {.waits = 0};

    made.alloc.dptr = 100;
    made.alloc.bytesize = 10;
    made.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    made.alloc.poolProps.location.id = 2;
    freed.free.dptr = 100;
    CHECK_EQ(graphmem_device(&made.alloc), 2);
    CHECK_EQ(graphmem_device(NULL), -1);
    CHECK(graphmem_wants_room(&made, CUDA_ERROR_OUT_OF_MEMORY, &ladder));
    graphmem_refused(&made, CUDA_ERROR_OUT_OF_MEMORY, &ladder);
    are_told("room 2 10@2 refused 2 10@2 ");
    CHECK(!graphmem_wants_room(&other, CUDA_ERROR_OUT_OF_MEMORY, &ladder));
    CHECK(!graphmem_wants_room(NULL, CUDA_ERROR_OUT_OF_MEMORY, &ladder));
    graphmem_refused(&freed, CUDA_ERROR_OUT_OF_MEMORY, &ladder);
    graphmem_refused(NULL, CUDA_ERROR_OUT_OF_MEMORY, &ladder);
    graphmem_added(graph, &other);
    are_told("");
    graphmem_added(graph, &made);
    are_told("+100/10@2 ");
    graphmem_instantiated(GRAPH, EXEC);
    graphmem_freed(100);
    launch(EXEC, "+100/10@2 ");
    graphmem_added(graph, &freed);
    are_told("-100 ");
    graphmem_instantiated(GRAPH, OTHER);
    graphmem_freed(100);
    launch(OTHER, "");
    made.alloc.poolProps.location.id = 0;
    graphmem_added(graph, &made);
    are_told("+100/10@0 ");
    made.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CHECK_EQ(graphmem_device(&made.alloc), -1);
    graphmem_added(graph, &made);
    are_told("+100/10@-1 ");
}

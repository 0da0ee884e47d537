/* SPDX-License-Identifier: MIT */
/*
 * Pins of graphs end with what names them (R80): whatever became of a node, a graph or a capture meanwhile, a block that the
 * program has freed is its pool's again. And what the library does not know of a capture, it asks.
 */
#include "tests/preload/capturing.h"
#include "tests/preload/client.h"
#include "tests/sim/base/sim_abi.h"

#include <dlfcn.h>

#define MB          ((size_t)1 << 20)
#define BYTES       (64 * MB)
#define ROUNDS      4
#define CU(symbol)  ((__typeof__(&symbol))client_sim(#symbol))
#define CU_OK(call) REQUIRE_EQ(call, CUDA_SUCCESS)

static CUstream stream;

static void start(void)
{
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUdeviceptr must_alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    CU_OK(cu->cuMemAlloc_v2(&ptr, size));
    return ptr;
}

static size_t used(void)
{
    size_t left, total;

    CU_OK(cu->cuMemGetInfo_v2(&left, &total));
    return total - left;
}

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr ptr)
{
    return (CUDA_MEMSET_NODE_PARAMS){
            .dst = ptr, .value = 3, .elementSize = 1, .width = BYTES, .height = 1};
}

static CUgraph new_graph(void)
{
    CUgraph graph = NULL;

    CU_OK(cu->cuGraphCreate(&graph, 0));
    return graph;
}

static CUgraphNode add_set(CUgraph graph, CUdeviceptr ptr)
{
    CUDA_MEMSET_NODE_PARAMS params = set_of(ptr);
    CUgraphNode node = NULL;

    CU_OK(CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    return node;
}

static void set_node(CUgraphNode node, CUdeviceptr ptr)
{
    CUDA_MEMSET_NODE_PARAMS params = set_of(ptr);

    CU_OK(CU(cuGraphMemsetNodeSetParams)(node, &params));
}

/* Memory that is no block of the pool. */
static CUdeviceptr foreign;

static void make_foreign(void)
{
    size_t pitch;

    CU_OK(cu->cuMemAllocPitch_v2(&foreign, &pitch, MB, BYTES / MB, 4));
}

/* ---- nodes that named nothing of the pool's -------------------------------------------------- */

enum way {
    WAY_ADDED,
    WAY_TOLD,  /* a captured node, as cuGraphGetNodes tells it */
    WAY_CLONE, /* cuGraphNodeFindInClone */
    WAY_INNER, /* of the graph of a child node */
    WAY_DEPENDENCY,
};

static CUgraph captured_set(void)
{
    CUgraph graph = NULL;

    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CU_OK(cu->cuMemsetD8Async(foreign, 1, BYTES, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraphNode only_node(CUgraph graph)
{
    CUgraphNode node = NULL;
    size_t count = 1;

    CU_OK(CU(cuGraphGetNodes)(graph, &node, &count));
    return node;
}

/* A graph and a node of it that names nothing of the pool's. */
static CUgraph make_node(enum way way, CUgraphNode *ret_node)
{
    CUgraph graph = way == WAY_TOLD ? captured_set() : new_graph();
    CUgraph other = NULL;
    size_t count = 1;

    if (way == WAY_TOLD) {
        *ret_node = only_node(graph);
        return graph;
    }
    *ret_node = add_set(graph, foreign);
    if (way == WAY_CLONE) {
        CU_OK(CU(cuGraphClone)(&other, graph));
        CU_OK(CU(cuGraphNodeFindInClone)(ret_node, *ret_node, other));
        CU_OK(cu->cuGraphDestroy(graph));
        return other;
    }
    if (way == WAY_INNER) {
        CUgraphNode child = NULL;
        CUgraph inner = NULL;

        other = new_graph();
        CU_OK(CU(cuGraphAddChildGraphNode)(&child, other, NULL, 0, graph));
        CU_OK(cu->cuGraphDestroy(graph));
        CU_OK(CU(cuGraphChildGraphNodeGetGraph)(child, &inner));
        *ret_node = only_node(inner);
        return other;
    }
    if (way == WAY_DEPENDENCY) {
        CUDA_MEMSET_NODE_PARAMS params = set_of(foreign);
        CUgraphNode next = NULL;

        CU_OK(CU(cuGraphAddMemsetNode)(&next, graph, ret_node, 1, &params, cu->context));
        CU_OK(CU(cuGraphNodeGetDependencies)(next, ret_node, &count));
    }
    return graph;
}

static void set_and_end(enum way way)
{
    size_t before;

    start();
    make_foreign();
    before = used();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr ptr = must_alloc(BYTES);
        CUgraphExec exec = NULL;
        CUgraphNode node;
        CUgraph graph = make_node(way, &node);

        set_node(node, ptr);
        CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
        CU_OK(cu->cuGraphLaunch(exec, stream));
        CU_OK(cu->cuStreamSynchronize(stream));
        CU_OK(cu->cuGraphExecDestroy(exec));
        CU_OK(cu->cuGraphDestroy(graph));
        CU_OK(cu->cuMemFree_v2(ptr));
    }
    CHECK_EQ(used(), before);
}

TEST(r80_a_node_that_named_nothing_gives_back_what_it_was_set_to)
{
    set_and_end(WAY_ADDED);
}

TEST(r80_a_captured_node_that_named_nothing_gives_back_what_it_was_set_to)
{
    set_and_end(WAY_TOLD);
}

TEST(r80_a_node_of_a_clone_gives_back_what_it_was_set_to)
{
    set_and_end(WAY_CLONE);
}

TEST(r80_a_node_inside_of_a_child_gives_back_what_it_was_set_to)
{
    set_and_end(WAY_INNER);
}

TEST(r80_a_node_that_is_told_as_a_dependency_gives_back_what_it_was_set_to)
{
    set_and_end(WAY_DEPENDENCY);
}

/* A clone and its original have nodes of their own: what one is set to ends with that one. */
TEST(r80_setting_a_node_changes_nothing_of_the_clone)
{
    CUdeviceptr first, second, third;
    CUgraph graph, clone = NULL;
    CUgraphNode node, copy = NULL;
    size_t before;

    start();
    before = used();
    first = must_alloc(BYTES);
    second = must_alloc(BYTES);
    third = must_alloc(BYTES);
    graph = new_graph();
    node = add_set(graph, first);
    CU_OK(CU(cuGraphClone)(&clone, graph));
    set_node(node, second); /* the clone names the first one still */
    CU_OK(cu->cuMemFree_v2(first));
    CHECK_GT(used(), before + 3 * BYTES - MB);
    CU_OK(CU(cuGraphNodeFindInClone)(&copy, node, clone));
    set_node(copy, third); /* nobody names the first one now */
    CHECK_LE(used(), before + 2 * BYTES + 4 * MB);
    CU_OK(cu->cuMemFree_v2(second));
    CHECK_GT(used(), before + 2 * BYTES - MB);
    CU_OK(cu->cuGraphDestroy(graph));
    CHECK_LE(used(), before + BYTES + 4 * MB);
    CU_OK(cu->cuMemFree_v2(third));
    CU_OK(cu->cuGraphDestroy(clone));
    CHECK_EQ(used(), before);
}

/* ---- children -------------------------------------------------------------------------------- */

static CUgraphNodeParams moved(CUgraph child)
{
    const CUDA_CHILD_GRAPH_NODE_PARAMS given = {
            .graph = child, .ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

    memcpy(params.reserved1, &given, sizeof given);
    return params;
}

TEST(r80_a_child_that_was_moved_ends_with_its_parent)
{
    size_t before;

    start();
    before = used();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr early = must_alloc(BYTES);
        CUdeviceptr late = must_alloc(BYTES);
        CUgraph child = new_graph(), parent = new_graph();
        CUgraphNodeParams params = moved(child);
        CUgraphNode node = add_set(child, early), inside;

        CU_OK(CU(cuGraphAddNode_v2)(&node, parent, NULL, NULL, 0, &params));
        inside = add_set(child, late); /* its handle is the parent's, and good for this */
        (void)inside;
        CU_OK(cu->cuMemFree_v2(early));
        CU_OK(cu->cuMemFree_v2(late));
        CHECK_GT(used(), before + 2 * BYTES - MB);
        CU_OK(cu->cuGraphDestroy(parent));
        CHECK_EQ(used(), before);
    }
}

/* ---- captures that come to nothing ----------------------------------------------------------- */

TEST(r80_a_stream_that_is_destroyed_ends_its_capture)
{
    CUstream doomed;
    size_t before;

    start();
    before = used();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr ptr = must_alloc(BYTES);

        CU_OK(cu->cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
        CU_OK(cu->cuStreamBeginCapture_v2(doomed, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CU_OK(cu->cuMemsetD8Async(ptr, 1, BYTES, doomed));
        CU_OK(cu->cuStreamDestroy_v2(doomed));
        CU_OK(cu->cuMemFree_v2(ptr));
    }
    CHECK_EQ(used(), before);
}

/* The driver does not say into what the call is captured (402, and the newer form fails too); the begin of the capture was seen. */
TEST(r80_what_a_capture_pins_untold_ends_with_it)
{
    CUstream doomed;
    size_t before;

    start();
    before = used();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr ptr = must_alloc(BYTES);

        CU_OK(cu->cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
        CU_OK(cu->cuStreamBeginCapture_v2(doomed, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        ((__typeof__(&simcuda_fail_next))client_sim("simcuda_fail_next"))(
                "cuStreamGetCaptureInfo", 0, CUDA_ERROR_LOSSY_QUERY);
        CU_OK(cu->cuMemsetD8Async(ptr, 1, BYTES, doomed));
        (void)((__typeof__(&simcuda_fail_clear))client_sim("simcuda_fail_clear"))();
        CU_OK(cu->cuStreamDestroy_v2(doomed));
        CU_OK(cu->cuMemFree_v2(ptr));
    }
    CHECK_EQ(used(), before);
}

TEST(r80_a_context_that_ends_takes_its_captures_along)
{
    CUcontext context;
    CUstream doomed;
    size_t before;

    start();
    before = used();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr ptr = 0;

        CU_OK(cu->cuMemAllocAsync(&ptr, BYTES, stream));
        CU_OK(cu->cuStreamSynchronize(stream));
        CU_OK(cu->cuCtxCreate_v2(&context, 0, 0));
        CU_OK(cu->cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
        CU_OK(cu->cuStreamBeginCapture_v2(doomed, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CU_OK(cu->cuMemsetD8Async(ptr, 1, BYTES, doomed));
        CU_OK(cu->cuCtxDestroy_v2(context));
        CU_OK(cu->cuCtxSetCurrent(cu->context));
        CU_OK(cu->cuMemFreeAsync(ptr, stream));
        CU_OK(cu->cuStreamSynchronize(stream));
    }
    CHECK_LE(used(), before + 4 * MB);
}

/* The graph was there before, and stays with its nodes and what they name. */
TEST(r80_a_capture_into_a_graph_of_the_programs_own_leaves_it_its_pins)
{
    CUdeviceptr ptr;
    CUgraph graph, made = NULL;
    size_t before;

    start();
    before = used();
    ptr = must_alloc(BYTES);
    graph = new_graph();
    (void)add_set(graph, ptr);
    CU_OK(CU(cuStreamBeginCaptureToGraph)(
            stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK_NE(cu->cuStreamSynchronize(stream), CUDA_SUCCESS); /* spoils it */
    CHECK_NE(cu->cuStreamEndCapture(stream, &made), CUDA_SUCCESS);
    CU_OK(cu->cuMemFree_v2(ptr));
    CHECK_GT(used(), before + BYTES - MB); /* a launch would write there */
    CU_OK(cu->cuGraphDestroy(graph));
    CHECK_EQ(used(), before);
}

/* What is allocated after a capture that came to nothing is in no capture. */
static void anchors_after(bool ends_context)
{
    struct read_capture *capture;
    CUcontext context = cu->context;
    CUstream doomed;
    CUdeviceptr ptr;

    for (int i = 0; i < 3; i++) {
        if (ends_context)
            CU_OK(cu->cuCtxCreate_v2(&context, 0, 0));
        CU_OK(cu->cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
        CU_OK(cu->cuStreamBeginCapture_v2(doomed, CU_STREAM_CAPTURE_MODE_RELAXED));
        CU_OK(ends_context ? cu->cuCtxDestroy_v2(context) : cu->cuStreamDestroy_v2(doomed));
    }
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    ptr = must_alloc(3 * MB);
    capture = read_now();
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC && capture->event[i].addr == ptr)
            CHECK_EQ(strcmp(capture->event[i].path, ""), 0);
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(the_anchor_of_a_capture_ends_with_its_stream)
{
    capture_to("stream");
    start();
    anchors_after(false);
}

TEST(the_anchor_of_a_capture_ends_with_its_context)
{
    capture_to("context");
    start();
    anchors_after(true);
}

/* ---- captures that began by an entry that has no hook ---------------------------------------- */

static int runs;

static void count_run(void *data)
{
    (void)data;
    runs++;
}

static void begin_unseen(void)
{
    __typeof__(&cuStreamBeginCapture_v2) begin =
            (__typeof__(&cuStreamBeginCapture_v2))client_driver("cuStreamBeginCapture_v2");

    CU_OK(begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

TEST(r38_a_host_function_of_an_unseen_capture_runs_at_each_launch)
{
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;

    start();
    begin_unseen();
    CU_OK(cu->cuLaunchHostFunc(stream, count_run, NULL));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        CU_OK(cu->cuGraphLaunch(exec, stream));
        CU_OK(cu->cuStreamSynchronize(stream));
    }
    CHECK_EQ(runs, 5);
}

/* Once one was seen to end, all that may be captured is asked about: memory of a captured call is the graph's own. */
TEST(r82_after_an_unseen_capture_captured_memory_is_the_drivers)
{
    CUdeviceptr ptr = 0, other = 0;
    CUgraph graph = NULL;

    start();
    for (int i = 0; i < 2; i++) {
        begin_unseen();
        CU_OK(cu->cuMemAllocAsync(&ptr, BYTES, stream));
        CU_OK(cu->cuMemFreeAsync(ptr, stream));
        CU_OK(cu->cuStreamEndCapture(stream, &graph));
        if (i == 0)
            continue;
        CU_OK(cu->cuMemAllocAsync(&other, BYTES, stream));
        CHECK_NE(ptr, other); /* as the launches of the graph write there */
    }
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
}

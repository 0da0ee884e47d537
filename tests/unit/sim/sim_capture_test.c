/* SPDX-License-Identifier: MIT */
/* Capture: what it takes, what it forbids and with which code. Graphs: what a launch does. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>

static CUgraph end(CUstream stream)
{
    CUgraph graph;

    CU(cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraphExec instance(CUgraph graph)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void begin(CUstream stream)
{
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUstreamCaptureStatus status(CUstream stream)
{
    CUstreamCaptureStatus is;

    CU(cuStreamIsCapturing(stream, &is));
    return is;
}

static unsigned word(CUdeviceptr ptr)
{
    unsigned value;

    CU(cuMemcpyDtoH_v2(&value, ptr, sizeof(value)));
    return value;
}

static int host_calls;

static void count_call(void *unused)
{
    (void)unused;
    host_calls++;
}

TEST(what_is_captured_runs_at_each_launch_and_not_before)
{
    CUdeviceptr a, b;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;
    size_t count = 0;

    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    a = sim_alloc(4096);
    b = sim_alloc(4096);
    CU(cuMemsetD32_v2(a, 1, 1024));
    CU(cuMemsetD32_v2(b, 0, 1024));
    (void)sim_function("kedge_mix"); /* loading a module is an unsafe call */
    begin(s);
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU(sim_launch3("kedge_mix", b, a, 4096, s));
    CU(cuMemcpyDtoDAsync_v2(a, b, 4, s));
    CU(cuLaunchHostFunc(s, count_call, NULL));
    graph = end(s);
    CU(cuGraphGetNodes(graph, NULL, &count));
    CHECK_EQ(count, 3);
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK_EQ(word(b), 0);
    exec = instance(graph);
    CU(cuGraphDestroy(graph)); /* the instance lives on */
    CU(cuGraphLaunch(exec, s));
    CU(cuStreamSynchronize(s));
    CHECK_EQ(word(b), 1 + 1013904223U);
    CHECK_EQ(word(a), 1 + 1013904223U);
    CU(cuGraphLaunch(exec, s));
    CU(cuStreamSynchronize(s));
    CHECK_EQ(host_calls, 2);
    CHECK_EQ(word(b), (1 + 1013904223U) * 1664525U + (1 + 1013904223U) + 1013904223U);
    CU(cuGraphExecDestroy(exec));
    CHECK_EQ(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(sim_figures().graph_launches, 2);
}

/* `call` during a capture of `mode` in this thread gives `code`, and whether the capture lives. */
static void during(CUstreamCaptureMode mode, CUresult (*call)(void), CUresult code, bool survives)
{
    CUstream s = sim_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;

    CU(cuStreamBeginCapture_v2(s, mode));
    CHECK_EQ(call(), code);
    CHECK_EQ(status(s),
            survives ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    if (survives) {
        graph = end(s);
        CU(cuGraphDestroy(graph));
    } else {
        CHECK_EQ(cuLaunchHostFunc(s, count_call, NULL), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        CHECK_EQ(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        CHECK_EQ(graph, NULL);
    }
    CU(cuStreamDestroy_v2(s));
}

static CUresult call_alloc(void)
{
    CUdeviceptr ptr;

    return cuMemAlloc_v2(&ptr, 512);
}

static CUresult call_query(void)
{
    CUevent e;

    CU(cuEventCreate(&e, 0));
    return cuEventQuery(e);
}

static CUresult call_info(void)
{
    size_t free_bytes, total;

    return cuMemGetInfo_v2(&free_bytes, &total);
}

static CUresult call_sync(void)
{
    return cuCtxSynchronize();
}

static CUresult call_context_record(void)
{
    CUcontext ctx;
    CUevent e;

    CU(cuCtxGetCurrent(&ctx));
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return cuCtxRecordEvent(ctx, e);
}

TEST(r60_unsafe_calls_spoil_a_capture_that_is_not_relaxed)
{
    sim_start();
    during(CU_STREAM_CAPTURE_MODE_GLOBAL, call_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false);
    during(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, call_alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            false);
    during(CU_STREAM_CAPTURE_MODE_RELAXED, call_alloc, CUDA_SUCCESS, true);
    during(CU_STREAM_CAPTURE_MODE_GLOBAL, call_query, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false);
    during(CU_STREAM_CAPTURE_MODE_RELAXED, call_query, CUDA_SUCCESS, true);
    during(CU_STREAM_CAPTURE_MODE_GLOBAL, call_info, CUDA_SUCCESS, true);
}

TEST(some_calls_spoil_every_capture_of_the_context)
{
    sim_start();
    during(CU_STREAM_CAPTURE_MODE_RELAXED, call_sync, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false);
    during(CU_STREAM_CAPTURE_MODE_RELAXED, call_context_record,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false);
    CHECK_EQ(sim_figures().captures_invalidated, 2);
}

static CUcontext shared_ctx;
static CUresult thread_result;
static CUstreamCaptureMode thread_mode;

static void *alloc_in_thread(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    CU(cuThreadExchangeStreamCaptureMode(&thread_mode));
    thread_result = call_alloc();
    CU(cuThreadExchangeStreamCaptureMode(&thread_mode));
    return NULL;
}

static CUresult other_thread_allocates(CUstreamCaptureMode capture, CUstreamCaptureMode exchange)
{
    CUstream s = sim_stream(CU_STREAM_NON_BLOCKING);
    pthread_t thread;
    CUgraph graph;

    thread_mode = exchange;
    CU(cuStreamBeginCapture_v2(s, capture));
    REQUIRE(pthread_create(&thread, NULL, alloc_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(thread_mode, exchange); /* swapped twice */
    CHECK_EQ(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS, thread_result == CUDA_SUCCESS);
    return thread_result;
}

TEST(other_threads_are_bound_by_global_captures_only)
{
    shared_ctx = sim_start();
    CHECK_EQ(other_thread_allocates(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(other_thread_allocates(
                     CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            CUDA_SUCCESS);
    CHECK_EQ(other_thread_allocates(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
    CHECK_EQ(other_thread_allocates(
                     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
}

TEST(the_legacy_stream_is_unusable_while_a_blocking_stream_captures)
{
    CUstreamCaptureStatus is;
    CUstream blocking, other;
    CUgraph graph;
    CUdeviceptr a;

    sim_start();
    a = sim_alloc(512);
    blocking = sim_stream(CU_STREAM_DEFAULT);
    other = sim_stream(CU_STREAM_NON_BLOCKING);
    CHECK_EQ(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CU(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_EQ(cuStreamIsCapturing(NULL, &is), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQ(cuMemsetD8Async(a, 1, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CU(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuStreamIsCapturing(NULL, &is));
    CU(cuMemsetD8Async(a, 1, 4, NULL)); /* a non-blocking stream does not mind */
    end(other);
}

TEST(a_capture_spreads_through_events_and_has_to_be_joined)
{
    CUstream origin, forked, stranger;
    CUgraph graph;
    CUevent fork_event, join, outside;
    CUdeviceptr a;

    sim_start();
    a = sim_alloc(4096);
    origin = sim_stream(CU_STREAM_NON_BLOCKING);
    forked = sim_stream(CU_STREAM_NON_BLOCKING);
    stranger = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(outside, stranger));

    begin(origin);
    CU(cuMemsetD8Async(a, 1, 100, origin));
    CU(cuEventRecord(fork_event, origin));
    CU(cuStreamWaitEvent(forked, fork_event, 0));
    CHECK_EQ(status(forked), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU(cuMemsetD8Async(a + 200, 2, 100, forked));
    CHECK_EQ(cuStreamEndCapture(forked, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK_EQ(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(origin);
    CU(cuEventRecord(fork_event, origin));
    CU(cuStreamWaitEvent(forked, fork_event, 0));
    CU(cuMemsetD8Async(a + 200, 2, 100, forked));
    CHECK_EQ(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK_EQ(status(forked), CU_STREAM_CAPTURE_STATUS_NONE);

    begin(origin);
    CU(cuEventRecord(fork_event, origin));
    CU(cuStreamWaitEvent(forked, fork_event, 0));
    CU(cuMemsetD8Async(a + 200, 2, 100, forked));
    CU(cuEventRecord(join, forked));
    CU(cuStreamWaitEvent(origin, join, 0));
    graph = end(origin);
    CU(cuGraphLaunch(instance(graph), origin));
    CU(cuStreamSynchronize(origin));
    CHECK_EQ(word(a + 200), 0x02020202);

    /* Events of a capture cannot be asked outside of it, nor outside events waited for in it. */
    CHECK_EQ(cuEventQuery(join), CUDA_ERROR_CAPTURED_EVENT);
    CHECK_EQ(cuEventSynchronize(join), CUDA_ERROR_CAPTURED_EVENT);
    CU(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_EQ(cuStreamWaitEvent(origin, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK_EQ(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(two_captures_do_not_merge)
{
    CUstream a, b;
    CUgraph graph;
    CUevent e;

    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    begin(a);
    begin(b);
    CU(cuEventRecord(e, a));
    CHECK_EQ(cuStreamWaitEvent(b, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(cuStreamEndCapture(b, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static CUstream shared_stream;

static void *end_in_thread(void *unused)
{
    CUgraph graph;

    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    thread_result = cuStreamEndCapture(shared_stream, &graph);
    return NULL;
}

TEST(only_a_relaxed_capture_may_be_ended_by_another_thread)
{
    pthread_t thread;

    shared_ctx = sim_start();
    shared_stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamBeginCapture_v2(shared_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    REQUIRE(pthread_create(&thread, NULL, end_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(thread_result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    end(shared_stream);
    CU(cuStreamBeginCapture_v2(shared_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    REQUIRE(pthread_create(&thread, NULL, end_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(thread_result, CUDA_SUCCESS);
}

TEST(capture_info_names_the_capture)
{
    CUstreamCaptureStatus is;
    const CUgraphNode *deps;
    cuuint64_t id = 0;
    CUgraph graph, ended;
    CUstream s;
    size_t count = 9;

    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamGetCaptureInfo_v2(s, &is, &id, &graph, &deps, &count));
    CHECK_EQ(is, CU_STREAM_CAPTURE_STATUS_NONE);
    begin(s);
    CU(cuLaunchHostFunc(s, count_call, NULL));
    CU(cuStreamGetCaptureInfo_v3(s, &is, &id, &graph, &deps, NULL, &count));
    CHECK_EQ(is, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_NE(id, 0);
    CHECK_EQ(count, 1);
    ended = end(s);
    CHECK_EQ(graph, ended);
}

static CUdeviceptr written;

/* A captured kernel with one attribute. */
static void capture_kernel(CUstream s, CUlaunchAttribute attribute)
{
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, s, &attribute, 1};
    uint64_t bytes = 4096;
    uint32_t seed = 1;
    void *args[] = {&written, &bytes, &seed};

    CU(cuLaunchKernelEx(&config, sim_function("kedge_fill"), args, NULL));
}

/* What the driver says of a stream behind an event that a launch recorded. */
static void look_behind(CUlaunchAttribute attribute, CUevent event, CUgraphEdgeData expected)
{
    CUstream s = sim_stream(CU_STREAM_NON_BLOCKING), fork = sim_stream(CU_STREAM_NON_BLOCKING);
    const CUgraphEdgeData *edges;
    const CUgraphNode *deps;
    CUstreamCaptureStatus is;
    CUgraphNode from[4], to[4];
    CUgraphEdgeData all[4];
    size_t count = 0;
    CUgraph graph;
    CUevent joined;
    cuuint64_t id;

    CU(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    begin(s);
    capture_kernel(s, attribute);
    CU(cuStreamWaitEvent(fork, event, 0));
    CHECK_EQ(cuStreamGetCaptureInfo_v2(fork, &is, &id, &graph, &deps, &count),
            CUDA_ERROR_LOSSY_QUERY);
    CHECK_EQ(cuStreamGetCaptureInfo_v3(fork, &is, &id, &graph, &deps, NULL, &count),
            CUDA_ERROR_LOSSY_QUERY);
    CHECK_EQ(cuStreamGetCaptureInfo_v3(fork, &is, &id, &graph, NULL, &edges, &count),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuStreamGetCaptureInfo_v2(fork, &is, &id, &graph, NULL, NULL)); /* the graph alone */
    CU(cuStreamGetCaptureInfo_v2(s, &is, &id, &graph, &deps, &count)); /* behind the kernel */
    CU(cuStreamGetCaptureInfo_v3(fork, &is, &id, &graph, &deps, &edges, &count));
    REQUIRE_EQ(count, 1);
    CHECK(memcmp(&edges[0], &expected, sizeof(expected)) == 0);
    capture_kernel(fork, (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PRIORITY});
    CU(cuStreamGetCaptureInfo_v2(fork, &is, &id, &graph, &deps, &count)); /* a plain edge again */
    CU(cuEventRecord(joined, fork));
    CU(cuStreamWaitEvent(s, joined, 0));
    graph = end(s);
    count = 4;
    CU(cuGraphGetEdges_v2(graph, from, to, all, &count));
    REQUIRE_EQ(count, 1);
    CHECK(memcmp(&all[0], &expected, sizeof(expected)) == 0);
    CU(cuGraphLaunch(instance(graph), NULL));
    CU(cuCtxSynchronize());
}

TEST(events_of_captured_launches_are_edges_with_ports)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    CUevent event;

    sim_start();
    written = sim_alloc(4096);
    (void)sim_function("kedge_fill"); /* no module is loaded in a capture */
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    attribute.value.programmaticEvent.event = event;
    look_behind(attribute, event, (CUgraphEdgeData){.from_port = 1, .type = 1});
    attribute.value.programmaticEvent.triggerAtBlockStart = 1;
    look_behind(attribute, event, (CUgraphEdgeData){.from_port = 2, .type = 1});
    attribute = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    attribute.value.launchCompletionEvent.event = event;
    look_behind(attribute, event, (CUgraphEdgeData){.from_port = 2});
}

TEST(a_programmatic_launch_is_an_edge_with_a_port)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    CUgraphNode from[4], to[4];
    CUgraphEdgeData edges[4];
    size_t count = 4;
    CUgraph graph;
    CUstream s;

    sim_start();
    written = sim_alloc(4096);
    (void)sim_function("kedge_fill"); /* no module is loaded in a capture */
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    early.value.programmaticStreamSerializationAllowed = 1;
    begin(s);
    capture_kernel(s, early); /* behind nothing */
    capture_kernel(s, early);
    CU(cuMemsetD8Async(written, 0, 16, s));
    capture_kernel(s, early); /* behind a set, which has no ports */
    graph = end(s);
    CHECK_EQ(cuGraphGetEdges(graph, from, to, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuGraphGetEdges_v2(graph, from, to, edges, &count));
    REQUIRE_EQ(count, 3);
    CHECK(edges[0].from_port == 1 && edges[0].type == 1);
    CHECK(edges[1].from_port == 0 && edges[2].from_port == 0);
}

TEST(a_capture_takes_edges_that_the_program_states)
{
    const CUgraphEdgeData port = {.from_port = 1, .type = 1}, bad = {.from_port = 9};
    CUstreamCaptureStatus is;
    const CUgraphNode *deps;
    CUgraphNode kernel, set;
    cuuint64_t id;
    size_t count;
    CUgraph graph;
    CUstream s;

    sim_start();
    written = sim_alloc(4096);
    (void)sim_function("kedge_fill"); /* no module is loaded in a capture */
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    begin(s);
    capture_kernel(s, (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PRIORITY});
    CU(cuStreamGetCaptureInfo_v2(s, &is, &id, &graph, &deps, &count));
    kernel = deps[0];
    CHECK_EQ(cuStreamUpdateCaptureDependencies_v2(
                     s, &kernel, &bad, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuStreamUpdateCaptureDependencies_v2(
            s, &kernel, &port, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    CHECK_EQ(cuStreamGetCaptureInfo_v2(s, &is, &id, &graph, &deps, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuMemsetD8Async(written, 0, 16, s)); /* a set waits for all of the kernel */
    graph = end(s);
    CHECK_EQ(cuStreamBeginCaptureToGraph(s, graph, &kernel, &bad, 1, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphNodeGetDependentNodes(kernel, &set, &(size_t){1}));
    CHECK_EQ(cuStreamBeginCaptureToGraph(s, graph, &set, &port, 1, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_INVALID_VALUE); /* a set has no ports */
}

TEST(captured_allocations_have_fixed_addresses_and_live_from_launch_to_free)
{
    CUdeviceptr inside, outside;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    (void)sim_function("kedge_fill");
    begin(s);
    CU(cuMemAllocAsync(&inside, MIB, s));
    CU(cuMemAllocAsync(&outside, MIB, s));
    CU(sim_fill(inside, MIB, 1, s));
    CU(cuMemcpyDtoDAsync_v2(outside, inside, 4096, s));
    CU(cuMemFreeAsync(inside, s));
    graph = end(s);
    exec = instance(graph);
    CU(cuGraphDestroy(graph));
    CU(cuGraphLaunch(exec, s));
    CHECK_EQ(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE); /* `outside` is not freed */
    CU(cuStreamSynchronize(s));
    CHECK_NE(word(outside), 0);
    CU(cuMemFreeAsync(outside, s));
    CU(cuGraphLaunch(exec, s));
    CU(cuStreamSynchronize(s));
    CHECK_EQ(sim_figures().faults, 0);
    CU(cuMemFreeAsync(outside, s));
    CU(cuGraphExecDestroy(exec));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(a_capture_frees_only_what_a_graph_allocated)
{
    CUdeviceptr pooled, plain;
    CUstream s;

    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuMemAllocAsync(&pooled, MIB, s));
    plain = sim_alloc(512);
    begin(s);
    CHECK_EQ(cuMemFreeAsync(pooled, s), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemFreeAsync(plain, s), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    end(s);
}

TEST(graphs_can_be_built_node_by_node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
            .bytesize = 8192};
    CUDA_MEMSET_NODE_PARAMS set = {.value = 5, .elementSize = 4, .width = 4, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .WidthInBytes = 16,
            .Height = 1,
            .Depth = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = count_call};
    CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 1,
            .blockDimY = 1,
            .blockDimZ = 1};
    unsigned out[4] = {0};
    uint64_t bytes = 16;
    CUgraphNode n[6];
    CUgraphNodeType type;
    CUgraphExec exec;
    CUgraph graph;
    CUcontext ctx = sim_start();

    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddMemAllocNode(&n[0], graph, NULL, 0, &alloc));
    set.dst = alloc.dptr;
    copy.srcDevice = alloc.dptr;
    copy.dstHost = out;
    kernel.func = sim_function("kedge_mix");
    kernel.kernelParams = (void *[]){&alloc.dptr, &alloc.dptr, &bytes};
    CU(cuGraphAddMemsetNode(&n[1], graph, &n[0], 1, &set, ctx));
    CU(cuGraphAddKernelNode_v2(&n[2], graph, &n[1], 1, &kernel));
    CU(cuGraphAddMemcpyNode(&n[3], graph, &n[2], 1, &copy, ctx));
    CU(cuGraphAddHostNode(&n[4], graph, &n[3], 1, &host));
    CU(cuGraphAddMemFreeNode(&n[5], graph, &n[4], 1, alloc.dptr));
    CU(cuGraphNodeGetType(n[2], &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
    exec = instance(graph);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(out[3], 5U * 1664525U + 5U + 1013904223U);
    CHECK_EQ(host_calls, 1);
    bytes = 8; /* only two words from now on */
    CU(cuGraphExecKernelNodeSetParams_v2(exec, n[2], &kernel));
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(out[1], 5U * 1664525U + 5U + 1013904223U);
    CHECK_EQ(out[3], 5);
    CHECK_EQ(cuGraphExecKernelNodeSetParams_v2(exec, n[1], &kernel), CUDA_ERROR_INVALID_VALUE);
}

TEST(launches_of_one_instance_run_one_after_the_other)
{
    CUstream first, second;
    CUgraphExec exec;
    CUdeviceptr a;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    first = sim_stream(CU_STREAM_NON_BLOCKING);
    second = sim_stream(CU_STREAM_NON_BLOCKING);
    a = sim_alloc(512);
    CU(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(sim_launch3("kedge_mix", a, a, 4, first));
    exec = instance(end(first));
    CU(cuMemsetD32Async(a, 1, 1, first));
    CU(cuGraphLaunch(exec, first));
    CU(cuGraphLaunch(exec, second));
    CU(cuStreamSynchronize(second)); /* has to run what is on the first stream */
    CHECK_EQ(cuStreamQuery(first), CUDA_SUCCESS);
}

TEST(nodes_of_the_shared_form_do_the_same)
{
    CUgraphNodeParams alloc = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC},
                      set = {.type = CU_GRAPH_NODE_TYPE_MEMSET},
                      copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY},
                      host = {.type = CU_GRAPH_NODE_TYPE_HOST},
                      drop = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE},
                      child = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUDA_HOST_NODE_PARAMS none = {0}, again = {.fn = count_call};
    unsigned out = 0;
    CUgraphNode n[5], more;
    CUgraphExec exec;
    CUgraph graph;

    sim_start();
    CU(cuGraphCreate(&graph, 0));
    alloc.alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.alloc.bytesize = 512;
    CU(cuGraphAddNode(&n[0], graph, NULL, 0, &alloc));
    set.memset.dst = drop.free.dptr = alloc.alloc.dptr;
    set.memset.value = 0xabcd;
    set.memset.elementSize = 2;
    set.memset.width = 2;
    set.memset.height = 1;
    CU(cuGraphAddNode_v2(&n[1], graph, &n[0], NULL, 1, &set));
    copy.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = alloc.alloc.dptr,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = &out,
            .WidthInBytes = 4,
            .Height = 1,
            .Depth = 1};
    CU(cuGraphAddNode(&n[2], graph, &n[1], 1, &copy));
    host.host = again;
    CU(cuGraphAddNode(&n[3], graph, &n[2], 1, &host));
    CU(cuGraphAddNode(&n[4], graph, &n[3], 1, &drop));
    CHECK_EQ(cuGraphAddNode(&more, graph, NULL, 0, &child), CUDA_ERROR_NOT_SUPPORTED);
    exec = instance(graph);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(out, 0xabcdabcd);
    CHECK_EQ(host_calls, 2);
    CHECK_EQ(cuGraphExecHostNodeSetParams(exec, n[3], &none), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphExecHostNodeSetParams(exec, n[3], &again));
}

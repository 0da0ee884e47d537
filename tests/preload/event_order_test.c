/* SPDX-License-Identifier: MIT */
/* covers: hooks_event.c */
/* Which events order memory from one stream to another, and which do not: of all that a program can do with an event. */
#include "tests/preload/client.h"

#include <pthread.h>

#define MB   ((size_t)1 << 20)
#define SIZE (2 * MB)
#define ROOM (64 * MB)

static CUstream first, then, third;
static CUmemoryPool mempool;
static CUevent event;

static CUstream new_stream(void)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUdeviceptr take(size_t size, CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
    return ptr;
}

static void give(CUdeviceptr ptr, CUstream stream)
{
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
}

/* Nothing runs on the device before it is waited for. */
static void begin(unsigned flags)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    first = new_stream();
    then = new_stream();
    third = new_stream();
    REQUIRE_EQ(cu->cuEventCreate(&event, flags), CUDA_SUCCESS);
}

/* Two streams have freed, and there is room to grow without a wait. */
static void let_streams_free(void)
{
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    give(take(ROOM, first), first);
    give(take(512, then), then);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, 0), CUDA_SUCCESS);
}

static void start(unsigned flags)
{
    begin(flags);
    let_streams_free();
}

/* A block of the first stream, freed there with its use still to come. */
static CUdeviceptr freed_on(CUstream stream)
{
    CUdeviceptr ptr = take(SIZE, stream);

    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, SIZE, stream), CUDA_SUCCESS);
    give(ptr, stream);
    return ptr;
}

static void record(CUstream stream)
{
    REQUIRE_EQ(cu->cuEventRecord(event, stream), CUDA_SUCCESS);
}

static void wait_on(CUstream stream)
{
    REQUIRE_EQ(cu->cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
}

static bool has(CUdeviceptr ptr)
{
    return take(SIZE, then) == ptr;
}

/* ---- what orders ---------------------------------------------------------------------------- */

TEST(r72_an_event_orders_what_was_freed_before_it)
{
    CUdeviceptr ptr;
    uint64_t waits;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    record(first);
    wait_on(then);
    waits = client_calls("cuStreamWaitEvent");
    CHECK(has(ptr));
    CHECK_EQ(client_calls("cuStreamWaitEvent"), waits);
}

TEST(r72_so_does_one_with_flags_that_are_none)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    REQUIRE_EQ(cu->cuEventRecordWithFlags(event, first, 0), CUDA_SUCCESS);
    wait_on(then);
    CHECK(has(ptr));
}

TEST(r72_so_do_events_by_way_of_a_third_stream)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    record(first);
    wait_on(third);
    record(third);
    wait_on(then);
    CHECK(has(ptr));
}

TEST(r69_r72_default_streams_are_streams)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(CU_STREAM_LEGACY);
    record(NULL);
    wait_on(then);
    CHECK(has(ptr));
    ptr = freed_on(CU_STREAM_PER_THREAD);
    REQUIRE_EQ(cu->cuEventRecord_ptsz(event, NULL), CUDA_SUCCESS);
    wait_on(then);
    CHECK(has(ptr));
}

/* ---- what does not -------------------------------------------------------------------------- */

TEST(r72_no_order_without_an_event)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    CHECK(!has(ptr));
}

TEST(r72_nor_with_one_that_was_recorded_too_early)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    record(first);
    ptr = freed_on(first);
    wait_on(then);
    CHECK(!has(ptr));
}

TEST(r72_nor_with_one_that_was_recorded_anew)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    record(first);
    record(third);
    wait_on(then);
    CHECK(!has(ptr));
}

TEST(r72_nor_if_the_driver_has_refused_the_record_or_the_wait)
{
    __typeof__(&simcuda_fail_next) fail;
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    fail = (__typeof__(fail))client_sim("simcuda_fail_next");
    fail("cuEventRecord", 1, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuEventRecord(event, first), CUDA_ERROR_INVALID_VALUE);
    wait_on(then);
    CHECK(!has(ptr));
    ptr = freed_on(first);
    record(first);
    fail("cuStreamWaitEvent", 1, CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuStreamWaitEvent(then, event, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(!has(ptr));
}

static void *record_late(void *data)
{
    __typeof__(&simcuda_park_next) park = (__typeof__(park))client_sim("simcuda_park_next");

    (void)data;
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    park("cuEventRecord", NULL);
    record(first);
    return NULL;
}

/* Another thread's record is on its way: which of the two is the last one nobody knows. */
TEST(r72_nor_while_two_threads_record_it)
{
    __typeof__(&simcuda_wait_parked) wait_parked;
    __typeof__(&simcuda_unpark) unpark;
    CUdeviceptr ptr;
    pthread_t thread;

    start(CU_EVENT_DISABLE_TIMING);
    wait_parked = (__typeof__(wait_parked))client_sim("simcuda_wait_parked");
    unpark = (__typeof__(unpark))client_sim("simcuda_unpark");
    ptr = freed_on(third);
    REQUIRE(pthread_create(&thread, NULL, record_late, NULL) == 0);
    REQUIRE(wait_parked(1));
    record(third);
    unpark();
    REQUIRE(pthread_join(thread, NULL) == 0);
    wait_on(then);
    CHECK(!has(ptr));
    record(third); /* the only one again */
    wait_on(then);
    CHECK(has(ptr));
}

/* So many events go that the device uses their memory again. */
TEST(r72_nor_with_another_event_of_the_same_handle)
{
    CUevent events[32];
    CUevent before;
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < 32; i++)
        REQUIRE_EQ(cu->cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ptr = freed_on(first);
    before = event = events[31];
    record(first);
    for (int i = 0; i < 32; i++)
        REQUIRE_EQ(cu->cuEventDestroy_v2(events[i]), CUDA_SUCCESS);
    event = NULL;
    for (int i = 0; i < 1000 && event != before; i++)
        REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    REQUIRE_EQ((uintptr_t)event, (uintptr_t)before);
    wait_on(then); /* for nothing: it was never recorded */
    CHECK(!has(ptr));
}

TEST(r11_r72_nor_while_a_stream_is_captured)
{
    CUdeviceptr ptr;
    CUgraph graph = NULL;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(third, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    record(first);
    REQUIRE_EQ(cu->cuStreamEndCapture(third, &graph), CUDA_SUCCESS);
    wait_on(then);
    CHECK(!has(ptr));
    record(first);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(third, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    wait_on(then);
    REQUIRE_EQ(cu->cuStreamEndCapture(third, &graph), CUDA_SUCCESS);
    CHECK(!has(ptr));
}

TEST(r72_nor_with_a_record_of_a_whole_context)
{
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    ptr = freed_on(first);
    record(first);
    REQUIRE_EQ(cu->cuCtxRecordEvent(cu->context, event), CUDA_SUCCESS);
    wait_on(then);
    CHECK(!has(ptr));
}

TEST(r72_nor_if_the_pool_must_not)
{
    int off = 0;
    CUdeviceptr ptr;

    start(CU_EVENT_DISABLE_TIMING);
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(
                       mempool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &off),
            CUDA_SUCCESS);
    ptr = freed_on(first);
    record(first);
    wait_on(then);
    CHECK(!has(ptr));
}

/* ---- what ends it for good ------------------------------------------------------------------ */

static void check_followed(bool is_followed)
{
    CUdeviceptr ptr = freed_on(first);

    record(first);
    wait_on(then);
    CHECK_EQ(has(ptr), is_followed);
}

TEST(r72_none_is_followed_any_more_when_another_process_may_record_one)
{
    CUipcEventHandle handle;

    start(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    check_followed(true);
    REQUIRE_EQ(cu->cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
    check_followed(false);
}

TEST(r72_nor_when_a_graph_records_one)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;

    start(CU_EVENT_DISABLE_TIMING);
    check_followed(true);
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddEventRecordNode(&node, graph, NULL, 0, event), CUDA_SUCCESS);
    check_followed(false);
}

TEST(r72_nor_when_any_node_is_one_that_records)
{
    CUgraphNodeParams params;
    CUgraph graph = NULL;
    CUgraphNode node = NULL;

    start(CU_EVENT_DISABLE_TIMING);
    check_followed(true);
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    params.reserved1[0] = (long long)(uintptr_t)event;
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params), CUDA_SUCCESS);
    check_followed(false);
}

TEST(r72_nor_when_a_captured_record_is_a_node)
{
    CUgraph graph = NULL;

    start(CU_EVENT_DISABLE_TIMING);
    check_followed(true);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(third, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuEventRecordWithFlags(event, third, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(third, &graph), CUDA_SUCCESS);
    check_followed(false);
}

/* Before kedge has served anything, or anybody else than one stream. */
TEST(r72_nor_if_all_that_came_first)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;

    begin(CU_EVENT_DISABLE_TIMING);
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddEventRecordNode(&node, graph, NULL, 0, event), CUDA_SUCCESS);
    let_streams_free();
    check_followed(false);
}

TEST(r72_nor_if_a_captured_record_came_first)
{
    CUgraph graph = NULL;

    begin(CU_EVENT_DISABLE_TIMING);
    give(take(SIZE, first), first);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(third, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuEventRecordWithFlags(event, third, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(third, &graph), CUDA_SUCCESS);
    let_streams_free();
    check_followed(false);
}

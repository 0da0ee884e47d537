/* SPDX-License-Identifier: MIT */
/* covers: hostwait.c hooks_hostfn.c */
/*
 * A stream waits for the host, and the host for another stream, that natively does not wait for the first one (R71, R72, R104). Each test is
 * a program of its own, and hangs where kedge makes the other stream wait.
 */
#include "tests/preload/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MB       ((size_t)1 << 20)
#define SIZE     (4 * MB)
#define BIG      (96 * MB) /* of a device of 128: there is no other memory */
#define PATIENCE 20        /* seconds, for what comes back at once */

static volatile unsigned *flag; /* pinned; the stalled stream goes on when it is 1 */
static CUstream other;          /* has no order with any stream */
static CUstream stalled;
static __typeof__(&cuStreamWaitValue32_v2) wait_value;

/* Else a wait of the program's gives memory back. */
static void keep_memory(void)
{
    cuuint64_t threshold = UINT64_MAX;
    CUmemoryPool pool = NULL;

    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
}

static CUstream new_stream(unsigned flags)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
}

static void begin(void)
{
    void *pinned = NULL;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("SIMCUDA_MEMORY", "128M", 1) == 0);
    client_init();
    wait_value = (__typeof__(wait_value))client_sim("cuStreamWaitValue32_v2");
    REQUIRE(wait_value != NULL);
    REQUIRE_EQ(cu->cuMemHostAlloc(&pinned, 4096, 0), CUDA_SUCCESS);
    flag = pinned;
    *flag = 0;
    keep_memory();
    other = new_stream(CU_STREAM_NON_BLOCKING);
    stalled = new_stream(CU_STREAM_NON_BLOCKING);
    (void)alarm(PATIENCE);
}

static CUdeviceptr alloc_on(CUstream stream, size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
    return ptr;
}

/* Written and freed. */
static void free_on(CUstream stream, size_t size)
{
    CUdeviceptr ptr = alloc_on(stream, size);

    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 0x11, size, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
}

static void stall(CUstream stream)
{
    REQUIRE_EQ(wait_value(stream, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
}

static void wait_for_flag(void *unused)
{
    (void)unused;
    while (!*flag)
        (void)usleep(100);
}

/* The other stream asks for memory, and is done before the stalled one goes on. */
static void take(size_t size)
{
    CUdeviceptr ptr = alloc_on(other, size);

    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 0x22, size, other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(other), CUDA_SUCCESS);
    *flag = 1;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    (void)alarm(0);
}

/* ---- what was freed before the stall ---------------------------------------------------------- */

TEST(r71_a_free_is_not_behind_its_streams_later_wait)
{
    begin();
    free_on(stalled, BIG);
    stall(stalled);
    take(BIG);
}

TEST(r71_a_free_is_not_behind_its_streams_later_batch)
{
    CUstreamBatchMemOpParams op = {
            .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .value = 1}};
    __typeof__(&cuStreamBatchMemOp_v2) batch;

    begin();
    batch = (__typeof__(batch))client_sim("cuStreamBatchMemOp_v2");
    op.waitValue.address = (CUdeviceptr)(uintptr_t)flag;
    free_on(stalled, BIG);
    REQUIRE_EQ(batch(stalled, 1, &op, 0), CUDA_SUCCESS);
    take(BIG);
}

TEST(r71_a_free_is_not_behind_its_streams_later_host_function)
{
    begin();
    free_on(stalled, BIG);
    REQUIRE_EQ(cu->cuLaunchHostFunc(stalled, wait_for_flag, NULL), CUDA_SUCCESS);
    take(BIG);
}

static void called_back(CUstream stream, CUresult result, void *data)
{
    (void)stream;
    (void)result;
    wait_for_flag(data);
}

TEST(r71_a_free_is_not_behind_its_streams_later_callback)
{
    begin();
    free_on(stalled, BIG);
    REQUIRE_EQ(cu->cuStreamAddCallback(stalled, called_back, NULL, 0), CUDA_SUCCESS);
    take(BIG);
}

TEST(r71_a_free_is_not_behind_its_streams_later_graph)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = wait_for_flag};
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    begin();
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddHostNode(&node, graph, NULL, 0, &host), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    free_on(stalled, BIG);
    REQUIRE_EQ(cu->cuGraphLaunch(exec, stalled), CUDA_SUCCESS);
    take(BIG);
}

/* Its own work waits for an event of the stream that waits. */
TEST(r71_a_free_is_not_behind_a_later_event_of_a_stalled_stream)
{
    CUstream stream;
    CUevent event;

    begin();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    free_on(stream, BIG);
    stall(stalled);
    REQUIRE_EQ(cu->cuEventRecord(event, stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    take(BIG);
}

TEST(r71_a_free_by_the_sync_api_is_not_behind_a_later_wait)
{
    CUdeviceptr ptr;

    begin();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, BIG), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, BIG, stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    stall(stalled);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, BIG), CUDA_SUCCESS);
    take(SIZE);
}

/* ---- streams that meet later ------------------------------------------------------------------ */

TEST(r69_r71_a_free_on_the_default_stream_is_not_behind_a_blocking_stream_that_comes_later)
{
    begin();
    free_on(NULL, BIG);
    stall(new_stream(CU_STREAM_DEFAULT));
    take(BIG);
}

TEST(r69_r71_a_free_on_the_default_stream_is_not_behind_an_own_stream_that_comes_later)
{
    begin();
    free_on(NULL, BIG);
    stall(CU_STREAM_PER_THREAD);
    take(BIG);
}

TEST(r69_r71_a_free_on_a_blocking_stream_is_not_behind_the_default_stream_that_comes_later)
{
    begin();
    free_on(new_stream(CU_STREAM_DEFAULT), BIG);
    stall(NULL);
    take(BIG);
}

/* ---- beside captures -------------------------------------------------------------------------- */

static CUstream capturing;

static void *capture(void *unused)
{
    (void)unused;
    if (cu->cuCtxSetCurrent(cu->context) == CUDA_SUCCESS)
        CHECK_EQ(cu->cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED),
                CUDA_SUCCESS);
    return NULL;
}

static void begin_capture_elsewhere(void)
{
    pthread_t thread;

    capturing = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE(pthread_create(&thread, NULL, capture, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void end_capture(void)
{
    CUgraph graph;

    REQUIRE_EQ(cu->cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
}

TEST(r10_r71_a_free_beside_a_capture_is_not_behind_its_streams_later_wait)
{
    begin();
    free_on(stalled, BIG);
    begin_capture_elsewhere();
    free_on(stalled, BIG);
    stall(stalled);
    end_capture();
    take(BIG);
}

TEST(r10_r71_a_free_beside_a_capture_is_not_behind_a_wait_after_it)
{
    begin();
    free_on(stalled, BIG);
    begin_capture_elsewhere();
    free_on(stalled, BIG);
    end_capture();
    stall(stalled);
    take(BIG);
}

/* The free and the wait are on two streams that have an order. */
TEST(r10_r69_r71_a_free_beside_a_capture_is_not_behind_the_default_streams_later_wait)
{
    CUdeviceptr ptr;
    CUstream blocking;

    begin();
    blocking = new_stream(CU_STREAM_DEFAULT);
    free_on(NULL, BIG);
    ptr = alloc_on(blocking, BIG);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    begin_capture_elsewhere();
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, blocking), CUDA_SUCCESS);
    stall(NULL);
    end_capture();
    take(BIG);
}

TEST(r10_r69_r71_a_free_on_an_own_stream_beside_a_capture_is_not_behind_a_later_wait)
{
    CUdeviceptr ptr;

    begin();
    ptr = alloc_on(CU_STREAM_PER_THREAD, BIG);
    begin_capture_elsewhere();
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    stall(CU_STREAM_PER_THREAD);
    end_capture();
    take(BIG);
}

/* A stream that is captured waits for nobody: the wait is a node of the graph. */
TEST(r10_r71_a_captured_wait_records_nothing)
{
    uint64_t before;
    CUgraph graph;

    begin();
    *flag = 1;
    free_on(stalled, BIG);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stalled, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    before = client_calls("cuEventRecord");
    REQUIRE_EQ(cu->cuLaunchHostFunc(stalled, wait_for_flag, NULL), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuEventRecord"), before);
    REQUIRE_EQ(cu->cuStreamEndCapture(stalled, &graph), CUDA_SUCCESS);
    take(BIG);
}

/* ---- what was freed behind it ----------------------------------------------------------------- */

/* Natively the driver has more memory, and nobody waits. */
TEST(r104_nobody_waits_for_memory_that_is_freed_behind_a_wait)
{
    begin();
    stall(stalled);
    free_on(stalled, SIZE);
    take(SIZE);
}

TEST(r104_nobody_waits_for_memory_that_is_freed_behind_a_stalled_streams_event)
{
    CUstream stream;
    CUevent event;

    begin();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    stall(stalled);
    REQUIRE_EQ(cu->cuEventRecord(event, stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    free_on(stream, SIZE);
    take(SIZE);
}

TEST(r104_nobody_waits_for_memory_that_is_freed_behind_an_order_without_events)
{
    CUstream blocking;

    begin();
    blocking = new_stream(CU_STREAM_DEFAULT);
    free_on(blocking, SIZE);
    stall(NULL);
    free_on(blocking, SIZE);
    take(SIZE);
}

TEST(r104_the_end_of_a_stalled_stream_is_not_the_end_of_its_wait)
{
    CUstream stream;
    CUevent event;

    begin();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    stall(stalled);
    REQUIRE_EQ(cu->cuEventRecord(event, stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamDestroy_v2(stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    free_on(stream, SIZE);
    take(SIZE);
}

/* More streams than a set of points has, none of which waits for the host. */
TEST(r104_nobody_waits_for_a_stream_whose_memory_it_does_not_get)
{
    CUdeviceptr ptr[8];
    CUstream stream[8];

    begin();
    for (int i = 0; i < 8; i++) {
        stream[i] = new_stream(CU_STREAM_NON_BLOCKING);
        ptr[i] = alloc_on(stream[i], MB);
    }
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr[i], stream[i]), CUDA_SUCCESS);
    stall(stalled);
    take(8 * MB);
}

/* The device is full, and what is free of the sync API needs no wait. It cannot go back to the driver while the context is busy. */
static void nothing(void *unused)
{
    (void)unused;
}

/* An event on the default stream would wait for the blocking streams, and the later work of each of them for the event. */
TEST(r69_r71_looking_at_the_default_stream_puts_no_stream_behind_another)
{
    REQUIRE(setenv("KEDGE_POOL", "budget=24M,chunk=4M", 1) == 0);
    begin();
    other = new_stream(CU_STREAM_DEFAULT);
    stalled = new_stream(CU_STREAM_DEFAULT);
    free_on(CU_STREAM_LEGACY, SIZE);
    free_on(stalled, 20 * MB);
    REQUIRE_EQ(cu->cuLaunchHostFunc(CU_STREAM_LEGACY, nothing, NULL), CUDA_SUCCESS);
    stall(stalled);
    take(24 * MB);
}

/* With patience for a minute: a wait for it would outlast the test. */
TEST(r104_nobody_waits_for_what_a_stalled_stream_has_freed)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("KEDGE_POOL", "fence-timeout=60000", 1) == 0);
    begin();
    stall(stalled);
    free_on(stalled, 64 * MB);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, BIG), CUDA_ERROR_OUT_OF_MEMORY);
    *flag = 1;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, BIG), CUDA_SUCCESS);
    (void)alarm(0);
}

TEST(r104_a_full_device_gives_what_needs_no_wait_first)
{
    CUdeviceptr ptr;

    begin();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 60 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    stall(stalled);
    free_on(stalled, 50 * MB);
    take(50 * MB);
}

/* ---- and where nobody waits for the host any more --------------------------------------------- */

/* Storage of others is used behind a wait again, as ever (R72). */
TEST(r72_a_wait_that_is_over_is_forgotten)
{
    CUdeviceptr ptr;

    begin();
    free_on(stalled, SIZE);
    stall(stalled);
    *flag = 1;
    (void)alloc_on(other, 2 * SIZE); /* it is asked whether the stream still waits */
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    ptr = alloc_on(stalled, 3 * SIZE);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 0x11, 3 * SIZE, stalled), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stalled), CUDA_SUCCESS);
    CHECK_EQ(alloc_on(other, 3 * SIZE), ptr);
    (void)alarm(0);
}

TEST(r71_programs_that_never_wait_for_the_host_pay_nothing)
{
    uint64_t before;
    CUevent event;

    begin();
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    free_on(stalled, SIZE);
    before = client_calls("cuEventRecord");
    for (int i = 0; i < 20; i++) {
        free_on(stalled, SIZE);
        REQUIRE_EQ(cu->cuEventRecord(event, other), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamWaitEvent(stalled, event, 0), CUDA_SUCCESS);
    }
    CHECK_EQ(client_calls("cuEventRecord") - before, 20);
    (void)alarm(0);
}

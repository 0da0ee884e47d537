/* SPDX-License-Identifier: MIT */
/* covers: hooks_mempool.c hooks_stream.c spill.c */
/* Which stream is which, and the order that CUDA gives to streams beside events (R69). */
#include "tests/preload/client.h"

#include <pthread.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static void begin(const char *schedule)
{
    REQUIRE(setenv("SIMCUDA_SCHED", schedule, 1) == 0);
    client_init();
}

/* ---- which stream is which ------------------------------------------------------------------- */

static int device_of(CUdeviceptr ptr)
{
    int device = -1;

    REQUIRE_EQ(cu->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
            CUDA_SUCCESS);
    return device;
}

static CUdeviceptr on_default(bool own)
{
    CUdeviceptr ptr = 0;

    if (own)
        REQUIRE_EQ(cu->cuMemAllocAsync_ptsz(&ptr, 5 * MB, NULL), CUDA_SUCCESS);
    else
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 5 * MB, NULL), CUDA_SUCCESS);
    return ptr;
}

TEST(r69_default_streams_that_are_numbered_within_a_context_are_two)
{
    CUdeviceptr ptr[2][2];
    CUcontext context[2];

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    REQUIRE(setenv("SIMCUDA_STREAM_IDS", "context", 1) == 0);
    begin("lazy");
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context[i], i), CUDA_SUCCESS);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            REQUIRE_EQ(cu->cuCtxSetCurrent(context[i]), CUDA_SUCCESS);
            for (int own = 0; own < 2; own++) {
                ptr[i][own] = on_default(own);
                CHECK_EQ(device_of(ptr[i][own]), i);
                CHECK_EQ(cu->cuMemsetD8Async(ptr[i][own], 1, 5 * MB,
                                 own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY),
                        CUDA_SUCCESS);
                CHECK_EQ(cu->cuMemFreeAsync(
                                 ptr[i][own], own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY),
                        CUDA_SUCCESS);
            }
            CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        }
    CHECK_EQ(client_calls("cuMemAllocAsync") + client_calls("cuMemAllocAsync_ptsz"), 0);
}

/* ---- allocations and frees are operations ---------------------------------------------------- */

#define SIZE (4 * MB)

static unsigned char *host; /* pinned */
static CUdeviceptr filled;
static CUstream blocking[2];

static void prepare(void)
{
    void *pinned = NULL;

    begin("lazy");
    REQUIRE_EQ(cu->cuMemHostAlloc(&pinned, SIZE, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&filled, SIZE), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8_v2(filled, 0x11, SIZE), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(cu->cuStreamCreate(&blocking[i], CU_STREAM_DEFAULT), CUDA_SUCCESS);
    host = pinned;
}

static CUdeviceptr alloc_on(CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, SIZE, stream), CUDA_SUCCESS);
    return ptr;
}

/* Many bytes that come late: what is known of them is read in host memory. */
static void copy_late(CUstream stream)
{
    memset(host, 0, SIZE);
    REQUIRE_EQ(cu->cuMemcpyDtoHAsync_v2(host, filled, SIZE, stream), CUDA_SUCCESS);
}

static size_t stale(void)
{
    size_t wrong = 0;

    for (size_t i = 0; i < SIZE; i++)
        wrong += host[i] != 0x11;
    return wrong;
}

static void wait_by_query(CUstream stream)
{
    CUresult result;

    do
        result = cu->cuStreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY);
    CHECK_EQ(result, CUDA_SUCCESS);
}

TEST(r69_a_free_on_a_blocking_stream_comes_behind_the_default_stream)
{
    CUdeviceptr ptr[3];

    prepare();
    for (int i = 0; i < 3; i++) {
        ptr[i] = alloc_on(blocking[0]);
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr[i], blocking[0]), CUDA_SUCCESS); /* as it is known */
        ptr[i] = alloc_on(blocking[0]);
    }
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    copy_late(NULL);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr[0], blocking[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[0]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    copy_late(NULL);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr[1], blocking[0]), CUDA_SUCCESS);
    wait_by_query(blocking[0]);
    CHECK_EQ(stale(), 0);
    copy_late(CU_STREAM_LEGACY);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr[2], CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
}

TEST(r69_an_allocation_on_a_blocking_stream_comes_behind_the_default_stream)
{
    prepare();
    copy_late(NULL);
    (void)alloc_on(blocking[0]);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[0]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    copy_late(NULL);
    (void)alloc_on(CU_STREAM_PER_THREAD);
    wait_by_query(CU_STREAM_PER_THREAD);
    CHECK_EQ(stale(), 0);
}

/* The one blocking stream, the default stream, the other one. */
TEST(r69_allocations_and_frees_on_the_default_stream_order_the_blocking_ones)
{
    CUdeviceptr ptr;
    CUevent event;

    prepare();
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ptr = alloc_on(NULL);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    copy_late(blocking[0]);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuEventRecord(event, blocking[1]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[1]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    copy_late(blocking[0]);
    (void)alloc_on(NULL);
    REQUIRE_EQ(cu->cuEventRecord(event, blocking[1]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[1]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
}

/* Else a wait of the program's gives memory back, for which kedge waits for more than the program does. */
static void keep_memory(void)
{
    cuuint64_t threshold = UINT64_MAX;
    CUmemoryPool pool = NULL;

    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
}

static void set(void *flag)
{
    *(volatile bool *)flag = true;
}

/* What the default stream is given after the free is not waited for. */
TEST(r69_a_free_comes_behind_what_was_there_before_it_alone)
{
    CUdeviceptr ptr;
    bool has_run = false;

    prepare();
    keep_memory();
    ptr = alloc_on(blocking[0]);
    copy_late(NULL);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, blocking[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuLaunchHostFunc(NULL, set, &has_run), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[0]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    CHECK(!has_run);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST(r69_nobody_pays_for_an_order_that_nobody_can_see)
{
    CUstream other = NULL;
    uint64_t before;

    begin("eager");
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    before = client_calls("cuEventRecord");
    for (int i = 0; i < 20; i++) /* the default stream has not been used */
        REQUIRE_EQ(cu->cuMemFreeAsync(alloc_on(other), other), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuEventRecord"), before);
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(alloc_on(NULL), NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(alloc_on(other), other), CUDA_SUCCESS);
    before = client_calls("cuEventRecord");
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(cu->cuMemFreeAsync(alloc_on(other), other), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuEventRecord"), before);
}

/* ---- every call tells of its stream ----------------------------------------------------------- */

static void *host_function_on_own(void *flag)
{
    if (cu->cuCtxSetCurrent(cu->context) == CUDA_SUCCESS)
        CHECK_EQ(cu->cuLaunchHostFunc(CU_STREAM_PER_THREAD, set, flag), CUDA_SUCCESS);
    return NULL;
}

/* No other work than a host function on one thread's own stream, and an event on another one's. */
TEST(r69_host_functions_and_events_tell_of_threads_own_streams)
{
    bool has_run = false;
    pthread_t thread;
    CUdeviceptr ptr;
    CUevent event;

    begin("lazy");
    REQUIRE_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    keep_memory();
    ptr = alloc_on(NULL);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, host_function_on_own, &has_run) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuEventRecord_ptsz(event, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK(has_run);
}

TEST(r69_host_functions_tell_of_the_default_stream)
{
    bool has_run = false;
    CUstream other = NULL;
    CUdeviceptr ptr;

    begin("lazy");
    keep_memory();
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ptr = alloc_on(other);
    REQUIRE_EQ(cu->cuLaunchHostFunc(NULL, set, &has_run), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(other), CUDA_SUCCESS);
    CHECK(has_run);
}

/* ---- where nothing can be recorded ------------------------------------------------------------- */

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

    REQUIRE(pthread_create(&thread, NULL, capture, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static size_t wrong_bytes(CUdeviceptr ptr, CUstream stream)
{
    size_t wrong = 0;

    REQUIRE_EQ(cu->cuMemcpyDtoHAsync_v2(host, ptr, SIZE, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    for (size_t i = 0; i < SIZE; i++)
        wrong += host[i] != 0x22;
    return wrong;
}

/* X is written on one blocking stream and freed on the default one, Y has its storage, and is written on a stream that comes later. */
static void hand_over(int capture_at, bool to_own)
{
    CUstream writer = CU_STREAM_PER_THREAD;
    CUgraph graph = NULL;
    CUdeviceptr x, y;
    void *pinned = NULL;

    begin("lazy");
    REQUIRE_EQ(cu->cuMemHostAlloc(&pinned, SIZE, 0), CUDA_SUCCESS);
    host = pinned;
    REQUIRE_EQ(cu->cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&blocking[0], CU_STREAM_DEFAULT), CUDA_SUCCESS);
    x = alloc_on(NULL);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    if (capture_at == 1)
        begin_capture_elsewhere();
    REQUIRE_EQ(cu->cuMemsetD8Async(x, 0x11, SIZE, blocking[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(x, NULL), CUDA_SUCCESS);
    y = alloc_on(NULL);
    printf("%s\n", x == y ? "the same memory" : "other memory");
    if (capture_at == 3)
        capturing = blocking[0];
    if (capture_at >= 2)
        begin_capture_elsewhere();
    if (!to_own)
        REQUIRE_EQ(cu->cuStreamCreate(&writer, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(y, 0x22, SIZE, writer), CUDA_SUCCESS);
    CHECK_EQ(wrong_bytes(y, writer), 0);
    if (capture_at)
        REQUIRE_EQ(cu->cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(wrong_bytes(y, writer), 0);
}

TEST(r69_a_stream_that_comes_in_a_capture_comes_behind_the_free)
{
    hand_over(1, false);
}

TEST(r69_a_stream_that_comes_in_a_later_capture_comes_behind_the_free)
{
    hand_over(2, false);
}

TEST(r69_an_own_stream_that_comes_in_a_capture_comes_behind_the_free)
{
    hand_over(2, true);
}

/* The default stream can be given nothing any more then. */
TEST(r69_a_stream_that_comes_while_the_first_one_captures_comes_behind_the_free)
{
    hand_over(3, false);
}

TEST(r69_what_cannot_be_recorded_is_not_handed_out)
{
    REQUIRE(setenv("SIMCUDA_FAIL", "cuEventRecord:1+:999", 1) == 0);
    hand_over(0, false);
}

TEST(r69_what_no_event_can_be_made_for_is_not_handed_out)
{
    REQUIRE(setenv("SIMCUDA_FAIL", "cuEventCreate:1+:2", 1) == 0);
    hand_over(0, false);
}

/* The order is not only that of memory, and a capture of another thread does not end it. */
TEST(r69_a_free_beside_a_capture_is_an_operation)
{
    CUgraph graph = NULL;
    CUdeviceptr ptr[2];

    prepare();
    REQUIRE_EQ(cu->cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ptr[0] = alloc_on(blocking[0]);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    begin_capture_elsewhere();
    copy_late(NULL);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr[0], blocking[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[0]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    copy_late(NULL);
    ptr[1] = alloc_on(blocking[0]);
    REQUIRE_EQ(cu->cuStreamSynchronize(blocking[0]), CUDA_SUCCESS);
    CHECK_EQ(stale(), 0);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr[1], blocking[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
}

/* ---- what is recorded later would be behind more ---------------------------------------------- */

#define PATIENCE 20 /* seconds, for what comes back at once */

static void wait_for_host(CUstream stream)
{
    __typeof__(&cuStreamWaitValue32_v2) wait =
            (__typeof__(wait))client_sim("cuStreamWaitValue32_v2");

    REQUIRE(wait != NULL);
    (void)alarm(PATIENCE);
    *(volatile unsigned *)host = 0;
    REQUIRE_EQ(
            wait(stream, (CUdeviceptr)(uintptr_t)host, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
}

static void go_on(void)
{
    *(volatile unsigned *)host = 1;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    (void)alarm(0);
}

/* `stream` waits for the host, and the memory goes to a stream that has no order with it. */
static void take_beside_a_wait(CUstream stream)
{
    CUstream other = NULL;
    CUdeviceptr ptr;

    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    wait_for_host(stream);
    ptr = alloc_on(other);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 0x22, SIZE, other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(other), CUDA_SUCCESS);
    go_on();
}

/* A blocking stream waits, and the default one comes behind it. What the other blocking stream is given from then on waits as well. */
TEST(r69_a_request_that_is_refused_is_no_operation)
{
    size_t unused = 0, total = 0;
    CUdeviceptr ptr = 0;

    prepare();
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&unused, &total), CUDA_SUCCESS);
    wait_for_host(blocking[0]);
    REQUIRE_EQ(cu->cuMemsetD8Async(filled, 0x22, SIZE, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, total + SIZE, blocking[1]), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuStreamSynchronize(blocking[1]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    ptr = alloc_on(blocking[1]);
    CHECK_EQ(cu->cuStreamQuery(blocking[1]), CUDA_ERROR_NOT_READY);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, blocking[1]), CUDA_SUCCESS);
    go_on();
}

/* X is written and freed on the one; then the other one waits. */
static void free_before_a_wait(CUstream freed_on, CUstream stalled)
{
    CUdeviceptr x = alloc_on(freed_on);

    REQUIRE_EQ(cu->cuMemsetD8Async(x, 0x11, SIZE, freed_on), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(x, freed_on), CUDA_SUCCESS);
    take_beside_a_wait(stalled);
}

TEST(r69_r71_a_free_on_the_default_stream_is_not_behind_a_blocking_streams_later_work)
{
    prepare();
    keep_memory();
    free_before_a_wait(NULL, blocking[1]);
}

TEST(r69_r71_a_free_on_a_blocking_stream_is_not_behind_the_default_streams_later_work)
{
    prepare();
    keep_memory();
    (void)alloc_on(NULL);
    free_before_a_wait(blocking[0], NULL);
}

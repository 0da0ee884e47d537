/* SPDX-License-Identifier: MIT */
/*
 * What the generated programs found, and the rules about codes, one by one. Each test is a program of its own on the
 * simulated device with two devices.
 */
#include "tests/preload/client.h"

#define MB ((size_t)1 << 20)

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static CUdeviceptr alloc_async(size_t size, CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
    return ptr;
}

static CUstream new_stream(unsigned flags)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
}

static uint64_t all_calls(void)
{
    __typeof__(&simcuda_stats) get = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(get && get(&stats) == 0);
    return stats.calls;
}

static void fail_next(const char *call, CUresult code)
{
    __typeof__(&simcuda_fail_next) fail =
            (__typeof__(&simcuda_fail_next))client_sim("simcuda_fail_next");

    REQUIRE(fail);
    fail(call, 1, code);
}

static void set_hook(void (*hook)(const char *))
{
    __typeof__(&simcuda_set_call_hook) set =
            (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");

    REQUIRE(set);
    set(hook);
}

/* ---- frees ---------------------------------------------------------------------------------- */

TEST(r2_a_free_asks_the_driver_nothing)
{
    CUdeviceptr a, b, c;
    CUgraph graph = NULL;
    CUstream stream;
    uint64_t before;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    a = alloc(1 * MB);
    b = alloc(4 * MB);
    c = alloc(1 * MB);
    before = all_calls();
    CHECK_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
    CHECK_EQ(all_calls(), before);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    before = all_calls();
    CHECK_EQ(cu->cuMemFree_v2(c), CUDA_SUCCESS);
    CHECK_EQ(all_calls(), before);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

TEST(r32_a_free_in_stream_order_without_a_context_gets_the_drivers_code)
{
    CUdeviceptr ptr, sync;
    CUcontext popped;

    client_init();
    ptr = alloc_async(1 * MB, NULL);
    sync = alloc(1 * MB);
    REQUIRE_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cu->cuMemFree_v2(sync), CUDA_SUCCESS); /* that one asks for none */
    REQUIRE_EQ(cu->cuCtxPushCurrent_v2(popped), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_SUCCESS); /* it was the program's still */
    CHECK_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(r34_r35_after_a_sticky_error_a_wrong_free_is_wrong_still)
{
    CUdeviceptr first, second, freed;

    client_init();
    first = alloc(256 << 10);
    second = alloc(256 << 10);
    freed = alloc(256 << 10);
    REQUIRE_EQ(cu->cuMemFree_v2(freed), CUDA_SUCCESS);
    fail_next("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu->cuMemFree_v2(second + 256), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(freed), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(first), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu->cuMemFree_v2(second), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu->cuMemsetD8_v2(first, 1, 512 << 10), CUDA_SUCCESS); /* the segment stands */
}

/* ---- out of memory -------------------------------------------------------------------------- */

enum {
    FILLED = 15,
};

/* Memory comes back to a request exactly when natively enough of it would be there. */
static void check_full(CUdeviceptr (*get)(void), CUresult (*give)(CUdeviceptr),
        CUresult (*ask)(CUdeviceptr *, size_t))
{
    CUdeviceptr ptr[FILLED];
    CUdeviceptr big = 0;

    for (int i = 0; i < FILLED; i++) /* 1920 of 2048 MiB: less than one more is left */
        ptr[i] = get();
    CHECK_EQ(ask(&big, 512 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(ask(&big, 128 * MB), CUDA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(ask(&ptr[0], 512 * MB), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK_EQ(give(ptr[i * 4 + 1]), CUDA_SUCCESS);
    }
    CHECK_EQ(ask(&ptr[0], 512 * MB), CUDA_SUCCESS);
    CHECK_EQ(ask(&ptr[1], 512 * MB), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUdeviceptr get_sync(void)
{
    return alloc(128 * MB);
}

static CUresult ask_sync(CUdeviceptr *ret_ptr, size_t size)
{
    return cu->cuMemAlloc_v2(ret_ptr, size);
}

static CUdeviceptr get_async(void)
{
    return alloc_async(128 * MB, NULL);
}

static CUresult give_async(CUdeviceptr ptr)
{
    return cu->cuMemFreeAsync(ptr, NULL);
}

static CUresult ask_async(CUdeviceptr *ret_ptr, size_t size)
{
    return cu->cuMemAllocAsync(ret_ptr, size, NULL);
}

TEST(r31_out_of_memory_lasts_until_as_many_frees_as_natively)
{
    client_init();
    check_full(get_sync, cu->cuMemFree_v2, ask_sync);
}

TEST(r31_out_of_memory_in_stream_order_lasts_until_as_many_frees_as_natively)
{
    client_init();
    check_full(get_async, give_async, ask_async);
}

/* What the driver says in the second attempt may be another matter. */
TEST(r31_the_answer_to_a_full_device_is_out_of_memory)
{
    CUdeviceptr ptr = 0;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuMemAlloc_v2:2+:999", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "reserve=0", 1) == 0); /* the driver is asked at once */
    client_init();
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_GE(client_calls("cuMemAlloc_v2"), 2);
}

TEST(r81_every_call_that_takes_memory_gets_what_the_heaps_can_spare)
{
    CUDA_ARRAY_DESCRIPTOR descriptor = {32768, 32768, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle = 0;
    CUarray array = NULL;
    CUdeviceptr ptr;
    size_t pitch;

    client_init();
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1536 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemCreate(&handle, 1024 * MB, &prop, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1536 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocManaged(&ptr, 1024 * MB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1536 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuArrayCreate_v2(&array, &descriptor), CUDA_SUCCESS);
    CHECK_EQ(cu->cuArrayDestroy(array), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1536 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, MB, 1024, 4), CUDA_SUCCESS);
}

TEST(r81_nothing_is_given_back_while_a_capture_runs)
{
    CUgraph graph = NULL;
    CUstream stream;
    CUdeviceptr ptr;
    size_t pitch;

    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1536 * MB)), CUDA_SUCCESS);
    (void)alloc(1 * MB); /* what was freed is known to be clean by now */
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, MB, 1024, 4), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, MB, 1024, 4), CUDA_SUCCESS);
}

/* ---- contexts ------------------------------------------------------------------------------- */

TEST(r26_a_context_that_was_not_ended_keeps_what_it_has)
{
    CUdeviceptr first, second, third;
    CUcontext other = NULL;

    client_init();
    REQUIRE_EQ(cu->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    first = alloc(256 << 10);
    second = alloc(256 << 10);
    fail_next("cuCtxDestroy_v2", CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cu->cuCtxDestroy_v2(other), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cu->cuMemFree_v2(second), CUDA_SUCCESS); /* inside a segment, for the driver */
    third = alloc(256 << 10);
    CHECK(client_is_pooled(third, 256 << 10));
    CHECK_EQ(cu->cuMemFree_v2(first), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxDestroy_v2(other), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(third), CUDA_ERROR_INVALID_VALUE); /* this time it went with it */

    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    first = alloc(256 << 10);
    second = alloc(256 << 10);
    fail_next("cuDevicePrimaryCtxReset_v2", CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cu->cuMemFree_v2(second), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(first), CUDA_SUCCESS);
}

static unsigned pops;

static void fail_a_pop(const char *call)
{
    if (strcmp(call, "cuCtxPopCurrent_v2") == 0 && ++pops == 1)
        fail_next(call, CUDA_ERROR_UNKNOWN);
}

TEST(r27_the_stack_of_contexts_is_as_it_was_whatever_fails)
{
    CUcontext other = NULL, popped = NULL;
    CUdeviceptr ptr;

    client_init();
    REQUIRE_EQ(cu->cuCtxCreate_v2(&other, 0, 1), CUDA_SUCCESS); /* pushed on the primary one */
    REQUIRE_EQ(cu->cuCtxPushCurrent_v2(cu->context), CUDA_SUCCESS);
    ptr = alloc(1 * MB);
    REQUIRE_EQ(cu->cuCtxPushCurrent_v2(other), CUDA_SUCCESS);
    set_hook(fail_a_pop);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS); /* waits for the other context's work */
    set_hook(NULL);
    CHECK_GE(pops, 2);
    CHECK_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK(popped == other);
    CHECK_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK(popped == cu->context);
    CHECK_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK(popped == other);
}

TEST(r76_stream_memory_outlives_its_context_where_nothing_can_be_mapped)
{
    CUcontext other = NULL;
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuMemGetAllocationGranularity:1+:999", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    ptr = alloc_async(1 * MB, NULL);
    REQUIRE_EQ(cu->cuCtxDestroy_v2(other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
}

TEST(r77_a_default_pool_is_served_when_it_is_named_first)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0;

    client_init();
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 1 * MB, pool, NULL), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocFromPoolAsync"), 0);
}

/* ---- captures ------------------------------------------------------------------------------- */

static CUresult other_got;

static void *alloc_elsewhere(void *unused)
{
    CUdeviceptr ptr = 0;

    (void)unused;
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    other_got = cu->cuMemAlloc_v2(&ptr, 1 * MB);
    return NULL;
}

static CUresult alloc_in_another_thread(void)
{
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, alloc_elsewhere, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return other_got;
}

TEST(r11_in_each_mode_an_allocation_gets_the_drivers_word)
{
    static const struct {
        CUstreamCaptureMode mode;
        CUresult own, other;
    } modes[] = {
            {CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
            {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    CUDA_SUCCESS},
            {CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS},
    };
    CUdeviceptr ptr;
    CUstream stream;

    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1 * MB)), CUDA_SUCCESS); /* there is memory to be had */
    for (int i = 0; i < 3; i++)
        for (int other = 0; other < 2; other++) {
            CUresult want = other ? modes[i].other : modes[i].own;
            CUgraph graph = NULL;

            REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, modes[i].mode), CUDA_SUCCESS);
            CHECK_EQ(other ? alloc_in_another_thread() : cu->cuMemAlloc_v2(&ptr, 1 * MB), want);
            CHECK_EQ(cu->cuStreamEndCapture(stream, &graph),
                    want ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
        }
}

/* Calls that R10 names, seen while a capture runs. */
static unsigned forbidden;

static void watch(const char *call)
{
    static const char *const calls[] = {"cuEventRecord", "cuEventQuery", "cuEventSynchronize",
            "cuCtxRecordEvent", "cuCtxSynchronize", "cuStreamSynchronize", "cuStreamWaitEvent",
            "cuMemUnmap", "cuMemRelease", "cuMemFree_v2"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        forbidden += strcmp(call, calls[i]) == 0;
}

TEST(r10_while_a_capture_runs_kedge_records_asks_waits_for_and_trims_nothing)
{
    CUdeviceptr sync[8], async[8], ptr;
    CUstream captured, stream;
    CUgraph graph = NULL;

    client_init();
    captured = new_stream(CU_STREAM_NON_BLOCKING);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 8; i++) {
        sync[i] = alloc(64 * MB);
        async[i] = alloc_async(64 * MB, stream);
    }
    for (int i = 0; i < 4; i++) { /* freed before, to be waited for and trimmed one day */
        REQUIRE_EQ(cu->cuMemFree_v2(sync[i]), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(async[i], stream), CUDA_SUCCESS);
    }
    (void)alloc(64 * MB);
    (void)alloc_async(64 * MB, stream);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    set_hook(watch);
    for (int i = 4; i < 8; i++) {
        CHECK_EQ(cu->cuMemFree_v2(sync[i]), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFreeAsync(async[i], stream), CUDA_SUCCESS);
        (void)cu->cuMemAlloc_v2(&ptr, 900 * MB);
        (void)cu->cuMemAllocAsync(&ptr, 900 * MB, stream);
        CHECK_EQ(cu->cuMemAllocAsync(&ptr, 1 * MB, captured), CUDA_SUCCESS);
    }
    set_hook(NULL);
    /* Nothing but the frees that the program has made: each waits as the driver's own does, by one of those (R75). */
    CHECK_EQ(forbidden, 4);
    CHECK_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
}

/* The thread's mode as the calls of cuThreadExchangeStreamCaptureMode change it: kedge makes them in pairs. */
static bool relaxed;
static unsigned upkeep, unrelaxed, exchanges, fail_at;

static void follow_mode(const char *call)
{
    static const char *const calls[] = {"cuEventQuery", "cuCtxRecordEvent", "cuEventCreate"};

    if (strcmp(call, "cuThreadExchangeStreamCaptureMode") == 0) {
        if (++exchanges == fail_at)
            fail_next(call, CUDA_ERROR_UNKNOWN);
        else
            relaxed = !relaxed;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(call, calls[i]) == 0) {
            upkeep++;
            unrelaxed += !relaxed;
        }
}

static void churn(void)
{
    for (int i = 0; i < 200; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(alloc(1 * MB)), CUDA_SUCCESS);
}

static CUstreamCaptureMode own_mode(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

    REQUIRE_EQ(cu->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    return mode;
}

TEST(r13_upkeep_runs_in_relaxed_mode_and_the_threads_mode_is_put_back)
{
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    client_init();
    (void)own_mode(); /* thread-local from here on */
    set_hook(follow_mode);
    churn();
    set_hook(NULL);
    CHECK_GE(upkeep, 10);
    CHECK_EQ(unrelaxed, 0);
    CHECK(!relaxed);
    CHECK_EQ(own_mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

TEST(r13_the_threads_mode_is_put_back_although_a_call_fails)
{
    client_init();
    (void)own_mode();
    for (fail_at = 1; fail_at < 9; fail_at++) {
        exchanges = 0;
        set_hook(follow_mode);
        churn();
        set_hook(NULL);
        CHECK_EQ(own_mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
}

TEST(r14_a_capture_that_is_not_known_ends_that_kind_of_fence)
{
    REQUIRE(setenv("SIMCUDA_FAIL", "cuCtxRecordEvent:1+:900", 1) == 0);
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    client_init();
    churn();
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 1);
    CHECK_GE(client_calls("cuCtxSynchronize"), 1);
}

TEST(r82_a_captured_free_of_our_block_is_refused_and_the_block_stays)
{
    CUstream stream, other;
    CUgraph graph = NULL;
    CUdeviceptr ptr;

    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    other = new_stream(CU_STREAM_NON_BLOCKING);
    ptr = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 1);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, other), CUDA_SUCCESS); /* beside it, it is free to go */
    CHECK_EQ(client_calls("cuMemFreeAsync"), 1);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

TEST(r82_a_free_that_would_join_a_capture_is_refused_as_natively)
{
    CUgraph graph = NULL;
    CUstream stream;
    CUdeviceptr ptr;

    client_init();
    stream = new_stream(0); /* the legacy stream waits for it */
    ptr = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_SUCCESS); /* it was the program's still */
}

/* An end that the driver refused is none. */
TEST(r11_r82_a_capture_goes_on_until_the_driver_says_that_it_is_over)
{
    CUcontext popped;
    CUgraph graph = NULL;
    CUstream stream;
    CUdeviceptr ptr;

    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE_EQ(cu->cuCtxPushCurrent_v2(popped), CUDA_SUCCESS);
    fail_next("cuStreamDestroy_v2", CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cu->cuStreamDestroy_v2(stream), CUDA_ERROR_UNKNOWN);
    ptr = alloc_async(1 * MB, stream);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1); /* a node of the graph */
    CHECK_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ptr = alloc_async(1 * MB, stream);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
}

/* The context that is current when it begins may go before it. */
TEST(r11_r26_a_capture_dies_with_the_context_of_its_stream)
{
    CUcontext other = NULL;
    CUgraph graph = NULL;
    CUstream stream;
    CUdeviceptr ptr;

    client_init();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxDestroy_v2(other), CUDA_SUCCESS);
    ptr = alloc_async(1 * MB, stream);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1); /* a node of the graph */
    CHECK_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ptr = alloc_async(1 * MB, stream);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
}

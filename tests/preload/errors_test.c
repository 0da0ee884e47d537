/* SPDX-License-Identifier: MIT */
/* When the driver fails: the program gets the driver's codes, and ours is never the program's trouble. */
#include "tests/preload/client.h"

#define MB ((size_t)1 << 20)

static void with_failures(const char *list)
{
    REQUIRE(setenv("SIMCUDA_FAIL", list, 1) == 0);
    client_init();
}

static CUresult alloc(CUdeviceptr *ret_ptr, size_t size)
{
    *ret_ptr = 0;
    return cu->cuMemAlloc_v2(ret_ptr, size);
}

/* R31: pending frees are waited for and idle segments given back before the program hears of it. */
TEST(r31_memory_that_is_only_waiting_is_no_oom)
{
    CUdeviceptr ptr[8];

    client_init(); /* 2 GiB */
    for (int i = 0; i < 7; i++)
        REQUIRE_EQ(alloc(&ptr[i], 256 * MB), CUDA_SUCCESS);
    for (int i = 0; i < 7; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    CHECK_EQ(alloc(&ptr[0], 1536 * MB), CUDA_SUCCESS);
    CHECK_EQ(alloc(&ptr[1], 1024 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuMemFree_v2(ptr[0]), CUDA_SUCCESS);
    CHECK_EQ(alloc(&ptr[1], 1024 * MB), CUDA_SUCCESS);
}

/* R31: within the budget, which an earlier peak has raised, too. What else is on the device is the program's own. */
TEST(r31_idle_segments_are_given_back_on_a_device_that_others_fill)
{
    CUdeviceptr ptr[3], native;
    size_t pitch;

    REQUIRE(setenv("KEDGE_POOL", "reserve=0", 1) == 0);
    client_init(); /* 2 GiB */
    REQUIRE_EQ(alloc(&ptr[0], 1536 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr[0]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocPitch_v2(&native, &pitch, 1 * MB, 1024, 4), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(alloc(&ptr[i], 256 * MB), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    CHECK_EQ(alloc(&ptr[0], 640 * MB), CUDA_SUCCESS);
}

/* R81: the driver's other customers get what our heaps do not use. */
TEST(r81_a_forwarded_request_gets_what_heaps_can_spare)
{
    CUdeviceptr ptr;
    size_t pitch;

    client_init();
    REQUIRE_EQ(alloc(&ptr, 1536 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, 1 * MB, 1024, 4), CUDA_SUCCESS);
}

/* The guess that fails must leave nothing behind (cuDNN probes like this). */
TEST(failed_guesses_leave_no_growth)
{
    size_t available, total, after;
    CUdeviceptr ptr;

    client_init();
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    for (size_t guess = total + MB; guess > total / 2; guess -= total / 16)
        if (alloc(&ptr, guess) == CUDA_SUCCESS)
            REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
    CHECK_EQ(after, available);
    CHECK_EQ(alloc(&ptr, 1536 * MB), CUDA_SUCCESS);
}

TEST(r32_the_drivers_own_code_comes_through)
{
    CUdeviceptr ptr;

    with_failures("cuMemAlloc:1+:999");
    CHECK_EQ(alloc(&ptr, 4096), CUDA_ERROR_UNKNOWN);
}

/* R34 */
TEST(r34_after_a_sticky_error_nothing_is_recycled)
{
    CUdeviceptr a, b;

    with_failures("cuCtxSynchronize:1+:700");
    REQUIRE_EQ(alloc(&a, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(alloc(&b, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu->cuMemFree_v2(a),
            CUDA_ERROR_ILLEGAL_ADDRESS); /* as natively: any further work says so */
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
    (void)alloc(&a, 1 * MB);
    CHECK_GE(client_calls("cuMemAlloc_v2"), 2); /* the segment, and the forwarded request */
}

/* R40: destructors run after the driver has gone. */
TEST(r40_after_the_drivers_end_our_frees_succeed)
{
    CUdeviceptr a, b;

    with_failures("cuCtxSynchronize:1+:4,cuMemFree:1+:4,cuMemAlloc:2+:4");
    REQUIRE_EQ(alloc(&a, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(alloc(&b, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_ERROR_DEINITIALIZED);
    CHECK_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(0x1000), CUDA_ERROR_DEINITIALIZED); /* not ours: the driver's code */
}

/* R33, R36: no call of ours may fail a program: each of them fails once, and the program notices nothing. */
TEST(r14_r32_no_failure_of_ours_reaches_the_program)
{
    static const char *const ours[] = {"cuCtxRecordEvent:1+:999", "cuEventCreate:1+:999",
            "cuEventQuery:1+:999", "cuMemAddressReserve:1+:2", "cuMemCreate:1+:2",
            "cuMemMap:1+:999", "cuMemSetAccess:1+:999", "cuStreamGetId:1+:999",
            "cuDeviceGetAttribute:1+:999", "cuThreadExchangeStreamCaptureMode:1+:999",
            "cuDeviceGetMemPool:1+:999", "cuCtxGetId:1+:999",
            "cuMemGetAllocationGranularity:1+:999",
            "cuCtxRecordEvent:1+:900" /* a capture that we do not know of: R14 */};
    const char *which = getenv("TEST_WHICH");
    CUstream stream;

    with_failures(ours[which ? atoi(which) : 0]);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 30; i++) {
        CUdeviceptr sync, async;

        REQUIRE_EQ(alloc(&sync, 1 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8_v2(sync, 1, 1 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemAllocAsync(&async, 1 * MB, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(async, 1, 1 * MB, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(async, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(sync), CUDA_SUCCESS);
    }
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* ---- answers that say nothing about the work ------------------------------------------ */

enum {
    MANY = 200, /* frees: more than one epoch */
};

static CUstream late; /* nothing that it is given runs before it is waited for */
static CUdeviceptr many[MANY];

static void write_and_free_many(void)
{
    for (int i = 0; i < MANY; i++) {
        REQUIRE_EQ(alloc(&many[i], 1 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(many[i], 0x11, 1 * MB, late), CUDA_SUCCESS);
    }
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(many[i]), CUDA_SUCCESS);
}

static bool is_one_of_many(CUdeviceptr ptr)
{
    for (int i = 0; i < MANY; i++)
        if (many[i] == ptr)
            return true;
    return false;
}

/* How many of `count` blocks lie where others were freed that the device has not done with. */
static int allocate_more(CUdeviceptr *ret_more, int count)
{
    int taken = 0;

    for (int i = 0; i < count; i++) {
        REQUIRE_EQ(alloc(&ret_more[i], 1 * MB), CUDA_SUCCESS);
        taken += is_one_of_many(ret_more[i]);
    }
    return taken;
}

/* The codes of objects that are gone, in a context that is there: nothing is handed out, and nothing is lost. */
TEST(r01_r26_r103_a_question_that_is_refused_says_nothing_about_the_work)
{
    static const CUresult codes[] = {CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
            CUDA_ERROR_CONTEXT_IS_DESTROYED, (CUresult)CUDA_ERROR_STREAM_DETACHED};
    static const char *const calls[] = {
            "cuEventQuery", "cuEventSynchronize", "cuCtxRecordEvent", "cuCtxSynchronize"};
    void (*fail)(const char *call, unsigned times, CUresult code);
    void (*clear)(void);
    CUdeviceptr more[MANY];

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    client_init();
    fail = (__typeof__(fail))client_sim("simcuda_fail_next");
    clear = (__typeof__(clear))client_sim("simcuda_fail_clear");
    REQUIRE_EQ(cu->cuStreamCreate(&late, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
            write_and_free_many();
            fail(calls[k], 0, codes[i]);
            CHECK_EQ(allocate_more(more, 20), 0);
            clear();
            REQUIRE_EQ(cu->cuStreamSynchronize(late), CUDA_SUCCESS);
            for (int n = 0; n < 20; n++)
                REQUIRE_EQ(cu->cuMemFree_v2(more[n]), CUDA_SUCCESS);
            CHECK_GE(allocate_more(more, MANY), MANY / 2); /* known again */
            for (int n = 0; n < MANY; n++)
                REQUIRE_EQ(cu->cuMemFree_v2(more[n]), CUDA_SUCCESS);
            REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        }
}

/*
 * A stream whose green context is gone takes no event: what is freed on it waits for its context instead, and is neither lost nor
 * handed out too early.
 */
TEST(memory_of_a_detached_stream_waits_for_its_context)
{
    void (*fail)(const char *call, unsigned times, CUresult code);
    void (*clear)(void);
    size_t before = 0, after = 0, total;
    CUstream other;
    CUdeviceptr ptr, next;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "meminfo=driver", 1) == 0);
    client_init();
    fail = (__typeof__(fail))client_sim("simcuda_fail_next");
    clear = (__typeof__(clear))client_sim("simcuda_fail_clear");
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&late, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 20; i++) {
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 8 * MB, other), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 0x22, 8 * MB, late), CUDA_SUCCESS);
        fail("cuEventRecord", 0, (CUresult)CUDA_ERROR_STREAM_DETACHED);
        CHECK_EQ(cu->cuMemFreeAsync(ptr, late), CUDA_SUCCESS);
        clear();
        REQUIRE_EQ(cu->cuMemAllocAsync(&next, 8 * MB, other), CUDA_SUCCESS);
        CHECK_NE(next, ptr);
        REQUIRE_EQ(cu->cuMemFreeAsync(next, other), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    }
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
    CHECK_LE(before - after, 64 * MB); /* of 160 that went by: nothing is lost */
}

/* SPDX-License-Identifier: MIT */
/*
 * What must not depend on how many there are, or were, and how long an answer takes that the driver gives at once: on two devices of
 * 1 GiB. Each test is a program of its own.
 */
#include "tests/preload/client.h"
#include "tests/preload/said.h"

#include <unistd.h>

#define MB    ((size_t)1 << 20)
#define GB    ((size_t)1 << 30)
#define POOLS 80

static void begin(void)
{
    REQUIRE(setenv("SIMCUDA_MEMORY", "1G", 1) == 0);
    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "fence-timeout=200", 1) == 0);
    client_init();
}

static CUstream new_stream(void)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props;
    CUmemoryPool pool = NULL;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cu->cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    return pool;
}

static CUdeviceptr alloc_from(CUmemoryPool pool, size_t size, CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&ptr, size, pool, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, size, stream), CUDA_SUCCESS);
    return ptr;
}

/* Bytes that the device counts. */
static uint64_t held(void)
{
    __typeof__(&simcuda_stats) stats = (__typeof__(stats))client_sim("simcuda_stats");
    struct simcuda_stats figures = {.size = sizeof figures};

    REQUIRE(stats != NULL);
    REQUIRE_EQ(stats(&figures), 0);
    return figures.held[0];
}

/* ---- pools ---- */

TEST(r81_what_any_pool_has_free_goes_before_a_request_is_refused)
{
    CUstream first, second;
    CUmemoryPool pool;
    CUdeviceptr ptr;

    begin();
    first = new_stream();
    second = new_stream();
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 600 * MB, first), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 600 * MB, first), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, first), CUDA_SUCCESS);
    for (int i = 0; i < POOLS; i++) {
        pool = new_pool();
        REQUIRE_EQ(cu->cuMemFreeAsync(alloc_from(pool, 64 << 10, second), second), CUDA_SUCCESS);
    }
    CHECK_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 600 * MB, pool, second), CUDA_SUCCESS);
}

TEST(r78_a_wait_trims_every_pool)
{
    CUstream first, second;
    CUdeviceptr ptr;

    begin();
    first = new_stream();
    second = new_stream();
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 600 * MB, first), CUDA_SUCCESS);
    for (int i = 0; i < POOLS;
            i++) /* they are newer, hold what they need, and have a threshold of 0 */
        (void)alloc_from(new_pool(), 64 << 10, second);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 600 * MB, first), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, first), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LE(held(), POOLS * 2 * MB);
}

TEST(r77_a_wait_gives_back_what_a_destroyed_pool_had)
{
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr ptr;

    begin();
    stream = new_stream();
    pool = new_pool();
    ptr = alloc_from(pool, 600 * MB, stream);
    REQUIRE_EQ(cu->cuMemPoolDestroy(pool), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_EQ(held(), 600 * MB);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(held(), 0);
}

/* It is a pool no more, so that it holds nothing back: neither by its threshold, nor for a block that is live still. */
TEST(r77_nor_does_it_keep_what_is_free_beside_a_live_block)
{
    cuuint64_t threshold = UINT64_MAX;
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr ptr;

    begin();
    stream = new_stream();
    pool = new_pool();
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
    ptr = alloc_from(pool, 600 * MB, stream);
    (void)alloc_from(pool, 2 * MB, stream);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(held(), 602 * MB);
    REQUIRE_EQ(cu->cuMemPoolDestroy(pool), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(held(), 2 * MB);
}

/* ---- waits ---- */

/* A stream that waits for the host; *ret_flag is where it looks. */
static CUstream stall(CUdeviceptr *ret_flag)
{
    __typeof__(&cuStreamWaitValue32_v2) wait =
            (__typeof__(wait))client_sim("cuStreamWaitValue32_v2");
    CUstream stream = new_stream();

    REQUIRE(wait != NULL);
    REQUIRE_EQ(cu->cuMemAlloc_v2(ret_flag, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8_v2(*ret_flag, 0, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(wait(stream, *ret_flag, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    return stream;
}

static void go_on(CUdeviceptr flag, CUstream other)
{
    __typeof__(&cuStreamWriteValue32_v2) write =
            (__typeof__(write))client_sim("cuStreamWriteValue32_v2");

    REQUIRE(write != NULL);
    CHECK_EQ(write(other, flag, 1, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* How often the driver was asked for the state of an event: a wait asks again and again. */
#define LOOKS     200
#define FEW_LOOKS 100

TEST(r104_what_can_never_be_served_is_refused_at_once)
{
    CUstream stalled, stream;
    CUdeviceptr ptr, flag;
    uint64_t before;

    begin();
    stream = new_stream();
    stalled = stall(&flag);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(cu->cuMemFreeAsync(alloc_from(new_pool(), 64 << 10, stalled), stalled),
                CUDA_SUCCESS);
    before = client_calls("cuEventQuery");
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 5 * GB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 5 * GB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_LE(client_calls("cuEventQuery") - before, LOOKS);
    go_on(flag, stream);
}

/* The size of an array is known by its description. */
TEST(nor_does_an_array_wait_that_can_never_be_made)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 32768, .Height = 32768, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    CUstream stalled, stream;
    CUdeviceptr flag;
    uint64_t before;
    CUarray array;

    begin();
    stream = new_stream();
    stalled = stall(&flag);
    REQUIRE_EQ(cu->cuMemFreeAsync(alloc_from(new_pool(), 2 * MB, stalled), stalled), CUDA_SUCCESS);
    before = client_calls("cuEventQuery");
    CHECK_EQ(cu->cuArrayCreate_v2(&array, &desc), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_LE(client_calls("cuEventQuery") - before, FEW_LOOKS);
    go_on(flag, stream);
}

/* What fits beside what is free and pending is served, though less is left for others than is set aside for them. */
TEST(r73_nobody_waits_for_the_sake_of_the_reserve)
{
    CUstream stalled, stream;
    CUdeviceptr ptr, flag;
    uint64_t before;

    begin();
    stream = new_stream();
    stalled = stall(&flag);
    REQUIRE_EQ(cu->cuMemFreeAsync(alloc_from(new_pool(), 8 * MB, stalled), stalled), CUDA_SUCCESS);
    before = client_calls("cuEventQuery");
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 800 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 100 * MB, stream), CUDA_SUCCESS);
    CHECK_LE(client_calls("cuEventQuery") - before, FEW_LOOKS);
    go_on(flag, stream);
}

/* The stream waits for the host, so no pool is waited for as long as one may (here 0.2 s): a look at each is enough, for the first request and
 * for later ones. */
TEST(r104_nobody_waits_for_many_pools_of_a_stream_that_is_stalled)
{
    CUstream stalled, stream;
    CUdeviceptr ptr, flag;

    begin();
    stream = new_stream();
    stalled = stall(&flag);
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(
                cu->cuMemFreeAsync(alloc_from(new_pool(), 2 * MB, stalled), stalled), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        uint64_t before = client_calls("cuEventQuery");

        CHECK_EQ(cu->cuMemAllocAsync(&ptr, 1000 * MB, stream), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK_LE(client_calls("cuEventQuery") - before, 1000);
    }
    go_on(flag, stream);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 1000 * MB, stream), CUDA_SUCCESS);
}

/* Plain memory that is free goes back by cuMemFree, which waits for the context: not while a stream of it waits for the host. Natively
 * none of these calls waits. */
TEST(r104_a_request_does_not_wait_for_the_host)
{
    CUdeviceptr blocks[5], ptr, flag;
    CUstream stream;

    begin();
    stream = new_stream();
    for (int i = 0; i < 5; i++)
        REQUIRE_EQ(cu->cuMemAlloc_v2(&blocks[i], (180 + 4 * (size_t)i) * MB), CUDA_SUCCESS);
    for (int i = 0; i < 5; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(blocks[i]), CUDA_SUCCESS);
    (void)stall(&flag);
    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 150 * MB, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 150 * MB, stream), CUDA_SUCCESS);
        if (i % 2 == 0)
            REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    }
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 100 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    /* what cannot be had without giving back has an end, too */
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 400 * MB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    go_on(flag, stream);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 400 * MB, stream), CUDA_SUCCESS);
}

/* ---- what has gone ---- */

/* Pages of the program that are in memory. */
static long resident(void)
{
    long size = 0;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    REQUIRE(file != NULL);
    REQUIRE_EQ(fscanf(file, "%ld %ld", &size, &pages), 2);
    (void)fclose(file);
    return pages;
}

/* Each has a block of its own, cut from what is free, and nobody needs that again. */
static void come_and_go(int count)
{
    for (int i = 0; i < count; i++) {
        CUstream stream = new_stream();
        CUdeviceptr ptr;

        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 512, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 512, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
        if (i % 64 == 0)
            REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    }
}

TEST(r107_streams_that_have_gone_leave_nothing_behind)
{
    cuuint64_t threshold = UINT64_MAX;
    CUmemoryPool pool;
    CUdeviceptr ptr;
    CUstream stream;
    long before;

    begin();
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 256 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    come_and_go(500);
    before = resident();
    come_and_go(1500);
    CHECK_LE(resident(), before + 256); /* a megabyte; each stream would leave 14 KiB */
}

/* ---- peers ---- */

/* Access is given from context to context: one that gives it up takes nothing from another one of its device. */
TEST(r30_access_to_a_peer_belongs_to_contexts)
{
    CUcontext second = NULL;
    CUcontext peer = NULL;
    CUdeviceptr ptr, later;

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "sync=mapped", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(cu->cuCtxSetCurrent(i ? second : cu->context), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxEnablePeerAccess(peer, 0), CUDA_SUCCESS);
    }
    REQUIRE_EQ(cu->cuCtxDisablePeerAccess(peer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&later, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 4 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(later, 1, 4 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* A context of another device goes on reaching what a peer gets after that was reset, or after kedge has missed how it got access. */
static void reach_again(bool missed)
{
    CUcontext peer = NULL;
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "sync=mapped", 1) == 0);
    if (missed)
        REQUIRE(setenv("SIMCUDA_FAIL",
                        "cuCtxEnablePeerAccess:1+:CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", 1)
                == 0);
    client_init();
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
        CHECK_EQ(cu->cuCtxEnablePeerAccess(peer, 0),
                missed ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 4 * MB), CUDA_SUCCESS);
        CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(1), CUDA_SUCCESS);
    }
}

TEST(r30_a_reset_ends_access_that_can_be_given_again)
{
    reach_again(false);
}

TEST(r30_access_that_the_driver_has_given_already_counts)
{
    reach_again(true);
}

/* The driver serves a request of the pool, for there is a capture; then both are gone. */
static void spill_once(CUstream captured, CUstream stream)
{
    CUmemoryPool pool = new_pool();
    CUdeviceptr ptr;
    CUgraph graph;

    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    ptr = alloc_from(pool, MB, stream);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST(pools_that_the_driver_helped_and_that_have_gone_leave_room_for_others)
{
    CUstream captured, stream;
    unsigned all;

    said_begin();
    begin();
    captured = new_stream();
    stream = new_stream();
    for (int i = 0; i < POOLS; i++)
        spill_once(captured, stream);
    CHECK_EQ(said_with("more memory pools", &all), 0);
}

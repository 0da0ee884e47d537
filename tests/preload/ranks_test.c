/* SPDX-License-Identifier: MIT */
/*
 * ranks_test.c - two ranks that send to each other, on a device that is nearly full (R73).
 *
 * Each rank receives into a block that it frees at once in stream order, and then wants memory for what it sends itself. All
 * that is free then is behind the receive, which waits for the other rank's send, which waits for memory: whoever waited
 * for it without an end would wait for ever, both of them. Natively the answer is OOM, and a program sends from where it is.
 */
#include "tests/preload/client.h"

#include <unistd.h>

#define MB ((size_t)1 << 20)

enum {
    RANKS = 2,
    STEPS = 4,
    PATIENCE = 60, /* seconds; a rank that waits for ever is ended */
};

static CUdeviceptr flags; /* a word for each rank: the sends that it has made */
static CUmemoryPool mempool;
static __typeof__(&cuStreamWaitValue32_v2) wait_value;
static __typeof__(&cuStreamWriteValue32_v2) write_value;
static pthread_barrier_t both;
static atomic_int refusals, steps_done;

static CUdeviceptr flag_of(int rank)
{
    return flags + 4 * (unsigned)rank;
}

static void receive(int rank, uint32_t step, CUstream stream)
{
    CUdeviceptr block = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&block, 40 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(wait_value(stream, flag_of(1 - rank), step, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8Async(block, (unsigned char)step, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(block, stream), CUDA_SUCCESS);
}

static void send(int rank, uint32_t step, CUstream stream)
{
    CUdeviceptr block = 0;
    CUresult result = cu->cuMemAllocAsync(&block, 40 * MB, stream);

    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        atomic_fetch_add(&refusals, 1);
    } else {
        CHECK_EQ(result, CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8Async(block, (unsigned char)step, 4096, stream), CUDA_SUCCESS);
    }
    CHECK_EQ(write_value(stream, flag_of(rank), step, 0), CUDA_SUCCESS);
    if (block)
        CHECK_EQ(cu->cuMemFreeAsync(block, stream), CUDA_SUCCESS);
}

static void *run_rank(void *data)
{
    int rank = (int)(intptr_t)data;
    CUstream receives = NULL, sends = NULL;

    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamCreate(&receives, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamCreate(&sends, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (uint32_t step = 1; step <= STEPS; step++) {
        receive(rank, step, receives);
        pthread_barrier_wait(&both);
        send(rank, step, sends);
        CHECK_EQ(cu->cuStreamSynchronize(sends), CUDA_SUCCESS);
        CHECK_EQ(cu->cuStreamSynchronize(receives), CUDA_SUCCESS);
        atomic_fetch_add(&steps_done, 1);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

TEST(r73_two_ranks_with_crossed_sends_finish_on_a_full_device)
{
    pthread_t thread[RANKS];
    int no = 0;

    REQUIRE(setenv("SIMCUDA_MEMORY", "100M", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "fence-timeout=50", 1) == 0);
    client_init();
    wait_value = (__typeof__(wait_value))client_sim("cuStreamWaitValue32_v2");
    write_value = (__typeof__(write_value))client_sim("cuStreamWriteValue32_v2");
    REQUIRE(wait_value && write_value);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&flags, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8_v2(flags, 0, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    /* else the sends would be put behind the receives on the device, which would never end natively either */
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(
                       mempool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no),
            CUDA_SUCCESS);
    REQUIRE(pthread_barrier_init(&both, NULL, RANKS) == 0);
    (void)alarm(PATIENCE);
    for (int i = 0; i < RANKS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, run_rank, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < RANKS; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    CHECK_EQ(atomic_load(&steps_done), RANKS * STEPS);
    CHECK_GT(atomic_load(&refusals), 0); /* else the device was not full, and nothing was shown */
}

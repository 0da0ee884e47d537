/* SPDX-License-Identifier: MIT */
/*
 * Threads that come and go, each with a default stream of its own. Run with the library that ships in the slow suite; else with
 * one that has room for few streams (kedge_small).
 */
#include "tests/preload/client.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS = 300, /* more than there is room for at one time; TEST_THREADS: another number */
};

static atomic_int served;

/* The thread's own stream: nobody names it after the thread. */
static void *use_own_stream(void *data)
{
    CUdeviceptr ptr = 0;

    (void)data;
    if (cu->cuCtxSetCurrent(cu->context) == CUDA_SUCCESS
            && cu->cuMemAllocAsync_ptsz(&ptr, 64 << 10, NULL) == CUDA_SUCCESS
            && cu->cuMemFreeAsync_ptsz(ptr, NULL) == CUDA_SUCCESS)
        atomic_fetch_add(&served, 1);
    return NULL;
}

TEST(r69_streams_of_threads_end_with_them)
{
    const char *wanted = getenv("TEST_THREADS");
    int threads = wanted ? atoi(wanted) : THREADS;

    client_init();
    for (int i = 0; i < threads; i++) {
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, use_own_stream, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECK_EQ(atomic_load(&served), threads);
    CHECK_EQ(client_calls("cuMemAllocAsync_ptsz"), 0); /* none was left to the driver */
    CHECK_EQ(client_calls("cuMemFreeAsync_ptsz"), 0);
}

/* ---- work that outlives its thread -------------------------------------------------------------- */

#define MB ((size_t)1 << 20)

static CUdeviceptr first, kept;

/* Fills a block, copies it away, frees it, and ends before any of it has run. */
static void *fill_and_end(void *data)
{
    (void)data;
    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS
            || cu->cuMemAllocAsync_ptsz(&first, 4 * MB, NULL) != CUDA_SUCCESS)
        return NULL;
    CHECK_EQ(cu->cuMemsetD8Async(first, 0x11, 4 * MB, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(kept, first, 4 * MB, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync_ptsz(first, NULL), CUDA_SUCCESS);
    return NULL;
}

static size_t wrong_bytes(CUdeviceptr ptr, unsigned char right)
{
    static unsigned char host[4 * MB];
    size_t wrong = 0;

    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(host, ptr, sizeof host), CUDA_SUCCESS);
    for (size_t i = 0; i < sizeof host; i++)
        wrong += host[i] != right;
    return wrong;
}

TEST(r69_r5_work_of_a_thread_that_ended_keeps_its_memory)
{
    CUdeviceptr second = 0;
    CUstream stream = NULL;
    pthread_t thread;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0); /* nothing runs before it is waited for */
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&kept, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, fill_and_end, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(first);
    for (int i = 0; i < 64 && second != first; i++) { /* the pool has more than this one block */
        REQUIRE_EQ(cu->cuMemAllocAsync(&second, 4 * MB, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(second, 0x22, 4 * MB, stream), CUDA_SUCCESS);
    }
    CHECK_EQ(client_calls("cuMemAllocAsync"), 0);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(wrong_bytes(kept, 0x11), 0);
    CHECK_EQ(wrong_bytes(second, 0x22), 0); /* the work of the ended thread came before */
    printf("the memory was %s\n", second == first ? "used again" : "not used again");
    CHECK_EQ(second, first);
}

/* ---- two threads, and the device as a witness ------------------------------------------------ */

static void born(CUdeviceptr ptr)
{
    __typeof__(&simcuda_witness_birth) birth =
            (__typeof__(birth))client_sim("simcuda_witness_birth");

    birth(ptr, 4 * MB, CU_STREAM_PER_THREAD);
}

static void dies(CUdeviceptr ptr)
{
    __typeof__(&simcuda_witness_death) death =
            (__typeof__(death))client_sim("simcuda_witness_death");

    death(ptr, CU_STREAM_PER_THREAD);
}

/* What the other thread has freed on its own stream a moment ago, and what that has queued has not run. */
static void *fill_another(void *data)
{
    CUdeviceptr *ret_ptr = data;

    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS
            || cu->cuMemAllocAsync_ptsz(ret_ptr, 4 * MB, NULL) != CUDA_SUCCESS)
        return NULL;
    born(*ret_ptr);
    CHECK_EQ(cu->cuMemsetD8Async(*ret_ptr, 0x22, 4 * MB, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    return NULL;
}

/* No other stream than the two, so that no event between them is owed to the default stream. */
TEST(r69_own_streams_of_two_threads_are_two_streams)
{
    CUdeviceptr second = 0;
    pthread_t thread;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0); /* nothing runs before it is waited for */
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&kept, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync_ptsz(&first, 4 * MB, NULL), CUDA_SUCCESS);
    born(first);
    REQUIRE_EQ(cu->cuMemsetD8Async(first, 0x11, 4 * MB, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoDAsync_v2(kept, first, 4 * MB, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    dies(first);
    REQUIRE_EQ(cu->cuMemFreeAsync_ptsz(first, NULL), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, fill_another, &second) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(second);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(wrong_bytes(kept, 0x11), 0);
    CHECK_EQ(wrong_bytes(second, 0x22), 0);
}

/* SPDX-License-Identifier: MIT */
/*
 * A begin of a capture beside a thread that waits for the device inside kedge (R96). Run with the driver of today, and with one
 * that has no cuCtxRecordEvent.
 */
#include "tests/preload/client.h"

#include <pthread.h>

#define MB ((size_t)1 << 20)

static CUdeviceptr waited_for;

/* A free that waits for the device, which is busy. */
static void *free_and_wait(void *unused)
{
    (void)unused;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(waited_for), CUDA_SUCCESS);
    return NULL;
}

/* A request for which an epoch is closed. It may come to nothing, since nobody waits for the device beside a capture. */
static void *alloc_and_wait(void *unused)
{
    CUdeviceptr ptr = 0;

    (void)unused;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(waited_for), CUDA_SUCCESS);
    (void)cu->cuMemAlloc_v2(&ptr, 1536 * MB);
    return NULL;
}

/*
 * The other thread stands in the driver until this one's capture has ended, as it would where the device waits for what is
 * launched after it. Before that its wait does not come back, so a begin that waits for it fails this by the device's patience.
 */
static void capture_beside(void *(*wait)(void *), const char *sync_free, const char *park)
{
    struct simcuda_stats figures = {.size = sizeof figures};
    __typeof__(&simcuda_stats) stats;
    CUgraph graph = NULL;
    CUstream stream;
    pthread_t thread;

    REQUIRE(setenv("KEDGE_SYNC_FREE", sync_free, 1) == 0);
    REQUIRE(setenv("SIMCUDA_PARK", park, 1) == 0);
    client_init();
    stats = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&waited_for, 1024 * MB), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, wait, NULL) == 0);
    REQUIRE(((__typeof__(&simcuda_wait_parked))client_sim("simcuda_wait_parked"))(1));
    CHECK_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    REQUIRE(pthread_join(thread, NULL) == 0);
    stats(&figures);
    CHECK_EQ(figures.parks, 1);
    CHECK_EQ(figures.park_timeouts, 0);
    CHECK_EQ(figures.captures_invalidated, 0);
}

TEST(r96_a_begin_does_not_wait_for_a_free_that_waits)
{
    capture_beside(free_and_wait, "1",
            "cuCtxSynchronize:1:cuStreamEndCapture,cuEventSynchronize:1:cuStreamEndCapture");
}

/* Where the fence is an event, the driver may hold up the call that records it: a queue that is full takes none. */
TEST(r96_a_begin_does_not_wait_for_an_epoch_that_the_driver_holds_up)
{
    capture_beside(alloc_and_wait, "0",
            "cuCtxSynchronize:1:cuStreamEndCapture,cuCtxRecordEvent:1:cuStreamEndCapture");
}

/* SPDX-License-Identifier: MIT */
/* Captures beside a thread that allocates (R10, R67): none is spoilt, and each replays what it caught. */
#include "tests/gpu/gpu_device.h"

#include <sched.h>

enum {
    CAPTURES = 300,
};

static atomic_bool stop;
static atomic_int rounds;

static void *allocate_for_ever(void *data)
{
    (void)data;
    gpu_here();
    while (!atomic_load(&stop)) {
        CUdeviceptr ptr[4];

        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr[i], 40000), CUDA_SUCCESS);
        for (int i = 0; i < 4; i++)
            GPU_OK(cuMemFree_v2(ptr[i]));
        atomic_fetch_add(&rounds, 1);
        (void)sched_yield();
    }
    return NULL;
}

TEST(r10_r67_captures_survive_a_thread_that_allocates)
{
    CUdeviceptr box;
    volatile uint32_t *host;
    CUstream stream = NULL;
    pthread_t thread;

    gpu_init();
    host = gpu_mailbox(&box);
    REQUIRE_EQ(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
    while (atomic_load(&rounds) == 0)
        (void)sched_yield();
    for (unsigned i = 1; i <= CAPTURES; i++) {
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;

        REQUIRE_EQ(gpu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                CUDA_SUCCESS);
        GPU_OK(cuMemsetD32Async(box, i, 1, stream));
        (void)sched_yield();
        REQUIRE_EQ(gpu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
        GPU_OK(cuGraphLaunch(exec, stream));
        GPU_OK(cuStreamSynchronize(stream));
        CHECK_EQ(host[0], i);
        GPU_OK(cuGraphExecDestroy(exec));
        GPU_OK(cuGraphDestroy(graph));
    }
    atomic_store(&stop, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    gpu_fact("captures_beside_allocations", "%d captures, none spoilt", CAPTURES);
}

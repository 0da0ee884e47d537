/* SPDX-License-Identifier: MIT */
/* covers: ending.c hooks_context.c */
/*
 * Two devices. What is freed on one of them waits for work of the other one only if that may use it: by each way to it the block is not
 * handed out before, and without a way a device that is busy holds nothing of the other one.
 */
#include "tests/preload/client.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define MB      ((size_t)1 << 20)
#define BLOCK   (4 * MB)
#define OLD     0x11
#define FRESH   0x22
#define AT_ONCE 3.0 /* seconds, for what must not wait for a fence */

/* A device with its primary context and a non-blocking stream. */
struct side {
    CUcontext context;
    CUstream stream;
};

static struct side sides[2];
static void *pinned;            /* the word that streams wait for, */
static _Atomic(uint32_t) *flag; /* and the same */

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on(int device)
{
    REQUIRE_EQ(cu->cuCtxSetCurrent(sides[device].context), CUDA_SUCCESS);
}

static void begin(void)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "eager", 1) == 0);
    REQUIRE(setenv("SIMCUDA_MEMORY", "256M", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "fence-timeout=200", 1) == 0);
    client_init();
    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&sides[i].context, i), CUDA_SUCCESS);
        on(i);
        REQUIRE_EQ(cu->cuStreamCreate(&sides[i].stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
    REQUIRE_EQ(cu->cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    flag = pinned;
    atomic_store(flag, 0);
}

/* The device does nothing more on its stream until release. */
static void hold(int device)
{
    __typeof__(&cuStreamWaitValue32_v2) wait =
            (__typeof__(wait))client_sim("cuStreamWaitValue32_v2");

    on(device);
    REQUIRE_EQ(wait(sides[device].stream, (CUdeviceptr)(uintptr_t)pinned, 1, 0), CUDA_SUCCESS);
}

static void release(void)
{
    atomic_store(flag, 1);
    for (int i = 0; i < 2; i++) {
        on(i);
        CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    }
}

static CUdeviceptr block_on(int device, int value)
{
    CUdeviceptr ptr = 0;

    on(device);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, BLOCK), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8_v2(ptr, (unsigned char)value, BLOCK), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    return ptr;
}

/* The block goes while work of the other device is pending that writes it. Nobody else's data may be hit by that. */
static void free_and_refill(int device, CUdeviceptr block)
{
    static unsigned char host[BLOCK];
    CUdeviceptr fresh = 0;
    size_t wrong = 0;

    on(device);
    CHECK_EQ(cu->cuMemFree_v2(block), CUDA_SUCCESS);
    for (int i = 0; i < 3 && !fresh; i++) { /* the first may only close an epoch */
        REQUIRE_EQ(cu->cuMemAlloc_v2(&fresh, BLOCK), CUDA_SUCCESS);
        CHECK(fresh != block);
        REQUIRE_EQ(cu->cuMemsetD8Async(fresh, FRESH, BLOCK, sides[device].stream), CUDA_SUCCESS);
    }
    release();
    on(device);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(host, fresh, BLOCK), CUDA_SUCCESS);
    for (size_t i = 0; i < BLOCK; i++)
        wrong += host[i] != FRESH;
    CHECK_EQ(wrong, 0);
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* A kernel of device 1 writes the sum of memory of its own into the block. */
static void sum_into(CUdeviceptr block, CUdeviceptr source)
{
    CUfunction sum;

    on(1);
    sum = client_sum_kernel();
    hold(1);
    CHECK_EQ(client_sum(sum, block, source, BLOCK, sides[1].stream), CUDA_SUCCESS);
}

TEST(r01_r30_a_peer_is_waited_for)
{
    CUdeviceptr block, source;

    begin();
    block = block_on(0, 0);
    source = block_on(1, OLD);
    REQUIRE_EQ(cu->cuCtxEnablePeerAccess(sides[0].context, 0), CUDA_SUCCESS);
    sum_into(block, source);
    free_and_refill(0, block);
}

TEST(r01_r77_a_device_with_access_to_the_pool_is_waited_for)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr block = 0;
    CUdeviceptr source;
    CUmemoryPool mempool;

    begin();
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    source = block_on(1, OLD);
    on(0);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolSetAccess(mempool, &access, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&block, BLOCK, sides[0].stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    sum_into(block, source);
    on(0);
    CHECK_EQ(cu->cuMemFree_v2(block), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr fresh = 0;

        REQUIRE_EQ(cu->cuMemAllocAsync(&fresh, BLOCK, sides[0].stream), CUDA_SUCCESS);
        CHECK(fresh != block);
    }
    release();
}

TEST(r01_a_copy_between_peers_is_waited_for)
{
    __typeof__(&cuMemcpyPeerAsync) copy = NULL;
    CUdeviceptr block, source;

    begin();
    copy = (__typeof__(copy))client_sim("cuMemcpyPeerAsync");
    block = block_on(0, 0);
    source = block_on(1, OLD);
    hold(1);
    CHECK_EQ(copy(block, sides[0].context, source, sides[1].context, BLOCK, sides[1].stream),
            CUDA_SUCCESS);
    free_and_refill(0, block);
}

TEST(r01_a_copy_that_names_another_device_is_waited_for)
{
    CUdeviceptr block, source;

    begin();
    block = block_on(0, 0);
    source = block_on(1, OLD);
    hold(1);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(block, source, BLOCK, sides[1].stream), CUDA_SUCCESS);
    free_and_refill(0, block);
}

/* A copy may be given to a stream of another device than the current one (CUDA runtime API, Device Management). */
TEST(r01_a_copy_on_a_stream_of_another_device_is_waited_for)
{
    CUdeviceptr block, source;

    begin();
    block = block_on(0, 0);
    source = block_on(0, OLD);
    hold(1);
    on(0);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(block, source, BLOCK, sides[1].stream), CUDA_SUCCESS);
    free_and_refill(0, block);
}

/* What the graph named is nobody's once it is gone, but its launch is still to come. */
static void launch_and_destroy(int captured, int launched, CUdeviceptr to, CUdeviceptr from)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    on(captured);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(sides[captured].stream, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(to, from, BLOCK, sides[captured].stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(sides[captured].stream, &graph), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    hold(launched);
    CHECK_EQ(cu->cuGraphLaunch(exec, sides[launched].stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST(r01_a_graph_that_names_another_device_is_waited_for)
{
    CUdeviceptr block, source;

    begin();
    block = block_on(0, 0);
    source = block_on(1, OLD);
    launch_and_destroy(1, 1, block, source);
    free_and_refill(0, block);
}

/* A node runs where it was captured. */
TEST(r01_a_graph_with_nodes_of_another_device_is_waited_for)
{
    CUdeviceptr block, source;

    begin();
    block = block_on(0, 0);
    source = block_on(0, OLD);
    launch_and_destroy(0, 1, block, source);
    free_and_refill(0, block);
}

/* ---- without a way --------------------------------------------------------------------------- */

/* As much as there is, in other sizes each time. */
static void fill_again_and_again(int device, bool ordered)
{
    double begun = now();

    on(device);
    for (size_t i = 0; i < 4; i++) {
        CUdeviceptr ptr = 0;
        size_t size = (150 + 10 * i) * MB;

        REQUIRE_EQ(ordered ? cu->cuMemAllocAsync(&ptr, size, sides[device].stream)
                           : cu->cuMemAlloc_v2(&ptr, size),
                CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8Async(ptr, FRESH, BLOCK, sides[device].stream), CUDA_SUCCESS);
        CHECK_EQ(cu->cuStreamSynchronize(sides[device].stream), CUDA_SUCCESS);
        CHECK_EQ(ordered ? cu->cuMemFreeAsync(ptr, sides[device].stream) : cu->cuMemFree_v2(ptr),
                CUDA_SUCCESS);
    }
    CHECK(now() - begun < AT_ONCE);
}

TEST(r73_a_busy_device_holds_nothing_of_another_one)
{
    CUdeviceptr own;

    begin();
    own = block_on(1, OLD);
    hold(1);
    CHECK_EQ(cu->cuMemsetD8Async(own, FRESH, BLOCK, sides[1].stream), CUDA_SUCCESS);
    fill_again_and_again(0, false);
    fill_again_and_again(0, true);
    fill_again_and_again(0, false);
    release();
}

/* Blocks of both devices wait at the same time. */
TEST(r73_what_a_busy_device_has_freed_does_not_hold_up_the_others)
{
    CUdeviceptr own;

    begin();
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    own = block_on(1, OLD);
    hold(1);
    CHECK_EQ(cu->cuMemsetD8Async(own, FRESH, BLOCK, sides[1].stream), CUDA_SUCCESS);
    (void)block_on(0, OLD);
    on(1);
    CHECK_EQ(cu->cuMemFreeAsync(own, sides[1].stream), CUDA_SUCCESS);
    fill_again_and_again(0, false);
    release();
}

/* A graph of the busy device's own is no way, either. */
TEST(r73_a_graph_of_a_busy_device_holds_nothing_of_another_one)
{
    CUdeviceptr to, from;

    begin();
    to = block_on(1, OLD);
    from = block_on(1, FRESH);
    launch_and_destroy(1, 1, to, from);
    fill_again_and_again(0, false);
    release();
}

static atomic_bool is_over;

static void *end_context(void *context)
{
    CHECK_EQ(cu->cuCtxDestroy_v2(context), CUDA_SUCCESS);
    atomic_store(&is_over, true);
    return NULL;
}

TEST(r73_a_context_that_is_being_ended_holds_nothing_of_another_device)
{
    struct timespec moment = {0, 50000000};
    CUcontext context = NULL;
    CUdeviceptr ptr = 0;
    CUdeviceptr old;
    pthread_t thread;

    begin();
    on(0);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&old, 150 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&context, 0, 1), CUDA_SUCCESS);
    sides[1].context = context;
    REQUIRE_EQ(cu->cuStreamCreate(&sides[1].stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, BLOCK), CUDA_SUCCESS);
    hold(1);
    CHECK_EQ(cu->cuMemsetD8Async(ptr, FRESH, BLOCK, sides[1].stream), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, end_context, context) == 0);
    (void)nanosleep(&moment, NULL);
    CHECK(!atomic_load(&is_over)); /* it waits for the work */
    on(0);
    CHECK_EQ(cu->cuMemFree_v2(old), CUDA_SUCCESS); /* allocated before the end began */
    fill_again_and_again(0, false);
    atomic_store(flag, 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

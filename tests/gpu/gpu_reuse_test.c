/* SPDX-License-Identifier: MIT */
/*
 * The old tenant reads while the new one writes (R1, R63): a kernel that is late sums up a block, the block is freed, the next
 * block of that size is overwritten on another stream. The sum must be the old tenant's.
 */
#include "tests/gpu/gpu_device.h"

enum {
    BYTES = 3 << 20,
    ROUNDS = 8,
    LATE_MS = 20,
};

struct reader {
    CUstream stream;
    CUdeviceptr block, out;
    CUgraphExec graph; /* launched instead of the kernel, if there is one */
};

static uint64_t value_at(CUdeviceptr ptr)
{
    uint64_t value = 0;

    GPU_OK(cuMemcpyDtoH_v2(&value, ptr, sizeof value));
    return value;
}

static CUdeviceptr new_block(unsigned char fill)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr, BYTES), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8_v2(ptr, fill, BYTES));
    GPU_OK(cuCtxSynchronize());
    return ptr;
}

static CUdeviceptr new_sum(void)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr, 8), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8_v2(ptr, 0, 8));
    GPU_OK(cuCtxSynchronize());
    return ptr;
}

/* What the sum of a block that is filled with 0x11 is. */
static uint64_t expected_sum(void)
{
    CUdeviceptr block = new_block(0x11);
    CUdeviceptr out = new_sum();
    uint64_t value;

    gpu_sum(out, block, BYTES, NULL);
    GPU_OK(cuCtxSynchronize());
    value = value_at(out);
    GPU_OK(cuMemFree_v2(block));
    GPU_OK(cuMemFree_v2(out));
    CHECK_NE(value, 0);
    return value;
}

static void *submit(void *data)
{
    struct reader *r = data;

    gpu_here();
    gpu_hold(r->stream, LATE_MS);
    if (r->graph)
        GPU_OK(cuGraphLaunch(r->graph, r->stream));
    else
        gpu_sum(r->out, r->block, BYTES, r->stream);
    return NULL;
}

/* In a thread of its own: its per-thread stream is nobody else's, and ends with the thread. */
static void submit_in_thread(struct reader *r)
{
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, submit, r) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* Frees under the reader and gives the memory to a writer on another stream. Returns whether it was the same memory. */
static bool meet(CUdeviceptr block, CUstream writer)
{
    CUdeviceptr next = 0;
    bool same;

    GPU_OK(cuMemFree_v2(block));
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&next, BYTES), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8Async(next, 0x22, BYTES, writer));
    same = next == block;
    GPU_OK(cuCtxSynchronize());
    GPU_OK(cuMemFree_v2(next));
    return same;
}

static void sync_free_under(const char *name, CUstream reader_stream)
{
    CUstream writer = gpu_stream(CU_STREAM_NON_BLOCKING);
    uint64_t expected = expected_sum();
    int same = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct reader r = {.stream = reader_stream, .block = new_block(0x11), .out = new_sum()};

        submit_in_thread(&r);
        same += meet(r.block, writer);
        CHECK_EQ(value_at(r.out), expected);
        GPU_OK(cuMemFree_v2(r.out));
    }
    gpu_fact(name, "%d of %d times the same memory", same, ROUNDS);
    GPU_OK(cuStreamDestroy_v2(writer));
}

TEST(r1_a_block_is_not_overwritten_under_a_reader_on_a_non_blocking_stream)
{
    gpu_init();
    sync_free_under("reuse.non_blocking", gpu_stream(CU_STREAM_NON_BLOCKING));
}

TEST(r1_a_block_is_not_overwritten_under_a_reader_on_a_blocking_stream)
{
    gpu_init();
    sync_free_under("reuse.blocking", gpu_stream(CU_STREAM_DEFAULT));
}

TEST(r1_a_block_is_not_overwritten_under_a_reader_on_the_legacy_stream)
{
    gpu_init();
    sync_free_under("reuse.legacy", NULL);
}

TEST(r1_a_block_is_not_overwritten_under_a_reader_on_another_threads_stream)
{
    gpu_init();
    sync_free_under("reuse.per_thread", CU_STREAM_PER_THREAD);
}

static CUgraphExec graph_of(struct reader *r)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    REQUIRE_EQ(
            gpu->cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    gpu_sum(r->out, r->block, BYTES, r->stream);
    REQUIRE_EQ(gpu->cuStreamEndCapture(r->stream, &graph), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    GPU_OK(cuGraphDestroy(graph));
    return exec;
}

TEST(r1_a_block_is_not_overwritten_under_a_graph_launch)
{
    CUstream writer;
    uint64_t expected;

    gpu_init();
    writer = gpu_stream(CU_STREAM_NON_BLOCKING);
    expected = expected_sum();
    for (int i = 0; i < ROUNDS; i++) {
        struct reader r = {.stream = gpu_stream(CU_STREAM_NON_BLOCKING),
                .block = new_block(0x11),
                .out = new_sum()};

        r.graph = graph_of(&r);
        submit_in_thread(&r);
        (void)meet(r.block, writer);
        CHECK_EQ(value_at(r.out), expected);
        GPU_OK(cuGraphExecDestroy(r.graph));
        GPU_OK(cuStreamDestroy_v2(r.stream));
        GPU_OK(cuMemFree_v2(r.out));
    }
}

TEST(r63_a_block_freed_on_one_stream_waits_for_its_reader_there)
{
    CUstream reader, writer;
    uint64_t expected;
    int same = 0;

    gpu_init();
    reader = gpu_stream(CU_STREAM_NON_BLOCKING);
    writer = gpu_stream(CU_STREAM_NON_BLOCKING);
    expected = expected_sum();
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr out = new_sum();
        CUdeviceptr old = 0;
        CUdeviceptr next = 0;

        REQUIRE_EQ(gpu->cuMemAllocAsync(&old, BYTES, reader), CUDA_SUCCESS);
        GPU_OK(cuMemsetD8Async(old, 0x11, BYTES, reader));
        gpu_hold(reader, LATE_MS);
        gpu_sum(out, old, BYTES, reader);
        GPU_OK(cuMemFreeAsync(old, reader));
        REQUIRE_EQ(gpu->cuMemAllocAsync(&next, BYTES, writer), CUDA_SUCCESS);
        GPU_OK(cuMemsetD8Async(next, 0x22, BYTES, writer));
        same += next == old;
        GPU_OK(cuMemFreeAsync(next, writer));
        GPU_OK(cuCtxSynchronize());
        CHECK_EQ(value_at(out), expected);
        GPU_OK(cuMemFree_v2(out));
    }
    gpu_fact("reuse.stream_ordered", "%d of %d times the same memory", same, ROUNDS);
}

/* Device 1 reads a block of device 0. What a driver does alone is not documented. */
TEST(r1_r29_a_block_is_not_overwritten_under_a_reader_on_a_peer)
{
    CUcontext peer = NULL;
    int can = 0;

    gpu_init();
    if (!gpu->under_kedge)
        SKIP("a driver alone need not wait for another device");
    if (gpu->devices < 2)
        SKIP("one device only");
    GPU_OK(cuDeviceCanAccessPeer(&can, 1, 0));
    if (!can)
        SKIP("the devices are no peers");
    REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr block = new_block(0x11);
        CUdeviceptr copy = 0;
        unsigned char last = 0;
        CUstream stream;

        REQUIRE_EQ(gpu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
        if (i == 0)
            GPU_OK(cuCtxEnablePeerAccess(gpu->context, 0));
        stream = gpu_stream(CU_STREAM_NON_BLOCKING);
        REQUIRE_EQ(gpu->cuMemAlloc_v2(&copy, BYTES), CUDA_SUCCESS);
        /* Many copies, so that the last is late without a kernel of that device. */
        for (int k = 0; k < 200; k++)
            GPU_OK(cuMemcpyDtoDAsync_v2(copy, block, BYTES, stream));
        gpu_here();
        (void)meet(block, NULL);
        REQUIRE_EQ(gpu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
        GPU_OK(cuCtxSynchronize());
        GPU_OK(cuMemcpyDtoH_v2(&last, copy + BYTES - 1, 1));
        CHECK_EQ(last, 0x11);
        GPU_OK(cuMemFree_v2(copy));
        gpu_here();
    }
}

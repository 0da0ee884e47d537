/* SPDX-License-Identifier: MIT */
/*
 * What cuMemGetInfo says is free can be had in one piece, through either allocation API, in every state of the heaps (R22);
 * and it is never more than the device has besides what the program holds, whatever hints did (R84). Each test is a program
 * of its own on a device of 1 GiB: it makes a state, asks, and allocates what it is told.
 */
#include "tests/preload/hints_kit.h"

#define KB   ((size_t)1 << 10)
#define GB   ((size_t)1 << 30)
#define MANY 200

static CUdeviceptr block[MANY];
static CUstream stream, other;
static size_t held;      /* by the program */
static size_t most = GB; /* that the program's options allow it */

static size_t told_by(__typeof__(&cuMemGetInfo_v2) ask)
{
    size_t available = 0;
    size_t total = 0;

    CU_OK(ask(&available, &total));
    return available;
}

static size_t told(void)
{
    return told_by(cu->cuMemGetInfo_v2);
}

static void begin(const char *setting, const char *schedule)
{
    REQUIRE(setenv("SIMCUDA_MEMORY", "1G", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", schedule, 1) == 0);
    if (setting)
        REQUIRE(setenv("KEDGE_POOL", setting, 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

static CUdeviceptr take(size_t size, bool streams)
{
    CUdeviceptr ptr = 0;

    if (streams)
        CU_OK(cu->cuMemAllocAsync(&ptr, size, stream));
    else
        CU_OK(cu->cuMemAlloc_v2(&ptr, size));
    held += size;
    return ptr;
}

static void give(CUdeviceptr ptr, size_t size, bool streams)
{
    CU_OK(streams ? cu->cuMemFreeAsync(ptr, stream) : cu->cuMemFree_v2(ptr));
    held -= size;
}

/* What is told can be had through one API, and less than that only where the device has not got it. */
static void had_by(bool streams)
{
    size_t bytes = told();
    size_t native = told_by((__typeof__(&cuMemGetInfo_v2))client_driver("cuMemGetInfo_v2"));
    CUdeviceptr ptr = 0;

    CHECK_LE(bytes, most - held);
    if (native < most - held)
        CHECK_GE(bytes + 2 * MB, native);
    printf("told %zu KiB, the driver %zu KiB, held %zu KiB\n", bytes / KB, native / KB, held / KB);
    if (!bytes)
        return;
    CHECK_EQ(streams ? cu->cuMemAllocAsync(&ptr, bytes, stream) : cu->cuMemAlloc_v2(&ptr, bytes),
            CUDA_SUCCESS);
    if (!ptr)
        return;
    held += bytes;
    CHECK_EQ(told(), 0);
    give(ptr, bytes, streams);
}

/* By `first`, then by the other, then what there is has not become less. */
static void had(bool first)
{
    size_t before = told();

    had_by(first);
    had_by(!first);
    CHECK_GE(told(), before);
}

/* ── states, by each API ── */

static void untouched(bool streams)
{
    begin(NULL, "lazy");
    had(streams);
}

/* 200 segments or slots, of which the program fills half of each. */
static void odd_sizes(bool streams)
{
    begin(NULL, "lazy");
    for (int i = 0; i < MANY; i++)
        block[i] = take(MB + 4 * KB, streams);
    had(streams);
}

static void holes(bool streams)
{
    begin(NULL, "lazy");
    for (int i = 0; i < MANY; i++)
        block[i] = take(((size_t)i % 7 + 1) * 700 * KB, streams);
    for (int i = 0; i < MANY; i++)
        if (i % 3)
            give(block[i], ((size_t)i % 7 + 1) * 700 * KB, streams);
    had(streams);
}

/* Freed while kernels of another stream use it: in an epoch, or behind the points of streams. */
static void awaited(bool streams)
{
    begin(NULL, "lazy");
    for (int i = 0; i < 64; i++)
        block[i] = take(5 * MB, streams);
    for (int i = 0; i < 64; i++)
        CU_OK(cu->cuMemsetD8Async(block[i], 1, 5 * MB, i % 2 ? stream : other));
    for (int i = 0; i < 60; i++) {
        if (streams)
            CU_OK(cu->cuMemFreeAsync(block[i], i % 2 ? stream : other));
        else
            CU_OK(cu->cuMemFree_v2(block[i]));
        held -= 5 * MB;
    }
    had(streams);
}

static void both_heaps(bool streams)
{
    begin("chunk=16M", "random");
    for (int i = 0; i < MANY; i++)
        block[i] = take(((size_t)i % 5 + 1) * 600 * KB, i % 2);
    for (int i = 0; i < MANY; i++)
        if (i % 4)
            give(block[i], ((size_t)i % 5 + 1) * 600 * KB, i % 2);
    had(streams);
}

static void after_oom(bool streams)
{
    CUdeviceptr ptr;

    begin(NULL, "lazy");
    for (int i = 0; i < MANY; i++)
        block[i] = take(3 * MB + KB, streams);
    for (int i = 0; i < MANY; i += 2)
        give(block[i], 3 * MB + KB, streams);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, (size_t)900 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    had(streams);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, (size_t)900 * MB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    had(streams);
}

static void below_a_cap(bool streams)
{
    begin("cap=512M", "lazy");
    most = 512 * MB;
    for (int i = 0; i < 100; i++)
        block[i] = take(MB + 4 * KB, streams);
    for (int i = 0; i < 50; i++)
        give(block[i], MB + 4 * KB, streams);
    had(streams);
}

static void (*state)(bool streams);
static bool by_streams;

static void one_state(void)
{
    state(by_streams);
}

static void by_both(void (*which)(bool streams))
{
    state = which;
    by_streams = false;
    CHECK_EQ(run_child(one_state), 0);
    by_streams = true;
    CHECK_EQ(run_child(one_state), 0);
}

TEST(r22_what_is_told_can_be_had_on_a_fresh_device)
{
    by_both(untouched);
}

TEST(r22_what_is_told_can_be_had_beside_blocks_of_odd_sizes)
{
    by_both(odd_sizes);
}

TEST(r22_what_is_told_can_be_had_beside_holes)
{
    by_both(holes);
}

TEST(r22_what_is_told_can_be_had_while_frees_wait)
{
    by_both(awaited);
}

TEST(r22_what_is_told_can_be_had_beside_holes_in_both_heaps)
{
    by_both(both_heaps);
}

TEST(r22_what_is_told_can_be_had_after_an_oom)
{
    by_both(after_oom);
}

TEST(r22_what_is_told_can_be_had_below_a_cap)
{
    by_both(below_a_cap);
}

/* ── states of their own ── */

/* While a stream is captured nothing is given back: only what the driver has is told. */
TEST(r22_what_is_told_can_be_had_in_a_capture)
{
    CUdeviceptr ptr = 0;
    CUgraph graph = NULL;
    size_t bytes;

    begin(NULL, "lazy");
    block[0] = take(100 * MB, false);
    block[1] = take(100 * MB, false);
    give(block[0], 100 * MB, false);
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    bytes = told();
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, bytes), CUDA_SUCCESS);
    CU_OK(cu->cuMemFree_v2(ptr));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    CHECK_EQ(told(), bytes + 100 * MB);
    had(false);
}

/* A pool that was destroyed keeps its storage until the last of its blocks goes. */
TEST(r22_what_is_told_can_be_had_beside_a_pool_that_leaves)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUdeviceptr stays, goes;
    CUmemoryPool mempool;

    begin(NULL, "lazy");
    CU_OK(cu->cuMemPoolCreate(&mempool, &props));
    CU_OK(cu->cuMemAllocFromPoolAsync(&stays, 3 * MB, mempool, stream));
    CU_OK(cu->cuMemAllocFromPoolAsync(&goes, 50 * MB, mempool, stream));
    CU_OK(cu->cuMemFreeAsync(goes, stream));
    held = 3 * MB;
    CU_OK(cu->cuMemPoolDestroy(mempool));
    had(true);
    CU_OK(cu->cuMemFreeAsync(stays, stream));
}

static const char *mode;

/* Blocks of the hint's size, some of which are freed after it has taken their storage. */
static void hinted(bool streams)
{
    kit_hint(mode, mode);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    begin(NULL, "lazy");
    for (int i = 0; i < 40; i++)
        (void)take(MB + 4 * KB, streams);
    KEDGE_PUSH("PHASE_0");
    for (int i = 0; i < 20; i++)
        block[i] = take(KIT_BYTES, streams);
    had(streams);
    KEDGE_POP();
    had(streams);
    CU_OK(cu->cuCtxSynchronize());
    KEDGE_MARK("poll");
    had(streams);
    for (int i = 0; i < 10; i++)
        give(block[i], KIT_BYTES, streams);
    had(streams);
    kit_clean_up();
}

TEST(r22_r84_what_is_told_can_be_had_in_live)
{
    mode = "live";
    by_both(hinted);
}

TEST(r22_r84_what_is_told_can_be_had_in_trap)
{
    mode = "trap";
    by_both(hinted);
}

TEST(r22_r84_what_is_told_can_be_had_in_shadow)
{
    mode = "shadow";
    by_both(hinted);
}

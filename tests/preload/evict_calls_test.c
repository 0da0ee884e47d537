/* SPDX-License-Identifier: MIT */
/* What is in a block survives its going out and coming in, whichever call names it, on whichever stream, and however late the device is. */
#include "tests/preload/evict_kit.h"

#include <pthread.h>

#define SLOTS 256u /* of results on the device */

static CUfunction sum;
static CUdeviceptr sums; /* eight bytes for each launch */
static unsigned launches;
static uint64_t wanted[SLOTS];
static unsigned char fresh = 10; /* no block had this value */

static uint64_t sum_of_ones; /* what the kernel makes of a block of bytes that are 1 */

static uint64_t sum_of(unsigned i)
{
    return evict_value[i] * sum_of_ones;
}

static void launch_on(unsigned i, CUstream stream)
{
    REQUIRE(launches < SLOTS);
    wanted[launches] = sum_of(i);
    CU_OK(client_sum(sum, sums + 8 * launches++, evict_block[i], EVICT_BYTES, stream));
}

static void check_sums(void)
{
    uint64_t got[SLOTS];

    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuMemcpyDtoH_v2(got, sums, sizeof got));
    for (unsigned i = 0; i < launches; i++)
        CHECK_EQ(got[i], wanted[i]);
}

static void start_sums(void)
{
    CUdeviceptr ones = kit_alloc(EVICT_BYTES);

    sum = client_sum_kernel();
    sums = kit_alloc(8 * SLOTS);
    CU_OK(cu->cuMemsetD8_v2(sums, 0, 8 * SLOTS));
    CU_OK(cu->cuMemsetD8_v2(ones, 1, EVICT_BYTES));
    CU_OK(client_sum(sum, sums, ones, EVICT_BYTES, NULL));
    CU_OK(cu->cuMemcpyDtoH_v2(&sum_of_ones, sums, sizeof sum_of_ones));
    CHECK_NE(sum_of_ones, 0);
    CU_OK(cu->cuMemsetD8_v2(sums, 0, 8 * SLOTS));
    CU_OK(cu->cuCtxSynchronize());
}

/* A few steps in which each block is used so, then all is as it must be. */
static void survive(const char *tail, void (*use)(unsigned i))
{
    uint64_t unmaps;

    evict_start(tail);
    start_sums();
    unmaps = client_calls("cuMemUnmap");
    for (int step = 0; step < EVICT_STEPS; step++) {
        KEDGE_PUSH("step");
        for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
            use(i);
            CHECK(evict_is_in(evict_block[i]));
            CHECK_LE(evict_count_in(), EVICT_FIT);
        }
        KEDGE_POP();
    }
    CHECK_GT(client_calls("cuMemUnmap"), unmaps);
    check_sums();
    evict_check_all();
    kit_clean_up();
}

/* ---- launches ------------------------------------------------------------------------------- */

static void launch(unsigned i)
{
    launch_on(i, evict_stream);
}

TEST(a_launch_reads_what_was_written)
{
    survive("launch", launch);
}

static void launch_cooperatively(unsigned i)
{
    uint64_t size = EVICT_BYTES;
    CUdeviceptr out = sums + 8 * launches;
    void *params[] = {&out, &evict_block[i], &size};

    wanted[launches++] = sum_of(i);
    CU_OK(KIT_CU(cuLaunchCooperativeKernel)(sum, 1, 1, 1, 32, 1, 1, 0, evict_stream, params));
}

TEST(a_cooperative_launch_reads_what_was_written)
{
    survive("cooperative", launch_cooperatively);
}

static void launch_legacy(unsigned i)
{
    evict_set(i, fresh++);
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    launch_on(i, NULL);
}

TEST(the_legacy_stream_waits_for_what_comes_in)
{
    survive("legacy", launch_legacy);
}

static void launch_per_thread(unsigned i)
{
    launch_on(i, CU_STREAM_PER_THREAD);
}

TEST(a_threads_own_stream_waits_for_what_comes_in)
{
    survive("perthread", launch_per_thread);
}

/* Two streams that nothing orders but the end of each use. */
static void launch_on_two(unsigned i)
{
    static CUstream other;

    if (!other)
        CU_OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    launch_on(i, i % 2 ? other : evict_stream);
    launch_on(i, i % 2 ? evict_stream : other);
}

TEST(two_streams_read_what_was_written)
{
    survive("twostreams", launch_on_two);
}

/* ---- sets and copies ------------------------------------------------------------------------ */

static void set(unsigned i)
{
    evict_set(i, fresh++);
}

TEST(a_set_stays)
{
    survive("set", set);
}

static void set_now(unsigned i)
{
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    CU_OK(cu->cuMemsetD8_v2(evict_block[i], fresh, EVICT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    evict_value[i] = fresh++;
}

TEST(a_set_without_a_stream_stays)
{
    survive("setnow", set_now);
}

static void set_rows(unsigned i)
{
    CU_OK(KIT_CU(cuMemsetD2D8Async)(
            evict_block[i], 4096, fresh, 4096, EVICT_BYTES / 4096, evict_stream));
    evict_value[i] = fresh++;
}

TEST(a_set_of_rows_stays)
{
    survive("setrows", set_rows);
}

static void copy_in(unsigned i)
{
    memset(evict_copy, fresh, sizeof evict_copy);
    CU_OK(KIT_CU(cuMemcpyHtoDAsync_v2)(evict_block[i], evict_copy, EVICT_BYTES, evict_stream));
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    evict_value[i] = fresh++;
}

TEST(a_copy_from_the_host_stays)
{
    survive("copyin", copy_in);
}

static void copy_in_now(unsigned i)
{
    memset(evict_copy, fresh, sizeof evict_copy);
    CU_OK(cu->cuMemcpyHtoD_v2(evict_block[i], evict_copy, EVICT_BYTES));
    evict_value[i] = fresh++;
}

TEST(a_copy_from_the_host_without_a_stream_stays)
{
    survive("copyinnow", copy_in_now);
}

TEST(a_copy_to_the_host_has_what_was_written)
{
    survive("copyout", evict_check);
}

static void copy_on(unsigned i)
{
    unsigned next = (i + 1) % EVICT_BLOCKS;

    if (i == 0)
        evict_set(0, fresh++);
    CU_OK(cu->cuMemcpyDtoDAsync_v2(evict_block[next], evict_block[i], EVICT_BYTES, evict_stream));
    evict_value[next] = evict_value[i];
}

TEST(a_copy_between_two_blocks_names_both)
{
    survive("copyon", copy_on);
}

static void copy_rows(unsigned i)
{
    unsigned next = (i + 1) % EVICT_BLOCKS;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = evict_block[i],
            .srcPitch = 4096,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstDevice = evict_block[next],
            .dstPitch = 4096,
            .WidthInBytes = 4096,
            .Height = EVICT_BYTES / 4096};

    if (i == 0)
        evict_set(0, fresh++);
    CU_OK(KIT_CU(cuMemcpy2DAsync_v2)(&rows, evict_stream));
    evict_value[next] = evict_value[i];
}

TEST(a_copy_of_rows_names_both)
{
    survive("copyrows", copy_rows);
}

static void copy_batch(unsigned i)
{
    unsigned next = (i + 1) % EVICT_BLOCKS;
    CUdeviceptr dsts[] = {evict_block[next], evict_block[next] + MB};
    CUdeviceptr srcs[] = {evict_block[i], evict_block[i] + MB};
    size_t sizes[] = {MB, MB};
    CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first = 0;

    if (i == 0)
        evict_set(0, fresh++);
    CU_OK(KIT_CU(cuMemcpyBatchAsync_v2)(dsts, srcs, sizes, 2, &attrs, &first, 1, evict_stream));
    evict_value[next] = evict_value[i];
}

TEST(a_batch_of_copies_names_all)
{
    survive("batch", copy_batch);
}

static void write_word(unsigned i)
{
    unsigned char byte = fresh++;

    evict_set(i, byte);
    CU_OK(KIT_CU(cuStreamWriteValue32_v2)(
            evict_stream, evict_block[i] + 4096, byte * 0x01010101u, 0));
}

TEST(a_word_that_a_stream_writes_stays)
{
    survive("word", write_word);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static CUgraphExec instance[EVICT_BLOCKS];

static void launch_graph(unsigned i)
{
    CUgraph graph;

    if (!instance[i]) {
        CU_OK(cu->cuStreamBeginCapture_v2(evict_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CU_OK(cu->cuMemsetD8Async(evict_block[i], (unsigned char)(100 + i), MB, evict_stream));
        CU_OK(cu->cuMemcpyDtoDAsync_v2(evict_block[i] + MB, evict_block[i], MB, evict_stream));
        CU_OK(cu->cuStreamEndCapture(evict_stream, &graph));
        CU_OK(cu->cuGraphInstantiateWithFlags(&instance[i], graph, 0));
        CU_OK(cu->cuGraphDestroy(graph));
    }
    evict_set(i, fresh++);
    CU_OK(cu->cuGraphLaunch(instance[i], evict_stream));
    evict_value[i] = (unsigned char)(100 + i);
}

TEST(the_launch_of_a_graph_names_what_its_nodes_name)
{
    survive("graph", launch_graph);
}

/* Nothing is used while a call is captured, and nothing may be moved. */
TEST(a_captured_call_brings_nothing_in)
{
    CUgraphExec exec;
    CUgraph graph;

    evict_start("captured");
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuStreamBeginCapture_v2(evict_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemsetD8Async(evict_block[0], 77, EVICT_BYTES, evict_stream));
    CHECK(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuStreamEndCapture(evict_stream, &graph));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(!evict_is_in(evict_block[0]));
    evict_check(0);
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuGraphLaunch(exec, evict_stream));
    evict_value[0] = 77;
    evict_check_all();
    kit_clean_up();
}

static void call_driver(void *unused)
{
    (void)unused;
    CHECK_NE(cu->cuMemsetD8Async(evict_block[0], 1, EVICT_BYTES, evict_stream), CUDA_SUCCESS);
}

TEST(a_host_function_brings_nothing_in)
{
    evict_start("hostfn");
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuLaunchHostFunc(evict_stream, call_driver, NULL));
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    CHECK(!evict_is_in(evict_block[0]));
    evict_check_all();
    kit_clean_up();
}

/* ---- two devices ---------------------------------------------------------------------------- */

TEST(a_copy_between_devices_names_the_blocks_of_both)
{
    CUdeviceptr far[EVICT_BLOCKS];
    CUcontext second;

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    evict_start("devices");
    CU_OK(cu->cuDevicePrimaryCtxRetain(&second, 1));
    CU_OK(cu->cuCtxSetCurrent(second));
    KEDGE_PUSH("MODEL");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        far[i] = kit_alloc(EVICT_BYTES);
    KEDGE_POP();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CU_OK(cu->cuMemsetD8_v2(far[i], 0, EVICT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CU_OK(KIT_CU(cuMemcpyPeerAsync)(
                far[i], second, evict_block[i], cu->context, EVICT_BYTES, evict_stream));
    evict_check_all();
    CU_OK(cu->cuCtxSetCurrent(second));
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        memset(evict_copy, 0, sizeof evict_copy);
        CU_OK(cu->cuMemcpyDtoH_v2(evict_copy, far[i], EVICT_BYTES));
        CHECK_EQ(evict_copy[0], evict_value[i]);
        CHECK_EQ(evict_copy[EVICT_BYTES - 1], evict_value[i]);
    }
    kit_clean_up();
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *use_one(void *arg)
{
    unsigned i = (unsigned)(uintptr_t)arg;
    unsigned char bytes[4096];
    CUstream own;

    CU_OK(cu->cuCtxSetCurrent(cu->context));
    CU_OK(cu->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (unsigned char round = 0; round < 50; round++) {
        CU_OK(cu->cuMemsetD8Async(evict_block[i], round, EVICT_BYTES, own));
        CU_OK(cu->cuMemcpyDtoHAsync_v2(
                bytes, evict_block[i] + EVICT_BYTES - sizeof bytes, sizeof bytes, own));
        CU_OK(cu->cuStreamSynchronize(own));
        CHECK_EQ(bytes[0], round);
        CHECK_EQ(bytes[sizeof bytes - 1], round);
    }
    evict_value[i] = 49;
    return NULL;
}

TEST(threads_take_turns)
{
    pthread_t thread[EVICT_BLOCKS];

    evict_start("threads");
    CU_OK(cu->cuCtxSynchronize());
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, use_one, (void *)(uintptr_t)i) == 0);
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    evict_check_all();
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/* Blocks that do not go out, calls that cannot be made, and what the program and the capture are told. */
#include "tests/preload/evict_kit.h"

/* The first block stays in whatever the others need, and is what it was. */
static void must_stay(void)
{
    CHECK(evict_is_in(evict_block[0]));
    for (int round = 0; round < 3; round++) {
        evict_use_others();
        CHECK(evict_is_in(evict_block[0]));
    }
    evict_check_all();
}

/* It is out before that. */
static void start_out(const char *tail)
{
    evict_start(tail);
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
}

/* ---- pins ----------------------------------------------------------------------------------- */

TEST(r80_a_texture_keeps_its_block_in_until_it_is_destroyed)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUDA_TEXTURE_DESC texture = {.flags = 0};
    CUtexObject object = 0;

    start_out("texture");
    resource.res.linear.devPtr = evict_block[0];
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4096;
    CU_OK(KIT_CU(cuTexObjectCreate)(&object, &resource, &texture, NULL));
    must_stay();
    CHECK_EQ(evict_told_kept(evict_block[0], FORMAT_KEPT_SHOWN), 1);
    CU_OK(KIT_CU(cuTexObjectDestroy)(object));
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    evict_check_all();
    kit_clean_up();
}

static void encode(CUdeviceptr ptr)
{
    cuuint64_t dim[] = {64, 64}, strides[] = {256};
    cuuint32_t box[] = {16, 16}, steps[] = {1, 1};
    CUtensorMap map;

    CU_OK(KIT_CU(cuTensorMapEncodeTiled)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
            (void *)(uintptr_t)ptr, dim, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

TEST(r80_a_tensor_map_keeps_its_block_in)
{
    start_out("tensormap");
    encode(evict_block[0]);
    must_stay();
    CHECK_EQ(evict_told_kept(evict_block[0], FORMAT_KEPT_SHOWN), 1);
    kit_clean_up();
}

/* Nothing moves while a capture runs, so it comes in before the first call after that. */
TEST(r80_a_tensor_map_that_is_made_beside_a_capture_keeps_its_block_in)
{
    CUgraph graph;

    start_out("beside");
    CU_OK(cu->cuStreamBeginCapture_v2(evict_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    encode(evict_block[0]);
    CHECK(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuStreamEndCapture(evict_stream, &graph));
    CU_OK(cu->cuGraphDestroy(graph));
    evict_check(1);
    must_stay();
    kit_clean_up();
}

TEST(r80_a_retained_handle_keeps_its_block_in)
{
    CUmemGenericAllocationHandle handle = 0;

    start_out("retained");
    CU_OK(cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)evict_block[0]));
    must_stay();
    CHECK_EQ(evict_told_kept(evict_block[0], FORMAT_KEPT_SHOWN), 1);
    CHECK(!evict_is_in(evict_block[1]) || !evict_is_in(evict_block[2])
            || !evict_is_in(evict_block[3])); /* the hint goes on with the others */
    CU_OK(cu->cuMemRelease(handle));
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    kit_clean_up();
}

#ifdef NCCL_PATH
TEST(r80_what_nccl_has_registered_stays_in)
{
    int (*add)(void *, void *, size_t, void **) = NULL;
    int (*take_away)(void *, void *) = NULL;
    void *handle = &handle;

    start_out("registered");
    add = (__typeof__(add))kit_nccl("ncclCommRegister");
    take_away = (__typeof__(take_away))kit_nccl("ncclCommDeregister");
    CHECK_EQ(add(&handle, (void *)(uintptr_t)evict_block[0], EVICT_BYTES, &handle), 0);
    must_stay();
    CHECK_EQ(evict_told_kept(evict_block[0], FORMAT_KEPT_REGISTERED), 1);
    CHECK_EQ(take_away(&handle, handle), 0);
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    kit_clean_up();
}
#endif

/* ---- what nobody names ---------------------------------------------------------------------- */

TEST(an_address_in_data_keeps_its_block_in)
{
    CUdeviceptr table;
    uint64_t data[64] = {0};

    start_out("pointer");
    table = kit_alloc(sizeof data);
    data[7] = evict_block[0] + 4096;
    CU_OK(cu->cuMemcpyHtoD_v2(table, data, sizeof data));
    must_stay();
    KEDGE_MARK("tell");
    CHECK_EQ(evict_told_kept(evict_block[0], FORMAT_KEPT_POINTER), 1);
    CHECK_EQ(evict_told_kept(0, FORMAT_KEPT_POINTER), 1);
    kit_clean_up();
}

TEST(an_address_in_rows_keeps_its_block_in)
{
    uint64_t data[64] = {0};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcHost = data,
            .srcPitch = 256,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstPitch = 256,
            .WidthInBytes = 256,
            .Height = 2};

    start_out("rows");
    rows.dstDevice = kit_alloc(sizeof data);
    data[40] = evict_block[0];
    CU_OK(cu->cuMemcpy2D_v2(&rows));
    must_stay();
    kit_clean_up();
}

TEST(data_without_addresses_keeps_nothing)
{
    CUdeviceptr table;
    uint64_t data[64];

    start_out("data");
    table = kit_alloc(sizeof data);
    for (unsigned i = 0; i < 64; i++)
        data[i] = i % 2 ? ~evict_block[0] : table;
    CU_OK(cu->cuMemcpyHtoD_v2(table, data, sizeof data));
    CHECK(!evict_is_in(evict_block[0]));
    KEDGE_MARK("tell");
    CHECK_EQ(evict_told_kept(0, FORMAT_KEPT_POINTER), 0);
    kit_clean_up();
}

/* Its parameters lie in memory of which the driver does not say how long it is. */
TEST(a_launch_that_nobody_tells_the_parameters_of_needs_all)
{
    CUdeviceptr out;
    CUfunction sum;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuFuncGetParamInfo:1+:801,cuKernelGetParamInfo:1+:801", 1)
            == 0);
    evict_start("untold");
    sum = client_sum_kernel();
    out = kit_alloc(512);
    CHECK_EQ(client_sum(sum, out, evict_block[0], 64, evict_stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(client_calls("cuLaunchKernel"), 0);
    evict_check_all();
    kit_clean_up();
}

/* ---- what does not fit ---------------------------------------------------------------------- */

static unsigned count_shorts(void)
{
    struct read_capture *capture = kit_read();
    unsigned n = (unsigned)capture->short_count;

    for (size_t i = 0; i < capture->short_count; i++) {
        CHECK_EQ(capture->shorts[i].rule, 0);
        CHECK_EQ(capture->shorts[i].cap, EVICT_FIT * EVICT_BYTES);
        CHECK_GT(capture->shorts[i].needed, capture->shorts[i].room);
    }
    read_close(capture);
    return n;
}

TEST(a_graph_that_needs_more_than_the_cap_is_not_launched)
{
    CUgraphExec exec;
    CUgraph graph;

    evict_start("short");
    CU_OK(cu->cuStreamBeginCapture_v2(evict_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < EVICT_FIT + 1; i++)
        CU_OK(cu->cuMemsetD8Async(evict_block[i], 99, EVICT_BYTES, evict_stream));
    CU_OK(cu->cuStreamEndCapture(evict_stream, &graph));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK_EQ(cu->cuGraphLaunch(exec, evict_stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuGraphLaunch(exec, evict_stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(client_calls("cuGraphLaunch"), 0);
    CHECK_EQ(count_shorts(), 2);
    evict_check_all();
    kit_clean_up();
}

TEST(a_batch_that_needs_more_than_the_cap_is_not_made)
{
    CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr dsts[EVICT_FIT + 1], srcs[EVICT_FIT + 1];
    size_t sizes[EVICT_FIT + 1], first = 0;

    evict_start("shortbatch");
    for (unsigned i = 0; i < EVICT_FIT + 1; i++) {
        dsts[i] = evict_block[i];
        srcs[i] = evict_block[i] + MB;
        sizes[i] = MB;
    }
    CHECK_EQ(KIT_CU(cuMemcpyBatchAsync_v2)(
                     dsts, srcs, sizes, EVICT_FIT + 1, &attrs, &first, 1, evict_stream),
            CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(count_shorts(), 1);
    evict_check_all();
    kit_clean_up();
}

/* ---- what the program is told --------------------------------------------------------------- */

enum {
    ANSWERS = 64,
};

struct answers {
    uint64_t value[ANSWERS];
    CUresult result[ANSWERS];
    CUdeviceptr base;
    size_t size, available, total;
};

static struct answers ask(CUdeviceptr ptr)
{
    struct answers answers;

    memset(&answers, 0, sizeof answers);
    for (int i = 1; i < ANSWERS; i++) {
        /* tokens for peers may be other ones each time, and are not asked of memory like this */
        if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            continue;
        answers.result[i] =
                cu->cuPointerGetAttribute(&answers.value[i], (CUpointer_attribute)i, ptr + 100);
    }
    CU_OK(cu->cuMemGetAddressRange_v2(&answers.base, &answers.size, ptr + 100));
    CU_OK(cu->cuMemGetInfo_v2(&answers.available, &answers.total));
    return answers;
}

TEST(r79_r84_no_answer_depends_on_where_a_block_is)
{
    struct answers out, in;

    evict_start("answers");
    CU_OK(cu->cuCtxSynchronize());
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    out = ask(evict_block[0]);
    evict_check(0);
    REQUIRE(evict_is_in(evict_block[0]));
    in = ask(evict_block[0]);
    for (int i = 1; i < ANSWERS; i++) {
        CHECK_EQ(out.result[i], in.result[i]);
        CHECK_EQ(out.value[i], in.value[i]);
        if (out.result[i] != in.result[i] || out.value[i] != in.value[i])
            printf("    of attribute %d\n", i);
    }
    CHECK_EQ(out.base, evict_block[0]);
    CHECK_EQ(out.size, EVICT_BYTES);
    CHECK_EQ(in.size, EVICT_BYTES);
    CHECK_EQ(out.available, in.available);
    CHECK_EQ(out.value[CU_POINTER_ATTRIBUTE_MEMORY_TYPE], CU_MEMORYTYPE_DEVICE);
    CHECK_EQ(out.value[CU_POINTER_ATTRIBUTE_DEVICE_POINTER], evict_block[0] + 100);
    CHECK_EQ(out.value[CU_POINTER_ATTRIBUTE_RANGE_START_ADDR], evict_block[0]);
    CHECK_EQ(out.value[CU_POINTER_ATTRIBUTE_RANGE_SIZE], EVICT_BYTES);
    kit_clean_up();
}

/* R66: no section stays open behind a question, so what is released afterwards loses its storage. */
TEST(r66_a_question_about_a_block_that_is_out_holds_no_release_up)
{
    CUdeviceptr late;

    evict_hint("question", "live",
            "  - id: late\n"
            "    do: release\n"
            "    pick: {size: 8388608, inside: \"PHASE_*\", nth: all}\n"
            "    when: {anchor: \"PHASE_*\", edge: exit}\n");
    kit_allow_live();
    evict_begin();
    CU_OK(cu->cuCtxSynchronize());
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    KEDGE_PUSH("PHASE_0");
    late = kit_alloc(8 * MB);
    (void)ask(evict_block[0]);
    REQUIRE(evict_is_in(late));
    KEDGE_POP();
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, late), 1);
    CHECK(!evict_is_in(late));
    kit_clean_up();
}

/* ---- what the capture is told --------------------------------------------------------------- */

static struct format_evict last_step(unsigned flags)
{
    struct read_capture *capture = kit_read();
    struct format_evict found = {.step = UINT64_MAX};

    for (size_t i = 0; i < capture->evict_count; i++)
        if ((capture->evict[i].what.flags & flags) == flags)
            found = capture->evict[i].what;
    read_close(capture);
    return found;
}

static void run_steps(void)
{
    for (int step = 0; step < EVICT_STEPS; step++) {
        KEDGE_PUSH("step");
        for (unsigned i = 0; i < EVICT_BLOCKS; i++)
            evict_check(i);
        KEDGE_POP();
    }
}

TEST(steps_are_on_record)
{
    struct format_evict step;

    evict_start("steps");
    run_steps();
    step = last_step(FORMAT_EVICT_PLANNED);
    CHECK_EQ(step.step, EVICT_STEPS - 1);
    CHECK_EQ(step.cap, EVICT_FIT * EVICT_BYTES);
    CHECK_EQ(step.units, EVICT_BLOCKS);
    CHECK_EQ(step.bytes, EVICT_BLOCKS * EVICT_BYTES);
    CHECK_EQ(step.uses, EVICT_BLOCKS);
    CHECK_LE(step.in_bytes_high, EVICT_FIT * EVICT_BYTES);
    CHECK_GT(step.moved_in, 0);
    CHECK_GE(step.moved_in, step.bound);
    CHECK_EQ(step.flags & FORMAT_EVICT_PAPER, 0);
    kit_clean_up();
}

static void steps_of_a_child(void)
{
    evict_begin();
    run_steps();
}

TEST(the_step_that_runs_at_the_end_is_on_record)
{
    struct format_evict step;

    evict_hint("running", "poison", "");
    CHECK_EQ(run_child(steps_of_a_child), 0);
    step = last_step(FORMAT_EVICT_RUNNING);
    CHECK_EQ(step.step, EVICT_STEPS);
    kit_clean_up();
}

TEST(in_shadow_all_is_decided_and_nothing_moves)
{
    struct format_evict step;
    uint64_t unmaps;

    evict_start_as("paper", "shadow", "");
    unmaps = client_calls("cuMemUnmap");
    run_steps();
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps);
    CHECK_EQ(evict_count_in(), EVICT_BLOCKS);
    step = last_step(FORMAT_EVICT_PAPER);
    CHECK_EQ(step.step, EVICT_STEPS - 1);
    CHECK_GT(step.moved_in, 0);
    evict_check_all();
    kit_clean_up();
}

/* Each use that no call names is met, since all is out but what the running call names. */
TEST(in_trap_only_the_running_call_has_its_blocks)
{
    evict_start_as("trap", "trap", "");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        evict_check(i);
        for (unsigned other = 0; other < EVICT_BLOCKS; other++)
            if (other != i)
                CHECK(!evict_is_in(evict_block[other]));
    }
    evict_check_all();
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/* Frees, forks, kills, ends of contexts and refusals of the driver while blocks are out or on their way: no content is lost. */
#include "tests/preload/evict_kit.h"
#include "tests/sim/base/sim_abi.h"

#include <signal.h>

/* ---- frees ---------------------------------------------------------------------------------- */

static void free_once(unsigned i)
{
    CHECK_EQ(cu->cuMemFree_v2(evict_block[i] + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(evict_block[i]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(evict_block[i]), CUDA_ERROR_INVALID_VALUE);
}

static void remake(unsigned i)
{
    KEDGE_PUSH("MODEL");
    evict_block[i] = kit_alloc(EVICT_BYTES);
    KEDGE_POP();
    evict_set(i, (unsigned char)(50 + i));
}

TEST(r58_a_free_succeeds_once_wherever_the_block_is)
{
    evict_start("free");
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    free_once(0); /* out */
    free_once(3); /* in, and used last */
    evict_check(1);
    remake(0);
    remake(3);
    free_once(3); /* its set is under way where the device is late */
    remake(3);
    evict_check_all();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        free_once(i);
    CU_OK(cu->cuCtxSynchronize());
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        remake(i);
    evict_check_all();
    kit_clean_up();
}

TEST(r58_frees_in_turn_with_uses_lose_nothing)
{
    evict_start("turns");
    for (int round = 0; round < 20; round++) {
        unsigned freed = (unsigned)round % EVICT_BLOCKS;

        KEDGE_PUSH("step");
        for (unsigned i = 0; i < EVICT_BLOCKS; i++)
            evict_set(i, (unsigned char)(round * 4 + (int)i));
        CHECK_EQ(cu->cuMemFree_v2(evict_block[freed]), CUDA_SUCCESS);
        remake(freed);
        KEDGE_POP();
        CHECK_LE(evict_count_in(), EVICT_FIT);
    }
    evict_check_all();
    kit_clean_up();
}

/* ---- processes ------------------------------------------------------------------------------ */

static void free_in_child(void)
{
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CHECK_EQ(cu->cuMemFree_v2(evict_block[i]), CUDA_SUCCESS);
    CHECK_NE(cu->cuMemsetD8_v2(evict_block[0], 1, 1), CUDA_SUCCESS); /* CUDA is not there */
}

TEST(r39_a_child_frees_and_its_parent_goes_on)
{
    evict_start("fork");
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CHECK_EQ(run_child(free_in_child), 0);
    evict_check_all();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_set(i, (unsigned char)(i + 60));
    evict_check_all();
    kit_clean_up();
}

static void be_killed(void)
{
    evict_begin();
    for (int step = 0; step < EVICT_STEPS; step++) {
        KEDGE_PUSH("step");
        evict_check_all();
        KEDGE_POP();
    }
    (void)raise(SIGKILL);
}

TEST(a_killed_process_has_left_its_steps_on_record)
{
    struct read_capture *capture;

    evict_hint("killed", "poison", "");
    CHECK_EQ(run_child(be_killed), 1000 + SIGKILL);
    capture = kit_read();
    CHECK_GE(capture->evict_count, EVICT_STEPS - 1);
    read_close(capture);
    kit_clean_up();
}

/* ---- ends of contexts ----------------------------------------------------------------------- */

static uint64_t held(void)
{
    __typeof__(&simcuda_stats) get = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(get && get(&stats) == 0);
    return stats.held[0];
}

TEST(r30_r76_what_is_out_goes_with_its_context)
{
    uint64_t before;

    evict_hint("reset", "poison", "");
    client_init();
    before = held();
    CU_OK(cu->cuStreamCreate(&evict_stream, CU_STREAM_NON_BLOCKING));
    evict_make();
    evict_use_others();
    CU_OK(cu->cuDevicePrimaryCtxReset_v2(cu->device));
    CHECK_EQ(held(), before);
    CHECK_EQ(client_calls("cuMemMap"), client_calls("cuMemUnmap"));
    CHECK_EQ(client_calls("cuMemCreate"), client_calls("cuMemRelease"));
    CHECK_NE(cu->cuMemFree_v2(evict_block[0]), CUDA_SUCCESS);
    kit_clean_up();
}

/* Blocks of the device's memory pool belong to no context, so what is in them must outlive it, wherever it is. */
TEST(r76_what_is_out_of_a_memory_pool_outlives_a_reset)
{
    CUcontext again;

    evict_hint("pool", "poison", "");
    client_init();
    KEDGE_PUSH("MODEL");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CU_OK(cu->cuMemAllocAsync(&evict_block[i], EVICT_BYTES, NULL));
    KEDGE_POP();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_set(i, (unsigned char)(i + 1));
    evict_check_all();
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuDevicePrimaryCtxReset_v2(cu->device));
    CU_OK(cu->cuDevicePrimaryCtxRetain(&again, cu->device));
    CU_OK(cu->cuCtxSetCurrent(again));
    evict_check_all();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_set(i, (unsigned char)(i + 70));
    evict_check_all();
    CHECK_LE(evict_count_in(), EVICT_FIT);
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CHECK_EQ(cu->cuMemFreeAsync(evict_block[i], NULL), CUDA_SUCCESS);
    kit_clean_up();
}

/* ---- refusals of the driver ----------------------------------------------------------------- */

static const char *const ours[] = {"cuMemUnmap", "cuMemMap", "cuMemSetAccess", "cuMemCreate",
        "cuMemRelease", "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuCtxRecordEvent",
        "cuStreamWaitEvent", "cuMemHostRegister", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"};

static char fault[64];

/* A call that fails was not made, and one that succeeds was: what is read at the end says so. */
static void go_on_through_it(void)
{
    unsigned char value = 100;

    evict_hint("refused", "poison", "");
    REQUIRE(setenv("SIMCUDA_FAIL", fault, 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&evict_stream, CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("MODEL");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_block[i] = kit_alloc(EVICT_BYTES);
    KEDGE_POP();
    for (int step = 0; step < EVICT_STEPS; step++) {
        KEDGE_PUSH("step");
        for (unsigned i = 0; i < EVICT_BLOCKS; i++, value++)
            for (int try = 0; try < 3; try++)
                if (cu->cuMemsetD8Async(evict_block[i], value, EVICT_BYTES, evict_stream)
                        == CUDA_SUCCESS) {
                    evict_value[i] = value;
                    break;
                }
        KEDGE_POP();
    }
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        memset(evict_copy, 0, sizeof evict_copy);
        for (int try = 0; try < 3; try++)
            if (cu->cuMemcpyDtoHAsync_v2(evict_copy, evict_block[i], EVICT_BYTES, evict_stream)
                    == CUDA_SUCCESS)
                break;
        CU_OK(cu->cuStreamSynchronize(evict_stream));
        CHECK_EQ(evict_copy[0], evict_value[i]);
        CHECK(memcmp(evict_copy, evict_copy + 1, EVICT_BYTES - 1) == 0);
    }
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        CHECK_EQ(cu->cuMemFree_v2(evict_block[i]), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(r32_no_refusal_loses_content)
{
    static const int nth[] = {1, 2, 3, 5, 8, 12};

    for (size_t call = 0; call < sizeof ours / sizeof ours[0]; call++)
        for (size_t n = 0; n < sizeof nth / sizeof nth[0]; n++) {
            snprintf(fault, sizeof fault, "%s:%d:999", ours[call], nth[n]);
            CHECK_EQ(run_child(go_on_through_it), 0);
            if (check_state.failures > 0) {
                printf("    %s\n", fault);
                return;
            }
        }
}

/* The driver unmaps nothing: what is in stays, and what there is no room for is no call. */
TEST(r32_what_the_driver_does_not_move_stays_in)
{
    bool is_set[EVICT_BLOCKS];
    CUresult result;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuMemUnmap:1+:999", 1) == 0);
    evict_hint("unmovable", "poison", "");
    client_init();
    CU_OK(cu->cuStreamCreate(&evict_stream, CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("MODEL");
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        evict_block[i] = kit_alloc(EVICT_BYTES);
    KEDGE_POP();
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        evict_value[i] = (unsigned char)(i + 1);
        result = cu->cuMemsetD8Async(evict_block[i], evict_value[i], EVICT_BYTES, evict_stream);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        is_set[i] = result == CUDA_SUCCESS;
        CHECK(is_set[i] || i >= EVICT_FIT);
    }
    for (unsigned i = 0; i < EVICT_BLOCKS; i++)
        if (is_set[i])
            evict_check(i);
    kit_clean_up();
}

/* ---- captures ------------------------------------------------------------------------------- */

/* On another stream a capture runs: what is out cannot be moved, and nobody's content or capture suffers. */
TEST(r10_a_call_beside_a_capture_is_made_or_says_why)
{
    CUstream captured;
    CUgraph graph;
    CUresult result;

    evict_start("beside");
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CU_OK(cu->cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    result = cu->cuMemsetD8Async(evict_block[0], 88, EVICT_BYTES, evict_stream);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (result == CUDA_SUCCESS)
        evict_value[0] = 88;
    CU_OK(cu->cuStreamEndCapture(captured, &graph)); /* it is still good */
    CU_OK(cu->cuGraphDestroy(graph));
    evict_check_all();
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/* keep-content: what a hint releases stays on the host for a while, and a call that names it gets it back (R109). */
#include "tests/preload/evict_kit.h"

#define BLOCKS 3

static unsigned char copy[KIT_BYTES];
static char fault[64]; /* SIMCUDA_FAIL */

/* Blocks of 8 MiB inside PHASE_*, released at its exit; `more`: other keys of the hint, a line each. */
static void keep(const char *tail, const char *more)
{
    char text[500];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - id: unused\n"
            "    do: release\n"
            "    pick: {size: 8388608, inside: \"PHASE_*\"}\n"
            "    when: {anchor: \"PHASE_*\", edge: exit}\n%s",
            more);
    kit_write(text);
    REQUIRE(setenv("KEDGE_HINTS_MODE", "live", 1) == 0);
    kit_allow_live();
    if (fault[0])
        REQUIRE(setenv("SIMCUDA_FAIL", fault, 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&evict_stream, CU_STREAM_NON_BLOCKING));
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++) {
        KEDGE_MARK("poll");
        (void)cu->cuMemFree_v2(kit_alloc(64)); /* moves go on at calls */
    }
}

/* One instance: a block of this content. */
static CUdeviceptr instance(unsigned char value)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8Async(ptr, value, KIT_BYTES, evict_stream));
    KEDGE_POP();
    return ptr;
}

/* Bytes of the block that are not so, read by a copy on the stream. */
static size_t wrong(CUdeviceptr ptr, unsigned char value)
{
    size_t count = 0;

    memset(copy, ~value, sizeof copy);
    CU_OK(cu->cuMemcpyDtoHAsync_v2(copy, ptr, KIT_BYTES, evict_stream));
    CU_OK(cu->cuStreamSynchronize(evict_stream));
    for (size_t i = 0; i < KIT_BYTES; i++)
        count += copy[i] != value;
    return count;
}

static unsigned kept(enum format_kept_why why)
{
    struct read_capture *capture = kit_read();
    unsigned count = 0;

    for (size_t i = 0; i < capture->kept_count; i++)
        count += capture->kept[i].why == why;
    read_close(capture);
    return count;
}

TEST(r109_a_call_that_names_what_was_released_gets_it_back)
{
    CUdeviceptr ptr[BLOCKS];

    keep("back", "    keep-content: 1\n");
    for (unsigned i = 0; i < BLOCKS; i++) {
        ptr[i] = instance((unsigned char)(0x10 + i));
        settle();
        CHECK(!evict_is_in(ptr[i]));
        CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr[i]), 1);
        /* and once it was needed, the content is kept beyond the stated instances */
        CHECK_EQ(wrong(ptr[i], (unsigned char)(0x10 + i)), 0);
        CHECK(evict_is_in(ptr[i]));
        settle();
        CHECK(evict_is_in(ptr[i])); /* it stays from then on */
    }
    CHECK_EQ(kept(FORMAT_KEPT_NEEDED), BLOCKS);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, 0), 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(r109_after_the_stated_instances_without_a_need_it_is_a_plain_release)
{
    CUdeviceptr ptr[BLOCKS];

    keep("plain", "    keep-content: 2\n");
    for (unsigned i = 0; i < BLOCKS; i++) {
        ptr[i] = instance(0x21);
        settle();
        CHECK(!evict_is_in(ptr[i]));
        CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr[i]), 1);
    }
    CHECK_EQ(cu->cuMemsetD8Async(ptr[BLOCKS - 1], 1, KIT_BYTES, evict_stream),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(wrong(ptr[0], 0x21), 0); /* it was released when its content was still kept */
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    kit_clean_up();
}

/* What is used while it is on its way out, without a wait in between. */
TEST(r109_a_use_right_behind_the_edge_finds_the_content)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    keep("behind", "    keep-content: always\n");
    for (unsigned char i = 1; i < 6; i++) {
        CUdeviceptr ptr = instance(i);

        CU_OK(cu->cuMemFree_v2(kit_alloc(64))); /* it begins to leave */
        CHECK_EQ(wrong(ptr, i), 0);
        CU_OK(cu->cuMemsetD8Async(ptr, 0x77, KIT_BYTES, evict_stream));
        CHECK_EQ(wrong(ptr, 0x77), 0);
        CU_OK(cu->cuMemFree_v2(ptr));
    }
    kit_clean_up();
}

/* The device holds what one instance needs, and not more. */
TEST(r109_what_went_out_makes_room_on_a_device_that_is_full)
{
    CUdeviceptr ptr[4];

    REQUIRE(setenv("SIMCUDA_MEMORY", "33554432", 1) == 0);
    keep("room", "    keep-content: always\n");
    for (unsigned i = 0; i < 4; i++) {
        CUdeviceptr other;

        ptr[i] = instance((unsigned char)(i + 1));
        other = kit_alloc(2 * KIT_BYTES); /* nobody has waited for anything */
        CU_OK(cu->cuMemsetD8Async(other, 9, 2 * KIT_BYTES, evict_stream));
        CU_OK(cu->cuMemFree_v2(other));
    }
    for (unsigned i = 0; i < 4; i++)
        CU_OK(cu->cuMemFree_v2(ptr[i]));
    settle();
    ptr[0] = kit_alloc(3 * KIT_BYTES); /* nothing is left of them */
    CU_OK(cu->cuMemFree_v2(ptr[0]));
    kit_clean_up();
}

TEST(r109_what_the_host_has_no_room_for_stays_on_the_device)
{
    CUdeviceptr ptr[2];

    keep("budget", "    keep-content: always\n    host-budget: 8MiB\n");
    for (unsigned i = 0; i < 2; i++) {
        ptr[i] = instance((unsigned char)(i + 1));
        settle();
    }
    CHECK(!evict_is_in(ptr[0]));
    CHECK(evict_is_in(ptr[1]));
    CHECK_EQ(kept(FORMAT_KEPT_HOST), 1);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(wrong(ptr[i], (unsigned char)(i + 1)), 0);
        CU_OK(cu->cuMemFree_v2(ptr[i]));
    }
    kit_clean_up();
}

/* A free before the edge leaves the block to the next request, as without keep-content. */
TEST(r109_what_is_freed_before_its_edge_is_never_copied)
{
    CUdeviceptr first = 0;

    keep("early", "    keep-content: always\n");
    for (unsigned i = 0; i < 4; i++) {
        CUdeviceptr ptr;

        KEDGE_PUSH("PHASE_0");
        ptr = kit_alloc(KIT_BYTES);
        CU_OK(cu->cuMemFree_v2(ptr));
        KEDGE_POP();
        settle();
        CHECK(i == 0 || ptr == first);
        first = ptr;
    }
    CHECK_EQ(client_calls("cuMemcpyDtoHAsync"), 0);
    kit_clean_up();
}

/* A graph that is captured after the release names it: it comes back, and stays. */
TEST(r109_r80_a_graph_that_names_what_was_released_has_it_in)
{
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUdeviceptr ptr;

    keep("graph", "    keep-content: always\n");
    ptr = instance(3);
    settle();
    CHECK(!evict_is_in(ptr));
    CU_OK(cu->cuStreamBeginCapture_v2(evict_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemsetD8Async(ptr, 0x44, KIT_BYTES, evict_stream));
    CU_OK(cu->cuStreamEndCapture(evict_stream, &graph));
    CU_OK(KIT_CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CU_OK(cu->cuGraphLaunch(exec, evict_stream));
    CHECK_EQ(wrong(ptr, 0x44), 0);
    CU_OK(cu->cuMemFree_v2(ptr));
    kit_clean_up();
}

/* ---- refusals of the driver ----------------------------------------------------------------- */

static const char *const ours[] = {"cuMemUnmap", "cuMemMap", "cuMemSetAccess", "cuMemCreate",
        "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuCtxRecordEvent", "cuStreamWaitEvent",
        "cuMemHostRegister", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"};

/* A call that fails was not made. Whatever the driver refuses, the content is there. */
static void go_on_through_it(void)
{
    keep("refused", "    keep-content: always\n");
    for (unsigned char i = 1; i < 4; i++) {
        CUdeviceptr ptr = instance(i);

        CU_OK(cu->cuCtxSynchronize());
        KEDGE_MARK("poll");
        for (int try = 0; try < 3; try++)
            if (cu->cuMemcpyDtoHAsync_v2(copy, ptr, KIT_BYTES, evict_stream) == CUDA_SUCCESS)
                break;
        CU_OK(cu->cuStreamSynchronize(evict_stream));
        CHECK_EQ(copy[0], i);
        CHECK(memcmp(copy, copy + 1, KIT_BYTES - 1) == 0);
        CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    }
    kit_clean_up();
}

TEST(r32_r109_no_refusal_loses_content)
{
    static const int nth[] = {1, 4};

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

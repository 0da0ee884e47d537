/* SPDX-License-Identifier: MIT */
/* What a hint expects in each instance of its anchor, and what happens when it matches something else: R57 in whole programs. */
#include "tests/preload/hints_kit.h"
#include "tests/sim/base/simcuda.h"

#include <pthread.h>

/* Blocks of 8 MiB and more inside PHASE_*, due at its exit. */
static void expect(const char *tail, const char *mode, const char *expectation)
{
    char text[512];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - id: unused\n"
            "    do: release\n"
            "    pick: {size: \">=8MiB\", inside: \"PHASE_*\"}\n"
            "    when: {anchor: \"PHASE_*\", edge: exit}\n"
            "    expect: {%s}\n",
            expectation);
    kit_write(text);
    REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    client_init();
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        KEDGE_MARK("poll");
}

/* A phase in which `count` blocks are made, at most 4. */
static void phase(const char *name, int count, CUdeviceptr *ret_blocks)
{
    KEDGE_PUSH(name);
    for (int i = 0; i < count; i++)
        ret_blocks[i] = kit_alloc(KIT_BYTES);
    KEDGE_POP();
}

/* The drift that the capture tells of the only hint. */
static struct hintwords_drift drift_told(bool *ret_any)
{
    struct read_capture *capture = kit_read();
    struct hintwords_drift drift = capture->rule[0].drift;

    *ret_any = capture->rule[0].has_drifted;
    if (*ret_any)
        CHECK_STR_EQ(drift.path, "PHASE_0");
    drift.path = NULL; /* goes with the capture */
    read_close(capture);
    return drift;
}

static bool has_drifted(void)
{
    bool any;

    (void)drift_told(&any);
    return any;
}

TEST(r57_r109_what_drifts_is_not_released_and_what_comes_before_and_after_it_is)
{
    CUdeviceptr before, drifted[2], after;
    bool any;

    expect("canary", "live", "count: 1");
    phase("PHASE_0", 1, &before);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, before), 1);
    phase("PHASE_0", 2, drifted);
    phase("PHASE_0", 1, &after);
    settle();
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, drifted[i]), 0);
        CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, drifted[i]), 1);
        CHECK_EQ(cu->cuMemsetD8_v2(drifted[i], 1, KIT_BYTES), CUDA_SUCCESS);
    }
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, after), 1);
    CHECK_EQ(cu->cuMemsetD8_v2(after, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemsetD8_v2(before, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_DRIFT, 0), 1);
    struct hintwords_drift drift = drift_told(&any);
    CHECK(any);
    CHECK_EQ(drift.instance, 1);
    CHECK_EQ(drift.seen.count, 2);
    CHECK_EQ(drift.seen.bytes, 2 * KIT_BYTES);
    CHECK_EQ(drift.expect.count.lo, 1);
    CHECK_EQ(drift.expect.count.hi, 1);
    CHECK_EQ(drift.expect.bytes.hi, 0);
    CHECK_EQ(cu->cuMemFree_v2(before), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(drifted[0]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(drifted[1]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(after), CUDA_SUCCESS);
    CU_OK(cu->cuCtxSynchronize());
    kit_clean_up();
}

/* After three others in a row the third that is as expected is the first that is released again. */
TEST(r57_r109_after_several_drifts_as_many_instances_must_be_as_expected)
{
    static const int counts[] = {1, 2, 2, 2, 1, 1, 1, 1, 2, 1};
    static const bool released[] = {
            true, false, false, false, false, false, true, true, false, true};
    CUdeviceptr ptr[2];

    expect("several", "trap", "count: 1");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        phase("PHASE_0", counts[i], ptr);
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr[0]), released[i]);
        for (int k = 0; k < counts[i]; k++)
            CHECK_EQ(cu->cuMemsetD8_v2(ptr[k], 1, KIT_BYTES),
                    released[i] ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        /* blocks that the program keeps: no address comes twice */
    }
    CHECK_EQ(kit_told(FORMAT_HINT_DRIFT, 0), 4);
    kit_clean_up();
}

/* Of the same number of blocks: more bytes are another program, fewer are a smaller batch. */
TEST(r57_r109_fewer_bytes_in_as_many_blocks_are_no_drift)
{
    CUdeviceptr ptr;

    expect("smaller", "trap", "count: 1, bytes: 24MiB");
    for (size_t mb = 24; mb >= 8; mb -= 8) {
        KEDGE_PUSH("PHASE_0");
        ptr = kit_alloc(mb * MB);
        KEDGE_POP();
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    }
    CHECK(!has_drifted());
    kit_clean_up();
}

TEST(r57_what_is_freed_before_the_edge_counts_too)
{
    CUdeviceptr kept;

    expect("freed", "trap", "count: 2");
    for (int i = 0; i < 3; i++) {
        KEDGE_PUSH("PHASE_0");
        CU_OK(cu->cuMemFree_v2(kit_alloc(KIT_BYTES)));
        kept = kit_alloc(KIT_BYTES);
        KEDGE_POP();
        settle();
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, kept), 1);
    }
    CHECK(!has_drifted());
    KEDGE_PUSH("PHASE_0");
    CU_OK(cu->cuMemFree_v2(kit_alloc(KIT_BYTES)));
    KEDGE_POP(); /* nothing is left that could be released, and still it is another program */
    CHECK(has_drifted());
    kit_clean_up();
}

/* The pool has no handle for one of them, and the driver serves it. */
TEST(r57_what_the_driver_serves_is_no_drift)
{
    CUdeviceptr served, forwarded;

    expect("forwarded", "trap", "count: 2");
    __typeof__(&simcuda_fail_next) fail = (__typeof__(fail))client_sim("simcuda_fail_next");
    KEDGE_PUSH("PHASE_0");
    served = kit_alloc(KIT_BYTES);
    fail("cuMemCreate", 100, CUDA_ERROR_UNKNOWN);
    CU_OK(cu->cuMemAllocAsync(&forwarded, KIT_BYTES, NULL));
    ((__typeof__(&simcuda_fail_clear))client_sim("simcuda_fail_clear"))();
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_REFUSED, forwarded), 1);
    CHECK(!has_drifted());
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, served), 1);
    kit_clean_up();
}

TEST(r57_other_sizes_are_drift_where_bytes_are_expected)
{
    CUdeviceptr ptr;

    expect("bytes", "trap", "count: \"1..2\", bytes: \"8MiB..20MiB\"");
    for (size_t mb = 8; mb <= 12; mb += 4) {
        KEDGE_PUSH("PHASE_0");
        ptr = kit_alloc(mb * MB);
        KEDGE_POP();
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    }
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(24 * MB);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CHECK(has_drifted());
    kit_clean_up();
}

TEST(r57_an_instance_without_a_match_is_no_drift)
{
    CUdeviceptr ptr;

    expect("none", "trap", "count: 1");
    for (int i = 0; i < 3; i++) {
        phase("PHASE_0", 1, &ptr);
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
        phase("PHASE_0", 0, NULL);
    }
    CHECK(!has_drifted());
    kit_clean_up();
}

/* ---- instances that are under way at the same time --------------------------------------------- */

static pthread_barrier_t both;
static CUdeviceptr theirs[2];

/* Each makes one block, with both inside, and leaves after the other has made its own. */
static void *inside(void *own)
{
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    for (int i = 0; i < 20; i++) {
        KEDGE_PUSH("PHASE_0");
        (void)pthread_barrier_wait(&both);
        *(CUdeviceptr *)own = kit_alloc(KIT_BYTES);
        (void)pthread_barrier_wait(&both);
        KEDGE_POP();
        CU_OK(cu->cuMemFree_v2(*(CUdeviceptr *)own));
    }
    return NULL;
}

TEST(r57_instances_of_two_threads_are_counted_apart)
{
    pthread_t threads[2];

    expect("threads", "trap", "count: 1");
    REQUIRE(pthread_barrier_init(&both, NULL, 2) == 0);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, inside, &theirs[i]) == 0);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK(!has_drifted());
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 40);
    kit_clean_up();
}

/* Due at another anchor's exit: what came since the last one. Its own blocks and those of ranges before it are one instance. */
TEST(r57_at_another_anchors_exit_all_since_the_last_is_counted)
{
    CUdeviceptr ptr;

    kit_files("since");
    kit_write("kedge-hints: 1\n"
              "hints:\n"
              "  - {id: unused, do: release, pick: {size: 8MiB}, when: {anchor: \"END\", edge: "
              "exit}, expect: {count: 3}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    client_init();
    for (int i = 0; i < 3; i++) {
        phase("A", 1, &ptr);
        phase("B", 1, &ptr);
        phase("END", 1, &ptr);
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 3 * ((unsigned)i + 1));
    }
    phase("A", 1, &ptr);
    phase("END", 1, &ptr);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 9);
    CHECK_EQ(kit_told(FORMAT_HINT_DRIFT, 0), 1);
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/*
 * Picks by who asks: what a hint takes in a run is what its prediction says, to the block, the edge and the byte. Two hints for
 * 8 MiB inside PHASE_*: the first states what is tested, and what it leaves goes to the second, in shadow.
 */
#include "tests/preload/hints_kit.h"

#include "tools/load/load.h"
#include "tools/replay/predict.h"

#include <pthread.h>

/* Before the first CUDA call. `rank`: NULL = none. */
static void begin(const char *rank, const char *pick)
{
    char text[600];

    kit_files("picks");
    if (rank) {
        REQUIRE(setenv("RANK", rank, 1) == 0);
        snprintf(kit_capture + strlen(kit_capture), 8, ".%.6s", rank);
    }
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - {id: tested, do: release, mode: live, pick: {size: 8MiB, inside: \"PHASE_*\", "
            "%s},\n"
            "     when: {anchor: \"PHASE_*\", edge: exit}}\n"
            "  - {id: rest, do: release, pick: {size: 8MiB, inside: \"PHASE_*\"},\n"
            "     when: {anchor: \"PHASE_*\", edge: exit}}\n",
            pick);
    kit_write(text);
    kit_allow_live();
    client_init();
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        KEDGE_MARK("poll");
}

static bool is_taken(CUdeviceptr ptr)
{
    bool taken = kit_told(FORMAT_HINT_UNMAPPED, ptr) == 1;

    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, ptr), !taken);
    return taken;
}

/* What the run was told, against what the same hints say of its capture. */
static void check_foreseen(void)
{
    struct hintfile_error error;
    struct predict_match *matches;
    struct hintfile *file;
    struct load load;
    uint64_t max = 0;

    REQUIRE_EQ(hintfile_read(kit_hints, &file, &error), 0);
    REQUIRE_EQ(load_open(kit_capture, &load), 0);
    matches = calloc(load.trace->block_count, sizeof *matches);
    REQUIRE(matches != NULL);
    REQUIRE_EQ(predict_matches(load.trace, file->rule, file->rule_count, matches), 0);
    for (size_t i = 0; i < load.trace->block_count; i++) {
        const struct trace_block *block = &load.trace->blocks[i];

        CHECK_EQ((int32_t)matches[i].rule, block->rule); /* TRACE_NONE is -1 there */
        CHECK_EQ(matches[i].at, block->released);
    }
    REQUIRE_EQ(predict_max(load.trace, file->rule, 1, &max), 0);
    CHECK_EQ(max, load.capture->total.peak_hinted_bytes);
    free(matches);
    load_close(&load);
    hintfile_free(file);
}

static void *allocate(void *ret_block)
{
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    KEDGE_PUSH("PHASE_1");
    *(CUdeviceptr *)ret_block = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    return NULL;
}

/* A block of this thread and one of another, which stay. */
static void phase(bool ret_taken[static 2])
{
    CUdeviceptr blocks[2];
    pthread_t thread;

    KEDGE_PUSH("PHASE_0");
    blocks[0] = kit_alloc(KIT_BYTES);
    REQUIRE_EQ(pthread_create(&thread, NULL, allocate, &blocks[1]), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    KEDGE_POP();
    settle();
    for (int i = 0; i < 2; i++)
        ret_taken[i] = is_taken(blocks[i]);
}

TEST(only_what_the_first_thread_asks_for)
{
    bool taken[2];

    begin(NULL, "thread: main");
    for (int i = 0; i < 3; i++) {
        phase(taken);
        CHECK(taken[0]);
        CHECK(!taken[1]);
    }
    check_foreseen();
    kit_clean_up();
}

static void in_rank(const char *rank, const char *glob, bool fits)
{
    char pick[80];
    bool taken[2];

    snprintf(pick, sizeof pick, "rank: \"%s\"", glob);
    begin(rank, pick);
    phase(taken);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(taken[i], fits);
    check_foreseen();
    struct read_capture *capture = kit_read();
    CHECK_EQ(capture->rule[0].mode, fits ? HINT_LIVE : HINT_OFF);
    read_close(capture);
    kit_clean_up();
}

TEST(a_rank_that_fits)
{
    in_rank("13", "1?", true);
}

TEST(a_rank_that_does_not_fit)
{
    in_rank("3", "1?", false);
}

TEST(no_rank)
{
    in_rank(NULL, "1?", false);
}

/* Blocks on streams, which stay: what is taken of each. */
enum {
    ON_FIRST,
    ON_SECOND,
    ON_DEFAULT,
    ON_OWN,
    ON_NONE,
    STREAMS,
};

static void phase_on_streams(bool taken[static STREAMS])
{
    CUdeviceptr blocks[STREAMS];
    CUstream streams[3];

    CU_OK(cu->cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
    CU_OK(cu->cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamDestroy_v2(streams[1])); /* numbers do not come back, handles do */
    CU_OK(cu->cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("PHASE_0");
    CU_OK(cu->cuMemAllocAsync(&blocks[ON_SECOND], KIT_BYTES, streams[2]));
    CU_OK(cu->cuMemAllocAsync(&blocks[ON_DEFAULT], KIT_BYTES, NULL));
    CU_OK(cu->cuMemAllocAsync(&blocks[ON_FIRST], KIT_BYTES, streams[0]));
    CU_OK(cu->cuMemAllocAsync_ptsz(&blocks[ON_OWN], KIT_BYTES, NULL));
    blocks[ON_NONE] = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    settle();
    for (int i = 0; i < STREAMS; i++)
        taken[i] = is_taken(blocks[i]);
    check_foreseen();
    kit_clean_up();
}

TEST(only_what_is_asked_for_on_the_third_stream)
{
    bool taken[STREAMS];

    begin(NULL, "stream: 3");
    phase_on_streams(taken);
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(taken[i], i == ON_SECOND);
}

TEST(only_what_is_asked_for_on_a_default_stream)
{
    bool taken[STREAMS];

    begin(NULL, "stream: 0");
    phase_on_streams(taken);
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(taken[i], i == ON_DEFAULT || i == ON_OWN);
}

/* Without hints nearly all goes the short way (quick.h), which tells the same streams. */
TEST(a_capture_knows_the_stream_of_each_allocation_and_free)
{
    CUstream streams[3] = {NULL};
    size_t told[3] = {0};

    kit_files("streams");
    client_init();
    CU_OK(cu->cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
    CU_OK(cu->cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 300; i++) {
        CUdeviceptr block;

        CU_OK(cu->cuMemAllocAsync(&block, (size_t)(1 + i % 3) * MB, streams[i % 3]));
        CU_OK(cu->cuMemFreeAsync(block, streams[i % 3]));
    }
    struct read_capture *capture = kit_read();
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_ALLOC && event->kind != FORMAT_EVENT_FREE)
            continue;
        CHECK_EQ(format_stream_number(event->stream), event->size / MB);
        told[event->size / MB - 1]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(told[i], 200u);
    read_close(capture);
    kit_clean_up();
}

static CUdeviceptr alloc_on(CUstream stream)
{
    CUdeviceptr ptr = 0;

    CU_OK(cu->cuMemAllocAsync(&ptr, KIT_BYTES, stream));
    return ptr;
}

/* The pool has a block for what is picked, so that nothing but the stream sends it the long way. */
TEST(the_short_way_knows_the_stream_that_is_picked)
{
    CUdeviceptr ptr;
    CUstream stream;

    kit_files("short");
    kit_write("kedge-hints: 1\n"
              "hints:\n"
              "  - {id: tested, do: release, pick: {size: 8MiB, inside: \"PHASE_*\", stream: 1},\n"
              "     when: {anchor: \"PHASE_*\", edge: exit}}\n");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 20; i++) {
        CU_OK(cu->cuMemFreeAsync(alloc_on(stream), stream));
        KEDGE_PUSH("PHASE_0");
        ptr = alloc_on(stream);
        KEDGE_POP();
        CU_OK(cu->cuMemFreeAsync(ptr, stream));
    }
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, 0), 20);
    kit_clean_up();
}

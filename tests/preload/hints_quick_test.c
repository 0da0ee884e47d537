/* SPDX-License-Identifier: MIT */
/* Requests that hints do not match take the short path (preload/request/quick.h): those from the same place that they match do not. */
#include "tests/preload/hints_kit.h"

#define KB ((size_t)1 << 10)

static CUstream stream; /* NULL: the sync API */

/* All requests of this test come from one place. */
static __attribute__((noinline)) CUdeviceptr ask(size_t size)
{
    CUdeviceptr ptr = 0;

    if (stream)
        CU_OK(cu->cuMemAllocAsync(&ptr, size, stream));
    else
        CU_OK(cu->cuMemAlloc_v2(&ptr, size));
    return ptr;
}

static void give(CUdeviceptr ptr)
{
    CU_OK(stream ? cu->cuMemFreeAsync(ptr, stream) : cu->cuMemFree_v2(ptr));
}

/* How often the hint `id` was planned so far. */
static unsigned picks(const char *id)
{
    struct read_capture *capture = kit_read();
    unsigned n = 0;

    for (size_t i = 0; i < capture->event_count; i++)
        n += capture->event[i].kind == FORMAT_EVENT_HINT
                && capture->event[i].what == FORMAT_HINT_PLANNED
                && strcmp(capture->rule[capture->event[i].rule].id, id) == 0;
    read_close(capture);
    return n;
}

/* Whether it is for what is asked for now. */
static bool is_picked(size_t size, const char *id)
{
    unsigned before = picks(id);

    give(ask(size));
    return picks(id) == before + 1;
}

static void repeat(size_t size, int times)
{
    for (int i = 0; i < times; i++)
        give(ask(size));
}

static void start(const char *tail, bool on_stream)
{
    kit_files(tail);
    kit_write(
            "kedge-hints: 1\n"
            "defaults: {min-size: 1}\n"
            "hints:\n"
            "  - {id: place, do: release, pick: {size: 64KiB, inside: PHASE_1, nth: all}, when: "
            "{anchor: PHASE_1, edge: exit}}\n"
            "  - {id: size, do: release, pick: {size: 100KiB..110KiB, nth: all}, when: {anchor: "
            "END, edge: exit}}\n"
            "  - {id: place-of-any-size, do: release, pick: {inside: \"PHASE_2/*\", nth: all}, "
            "when: {anchor: END, edge: exit}}\n"
            "  - {id: seventh, do: release, pick: {size: 4KiB, nth: 7}, when: {anchor: END, edge: "
            "exit}}\n"
            "  - {id: second, do: release, pick: {size: 3MiB, nth: 2}, when: {anchor: END, edge: "
            "exit}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    client_init();
    if (on_stream)
        CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    repeat(64 * KB, 50);
}

static void check_all(void)
{
    repeat(96 * KB, 50);
    for (int i = 0; i < 3; i++) {
        CHECK(!is_picked(64 * KB, "place"));
        KEDGE_PUSH("PHASE_1");
        repeat(96 * KB, 5);
        CHECK(is_picked(64 * KB, "place"));
        CHECK(!is_picked(96 * KB, "place"));
        KEDGE_POP();
        CHECK(!is_picked(64 * KB, "place"));
        CHECK(is_picked(105 * KB, "size"));
        CHECK(!is_picked(111 * KB, "size"));
        KEDGE_PUSH("PHASE_2");
        CHECK(!is_picked(96 * KB, "place-of-any-size"));
        KEDGE_PUSH("inner");
        CHECK(is_picked(96 * KB, "place-of-any-size"));
        KEDGE_POP();
        KEDGE_POP();
    }

    /* each is counted once, whichever way it went: those of 4 KiB find a block, those of 3 MiB do not */
    for (unsigned i = 0; i < 20; i++) {
        give(ask(4 * KB));
        CHECK_EQ(picks("seventh"), i >= 7);
    }
    for (unsigned i = 0; i < 5; i++) {
        (void)ask(3 * MB);
        CHECK_EQ(picks("second"), i >= 2);
    }
}

TEST(the_short_path_hides_no_match_of_the_sync_api)
{
    start("quick-sync", false);
    check_all();
    kit_clean_up();
}

TEST(the_short_path_hides_no_match_of_the_stream_api)
{
    start("quick-stream", true);
    check_all();
    kit_clean_up();
}

/* A block with a hint is freed the long way whichever way its neighbours go. */
TEST(the_short_path_frees_no_block_of_a_hint)
{
    CUdeviceptr other;

    start("quick-free", false);
    KEDGE_PUSH("PHASE_1");
    other = ask(96 * KB);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr hinted = ask(64 * KB);

        KEDGE_POP();
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), (unsigned)i + 1);
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, other), 0);
        give(hinted);
        CHECK_EQ(cu->cuMemFree_v2(hinted), CUDA_ERROR_INVALID_VALUE);
        CU_OK(cu->cuCtxSynchronize());
        KEDGE_PUSH("PHASE_1");
    }
    KEDGE_POP();
    give(other);
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/*
 * do: hold, in whole programs that go on with memory that they have freed: it stays theirs until the edge, on both allocation
 * APIs, whatever runs late. The witness is told of a death where the edge is: what the program does until then is its own.
 */
#include "tests/preload/hints_kit.h"
#include "tests/preload/said.h"
#include "tests/sim/base/simcuda.h"

#include <sys/mman.h>
#include <sys/syscall.h>

/* The library's mmap too: its own structs get no memory while this is set. */
static bool is_full;

__attribute__((visibility("default"))) void *mmap(
        void *addr, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_full && size == MB)
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, addr, size, protection, flags, fd, offset);
}

static CUstream first, second;
static bool streamed; /* which API */

static CUdeviceptr get(void)
{
    __typeof__(&simcuda_witness_birth) birth =
            (__typeof__(birth))client_sim("simcuda_witness_birth");
    CUdeviceptr ptr = 0;

    if (streamed)
        CU_OK(cu->cuMemAllocAsync(&ptr, KIT_BYTES, first));
    else
        CU_OK(cu->cuMemAlloc_v2(&ptr, KIT_BYTES));
    birth(ptr, KIT_BYTES, streamed ? first : SIMCUDA_NO_STREAM);
    return ptr;
}

static CUresult give(CUdeviceptr ptr)
{
    return streamed ? cu->cuMemFreeAsync(ptr, first) : cu->cuMemFree_v2(ptr);
}

static void dies(CUdeviceptr ptr)
{
    __typeof__(&simcuda_witness_death) death =
            (__typeof__(death))client_sim("simcuda_witness_death");

    death(ptr, SIMCUDA_NO_STREAM);
}

static void fill(CUdeviceptr ptr, unsigned char byte)
{
    CU_OK(cu->cuMemsetD8Async(ptr, byte, KIT_BYTES, first));
    CU_OK(cu->cuStreamSynchronize(first));
}

static size_t wrong_bytes(CUdeviceptr ptr, unsigned char right)
{
    static unsigned char host[KIT_BYTES];
    size_t wrong = 0;

    CU_OK(cu->cuMemcpyDtoH_v2(host, ptr, sizeof host));
    for (size_t i = 0; i < sizeof host; i++)
        wrong += host[i] != right;
    return wrong;
}

static void start(bool on_streams)
{
    streamed = on_streams;
    client_init();
    CU_OK(cu->cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
}

/* A block that the hint is of. */
static CUdeviceptr make(void)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = get();
    KEDGE_POP();
    fill(ptr, 0x11);
    return ptr;
}

static void pass_edge(void)
{
    KEDGE_PUSH("PHASE_1");
    KEDGE_POP();
}

static void begin(bool on_streams, const char *tail, const char *mode)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0); /* nothing runs before it is waited for */
    kit_hint_to("hold", tail, mode);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    start(on_streams);
}

/* ---- late streams --------------------------------------------------------------------------- */

/* Two copies of a block after its free, and other tenants at every turn. */
static void used_after_its_free(void)
{
    CUdeviceptr out[2] = {kit_alloc(KIT_BYTES), kit_alloc(KIT_BYTES)};
    CUdeviceptr a = make();
    CUdeviceptr b, c;

    CU_OK(cu->cuMemcpyDtoDAsync_v2(out[0], a, KIT_BYTES, second));
    CHECK_EQ(give(a), CUDA_SUCCESS);
    b = get();
    CHECK_NE(b, a);
    fill(b, 0x22);
    CU_OK(cu->cuMemcpyDtoDAsync_v2(out[1], a, KIT_BYTES, second));
    dies(a);
    pass_edge();
    for (int i = 0; i < 3; i++) {
        c = get();
        fill(c, 0x33);
        dies(c);
        CHECK_EQ(give(c), CUDA_SUCCESS);
    }
    CU_OK(cu->cuCtxSynchronize());
    CHECK_EQ(wrong_bytes(out[0], 0x11), 0);
    CHECK_EQ(wrong_bytes(out[1], 0x11), 0);
    CHECK_EQ(wrong_bytes(b, 0x22), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, a), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, a), 1);
}

TEST(r57_a_held_block_outlives_late_work_on_the_sync_api)
{
    begin(false, "heldsync", "live");
    used_after_its_free();
    kit_clean_up();
}

TEST(r57_a_held_block_outlives_late_work_on_the_stream_api)
{
    begin(true, "heldstream", "live");
    used_after_its_free();
    kit_clean_up();
}

TEST(r57_a_trap_holds_as_live_does)
{
    begin(true, "heldtrap", "trap");
    used_after_its_free();
    kit_clean_up();
}

TEST(r55_in_shadow_a_free_is_a_free)
{
    CUdeviceptr a;

    begin(true, "heldshadow", "shadow");
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_HOLD, a), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, 0), 0);
    dies(a);
    CHECK_EQ(get(), a); /* as without the hint */
    kit_clean_up();
}

/* A hold takes nothing from the program, so that nothing has to be tried first. */
TEST(r87_a_hold_needs_no_receipt)
{
    CUdeviceptr a;

    kit_hint_to("hold", "heldunproved", "live");
    start(true);
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, a), 1);
    pass_edge();
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, a), 1);
    kit_clean_up();
}

/* Whoever tries hints of a program that is wrong without its holds. */
TEST(a_trial_holds_and_releases_nothing)
{
    CUdeviceptr a;

    kit_files("trial");
    kit_write("kedge-hints: 1\nhints:\n"
              "  - {id: held, do: hold, pick: {size: 8MiB}, when: {anchor: PHASE_1, edge: exit}}\n"
              "  - {id: late, do: release, pick: {size: 16MiB}, when: {anchor: PHASE_1, edge: "
              "exit}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trial", 1) == 0);
    start(true);
    a = make();
    (void)kit_alloc(2 * KIT_BYTES);
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, a), 1);
    pass_edge();
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, a), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, 0), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    kit_clean_up();
}

/* Its edge comes before the last use, which is then the program's own, as without the hint. */
static void used_after_its_edge(void)
{
    unsigned char byte;
    CUdeviceptr a;

    start(true);
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    pass_edge();
    CU_OK(cu->cuMemcpyDtoH_v2(&byte, a, 1));
    CHECK_EQ(byte, 0x11);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0) + kit_told(FORMAT_HINT_VIOLATION, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_WRITE, 0), 0);
}

TEST(no_mode_sees_that_a_hold_ends_too_early)
{
    static const char *const modes[] = {"shadow", "poison", "trap", "live"};

    for (size_t i = 0; i < 4; i++) {
        kit_hint_to("hold", "heldearly", modes[i]);
        CHECK_EQ(run_child(used_after_its_edge), 0);
        kit_clean_up();
    }
}

/* ---- the free ------------------------------------------------------------------------------- */

static void freed_once(bool on_streams)
{
    CUdeviceptr a;

    begin(on_streams, on_streams ? "oncestream" : "oncesync", "trap");
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CHECK_EQ(give(a), CUDA_ERROR_INVALID_VALUE);
    pass_edge();
    CHECK_EQ(give(a), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, a), 1);
    pass_edge();
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, a), 1);
    kit_clean_up();
}

TEST(r58_a_held_block_is_freed_once_on_the_sync_api)
{
    freed_once(false);
}

TEST(r58_a_held_block_is_freed_once_on_the_stream_api)
{
    freed_once(true);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void hold_to_the_end(void)
{
    CUdeviceptr a;

    start(true);
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
}

TEST(what_is_held_to_the_end_is_in_the_capture)
{
    kit_hint_to("hold", "heldend", "trap");
    CHECK_EQ(run_child(hold_to_the_end), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, 0), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, 0), 0);
    kit_clean_up();
}

static void reset(void)
{
    CUdeviceptr a;

    start(false);
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CU_OK(cu->cuStreamDestroy_v2(first));
    CU_OK(cu->cuDevicePrimaryCtxReset_v2(cu->device));
    pass_edge();
}

TEST(r26_a_context_may_end_with_held_blocks)
{
    kit_hint_to("hold", "heldreset", "trap");
    CHECK_EQ(run_child(reset), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, 0), 0);
    kit_clean_up();
}

static CUdeviceptr inherited;

static void in_the_child(void)
{
    CHECK_EQ(cu->cuMemFree_v2(inherited), CUDA_SUCCESS); /* as every block of the parent's there */
    pass_edge();
}

TEST(r39_a_forked_child_does_nothing_to_what_is_held)
{
    begin(false, "heldfork", "trap");
    inherited = make();
    CHECK_EQ(give(inherited), CUDA_SUCCESS);
    CHECK_EQ(run_child(in_the_child), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, 0), 0);
    CHECK_EQ(wrong_bytes(inherited, 0x11), 0);
    pass_edge();
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, inherited), 1);
    kit_clean_up();
}

/* ---- hints that are given up ---------------------------------------------------------------- */

/* Names a block in a captured call until there is no memory to note that. */
static void run_out_of_notes(void)
{
    CUdeviceptr named = kit_alloc(MB);
    CUgraph graph;

    CU_OK(cu->cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    is_full = true;
    for (int i = 0; i < 17000; i++) /* a piece of memory has room for 16384 */
        CU_OK(cu->cuMemsetD8Async(named, 0, 1, second));
    is_full = false;
    CU_OK(cu->cuStreamEndCapture(second, &graph));
    CU_OK(cu->cuGraphDestroy(graph));
}

TEST(r57_what_is_held_goes_at_its_edge_when_hints_release_nothing_more)
{
    struct read_capture *capture;
    CUdeviceptr before, after, other;
    unsigned stopped = 0;

    kit_files("heldstop");
    kit_write("kedge-hints: 1\n"
              "defaults: {mode: trap}\n"
              "hints:\n"
              "  - {id: held, do: hold, pick: {size: 8MiB}, when: {anchor: PHASE_1, edge: exit}}\n"
              "  - {id: gone, do: release, pick: {size: 4MiB}, when: {anchor: PHASE_1, edge: "
              "exit}}\n");
    start(false);
    before = make();
    after = make();
    other = kit_alloc(4 * MB);
    CHECK_EQ(give(before), CUDA_SUCCESS);
    run_out_of_notes();
    capture = kit_read();
    for (size_t i = 0; i < capture->note_count; i++)
        stopped += strstr(capture->note[i].text, "no memory to note") != NULL;
    read_close(capture);
    CHECK_EQ(stopped, 1);
    CHECK_EQ(give(after), CUDA_SUCCESS);
    pass_edge();
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, before), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, after), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, other), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    kit_clean_up();
}

/* ---- a full device -------------------------------------------------------------------------- */

static void fill_the_device(void)
{
    CUdeviceptr a, big = 0;

    start(false);
    a = make();
    CHECK_EQ(give(a), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&big, 60 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(wrong_bytes(a, 0x11), 0);
    pass_edge();
    CHECK_EQ(cu->cuMemAlloc_v2(&big, 60 * MB), CUDA_SUCCESS);
}

TEST(r31_on_a_full_device_what_is_held_stays_and_the_line_says_so)
{
    struct read_capture *capture;
    unsigned all;

    said_begin();
    REQUIRE(setenv("SIMCUDA_MEMORY", "64M", 1) == 0);
    kit_hint_to("hold", "heldoom", "trap");
    CHECK_EQ(run_child(fill_the_device), 0);
    CHECK_GT(said_with(", 8.00 MiB held by hints after its free", &all), 0);
    capture = kit_read();
    REQUIRE_EQ(capture->oom_record_count, 1);
    CHECK_EQ(capture->oom[0].what.hint_held, KIT_BYTES);
    read_close(capture);
    kit_clean_up();
}

/* ---- a driver that refuses ------------------------------------------------------------------ */

static void use_or_fail(void)
{
    CUdeviceptr out, a = 0, b = 0;

    client_init();
    CU_OK(cu->cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuMemAlloc_v2(&out, KIT_BYTES));
    KEDGE_PUSH("PHASE_0");
    (void)cu->cuMemAllocAsync(&a, KIT_BYTES, first);
    KEDGE_POP();
    if (!a || kit_told(FORMAT_HINT_REFUSED, a) > 0)
        return; /* the driver has served it itself, so it cannot be held */
    fill(a, 0x11);
    CU_OK(cu->cuMemFreeAsync(a, first));
    if (cu->cuMemAllocAsync(&b, KIT_BYTES, first) == CUDA_SUCCESS)
        fill(b, 0x22);
    CU_OK(cu->cuMemcpyDtoDAsync_v2(out, a, KIT_BYTES, second));
    pass_edge();
    for (int i = 0; i < 3; i++)
        if (cu->cuMemAllocAsync(&b, KIT_BYTES, first) == CUDA_SUCCESS)
            fill(b, 0x33);
    CU_OK(cu->cuCtxSynchronize());
    CHECK_EQ(wrong_bytes(out, 0x11), 0);
}

/* Each call of these that kedge makes for its own sake fails once, in a run of its own. */
TEST(r57_a_driver_that_refuses_a_call_of_ours_harms_no_held_block)
{
    static const char *const calls[] = {"cuCtxRecordEvent", "cuEventRecord", "cuEventQuery",
            "cuEventCreate", "cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    char fault[64];
    unsigned held = 0;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint_to("hold", "heldfail", "trap");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (int n = 1; n <= 6; n++) {
            snprintf(fault, sizeof fault, "%s:%d:999", calls[i], n);
            REQUIRE(setenv("SIMCUDA_FAIL", fault, 1) == 0);
            (void)unlink(kit_capture); /* of the run before */
            if (run_child(use_or_fail) != 0)
                (void)check_that(false, __FILE__, __LINE__, fault);
            held += kit_told(FORMAT_HINT_HELD, 0);
        }
    CHECK_GT(held, 0); /* the driver did not serve them all itself */
    kit_clean_up();
}

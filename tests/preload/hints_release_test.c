/* SPDX-License-Identifier: MIT */
/* What an early release takes, and what it leaves: R30, R57, R58, R86, R87 in whole programs. */
#include "tests/preload/hints_kit.h"
#include "tests/sim/base/sim_abi.h"

static CUstream stream;

static void start(void)
{
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* Everything that can move moves: the device has passed, anchors poll, an allocation takes what is free. */
static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
}

static CUdeviceptr phase(void)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    return ptr;
}

static CUdeviceptr looked_at;

static void look(void)
{
    CHECK_EQ(*(volatile unsigned char *)(uintptr_t)looked_at,
            0x33); /* the device's memory is the host's here */
}

/* ---- R57 ------------------------------------------------------------------------------------ */

TEST(r57_without_an_opt_in_nothing_is_released)
{
    CUdeviceptr ptr;

    kit_hint("optin", NULL); /* the file names no mode */
    start();
    ptr = phase();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(r57_storage_goes_only_behind_the_work_before_the_edge)
{
    CUdeviceptr ptr;
    uint64_t unmaps;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint("fence", "live");
    kit_allow_live();
    start();
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8Async(ptr, 0x33, KIT_BYTES, stream));
    unmaps = client_calls("cuMemUnmap");
    KEDGE_POP();
    for (int i = 0; i < 8; i++) {
        KEDGE_MARK("poll");
        (void)kit_alloc(512);
    }
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 0);
    settle();
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps + 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    kit_clean_up();
}

/* A kernel of another device may use the block, too: its streams are asked as those of the block's own device. */
TEST(r57_storage_goes_only_behind_the_work_of_a_peer)
{
    CUdeviceptr ptr, out;
    CUcontext second;
    CUfunction sum;
    uint64_t unmaps;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    kit_hint("peer", "live");
    kit_allow_live();
    start();
    CU_OK(cu->cuDevicePrimaryCtxRetain(&second, 1));
    CU_OK(cu->cuCtxSetCurrent(second));
    CU_OK(KIT_CU(cuCtxEnablePeerAccess)(cu->context, 0));
    sum = client_sum_kernel();
    out = kit_alloc(512);
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuCtxSetCurrent(second));
    CU_OK(client_sum(sum, out, ptr, 64, NULL));
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    unmaps = client_calls("cuMemUnmap");
    KEDGE_POP();
    for (int i = 0; i < 8; i++) {
        KEDGE_MARK("poll");
        (void)kit_alloc(512);
    }
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps);
    CU_OK(cu->cuCtxSetCurrent(second));
    CU_OK(cu->cuCtxSynchronize()); /* no fault */
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    settle();
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps + 1);
    kit_clean_up();
}

TEST(r57_less_than_a_granule_is_left_alone)
{
    CUdeviceptr ptr;

    kit_files("small");
    kit_write(
            "kedge-hints: 1\n"
            "hints:\n"
            "  - {id: a, do: release, pick: {size: 1048576}, when: {anchor: \"P\", edge: exit}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    start();
    KEDGE_PUSH("P");
    ptr = kit_alloc(1 * MB);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, ptr), 1);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 1 * MB), CUDA_SUCCESS);
    kit_clean_up();
}

/* An access that nobody sees must fault, and never meet another tenant. */
TEST(r57_a_released_address_faults_and_is_nobody_elses)
{
    CUdeviceptr ptr, other;

    kit_hint("fault", "live");
    kit_allow_live();
    start();
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8_v2(ptr, 0x33, KIT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    looked_at = ptr + 4096;
    CHECK_EQ(run_child(look), 0);
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    CHECK_GT(run_child(look), 1000); /* ended by a signal */
    for (int i = 0; i < 40; i++) {
        other = kit_alloc(KIT_BYTES);
        CHECK(other + KIT_BYTES <= ptr || other >= ptr + KIT_BYTES);
    }
    kit_clean_up();
}

/* ---- R58 ------------------------------------------------------------------------------------ */

/* The driver refuses the removal, and the program frees the block later: its memory is there again for others. */
static void refuse_removal(const char *mode, const char *fault)
{
    size_t free_before, free_now, total;
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_MEMORY", "64M", 1) == 0);
    kit_hint("refused", mode);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    REQUIRE(setenv("SIMCUDA_FAIL", fault, 1) == 0);
    start();
    CU_OK(cu->cuMemGetInfo_v2(&free_before, &total));
    ptr = phase();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_REFUSED, ptr), 1);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 0x33, KIT_BYTES), CUDA_SUCCESS);
    looked_at = ptr;
    CHECK_EQ(run_child(look), 0);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CU_OK(cu->cuMemGetInfo_v2(&free_now, &total));
    CHECK_EQ(free_now, free_before);
    CHECK_NE(kit_alloc(free_now), 0); /* what is said to be free can be had */
    kit_clean_up();
}

TEST(r84_memory_whose_unmapping_is_refused_is_free_again_after_the_free)
{
    refuse_removal("live", "cuMemUnmap:1:999");
}

TEST(r84_memory_whose_access_cannot_be_taken_is_free_again_after_the_free)
{
    refuse_removal("trap", "cuMemSetAccess:2:999");
}

static void free_once(CUdeviceptr ptr)
{
    CHECK_EQ(cu->cuMemFree_v2(ptr + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
}

static void free_in_every_state(void)
{
    CUdeviceptr live, limbo, gone;

    start();
    KEDGE_PUSH("PHASE_0");
    live = kit_alloc(KIT_BYTES);
    free_once(live); /* before its edge */
    limbo = kit_alloc(KIT_BYTES);
    gone = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8Async(limbo, 1, KIT_BYTES, stream));
    KEDGE_POP();
    free_once(limbo); /* on its way out */
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, gone), 1);
    free_once(gone);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++) /* what was given back serves again, each address once */
        CHECK_NE(phase(), 0);
    CU_OK(cu->cuCtxSynchronize());
    kit_clean_up();
}

TEST(r58_the_programs_free_succeeds_once_in_every_state_of_a_trap)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint("freetrap", "trap");
    free_in_every_state();
}

TEST(r58_the_programs_free_succeeds_once_in_every_state_of_a_release)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint("freelive", "live");
    kit_allow_live();
    free_in_every_state();
}

/* ---- R30 ------------------------------------------------------------------------------------ */

static uint64_t held(void)
{
    __typeof__(&simcuda_stats) get = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(get && get(&stats) == 0);
    return stats.held[0];
}

TEST(r30_mapped_memory_of_a_context_goes_with_it)
{
    CUdeviceptr kept, husk;
    uint64_t before;

    kit_hint("teardown", "live");
    kit_allow_live();
    client_init();
    before = held();
    KEDGE_PUSH("PHASE_0");
    husk = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    settle();
    KEDGE_PUSH("PHASE_1");
    kept = kit_alloc(KIT_BYTES);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, husk), 1);
    CHECK_GE(held(), before + KIT_BYTES);
    CU_OK(cu->cuDevicePrimaryCtxReset_v2(cu->device));
    CHECK_EQ(held(), before);
    CHECK_EQ(client_calls("cuMemMap"), client_calls("cuMemUnmap"));
    CHECK_EQ(client_calls("cuMemCreate"), client_calls("cuMemRelease"));
    CHECK_EQ(client_calls("cuMemAddressReserve"), client_calls("cuMemAddressFree"));
    CHECK_NE(cu->cuMemFree_v2(kept), CUDA_SUCCESS);
    KEDGE_POP();
    kit_clean_up();
}

TEST(r30_hinted_memory_is_open_to_every_enabled_peer)
{
    CUcontext second;
    CUdeviceptr early, late, out;
    CUfunction sum;
    uint64_t total = 0;

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    kit_hint("peers", "trap");
    client_init();
    KEDGE_PUSH("PHASE_0");
    early = kit_alloc(KIT_BYTES);
    CHECK_GT(client_calls("cuMemMap"),
            0); /* it is mapped memory, of which peers see nothing by themselves */
    CU_OK(cu->cuDevicePrimaryCtxRetain(&second, 1));
    CU_OK(cu->cuCtxSetCurrent(second));
    CU_OK(KIT_CU(cuCtxEnablePeerAccess)(cu->context, 0));
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    late = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8_v2(early, 1, KIT_BYTES));
    CU_OK(cu->cuMemsetD8_v2(late, 1, KIT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuCtxSetCurrent(second));
    sum = client_sum_kernel();
    out = kit_alloc(512);
    CU_OK(cu->cuMemsetD8_v2(out, 0, 512));
    CU_OK(client_sum(sum, out, early, 64, NULL));
    CU_OK(client_sum(sum, out, late, 64, NULL));
    CU_OK(cu->cuCtxSynchronize()); /* no fault */
    CU_OK(cu->cuMemcpyDtoH_v2(&total, out, sizeof total));
    CHECK_NE(total, 0);
    KEDGE_POP();
    kit_clean_up();
}

/* ---- R85 ------------------------------------------------------------------------------------ */

/* Natively the block would be plain memory, which every copy reaches; mapped, only its own device does. */
static void copy_between_devices(const char *mode)
{
    unsigned char bytes[64];
    CUdeviceptr hinted, far;
    CUcontext second;

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    kit_hint("between", mode);
    client_init();
    KEDGE_PUSH("PHASE_0");
    hinted = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8_v2(hinted, 0x44, KIT_BYTES));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuDevicePrimaryCtxRetain(&second, 1));
    CU_OK(cu->cuCtxSetCurrent(second));
    far = kit_alloc(1 * MB);
    CU_OK(cu->cuMemsetD8_v2(far, 0, 1 * MB));
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuMemcpyDtoD_v2(far, hinted, 64));
    CU_OK(cu->cuMemcpyDtoDAsync_v2(far + 64, hinted, 64, stream));
    CU_OK(KIT_CU(cuMemcpy)(far + 128, hinted, 64));
    CU_OK(KIT_CU(cuMemcpyAsync)(far + 192, hinted, 64, stream));
    CU_OK(cu->cuMemcpyDtoD_v2(hinted + 4096, hinted, 64)); /* from the other device's context */
    CU_OK(cu->cuCtxSynchronize());
    for (CUdeviceptr at = far; at < far + 256; at += 64) {
        memset(bytes, 0, sizeof bytes);
        CU_OK(cu->cuMemcpyDtoH_v2(bytes, at, sizeof bytes));
        CHECK_EQ(bytes[0], 0x44);
        CHECK_EQ(bytes[63], 0x44);
    }
    KEDGE_POP();
    kit_clean_up();
}

TEST(r85_copies_between_devices_reach_hinted_blocks)
{
    copy_between_devices("trap");
    CHECK_GT(client_calls("cuMemcpyPeer") + client_calls("cuMemcpyPeerAsync"), 0);
}

TEST(r85_copies_between_devices_without_hints_are_as_they_were)
{
    copy_between_devices("off");
    CHECK_EQ(client_calls("cuMemcpyPeer") + client_calls("cuMemcpyPeerAsync"), 0);
}

/* ---- R86 ------------------------------------------------------------------------------------ */

TEST(r86_a_pointer_sized_parameter_stops_in_live_too)
{
    CUdeviceptr ptr, out;
    CUfunction sum;

    kit_hint("param", "live");
    kit_allow_live();
    start();
    sum = client_sum_kernel();
    out = kit_alloc(512);
    ptr = phase();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(client_sum(sum, out, ptr + 64, 64, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuLaunchKernel"), 0);
    CHECK_EQ(client_sum(sum, out, out + 64, 64, stream), CUDA_SUCCESS);
    CU_OK(cu->cuCtxSynchronize()); /* nothing became sticky */
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 1);
    kit_clean_up();
}

/* Three words in a buffer whose layout the driver does not tell: one of them is the pointer. */
static CUresult launch_extra(CUfunction sum, CUdeviceptr out, CUdeviceptr src)
{
    uint64_t words[] = {out, src, 64};
    size_t size = sizeof words;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
            CU_LAUNCH_PARAM_END};

    return cu->cuLaunchKernel(sum, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra);
}

#define NO_LAYOUT "cuFuncGetParamInfo:1+:801,cuKernelGetParamInfo:1+:801"

TEST(r86_inside_a_larger_parameter_a_trap_stops)
{
    CUdeviceptr ptr, out;
    CUfunction sum;

    REQUIRE(setenv("SIMCUDA_FAIL", NO_LAYOUT, 1) == 0);
    kit_hint("insidetrap", "trap");
    start();
    sum = client_sum_kernel();
    out = kit_alloc(512);
    ptr = phase();
    CHECK_EQ(launch_extra(sum, out, ptr + 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuLaunchKernel"), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 1);
    CHECK_EQ(launch_extra(sum, out, out + 64), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(r86_inside_a_larger_parameter_live_only_notes)
{
    CUdeviceptr ptr, out;
    CUfunction sum;

    REQUIRE(setenv("SIMCUDA_FAIL", NO_LAYOUT, 1) == 0);
    kit_hint("insidelive", "live");
    kit_allow_live();
    start();
    sum = client_sum_kernel();
    out = kit_alloc(512);
    ptr = phase();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    (void)launch_extra(sum, out, ptr + 64);
    CHECK_EQ(client_calls("cuLaunchKernel"),
            1); /* it may be no pointer; if it is one, the device faults */
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, ptr), 1);
    kit_clean_up();
}

TEST(r86_where_a_layout_is_unknown_live_is_refused)
{
    CUdeviceptr ptr, later, out;
    CUfunction sum;

    REQUIRE(setenv("SIMCUDA_FAIL", NO_LAYOUT, 1) == 0);
    kit_hint("layout", "live");
    kit_allow_live();
    start();
    sum = client_sum_kernel();
    out = kit_alloc(512);
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(client_sum(sum, out, out + 64, 64, stream)); /* what it carries nobody can say */
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, ptr), 1);
    later = phase();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, later), 1);
    CU_OK(client_sum(sum, out, later, 64, stream));
    CU_OK(cu->cuCtxSynchronize());
    kit_clean_up();
}

static void live_on(const char *version, bool acts)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_VERSION", version, 1) == 0);
    kit_hint(version, "live");
    kit_allow_live();
    start();
    ptr = phase();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), acts ? 1 : 0);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, ptr), acts ? 0 : 1);
    kit_clean_up();
}

TEST(r86_below_driver_12_4_live_is_refused)
{
    live_on("12030", false);
}

TEST(r86_from_driver_12_4_on_live_acts)
{
    live_on("12040", true);
}

TEST(live_acts_on_the_newest_driver_that_is_known)
{
    live_on("13050", true);
}

/* Nobody here has read what its functions do to memory. */
TEST(r100_on_a_newer_driver_live_is_shadow)
{
    live_on("13060", false);
}

/* ---- R87 ------------------------------------------------------------------------------------ */

TEST(r87_live_without_a_receipt_is_shadow)
{
    CUdeviceptr ptr;

    kit_hint("noreceipt", "live");
    start();
    ptr = phase();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, ptr), 1);
    kit_clean_up();
}

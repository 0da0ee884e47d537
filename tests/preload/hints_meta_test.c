/* SPDX-License-Identifier: MIT */
/* do: keep-meta, in whole programs: who may be given an address whose storage is gone, and what a receipt makes of it (R86). */
#include "tests/preload/hints_kit.h"

static CUstream stream;
static CUfunction sum;
static CUdeviceptr out;

static void start(void)
{
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    out = kit_alloc(512);
}

/* A block whose storage, or the access to it, is gone. */
static CUdeviceptr husk(void)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8_v2(ptr, 0x33, KIT_BYTES));
    KEDGE_POP();
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
    return ptr;
}

static void begin(const char *action, const char *tail, const char *mode)
{
    kit_hint_to(action, tail, mode);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    start();
}

/* ---- what may be done with the address ------------------------------------------------------ */

/* A kernel that reads nothing is given the address; the device is well afterwards. */
static void carries(const char *mode)
{
    CUdeviceptr ptr;

    begin("keep-meta", mode, mode);
    ptr = husk();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    CU_OK(client_sum(sum, out, ptr + 64, 0, stream));
    CU_OK(cu->cuCtxSynchronize());
    CHECK_EQ(client_calls("cuLaunchKernel"), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, 0) + kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(r86_a_kernel_may_be_given_the_address_in_a_trap)
{
    carries("trap");
}

TEST(r86_a_kernel_may_be_given_the_address_in_live)
{
    carries("live");
}

TEST(r86_in_shadow_carrying_is_counted_and_using_is_late)
{
    CUdeviceptr ptr;

    begin("keep-meta", "metashadow", "shadow");
    ptr = husk();
    CU_OK(client_sum(sum, out, ptr, 64, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_SUCCESS);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, ptr), 1);
    kit_clean_up();
}

static void uses_are_stopped(const char *mode)
{
    unsigned char back[16];
    CUgraph graph = NULL;
    CUdeviceptr ptr;

    begin("keep-meta", mode, mode);
    ptr = husk();
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemcpyDtoH_v2(back, ptr, sizeof back), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(out, ptr + 64, 64, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 3);
    /* In a graph a kernel is, and a copy is not. */
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(client_sum(sum, out, ptr, 0, stream));
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(out, ptr, 64, stream), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 4);
    CU_OK(cu->cuGraphDestroy(graph));
    CU_OK(cu->cuCtxSynchronize());
    kit_clean_up();
}

TEST(r86_copies_and_sets_are_stopped_in_a_trap)
{
    uses_are_stopped("trap");
}

TEST(r86_copies_and_sets_are_stopped_in_live)
{
    uses_are_stopped("live");
}

static void reading_faults(const char *mode)
{
    CUdeviceptr ptr;

    begin("keep-meta", mode, mode);
    ptr = husk();
    CU_OK(client_sum(sum, out, ptr, 64, stream));
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    kit_clean_up();
}

TEST(r57_a_kernel_that_reads_after_all_faults_in_a_trap)
{
    reading_faults("trap");
}

TEST(r57_a_kernel_that_reads_after_all_faults_in_live)
{
    reading_faults("live");
}

/* ---- what the receipt makes of a release ---------------------------------------------------- */

/* Three words in a buffer whose layout the driver does not tell: one of them is the pointer. */
static CUresult carry_inside(CUdeviceptr src, uint64_t bytes)
{
    uint64_t words[] = {out, src, bytes};
    size_t size = sizeof words;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
            CU_LAUNCH_PARAM_END};

    return cu->cuLaunchKernel(sum, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra);
}

#define NO_LAYOUT "cuFuncGetParamInfo:1+:801,cuKernelGetParamInfo:1+:801"

TEST(r86_in_shadow_an_address_inside_a_larger_parameter_is_carried)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_FAIL", NO_LAYOUT, 1) == 0);
    begin("release", "insideshadow", "shadow");
    ptr = husk();
    CU_OK(carry_inside(ptr, 0));
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    kit_clean_up();
}

TEST(r86_in_shadow_an_address_by_itself_is_a_late_use)
{
    CUdeviceptr ptr;

    begin("release", "paramshadow", "shadow");
    ptr = husk();
    CU_OK(client_sum(sum, out, ptr, 0, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, 0), 0);
    kit_clean_up();
}

static void receipt_keeps_meta_of(const char *lines, const char *mode, bool keeps)
{
    struct read_capture *capture;
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_FAIL", NO_LAYOUT, 1) == 0);
    kit_hint("receipt", mode);
    kit_receive(strcmp(mode, "live") == 0, lines);
    start();
    ptr = husk();
    CHECK_EQ(carry_inside(ptr, 0), keeps ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, ptr), keeps ? 1 : 0);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), keeps ? 0 : 1);
    capture = kit_read();
    CHECK_EQ(capture->rule[0].action, keeps ? ACTION_KEEP_META : ACTION_RELEASE);
    REQUIRE_EQ(capture->note_count, keeps ? 1 : 0);
    if (keeps)
        CHECK_STR_EQ(capture->note[0].text,
                "hint unused is keep-meta by the receipt: launches carry its address inside a "
                "larger parameter");
    read_close(capture);
    kit_clean_up();
}

TEST(r86_a_trap_obeys_a_receipt_that_is_not_clean_yet)
{
    receipt_keeps_meta_of("keep-meta unused\n", "trap", true);
}

TEST(r86_live_obeys_the_receipt)
{
    receipt_keeps_meta_of("keep-meta other\nkeep-meta unused\n", "live", true);
}

/* In the runs that were verified none did: a program that does is another one. */
TEST(r86_a_receipt_lets_no_kernel_have_the_address_by_itself)
{
    CUdeviceptr ptr;

    kit_hint("itself", "live");
    kit_receive(1, "keep-meta unused\n");
    start();
    ptr = husk();
    CHECK_EQ(client_sum(sum, out, ptr, 64, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 1);
    CHECK_EQ(client_calls("cuLaunchKernel"), 0);
    kit_clean_up();
}

TEST(r86_a_receipt_that_names_other_hints_changes_nothing)
{
    receipt_keeps_meta_of("keep-meta unuse\nkeep-meta unused2\n", "trap", false);
}

/* ---- one past the end ----------------------------------------------------------------------- */

static CUdeviceptr get(bool streams)
{
    CUdeviceptr ptr = 0;

    if (streams)
        CU_OK(cu->cuMemAllocAsync(&ptr, KIT_BYTES, stream));
    return streams ? ptr : kit_alloc(KIT_BYTES);
}

/* Two blocks, the second of which a hint releases while the first is live; a kernel is given [begin, end) of the first, and a
 * graph. */
static void ends(bool streams, const char *mode, bool is_first_hinted)
{
    CUdeviceptr first, second;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;

    begin("release", mode, mode);
    if (is_first_hinted)
        KEDGE_PUSH("PHASE_0");
    first = get(streams);
    KEDGE_PUSH("PHASE_1");
    second = get(streams);
    CU_OK(cu->cuMemsetD8Async(second, 0x33, KIT_BYTES, stream));
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(client_sum(sum, first, first + KIT_BYTES, 0, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK_EQ(kit_shared(second), 0);
    KEDGE_POP();
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, second), 1);
    CU_OK(client_sum(sum, first, first + KIT_BYTES, 0, stream));
    CU_OK(cu->cuMemsetD8Async(first, 1, KIT_BYTES, stream));
    CU_OK(cu->cuGraphLaunch(exec, stream));
    CU_OK(cu->cuCtxSynchronize());
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, 0) + kit_told(FORMAT_HINT_CARRIED, 0), 0);
    CHECK_EQ(client_sum(sum, first, second, 0, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_sum(sum, first, second + KIT_BYTES - 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_sum(sum, first, second + KIT_BYTES, 0, stream), CUDA_SUCCESS);
    if (is_first_hinted)
        KEDGE_POP();
    kit_clean_up();
}

TEST(r110_the_end_of_a_block_is_not_the_next_one_in_a_trap)
{
    ends(false, "trap", true);
}

TEST(r110_the_end_of_a_block_is_not_the_next_one_in_live)
{
    ends(false, "live", true);
}

TEST(r110_the_end_of_a_block_is_not_the_next_one_on_the_stream_api)
{
    ends(true, "live", true);
}

TEST(r110_the_end_of_a_block_without_a_hint_is_not_the_next_one)
{
    ends(false, "live", false);
}

TEST(r110_in_shadow_what_may_be_an_end_is_counted_and_an_address_alone_is_late)
{
    CUdeviceptr first, second;

    begin("release", "endshadow", "shadow");
    first = kit_alloc(2 * KIT_BYTES);
    CU_OK(cu->cuMemFree_v2(first));
    first = kit_alloc(KIT_BYTES);
    KEDGE_PUSH("PHASE_1");
    second = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    REQUIRE_EQ(second, first + KIT_BYTES);
    CU_OK(client_sum(sum, first, second, 0, stream)); /* [begin, end) of the first */
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, second), 1);
    CU_OK(client_sum(sum, out, second, 0, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, second), 1);
    CU_OK(client_sum(sum, first, second + 512, 0, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, second), 2);
    CU_OK(cu->cuMemFree_v2(first)); /* what is gone has no end */
    CU_OK(client_sum(sum, first, second, 0, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, second), 3);
    kit_clean_up();
}

/* Wherever the blocks lie: at the beginning of what the device has, too. */
TEST(r110_in_shadow_what_may_be_an_end_is_counted_at_the_first_address)
{
    CUdeviceptr first, second;

    kit_hint("endfirst", "shadow");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    CU_OK(cu->cuMemAllocAsync(&first, KIT_BYTES, stream));
    KEDGE_PUSH("PHASE_1");
    CU_OK(cu->cuMemAllocAsync(&second, KIT_BYTES, stream));
    KEDGE_POP();
    REQUIRE_EQ(second, first + KIT_BYTES);
    CU_OK(client_sum(sum, first, second, 0, stream));
    CHECK_EQ(kit_told(FORMAT_HINT_CARRIED, second), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    kit_clean_up();
}

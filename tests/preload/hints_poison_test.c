/* SPDX-License-Identifier: MIT */
/* Mode poison in whole programs: what it finds, what it tells, what it leaves alone. */
#include "tests/preload/hints_kit.h"
#include "tests/sim/base/simcuda.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static CUstream stream;
static CUfunction fill_at;
static CUdeviceptr at; /* an address stands there, which no call of ours carries */

static void start(const char *tail)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry kedge_fill_at(.param .u64 a, .param .u64 b)\n"
                               "{\n    ret;\n}\n";
    CUmodule module;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 0) == 0);
    kit_hint(tail, "poison");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuModuleLoadData(&module, text));
    CU_OK(cu->cuModuleGetFunction(&fill_at, module, "kedge_fill_at"));
    at = kit_alloc(512);
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
    CU_OK(cu->cuCtxSynchronize());
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

/* A kernel that finds the address in the device's memory. */
static void write_unseen(CUdeviceptr ptr, uint64_t size)
{
    void *params[] = {&at, &size};

    CU_OK(cu->cuMemcpyHtoD_v2(at, &ptr, sizeof ptr));
    CU_OK(cu->cuStreamSynchronize(NULL)); /* it is there; `stream` goes on as it likes */
    CU_OK(cu->cuLaunchKernel(fill_at, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static unsigned char first_byte(CUdeviceptr ptr)
{
    unsigned char byte = 0;

    CU_OK(cu->cuMemcpyDtoH_v2(&byte, ptr, 1));
    return byte;
}

TEST(at_the_edge_the_content_goes_and_the_storage_stays)
{
    CUdeviceptr ptr;
    uint64_t unmaps;

    start("content");
    unmaps = client_calls("cuMemUnmap");
    ptr = phase();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps);
    CHECK_EQ(first_byte(ptr), 0xff);
    CHECK_EQ(first_byte(ptr + KIT_BYTES - 1), 0xff);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, ptr), 2); /* and nothing was stopped */
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_WRITE, 0), 0);
    CHECK_EQ(phase(), ptr); /* it serves again */
    kit_clean_up();
}

TEST(a_write_by_a_kernel_that_nobody_sees_is_found_at_the_free)
{
    CUdeviceptr ptr;
    struct read_capture *capture;
    uint64_t size = 0;

    start("unseen");
    ptr = phase();
    settle();
    write_unseen(ptr + 4 * MB, 64);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS); /* the kernel is queued still */
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_WRITE, ptr + 4 * MB), 1);
    capture = kit_read();
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_HINT
                && capture->event[i].what == FORMAT_HINT_LATE_WRITE)
            size = capture->event[i].size;
    CHECK_EQ(size, KIT_BYTES - 4 * MB);
    read_close(capture);
    kit_clean_up();
}

static void *look_at_poison(void *unused)
{
    (void)unused;
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    settle();
    return NULL;
}

static _Thread_local unsigned pauses;

/* In the place of libc's, for the library too: its gate yields and naps as long as something stands in it. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    pauses++;
    return (int)syscall(SYS_sched_yield);
}

__attribute__((visibility("default"))) int nanosleep(
        const struct timespec *duration, struct timespec *ret_rest)
{
    pauses++;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, duration, ret_rest) == 0 ? 0 : -1;
}

/* The reading stands in the driver until the capture has ended, which began meanwhile. */
TEST(r96_a_begin_does_not_wait_for_the_reading_of_poison)
{
    struct simcuda_stats figures = {.size = sizeof figures};
    CUdeviceptr ptr;
    CUgraph graph = NULL;
    pthread_t thread;

    REQUIRE(setenv("SIMCUDA_PARK", "cuStreamSynchronize:1:cuStreamEndCapture", 1) == 0);
    start("beside");
    ptr = phase();
    settle();
    CU_OK(cu->cuMemFree_v2(ptr));
    REQUIRE(pthread_create(&thread, NULL, look_at_poison, NULL) == 0);
    REQUIRE(((__typeof__(&simcuda_wait_parked))client_sim("simcuda_wait_parked"))(1));
    pauses = 0;
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_EQ(pauses, 0); /* for what stands in the gate it waits 500 ms, in many of them */
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    REQUIRE(pthread_join(thread, NULL) == 0);
    settle(); /* the reading goes on when the end begins: what came next may still have met the capture */
    ((__typeof__(&simcuda_stats))client_sim("simcuda_stats"))(&figures);
    CHECK_EQ(figures.parks, 1);
    CHECK_EQ(figures.park_timeouts, 0);
    CHECK_EQ(figures.captures_invalidated, 0);
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, ptr), 1);
    kit_clean_up();
}

TEST(a_late_write_is_found_on_the_stream_api_too)
{
    CUdeviceptr ptr;

    start("ordered");
    KEDGE_PUSH("PHASE_0");
    CU_OK(KIT_CU(cuMemAllocAsync)(&ptr, KIT_BYTES, stream));
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    write_unseen(ptr, 64);
    CU_OK(KIT_CU(cuMemFreeAsync)(ptr, stream)); /* behind the kernel, in the order of the stream */
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_WRITE, ptr), 1);
    kit_clean_up();
}

TEST(r57_a_write_before_the_edge_that_is_queued_still_is_not_late)
{
    CUdeviceptr ptr;

    start("queued");
    (void)phase();
    settle();
    /* younger than the library's own, which the device turns to first where nothing tells it to wait */
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemsetD8Async(ptr, 0x33, KIT_BYTES, stream));
    write_unseen(ptr, 4096);
    KEDGE_POP();
    for (int i = 0; i < 8; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1); /* it waits on the device, not on the host */
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_LATE_WRITE, 0), 0);
    kit_clean_up();
}

static const char *failing;

static void free_unchecked(void)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_FAIL", failing, 1) == 0);
    start("fails");
    ptr = phase();
    KEDGE_MARK("poll");
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, 0) + kit_told(FORMAT_HINT_LATE_WRITE, 0), 0);
    CHECK_NE(phase(), 0);
    kit_clean_up();
}

/* Whatever call of ours fails there: the block is the program's, and is freed as any other. */
TEST(r36_a_failing_call_leaves_a_block_that_is_not_checked)
{
    static const char *const calls[] = {"cuStreamCreate:2+:2", "cuStreamCreate:3+:2",
            "cuMemsetD8Async:1+:2", "cuStreamWaitEvent:1+:2", "cuMemcpyDtoHAsync:1+:2"};

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        failing = calls[i];
        CHECK_EQ(run_child(free_unchecked), 0);
    }
}

TEST(r10_beside_a_capture_nothing_is_filled_or_read)
{
    CUstream captured;
    CUdeviceptr kept, late;
    CUgraph graph;

    start("capture");
    CU_OK(cu->cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    kept = phase();
    KEDGE_PUSH("PHASE_1");
    late = kit_alloc(KIT_BYTES);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, kept), 1);
    CU_OK(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    KEDGE_POP();
    CHECK_EQ(cu->cuMemFree_v2(kept), CUDA_SUCCESS);
    for (int i = 0; i < 8; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, late), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, late), 0);
    CU_OK(cu->cuStreamEndCapture(captured, &graph)); /* unspoilt */
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, late), 1);
    CU_OK(cu->cuMemFree_v2(late));
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, late), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_CLEAN, 0),
            1); /* what was freed beside a capture stays as it is (R12) */
    kit_clean_up();
}

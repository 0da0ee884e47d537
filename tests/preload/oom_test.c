/* SPDX-License-Identifier: MIT */
/* covers: oom.c */
/* What a program that ran out of memory leaves behind, by whatever call; and one that sleeps. */
#include "preload/base/kedge.h"
#include "tests/preload/child.h"
#include "tests/preload/client.h"
#include "tests/preload/said.h"
#include "tracker/reader/read.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#define MB    ((size_t)1 << 20)
#define GB    ((size_t)1 << 30)
#define TOTAL (2 * GB) /* of the simulated device here */

static char capture_path[200];

static void files(void)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

    snprintf(capture_path, sizeof capture_path, "%s/kedge-oom-%d.kcap", dir, (int)getpid());
    (void)unlink(capture_path);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_path, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "ring", 1) == 0);
}

static void clean_up(void)
{
    (void)unlink(capture_path);
}

static struct read_capture *look(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    REQUIRE_EQ(read_open_parts(capture_path, READ_ALL, &capture, &error), 0);
    CHECK_EQ(capture->bad_records, 0);
    return capture;
}

/* The only record so far, or that of the last failure. */
static struct read_oom last_oom(uint64_t number)
{
    struct read_capture *capture = look();
    struct read_oom oom;

    CHECK_EQ(capture->oom_count, number);
    REQUIRE_EQ(capture->oom_record_count, number);
    oom = capture->oom[number - 1];
    oom.call = strdup(oom.call);
    oom.path = strdup(oom.path);
    REQUIRE(oom.call != NULL && oom.path != NULL);
    read_close(capture);
    return oom;
}

static CUdeviceptr must_alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

/* ── the record ── */

TEST(r31_a_refused_cudamalloc_is_explained)
{
    CUdeviceptr kept[4], hole[4], ptr;
    struct read_oom oom;

    files();
    client_init();
    for (int i = 0; i < 4; i++) {
        kept[i] = must_alloc(100 * MB);
        hole[i] = must_alloc(300 * MB);
    }
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(hole[i]), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, TOTAL), CUDA_ERROR_OUT_OF_MEMORY);
    oom = last_oom(1);
    CHECK_STR_EQ(oom.call, "cuMemAlloc_v2");
    CHECK_EQ(oom.what.requested, TOTAL);
    CHECK_EQ(oom.what.device, 0);
    CHECK_EQ(oom.what.flags, FORMAT_OOM_HEAPS);
    CHECK_EQ(oom.what.result, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(oom.what.heaps.live, 400 * MB);
    CHECK_EQ(oom.what.heaps.held, 400 * MB); /* all that was free went back before the refusal */
    CHECK_EQ(oom.what.heaps.held_high, 1600 * MB);
    CHECK_EQ(oom.what.heaps.free, 0);
    CHECK_EQ(oom.what.total_bytes, TOTAL);
    CHECK_LE(oom.what.free_bytes, TOTAL - 400 * MB);
    CHECK_GT(oom.what.free_bytes, TOTAL - 500 * MB);
    CHECK_GE(oom.what.ladder.attempts, 1);
    CHECK_EQ(oom.what.ladder.trimmed_bytes, 1200 * MB);
    CHECK_NE(oom.what.stack, 0);
    REQUIRE(oom.what.holder_count >= 1);
    CHECK_EQ(oom.what.holder[0].bytes, 400 * MB);
    CHECK_EQ(oom.what.holder[0].count, 4);
    CHECK_NE(oom.what.holder[0].stack, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(cu->cuMemFree_v2(kept[i]), CUDA_SUCCESS);
    clean_up();
}

TEST(r31_a_refused_cudamallocasync_is_explained)
{
    CUdeviceptr kept, ptr;
    struct read_oom oom;
    CUstream stream;

    files();
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&kept, 256 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, TOTAL, stream), CUDA_ERROR_OUT_OF_MEMORY);
    oom = last_oom(1);
    CHECK_STR_EQ(oom.call, "cuMemAllocAsync");
    CHECK_EQ(oom.what.flags, FORMAT_OOM_HEAPS | FORMAT_OOM_STREAM | FORMAT_OOM_NATIVE);
    CHECK_EQ(oom.what.stream, format_stream((uintptr_t)stream, 2)); /* the first that was made */
    CHECK_EQ(oom.what.heaps.live, 256 * MB);
    CHECK_GE(oom.what.ladder.attempts, 2);
    CHECK_EQ(cu->cuMemFreeAsync(kept, stream), CUDA_SUCCESS);
    clean_up();
}

TEST(r31_r81_calls_that_the_driver_serves_are_explained_too)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUDA_ARRAY3D_DESCRIPTOR array = {
            .Width = 60000, .Height = 60000, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_MEM_ALLOC_NODE_PARAMS node = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
            .bytesize = 2 * TOTAL};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr, idle;
    CUgraphNode added;
    struct read_oom oom;
    CUgraphExec exec;
    CUgraph graph;
    CUarray made;
    size_t pitch;

    files();
    client_init();
    idle = must_alloc(64 * MB);
    CHECK_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, 4 * MB, 1024, 4), CUDA_ERROR_OUT_OF_MEMORY);
    oom = last_oom(1);
    CHECK_STR_EQ(oom.call, "cuMemAllocPitch_v2");
    CHECK_EQ(oom.what.flags, FORMAT_OOM_HEAPS | FORMAT_OOM_NATIVE);
    CHECK_EQ(oom.what.ladder.trims, 1);
    CHECK_EQ(oom.what.ladder.trimmed_bytes, 64 * MB);
    CHECK_STR_EQ(oom.path, "");
    KEDGE_PUSH("step");
    CHECK_EQ(cu->cuMemCreate(&handle, 2 * TOTAL, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    oom = last_oom(2);
    CHECK_STR_EQ(oom.call, "cuMemCreate");
    CHECK_EQ(oom.what.requested, 2 * TOTAL);
    CHECK_EQ(oom.what.ladder.trims, 0);
    CHECK_STR_EQ(oom.path, "step");
    CHECK_EQ(oom.what.instance, 0);
    KEDGE_POP();
    KEDGE_PUSH("step");
    CHECK_EQ(cu->cuArray3DCreate_v2(&made, &array), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_STR_EQ(last_oom(3).call, "cuArray3DCreate_v2");
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphAddMemAllocNode(&added, graph, NULL, 0, &node), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY); /* takes the memory */
    oom = last_oom(4);
    CHECK_STR_EQ(oom.call, "cuGraphLaunch");
    CHECK_EQ(oom.what.requested, 0);
    CHECK_STR_EQ(oom.path, "step"); /* also where no size was asked for */
    CHECK_EQ(oom.what.instance, 1);
    CHECK_NE(oom.what.stack, 0);
    clean_up();
}

#define CU(symbol) ((__typeof__(&symbol))client_sim(#symbol))

static CUmemPoolProps device_props(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

/* An instance that allocates half of the device. */
static CUgraphExec make_instance(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS node = {.bytesize = TOTAL / 2, .poolProps = device_props()};
    CUgraphExec exec = NULL;
    CUgraphNode added;
    CUgraph graph;

    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddMemAllocNode(&added, graph, NULL, 0, &node), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddMemFreeNode(&added, graph, &added, 1, node.dptr), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
}

/* The heaps hold nearly all for blocks that were freed. */
static CUgraphExec make_large_instance(void)
{
    CUgraphExec exec = make_instance();

    CHECK_EQ(cu->cuMemFree_v2(must_alloc(TOTAL - 256 * MB)), CUDA_SUCCESS);
    return exec;
}

/* Beside a capture the driver's own pool serves what takes a driver call. The program has freed it since. */
static void leave_in_the_drivers_pool(size_t size)
{
    CUstream captured, other;
    CUdeviceptr ptr;
    CUgraph graph;

    REQUIRE_EQ(cu->cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, other), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
}

TEST(r81_a_request_gets_what_the_drivers_pool_has_free)
{
    client_init();
    leave_in_the_drivers_pool(GB);
    CHECK_NE(must_alloc(TOTAL - 256 * MB), 0);
}

TEST(r81_a_launch_of_a_graph_gets_what_the_drivers_pool_has_free)
{
    CUgraphExec exec;

    client_init();
    exec = make_instance();
    leave_in_the_drivers_pool(GB);
    CHECK_NE(must_alloc(TOTAL / 4), 0);
    CHECK_EQ(cu->cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
}

TEST(r81_a_launch_of_a_graph_gets_what_heaps_can_spare)
{
    CUgraphExec exec;

    client_init();
    exec = make_large_instance();
    CHECK_EQ(cu->cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuGraphLaunch"), 2);
}

TEST(r81_a_launch_of_a_graph_on_an_own_stream_gets_what_heaps_can_spare)
{
    client_init();
    CHECK_EQ(CU(cuGraphLaunch_ptsz)(make_large_instance(), NULL), CUDA_SUCCESS);
}

TEST(r81_an_upload_of_a_graph_gets_what_heaps_can_spare)
{
    CUgraphExec exec;

    client_init();
    exec = make_large_instance();
    CHECK_EQ(CU(cuGraphUpload)(exec, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuGraphUpload"), 2);
    CHECK_EQ(client_calls("cuGraphLaunch"), 1);
}

/* ---- every call that the driver may have no memory for --------------------------------------- */

static CUstream stream;
static CUdeviceptr block;
static CUgraph graph_of_all;
static CUgraphExec exec_of_all;
static CUmodule module_of_all;

/* What each of them is called, and one way to call it. */
/* clang-format off */
#define CALLS(X)                                                                                          \
    X(cuStreamCreate, cu->cuStreamCreate(&(CUstream){0}, CU_STREAM_NON_BLOCKING))                          \
    X(cuEventCreate, cu->cuEventCreate(&(CUevent){0}, 0))                                                  \
    X(cuMemPoolCreate, cu->cuMemPoolCreate(&(CUmemoryPool){0}, &(CUmemPoolProps){device_props().allocType, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, 0, 0, {0}})) \
    X(cuMemHostAlloc, cu->cuMemHostAlloc(&(void *){0}, 4096, 0))                                           \
    X(cuCtxCreate_v2, cu->cuCtxCreate_v2(&(CUcontext){0}, 0, 0))                                           \
    X(cuMemAddressReserve, cu->cuMemAddressReserve(&(CUdeviceptr){0}, 2 * MB, 0, 0, 0))                    \
    X(cuMemsetD8Async, cu->cuMemsetD8Async(block, 1, 64, stream))                                          \
    X(cuMemcpyDtoDAsync_v2, cu->cuMemcpyDtoDAsync_v2(block, block + 4096, 64, stream))                     \
    X(cuMemcpyDtoH_v2, cu->cuMemcpyDtoH_v2(&(char){0}, block, 1))                                          \
    X(cuLaunchKernel, client_sum(sum_of_all, block, block + 4096, 64, stream))                             \
    X(cuGraphLaunch, cu->cuGraphLaunch(exec_of_all, stream))                                               \
    X(cuGraphUpload, CU(cuGraphUpload)(exec_of_all, stream))                                               \
    X(cuGraphInstantiateWithFlags, cu->cuGraphInstantiateWithFlags(&(CUgraphExec){0}, graph_of_all, 0))    \
    X(cuGraphClone, CU(cuGraphClone)(&(CUgraph){0}, graph_of_all))                                         \
    X(cuGraphExecUpdate_v2, CU(cuGraphExecUpdate_v2)(exec_of_all, graph_of_all, &(CUgraphExecUpdateResultInfo){0})) \
    X(cuModuleLoadData, (void)client_sum_kernel(), CUDA_SUCCESS)                                           \
    X(cuModuleGetFunction, cu->cuModuleGetFunction(&(CUfunction){0}, module_of_all, "kedge_sum"))
/* clang-format on */

TEST(r81_every_call_that_finds_no_memory_is_made_again_after_a_trim)
{
    __typeof__(&simcuda_fail_next) fail;
    CUfunction sum_of_all;
    CUdeviceptr idle;

    client_init();
    fail = CU(simcuda_fail_next);
    sum_of_all = client_sum_kernel();
    REQUIRE_EQ(CU(cuFuncGetModule)(&module_of_all, sum_of_all), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphCreate(&graph_of_all, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec_of_all, graph_of_all, 0), CUDA_SUCCESS);
    block = must_alloc(64 * MB); /* stays, whatever is given back */
#define X(name, ...)                                          \
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS); \
    idle = must_alloc(200 * MB);                              \
    CHECK_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);           \
    fail(#name, 1, CUDA_ERROR_OUT_OF_MEMORY);                 \
    if ((__VA_ARGS__) != CUDA_SUCCESS) {                      \
        printf("    %s\n", #name);                            \
        CHECK(false);                                         \
    }
    CALLS(X)
#undef X
}

/* The second answer would be the same, natively there is one call, and the program may count them. */
TEST(r81_a_call_is_not_made_again_where_nothing_could_be_given_back)
{
    __typeof__(&simcuda_fail_next) fail;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    uint64_t before;

    client_init();
    fail = CU(simcuda_fail_next);
#define X(name, ...)                                   \
    before = client_calls(#name);                      \
    fail(#name, 1, CUDA_ERROR_OUT_OF_MEMORY);          \
    CHECK_EQ((__VA_ARGS__), CUDA_ERROR_OUT_OF_MEMORY); \
    CHECK_EQ(client_calls(#name), before + 1);
    X(cuStreamCreate, cu->cuStreamCreate(&(CUstream){0}, CU_STREAM_NON_BLOCKING))
    X(cuMemAllocPitch_v2, cu->cuMemAllocPitch_v2(&(CUdeviceptr){0}, &(size_t){0}, MB, 1, 4))
    X(cuMemAllocManaged, cu->cuMemAllocManaged(&(CUdeviceptr){0}, MB, CU_MEM_ATTACH_GLOBAL))
    X(cuMemCreate, cu->cuMemCreate(&(CUmemGenericAllocationHandle){0}, 2 * MB, &prop, 0))
#undef X
}

static CUresult in_host_function;

static void request_in_host_function(void *data)
{
    CUdeviceptr ptr;

    in_host_function = cu->cuMemAllocAsync(&ptr, MB, *(CUstream *)data);
}

/* Of no bytes, in a host function, without a context: nothing is given back for it, whatever the driver says. */
TEST(r38_a_stream_ordered_request_that_is_none_natively_is_the_drivers)
{
    __typeof__(&simcuda_fail_next) fail;
    CUdeviceptr ptr = 0;
    uint64_t before;

    client_init();
    fail = CU(simcuda_fail_next);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(must_alloc(200 * MB)), CUDA_SUCCESS);
    before = client_calls("cuMemAllocAsync");
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 0, stream), CUDA_ERROR_INVALID_VALUE);
    fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, 0, stream), CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE_EQ(cu->cuLaunchHostFunc(stream, request_in_host_function, &stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(in_host_function, CUDA_ERROR_NOT_PERMITTED);
    REQUIRE_EQ(cu->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, MB, NULL), CUDA_ERROR_INVALID_CONTEXT);
    fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, MB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(client_calls("cuMemAllocAsync"), before + 5);
}

TEST(r81_graph_instances_get_what_heaps_can_spare)
{
    CUgraphExec exec;
    CUdeviceptr idle;
    CUgraph graph;

    files();
    REQUIRE(setenv("SIMCUDA_FAIL",
                    "cuGraphInstantiateWithFlags:1:2,cuGraphInstantiateWithFlags:3+:2", 1)
            == 0);
    client_init();
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    idle = must_alloc(64 * MB);
    CHECK_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    idle = must_alloc(64 * MB);
    CHECK_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_STR_EQ(last_oom(1).call, "cuGraphInstantiateWithFlags");
    CHECK_EQ(last_oom(1).what.ladder.trimmed_bytes, 64 * MB);
    CHECK_EQ(client_calls("cuGraphInstantiateWithFlags"), 4);
    clean_up();
}

static void run_out_and_die(void)
{
    CUdeviceptr ptr;

    REQUIRE(setenv("KEDGE_TRACE", "agg", 1) == 0);
    client_init();
    (void)must_alloc(700 * MB);
    (void)must_alloc(200 * MB);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 1600 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    (void)raise(SIGKILL);
}

TEST(r47_a_killed_program_keeps_the_reason_without_a_log)
{
    struct read_capture *capture;

    files();
    CHECK_EQ(run_child(run_out_and_die), 1000 + SIGKILL);
    capture = look();
    CHECK_EQ(capture->event_count, 0);
    REQUIRE_EQ(capture->oom_record_count, 1);
    CHECK_EQ(capture->oom[0].what.requested, 1600 * MB);
    CHECK_EQ(capture->oom[0].what.holder[0].bytes, 700 * MB);
    CHECK_EQ(capture->oom[0].what.heaps.live, 900 * MB);
    read_close(capture);
    clean_up();
}

TEST(without_a_pool_the_request_and_the_device_are_recorded)
{
    struct read_oom oom;
    CUdeviceptr ptr;

    files();
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    client_init();
    (void)must_alloc(700 * MB);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 1600 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    oom = last_oom(1);
    CHECK_EQ(oom.what.flags, FORMAT_OOM_NATIVE);
    CHECK_EQ(oom.what.native_bytes, 700 * MB);
    CHECK_LE(oom.what.free_bytes, TOTAL - 700 * MB);
    CHECK_EQ(oom.what.holder[0].bytes, 700 * MB);
    clean_up();
}

/* ── the line ── */

static void probe_sizes(void)
{
    CUdeviceptr ptr;

    client_init();
    (void)must_alloc(768 * MB);
    for (size_t size = TOTAL; size > 1500 * MB; size -= 100 * MB)
        CHECK_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(the_first_failure_gets_one_line_that_says_why)
{
    char text[4096] = "";
    const char *first, *second;
    int fd;

    said_begin();
    files();
    CHECK_EQ(run_child(probe_sizes), 0);
    fd = open(said_path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    CHECK_EQ(close(fd), 0);
    first = strstr(text, "out of memory: 2.00 GiB requested by cuMemAlloc_v2, ");
    CHECK(first != NULL);
    second = first ? strstr(first + 1, "out of memory") : NULL;
    CHECK(second == NULL);
    CHECK(strstr(text,
                  " free on device 0; kedge holds 768.00 MiB for 768.00 MiB live (utilisation "
                  "1.00), largest "
                  "free block 0.00 B; "
                  "most is held by oom_")
            != NULL);
    CHECK(strstr(text, ": 768.00 MiB; see kedge report ") != NULL);
    CHECK(strlen(text) < 500);
    if (check_state.failures)
        printf("%s", text);
    clean_up();
}

/* ── idleness ── */

static int64_t ahead; /* seconds */

/* The clock of this process, kedge's looks at it included. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    (void)clock;
    *ret_time = (struct timespec){.tv_sec = 1000 + ahead};
    return 0;
}

static size_t device_free(void)
{
    struct simcuda_stats stats = {.size = sizeof stats};

    ((__typeof__(&simcuda_stats))client_sim("simcuda_stats"))(&stats);
    return TOTAL - stats.held[0];
}

TEST(a_program_that_slept_gives_back_what_it_does_not_use)
{
    CUdeviceptr kept, idle[4];
    size_t before;

    files();
    client_init();
    kept = must_alloc(400 * MB);
    for (int i = 0; i < 4; i++)
        idle[i] = must_alloc(100 * MB);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(cu->cuMemFree_v2(idle[i]), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    before = device_free();
    ahead += 59;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(device_free(), before);
    ahead += 61;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(device_free(), before + 300 * MB);
    CHECK_EQ(cu->cuMemFree_v2(kept), CUDA_SUCCESS);
    clean_up();
}

TEST(the_look_at_the_clock_comes_with_allocations_too)
{
    CUdeviceptr kept, idle;
    size_t before;

    files();
    client_init();
    kept = must_alloc(100 * MB);
    idle = must_alloc(400 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);
    before = device_free();
    ahead += 120;
    for (int i = 0; i < 64; i++)
        CHECK_EQ(cu->cuMemFree_v2(must_alloc(4096)), CUDA_SUCCESS);
    CHECK_EQ(device_free(), before + 398 * MB); /* the small ones have their own segment */
    CHECK_EQ(cu->cuMemFree_v2(kept), CUDA_SUCCESS);
    clean_up();
}

TEST(trim_never_keeps_what_it_does_not_use)
{
    CUdeviceptr idle;
    size_t before;

    files();
    REQUIRE(setenv("KEDGE_POOL", "trim=never", 1) == 0);
    client_init();
    idle = must_alloc(400 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(idle), CUDA_SUCCESS);
    before = device_free();
    ahead += 1000;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    ahead += 1000;
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(device_free(), before);
    clean_up();
}

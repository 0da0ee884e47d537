/* SPDX-License-Identifier: MIT */
/* covers: kernelnames.c launches.c hooks_launch.c hooks_profiler.c */
/*
 * What a program says by what it calls: captures, graphs, the profiler, NCCL, and kernels that KEDGE_ANCHORS names (it names
 * those that end in "_sum" here).
 */
#include "tests/preload/told.h"

#include "preload/base/kedge.h"
#include "tests/trainers/include/nvtx.h"

#include <dlfcn.h>

static CUstream stream;

static void begin(void)
{
    told_begin();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    (void)told();
}

/* A graph of one copy. */
static CUgraph captured(void)
{
    CUdeviceptr ptr;
    CUgraph graph = NULL;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 8192), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoDAsync_v2(ptr, ptr + 4096, 4096, stream), CUDA_SUCCESS);
    CHECK_STR_EQ(strstr(told_path(), "capture:"), told_path());
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    return graph;
}

TEST(captures_are_ranges_and_launches_are_marks_with_numbers)
{
    CUgraph graph;
    CUgraphExec exec, other;

    begin();
    graph = captured();
    CHECK_STR_EQ(told(), "+capture:0 -capture:0");
    CHECK_STR_EQ(told_path(), "");
    KEDGE_PUSH("step");
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_STR_EQ(told_path(), "step/capture:1");
    KEDGE_POP(); /* the range around it ends first */
    CHECK_STR_EQ(told_path(), "step/capture:1");
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "+step +step/capture:1 -step -step/capture:1");
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&other, graph, 0), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(other, stream), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "!graph:0 !graph:0#1 !graph:1");
    CHECK_EQ(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
    CHECK_NE(cu->cuGraphLaunch(exec, stream),
            CUDA_SUCCESS); /* nothing was launched, nothing is said */
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS); /* perhaps at the old one's address */
    CHECK_STR_EQ(told(), "!graph:2");
}

/* The end of a capture is that of the thread's own stream, although both threads call theirs by one handle. */
static pthread_barrier_t meeting;

static void *capture_beside(void *context)
{
    CUgraph graph = NULL;

    CHECK_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
    (void)pthread_barrier_wait(&meeting);
    (void)pthread_barrier_wait(&meeting);
    CHECK_EQ(cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph), CUDA_SUCCESS);
    return NULL;
}

TEST(r69_captures_of_two_threads_on_their_own_streams_are_two_ranges)
{
    CUgraph graph = NULL;
    pthread_t thread;
    CUcontext context;

    begin();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    REQUIRE(pthread_barrier_init(&meeting, NULL, 2) == 0);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, capture_beside, context) == 0);
    (void)pthread_barrier_wait(&meeting);
    CHECK_EQ(cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "+capture:0 +capture:1 -capture:0");
    (void)pthread_barrier_wait(&meeting);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_STR_EQ(told(), "-capture:1");
}

/* In a library whose bound is low (tests/preload/graphs.cmake): launches of several threads, of which no more become labels. */
enum {
    LABELS = 100,
    LAUNCHES = 60, /* of each of the threads */
    LAUNCHERS = 4,
};

static CUgraphExec many_times;

static void *launch_often(void *context)
{
    CHECK_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < LAUNCHES; i++)
        CHECK_EQ(cu->cuGraphLaunch(many_times, stream), CUDA_SUCCESS);
    return NULL;
}

/* Labels of launches in the capture, and the notes that there are no more. */
static void count_labels(unsigned *ret_labels, unsigned *ret_notes)
{
    struct read_capture *capture;

    *ret_labels = *ret_notes = 0;
    REQUIRE(read_open_parts(told_file, READ_ALL, &capture, NULL) == 0);
    for (size_t i = 0; i < capture->event_count; i++)
        *ret_labels +=
                capture->event[i].kind == FORMAT_EVENT_EDGE && capture->event[i].edge == EDGE_MARK;
    for (size_t i = 0; i < capture->note_count; i++)
        *ret_notes += strstr(capture->note[i].text, "launches are no anchors") != NULL;
    read_close(capture);
}

TEST(more_launches_than_the_bound_are_no_labels)
{
    pthread_t threads[LAUNCHERS];
    unsigned labels, notes;
    CUcontext context;

    if (!getenv("TEST_LABELS"))
        SKIP("the bound is a million in this library");
    begin();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&many_times, captured(), 0), CUDA_SUCCESS);
    for (int i = 0; i < LABELS; i++)
        CHECK_EQ(cu->cuGraphLaunch(many_times, stream), CUDA_SUCCESS);
    count_labels(&labels, &notes);
    CHECK_EQ(labels, LABELS); /* to the last one */
    CHECK_EQ(notes, 0);
    for (int i = 0; i < LAUNCHERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, launch_often, context) == 0);
    for (int i = 0; i < LAUNCHERS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    count_labels(&labels, &notes);
    CHECK_EQ(labels, LABELS);
    CHECK_EQ(notes, 1);
    KEDGE_PUSH("still heard"); /* the bound is for launches alone */
    CHECK_STR_EQ(told_path(), "still heard");
}

TEST(a_capture_that_does_not_begin_is_none)
{
    CUgraph graph;

    begin();
    CHECK_NE(cu->cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_NE(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "");
}

TEST(the_profilers_start_and_stop_are_a_range)
{
    CUresult (*start)(void), (*stop)(void);

    begin();
    start = (CUresult(*)(void))dlsym(cu->libcuda, "cuProfilerStart");
    stop = (CUresult(*)(void))dlsym(cu->libcuda, "cuProfilerStop");
    REQUIRE(start && stop);
    CHECK_EQ(stop(), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(start(), CUDA_SUCCESS);
    CHECK_STR_EQ(told_path(), "profiler");
    CHECK_EQ(stop(), CUDA_SUCCESS);
    CHECK_EQ(stop(), CUDA_SUCCESS);
    CHECK_STR_EQ(told_path(), "");
    CHECK_EQ(start(), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "+profiler -profiler +profiler#1");
}

static const char fill_text[] =
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry kedge_fill("
        ".param .u64 a, .param .u64 b, .param .u32 c)\n{\n    ret;\n}\n";

TEST(kernels_that_are_named_are_marks)
{
    CUdeviceptr out;
    CUfunction sum;
    CUmodule module;

    begin();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&out, 4096), CUDA_SUCCESS);
    sum = client_sum_kernel();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(client_sum(sum, out, out + 64, 64, stream), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "!kedge_sum !kedge_sum#1");
    REQUIRE_EQ(cu->cuModuleLoadData(&module, fill_text), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuModuleGetFunction(&sum, module, "kedge_fill"), CUDA_SUCCESS);
    {
        uint64_t size = 64;
        uint32_t seed = 1;
        void *params[] = {&out, &size, &seed};

        CHECK_EQ(cu->cuLaunchKernel(sum, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), CUDA_SUCCESS);
    }
    CHECK_STR_EQ(told(), "");
    CHECK_EQ(cu->cuModuleUnload(module), CUDA_SUCCESS);
    sum = client_sum_kernel(); /* its handle may have been the other's */
    CHECK_EQ(client_sum(sum, out, out + 64, 64, stream), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "!kedge_sum#2");
}

/* Launches on record, by which predictions go; all of this kernel. */
static unsigned recorded_launches(void)
{
    struct read_capture *capture;
    unsigned count = 0;

    REQUIRE(read_open_parts(told_file, READ_ALL, &capture, NULL) == 0);
    for (size_t i = 0; i < capture->event_count; i++) {
        if (capture->event[i].kind != FORMAT_EVENT_LAUNCH)
            continue;
        CHECK_STR_EQ(reader_string(capture, capture->event[i].call), "kedge_sum");
        CHECK_STR_EQ(capture->event[i].path, "step");
        count++;
    }
    read_close(capture);
    return count;
}

TEST(kernels_that_are_captured_are_marks_when_the_graph_is_launched)
{
    CUgraph graph = NULL;
    CUfunction sum;
    CUgraphExec exec;

    begin();
    sum = client_sum_kernel();
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(client_sum(sum, told_ptr, told_ptr + 64, 64, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "+capture:0 -capture:0");
    CHECK_EQ(recorded_launches(), 0);
    KEDGE_PUSH("step");
    CHECK_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    KEDGE_POP();
    CHECK_STR_EQ(told(), "+step !step/kedge_sum !step/graph:0 -step");
    CHECK_EQ(recorded_launches(), 1);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "+capture:1 -capture:1");
}

/* A context takes its modules with it, without a call for them. */
TEST(kernels_that_are_named_are_marks_after_a_context_went)
{
    CUcontext context;
    CUfunction other, sum;
    CUdeviceptr out;
    CUmodule module;
    uint64_t size = 64;
    uint32_t seed = 1;
    void *params[] = {&out, &size, &seed};

    begin();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&out, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuModuleLoadData(&module, fill_text), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuModuleGetFunction(&other, module, "kedge_fill"), CUDA_SUCCESS);
    CHECK_EQ(cu->cuLaunchKernel(other, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "");
    CHECK_EQ(cu->cuCtxDestroy_v2(context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    sum = client_sum_kernel();
    REQUIRE(sum == other);
    CHECK_EQ(client_sum(sum, out, out + 64, 64, stream), CUDA_SUCCESS);
    CHECK_STR_EQ(told(), "!kedge_sum");
}

typedef int (*peer_fn)(const void *, size_t, int, int, void *, void *);
typedef int (*reduce_fn)(const void *, void *, size_t, int, int, void *, void *);

typedef int (*own_send_fn)(void *);
typedef int (*own_group_fn)(void);

/* Each of two frameworks has a NCCL inside: what they call by name is their own, as without kedge. */
TEST(a_nccl_inside_a_library_stays_its_own)
{
    static const char *const paths[] = {OWN_NCCL_20_PATH, OWN_NCCL_30_PATH};
    own_group_fn own_group[2];
    own_send_fn own_send[2];

    begin();
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);

        REQUIRE(library);
        own_send[i] = (own_send_fn)dlsym(library, "own_send");
        own_group[i] = (own_group_fn)dlsym(library, "own_group");
        REQUIRE(own_send[i] && own_group[i]);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(own_send[i](&stream), 20 + 10 * i);
            CHECK_EQ(own_group[i](), 30 + 10 * i);
        }
    CHECK_STR_EQ(told(),
            "+NCCL:ncclSend -NCCL:ncclSend +NCCL:ncclSend#1 -NCCL:ncclSend#1 "
            "+NCCL:ncclSend#2 -NCCL:ncclSend#2 +NCCL:ncclSend#3 -NCCL:ncclSend#3");
}

TEST(calls_of_nccl_are_ranges_until_it_says_so_itself)
{
    void *library = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    reduce_fn reduce;
    peer_fn send;

    REQUIRE(library);
    begin();
    CHECK(dlsym(RTLD_DEFAULT, "ncclSend") == NULL); /* a name that only we have */
    send = (peer_fn)dlsym(library, "ncclSend");
    reduce = (reduce_fn)dlsym(library, "ncclAllReduce");
    REQUIRE(send && reduce);
    CHECK(dlsym(library, "ncclReduce") == NULL); /* this one does not have it */
    CHECK_EQ(send(&stream, 1, 2, 3, &stream, &stream), 0);
    CHECK_EQ(reduce(&stream, &stream, 1, 2, 3, &stream, &stream), 0);
    CHECK_EQ(reduce(&stream, &stream, 2, 2, 3, &stream, &stream), 4);
    CHECK_STR_EQ(told(),
            "+NCCL:ncclSend -NCCL:ncclSend +NCCL:ncclAllReduce -NCCL:ncclAllReduce "
            "+NCCL:ncclAllReduce#1 -NCCL:ncclAllReduce#1");
    (void)nvtxDomainCreateA("NCCL");
    CHECK_EQ(send(&stream, 1, 2, 3, &stream, &stream), 0);
    CHECK_STR_EQ(told(), "");
}

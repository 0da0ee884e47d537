/* SPDX-License-Identifier: MIT */
/* Hints that wait for NCCL's calls, in whole programs: R55, R57, R66. The libnccl moves nothing and counts its calls. */
#include "tests/preload/hints_kit.h"

#include <pthread.h>
#include <semaphore.h>

#define PICK "{size: \">=8MiB\", used-by: {call: ncclSend, arg: sendbuff, inside: \"*backward\"}}"

typedef int (*peer_fn)(void *, size_t, int, int, void *, void *);

static peer_fn send_to, receive_from;
static int (*group_start)(void), (*group_end)(void);
static int host;

static void find_nccl(void)
{
    client_init();
    send_to = (peer_fn)kit_nccl("ncclSend");
    receive_from = (peer_fn)kit_nccl("ncclRecv");
    group_start = (int (*)(void))kit_nccl("ncclGroupStart");
    group_end = (int (*)(void))kit_nccl("ncclGroupEnd");
}

/* Blocks of 8 MiB and more that were sent in backward, due at the second receive in forward; at the end of update those that
 * are left. */
static void begin(const char *tail, const char *mode, const char *more)
{
    char text[1024];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "events: {fwd-recv: {call: ncclRecv, inside: \"*forward\"}}\n"
            "hints:\n"
            "  - id: sent\n"
            "    do: release\n"
            "    pick: " PICK "\n"
            "    when: {event: fwd-recv, count: 2}\n"
            "    else: {anchor: \"*update\", edge: exit}\n%s",
            more);
    kit_write(text);
    REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    find_nccl();
}

static void call(peer_fn function, const char *anchor, CUdeviceptr ptr)
{
    KEDGE_PUSH(anchor);
    CHECK_EQ(function((void *)(uintptr_t)ptr, 8, 7, 0, &host, NULL), 0);
    KEDGE_POP();
}

static void update(void)
{
    KEDGE_PUSH("update");
    KEDGE_POP();
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        KEDGE_MARK("poll");
}

TEST(r57_what_was_sent_goes_at_the_second_receive_after_it)
{
    CUdeviceptr buffer, sent, again, kept;

    begin("events", "live", "");
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    again = kit_alloc(KIT_BYTES);
    kept = kit_alloc(KIT_BYTES);                   /* never sent in backward */
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, 0), 0); /* the pick fits from the use on */
    call(send_to, "backward", sent);
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, sent), 1);
    call(send_to, "backward", again);
    call(send_to, "forward", kept);
    call(receive_from, "backward", buffer); /* another event */
    call(receive_from, "forward", buffer);
    call(send_to, "backward", again);
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, again), 1); /* once */
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, 0), 2);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    call(receive_from, "forward", buffer);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 1);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent), 1);
    call(receive_from, "forward", buffer);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, again), 1);
    update();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, kept), 0);
    CHECK_EQ(send_to((void *)(uintptr_t)again, 8, 7, 0, &host, NULL), 4); /* too late: stopped */
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, again), 1);
    CU_OK(cu->cuMemFree_v2(sent));
    kit_clean_up();
}

TEST(r57_what_no_receive_came_for_goes_at_the_end_of_the_update)
{
    struct read_capture *capture;
    CUdeviceptr buffer, sent;

    begin("else", "trap", "    expect: {count: 1}\n");
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent);
    call(receive_from, "forward", buffer);
    update();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent), 1);
    capture = kit_read();
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_HINT
                && capture->event[i].what == FORMAT_HINT_DEAD)
            CHECK_STR_EQ(capture->event[i].path, "update");
    CHECK(!capture->rule[0].has_drifted);
    read_close(capture);
    kit_clean_up();
}

/* The event is the call that the group's end makes, so storage waits for that. */
TEST(r66_storage_stays_until_the_event_was_given_to_the_device)
{
    CUdeviceptr buffer, sent;

    begin("group", "trap", "");
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent);
    call(receive_from, "forward", buffer);
    CHECK_EQ(group_start(), 0);
    call(receive_from, "forward", buffer);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent), 1);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent), 0);
    CHECK_EQ(group_end(), 0);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent), 1);
    kit_clean_up();
}

TEST(r57_an_event_that_finds_more_than_expected_releases_nothing)
{
    struct read_capture *capture;
    CUdeviceptr buffer, sent[2];

    begin("drift", "trap", "    expect: {count: 1}\n");
    buffer = kit_alloc(1 * MB);
    for (int i = 0; i < 2; i++) {
        sent[i] = kit_alloc(KIT_BYTES);
        call(send_to, "backward", sent[i]);
    }
    call(receive_from, "forward", buffer);
    call(receive_from, "forward", buffer);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    capture = kit_read();
    CHECK(capture->rule[0].has_drifted);
    CHECK_EQ(capture->rule[0].drift.seen.count, 2);
    CHECK_STR_EQ(capture->rule[0].drift.path, "forward");
    read_close(capture);
    kit_clean_up();
}

TEST(r55_shadow_hints_that_wait_for_calls_make_no_driver_call)
{
    CUdeviceptr buffer, sent;

    begin("shadow", "shadow", "");
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent);
    call(receive_from, "forward", buffer);
    call(receive_from, "forward", buffer);
    update();
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 0);
    CHECK_EQ(client_calls("cuEventRecord"), 0);
    CHECK_EQ(client_calls("cuStreamGetId"), 0);
    CHECK_EQ(client_calls("cuMemCreate"), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, sent), 1);
    CU_OK(cu->cuMemFree_v2(sent));
    kit_clean_up();
}

/* wait: event: one stream's fence, whatever the others still do. */
TEST(r57_storage_waits_for_the_stream_of_the_event_alone)
{
    CUstream busy, comms;
    CUdeviceptr buffer, sent;

    begin("wait", "trap", "    wait: event\n    proof: the peer answers\n");
    CU_OK(cu->cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuStreamCreate(&comms, CU_STREAM_NON_BLOCKING));
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent);
    for (int i = 0; i < 2; i++) {
        KEDGE_PUSH("forward");
        CHECK_EQ(receive_from((void *)(uintptr_t)buffer, 8, 7, 0, &host, comms), 0);
        KEDGE_POP();
    }
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent), 1);
    for (int i = 0; i < 4; i++)
        KEDGE_MARK("poll");
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 0);
    CHECK_EQ(client_calls("cuEventRecord"), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent), 1);
    CU_OK(cu->cuStreamDestroy_v2(busy));
    CU_OK(cu->cuStreamDestroy_v2(comms));
    kit_clean_up();
}

static CUstream behind; /* the stream of the event, which still has work from before it */
static CUdeviceptr room, sent_block;

static void *give_work_and_event(void *unused)
{
    (void)unused;
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    CU_OK(cu->cuMemsetD8Async(sent_block, 0x33, KIT_BYTES, behind));
    KEDGE_PUSH("forward");
    for (int i = 0; i < 2; i++)
        CHECK_EQ(receive_from((void *)(uintptr_t)room, 8, 7, 0, &host, behind), 0);
    return NULL;
}

/* The fence of the event is recorded as this group ends, which names the block, on whichever thread and device that is. */
static void start_behind(const char *tail)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    begin(tail, "trap", "    wait: event\n    proof: the peer answers\n");
    room = kit_alloc(1 * MB);
    sent_block = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent_block);
    CHECK_EQ(group_start(), 0);
    call(send_to, "other", sent_block);
}

/* However often kedge looks, with this context current: the storage is there until the device has done the work. */
static void stays_behind(CUcontext current)
{
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent_block), 1);
    CHECK_EQ(client_calls("cuEventRecord"), 0);
    CU_OK(cu->cuCtxSetCurrent(current));
    CHECK_EQ(group_end(), 0);
    for (int i = 0; i < 8; i++) {
        KEDGE_MARK("poll");
        (void)kit_alloc(512);
    }
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent_block), 0);
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent_block), 1);
    kit_clean_up();
}

TEST(r57_storage_waits_for_work_before_the_event_on_a_stream)
{
    start_behind("behind");
    CU_OK(cu->cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
    (void)give_work_and_event(NULL);
    stays_behind(cu->context);
}

TEST(r57_storage_waits_for_work_before_the_event_on_the_legacy_stream)
{
    start_behind("behind-legacy");
    (void)give_work_and_event(NULL);
    stays_behind(cu->context);
}

TEST(r57_storage_waits_for_work_before_the_event_on_the_threads_own_stream)
{
    start_behind("behind-own");
    behind = CU_STREAM_PER_THREAD;
    (void)give_work_and_event(NULL);
    stays_behind(cu->context);
}

TEST(r57_storage_waits_for_work_before_the_event_on_another_threads_own_stream)
{
    pthread_t thread;

    start_behind("behind-thread");
    behind = CU_STREAM_PER_THREAD;
    REQUIRE(pthread_create(&thread, NULL, give_work_and_event, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 0);
    stays_behind(cu->context);
    CHECK_GT(client_calls("cuCtxRecordEvent"), 0); /* this thread cannot name that stream */
}

TEST(r57_storage_waits_for_work_before_the_event_on_another_device)
{
    CUcontext second;

    start_behind("behind-device");
    CU_OK(cu->cuDevicePrimaryCtxRetain(&second, 1));
    (void)give_work_and_event(
            NULL); /* the same handle is the other device's default stream there */
    stays_behind(second);
}

TEST(r66_a_release_goes_on_as_soon_as_its_event_was_given_to_the_device)
{
    CUdeviceptr buffer, sent;

    REQUIRE(setenv("KEDGE_ANCHORS", "nvtx,marks", 1)
            == 0); /* no range of the call, whose end is an edge */
    begin("go-on", "trap", "");
    buffer = kit_alloc(1 * MB);
    sent = kit_alloc(KIT_BYTES);
    call(send_to, "backward", sent);
    KEDGE_PUSH("forward");
    for (int i = 0; i < 2; i++)
        CHECK_EQ(receive_from((void *)(uintptr_t)buffer, 8, 7, 0, &host, NULL), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent), 1);
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 1); /* with no other call of the program */
    kit_clean_up();
}

static sem_t is_named, may_end;
static CUdeviceptr named_block, room_of_group;

/* A group that names a block, and whose event releases another one; it does not end before the test does. */
static void *never_end_a_group(void *unused)
{
    (void)unused;
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    CHECK_EQ(group_start(), 0);
    call(send_to, "other", named_block);
    call(receive_from, "forward", room_of_group);
    sem_post(&is_named);
    while (sem_wait(&may_end) != 0)
        ;
    CHECK_EQ(group_end(), 0);
    return NULL;
}

/* What the calls of an open group name, and what their events release, waits for that group; nothing else does. */
TEST(r66_a_group_that_does_not_end_holds_up_what_it_is_about_alone)
{
    CUdeviceptr by_event, other, buffer;
    pthread_t thread;

    begin("open-group", "trap", "");
    REQUIRE(sem_init(&is_named, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    buffer = kit_alloc(1 * MB);
    room_of_group = kit_alloc(1 * MB);
    by_event = kit_alloc(KIT_BYTES);
    named_block = kit_alloc(KIT_BYTES);
    other = kit_alloc(KIT_BYTES);
    call(send_to, "backward", by_event);
    call(receive_from, "forward", buffer);
    call(send_to, "backward", named_block);
    call(send_to, "backward", other);
    REQUIRE(pthread_create(&thread, NULL, never_end_a_group, NULL) == 0);
    while (sem_wait(&is_named) != 0)
        ;
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, by_event), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 1);
    update();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 3);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, other), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, 0), 1);
    sem_post(&may_end);
    REQUIRE(pthread_join(thread, NULL) == 0);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, 0), 3);
    kit_clean_up();
}

static bool is_one_of(CUdeviceptr ptr, const CUdeviceptr held[2])
{
    return ptr == held[0] || ptr == held[1];
}

/* do: hold: the event is the last use of one block, which the group's end makes, and lets both go. */
TEST(r66_what_a_group_lets_go_is_nobodys_before_its_end)
{
    CUdeviceptr held[2], again[2], buffer;

    kit_files("group-hold");
    kit_write("kedge-hints: 1\nhints:\n"
              "  - {id: held, do: hold, pick: {size: 8MiB}, when: {event: {call: ncclSend}, count: "
              "1}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    find_nccl();
    buffer = kit_alloc(1 * MB);
    for (int i = 0; i < 2; i++)
        held[i] = kit_alloc(KIT_BYTES);
    for (int i = 0; i < 2; i++)
        CU_OK(cu->cuMemFree_v2(held[i]));
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, 0), 2);
    CHECK_EQ(group_start(), 0);
    call(send_to, "backward", held[0]);
    call(receive_from, "forward", buffer);
    CHECK_EQ(kit_told(FORMAT_HINT_LET_GO, 0), 2);
    settle();
    for (int i = 0; i < 2; i++)
        CHECK(!is_one_of(kit_alloc(KIT_BYTES), held));
    CHECK_EQ(group_end(), 0);
    settle();
    for (int i = 0; i < 2; i++)
        again[i] = kit_alloc(KIT_BYTES);
    CHECK(is_one_of(again[0], held));
    CHECK(is_one_of(again[1], held));
    kit_clean_up();
}

/* `when` of one hint for 8 MiB, beside one for 4 MiB that releases at no moment of the test. */
static void begin_with(const char *tail, const char *when)
{
    char text[512];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "hints:\n"
            "  - {id: first, do: release, pick: {size: 8MiB}, when: %s}\n"
            "  - {id: other, do: release, pick: {size: 4MiB}, when: {anchor: never, edge: exit}}\n",
            when);
    kit_write(text);
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    client_init();
}

TEST(r57_storage_goes_at_the_second_launch_of_a_kernel)
{
    CUfunction kernel;
    CUdeviceptr ptr, other;

    begin_with("launch", "{launch: \"*sum*\", count: 2}");
    kernel = client_sum_kernel();
    other = kit_alloc(1 * MB);
    CU_OK(client_sum(kernel, other, other + 64, 64, NULL)); /* before it */
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(client_sum(kernel, other, ptr, 64, NULL));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CU_OK(client_sum(kernel, other, other + 64, 64, NULL));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(client_sum(kernel, other, ptr, 64, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuFuncGetName"), 1);
    kit_clean_up();
}

static char below[220]; /* the log of what the driver is asked for, below kedge */

/* Before the first call of the driver. */
static void log_calls(const char *tail)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";

    snprintf(below, sizeof below, "%s/kedge-calls-%d-%s.log", dir, (int)getpid(), tail);
    REQUIRE(setenv("SIMCUDA_LOG", below, 1) == 0);
}

/* Of the log since `from`: the place of a call, -1 = it was not made. *ret_end is where the log ends now. */
static long place_of(const char *call, long from, long *ret_end)
{
    static char text[1 << 20];
    int fd = open(below, O_RDONLY | O_CLOEXEC);
    ssize_t length;
    char *at;

    REQUIRE(fd >= 0);
    length = pread(fd, text, sizeof text - 1, from);
    REQUIRE(length >= 0 && close(fd) == 0);
    text[length] = '\0';
    *ret_end = from + (long)length;
    at = strstr(text, call);
    return at ? (long)(at - text) : -1;
}

/* The block goes by the launch that `call` is: it has its storage, and there is no fence yet, when the driver gets that. */
static void goes_behind(const char *call, long from)
{
    long end;
    long launch = place_of(call, from, &end);
    long fence = place_of(" cuCtxRecordEvent", from, &end);
    long access = place_of(" cuMemSetAccess", from, &end);

    CHECK_GE(launch, 0);
    CHECK_GT(fence, launch); /* at once: with no other call of the program */
    CHECK_GT(access, launch);
    (void)unlink(below);
}

TEST(r66_storage_goes_behind_the_launch_that_is_the_event)
{
    CUfunction kernel;
    CUdeviceptr ptr, other;
    long from;

    log_calls("launch");
    begin_with("launch-order", "{launch: \"*sum*\", count: 1}");
    kernel = client_sum_kernel();
    other = kit_alloc(1 * MB);
    ptr = kit_alloc(KIT_BYTES);
    (void)place_of("", 0, &from);
    CU_OK(client_sum(kernel, other, other + 64, 64, NULL));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    goes_behind(" cuLaunchKernel", from);
    kit_clean_up();
}

static CUstream recorder;
static CUfunction sum, fill;
static CUdeviceptr data; /* what kernels in graphs are given */

static void begin_graphs(const char *tail, const char *when)
{
    static const char text[] =
            ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry kedge_fill("
            ".param .u64 a, .param .u64 b, .param .u32 c)\n{\n    ret;\n}\n";
    CUmodule module;

    begin_with(tail, when);
    CU_OK(cu->cuStreamCreate(&recorder, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    CU_OK(cu->cuModuleLoadData(&module, text));
    CU_OK(cu->cuModuleGetFunction(&fill, module, "kedge_fill"));
    data = kit_alloc(1 * MB);
}

static CUgraphExec instance_of(CUgraph graph)
{
    CUgraphExec exec;

    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* A graph of two launches, captured. */
static CUgraph captured_sums(void)
{
    CUgraph graph;

    CU_OK(cu->cuStreamBeginCapture_v2(recorder, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 2; i++)
        CU_OK(client_sum(sum, data, data + 64, 64, recorder));
    CU_OK(cu->cuStreamEndCapture(recorder, &graph));
    return graph;
}

/* The parameters of both kernels. */
static CUDA_KERNEL_NODE_PARAMS kernel_node(CUfunction function)
{
    static CUdeviceptr out, src;
    static uint64_t size = 64;
    static uint32_t seed = 1;
    static void *of_sum[] = {&out, &src, &size};
    static void *of_fill[] = {&out, &size, &seed};

    out = data;
    src = data + 64;
    return (CUDA_KERNEL_NODE_PARAMS){.func = function,
            .gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 32,
            .blockDimY = 1,
            .blockDimZ = 1,
            .kernelParams = function == sum ? of_sum : of_fill};
}

/* A graph of one kernel. */
static CUgraph graph_of(CUfunction function, CUgraphNode *ret_node)
{
    CUDA_KERNEL_NODE_PARAMS params = kernel_node(function);
    CUgraph graph;

    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    CU_OK(KIT_CU(cuGraphAddKernelNode_v2)(ret_node, graph, NULL, 0, &params));
    return graph;
}

/* Whether a launch of the instance is the first launch that a block waits for. */
static bool counts(CUgraphExec exec)
{
    CUdeviceptr ptr = kit_alloc(KIT_BYTES);

    CU_OK(cu->cuGraphLaunch(exec, recorder));
    return kit_told(FORMAT_HINT_DEAD, ptr) == 1;
}

TEST(r57_a_launch_of_a_graph_is_launches_of_its_kernels)
{
    CUgraphExec exec;
    CUdeviceptr ptr;

    begin_graphs("graph", "{launch: \"*sum*\", count: 3}");
    ptr = kit_alloc(KIT_BYTES);
    exec = instance_of(captured_sums());
    CU_OK(cu->cuGraphLaunch(exec, recorder));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CU_OK(cu->cuGraphLaunch(exec, recorder));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(client_calls("cuFuncGetName"), 1);
    CHECK_EQ(client_calls("cuGraphKernelNodeGetParams"), 2); /* when the instance was made */
    kit_clean_up();
}

TEST(r66_storage_goes_behind_the_launch_of_a_graph_that_is_the_event)
{
    CUgraphExec exec;
    CUdeviceptr ptr;
    long from;

    log_calls("graph");
    begin_graphs("graph-order", "{launch: \"*sum*\", count: 2}");
    exec = instance_of(captured_sums());
    ptr = kit_alloc(KIT_BYTES);
    (void)place_of("", 0, &from);
    CU_OK(cu->cuGraphLaunch(exec, recorder));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    goes_behind(" cuGraphLaunch", from);
    kit_clean_up();
}

TEST(r57_a_launch_that_is_captured_is_no_event)
{
    CUgraphExec exec, other;
    CUdeviceptr ptr;
    CUgraph graph;

    begin_graphs("captured", "{launch: \"*sum*\", count: 1}");
    exec = instance_of(captured_sums());
    ptr = kit_alloc(KIT_BYTES);
    (void)captured_sums();
    CU_OK(cu->cuStreamBeginCapture_v2(recorder, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuGraphLaunch(exec, recorder)); /* becomes a child */
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CU_OK(client_sum(sum, data, data + 64, 64, NULL)); /* on a stream that is not captured */
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CU_OK(cu->cuStreamEndCapture(recorder, &graph));
    other = instance_of(graph);
    CHECK(counts(other));
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    CHECK(counts(other));
    kit_clean_up();
}

TEST(r57_kernels_of_a_graph_are_those_that_it_has_at_its_launch)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node, unused;
    CUgraphExec exec;

    begin_graphs("set", "{launch: \"*sum*\", count: 1}");
    exec = instance_of(graph_of(sum, &node));
    CHECK(counts(exec));
    params = kernel_node(fill);
    CU_OK(KIT_CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params));
    CHECK(!counts(exec));
    CU_OK(KIT_CU(cuGraphExecUpdate_v2)(exec, graph_of(sum, &unused), &info));
    CHECK(counts(exec));
    CU_OK(KIT_CU(cuGraphNodeSetEnabled)(exec, node, 0));
    CHECK(!counts(exec));
    CU_OK(KIT_CU(cuGraphNodeSetEnabled)(exec, node, 1));
    CHECK(counts(exec));
    CU_OK(KIT_CU(cuGraphExecUpdate_v2)(exec, graph_of(fill, &unused), &info));
    CHECK(!counts(exec));
    params = kernel_node(sum); /* of the node that the instance was made of */
    CU_OK(KIT_CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params));
    CHECK(counts(exec));
    kit_clean_up();
}

TEST(r57_kernels_of_child_graphs_are_launched_with_them)
{
    CUgraphNode child, inner, node;
    CUgraph graph, middle;
    CUgraphExec exec;

    begin_graphs("child", "{launch: \"*sum*\", count: 1}");
    CU_OK(KIT_CU(cuGraphCreate)(&middle, 0));
    CU_OK(KIT_CU(cuGraphAddChildGraphNode)(&inner, middle, NULL, 0, graph_of(sum, &node)));
    graph = graph_of(fill, &node);
    CU_OK(KIT_CU(cuGraphAddChildGraphNode)(&child, graph, NULL, 0, middle));
    exec = instance_of(graph);
    CHECK(counts(exec));
    CU_OK(KIT_CU(cuGraphCreate)(&middle, 0));
    CU_OK(KIT_CU(cuGraphAddChildGraphNode)(&inner, middle, NULL, 0, graph_of(fill, &node)));
    CU_OK(KIT_CU(cuGraphExecChildGraphNodeSetParams)(exec, child, middle));
    CHECK(!counts(exec));
    kit_clean_up();
}

TEST(r57_kernels_of_graphs_without_a_name_are_told_once)
{
    struct read_capture *capture;
    CUgraphNode node;
    unsigned told = 0;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuFuncGetName:1+:999,cuKernelGetName:1+:999", 1) == 0);
    begin_graphs("nameless", "{launch: \"*sum*\", count: 1}");
    CHECK(!counts(instance_of(graph_of(sum, &node))));
    CHECK(!counts(instance_of(graph_of(fill, &node))));
    capture = kit_read();
    for (size_t i = 0; i < capture->note_count; i++)
        told += strcmp(capture->note[i].text,
                        "a kernel of a graph is no event: the driver does not tell its name")
                == 0;
    CHECK_EQ(told, 1);
    read_close(capture);
    kit_clean_up();
}

/* Blocks of 8 MiB, each due at the second launch after it, or when the block of 4 MiB is freed. */
static void pass_through(size_t size)
{
    CU_OK(cu->cuMemFree_v2(kit_alloc(size)));
}

/* The peak is that of a first launch, when the block is there still; it would be higher after the second one if it was. */
static void launch_and_free(void)
{
    CUgraphExec exec;
    CUdeviceptr other;

    client_init();
    CU_OK(cu->cuStreamCreate(&recorder, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    data = kit_alloc(1 * MB);
    exec = instance_of(captured_sums());
    for (int i = 0; i < 9; i++) {
        (void)kit_alloc(KIT_BYTES);
        other = kit_alloc(4 * MB);
        CU_OK(client_sum(sum, data, data + 64, 64, NULL));
        pass_through(2 * MB);
        if (i % 3 == 0)
            CU_OK(client_sum(sum, data, data + 64, 64, NULL));
        if (i % 3 == 1)
            CU_OK(cu->cuGraphLaunch(exec, recorder));
        if (i % 3 < 2)
            pass_through(5 * MB);
        CU_OK(cu->cuMemFree_v2(other));
    }
    CU_OK(cu->cuCtxSynchronize());
}

/* What the command says of the run: 0 if what the hints would do to the record of it is what they did. */
static int predicted(const char *more)
{
    char text[1024];

    snprintf(text, sizeof text,
            "LD_PRELOAD= KEDGE_HINTS= KEDGE_CAPTURE= %s/kedge check %s --predicted %s %s",
            getenv("TEST_BUILD"), kit_capture, kit_hints, more);
    return WEXITSTATUS(system(text)); /* NOLINT(cert-env33-c): a shell, as its users have */
}

TEST(launches_are_foreseen_as_they_come)
{
    static const char *const modes[] = {"shadow", "live"};

    kit_files("foreseen");
    kit_write("kedge-hints: 1\n"
              "hints:\n"
              "  - {id: first, do: release, pick: {size: 8MiB}, when: {launch: \"*sum*\", count: "
              "2},\n"
              "     else: {free-of: other}}\n"
              "  - {id: other, do: release, pick: {size: 4MiB}, when: {launch: \"*sum*\", count: "
              "9}}\n");
    kit_allow_live();
    for (int i = 0; i < 2; i++) {
        REQUIRE(setenv("KEDGE_HINTS_MODE", modes[i], 1) == 0);
        (void)unlink(kit_capture);
        REQUIRE_EQ(run_child(launch_and_free), 0);
        CHECK_EQ(predicted(i == 0 ? "'peak_if_live==15MiB' 'peak>72MiB'"
                                  : "'peak_with_hints==15MiB'"),
                0);
    }
    kit_clean_up();
}

/* 20 blocks of 8 MiB that the program keeps, each dead at a mark behind it; then one to know the peak by. */
static void mark_each(void)
{
    client_init();
    for (int i = 0; i < 20; i++) {
        (void)kit_alloc(KIT_BYTES);
        KEDGE_MARK("done");
    }
    (void)kit_alloc(1 * MB);
}

#define MARKED                                                                         \
    "hints:\n"                                                                         \
    "  - {id: first, do: release, pick: {size: 8MiB}, when: {event: {mark: \"done\", " \
    "edge: point}, count: 1}"

TEST(what_a_canary_leaves_out_is_foreseen)
{
    kit_files("foreseen-canary");
    kit_write("kedge-hints: 1\n" MARKED ", canary: 1/4}\n");
    kit_allow_live();
    REQUIRE(setenv("KEDGE_HINTS_MODE", "live", 1) == 0);
    REQUIRE_EQ(run_child(mark_each), 0);
    CHECK_EQ(predicted("'peak_with_hints==128MiB'"), 0);
    kit_clean_up();
}

/* What suggest predicted of one rank says nothing of another; without a rank it is of all. */
TEST(what_was_predicted_of_another_rank_is_not_asked_for)
{
    static const char *const figures[] = {"rank: \"3\", ", "rank: \"\", ", ""};

    for (int i = 0; i < 3; i++) {
        char text[512];

        snprintf(text, sizeof text, "kedge-hints: 1\npredicted: {%smax-bytes: 7MiB}\n" MARKED "}\n",
                figures[i]);
        kit_files("foreseen-rank");
        kit_write(text);
        REQUIRE(setenv("KEDGE_HINTS_MODE", "shadow", 1) == 0);
        REQUIRE_EQ(run_child(mark_each), 0);
        CHECK_EQ(predicted(""), i == 0 ? 0 : 1);
        kit_clean_up();
    }
}

/* More events than a small ring keeps. */
static void mark_and_pass(void)
{
    mark_each();
    for (int i = 0; i < 200000; i++)
        pass_through(1 * MB);
}

TEST(a_run_of_which_events_are_missing_is_not_foreseen)
{
    static const char *const traces[] = {"agg", "ring,mb=1"};

    for (int i = 0; i < 2; i++) {
        kit_files("unforeseen-events");
        kit_write("kedge-hints: 1\n" MARKED "}\n");
        REQUIRE(setenv("KEDGE_HINTS_MODE", "shadow", 1) == 0);
        REQUIRE(setenv("KEDGE_TRACE", traces[i], 1) == 0);
        REQUIRE_EQ(run_child(mark_and_pass), 0);
        CHECK_EQ(predicted(""), 2);
        CHECK_EQ(predicted("2>&1 | grep -qF ': events are missing in the capture'"), 0);
        kit_clean_up();
    }
}

TEST(a_run_without_launches_is_not_foreseen)
{
    kit_files("unforeseen");
    kit_write("kedge-hints: 1\n"
              "hints:\n"
              "  - {id: first, do: release, pick: {size: 8MiB}, when: {launch: \"*none*\", count: "
              "2}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "shadow", 1) == 0);
    REQUIRE_EQ(run_child(launch_and_free), 0);
    CHECK_EQ(predicted(""), 2);
    CHECK_EQ(
            predicted("2>&1 | grep -qF 'first waits for launches of kernels \"*none*\", of which'"),
            0);
    kit_clean_up();
}

TEST(r55_names_of_kernels_are_asked_for_only_where_a_hint_has_one)
{
    CUgraphNode node;

    begin_graphs("no-launch", "{free-of: other}");
    CU_OK(client_sum(sum, data, data + 64, 64, NULL));
    CHECK(!counts(instance_of(graph_of(sum, &node))));
    CHECK_EQ(client_calls("cuFuncGetName"), 0);
    CHECK_EQ(client_calls("cuGraphGetNodes"), 0);
    CHECK_EQ(client_calls("cuStreamIsCapturing"), 0);
    kit_clean_up();
}

TEST(r57_storage_goes_at_the_second_mark)
{
    CUdeviceptr ptr;

    begin_with("mark", "{event: {mark: \"*done\", edge: point}, count: 2}");
    KEDGE_MARK("done");
    ptr = kit_alloc(KIT_BYTES);
    KEDGE_MARK("done");
    KEDGE_PUSH("done"); /* an edge of another kind */
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    KEDGE_MARK("done");
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    kit_clean_up();
}

TEST(r57_storage_goes_at_the_free_of_a_block_of_another_hint)
{
    CUdeviceptr ptr, other, no_hints;

    begin_with("free-of", "{free-of: other}");
    ptr = kit_alloc(KIT_BYTES);
    other = kit_alloc(4 * MB);
    no_hints = kit_alloc(5 * MB);
    CU_OK(cu->cuMemFree_v2(no_hints));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CU_OK(cu->cuMemFree_v2(other));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CU_OK(cu->cuMemFree_v2(ptr));
    kit_clean_up();
}

/* SPDX-License-Identifier: MIT */
/* covers: life.c start.c hooks_init.c session.c */
/*
 * The process around the calls: before the first one, threads that end, are cancelled or abort, forks with work under way, exits
 * with live blocks, host functions, and the driver coming back into us.
 */
#include "tests/preload/client.h"

#include "preload/base/kedge.h"
#include "tests/preload/child.h"
#include "tracker/reader/read.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static char capture_file[128];

static void capture_to(const char *tail)
{
    snprintf(capture_file, sizeof capture_file, "/tmp/kedge-process-%d-%s.kcap", (int)getpid(),
            tail);
    (void)unlink(capture_file);
    REQUIRE(setenv("KEDGE_CAPTURE", capture_file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
}

static struct read_capture *read_now(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    REQUIRE_EQ(read_open_parts(capture_file, READ_ALL, &capture, &error), 0);
    CHECK_EQ(capture->bad_records, 0);
    return capture;
}

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static uint64_t all_calls(void)
{
    __typeof__(&simcuda_stats) ask = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(ask && ask(&stats) == 0);
    return stats.calls;
}

static void on_each_call(void (*hook)(const char *))
{
    __typeof__(&simcuda_set_call_hook) set =
            (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");

    REQUIRE(set);
    set(hook);
}

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    REQUIRE(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* ---- before the first call --------------------------------------------------------------------- */

/* R28: what only looks around starts nothing: no context, no thread, no file; and never does kedge initialise CUDA. */
TEST(r28_nothing_is_started_that_the_program_did_not_start)
{
    int threads = entries_of("/proc/self/task");
    int device = 0;
    CUcontext current = NULL;

    capture_to("before");
    if (!client_load())
        SKIP("no simulated driver");
    threads = entries_of("/proc/self/task"); /* the device may have some of its own */
    CHECK_EQ(cu->cuMemAlloc_v2(&(CUdeviceptr){0}, 4096), CUDA_ERROR_NOT_INITIALIZED);
    KEDGE_PUSH("an anchor");
    KEDGE_POP();
    CHECK_EQ(client_calls("cuInit"), 0);
    CHECK(access(capture_file, F_OK) != 0);
    REQUIRE_EQ(cu->cuInit(0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&(CUdeviceptr){0}, 4096), CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE_EQ(cu->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK(!current);
    CHECK_EQ(client_calls("cuInit"), 1);
    CHECK_EQ(client_calls("cuDevicePrimaryCtxRetain") + client_calls("cuCtxCreate_v2"), 0);
    CHECK_EQ(entries_of("/proc/self/task"), threads);
    CHECK(access(capture_file, F_OK) != 0);

    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&current, device), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(current), CUDA_SUCCESS);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(cu->cuMemFree_v2(alloc(4096)), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuInit"), 1);
    CHECK_EQ(client_calls("cuDevicePrimaryCtxRetain"), 1);
    CHECK_EQ(entries_of("/proc/self/task"), threads);
    CHECK(access(capture_file, F_OK) == 0);
    (void)unlink(capture_file);
}

/* ---- the driver comes back --------------------------------------------------------------------- */

static CUdeviceptr inner;
static uint64_t inner_driver_calls;

/* The first time that the driver is asked for memory by kedge, it asks for some itself, through the program's pointer. */
static void ask_again(const char *call)
{
    static int times;

    if (strcmp(call, "cuMemAlloc_v2") != 0 || times++ > 0)
        return;
    inner_driver_calls = client_calls("cuMemAlloc_v2");
    CHECK_EQ(cu->cuMemAlloc_v2(&inner, 4096), CUDA_SUCCESS);
    inner_driver_calls = client_calls("cuMemAlloc_v2") - inner_driver_calls;
}

TEST(r37_a_call_that_comes_back_out_of_the_driver_is_the_drivers)
{
    CUdeviceptr outer;

    client_init();
    on_each_call(ask_again);
    outer = alloc(4096);
    on_each_call(NULL);
    CHECK(client_is_pooled(outer, 4096));
    CHECK(inner);
    CHECK_EQ(inner_driver_calls, 1);
    CHECK(!client_is_pooled(inner, 4096));
    CHECK_EQ(cu->cuMemFree_v2(inner), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
    CHECK_EQ(cu->cuMemFree_v2(outer), CUDA_SUCCESS);
}

static __thread bool nested;
static atomic_int nested_calls, nested_failures;

/* Whatever the driver is asked for, it first asks for memory and gives it back. */
static void ask_each_time(const char *call)
{
    CUdeviceptr ptr = 0;

    if (nested || strcmp(call, "cuInit") == 0 || strcmp(call, "cuMemFree_v2") == 0)
        return;
    nested = true;
    if (cu->cuMemAlloc_v2(&ptr, 4096) != CUDA_SUCCESS || cu->cuMemFree_v2(ptr) != CUDA_SUCCESS)
        atomic_fetch_add(&nested_failures, 1);
    atomic_fetch_add(&nested_calls, 1);
    nested = false;
}

static void fill_and_check(CUstream stream, unsigned char value)
{
    static unsigned char host[1 * MB];
    CUdeviceptr sync = alloc(1 * MB), async = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&async, 1 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8_v2(sync, value, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(
            cu->cuMemsetD8Async(async, (unsigned char)(value + 1), 1 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(host, sync, sizeof host), CUDA_SUCCESS);
    CHECK(host[0] == value && host[sizeof host - 1] == value);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(host, async, sizeof host), CUDA_SUCCESS);
    CHECK(host[0] == value + 1 && host[sizeof host - 1] == value + 1);
    CHECK_EQ(cu->cuMemFree_v2(sync), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(async, stream), CUDA_SUCCESS);
}

/* R37: out of every call that kedge makes, whatever it was about to do. */
TEST(r37_the_driver_may_come_back_out_of_any_call)
{
    CUstream stream = NULL, other = NULL;

    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    on_each_call(ask_each_time);
    for (int i = 0; i < 20; i++)
        fill_and_check(i % 2 ? stream : other, (unsigned char)(2 * i));
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    on_each_call(NULL);
    CHECK_EQ(atomic_load(&nested_failures), 0);
    CHECK_GT(atomic_load(&nested_calls), 100);
}

/* ---- host functions in graphs ------------------------------------------------------------------ */

struct job {
    CUdeviceptr sync, async;
    CUresult sync_result, async_result;
    uint64_t calls;
    int ran;
};

/* Of this thread: the driver may run the host function while another one is on its way into a wait. */
static _Thread_local uint64_t own_calls;

static void count_own(const char *name)
{
    (void)name;
    own_calls++;
}

static void free_both(void *data)
{
    struct job *job = data;
    uint64_t before = own_calls;

    job->sync_result = cu->cuMemFree_v2(job->sync);
    job->async_result = cu->cuMemFreeAsync(job->async, NULL);
    job->calls = own_calls - before;
    job->ran++;
}

static void fill(struct job *job, CUstream stream)
{
    job->sync = alloc(1 * MB);
    REQUIRE_EQ(cu->cuMemAllocAsync(&job->async, 1 * MB, stream), CUDA_SUCCESS);
}

static void check_ran(const struct job *job, int times)
{
    CHECK_EQ(job->ran, times);
    CHECK_EQ(job->sync_result, CUDA_SUCCESS);
    CHECK_EQ(job->async_result, CUDA_SUCCESS);
    CHECK_EQ(job->calls, 0);
}

TEST(r38_a_free_in_a_host_node_of_a_graph_makes_no_driver_call)
{
    struct job first = {.ran = 0}, second = {.ran = 0};
    CUDA_HOST_NODE_PARAMS host = {free_both, &first};
    CUgraphNodeParams any;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUstream stream = NULL;

    client_init();
    on_each_call(count_own);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddHostNode(&node, graph, NULL, 0, &host), CUDA_SUCCESS);
    CHECK(host.fn == free_both
            && host.userData == &first); /* the program's struct stays the program's */
    memset(&any, 0, sizeof any);
    any.type = CU_GRAPH_NODE_TYPE_HOST;
    any.host = (CUDA_HOST_NODE_PARAMS){free_both, &second};
    REQUIRE_EQ(cu->cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any), CUDA_SUCCESS);
    CHECK(any.host.fn == free_both);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (int times = 1; times <= 2; times++) {
        fill(&first, stream);
        fill(&second, stream);
        REQUIRE_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
        check_ran(&first, times);
        check_ran(&second, times);
    }
}

/*
 * A free of the program's waits for the device, and the device runs a host function meanwhile, which frees as well. Whoever
 * runs it, the driver's thread or the one that waits, it is the program's code and not kedge's.
 */
TEST(r38_a_host_function_that_runs_while_kedge_waits_frees_like_any_other)
{
    struct job job = {.ran = 0};
    CUstream stream = NULL;
    CUdeviceptr other;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    on_each_call(count_own);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    other = alloc(1 * MB);
    fill(&job, stream);
    REQUIRE_EQ(cu->cuLaunchHostFunc(stream, free_both, &job), CUDA_SUCCESS);
    CHECK_EQ(job.ran, 0);
    REQUIRE_EQ(cu->cuMemFree_v2(other), CUDA_SUCCESS); /* a barrier */
    check_ran(&job, 1);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);
}

/* ---- contexts ---------------------------------------------------------------------------------- */

/* R1: a fence covers a context from the moment that it is made, with whichever call. */
TEST(a_context_of_each_make_is_noticed_at_once)
{
    CUcontext made = NULL;
    CUdeviceptr ptr;
    uint64_t before;

    client_init();
    ptr = alloc(1 * MB);
    REQUIRE_EQ(cu->cuCtxCreate_v3(&made, NULL, 0, 0, 0), CUDA_SUCCESS);
    before = client_calls("cuCtxGetId");
    CHECK_GT(before, 1); /* asked for its number */
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxDestroy_v2(made), CUDA_SUCCESS);
}

/* ---- threads ----------------------------------------------------------------------------------- */

static CUdeviceptr threads_block;
static CUresult cleanup_result = CUDA_ERROR_UNKNOWN;
static atomic_int in_driver;
static pthread_t cancelled;

static void free_in_cleanup(void *data)
{
    (void)data;
    cleanup_result = cu->cuMemFree_v2(threads_block);
}

/* Inside a call that kedge makes of the driver, the thread is cancelled and comes to a point where it could end. */
static void cancel_inside(const char *call)
{
    if (strcmp(call, "cuMemAlloc_v2") != 0 || !pthread_equal(pthread_self(), cancelled))
        return;
    atomic_store(&in_driver, 1);
    (void)pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void *allocate_until_cancelled(void *data)
{
    CUdeviceptr ptr;

    (void)data;
    cancelled = pthread_self();
    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS)
        return NULL;
    threads_block = alloc(4096);
    pthread_cleanup_push(free_in_cleanup, NULL);
    on_each_call(cancel_inside);
    (void)cu->cuMemAlloc_v2(&ptr, 256 * MB); /* a new segment */
    on_each_call(NULL);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

/* Else the cleanup's free would find the thread still inside kedge, and the driver would be asked for a block of ours. */
TEST(a_thread_that_is_cancelled_inside_a_call_ends_after_it)
{
    void *result = NULL;
    pthread_t thread;

    client_init();
    CHECK_EQ(cu->cuMemFree_v2(alloc(4096)), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, allocate_until_cancelled, NULL) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    on_each_call(NULL);
    CHECK_EQ(result, PTHREAD_CANCELED);
    CHECK_EQ(atomic_load(&in_driver), 1);
    CHECK_EQ(cleanup_result, CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
}

static __thread CUdeviceptr own_sync, own_async;
static __thread CUstream own_stream;
static atomic_int churning, cleaned, cleanup_failures;

static void free_own(void *data)
{
    (void)data;
    if (own_sync && cu->cuMemFree_v2(own_sync) != CUDA_SUCCESS)
        atomic_fetch_add(&cleanup_failures, 1);
    if (own_async && cu->cuMemFreeAsync(own_async, own_stream) != CUDA_SUCCESS)
        atomic_fetch_add(&cleanup_failures, 1);
    atomic_fetch_add(&cleaned, 1);
}

static void *churn_until_cancelled(void *data)
{
    (void)data;
    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS
            || cu->cuStreamCreate(&own_stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        atomic_fetch_add(&cleanup_failures, 1);
    pthread_cleanup_push(free_own, NULL);
    atomic_fetch_add(&churning, 1);
    for (;;) {
        if (cu->cuMemAlloc_v2(&own_sync, 64 << 10) != CUDA_SUCCESS)
            own_sync = 0;
        if (cu->cuMemAllocAsync(&own_async, 64 << 10, own_stream) != CUDA_SUCCESS)
            own_async = 0;
        pthread_testcancel();
        if (own_sync && cu->cuMemFree_v2(own_sync) == CUDA_SUCCESS)
            own_sync = 0;
        if (own_async && cu->cuMemFreeAsync(own_async, own_stream) == CUDA_SUCCESS)
            own_async = 0;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

TEST(cancelled_threads_leave_nothing_behind)
{
    enum {
        CANCELLED = 48,
        AT_ONCE = 4,
    };
    struct read_capture *capture;
    struct timespec pause = {0, 0};

    capture_to("cancelled");
    client_init();
    for (int i = 0; i < CANCELLED; i += AT_ONCE) {
        pthread_t threads[AT_ONCE];

        atomic_store(&churning, 0);
        for (int t = 0; t < AT_ONCE; t++)
            REQUIRE(pthread_create(&threads[t], NULL, churn_until_cancelled, NULL) == 0);
        /* Every other time all are at work; else some may end before they have begun. */
        while (i / AT_ONCE % 2 && atomic_load(&churning) < AT_ONCE)
            sched_yield();
        pause.tv_nsec = 200000L * (i % 7);
        (void)nanosleep(&pause, NULL);
        for (int t = 0; t < AT_ONCE; t++)
            REQUIRE(pthread_cancel(threads[t]) == 0);
        for (int t = 0; t < AT_ONCE; t++)
            REQUIRE(pthread_join(threads[t], NULL) == 0);
    }
    CHECK_EQ(atomic_load(&cleanup_failures), 0);
    CHECK_GT(atomic_load(&cleaned), 0);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(alloc(1 * MB)), CUDA_SUCCESS);
    capture = read_now();
    CHECK_EQ(capture->live_count, 0);
    CHECK_EQ(capture->total.live_bytes, 0);
    read_close(capture);
    (void)unlink(capture_file);
}

static void *abort_here(void *data)
{
    (void)data;
    abort();
}

static void abort_from_a_thread(void)
{
    pthread_t thread;

    client_init();
    (void)alloc(7 * MB);
    (void)alloc(5 * MB);
    REQUIRE(pthread_create(&thread, NULL, abort_here, NULL) == 0);
    (void)pthread_join(thread, NULL);
}

/* As a watchdog of NCCL's does it. */
TEST(r50_an_abort_in_another_thread_leaves_the_record)
{
    struct read_capture *capture;

    capture_to("abort");
    CHECK_EQ(run_child(abort_from_a_thread), 1000 + SIGABRT);
    capture = read_now();
    CHECK_NE(capture->state, FORMAT_STATE_CLEAN);
    CHECK_EQ(capture->total.live_bytes, 12 * MB);
    CHECK_EQ(capture->live_count, 2);
    read_close(capture);
    (void)unlink(capture_file);
}

/* ---- signals ----------------------------------------------------------------------------------- */

/* R48: no handler is installed, so there is none that could do what a handler must not. */
TEST(r48_signals_stay_the_programs)
{
    struct sigaction before[NSIG], after;

    capture_to("signals");
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &before[i]) != 0)
            before[i].sa_handler = SIG_ERR;
    client_init();
    CHECK_EQ(cu->cuMemFree_v2(alloc(1 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &after) == 0)
            CHECK(after.sa_handler == before[i].sa_handler);
    (void)unlink(capture_file);
}

/* R49: addresses and modules are all that is written; names are found by who reads. */
TEST(r49_a_record_carries_offsets_and_modules)
{
    struct read_capture *capture;
    struct read_frame frames[4];
    unsigned n;

    capture_to("offsets");
    client_init();
    (void)alloc(1 * MB);
    capture = read_now();
    REQUIRE_EQ(capture->live_count, 1);
    n = read_stack(capture, capture->live[0].stack, frames, 4);
    REQUIRE(n > 0);
    REQUIRE(frames[0].module);
    CHECK(frames[0].module->is_main);
    CHECK_GT(frames[0].module->build_id_bytes, 0);
    CHECK_GT(frames[0].offset, 0);
    CHECK_LT(frames[0].offset, frames[0].module->end - frames[0].module->base);
    read_close(capture);
    (void)unlink(capture_file);
}

/* ---- fork -------------------------------------------------------------------------------------- */

static CUdeviceptr held[4];
static CUstream work;

static void child_with_pending_work(void)
{
    uint64_t before = all_calls();

    for (int i = 0; i < 2; i++)
        CHECK_EQ(cu->cuMemFree_v2(held[i]), CUDA_SUCCESS);
    for (int i = 2; i < 4; i++)
        CHECK_EQ(cu->cuMemFreeAsync(held[i], work), CUDA_SUCCESS);
    KEDGE_PUSH("in the child");
    KEDGE_POP();
    CHECK_EQ(all_calls(), before);
}

/* R39, with blocks that wait for the device at the moment of the fork. */
TEST(r39_a_child_of_a_process_with_pending_work_frees_in_peace)
{
    struct read_capture *before, *after;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    capture_to("fork");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&work, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 8; i++) {
        CUdeviceptr gone = alloc(1 * MB), async = 0;

        REQUIRE_EQ(cu->cuMemAllocAsync(&async, 1 * MB, work), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(gone, 1, 1 * MB, work), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemsetD8Async(async, 1, 1 * MB, work), CUDA_SUCCESS);
        if (i < 2) {
            held[i] = gone;
            held[i + 2] = async;
            continue;
        }
        REQUIRE_EQ(cu->cuMemFree_v2(gone), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(async, work), CUDA_SUCCESS);
    }
    before = read_now();
    CHECK_EQ(run_child(child_with_pending_work), 0);
    after = read_now();
    CHECK_EQ(after->event_count, before->event_count);
    CHECK_EQ(after->live_count, 4);
    CHECK_EQ(after->state, FORMAT_STATE_OPEN);
    /* and the parent goes on as if nothing had been */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cu->cuMemFree_v2(held[i]), CUDA_SUCCESS);
    for (int i = 2; i < 4; i++)
        CHECK_EQ(cu->cuMemFreeAsync(held[i], work), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(alloc(2 * MB)), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    read_close(before);
    read_close(after);
    (void)unlink(capture_file);
}

static atomic_bool enough;

static void *allocate_on_and_on(void *data)
{
    CUstream stream = NULL;

    (void)data;
    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS
            || cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return NULL;
    while (!atomic_load(&enough)) {
        CUdeviceptr sync, async;

        if (cu->cuMemAlloc_v2(&sync, 4096) == CUDA_SUCCESS)
            (void)cu->cuMemFree_v2(sync);
        if (cu->cuMemAllocAsync(&async, 4096, stream) == CUDA_SUCCESS)
            (void)cu->cuMemFreeAsync(async, stream);
        KEDGE_PUSH("round");
        KEDGE_POP();
    }
    return NULL;
}

/* R39: whatever the other threads held at the moment of the fork, the child does not wait for it. */
TEST(r39_a_fork_among_busy_threads_leaves_a_child_that_can_free)
{
    pthread_t threads[3];

    capture_to("busy");
    client_init();
    held[0] = alloc(1 * MB);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate_on_and_on, NULL) == 0);
    for (int round = 0; round < 60; round++) {
        int status = 0;
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(20); /* a child that hangs is a failure */
            KEDGE_PUSH("child");
            KEDGE_POP();
            _exit(cu->cuMemFree_v2(held[0]) == CUDA_SUCCESS ? 0 : 1);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(cu->cuMemFree_v2(held[0]), CUDA_SUCCESS);
    (void)unlink(capture_file);
}

/* ---- kill -9 ----------------------------------------------------------------------------------- */

enum {
    KILLED_THREADS = 6,
    KILLED_SIZE = 64 << 10,
    KILLED_HELD = 8,
};

/* Shared with the child: what each thread holds, by its own account. */
static struct {
    atomic_long held[KILLED_THREADS];
    atomic_int ready;
} * account;

/* The account is behind by at most one operation at any moment. */
static void *hold_and_let_go(void *data)
{
    atomic_long *mine = data;
    CUdeviceptr ptr[KILLED_HELD] = {0};
    CUstream stream = NULL;

    if (cu->cuCtxSetCurrent(cu->context) != CUDA_SUCCESS
            || cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return NULL;
    for (unsigned i = 0;; i++) {
        CUdeviceptr *at = &ptr[i * 5 % KILLED_HELD];
        bool async = i * 5 % KILLED_HELD % 2;

        if (*at) {
            (void)(async ? cu->cuMemFreeAsync(*at, stream) : cu->cuMemFree_v2(*at));
            *at = 0;
            atomic_fetch_sub(mine, KILLED_SIZE);
        } else if ((async ? cu->cuMemAllocAsync(at, KILLED_SIZE, stream)
                          : cu->cuMemAlloc_v2(at, KILLED_SIZE))
                == CUDA_SUCCESS) {
            atomic_fetch_add(mine, KILLED_SIZE);
        }
        if (i == 200)
            atomic_fetch_add(&account->ready, 1);
    }
}

static void be_busy_for_ever(void)
{
    pthread_t thread;

    client_init();
    for (int i = 0; i < KILLED_THREADS; i++)
        REQUIRE(pthread_create(&thread, NULL, hold_and_let_go, &account->held[i]) == 0);
    (void)pthread_join(thread, NULL);
}

static void kill_when_busy(void)
{
    struct timespec pause = {0, 1000000};
    struct read_capture *capture;
    long truth = 0, recorded;
    int status;
    pid_t child = fork();

    REQUIRE(child >= 0);
    if (child == 0) {
        be_busy_for_ever();
        _exit(1);
    }
    for (int i = 0; i < 20000 && atomic_load(&account->ready) < KILLED_THREADS; i++)
        (void)nanosleep(&pause, NULL);
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(atomic_load(&account->ready), KILLED_THREADS);
    capture = read_now();
    for (int i = 0; i < KILLED_THREADS; i++)
        truth += atomic_load(&account->held[i]);
    recorded = (long)capture->total.live_bytes;
    CHECK_LE(labs(recorded - truth), (long)KILLED_THREADS * KILLED_SIZE);
    CHECK_LE(capture->live_count, (size_t)KILLED_THREADS * KILLED_HELD);
    CHECK_EQ(capture->state, FORMAT_STATE_OPEN);
    read_close(capture);
    (void)unlink(capture_file);
}

/* R47: killed at any moment, the record is right within one operation of each thread. */
TEST(r47_a_kill_among_busy_threads_leaves_a_record_that_is_right)
{
    account =
            mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(account != MAP_FAILED);
    for (int round = 0; round < 4; round++) {
        char tail[32];

        snprintf(tail, sizeof tail, "killed-%d", round);
        memset(account, 0, sizeof *account);
        capture_to(tail);
        kill_when_busy();
    }
}

/* ---- exit -------------------------------------------------------------------------------------- */

static atomic_int *calls_at_exit; /* shared with the child */

static void count_call(const char *call)
{
    (void)call;
    atomic_fetch_add(calls_at_exit, 1);
}

static void exit_with_live_blocks(void)
{
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;

    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    (void)alloc(7 * MB);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 3 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 3 * MB, stream), CUDA_SUCCESS);
    on_each_call(count_call);
}

TEST(r40_an_exit_with_live_blocks_makes_no_driver_call)
{
    struct read_capture *capture;

    capture_to("exit");
    calls_at_exit = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(calls_at_exit != MAP_FAILED);
    CHECK_EQ(run_child(exit_with_live_blocks), 0);
    CHECK_EQ(atomic_load(calls_at_exit), 0);
    capture = read_now();
    CHECK_EQ(capture->state, FORMAT_STATE_CLEAN);
    CHECK_EQ(capture->total.live_bytes, 10 * MB);
    read_close(capture);
    (void)unlink(capture_file);
}

static CUdeviceptr late[2];

/* Static destructors of a program free what they hold, when the driver has gone. */
static void free_late(void)
{
    int failures = (cu->cuMemFree_v2(late[0]) != CUDA_SUCCESS)
            + (cu->cuMemFreeAsync(late[1], NULL) != CUDA_SUCCESS)
            + (cu->cuMemFree_v2(0x1000) != CUDA_ERROR_DEINITIALIZED);

    if (failures)
        _exit(40 + failures);
}

static void free_in_destructors(void)
{
    REQUIRE(atexit(free_late) == 0);
    client_init();
    late[0] = alloc(1 * MB);
    REQUIRE_EQ(cu->cuMemAllocAsync(&late[1], 1 * MB, NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_ERROR_DEINITIALIZED); /* from now on it is gone */
}

TEST(r40_frees_after_the_drivers_end_succeed)
{
    REQUIRE(setenv("SIMCUDA_FAIL",
                    "cuCtxSynchronize:1+:4,cuMemFree:1+:4,cuMemFreeAsync:1+:4,cuEventRecord:1+:4,"
                    "cuCtxRecordEvent:1+:4,cuCtxGetCurrent:20+:4",
                    1)
            == 0);
    CHECK_EQ(run_child(free_in_destructors), 0);
}

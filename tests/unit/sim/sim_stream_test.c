/* SPDX-License-Identifier: MIT */
/* Streams, events, host functions: what runs when, and in which order. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static char order[256];
static unsigned order_count;

static void note(void *data)
{
    order[order_count++] = (char)(uintptr_t)data;
}

static void put(CUstream stream, char what)
{
    CU(cuLaunchHostFunc(stream, note, (void *)(uintptr_t)what));
}

TEST(eager_runs_at_once)
{
    CUstream s;

    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    put(s, 'a');
    CHECK_STR_EQ(order, "a");
    CU(cuStreamQuery(s));
}

TEST(lazy_runs_only_what_is_asked_for)
{
    CUstream a, b;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    put(a, 'a');
    put(b, 'b');
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CU(cuStreamSynchronize(b));
    CHECK_STR_EQ(order, "b");
    CU(cuCtxSynchronize());
    CHECK_STR_EQ(order, "ba");
    CHECK_EQ(sim_figures().voluntary, 0);
}

TEST(asking_again_and_again_makes_time_pass)
{
    CUstream a;
    CUevent e;
    int asked = 1, again = 1, r;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    put(a, 'a');
    CU(cuEventRecord(e, a));
    put(a, 'b');
    while ((r = (int)cuEventQuery(e)) == CUDA_ERROR_NOT_READY) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CU(cuThreadExchangeStreamCaptureMode(&mode)); /* careful programs put these around it */
        CU(cuThreadExchangeStreamCaptureMode(&mode));
        asked++;
    }
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_EQ(asked, 16);
    CHECK_STR_EQ(order, "a");
    for (int i = 0; i < 15; i++)
        CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CHECK_EQ(cuCtxSetFlags(0), CUDA_SUCCESS); /* something else in between: counted anew */
    while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY)
        again++;
    CHECK_EQ(again, 16);
}

TEST(an_event_orders_two_streams)
{
    CUstream a, b;
    CUevent e;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, 0));
    CHECK_EQ(cuEventQuery(e), CUDA_SUCCESS); /* never recorded */
    put(a, '1');
    CU(cuEventRecord(e, a));
    put(a, '2');
    CU(cuStreamWaitEvent(b, e, 0));
    put(b, '3');
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    CU(cuStreamSynchronize(b));
    CHECK_STR_EQ(order, "13");
    CHECK_EQ(cuEventQuery(e), CUDA_SUCCESS);
    CU(cuStreamSynchronize(a));
    CHECK_STR_EQ(order, "132");
}

/* What was submitted before is done by then; the kernel need not be. */
TEST(an_event_of_a_launch_stands_for_the_beginning_of_the_kernel)
{
    static const CUlaunchAttributeID ids[] = {
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    CUdeviceptr dst;
    uint64_t bytes = 4096;
    uint32_t seed = 1;
    void *params[] = {&dst, &bytes, &seed};
    CUlaunchAttribute attribute;
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, &attribute, 1};
    CUevent e;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    config.hStream = sim_stream(CU_STREAM_NON_BLOCKING);
    dst = sim_alloc(bytes);
    CU(cuEventCreate(&e, 0));
    for (int i = 0; i < 2; i++) {
        order_count = 0;
        memset(order, 0, sizeof order);
        memset(&attribute, 0, sizeof attribute);
        attribute.id = ids[i];
        if (i == 0)
            attribute.value.programmaticEvent.event = e;
        else
            attribute.value.launchCompletionEvent.event = e;
        put(config.hStream, '1');
        CU(cuLaunchKernelEx(&config, sim_function("kedge_fill"), params, NULL));
        put(config.hStream, '2');
        CHECK_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
        CU(cuEventSynchronize(e));
        CHECK_STR_EQ(order, "1");
        CHECK_EQ(cuStreamQuery(config.hStream), CUDA_ERROR_NOT_READY);
        CU(cuStreamSynchronize(config.hStream));
        CHECK_STR_EQ(order, "12");
    }
    attribute.value.launchCompletionEvent.event = (CUevent)config.hStream;
    CHECK_EQ(cuLaunchKernelEx(&config, sim_function("kedge_fill"), params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_wait_means_the_record_before_it)
{
    CUstream a, b;
    CUevent e;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, 0));
    put(a, '1');
    CU(cuEventRecord(e, a));
    CU(cuStreamWaitEvent(b, e, 0));
    put(a, '2');
    CU(cuEventRecord(e, a)); /* later record: not what b waits for */
    put(b, '3');
    CU(cuEventDestroy_v2(e));
    CU(cuStreamSynchronize(b));
    CHECK_STR_EQ(order, "13");
}

TEST(the_default_stream_waits_for_blocking_streams_and_they_for_it)
{
    CUstream blocking, free_running;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    blocking = sim_stream(CU_STREAM_DEFAULT);
    free_running = sim_stream(CU_STREAM_NON_BLOCKING);
    put(blocking, '1');
    put(free_running, 'x');
    put(NULL, '2');
    put(blocking, '3');
    put(CU_STREAM_PER_THREAD, '4'); /* is a blocking stream */
    CU(cuStreamSynchronize(blocking));
    CHECK_STR_EQ(order, "123");
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK_STR_EQ(order, "1234");
    CU(cuStreamSynchronize(free_running));
    CHECK_STR_EQ(order, "1234x");
}

TEST(waiting_for_the_default_stream_waits_for_blocking_streams)
{
    CUstream blocking;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    blocking = sim_stream(CU_STREAM_DEFAULT);
    put(blocking, '1');
    CU(cuStreamSynchronize(NULL));
    CHECK_STR_EQ(order, "1");
}

static CUcontext shared_ctx;
static unsigned long long other_id;

static void *own_stream(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    CU(cuStreamGetId_ptsz(NULL, &other_id));
    CU(cuLaunchHostFunc_ptsz(NULL, note, (void *)(uintptr_t)'t'));
    return NULL;
}

TEST(each_thread_has_a_default_stream_of_its_own)
{
    unsigned long long mine, same, legacy;
    pthread_t thread;

    sim_env("SIMCUDA_SCHED", "lazy");
    shared_ctx = sim_start();
    CU(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    CU(cuStreamGetId_ptsz(NULL, &same));
    CU(cuStreamGetId(NULL, &legacy));
    CHECK_EQ(mine, same);
    CHECK_NE(mine, legacy);
    REQUIRE(pthread_create(&thread, NULL, own_stream, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_NE(mine, other_id);
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK_STR_EQ(order, "");
    CU(cuCtxSynchronize());
    CHECK_STR_EQ(order, "t");
}

TEST(a_context_event_covers_every_stream_of_its_context)
{
    CUstream a, b;
    CUevent e;

    sim_env("SIMCUDA_SCHED", "lazy");
    CUcontext ctx = sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_DEFAULT);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    put(a, '1');
    put(b, '2');
    put(CU_STREAM_PER_THREAD, '3');
    CU(cuCtxRecordEvent(ctx, e));
    put(a, '4');
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    CU(cuEventSynchronize(e));
    CHECK_EQ(strlen(order), 3);
    CHECK(!strchr(order, '4'));
    CHECK_EQ(sim_figures().context_records, 1);
    CU(cuCtxWaitEvent(ctx, e));
    CU(cuStreamDestroy_v2(a));
    CU(cuCtxSynchronize());
    CHECK(strchr(order, '4') != NULL); /* work of a destroyed stream goes on */
}

TEST(a_destroyed_stream_and_event_are_invalid_handles)
{
    CUstream s;
    CUevent e;

    sim_start();
    s = sim_stream(0);
    CU(cuEventCreate(&e, 0));
    CU(cuStreamDestroy_v2(s));
    CU(cuEventDestroy_v2(e));
    CHECK_EQ(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static int from_callback[3];

static void call_cuda(void *data)
{
    CUdeviceptr ptr = *(CUdeviceptr *)data;

    from_callback[0] = (int)cuMemFree_v2(ptr);
    from_callback[1] = (int)cuMemAlloc_v2(&ptr, 512);
    from_callback[2] = (int)cuCtxSynchronize();
}

TEST(a_host_function_may_not_call_cuda)
{
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(512);
    CU(cuLaunchHostFunc(NULL, call_cuda, &ptr));
    CU(cuCtxSynchronize());
    for (int i = 0; i < 3; i++)
        CHECK_EQ(from_callback[i], CUDA_ERROR_NOT_PERMITTED);
    CU(cuMemFree_v2(ptr));
}

static sem_t gate;

static void wait_at_gate(void *data)
{
    sem_wait(&gate);
    note(data);
}

/* The thread that submits it may be the one that has to open the gate. */
TEST(a_host_function_that_waits_for_its_submitter_does_not_hang)
{
    CUstream s, other;

    sim_start();
    sem_init(&gate, 0, 0);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    other = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuLaunchHostFunc(s, wait_at_gate, (void *)(uintptr_t)'w'));
    put(s, 'a');
    put(other, 'o');
    CU(cuStreamSynchronize(other));
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    CHECK_STR_EQ(order, "o");
    sem_post(&gate);
    CU(cuStreamSynchronize(s));
    CHECK_STR_EQ(order, "owa");
}

static void open_gate(void *data)
{
    note(data);
    sem_post(&gate);
}

/* A device goes on by itself. */
static void wait_without_a_call(const char *schedule)
{
    CUstream a, b;
    CUevent e;

    sim_env("SIMCUDA_SCHED", schedule);
    sim_env("SIMCUDA_PATIENCE", "10");
    sim_env("SIMCUDA_LAG", "1000"); /* nothing runs by chance */
    sim_start();
    sem_init(&gate, 0, 0);
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) { /* what the thread did once it does again */
        order_count = 0;
        put(a, 'a');
        CU(cuEventRecord(e, a));
        put(a, 'x'); /* behind the record: not needed, but a host function as well */
        CU(cuStreamWaitEvent(b, e, 0));
        CU(cuLaunchHostFunc(b, open_gate, (void *)(uintptr_t)'b'));
        sem_wait(&gate);
        CU(cuCtxSynchronize());
        CHECK(strcmp(order, "axb") == 0 || strcmp(order, "abx") == 0);
    }
}

TEST(lazy_runs_a_host_function_that_the_host_waits_for_without_a_call)
{
    wait_without_a_call("lazy");
}

TEST(random_runs_a_host_function_that_the_host_waits_for_without_a_call)
{
    wait_without_a_call("random");
}

TEST(patience_runs_nothing_that_no_host_function_needs)
{
    CUstream a, b;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_env("SIMCUDA_PATIENCE", "1");
    sim_start();
    sem_init(&gate, 0, 0);
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuMemsetD8Async(sim_alloc(512), 1, 512, a));
    CU(cuLaunchHostFunc(b, open_gate, (void *)(uintptr_t)'b'));
    sem_wait(&gate);
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CU(cuCtxSynchronize());
}

static void callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    from_callback[0] = (int)status;
    note(data);
}

TEST(a_callback_gets_the_status)
{
    sim_start();
    CU(cuStreamAddCallback(NULL, callback, (void *)(uintptr_t)'c', 0));
    CU(cuCtxSynchronize());
    CHECK_STR_EQ(order, "c");
    CHECK_EQ(from_callback[0], CUDA_SUCCESS);
}

/* Three streams of three, run in a child with a seed; the order comes back through a pipe. */
static int order_pipe[2];

static void random_order(void)
{
    CUstream s[3];

    sim_start();
    for (int i = 0; i < 3; i++)
        s[i] = sim_stream(CU_STREAM_NON_BLOCKING);
    for (int k = 0; k < 9; k++)
        put(s[k % 3], (char)('a' + k));
    CU(cuCtxSynchronize());
    CHECK_EQ(write(order_pipe[1], order, 9), 9);
}

static void order_of_seed(int seed, char *ret_order)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", seed);
    sim_env("SIMCUDA_SCHED", "random");
    sim_env("SIMCUDA_SEED", text);
    REQUIRE(pipe(order_pipe) == 0);
    REQUIRE_EQ(sim_in_child(random_order), 0);
    REQUIRE_EQ(read(order_pipe[0], ret_order, 9), 9);
    ret_order[9] = '\0';
    close(order_pipe[0]);
    close(order_pipe[1]);
}

TEST(a_seed_gives_one_order_and_seeds_give_many)
{
    char first[10], again[10], seen[12][10];
    int different = 0;

    for (int seed = 0; seed < 12; seed++) {
        bool is_new = true;
        order_of_seed(seed, first);
        if (seed < 3) { /* each is a process, and slow under a sanitizer */
            order_of_seed(seed, again);
            CHECK_STR_EQ(first, again);
        }
        for (int i = 0; i < 3; i++) { /* each stream in its own order */
            CHECK(strchr(first, 'a' + i) < strchr(first, 'd' + i));
            CHECK(strchr(first, 'd' + i) < strchr(first, 'g' + i));
        }
        for (int i = 0; i < seed; i++)
            is_new &= strcmp(seen[i], first) != 0;
        memcpy(seen[seed], first, sizeof(first));
        different += is_new;
    }
    CHECK_GE(different, 7);
}

static atomic_int under_way;
static atomic_bool overlapped;

static void take_time(void *unused)
{
    (void)unused;
    if (atomic_fetch_add(&under_way, 1) > 0)
        overlapped = true;
    usleep(3000);
    atomic_fetch_sub(&under_way, 1);
}

/* If they overlapped, threads and no longer the seed would decide which is over first. */
TEST(host_functions_that_are_waited_for_run_one_after_the_other)
{
    CUstream s[3];

    sim_env("SIMCUDA_SCHED", "random");
    sim_env("SIMCUDA_LAG", "1"); /* all of them are still to be run when they are waited for */
    sim_start();
    for (int i = 0; i < 3; i++)
        s[i] = sim_stream(CU_STREAM_NON_BLOCKING);
    for (int k = 0; k < 30; k++)
        CU(cuLaunchHostFunc(s[k % 3], take_time, NULL));
    simcuda_witness_step();
    CU(cuCtxSynchronize());
    CHECK_EQ(overlapped, false);
    CHECK_EQ(under_way, 0);
}

TEST(operations_wait_for_later_steps)
{
    CUstream s;

    sim_env("SIMCUDA_LAG", "2");
    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    put(s, '0');
    simcuda_witness_step();
    put(s, '1');
    CHECK_STR_EQ(order, "");
    simcuda_witness_step();
    CHECK_STR_EQ(order, "0");
    CU(cuStreamSynchronize(s)); /* whoever waits gets it nevertheless */
    CHECK_STR_EQ(order, "01");
    CHECK_EQ(sim_figures().steps, 2);
}

TEST(copies_read_pageable_memory_at_once_and_pinned_memory_late)
{
    CUdeviceptr ptr;
    CUstream s;
    int pageable = 1, *pinned, out[2];
    void *at;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuMemHostAlloc(&at, 64, 0));
    pinned = at;
    *pinned = 1;
    ptr = sim_alloc(512);
    CU(cuMemcpyHtoDAsync_v2(ptr, &pageable, sizeof(int), s));
    CU(cuMemcpyHtoDAsync_v2(ptr + 4, pinned, sizeof(int), s));
    pageable = *pinned = 2;
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    CU(cuMemcpyDtoHAsync_v2(out, ptr, sizeof(out), s)); /* to pageable memory: waits */
    CHECK_EQ(out[0], 1);
    CHECK_EQ(out[1], 2);
    CHECK_EQ(cuStreamQuery(s), CUDA_SUCCESS);
}

TEST(a_stream_waits_for_a_value_in_memory)
{
    CUdeviceptr ptr;
    CUstream a, b;

    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    ptr = sim_alloc(512);
    CU(cuStreamWaitValue32_v2(a, ptr, 5, CU_STREAM_WAIT_VALUE_GEQ));
    put(a, 'a');
    for (int i = 0; i < 100; i++)
        CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CU(cuStreamWriteValue32_v2(b, ptr, 7, 0));
    CU(cuStreamSynchronize(a));
    CHECK_STR_EQ(order, "a");
}

/* The device cannot know who writes a value. A real one runs all of its streams. */
TEST(stream_that_waits_for_a_value_lets_all_others_go_on)
{
    CUdeviceptr ptr;
    CUstream a, b;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    ptr = sim_alloc(512);
    CU(cuStreamWaitValue32_v2(b, ptr, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CU(cuStreamWriteValue32_v2(b, ptr, 2, 0));
    CU(cuStreamWriteValue32_v2(a, ptr, 1, 0));
    CU(cuStreamWaitValue32_v2(a, ptr, 2, CU_STREAM_WAIT_VALUE_GEQ));
    put(a, 'a');
    CU(cuStreamSynchronize(a));
    CHECK_STR_EQ(order, "a");
}

TEST(elapsed_time_needs_two_timed_records_that_are_done)
{
    CUevent a, b, untimed;
    float ms = -1;

    sim_start();
    CU(cuEventCreate(&a, 0));
    CU(cuEventCreate(&b, 0));
    CU(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK_EQ(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    CU(cuEventRecord(a, NULL));
    usleep(2000);
    CU(cuEventRecord(b, NULL));
    CU(cuEventRecord(untimed, NULL));
    CU(cuEventSynchronize(b));
    CU(cuEventElapsedTime(&ms, a, b));
    CHECK_GE(ms, 1.0F);
    CHECK_EQ(cuEventElapsedTime_v2(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST(priorities_are_clamped_and_ids_are_unique)
{
    unsigned long long first, second;
    int priority, least, greatest;
    CUstream s;

    sim_start();
    CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    CU(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 10));
    CU(cuStreamGetPriority(s, &priority));
    CHECK_EQ(priority, greatest);
    CU(cuStreamGetId(s, &first));
    CU(cuStreamDestroy_v2(s));
    s = sim_stream(0);
    CU(cuStreamGetId(s, &second));
    CHECK_NE(first, second);
}

static void *storm(void *unused)
{
    CUdeviceptr ptr;
    CUstream s;
    CUevent e;

    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 200; i++) {
        unsigned value = 0;
        ptr = sim_alloc(4096);
        CU(cuMemsetD32Async(ptr, (unsigned)i, 1024, s));
        CU(cuEventRecord(e, s));
        CU(cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
        CU(cuMemcpyDtoHAsync_v2(&value, ptr + 4092, 4, CU_STREAM_PER_THREAD));
        CHECK_EQ(value, i);
        CU(cuMemFree_v2(ptr));
    }
    return NULL;
}

TEST(many_threads_at_once)
{
    pthread_t threads[4];

    sim_env("SIMCUDA_SCHED", "random");
    shared_ctx = sim_start();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, storm, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0);
    CHECK_EQ(sim_figures().submitted, sim_figures().executed);
}

TEST(a_batch_writes_and_waits_for_values)
{
    CUstreamBatchMemOpParams items[2] = {{.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64},
            {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32}};
    CUstream s;

    sim_start();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    items[0].writeValue.address = sim_alloc(512);
    items[0].writeValue.value64 = 0x500000003;
    items[1].waitValue.address = items[0].writeValue.address + 4;
    items[1].waitValue.value = 5;
    items[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CU(cuStreamBatchMemOp_v2(s, 2, items, 0));
    CU(cuStreamSynchronize(s));
    items[1].waitValue.value = 6;
    CU(cuStreamBatchMemOp_v2(s, 1, &items[1], 0));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    items[0].operation = (CUstreamBatchMemOpType)77;
    CHECK_EQ(cuStreamBatchMemOp_v2(s, 1, items, 0), CUDA_ERROR_INVALID_VALUE);
}

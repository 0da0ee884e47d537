/* SPDX-License-Identifier: MIT */
/* Virtual time: engines with a speed, a host whose calls cost something, the order of ends. */
#include "tests/unit/sim/sim_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static CUevent new_event(void)
{
    CUevent event;

    CU(cuEventCreate(&event, 0));
    return event;
}

static float between(CUevent start, CUevent end)
{
    float ms = -1;

    CU(cuEventElapsedTime(&ms, start, end));
    return ms;
}

/* 1 GiB a second either way, 4 GiB a second on the device: 1 MiB takes 0.977 and 0.244 ms. */
static void speeds(const char *schedule)
{
    sim_env("SIMCUDA_SCHED", schedule);
    sim_env("SIMCUDA_BANDWIDTH", "1G");
    sim_env("SIMCUDA_COMPUTE", "4G");
    sim_start();
}

static void *pinned(void)
{
    void *host;

    CU(cuMemAllocHost_v2(&host, 4 * MIB));
    return host;
}

static int is_about(double ms, double expected)
{
    return ms > expected * 0.999 && ms < expected * 1.001;
}

static void check_engines(void)
{
    CUevent start, in, out, set, end;
    CUdeviceptr ptr;
    CUstream a, b, c;
    void *host;

    ptr = sim_alloc(16 * MIB);
    host = pinned();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    c = sim_stream(CU_STREAM_NON_BLOCKING);
    start = new_event();
    in = new_event();
    out = new_event();
    set = new_event();
    end = new_event();
    CU(cuEventRecord(start, a));
    CU(cuMemcpyHtoDAsync_v2(ptr, host, 4 * MIB, a));
    CU(cuEventRecord(in, a));
    CU(cuMemcpyDtoHAsync_v2((char *)host, ptr + 8 * MIB, 2 * MIB, b)); /* another engine */
    CU(cuEventRecord(out, b));
    CU(cuMemsetD8Async(ptr + 12 * MIB, 1, 4 * MIB, c));
    CU(cuEventRecord(set, c));
    CU(cuStreamWaitEvent(c, out, 0));
    CU(cuMemsetD8Async(ptr + 12 * MIB, 1, 4 * MIB, c));
    CU(cuEventRecord(end, c));
    CU(cuCtxSynchronize());
    CHECK(is_about(between(start, in), 4000.0 / 1024));
    CHECK(is_about(between(start, out), 2000.0 / 1024));
    CHECK(is_about(between(start, set), 1000.0 / 1024));
    CHECK(is_about(between(start, end), 3000.0 / 1024)); /* waits for the copy out, then sets */
    CHECK_GE(sim_figures().host_ns, 3906250);            /* the host has waited for the longest */
}

static void engines_eager(void)
{
    speeds("eager");
    check_engines();
}

static void engines_lazy(void)
{
    speeds("lazy");
    check_engines();
}

static void engines_random(void)
{
    speeds("random");
    check_engines();
}

TEST(copies_and_kernels_take_the_time_of_their_bytes_in_every_schedule)
{
    CHECK_EQ(sim_in_child(engines_eager), 0);
    CHECK_EQ(sim_in_child(engines_lazy), 0);
    CHECK_EQ(sim_in_child(engines_random), 0);
}

TEST(one_engine_takes_one_copy_at_a_time)
{
    CUevent start, first, second;
    CUdeviceptr ptr;
    CUstream a, b;
    void *host;

    speeds("lazy");
    ptr = sim_alloc(16 * MIB);
    host = pinned();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    start = new_event();
    first = new_event();
    second = new_event();
    CU(cuEventRecord(start, a));
    CU(cuMemcpyHtoDAsync_v2(ptr, host, MIB, a));
    CU(cuEventRecord(first, a));
    CU(cuMemcpyHtoDAsync_v2(ptr + MIB, host, MIB, b));
    CU(cuEventRecord(second, b));
    CU(cuCtxSynchronize());
    CHECK(is_about(between(start, first), 1000.0 / 1024));
    CHECK(is_about(between(start, second), 2000.0 / 1024));
}

/* A short kernel on one stream is done before a long copy that was submitted earlier on another. */
TEST(under_the_schedule_of_times_what_ends_first_is_done_first)
{
    CUdeviceptr ptr;
    CUstream a, b;
    void *host;
    CUevent done;

    speeds("timed");
    ptr = sim_alloc(16 * MIB);
    host = pinned();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    done = new_event();
    CU(cuMemcpyHtoDAsync_v2(ptr, host, 4 * MIB, a)); /* 3.9 ms */
    CU(cuMemsetD8Async(ptr + 8 * MIB, 1, MIB, b));   /* 0.24 ms */
    CU(cuEventRecord(done, b));
    CHECK_EQ(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    CU(cuEventSynchronize(done));
    CHECK_EQ(cuStreamQuery(b), CUDA_SUCCESS);
    CHECK_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CU(cuStreamSynchronize(a));
    CHECK_EQ(cuStreamQuery(a), CUDA_SUCCESS);
}

TEST(r89_what_calls_cost_passes_on_the_hosts_clock)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    char path[] = "/tmp/simcuda_costs_XXXXXX";
    static const char table[] = "op,avg_us\nmem_create,5000\n";
    CUevent start, end;
    CUdeviceptr ptr;
    CUstream s;
    uint64_t before;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, table, sizeof(table) - 1), sizeof(table) - 1);
    close(fd);
    sim_env("SIMCUDA_COSTS", path);
    speeds("timed");
    unlink(path);
    ptr = sim_alloc(4 * MIB);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    start = new_event();
    end = new_event();
    CU(cuEventRecord(start, s));
    CU(cuMemsetD8Async(ptr, 1, 4 * MIB, s)); /* 0.98 ms */
    before = sim_figures().host_ns;
    CU(cuMemCreate(&handle, 2 * MIB, &prop, 0)); /* 5 ms, in which the set is done */
    CHECK_EQ(sim_figures().host_ns - before, 5000000);
    CHECK_EQ(cuStreamQuery(s), CUDA_SUCCESS);
    CU(cuEventRecord(end, s));
    CU(cuEventSynchronize(end));
    CHECK_GT(between(start, end), 5.0F); /* the host was late */
}

/* Without any of it events take the real clock, and the order is what it was. */
TEST(without_speeds_there_is_no_virtual_time)
{
    CUevent start, end;
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(MIB);
    start = new_event();
    end = new_event();
    CU(cuEventRecord(start, NULL));
    CU(cuMemsetD8_v2(ptr, 1, MIB));
    CU(cuEventRecord(end, NULL));
    CU(cuEventSynchronize(end));
    CHECK(between(start, end) >= 0);
    CHECK_EQ(sim_figures().host_ns, 0);
}

/* ---- a host that asks ---- */

/* A copy each way beside a set on the device, by turns, as a prefetch is: each takes what its bytes take, and none waits for another. */
TEST(copies_each_way_run_beside_a_kernel)
{
    CUevent start, in, out, end;
    CUstream compute, a, b;
    CUdeviceptr ptr;
    void *host;

    speeds("timed");
    ptr = sim_alloc(16 * MIB);
    host = pinned();
    compute = sim_stream(CU_STREAM_NON_BLOCKING);
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    start = new_event();
    in = new_event();
    out = new_event();
    end = new_event();
    CU(cuEventRecord(start, compute));
    for (unsigned i = 0; i < 4; i++) {
        CU(cuMemsetD8Async(ptr, 1, 4 * MIB, compute)); /* 0.98 ms */
        CU(cuMemcpyDtoHAsync_v2(host, ptr + 8 * MIB, MIB, a));
        CU(cuMemcpyHtoDAsync_v2(ptr + 12 * MIB, host, MIB, b));
    }
    CU(cuEventRecord(out, a));
    CU(cuEventRecord(in, b));
    CU(cuStreamWaitEvent(compute, in, 0));
    CU(cuStreamWaitEvent(compute, out, 0));
    CU(cuEventRecord(end, compute));
    CU(cuEventSynchronize(end));
    CHECK(between(start, end) >= 4000.0 / 1024);
    CHECK(between(start, end) < 4000.0 / 1024 + 0.1); /* and what the host's calls cost */
    CHECK_EQ(sim_figures().copied_in_bytes, 4 * MIB);
    CHECK_EQ(sim_figures().copied_out_bytes, 4 * MIB);
    CHECK_EQ(sim_figures().pinned_bytes, 4 * MIB);
    CU(cuMemFreeHost(host));
    CHECK_EQ(sim_figures().pinned_bytes, 0);
    CHECK_EQ(sim_figures().pinned_peak, 4 * MIB);
}

/* Polls and sleeps, with the calls that a library makes around a question. How often it was told "not ready". */
static unsigned poll_event(CUevent event)
{
    struct timespec pause = {.tv_nsec = 1000};
    unsigned count = 0;
    CUcontext ctx;

    CU(cuCtxGetCurrent(&ctx));
    for (; count < 100000; count++) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUresult r;

        CU(cuCtxPushCurrent_v2(ctx));
        CU(cuThreadExchangeStreamCaptureMode(&mode));
        r = cuEventQuery(event);
        CU(cuThreadExchangeStreamCaptureMode(&mode));
        CU(cuCtxPopCurrent_v2(&ctx));
        if (r == CUDA_SUCCESS)
            break;
        REQUIRE_EQ(r, CUDA_ERROR_NOT_READY);
        (void)nanosleep(&pause, NULL);
    }
    return count;
}

/* The clock stands at the end of what was asked about: neither short of it for ever, nor beyond. */
TEST(a_host_that_polls_sees_time_go_on_to_the_event_and_no_further)
{
    CUevent soon, late;
    CUdeviceptr ptr;
    CUstream a, b;
    void *host;
    uint64_t begin;

    speeds("timed");
    ptr = sim_alloc(16 * MIB);
    host = pinned();
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    soon = new_event();
    late = new_event();
    begin = sim_figures().host_ns;
    CU(cuMemcpyHtoDAsync_v2(ptr, host, 4 * MIB, a)); /* 3.9 ms */
    CU(cuEventRecord(late, a));
    CU(cuMemcpyDtoHAsync_v2(host, ptr + 8 * MIB, MIB, b)); /* 0.98 ms */
    CU(cuEventRecord(soon, b));
    CHECK_LE(poll_event(soon), 100);
    CHECK_GT(sim_figures().host_ns - begin, 970000);
    CHECK_LT(sim_figures().host_ns - begin, 1200000);
    CHECK_EQ(cuEventQuery(late), CUDA_ERROR_NOT_READY);
    CHECK_LE(poll_event(late), 100);
    CHECK_GT(sim_figures().host_ns - begin, 3900000);
    CHECK_LT(sim_figures().host_ns - begin, 4200000);
}

/* So many copies are on their way, and the host looks which ones are done, again and again between other calls. */
TEST(a_host_that_looks_at_many_events_waits_for_none)
{
    enum {
        COUNT = 40,
    };
    CUevent event[COUNT];
    CUdeviceptr ptr;
    CUstream s;
    void *host;
    uint64_t begin;

    speeds("timed");
    ptr = sim_alloc(16 * MIB);
    host = pinned();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < COUNT; i++) {
        event[i] = new_event();
        CU(cuMemcpyHtoDAsync_v2(ptr, host, 4 * MIB, s));
        CU(cuEventRecord(event[i], s));
    }
    begin = sim_figures().host_ns;
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQ(cuEventQuery(event[i]), CUDA_ERROR_NOT_READY);
    CU(cuMemsetD8Async(ptr, 1, 16, s));
    for (unsigned i = COUNT; i-- > 0;)
        CHECK_EQ(cuEventQuery(event[i]), CUDA_ERROR_NOT_READY);
    CHECK_LT(sim_figures().host_ns - begin, 1000000);
    /* One that waits for all of them in turn gets there. */
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_LE(poll_event(event[i]), 100);
    CHECK_GT(sim_figures().host_ns - begin, 150000000);
}

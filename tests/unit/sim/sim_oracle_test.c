/* SPDX-License-Identifier: MIT */
/* The oracle: fires on premature reuse, and only then. Each case is a child of its own. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>

/* What a caching allocator above the driver would do: one segment, handed out by hand. */
static CUdeviceptr segment;
static CUstream a, b;
static CUevent event;

static void set_up(void)
{
    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    segment = sim_alloc(8 * MIB);
    a = sim_stream(CU_STREAM_NON_BLOCKING);
    b = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void use(CUdeviceptr ptr, CUstream stream)
{
    CU(sim_fill(ptr, MIB, 1, stream));
}

/* ---- violations ---- */

static void sync_reuse_with_work_pending(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    use(segment, a);
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
}

static void cross_stream_reuse_without_a_wait(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, a);
    use(segment, a);
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b);
}

static void one_of_two_streams_forgotten(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, a);
    use(segment, a);
    use(segment, b);
    CU(cuEventRecord(event, b));
    simcuda_witness_death(segment, a);
    CU(cuStreamWaitEvent(CU_STREAM_LEGACY, event, 0));
    simcuda_witness_birth(segment, MIB, CU_STREAM_LEGACY);
}

static void event_recorded_too_early(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, a);
    CU(cuEventRecord(event, a));
    use(segment, a);
    simcuda_witness_death(segment, a);
    CU(cuStreamWaitEvent(b, event, 0));
    simcuda_witness_birth(segment, MIB, b);
}

static void overlap_of_one_page(void)
{
    set_up();
    simcuda_witness_birth(segment, 2 * MIB, a);
    CU(cuMemsetD8Async(segment + 2 * MIB - 4, 1, 4, a));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment + 2 * MIB - 512, 512, b);
}

static void a_tenant_before_the_last(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, a);
    use(segment, a);
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, a); /* in order */
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b); /* the first tenant's work is still there */
}

static CUgraphExec captured;

static void capture_use(void)
{
    CUgraph graph;

    CU(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    use(segment, a);
    CU(cuStreamEndCapture(a, &graph));
    CU(cuGraphInstantiateWithFlags(&captured, graph, 0));
}

static void graph_launch_pending(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    capture_use();
    CU(cuGraphLaunch(captured, a));
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
}

static void graph_replayed_on_anothers_memory(void)
{
    set_up();
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    capture_use();
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(segment, MIB, SIMCUDA_NO_STREAM);
    CU(cuGraphLaunch(captured, a));
}

static CUcontext shared_ctx;

static void *use_in_thread(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    use(segment, CU_STREAM_PER_THREAD);
    return NULL;
}

static void per_thread_streams_are_different(void)
{
    pthread_t thread;

    set_up();
    CU(cuCtxGetCurrent(&shared_ctx));
    simcuda_witness_birth(segment, MIB, CU_STREAM_PER_THREAD);
    REQUIRE(pthread_create(&thread, NULL, use_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    simcuda_witness_death(segment, CU_STREAM_PER_THREAD);
    simcuda_witness_birth(segment, MIB, CU_STREAM_PER_THREAD);
}

static void a_copy_reads_it(void)
{
    void *pinned;

    set_up();
    CU(cuMemHostAlloc(&pinned, MIB, 0));
    simcuda_witness_birth(segment, MIB, a);
    CU(cuMemcpyDtoHAsync_v2(pinned, segment + 4096, 64, a));
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, b);
}

/* One handle at two addresses. */
static CUdeviceptr two_views(void)
{
    static const CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    static const CUmemAccessDesc both = {
            {CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;

    set_up();
    CU(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
    CU(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    for (CUdeviceptr i = 0; i < 2; i++) {
        CU(cuMemMap(va + i * 2 * MIB, 2 * MIB, 0, handle, 0));
        CU(cuMemSetAccess(va + i * 2 * MIB, 2 * MIB, &both, 1));
    }
    simcuda_witness_birth(va, MIB, a);
    use(va, a);
    return va + 2 * MIB;
}

static void storage_of_a_living_tenant(void)
{
    CUdeviceptr alias = two_views();

    simcuda_witness_birth(alias + MIB / 2, MIB, a);
}

static void storage_at_another_address_without_a_wait(void)
{
    CUdeviceptr alias = two_views();

    simcuda_witness_death(alias - 2 * MIB, a);
    simcuda_witness_birth(alias, MIB, b);
}

static void right_aliases(void)
{
    CUdeviceptr alias = two_views();

    simcuda_witness_birth(alias + MIB, MIB, b); /* the other half of the storage */
    simcuda_witness_death(alias - 2 * MIB, a);
    simcuda_witness_birth(alias, MIB, a); /* in order */
    use(alias, a);
    simcuda_witness_death(alias, a);
    CU(cuEventRecord(event, a));
    CU(cuStreamWaitEvent(b, event, 0));
    simcuda_witness_birth(alias - 2 * MIB, MIB, b); /* and back, behind an event */
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().aliases, 1);
    CHECK_EQ(sim_figures().alias_reuses, 2);
}

TEST(r95_fires_on_storage_that_another_address_stands_for)
{
    CHECK_EQ(sim_in_child(storage_of_a_living_tenant), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(storage_at_another_address_without_a_wait), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(right_aliases), 0);
}

TEST(fires_on_sync_reuse_with_work_pending)
{
    CHECK_EQ(sim_in_child(sync_reuse_with_work_pending), SIMCUDA_ORACLE_STATUS);
    sim_env("SIMCUDA_ORACLE", "off");
    CHECK_EQ(sim_in_child(sync_reuse_with_work_pending), 0);
}

TEST(fires_on_cross_stream_reuse_without_a_wait)
{
    CHECK_EQ(sim_in_child(cross_stream_reuse_without_a_wait), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_when_one_of_two_streams_is_forgotten)
{
    CHECK_EQ(sim_in_child(one_of_two_streams_forgotten), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_on_an_event_that_was_recorded_too_early)
{
    CHECK_EQ(sim_in_child(event_recorded_too_early), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_on_an_overlap_of_a_few_bytes)
{
    CHECK_EQ(sim_in_child(overlap_of_one_page), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_on_work_of_a_tenant_before_the_last)
{
    CHECK_EQ(sim_in_child(a_tenant_before_the_last), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_on_a_graph_in_flight_and_on_a_stale_replay)
{
    CHECK_EQ(sim_in_child(graph_launch_pending), SIMCUDA_ORACLE_STATUS);
    CHECK_EQ(sim_in_child(graph_replayed_on_anothers_memory), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_between_two_threads_default_streams)
{
    CHECK_EQ(sim_in_child(per_thread_streams_are_different), SIMCUDA_ORACLE_STATUS);
}

TEST(fires_on_a_copy_in_flight)
{
    CHECK_EQ(sim_in_child(a_copy_reads_it), SIMCUDA_ORACLE_STATUS);
}

/* ---- what is right ---- */

static void right_reuses(void)
{
    set_up();
    /* the same stream, nothing waited for */
    simcuda_witness_birth(segment, MIB, a);
    use(segment, a);
    simcuda_witness_death(segment, a);
    simcuda_witness_birth(segment, MIB, a);
    use(segment, a);
    simcuda_witness_death(segment, a);
    /* another stream behind an event */
    CU(cuEventRecord(event, a));
    CU(cuStreamWaitEvent(b, event, 0));
    simcuda_witness_birth(segment, MIB, b);
    use(segment, b);
    simcuda_witness_death(segment, b);
    /* synchronous, after the work is done */
    CU(cuCtxSynchronize());
    simcuda_witness_birth(segment, 4 * MIB, SIMCUDA_NO_STREAM);
    use(segment + MIB, a);
    simcuda_witness_death(segment, SIMCUDA_NO_STREAM);
    /* the half that nobody uses */
    simcuda_witness_birth(segment + 2 * MIB, MIB, SIMCUDA_NO_STREAM);
    /* a context event that was waited for */
    CUcontext ctx;
    CU(cuCtxGetCurrent(&ctx));
    CU(cuCtxRecordEvent(ctx, event));
    CU(cuEventSynchronize(event));
    simcuda_witness_birth(segment, 2 * MIB, SIMCUDA_NO_STREAM);
    /* the default stream and a blocking stream are in order without events */
    CUstream blocking = sim_stream(CU_STREAM_DEFAULT);
    use(segment, blocking);
    simcuda_witness_death(segment, blocking);
    simcuda_witness_birth(segment, MIB, NULL);
    use(segment, NULL);
    simcuda_witness_death(segment, NULL);
    simcuda_witness_birth(segment, MIB, blocking);
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().reuses, 7);
    CHECK_EQ(sim_figures().cross_stream_reuses, 4);
}

TEST(is_silent_on_every_right_reuse)
{
    CHECK_EQ(sim_in_child(right_reuses), 0);
}

static void driver_reuse(void)
{
    CUdeviceptr ptr;

    set_up();
    for (int i = 0; i < 200; i++) {
        CUstream s = i % 3 ? a : b;
        CU(cuMemAllocAsync(&ptr, MIB, s));
        simcuda_witness_birth(ptr, MIB, s);
        use(ptr, s);
        simcuda_witness_death(ptr, s);
        CU(cuMemFreeAsync(ptr, s));
        CU(cuMemAlloc_v2(&ptr, 3 * MIB));
        simcuda_witness_birth(ptr, 3 * MIB, SIMCUDA_NO_STREAM);
        use(ptr, a);
        use(ptr, NULL);
        simcuda_witness_death(ptr, SIMCUDA_NO_STREAM);
        CU(cuMemFree_v2(ptr));
    }
    CHECK_GT(sim_figures().reuses, 100);
}

TEST(is_silent_on_the_drivers_own_reuse)
{
    CHECK_EQ(sim_in_child(driver_reuse), 0);
}

static void odd_witnesses(void)
{
    set_up();
    simcuda_witness_death(segment, a); /* never born */
    simcuda_witness_birth(segment, MIB, a);
    simcuda_witness_death(segment + 512, a); /* not a start */
    simcuda_witness_death(segment, a);
    simcuda_witness_death(segment, a); /* twice */
    simcuda_witness_death(0, a);
    simcuda_witness_birth(0, 100, a);
    CHECK_EQ(sim_figures().births, 1);
    CHECK_EQ(sim_figures().deaths, 1);
}

TEST(is_not_confused_by_odd_witnesses)
{
    CHECK_EQ(sim_in_child(odd_witnesses), 0);
}

/* ---- what a suite exercised ---- */

static void exercise(void)
{
    CUdeviceptr ptr;
    CUcontext second;
    CUstream s, t;

    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&second, 1));
    CU(cuCtxSetCurrent(second));
    CU(cuMemAlloc_v2(&ptr, 2 * MIB));
    CU(cuMemFree_v2(ptr));
    sim_start();
    ptr = sim_alloc(4 * MIB);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(0);
    CU(cuMemsetD8Async(ptr, 1, 8, s));
    CU(cuMemsetD8Async(ptr, 1, 8, t));
    CU(cuMemsetD8Async(ptr, 1, 8, CU_STREAM_PER_THREAD));
    CU(cuMemsetD8_v2(ptr, 1, 8));
    CU(cuCtxSynchronize());
    /* two neighbours die on two streams, and one is born on the bytes of both */
    simcuda_witness_birth(ptr, 2 * MIB, s);
    simcuda_witness_birth(ptr + 2 * MIB, 2 * MIB, t);
    simcuda_witness_death(ptr, s);
    simcuda_witness_death(ptr + 2 * MIB, t);
    simcuda_witness_birth(ptr, 4 * MIB, s);
    CU(cuCtxSetCurrent(second));
    CU(cuMemcpyDtoD_v2(ptr, ptr + MIB, 100)); /* a copy of device 1 of memory of device 0 */
    CU(cuCtxSynchronize());
    exit(0);
}

static uint64_t value_of(const char *text, const char *name)
{
    char line[64];
    const char *at;

    (void)snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(text, line);
    REQUIRE(at != NULL);
    return strtoull(at + strlen(line), NULL, 10);
}

TEST(r92_the_device_says_what_a_run_exercised)
{
    static char text[8192];
    char path[] = "/tmp/simcuda_stats_XXXXXX";
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    sim_env("SIMCUDA_DEVICES", "2");
    sim_env("SIMCUDA_STATS", path);
    CHECK_EQ(sim_in_child(exercise), 0);
    REQUIRE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    unlink(path);
    CHECK_EQ(value_of(text, "on_non_blocking"), 1);
    CHECK_EQ(value_of(text, "on_blocking"), 1);
    CHECK_EQ(value_of(text, "on_per_thread"), 1);
    CHECK_EQ(value_of(text, "on_legacy"), 2);
    CHECK_EQ(value_of(text, "reuses"), 1);
    CHECK_EQ(value_of(text, "merged_reuses"), 1);
    CHECK_EQ(value_of(text, "peer_accesses"), 2); /* read and written */
    CHECK_EQ(value_of(text, "devices_used"), 2);
    CHECK_EQ(value_of(text, "device_1_peak"), 2 * MIB);
    CHECK_EQ(value_of(text, "graph_launches"), 0);
    CHECK_EQ(value_of(text, "context_records"), 0);
}

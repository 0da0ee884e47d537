/* SPDX-License-Identifier: MIT */
/* Threads against each other: releases against submissions (R66), captures against fences (R67), starts against starts. */
#include "tests/preload/client.h"

#include "preload/base/kedge.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static void write_hints(void)
{
    static const char text[] = "kedge-hints: 1\n"
                               "hints:\n"
                               "  - {id: race, do: release, pick: {size: 8388608}, when: {anchor: "
                               "\"P\", edge: exit}}\n";
    char path[128];
    int fd;

    snprintf(path, sizeof path, "/tmp/kedge-test-race-%d.yaml", (int)getpid());
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    REQUIRE(close(fd) == 0);
    REQUIRE(setenv("KEDGE_HINTS", path, 1) == 0);
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
}

/* ---- R66 ------------------------------------------------------------------------------------ */

static atomic_int parked; /* 0 armed, 1 a thread stands between guard and driver, 2 let it go */
static __thread bool may_park;

static void park(const char *call)
{
    if (!may_park || strcmp(call, "cuMemcpyDtoH_v2") != 0 || atomic_load(&parked) != 0)
        return;
    atomic_store(&parked, 1);
    while (atomic_load(&parked) != 2)
        (void)sched_yield();
}

static CUdeviceptr tensor;
static CUresult copy_result;

static void *copier(void *data)
{
    unsigned char host[64];

    (void)data;
    may_park = true;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    copy_result = cu->cuMemcpyDtoH_v2(host, tensor, sizeof host);
    CHECK_EQ(host[0], 0x33);
    return NULL;
}

/* A copy that has passed the guard is on its way into the driver; the release must wait for it. */
TEST(r66_a_release_waits_for_submissions_on_their_way)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    unsigned char host[64];
    uint64_t access_before;
    pthread_t thread;

    write_hints();
    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    KEDGE_PUSH("P");
    tensor = alloc(8 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(tensor, 0x33, 8 * MB), CUDA_SUCCESS);
    set_hook(park);
    REQUIRE(pthread_create(&thread, NULL, copier, NULL) == 0);
    while (atomic_load(&parked) != 1)
        (void)sched_yield();
    access_before = client_calls("cuMemSetAccess");
    KEDGE_POP(); /* the tensor is dead from here on */
    for (int i = 0; i < 20; i++) {
        REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        KEDGE_MARK("poll");
        (void)alloc(512);
    }
    CHECK_EQ(client_calls("cuMemSetAccess"), access_before); /* its storage is still there */
    CHECK_EQ(cu->cuMemcpyDtoH_v2(host, tensor, sizeof host),
            CUDA_ERROR_INVALID_VALUE); /* a new one is stopped */
    atomic_store(&parked, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(copy_result, CUDA_SUCCESS);
    set_hook(NULL);
    for (int i = 0; i < 20; i++) {
        REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        KEDGE_MARK("poll");
    }
    CHECK_GT(client_calls("cuMemSetAccess"), access_before); /* and now its access is gone */
}

/* ---- R67 ------------------------------------------------------------------------------------ */

static atomic_bool stop;

static void *frees_for_ever(void *data)
{
    atomic_int *rounds = data;

    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    while (!atomic_load(&stop)) {
        CUdeviceptr ptr[4];
        int n = 0;

        while (n < 4 && cu->cuMemAlloc_v2(&ptr[n], 40000) == CUDA_SUCCESS)
            n++;
        for (int i = 0; i < n; i++)
            CHECK_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
        atomic_fetch_add(rounds, 1);
    }
    return NULL;
}

/* Calls of kedge's own that would spoil a capture of that moment. */
static uint64_t fence_calls(void)
{
    return client_calls("cuCtxRecordEvent") + client_calls("cuCtxSynchronize");
}

/* Relaxed captures, since the other thread's own allocations are forwarded and must be allowed. */
TEST(r67_ten_thousand_captures_are_not_spoilt)
{
    __typeof__(&simcuda_stats) stats;
    struct simcuda_stats figures = {.size = sizeof figures};
    CUstream stream;
    pthread_t thread;
    atomic_int rounds = 0;
    int captures = 0;

    client_init();
    stats = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, frees_for_ever, &rounds) == 0);
    /* R92: until the two have met often enough */
    for (; captures < 10000 || atomic_load(&rounds) < 1000 || fence_calls() < 20; captures++) {
        CUgraph graph = NULL;

        REQUIRE_EQ(
                cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        if (captures % 8 == 0)
            (void)sched_yield();
    }
    atomic_store(&stop, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(stats && stats(&figures) == 0);
    CHECK_EQ(figures.captures_invalidated, 0);
    CHECK_EQ(figures.captures, captures);
}

/* ---- contexts that end ------------------------------------------------------------------------ */

static void park_at_end(const char *call)
{
    if (!may_park || strcmp(call, "cuCtxDestroy_v2") != 0 || atomic_load(&parked) != 0)
        return;
    atomic_store(&parked, 1);
    while (atomic_load(&parked) != 2)
        (void)sched_yield();
}

static void *ends_context(void *context)
{
    may_park = true;
    CHECK_EQ(cu->cuCtxDestroy_v2((CUcontext)context), CUDA_SUCCESS);
    return NULL;
}

/* Work of a context is not over because another thread has begun to end the context. */
TEST(r01_r26_a_context_that_is_being_ended_still_has_work)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    CUcontext second = NULL;
    CUstream stream;
    CUdeviceptr ptr;
    pthread_t thread;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    ptr = alloc(4 * MB);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 4 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    set_hook(park_at_end);
    REQUIRE(pthread_create(&thread, NULL, ends_context, second) == 0);
    while (atomic_load(&parked) != 1)
        (void)sched_yield();
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    for (int i = 0; i < 40; i++)
        CHECK(alloc(4 * MB) != ptr);
    atomic_store(&parked, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    set_hook(NULL);
}

/* How many of ten requests in the first context get what was freed there just before, while a thread stands in the end of the other one. */
static int reuses_beside_an_end(CUcontext context, CUdeviceptr *ret_old)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    CUdeviceptr before = 0;
    CUdeviceptr now;
    pthread_t thread;
    int same = 0;

    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    set_hook(park_at_end);
    atomic_store(&parked, 0);
    REQUIRE(pthread_create(&thread, NULL, ends_context, context) == 0);
    while (atomic_load(&parked) != 1)
        (void)sched_yield();
    if (*ret_old)
        CHECK_EQ(cu->cuMemFree_v2(*ret_old), CUDA_SUCCESS);
    for (int i = 0; i < 10; i++) {
        now = alloc(64 * MB);
        same += now == before;
        before = now;
        CHECK_EQ(cu->cuMemFree_v2(now), CUDA_SUCCESS);
        if (now == *ret_old)
            *ret_old = 0;
    }
    atomic_store(&parked, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    set_hook(NULL);
    return same;
}

enum {
    MANY = 300
};

/* However many contexts there are: work of the last one is awaited like that of the first. */
TEST(r01_fences_cover_any_number_of_contexts)
{
    CUcontext contexts[MANY];
    unsigned char byte = 0;
    CUdeviceptr now = 0;
    CUstream stream;
    CUdeviceptr ptr;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    ptr = alloc(4 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(ptr, 0, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < MANY; i++)
        REQUIRE_EQ(cu->cuCtxCreate_v2(&contexts[i], 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 4 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    for (int i = 0; i < 8 && now != ptr; i++)
        now = alloc(4 * MB);
    if (now == ptr) { /* so the work is done, because it was waited for */
        REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&byte, ptr, 1), CUDA_SUCCESS);
        CHECK_EQ(byte, 1);
    }
}

/* A context without work is nobody's concern. */
TEST(r01_r26_the_end_of_an_idle_context_holds_nothing_up)
{
    CUdeviceptr old = 0;
    CUcontext second[3];

    client_init();
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(cu->cuCtxCreate_v2(&second[i], 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    old = alloc(64 * MB);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr reused = i == 0 ? old : 0;

        CHECK_GT(reuses_beside_an_end(second[i], &reused), 7);
        CHECK_EQ(reused, 0); /* what was allocated before is reused, too */
    }
}

/* One with work concerns what its work may name: nothing that was allocated since. */
TEST(r01_r26_the_end_of_a_busy_context_holds_up_what_its_work_may_name)
{
    CUcontext second = NULL;
    CUdeviceptr old, reused;
    CUstream stream;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    reused = old = alloc(64 * MB);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(old, 1, 64 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_GT(reuses_beside_an_end(second, &reused), 7);
    CHECK_EQ(reused, old); /* before its end */
}

/* How often a request goes into relaxed mode, while a thread stands in the end of the context: an unmap does, and each look at a
 * fence. A wait looks thousands of times. */
static uint64_t looks_beside_an_end(CUcontext context, size_t size)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    uint64_t before;
    pthread_t thread;

    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    set_hook(park_at_end);
    REQUIRE(pthread_create(&thread, NULL, ends_context, context) == 0);
    while (atomic_load(&parked) != 1)
        (void)sched_yield();
    before = client_calls("cuThreadExchangeStreamCaptureMode");
    CHECK_NE(alloc(size), 0);
    before = client_calls("cuThreadExchangeStreamCaptureMode") - before;
    atomic_store(&parked, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    set_hook(NULL);
    return before;
}

/* Another context, with work that does not begin, and an epoch that covers it. */
static CUcontext cover_a_busy_context(CUdeviceptr freed)
{
    CUcontext second = NULL;
    CUstream stream;

    REQUIRE_EQ(cu->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(alloc(64), 1, 64, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(freed), CUDA_SUCCESS);
    (void)alloc(2 * MB);
    return second;
}

/* Above the budget: growth is for those who cannot know how long a wait is (R74, R104). */
TEST(r104_nobody_waits_for_another_threads_end_of_a_context_while_growth_serves)
{
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "budget=24M", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    CHECK_LT(looks_beside_an_end(cover_a_busy_context(alloc(16 * MB)), 20 * MB), 1500);
}

/* On a full device: what is free elsewhere comes first. */
TEST(r104_nobody_waits_for_another_threads_end_of_a_context_while_memory_is_free_elsewhere)
{
    CUdeviceptr freed;
    CUdeviceptr other;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "trim=never", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("SIMCUDA_MEMORY", "1G", 1) == 0);
    client_init();
    freed = alloc(16 * MB);
    REQUIRE_EQ(cu->cuMemAllocAsync(&other, 600 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(other, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LT(looks_beside_an_end(cover_a_busy_context(freed), 500 * MB), 1500);
}

/* The device's work uses hinted blocks to the end: their storage goes after the context, not before it. */
TEST(r26_r76_mapped_memory_stays_until_the_work_of_its_context_is_over)
{
    __typeof__(&simcuda_stats) stats;
    struct simcuda_stats figures = {.size = sizeof figures};
    CUdeviceptr ptr;

    write_hints();
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    stats = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    KEDGE_PUSH("P");
    ptr = alloc(8 * MB);
    REQUIRE_EQ(cu->cuMemsetD8Async(ptr, 1, 8 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    REQUIRE(stats && stats(&figures) == 0);
    CHECK_EQ(figures.faults, 0);
    CHECK_GT(figures.unmaps, 0);
}

/* ---- starting ------------------------------------------------------------------------------- */

static pthread_barrier_t all;
static atomic_int pooled;

static void *first_call(void *data)
{
    CUdeviceptr ptr;

    (void)data;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    pthread_barrier_wait(&all);
    ptr = alloc(4096);
    if (client_is_pooled(ptr, 4096))
        atomic_fetch_add(&pooled, 1);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    return NULL;
}

TEST(many_first_calls_at_once_are_all_served)
{
    pthread_t thread[8];

    if (!client_load())
        SKIP("no simulated driver");
    client_init();
    REQUIRE(pthread_barrier_init(&all, NULL, 8) == 0);
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_create(&thread[i], NULL, first_call, NULL) == 0);
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    CHECK_EQ(atomic_load(&pooled), 8);
}

/* ---- threads and streams, with the oracle as witness ---------------------------------------- */

static __typeof__(&simcuda_witness_birth) birth;
static __typeof__(&simcuda_witness_death) death;

static void *tenants(void *data)
{
    unsigned seed = (unsigned)(uintptr_t)data;
    CUstream stream[2];
    CUdeviceptr ptr[8] = {0};
    bool async[8];

    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cu->cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int round = 0; round < 1500; round++) {
        int i = rand_r(&seed) % 8;
        CUstream on = stream[rand_r(&seed) % 2];

        if (ptr[i]) {
            death(ptr[i], async[i] ? on : SIMCUDA_NO_STREAM);
            CHECK_EQ(async[i] ? cu->cuMemFreeAsync(ptr[i], on) : cu->cuMemFree_v2(ptr[i]),
                    CUDA_SUCCESS);
            ptr[i] = 0;
            continue;
        }
        async[i] = rand_r(&seed) % 2;
        if (async[i]) {
            CHECK_EQ(cu->cuMemAllocAsync(&ptr[i], 700000, on), CUDA_SUCCESS);
            birth(ptr[i], 700000, on);
            CHECK_EQ(cu->cuMemsetD8Async(ptr[i], (unsigned char)round, 700000, on), CUDA_SUCCESS);
            CHECK_EQ(cu->cuStreamSynchronize(on),
                    CUDA_SUCCESS); /* freed on either stream: the program's duty */
            continue;
        }
        CHECK_EQ(cu->cuMemAlloc_v2(&ptr[i], 700000), CUDA_SUCCESS);
        birth(ptr[i], 700000, SIMCUDA_NO_STREAM);
        CHECK_EQ(cu->cuMemsetD8Async(ptr[i], (unsigned char)round, 700000, on), CUDA_SUCCESS);
    }
    return NULL;
}

/* Frees without the host barrier, on late streams: the fences alone keep tenants apart (R1). */
TEST(r01_r91_no_block_has_two_tenants)
{
    __typeof__(&simcuda_stats) stats;
    struct simcuda_stats figures = {.size = sizeof figures};
    pthread_t thread[3];

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "random", 1) == 0);
    client_init();
    birth = (__typeof__(&simcuda_witness_birth))client_sim("simcuda_witness_birth");
    death = (__typeof__(&simcuda_witness_death))client_sim("simcuda_witness_death");
    stats = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    REQUIRE(birth && death && stats);
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&thread[i], NULL, tenants, (void *)(i + 1)) == 0);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE(stats(&figures) == 0);
    CHECK_EQ(figures.faults, 0);
    CHECK_GT(figures.reuses, 100);
    CHECK_GT(figures.cross_stream_reuses, 0);
    CHECK_GT(figures.context_records, 0);
}

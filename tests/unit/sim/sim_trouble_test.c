/* SPDX-License-Identifier: MIT */
/* Trouble on order: calls that fail, memory that runs short, threads that stand, a hook at every call. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- calls that fail ---- */

TEST(r60_the_threads_own_next_call_fails_and_no_other)
{
    CUdeviceptr ptr;
    CUstream s;

    sim_start();
    simcuda_fail_next("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    s = sim_stream(0); /* whatever is called in between */
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(sim_figures().held[0], 0);
    (void)sim_alloc(100);
    CHECK_EQ(simcuda_fail_clear(), 1);
    simcuda_fail_next("cuStreamDestroy_v2", 0, CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cuStreamDestroy_v2(s), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(cuStreamDestroy_v2(s), CUDA_ERROR_UNKNOWN);
    CHECK_EQ(simcuda_fail_clear(), 2);
    CU(cuStreamDestroy_v2(s));
    simcuda_fail_next("cuMemAlloc", 3, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(simcuda_fail_clear(), 0);
    (void)sim_alloc(100);
}

static void *alloc_elsewhere(void *ctx)
{
    CUdeviceptr ptr;

    CU(cuCtxSetCurrent(ctx));
    CU(cuMemAlloc_v2(&ptr, 100));
    return NULL;
}

TEST(r60_a_failure_on_order_is_the_threads_own)
{
    CUcontext ctx = sim_start();
    pthread_t thread;
    CUdeviceptr ptr;

    simcuda_fail_next("*", 1, CUDA_ERROR_UNKNOWN);
    REQUIRE(pthread_create(&thread, NULL, alloc_elsewhere, ctx) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_UNKNOWN);
    CU(cuMemAlloc_v2(&ptr, 100));
}

TEST(r60_an_error_can_be_sticky_after_any_call)
{
    CUdeviceptr ptr;

    sim_env("SIMCUDA_FAIL", "*:5:sticky=CUDA_ERROR_ILLEGAL_ADDRESS");
    sim_start(); /* three calls */
    (void)sim_alloc(100);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(r60_a_named_call_makes_its_error_sticky)
{
    CUdeviceptr ptr;

    sim_env("SIMCUDA_FAIL", "cuMemsetD8:2:sticky=719");
    sim_start();
    ptr = sim_alloc(4 * MIB);
    CU(cuMemsetD8_v2(ptr, 1, 100));
    CU(cuCtxSynchronize());
    CHECK_EQ(cuMemsetD8_v2(ptr, 1, 100), CUDA_ERROR_LAUNCH_FAILED);
    CHECK_EQ(cuMemFree_v2(ptr), CUDA_ERROR_LAUNCH_FAILED);
}

/* ---- memory that runs short ---- */

TEST(r60_memory_is_short_above_a_mark)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    size_t free_bytes, total;
    CUdeviceptr ptr;

    sim_env("SIMCUDA_MEMORY", "1G");
    sim_env("SIMCUDA_FAIL", "oom:64M");
    sim_start();
    ptr = sim_alloc(60 * MIB);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 6 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemCreate(&handle, 6 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemAllocAsync(&ptr, 6 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_EQ(total, 1024 * MIB);
    (void)sim_alloc(4 * MIB);
}

TEST(r60_memory_is_short_until_enough_was_freed)
{
    CUdeviceptr first, second, small, ptr;

    sim_env("SIMCUDA_FAIL", "oom:8M:3");
    sim_start();
    small = sim_alloc(100);
    first = sim_alloc(4 * MIB);
    second = sim_alloc(2 * MIB);
    CU(cuMemFree_v2(second)); /* before the first refusal: counts nothing */
    second = sim_alloc(2 * MIB);
    CHECK_EQ(cuMemAlloc_v2(&ptr, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemFree_v2(first));
    CU(cuMemFree_v2(small));
    CHECK_EQ(cuMemAllocAsync(&ptr, 16 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemFree_v2(second));
    CU(cuMemAlloc_v2(&ptr, 16 * MIB));
    CU(cuMemAllocAsync(&ptr, 16 * MIB, NULL));
}

/* ---- threads that stand at a call ---- */

static CUcontext shared_ctx;
static CUdeviceptr shared_ptr;
static CUresult late_result;

static void *set_late(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    simcuda_park_next("cuMemsetD8Async", "cuMemFree");
    (void)cuMemsetD8Async(shared_ptr, 1, 4 * MIB, CU_STREAM_PER_THREAD);
    late_result = cuStreamSynchronize(CU_STREAM_PER_THREAD);
    return NULL;
}

TEST(r66_a_thread_that_stands_at_its_call_meets_what_others_did)
{
    pthread_t thread;

    shared_ctx = sim_start();
    shared_ptr = sim_alloc(4 * MIB);
    REQUIRE(pthread_create(&thread, NULL, set_late, NULL) == 0);
    REQUIRE(simcuda_wait_parked(1));
    CHECK_EQ(sim_figures().submitted, 0); /* it stands before the call has done anything */
    CU(cuMemFree_v2(shared_ptr));
    pthread_join(thread, NULL);
    CHECK_EQ(late_result, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(sim_figures().parks, 1);
    CHECK_EQ(sim_figures().park_timeouts, 0);
}

static void *alloc_twice(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    (void)sim_alloc(100);
    (void)sim_alloc(100);
    return NULL;
}

TEST(r66_the_environment_says_which_call_stands_until_when)
{
    pthread_t thread;

    sim_env("SIMCUDA_PARK", "cuMemAlloc:2:cuStreamCreate|step");
    shared_ctx = sim_start();
    REQUIRE(pthread_create(&thread, NULL, alloc_twice, NULL) == 0);
    REQUIRE(simcuda_wait_parked(1));
    CHECK_EQ(sim_figures().held[0], 2 * MIB); /* the first one went through */
    CHECK_EQ(simcuda_calls("cuMemAlloc"), 1);
    CU(cuCtxSynchronize()); /* not what it waits for */
    CHECK(simcuda_wait_parked(1));
    simcuda_witness_step();
    pthread_join(thread, NULL);
    CHECK_EQ(simcuda_calls("cuMemAlloc"), 2);
    CHECK_EQ(sim_figures().parks, 1);
    CHECK_EQ(sim_figures().park_timeouts, 0);
}

static void *alloc_parked(void *unused)
{
    (void)unused;
    CU(cuCtxSetCurrent(shared_ctx));
    simcuda_park_next("cuMemAlloc_v2", NULL);
    (void)sim_alloc(100);
    return NULL;
}

TEST(r66_a_thread_that_stands_is_let_go_by_hand)
{
    pthread_t threads[2];

    shared_ctx = sim_start();
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, alloc_parked, NULL) == 0);
    REQUIRE(simcuda_wait_parked(2));
    CHECK_EQ(simcuda_calls("cuMemAlloc"), 0);
    simcuda_unpark();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(simcuda_calls("cuMemAlloc"), 2);
    CHECK_EQ(sim_figures().parks, 2);
    CHECK_EQ(sim_figures().park_timeouts, 0);
}

/* ---- the hook ---- */

struct entry {
    const char *name;
    int version;
    bool per_thread;
    const char *symbol;
};

static const struct entry entries[] = {
#define ENTRY(name, version, per_thread, symbol) {#name, version, per_thread, #symbol},
#include "tests/sim/base/entries.def"
#undef ENTRY
};

static char hooked[64];

static void hook(const char *call)
{
    (void)snprintf(hooked, sizeof(hooked), "%s", call);
}

/* Enough arguments for any of them, structures by value included. All are zero. */
typedef CUresult any_call(long, long, long, long, long, long, long, long, long, long, long, long,
        long, long, long, long, long, long, long, long, long, long);

/* Before cuInit no call does anything, so each of them can be called with nothing in its hands. */
TEST(r60_the_hook_is_at_the_head_of_every_entry)
{
    const size_t count = sizeof(entries) / sizeof(entries[0]);

    sim_env("SIMCUDA_VERSION", "13050"); /* has them all */
    simcuda_set_call_hook(hook);
    for (size_t i = 0; i < count; i++) {
        CUdriverProcAddressQueryResult status;
        void *address = NULL;
        any_call *call;
        if (strcmp(entries[i].name, "cuInit") == 0)
            continue;
        CU(cuGetProcAddress_v2(entries[i].name, &address, entries[i].version,
                entries[i].per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0,
                &status));
        CHECK_STR_EQ(hooked, "cuGetProcAddress_v2");
        REQUIRE(address != NULL);
        memcpy(&call, &address, sizeof(call));
        hooked[0] = '\0';
        (void)call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        CHECK_STR_EQ(hooked, entries[i].symbol);
    }
    (void)cuInit(1);
    CHECK_STR_EQ(hooked, "cuInit");
}

/* ---- host functions ---- */

static CUresult host_results[4];
static char host_hooked[64];

static void call_from_host(void *data)
{
    CUresult *results = data;
    size_t bytes;
    CUdeviceptr ptr;

    results[0] = cuMemAlloc_v2(&ptr, 100);
    results[1] = cuMemGetInfo_v2(&bytes, &bytes);
    results[2] = cuCtxSynchronize();
    results[3] = cuStreamQuery(NULL);
    (void)snprintf(host_hooked, sizeof(host_hooked), "%s", hooked);
}

static void callback_from_host(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    CHECK_EQ(status, CUDA_SUCCESS);
    call_from_host(data);
}

static void check_refused(void)
{
    CU(cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK_EQ(host_results[i], CUDA_ERROR_NOT_PERMITTED);
    CHECK_STR_EQ(host_hooked, "cuStreamQuery"); /* the hook sees these calls too */
    memset(host_results, 0, sizeof(host_results));
    CU(cuCtxSynchronize()); /* nothing became sticky */
}

TEST(r60_no_kind_of_host_function_may_call_the_driver)
{
    CUDA_HOST_NODE_PARAMS node_params = {call_from_host, host_results};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUstream s;

    sim_start();
    simcuda_set_call_hook(hook);
    s = sim_stream(0);
    CU(cuLaunchHostFunc(s, call_from_host, host_results));
    check_refused();
    CU(cuStreamAddCallback(s, callback_from_host, host_results, 0));
    check_refused();
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddHostNode(&node, graph, NULL, 0, &node_params));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, s));
    check_refused();
    CHECK_EQ(sim_figures().host_functions, 3);
}

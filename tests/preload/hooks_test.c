/* SPDX-License-Identifier: MIT */
/* covers: hooks_lookup.c route.c export_dlsym.c export_dlopen.c */
/* Each family of hooks, by each route, on the simulated device: what a program sees of kedge, and what it must not see. */
#include "tests/preload/client.h"

#include <dlfcn.h>

#define MB ((size_t)1 << 20)

static CUstream new_stream(void)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static CUdeviceptr alloc_async(size_t size, CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
    return ptr;
}

/* ---- synchronous memory --------------------------------------------------------------------- */

TEST(r19_sync_memory_comes_from_segments)
{
    CUdeviceptr a, b;
    uint64_t before;

    client_init();
    a = alloc(4096);
    CHECK(client_is_pooled(a, 4096));
    before = client_calls("cuMemAlloc_v2");
    CHECK_GT(before, 0); /* where the segment is from */
    b = alloc(4096);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), before); /* from the same segment */
    CHECK_NE(a, b);
    CHECK_EQ(a % 512, 0);
    CHECK_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0); /* nothing has reached the driver */
}

TEST(r35_bad_frees_get_the_drivers_code)
{
    CUdeviceptr ptr;

    client_init();
    ptr = alloc(1 * MB);
    CHECK_EQ(cu->cuMemFree_v2(ptr + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(0), CUDA_SUCCESS);
}

/* R17 */
TEST(r17_requests_for_nothing_are_the_drivers)
{
    CUdeviceptr ptr = 7;

    client_init();
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(ptr, 7);
    CHECK_EQ(cu->cuMemAlloc_v2(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
}

TEST(without_a_context_the_driver_answers)
{
    CUdeviceptr ptr;

    client_init();
    REQUIRE_EQ(cu->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(r18_pitched_and_managed_memory_is_the_drivers)
{
    CUdeviceptr ptr;
    size_t pitch;

    client_init();
    REQUIRE_EQ(cu->cuMemAllocPitch_v2(&ptr, &pitch, 1000, 10, 4), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocPitch_v2"), 1);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
    REQUIRE_EQ(cu->cuMemAllocManaged(&ptr, 1 * MB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 2);
}

TEST(content_survives_in_neighbours)
{
    enum {
        N = 40
    };
    CUdeviceptr ptr[N];
    unsigned char back[256];

    client_init();
    for (int i = 0; i < N; i++) {
        ptr[i] = alloc((size_t)(i + 1) * 3000);
        REQUIRE_EQ(
                cu->cuMemsetD8_v2(ptr[i], (unsigned char)i, (size_t)(i + 1) * 3000), CUDA_SUCCESS);
    }
    for (int i = 0; i < N; i += 2)
        REQUIRE_EQ(cu->cuMemFree_v2(ptr[i]), CUDA_SUCCESS);
    for (int i = 0; i < N; i += 2) {
        ptr[i] = alloc((size_t)(i + 1) * 2000);
        REQUIRE_EQ(cu->cuMemsetD8_v2(ptr[i], 0xee, (size_t)(i + 1) * 2000), CUDA_SUCCESS);
    }
    for (int i = 1; i < N; i += 2) {
        REQUIRE_EQ(cu->cuMemcpyDtoH_v2(
                           back, ptr[i] + (size_t)(i + 1) * 3000 - sizeof back, sizeof back),
                CUDA_SUCCESS);
        for (size_t k = 0; k < sizeof back; k++)
            REQUIRE_EQ(back[k], i);
    }
}

/* ---- memory in stream order ----------------------------------------------------------------- */

TEST(async_memory_is_reused_on_its_stream_at_once)
{
    CUdeviceptr a, b, base;
    uint64_t driver;
    CUstream stream;
    size_t size;

    client_init();
    stream = new_stream();
    a = alloc_async(3 * MB, stream);
    driver = client_calls("cuMemAllocAsync");
    CHECK_EQ(driver, 0); /* the driver's own pool was not used */
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, a + 100), CUDA_SUCCESS);
    CHECK_EQ(base, a);
    CHECK_EQ(size, 3 * MB);
    CHECK_EQ(cu->cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemGetAddressRange_v2(&base, &size, a),
            CUDA_ERROR_NOT_FOUND); /* the driver's word for what is nowhere (R79) */
    b = alloc_async(3 * MB, stream);
    CHECK_EQ(a, b);
    CHECK_EQ(cu->cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(b, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);
}

/* Handle 0 is the legacy stream in one flavour and the thread's own in the other: two streams (R69). */
TEST(r69_the_two_flavours_of_stream_0_are_two_streams)
{
    CUdeviceptr a, b;

    client_init();
    a = alloc_async(2 * MB, NULL);
    REQUIRE_EQ(cu->cuMemsetD8Async(a, 1, 2 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(a, NULL), CUDA_SUCCESS);
    b = alloc_async(2 * MB, NULL);
    CHECK_EQ(a, b);
    CHECK_EQ(client_calls("cuEventRecord"), 0); /* one stream so far */
    REQUIRE_EQ(cu->cuMemFreeAsync_ptsz(b, NULL), CUDA_SUCCESS);
    /* freed on another stream than it was made for (R71), and an operation of that one; before, the default stream is recorded once,
     * since the two have an order from now on */
    CHECK_EQ(client_calls("cuEventRecord"), 2);
    REQUIRE_EQ(cu->cuMemAllocAsync_ptsz(&a, 2 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(a, CU_STREAM_PER_THREAD),
            CUDA_SUCCESS); /* the same stream by its number */
    REQUIRE_EQ(cu->cuMemAllocAsync_ptsz(&b, 2 * MB, NULL), CUDA_SUCCESS);
    CHECK_EQ(a, b);
}

/* R9, R64 */
TEST(r9_each_free_takes_memory_of_each_entrance)
{
    CUdeviceptr sync, async;
    CUstream stream;

    client_init();
    stream = new_stream();
    sync = alloc(1 * MB);
    async = alloc_async(1 * MB, stream);
    CHECK_EQ(cu->cuMemFreeAsync(sync, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(async), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2") + client_calls("cuMemFreeAsync"), 0);
}

TEST(a_bad_stream_is_the_drivers_to_refuse)
{
    CUdeviceptr ptr = 0;
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    CHECK_NE(cu->cuMemAllocAsync(&ptr, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(ptr, 0);
}

static cuuint64_t attribute(CUmemoryPool mempool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;

    REQUIRE_EQ(cu->cuMemPoolGetAttribute(mempool, which, &value), CUDA_SUCCESS);
    return value;
}

/* R78 */
TEST(r78_pool_attributes_speak_of_our_heap)
{
    cuuint64_t zero = 0, most = UINT64_MAX;
    CUmemoryPool mempool;
    CUdeviceptr a, b;
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolSetAttribute(mempool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most),
            CUDA_SUCCESS);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), UINT64_MAX);
    a = alloc_async(1000, stream);
    b = alloc_async(3 * MB, stream);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024 + 3 * MB);
    CHECK_GE(attribute(mempool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 1024 + 3 * MB);
    REQUIRE_EQ(cu->cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024 + 3 * MB);
    REQUIRE_EQ(
            cu->cuMemPoolSetAttribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), CUDA_SUCCESS);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_GT(attribute(mempool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, 0), CUDA_SUCCESS);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

static CUmemPoolProps device_pool(size_t max_size)
{
    CUmemPoolProps props;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.maxSize = max_size;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

/* R77 */
TEST(r8_r77_a_pool_of_the_programs_is_served_unless_it_is_limited)
{
    CUmemPoolProps plain = device_pool(0);
    CUmemPoolProps small = device_pool(256 * MB);
    CUmemoryPool mempool, limited, found = NULL;
    CUdeviceptr a, b;
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemPoolCreate(&mempool, &plain), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolCreate(&limited, &small), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&a, 1 * MB, mempool, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocFromPoolAsync"), 0);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a),
            CUDA_SUCCESS);
    CHECK_EQ(found, mempool);
    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&b, 1 * MB, limited, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocFromPoolAsync"), 1);
    CHECK_EQ(cu->cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 1);

    /* what is current on the device is what cuMemAllocAsync uses */
    REQUIRE_EQ(cu->cuDeviceSetMemPool(0, mempool), CUDA_SUCCESS);
    b = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b),
            CUDA_SUCCESS);
    CHECK_EQ(found, mempool);
    CHECK_EQ(attribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2 * MB);
    REQUIRE_EQ(cu->cuDeviceSetMemPool(0, limited), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&b, 1 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
    CHECK_EQ(cu->cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemPoolDestroy(mempool), CUDA_SUCCESS);
}

/* ---- queries -------------------------------------------------------------------------------- */

static size_t free_now(void)
{
    size_t available = 0, total = 0;

    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    CHECK_LE(available, total);
    return available;
}

/* R22 */
TEST(r22_free_memory_returns_to_its_starting_value)
{
    CUdeviceptr a, b;
    CUstream stream;
    size_t start;

    client_init();
    stream = new_stream();
    start = free_now();
    a = alloc(5 * MB);
    CHECK_EQ(free_now(), start - 6 * MB); /* whole granules, as natively */
    b = alloc_async(7 * MB, stream);
    CHECK_EQ(free_now(), start - 14 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    CHECK_EQ(free_now(), start);
}

/* R21, R79 */
TEST(attributes_of_mapped_memory_are_the_blocks)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    CUdeviceptr a, b, start = 0;
    unsigned type = 0;
    size_t size = 0;
    int mapped = 0, capable = 1;
    void *values[] = {&start, &size, &type, &mapped, &capable};
    unsigned long long id_a = 0, id_b = 0;
    CUmemoryPool mempool, found = NULL;
    CUstream stream;

    client_init();
    stream = new_stream();
    a = alloc_async(10000, stream);
    b = alloc_async(20000, stream);
    REQUIRE_EQ(cu->cuPointerGetAttributes(5, which, values, b + 5000), CUDA_SUCCESS);
    CHECK_EQ(start, b);
    CHECK_EQ(size, 20000);
    CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
    CHECK_EQ(mapped, 1);
    CHECK_EQ(capable, 0);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a), CUDA_SUCCESS);
    CHECK_EQ(size, 10000);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&id_a, CU_POINTER_ATTRIBUTE_BUFFER_ID, a), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&id_b, CU_POINTER_ATTRIBUTE_BUFFER_ID, b), CUDA_SUCCESS);
    CHECK_NE(id_a, id_b);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a),
            CUDA_SUCCESS);
    CHECK_EQ(found, mempool);
}

TEST(the_programs_own_virtual_memory_is_untouched)
{
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr = 0;

    client_init();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cu->cuMemCreate(&handle, 2 * MB, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAddressReserve(&ptr, 2 * MB, 0, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemMap(ptr, 2 * MB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemUnmap(ptr, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAddressFree(ptr, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemCreate"), 1);
    CHECK_EQ(client_calls("cuMemUnmap"), 1);
}

/* ---- sharing -------------------------------------------------------------------------------- */

/* R23 */
TEST(r23_a_block_that_shares_its_segment_is_not_exported)
{
    CUmemGenericAllocationHandle retained;
    CUdeviceptr a, b, async;
    CUipcMemHandle handle;
    CUstream stream;

    client_init();
    stream = new_stream();
    a = alloc(1 * MB);
    b = alloc(1 * MB);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, b), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, a),
            CUDA_ERROR_NOT_SUPPORTED); /* at offset 0, but not alone */
    CHECK_EQ(client_calls("cuIpcGetMemHandle"), 0);
    async = alloc_async(1 * MB, stream);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, async),
            CUDA_ERROR_INVALID_VALUE); /* the driver's own word for memory of a pool */
    CHECK_EQ(cu->cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)async),
            CUDA_ERROR_INVALID_VALUE); /* the same */
}

/* R24 */
/* Its segment goes back to the driver, so that what comes next at this address is other memory. */
TEST(r24_an_exported_block_is_never_handed_out_again)
{
    CUdeviceptr a, b;
    CUipcMemHandle handle;

    client_init();
    a = alloc(64 * MB);
    REQUIRE_EQ(cu->cuIpcGetMemHandle(&handle, a), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), 1);
    REQUIRE_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    b = alloc(64 * MB);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), 2);
    REQUIRE_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
    b = alloc(64 * MB); /* that one was shown to nobody */
    CHECK_EQ(client_calls("cuMemAlloc_v2"), 2);
    b = alloc(64 * MB);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), 3);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
}

/* ---- capture -------------------------------------------------------------------------------- */

/* R11, R82: the program gets the driver's own word, and nothing of ours spoils the capture. */
TEST(r11_r12_r82_during_a_capture_the_driver_answers)
{
    CUdeviceptr sync = 0, graph_memory = 0, ptr;
    CUstream stream;
    CUgraph graph = NULL;
    uint64_t direct;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0); /* or each free waits, by a call of its own */
    client_init();
    stream = new_stream();
    ptr = alloc(1 * MB);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    direct = client_calls("cuMemAlloc_v2");
    CHECK_EQ(cu->cuMemAlloc_v2(&sync, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), direct + 1);
    CHECK_EQ(cu->cuMemAllocAsync(&graph_memory, 1 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
    CHECK_EQ(cu->cuMemFreeAsync(graph_memory, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 1);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS); /* deferred: no driver call */
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK(graph);
    CHECK_EQ(cu->cuMemFree_v2(sync), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
    CHECK_EQ(client_calls("cuCtxRecordEvent"), 0);
    for (int i = 0; i < 40; i++) { /* R12: a replay may still name it */
        sync = alloc(1 * MB);
        CHECK_NE(sync, ptr);
        REQUIRE_EQ(cu->cuMemFree_v2(sync), CUDA_SUCCESS);
    }
}

/* In global mode an allocation is forbidden, and spoils the capture: both as without kedge. */
TEST(r11_a_forbidden_call_is_forbidden)
{
    CUdeviceptr ptr;
    CUstream stream;
    CUgraph graph = NULL;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemFree_v2(alloc(1 * MB)), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 1 * MB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ptr = alloc(1 * MB); /* the capture has ended, we are back */
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
}

/* ---- host functions ------------------------------------------------------------------------- */

struct in_callback {
    CUdeviceptr sync, async;
    uint64_t calls_before, calls_after;
    CUresult sync_result, async_result;
    int ran;
};

static uint64_t all_calls(void)
{
    __typeof__(&simcuda_stats) ask = (__typeof__(&simcuda_stats))client_sim("simcuda_stats");
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE(ask && ask(&stats) == 0);
    return stats.calls;
}

static void free_both(void *data)
{
    struct in_callback *job = data;

    job->calls_before = all_calls();
    job->sync_result = cu->cuMemFree_v2(job->sync);
    job->async_result = cu->cuMemFreeAsync(job->async, NULL);
    job->calls_after = all_calls();
    job->ran++;
}

static void free_in_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    CHECK_EQ(status, CUDA_SUCCESS);
    free_both(data);
}

/* R38 */
TEST(r38_a_free_in_a_host_function_makes_no_driver_call)
{
    struct in_callback job = {.ran = 0};
    CUstream stream;

    client_init();
    stream = new_stream();
    job.sync = alloc(1 * MB);
    job.async = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuLaunchHostFunc(stream, free_both, &job), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(job.ran, 1);
    CHECK_EQ(job.sync_result, CUDA_SUCCESS);
    CHECK_EQ(job.async_result, CUDA_SUCCESS);
    CHECK_EQ(job.calls_before, job.calls_after);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);

    job.sync = alloc(1 * MB);
    job.async = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuStreamAddCallback(stream, free_in_callback, &job, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(job.ran, 2);
    CHECK_EQ(job.sync_result, CUDA_SUCCESS);
}

/* ---- barriers and ends ---------------------------------------------------------------------- */

/* R75: the classic habit, free as a barrier for the host. */
TEST(r61_r75_a_free_waits_for_the_host_reads_behind_it)
{
    unsigned char *host = NULL;
    CUdeviceptr source, scratch;
    CUstream stream;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0); /* nothing runs until somebody waits for it */
    client_init();
    stream = new_stream();
    source = alloc(1 * MB);
    scratch = alloc(1 * MB);
    REQUIRE_EQ(cu->cuMemHostAlloc((void **)&host, 1 * MB, 0), CUDA_SUCCESS);
    memset(host, 0, 1 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(source, 0x5a, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoHAsync_v2(host, source, 1 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(scratch), CUDA_SUCCESS);
    CHECK_EQ(host[0], 0x5a);
    CHECK_EQ(host[MB - 1], 0x5a);
}

/* R26 */
TEST(a_context_reset_forgets_its_memory)
{
    CUdeviceptr before, after;

    client_init();
    before = alloc(1 * MB);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(before), CUDA_ERROR_INVALID_VALUE);
    after = alloc(1 * MB);
    CHECK_EQ(cu->cuMemsetD8_v2(after, 1, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(after), CUDA_SUCCESS);
}

/* A free on the default stream is an operation there, which every blocking stream meets. */
TEST(r69_a_free_on_the_default_stream_joins_the_blocking_streams)
{
    CUstream reader = NULL, writer = NULL;
    CUdeviceptr out, first = 0, second = 0;
    uint64_t sum = 0;
    CUfunction kernel;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    kernel = client_sum_kernel();
    REQUIRE_EQ(cu->cuStreamCreate(&reader, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&writer, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    out = alloc(4096);
    REQUIRE_EQ(cu->cuMemsetD8_v2(out, 0, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&first, 4096, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(first, 0, 4096, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(client_sum(kernel, out, first, 4096, reader), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(first, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&second, 4096, NULL), CUDA_SUCCESS);
    CHECK_EQ(second, first); /* else nothing is shown */
    REQUIRE_EQ(cu->cuMemsetD8Async(second, 1, 4096, writer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(writer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&sum, out, sizeof sum), CUDA_SUCCESS);
    CHECK_EQ(sum, 0);
}

/* What X's reader on one blocking stream and Y's writer on another do to one block that goes over the default stream. */
struct meeting {
    CUfunction kernel;
    CUdeviceptr out, block, spare;
    CUstream reader;
};

static void read_and_free(struct meeting *m)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    m->kernel = client_sum_kernel();
    REQUIRE_EQ(cu->cuStreamCreate(&m->reader, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    m->out = alloc(4096);
    REQUIRE_EQ(cu->cuMemsetD8_v2(m->out, 0, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&m->block, 4096, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&m->spare, 64 << 10, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(m->block, 0, 4096, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(client_sum(m->kernel, m->out, m->block, 4096, m->reader), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(m->block, NULL), CUDA_SUCCESS);
}

static void write_and_look(const struct meeting *m, CUdeviceptr block, CUstream writer)
{
    uint64_t sum = 1;

    REQUIRE_EQ(cu->cuMemsetD8Async(block, 1, 4096, writer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(writer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&sum, m->out, sizeof sum), CUDA_SUCCESS);
    CHECK_EQ(sum, 0);
}

TEST(r69_a_blocking_stream_that_comes_after_the_free_meets_it)
{
    CUdeviceptr block = 0;
    CUstream writer = NULL;
    struct meeting m;

    read_and_free(&m);
    REQUIRE_EQ(cu->cuMemAllocAsync(&block, 4096, NULL), CUDA_SUCCESS);
    CHECK_EQ(block, m.block); /* else nothing is shown */
    REQUIRE_EQ(cu->cuStreamCreate(&writer, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    write_and_look(&m, block, writer);
}

TEST(r69_a_threads_own_stream_that_comes_after_the_free_meets_it)
{
    CUdeviceptr block = 0;
    struct meeting m;

    read_and_free(&m);
    REQUIRE_EQ(cu->cuMemAllocAsync(&block, 4096, NULL), CUDA_SUCCESS);
    CHECK_EQ(block, m.block);
    write_and_look(&m, block, CU_STREAM_PER_THREAD);
}

/* It was made where kedge could not see it. */
TEST(r69_a_blocking_stream_that_nobody_saw_made_counts_when_it_is_named)
{
    __typeof__(&cuStreamCreate) create;
    CUdeviceptr block = 0;
    CUstream writer = NULL;
    struct meeting m;

    read_and_free(&m);
    create = (__typeof__(create))client_driver("cuStreamCreate");
    REQUIRE_EQ(create(&writer, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(m.spare, writer),
            CUDA_SUCCESS); /* named, and no call of kedge's on the default stream */
    REQUIRE_EQ(cu->cuMemAllocAsync(&block, 4096, NULL), CUDA_SUCCESS);
    CHECK_EQ(block, m.block);
    write_and_look(&m, block, writer);
}

static uint64_t events_of_frees(unsigned count)
{
    uint64_t before = client_calls("cuEventRecord");

    for (unsigned i = 0; i < count; i++) {
        CUdeviceptr ptr = 0;

        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 4096, NULL), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr, NULL), CUDA_SUCCESS);
    }
    return client_calls("cuEventRecord") - before;
}

/* An allocation and a free are operations there from the first blocking stream on: the second may come when none can be made. */
TEST(r69_a_free_on_the_default_stream_makes_no_call_while_there_is_no_blocking_stream)
{
    CUstream streams[4];

    client_init();
    CHECK_EQ(events_of_frees(20), 0);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQ(events_of_frees(20), 0);
    REQUIRE_EQ(cu->cuStreamCreate(&streams[3], CU_STREAM_DEFAULT), CUDA_SUCCESS);
    CHECK_EQ(events_of_frees(20), 40);
    REQUIRE_EQ(cu->cuStreamDestroy_v2(streams[3]), CUDA_SUCCESS); /* its work may be there still */
    CHECK_EQ(events_of_frees(20), 40);
}

TEST(r26_a_second_reset_is_noticed_like_the_first)
{
    CUdeviceptr before[3];

    client_init();
    for (int i = 0; i < 3; i++) { /* the handle stays the same, and nobody retains it again */
        before[i] = alloc(1 * MB);
        CHECK(client_is_pooled(before[i], 1 * MB));
        REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFree_v2(before[i]), CUDA_ERROR_INVALID_VALUE);
    }
    before[0] = alloc(1 * MB);
    CHECK_EQ(cu->cuMemsetD8_v2(before[0], 1, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(before[0]), CUDA_SUCCESS);
}

TEST(a_second_context_has_a_heap_of_its_own)
{
    CUcontext second = NULL, current = NULL;
    CUdeviceptr first_ptr, second_ptr;

    client_init();
    first_ptr = alloc(1 * MB);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    second_ptr = alloc(1 * MB);
    CHECK_EQ(cu->cuMemFree_v2(first_ptr), CUDA_SUCCESS); /* with the other context current */
    REQUIRE_EQ(cu->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK_EQ(current, second); /* R27 */
    REQUIRE_EQ(cu->cuCtxDestroy_v2(second), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(second_ptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_stream_may_go_while_its_memory_waits)
{
    CUstream a, b;
    CUdeviceptr ptr;

    client_init();
    for (int i = 0; i < 50; i++) {
        a = new_stream();
        b = new_stream();
        ptr = alloc_async(2 * MB, a);
        REQUIRE_EQ(cu->cuMemsetD8Async(ptr, (unsigned char)i, 2 * MB, a), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr, a), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamDestroy_v2(a), CUDA_SUCCESS);
        ptr = alloc_async(2 * MB, b);
        REQUIRE_EQ(cu->cuMemsetD8Async(ptr, (unsigned char)i, 2 * MB, b), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeAsync(ptr, b), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamDestroy_v2(b), CUDA_SUCCESS);
    }
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

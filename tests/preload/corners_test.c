/* SPDX-License-Identifier: MIT */
/* Where two rules meet: captures beside the stream API, pools and streams of different devices, access after a trim. */
#include "tests/preload/child.h"
#include "tests/preload/client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MB ((size_t)1 << 20)

static CUstream new_stream(void)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUdeviceptr alloc_async(size_t size, CUstream stream)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
    return ptr;
}

/* R82: the quarantine of R12 is the sync API's. In stream order a free beside a capture is a free like any other. */
TEST(r82_a_free_in_stream_order_beside_a_capture_is_not_lost)
{
    CUstream captured, other;
    CUdeviceptr first, second;
    CUgraph graph = NULL;

    client_init();
    captured = new_stream();
    other = new_stream();
    first = alloc_async(2 * MB, other);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(first, other), CUDA_SUCCESS);
    second = alloc_async(2 * MB, other);
    CHECK_EQ(second, first);
    CHECK_EQ(cu->cuMemFreeAsync(second, other), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
    CHECK_EQ(alloc_async(2 * MB, other), first);
    CHECK_EQ(client_calls("cuEventRecord") + client_calls("cuCtxRecordEvent"), 0);
}

/* Beside a capture the stream of a free is asked about. What fails of that, and how often it is asked by a block of the driver's own. */
static const struct question {
    const char *fails;
    CUresult result; /* of the program's free */
    uint64_t allocs;
} questions[] = {
        {"", CUDA_SUCCESS, 0},
        {"cuStreamIsCapturing:1+:999", CUDA_SUCCESS, 1},
        /* a failure of ours is asked about again, and is the program's only if it stays */
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1:999", CUDA_SUCCESS, 2},
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1+:999", CUDA_ERROR_UNKNOWN, 2},
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1+:2", CUDA_SUCCESS, 2},
        /* what the driver says of the stream is its word on the free */
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1:400", CUDA_ERROR_INVALID_HANDLE, 1},
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1:201", CUDA_ERROR_INVALID_CONTEXT, 1},
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1:709", CUDA_ERROR_CONTEXT_IS_DESTROYED, 1},
        {"cuStreamIsCapturing:1+:999,cuMemAllocAsync:1:901", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                1},
        {"cuStreamIsCapturing:1+:999,cuMemFreeAsync:1:999", CUDA_ERROR_UNKNOWN, 1},
};
static const struct question *question;

static void free_beside_a_capture(void)
{
    CUstream captured, other;
    CUgraph graph = NULL;
    CUdeviceptr ptr;

    REQUIRE(setenv("SIMCUDA_FAIL", question->fails, 1) == 0);
    client_init();
    captured = new_stream();
    other = new_stream();
    ptr = alloc_async(2 * MB, other);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, other), question->result);
    CHECK_EQ(client_calls("cuMemAllocAsync"), question->allocs);
    CHECK_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
    CHECK_EQ(alloc_async(2 * MB, other) == ptr, question->result == CUDA_SUCCESS);
}

TEST(r32_r82_a_free_beside_a_capture_has_the_drivers_word_on_its_stream)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        question = &questions[i];
        CHECK_EQ(run_child(free_beside_a_capture), 0);
    }
}

static CUmemPoolProps pool_on(int device)
{
    CUmemPoolProps props;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

/* Writes late to a block of a pool of the program's own, which a graph names, and frees it behind the write, on another stream. The
 * pool is destroyed before the free or behind it. */
static void write_late_and_free(bool pool_first)
{
    CUmemPoolProps props = pool_on(0);
    CUstream writer, other;
    CUmemoryPool mempool;
    CUdeviceptr ptr = 0;
    CUgraph graph = NULL;
    CUevent written;

    writer = new_stream();
    other = new_stream();
    REQUIRE_EQ(cu->cuEventCreate(&written, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolCreate(&mempool, &props), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 8 * MB, mempool, writer), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8Async(ptr, 5, 8 * MB, writer), CUDA_SUCCESS);
    CHECK_EQ(cu->cuEventRecord(written, writer), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamWaitEvent(other, written, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(writer, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8Async(ptr, 1, 8 * MB, writer), CUDA_SUCCESS);
    if (pool_first)
        CHECK_EQ(cu->cuMemPoolDestroy(mempool), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, other), CUDA_SUCCESS);
    if (!pool_first)
        CHECK_EQ(cu->cuMemPoolDestroy(mempool), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(writer, &graph), CUDA_SUCCESS);
    CHECK_EQ(cu->cuGraphDestroy(graph), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST(r01_r77_a_destroyed_pool_keeps_what_work_is_pending_on)
{
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    write_late_and_free(false);
    write_late_and_free(true);
}

/* The device of the pool says where the memory is, not that of the stream. */
TEST(r77_memory_of_a_pool_lies_on_the_pools_device)
{
    CUmemPoolProps props = pool_on(1);
    CUmemoryPool mempool = NULL;
    CUdeviceptr ptr = 0;
    CUstream stream;
    int device = -1;
    CUresult result;

    client_init();
    stream = new_stream(); /* of device 0 */
    REQUIRE_EQ(cu->cuMemPoolCreate(&mempool, &props), CUDA_SUCCESS);
    result = cu->cuMemAllocFromPoolAsync(&ptr, 1 * MB, mempool, stream);
    if (result != CUDA_SUCCESS)
        SKIP("the simulated driver does not allow it");
    REQUIRE_EQ(cu->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
            CUDA_SUCCESS);
    CHECK_EQ(device, 1);
    CHECK_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
}

/* R77: access that is given later reaches every granule that is still there, also where a trim has taken the first. */
TEST(r77_access_reaches_what_a_trim_has_left)
{
    CUmemAccessDesc peer = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool mempool;
    CUdeviceptr first, second;
    CUcontext context = NULL;
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    /* eight granules at once, of which the first is freed and trimmed */
    first = alloc_async(16 * MB, stream);
    REQUIRE_EQ(cu->cuMemFreeAsync(first, stream), CUDA_SUCCESS);
    CHECK_EQ(alloc_async(2 * MB, stream), first);
    second = alloc_async(14 * MB, stream);
    CHECK_EQ(second, first + 2 * MB);
    REQUIRE_EQ(cu->cuMemFreeAsync(first, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, 0), CUDA_SUCCESS);
    CHECK_GT(client_calls("cuMemUnmap"), 0);

    peer.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    peer.location.id = 1;
    CHECK_EQ(cu->cuMemPoolSetAccess(mempool, &peer, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(second, 1, 14 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

static cuuint64_t reserved(CUmemoryPool mempool)
{
    cuuint64_t value = 0;

    REQUIRE_EQ(cu->cuMemPoolGetAttribute(mempool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value),
            CUDA_SUCCESS);
    return value;
}

/* R78: the driver's pool and the heap in its place are one for the program, also before there is a heap. */
TEST(r78_a_trim_leaves_of_both_together_what_is_to_be_kept)
{
    __typeof__(&cuMemAllocFromPoolAsync) real_alloc;
    __typeof__(&cuMemFreeAsync) real_free;
    __typeof__(&cuMemPoolSetAttribute) real_set;
    CUmemPoolProps props = pool_on(0);
    cuuint64_t most = UINT64_MAX, native, all;
    CUmemoryPool mempool;
    CUdeviceptr ptr = 0;
    CUstream stream;

    client_init();
    real_alloc = (__typeof__(real_alloc))client_driver("cuMemAllocFromPoolAsync");
    real_free = (__typeof__(real_free))client_driver("cuMemFreeAsync");
    real_set = (__typeof__(real_set))client_driver("cuMemPoolSetAttribute");
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemPoolCreate(&mempool, &props), CUDA_SUCCESS);
    REQUIRE_EQ(real_set(mempool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most), CUDA_SUCCESS);
    REQUIRE_EQ(real_alloc(&ptr, 1 * MB, mempool, stream), CUDA_SUCCESS);
    REQUIRE_EQ(real_free(ptr, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    native = reserved(mempool);
    CHECK_GT(native, 0);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, 1), CUDA_SUCCESS);
    CHECK_EQ(reserved(mempool), native); /* one byte is in a chunk, which stays */
    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 4 * MB, mempool, stream), CUDA_SUCCESS);
    all = reserved(mempool);
    CHECK_GT(all, native);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, all - native + 1), CUDA_SUCCESS);
    CHECK_EQ(reserved(mempool), all);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, all - native), CUDA_SUCCESS);
    CHECK_EQ(reserved(mempool), all - native);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolTrimTo(mempool, 0), CUDA_SUCCESS);
    CHECK_EQ(reserved(mempool), 0);
}

/* ---- a stream ends while another thread records on it ---------------------------------------- */

static CUstream ending;
static atomic_int ended, early;
static pthread_t ender;

static void *end_stream(void *data)
{
    (void)data;
    CHECK_EQ(cu->cuStreamDestroy_v2(ending), CUDA_SUCCESS);
    return NULL;
}

/* At the first record on it, another thread destroys the stream, and is given time to get there. */
static void end_in_record(const char *call)
{
    static atomic_int seen;
    struct timespec pause = {0, 1000000};

    if (strncmp(call, "cuStreamDestroy", 15) == 0)
        atomic_store(&ended, 1);
    if (strcmp(call, "cuEventRecord") != 0 || atomic_exchange(&seen, 1))
        return;
    REQUIRE(pthread_create(&ender, NULL, end_stream, NULL) == 0);
    for (int i = 0; i < 100 && !atomic_load(&ended); i++)
        (void)nanosleep(&pause, NULL);
    atomic_store(&early, atomic_load(&ended));
}

/* The driver must not be given a handle of a stream that is gone. */
TEST(a_stream_does_not_end_in_the_middle_of_our_record)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    CUdeviceptr ptr;
    CUstream other;

    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    ending = new_stream();
    other = new_stream();
    ptr = alloc_async(2 * MB, ending);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, ending), CUDA_SUCCESS);
    set_hook(end_in_record);
    (void)alloc_async(2 * MB, other); /* looks whether the other stream's memory can be had */
    REQUIRE(pthread_join(ender, NULL) == 0);
    set_hook(NULL);
    CHECK(atomic_load(&ended) == 1);
    CHECK(atomic_load(&early) == 0);
}

/* ---- the current pool changes while it is asked for ------------------------------------------- */

static CUmemoryPool next_pool;

static void *change_pool(void *data)
{
    (void)data;
    CHECK_EQ(cu->cuDeviceSetMemPool(0, next_pool), CUDA_SUCCESS);
    return NULL;
}

/* The driver has named the pool that was current, and kedge has not yet heard it. */
static void change_in_question(const char *call)
{
    static atomic_int seen;
    pthread_t thread;

    if (strcmp(call, "cuDeviceGetDefaultMemPool") != 0 || atomic_exchange(&seen, 1))
        return;
    REQUIRE(pthread_create(&thread, NULL, change_pool, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

TEST(a_change_of_the_current_pool_is_not_missed)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    CUmemPoolProps props = pool_on(0);
    CUmemoryPool found = NULL;
    CUstream stream;
    CUdeviceptr ptr;

    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemPoolCreate(&next_pool, &props), CUDA_SUCCESS);
    set_hook(change_in_question);
    (void)alloc_async(1 * MB, stream); /* from either of them */
    set_hook(NULL);
    ptr = alloc_async(1 * MB, stream);
    REQUIRE_EQ(cu->cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr),
            CUDA_SUCCESS);
    CHECK(found == next_pool);
}

/* cuDNN asks for ever less, from all that is free on: a guess that cannot be met must not cost a handle for each granule. */
TEST(a_guess_that_cannot_be_met_is_quick)
{
    size_t available, total, after;
    CUdeviceptr ptr = 0;
    uint64_t creates;
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemFreeAsync(alloc_async(64 * MB, stream), stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    creates = client_calls("cuMemCreate");
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, available + 2 * MB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_LT(client_calls("cuMemCreate") - creates, 64);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
    CHECK_EQ(after, available);
    CHECK_EQ(cu->cuMemAllocAsync(&ptr, available, stream), CUDA_SUCCESS); /* and this one can */
}

/* ---- a context ends while another thread's fence covers it ------------------------------------- */

static CUcontext ending_context;
static atomic_int context_ended, context_early;
static pthread_t context_ender;

static void *end_context(void *data)
{
    (void)data;
    CHECK_EQ(cu->cuCtxDestroy_v2(ending_context), CUDA_SUCCESS);
    return NULL;
}

static void end_in_fence(const char *call)
{
    static atomic_int seen;
    struct timespec pause = {0, 1000000};

    if (strncmp(call, "cuCtxDestroy", 12) == 0)
        atomic_store(&context_ended, 1);
    if (strcmp(call, "cuCtxRecordEvent") != 0 || atomic_exchange(&seen, 1))
        return;
    REQUIRE(pthread_create(&context_ender, NULL, end_context, NULL) == 0);
    for (int i = 0; i < 100 && !atomic_load(&context_ended); i++)
        (void)nanosleep(&pause, NULL);
    atomic_store(&context_early, atomic_load(&context_ended));
}

/* R26 */
TEST(a_context_does_not_end_in_the_middle_of_our_fence)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    CUdeviceptr ptr;

    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&ending_context, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    set_hook(end_in_fence);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 64 * MB), CUDA_SUCCESS); /* closes an epoch */
    REQUIRE(pthread_join(context_ender, NULL) == 0);
    set_hook(NULL);
    CHECK(atomic_load(&context_ended) == 1);
    CHECK(atomic_load(&context_early) == 0);
}

/* ---- a context that ends unseen ---------------------------------------------------------------- */

static CUdeviceptr after_reset;

/* A thread that remembers nothing of the old context. */
static void *alloc_in_new_context(void *unused)
{
    (void)unused;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&after_reset, 4096), CUDA_SUCCESS);
    return NULL;
}

/* The driver gives the handle to another context. What kedge held in the old one is nobody's. */
TEST(r26_a_context_that_ended_unseen_takes_its_memory_along)
{
    CUresult (*reset)(CUdevice);
    size_t available, before, total;
    CUdeviceptr small, large;
    pthread_t thread;

    client_init();
    reset = (__typeof__(reset))client_driver("cuDevicePrimaryCtxReset_v2");
    REQUIRE(reset);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&small, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&large, 256 << 20), CUDA_SUCCESS);
    REQUIRE_EQ(reset(0), CUDA_SUCCESS);
    REQUIRE(pthread_create(&thread, NULL, alloc_in_new_context, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(cu->cuMemFree_v2(large), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu->cuMemFree_v2(after_reset), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    CHECK_EQ(available, before);
}

/* The free memory that a context has which comes after the last release of the one that was there. */
static size_t free_after_the_last_release(void)
{
    size_t available = 0, total = 0;
    CUcontext context = NULL;

    REQUIRE_EQ(cu->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    return available;
}

/* What a context held is given back when it ends, and not only when its memory is asked about. */
TEST(r26_the_last_release_of_a_context_gives_its_memory_back)
{
    CUdeviceptr ptr = 0;
    size_t before;

    REQUIRE(setenv("KEDGE_POOL", "sync=mapped,meminfo=driver", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 2 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    before = free_after_the_last_release();
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 64 * MB), CUDA_SUCCESS);
        CHECK_EQ(free_after_the_last_release(), before);
        CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
    }
}

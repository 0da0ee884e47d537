/* SPDX-License-Identifier: MIT */
/* covers: onstream.c */
/*
 * What a call of kedge's own leaves as it was: the thread's capture mode (R13), the current context and its stack (R27). And
 * the one call that a free may make, where it is asked to be a barrier (R61).
 */
#include "tests/preload/client.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MB ((size_t)1 << 20)

enum {
    ROUNDS = 400,
    SLOTS = 12,
    DEVICES = 2,
    CONTEXTS = 3, /* the primary ones, and one more of device 0 */
};

static __typeof__(&cuThreadExchangeStreamCaptureMode) exchange;
static __typeof__(&cuCtxPushCurrent_v2) push;
static __typeof__(&cuCtxPopCurrent_v2) pop;

/* ---- R13 ------------------------------------------------------------------------------------ */

/* What kedge does on its own account; everything else in this test only asks. */
static const char *const upkeep[] = {"cuCtxRecordEvent", "cuEventRecord", "cuEventQuery",
        "cuEventSynchronize", "cuStreamWaitEvent", "cuCtxSynchronize", "cuMemAlloc_v2",
        "cuMemFree_v2", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease",
        "cuMemAddressReserve"};
static unsigned seen[sizeof upkeep / sizeof *upkeep];
static bool watching;

static CUstreamCaptureMode mode_here(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureMode old;

    CHECK_EQ(exchange(&mode), CUDA_SUCCESS);
    old = mode;
    CHECK_EQ(exchange(&mode), CUDA_SUCCESS);
    return old;
}

static void on_call(const char *call)
{
    if (!watching)
        return;
    for (size_t i = 0; i < sizeof upkeep / sizeof *upkeep; i++) {
        if (strcmp(call, upkeep[i]) != 0)
            continue;
        watching = false; /* the question is a call as well */
        if (mode_here() != CU_STREAM_CAPTURE_MODE_RELAXED)
            check_that(false, __FILE__, __LINE__, call);
        watching = true;
        seen[i]++;
    }
}

/* ---- a program that makes kedge grow, fence and trim ---------------------------------------- */

struct place {
    CUcontext context;
    CUstream stream;
};

struct held {
    CUdeviceptr ptr;
    bool ordered;
};

static struct place places[CONTEXTS];
static unsigned state = 5;

static unsigned pick(unsigned n)
{
    return (unsigned)rand_r(&state) % n;
}

static void prepare(void)
{
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    /* Full from time to time: then it waits, and takes what other contexts have over. */
    REQUIRE(setenv("KEDGE_POOL", "cap=40M", 1) == 0);
    client_init();
    exchange = (__typeof__(exchange))client_sim("cuThreadExchangeStreamCaptureMode");
    push = (__typeof__(push))client_sim("cuCtxPushCurrent_v2");
    pop = (__typeof__(pop))client_sim("cuCtxPopCurrent_v2");
    REQUIRE(exchange && push && pop);
    for (int i = 0; i < CONTEXTS; i++) {
        if (i < DEVICES)
            REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&places[i].context, i), CUDA_SUCCESS);
        else
            REQUIRE_EQ(cu->cuCtxCreate_v2(&places[i].context, 0, 0), CUDA_SUCCESS);
        if (i >= DEVICES) /* it stands above the others now */
            REQUIRE_EQ(pop(&places[i].context), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(places[i].context), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuStreamCreate(&places[i].stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
}

/* A block, in its own context, with work behind it; none where the device is full. */
static struct held take(int place)
{
    struct held h = {.ordered = pick(2)};
    size_t size = (size_t)(1 + pick(6)) * MB;
    CUresult r = h.ordered ? cu->cuMemAllocAsync(&h.ptr, size, places[place].stream)
                           : cu->cuMemAlloc_v2(&h.ptr, size);

    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return (struct held){0};
    CHECK_EQ(r, CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8Async(h.ptr, 1, size, places[place].stream), CUDA_SUCCESS);
    return h;
}

static void give(const struct held *h, int place)
{
    CHECK_EQ(h->ordered ? cu->cuMemFreeAsync(h->ptr, places[place].stream)
                        : cu->cuMemFree_v2(h->ptr),
            CUDA_SUCCESS);
}

static void trim(void)
{
    CUmemoryPool pool;

    for (int device = 0; device < DEVICES; device++) {
        CHECK_EQ(cu->cuDeviceGetDefaultMemPool(&pool, device), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    }
}

TEST(r13_a_call_of_ours_is_made_in_relaxed_mode_and_puts_it_back)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    struct held held[SLOTS] = {{0}};
    unsigned kinds = 0;

    REQUIRE(setenv("KEDGE_POOL", "cap=64M", 1)
            == 0); /* full from time to time: it waits and gives back */
    prepare();
    set_hook = (__typeof__(set_hook))client_sim("simcuda_set_call_hook");
    set_hook(on_call);
    for (int i = 0; i < ROUNDS; i++) {
        CUstreamCaptureMode wanted =
                i / 8 % 2 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_GLOBAL;
        CUstreamCaptureMode mode = wanted;
        struct held *h = &held[pick(SLOTS)];

        CHECK_EQ(exchange(&mode), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSetCurrent(places[0].context), CUDA_SUCCESS);
        if (i % 64 == 63)
            CHECK_EQ(cu->cuStreamSynchronize(places[0].stream), CUDA_SUCCESS);
        watching = true;
        if (h->ptr)
            give(h, 0), h->ptr = 0;
        else
            *h = take(0);
        if (i % 16 == 15)
            trim();
        watching = false;
        CHECK_EQ(mode_here(), wanted);
    }
    set_hook(NULL);
    for (size_t i = 0; i < sizeof upkeep / sizeof *upkeep; i++) {
        printf("%s %u\n", upkeep[i], seen[i]);
        kinds += seen[i] > 0;
    }
    CHECK_GE(kinds, 9);
}

/* ---- R27 ------------------------------------------------------------------------------------ */

TEST(r27_a_free_works_with_any_context_current_and_leaves_it_current)
{
    struct held held[SLOTS] = {{0}};
    int place[SLOTS] = {0};
    unsigned foreign = 0;
    unsigned without = 0;

    prepare();
    for (int i = 0; i < ROUNDS; i++) {
        unsigned slot = pick(SLOTS);
        struct held *h = &held[slot];
        CUcontext below = places[pick(CONTEXTS)].context;
        CUcontext current = NULL;
        CUcontext popped = NULL;
        CUcontext now = NULL;

        REQUIRE_EQ(cu->cuCtxSetCurrent(below), CUDA_SUCCESS);
        if (h->ptr) {
            /* none, its own, or the other device's; a stream-ordered free needs its own stream's */
            unsigned which = h->ordered ? (unsigned)place[slot] : pick(CONTEXTS + 1);

            current = which < CONTEXTS ? places[which].context : NULL;
            without += !current;
            foreign += current && which != (unsigned)place[slot];
        } else {
            place[slot] = (int)pick(CONTEXTS);
            current = places[place[slot]].context;
        }
        if (current)
            REQUIRE_EQ(push(current), CUDA_SUCCESS);
        else
            REQUIRE_EQ(cu->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
        if (h->ptr)
            give(h, place[slot]), h->ptr = 0;
        else
            *h = take(place[slot]);
        if (i % 32 == 31)
            trim();
        CHECK_EQ(cu->cuCtxGetCurrent(&now), CUDA_SUCCESS);
        CHECK_EQ((void *)now, (void *)current);
        if (!current)
            continue;
        CHECK_EQ(pop(&popped), CUDA_SUCCESS);
        CHECK_EQ((void *)popped, (void *)current);
        CHECK_EQ(cu->cuCtxGetCurrent(&now), CUDA_SUCCESS);
        CHECK_EQ((void *)now, (void *)below);
    }
    CHECK_GT(foreign, 10);
    CHECK_GT(without, 10);
    CHECK_GT(client_calls("cuCtxRecordEvent"), 0);
    CHECK_GT(client_calls("cuMemFree"), 10); /* segments of whatever context */
}

/* ---- R61 ------------------------------------------------------------------------------------ */

/* A copy to the host is on its way when another block is freed; what does the host see after the free? */
static unsigned char after_the_free(const char *barrier)
{
    CUdeviceptr source = 0;
    CUdeviceptr other = 0;
    CUstream stream;
    void *host;
    unsigned char byte;

    REQUIRE(setenv("KEDGE_SYNC_FREE", barrier, 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemHostAlloc(&host, 4096, 0), CUDA_SUCCESS);
    memset(host, 0, 4096);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&source, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&other, 4096), CUDA_SUCCESS);
    REQUIRE(client_is_pooled(other, 4096));
    CHECK_EQ(cu->cuMemsetD8Async(source, 0x5a, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoHAsync_v2(host, source, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(other), CUDA_SUCCESS);
    byte = ((volatile unsigned char *)host)[4095];
    CHECK_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(((volatile unsigned char *)host)[4095], 0x5a);
    return byte;
}

TEST(r61_r75_with_the_barrier_a_free_returns_after_earlier_work)
{
    CHECK_EQ(after_the_free("1"), 0x5a);
}

TEST(r61_r75_a_program_that_nobody_knows_has_the_barrier)
{
    CHECK_EQ(after_the_free("auto"), 0x5a);
}

TEST(r2_r61_without_the_barrier_a_free_waits_for_nothing)
{
    CHECK_EQ(after_the_free("0"), 0);
}

static CUstream captured;
static atomic_int phase; /* 0 nothing yet, 1 the capture runs, 2 it is to end */

static void begin_capture(CUstreamCaptureMode mode)
{
    CHECK_EQ(cu->cuStreamBeginCapture_v2(captured, mode), CUDA_SUCCESS);
    atomic_store(&phase, 1);
}

static void end_capture(void)
{
    CUgraph graph = NULL;

    CHECK_EQ(cu->cuStreamEndCapture(captured, &graph), CUDA_SUCCESS); /* not spoilt */
}

static void *capture_in_a_thread(void *unused)
{
    (void)unused;
    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    begin_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    while (atomic_load(&phase) != 2)
        (void)sched_yield();
    end_capture();
    return NULL;
}

/* As after_the_free, while a capture runs that does not forbid the free. `memory`: of the device, which is full then. */
static unsigned char after_the_free_beside(bool own, const char *memory)
{
    CUdeviceptr source = 0, other = 0, ptr;
    unsigned char *host = NULL;
    unsigned char byte;
    pthread_t thread;
    CUstream stream;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(!memory || setenv("SIMCUDA_MEMORY", memory, 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemHostAlloc((void **)&host, 4096, 0), CUDA_SUCCESS);
    host[4095] = 0;
    REQUIRE_EQ(cu->cuMemAlloc_v2(&source, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&other, 4096), CUDA_SUCCESS);
    REQUIRE(client_is_pooled(other, 4096));
    while (memory && cu->cuMemAlloc_v2(&ptr, 2 << 20) == CUDA_SUCCESS)
        ;
    if (own)
        begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    else
        REQUIRE(pthread_create(&thread, NULL, capture_in_a_thread, NULL) == 0);
    while (atomic_load(&phase) != 1)
        (void)sched_yield();
    CHECK_EQ(cu->cuMemsetD8Async(source, 0x5a, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemcpyDtoHAsync_v2(host, source, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(other), CUDA_SUCCESS);
    byte = ((volatile unsigned char *)host)[4095];
    atomic_store(&phase, 2);
    if (own)
        end_capture();
    else
        REQUIRE(pthread_join(thread, NULL) == 0);
    return byte;
}

TEST(r61_r75_a_free_waits_while_another_thread_captures)
{
    CHECK_EQ(after_the_free_beside(false, NULL), 0x5a);
}

TEST(r61_r75_a_free_waits_beside_a_relaxed_capture_of_its_thread)
{
    CHECK_EQ(after_the_free_beside(true, NULL), 0x5a);
}

TEST(r61_r75_a_free_waits_beside_a_capture_on_a_full_device)
{
    CHECK_EQ(after_the_free_beside(false, "64M"), 0x5a);
}

/* Nothing is asked of the whole context, which would spoil the capture. */
TEST(r10_r61_a_free_in_a_capture_does_not_spoil_it)
{
    CUdeviceptr ptr = 0;
    CUgraph graph = NULL;
    CUstream stream;
    uint64_t before;

    REQUIRE(setenv("KEDGE_SYNC_FREE", "1", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    before = client_calls("cuCtxSynchronize") + client_calls("cuEventSynchronize");
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuCtxSynchronize") + client_calls("cuEventSynchronize"), before);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS); /* not spoilt */
}

/* Nothing is asked beside a capture: what is over when it begins serves there, on a device that has nothing else. */
TEST(r10_what_was_freed_before_a_capture_serves_beside_it)
{
    CUstream far, stream;
    CUdeviceptr ptr, words;
    CUcontext other;
    CUgraph graph;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("SIMCUDA_MEMORY", "1G", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 600 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&far, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&words, MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(words, 1, MB, far), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS); /* waits for its own context */
    REQUIRE_EQ(cu->cuStreamSynchronize(far), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemAlloc_v2(&ptr, 600 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

/* SPDX-License-Identifier: MIT */
/* The world around: libraries that are left alone, frameworks, several runtimes, several devices, no memory. */
#include "tests/preload/client.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

typedef CUresult (*ask_fn)(__typeof__(&cuMemAlloc_v2), CUdeviceptr *, size_t);
typedef cudaError_t (*ask_runtime_fn)(void **, size_t);

static ask_fn asker(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    REQUIRE(library);
    return (ask_fn)dlsym(library, "ask");
}

/* R20, with stacks and without */
TEST(r20_r83_libraries_on_the_bypass_list_get_the_drivers_memory)
{
    CUdeviceptr ptr = 0;
    ask_fn ask;

    if (getenv("TEST_NO_STACKS"))
        REQUIRE(setenv("KEDGE_STACKS", "off", 1) == 0);
    REQUIRE(setenv("KEDGE_BYPASS", "libother*,libasking*", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK(client_is_pooled(ptr, 4096));
    ask = asker(ASKING_PATH);
    REQUIRE_EQ(ask(cu->cuMemAlloc_v2, &ptr, 4096), CUDA_SUCCESS);
    CHECK(!client_is_pooled(ptr, 4096));
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
}

/* Who called cudaMalloc is behind the runtime, with a stack or without one. */
static void check_behind_the_runtime(void)
{
    ask_runtime_fn ask;
    void *library;
    void *ptr = NULL;

    REQUIRE(setenv("KEDGE_BYPASS", "libasking_13*", 1) == 0);
    client_init();
    library = dlopen(ASKING_12_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    ask = (ask_runtime_fn)dlsym(library, "ask_runtime");
    REQUIRE(ask);
    REQUIRE_EQ(ask(&ptr, 4096), cudaSuccess);
    CHECK(client_is_pooled((CUdeviceptr)(uintptr_t)ptr, 4096)); /* on no list */
    library = dlopen(ASKING_13_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    ask = (ask_runtime_fn)dlsym(library, "ask_runtime");
    REQUIRE(ask);
    REQUIRE_EQ(ask(&ptr, 4096), cudaSuccess);
    CHECK(!client_is_pooled((CUdeviceptr)(uintptr_t)ptr, 4096));
}

TEST(r83_the_caller_is_found_behind_a_shared_runtime)
{
    check_behind_the_runtime();
}

TEST(r83_the_caller_is_found_behind_a_shared_runtime_without_stacks)
{
    REQUIRE(setenv("KEDGE_STACKS", "off", 1) == 0);
    check_behind_the_runtime();
}

/* ---- what is remembered of callers (R83) ---- */

static ask_runtime_fn opened_asker(const char *path, void **ret_library)
{
    ask_runtime_fn ask;

    *ret_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(*ret_library);
    ask = (ask_runtime_fn)dlsym(*ret_library, "ask_runtime");
    REQUIRE(ask);
    return ask;
}

static bool is_served(ask_runtime_fn ask)
{
    CUdeviceptr block;
    void *ptr = NULL;
    bool is_pooled;

    REQUIRE_EQ(ask(&ptr, 4096), cudaSuccess);
    block = (CUdeviceptr)(uintptr_t)ptr;
    is_pooled = client_is_pooled(block, 4096);
    REQUIRE_EQ(cu->cuMemFree_v2(block), CUDA_SUCCESS);
    return is_pooled;
}

/* Two libraries that are the same but for their names, one of them on the list; both ask the same runtime. */
static void begin_with_list(void)
{
    REQUIRE(setenv("KEDGE_BYPASS", "libasking_listed*", 1) == 0);
    REQUIRE(setenv("KEDGE_STACKS", "off", 1) == 0);
    client_init();
}

TEST(r83_a_library_of_the_list_that_comes_later_is_left_alone_behind_the_runtime)
{
    void *library;
    ask_runtime_fn ask;

    begin_with_list();
    ask = opened_asker(ASKING_13_PATH, &library);
    for (int i = 0; i < 5000; i++)
        REQUIRE(is_served(ask));
    CHECK(!is_served(opened_asker(ASKING_LISTED_PATH, &library)));
    for (int i = 0; i < 5000; i++)
        REQUIRE(is_served(ask));
    CHECK(!is_served(opened_asker(ASKING_LISTED_PATH, &library)));
}

/* Whoever calls the runtime by a pointer that dlsym gave comes through no export. */
TEST(r83_so_it_is_where_the_runtime_is_called_past_its_exports)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    __typeof__(&cudaMalloc) alloc;
    CUdeviceptr ptr = 0;

    REQUIRE(runtime);
    begin_with_list();
    alloc = (__typeof__(&cudaMalloc))dlsym(runtime, "cudaMalloc");
    REQUIRE(alloc);
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(asker(ASKING_13_PATH)((__typeof__(&cuMemAlloc_v2))alloc, &ptr, 4096), 0);
        CHECK(client_is_pooled(ptr, 4096));
        REQUIRE_EQ(asker(ASKING_LISTED_PATH)((__typeof__(&cuMemAlloc_v2))alloc, &ptr, 4096), 0);
        CHECK(!client_is_pooled(ptr, 4096));
    }
}

struct turn {
    pthread_barrier_t barrier;
    ask_runtime_fn ask;
    CUcontext context;
    bool is_served;
};

enum {
    TURNS = 8,
};

/* Another thread, which remembers what lay there before. */
static void *take_turns(void *data)
{
    struct turn *turn = data;

    REQUIRE_EQ(cu->cuCtxSetCurrent(turn->context), CUDA_SUCCESS);
    for (int i = 0; i < TURNS; i++) {
        (void)pthread_barrier_wait(&turn->barrier);
        for (int k = 0; k < 100; k++)
            turn->is_served = is_served(turn->ask);
        (void)pthread_barrier_wait(&turn->barrier);
    }
    return NULL;
}

TEST(r83_a_library_in_the_place_of_another_is_judged_by_its_own_name)
{
    struct turn turn = {.is_served = false};
    uintptr_t place = 0;
    pthread_t thread;
    int exchanged = 0;
    Dl_info info;

    (void)dlopen("libcudart.so.13",
            RTLD_NOW | RTLD_LOCAL); /* stays, so that only the askers come and go */
    begin_with_list();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&turn.context), CUDA_SUCCESS);
    REQUIRE_EQ(pthread_barrier_init(&turn.barrier, NULL, 2), 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, take_turns, &turn), 0);
    for (int i = 0; i < TURNS; i++) {
        void *library;

        turn.ask = opened_asker(i % 2 ? ASKING_LISTED_PATH : ASKING_13_PATH, &library);
        for (int k = 0; k < 100; k++)
            CHECK_EQ(is_served(turn.ask), i % 2 == 0);
        (void)pthread_barrier_wait(&turn.barrier);
        (void)pthread_barrier_wait(&turn.barrier);
        CHECK_EQ(turn.is_served, i % 2 == 0);
        REQUIRE(dladdr((void *)turn.ask, &info));
        exchanged += place == (uintptr_t)info.dli_fbase;
        place = (uintptr_t)info.dli_fbase;
        REQUIRE(dlclose(library) == 0);
    }
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    if (exchanged == 0)
        SKIP("the loader put each library elsewhere");
}

TEST(r83_the_stream_entrance_is_bypassed_too)
{
    void *library;
    CUresult (*ask)(__typeof__(&cuMemAllocAsync), CUdeviceptr *, size_t, CUstream);
    CUdeviceptr ptr = 0;
    CUstream stream;

    REQUIRE(setenv("KEDGE_BYPASS", "libasking*", 1) == 0);
    client_init();
    library = dlopen(ASKING_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    ask = (__typeof__(ask))dlsym(library, "ask_on_stream");
    REQUIRE(ask);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 0);
    REQUIRE_EQ(ask(cu->cuMemAllocAsync, &ptr, 4096, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 1);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 1);
}

TEST(a_library_that_nobody_names_is_served)
{
    CUdeviceptr ptr = 0;

    client_init();
    REQUIRE_EQ(asker(ASKING_PATH)(cu->cuMemAlloc_v2, &ptr, 4096), CUDA_SUCCESS);
    CHECK(client_is_pooled(ptr, 4096));
}

/* R75: a framework that is known not to use cudaFree as a barrier pays nothing for it. */
TEST(r75_a_known_framework_frees_without_a_wait)
{
    CUdeviceptr ptr = 0;

    client_init();
    REQUIRE(dlopen(FRAMEWORK_PATH, RTLD_NOW | RTLD_LOCAL));
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuCtxSynchronize") + client_calls("cuEventSynchronize"), 0);
}

TEST(r75_an_unknown_program_frees_with_a_wait)
{
    CUdeviceptr ptr = 0;

    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuEventSynchronize"), 1);
}

/* Each library gets the runtime that it is linked with, though both go through one export. */
TEST(two_runtimes_keep_their_callers_apart)
{
    void *with_13 = dlopen(ASKING_13_PATH, RTLD_NOW | RTLD_LOCAL);
    void *with_12 = dlopen(ASKING_12_PATH, RTLD_NOW | RTLD_LOCAL);
    ask_runtime_fn ask_13, ask_12;
    void *a = NULL, *b = NULL;
    void *runtime_13 = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *runtime_12 = dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*last_13)(void), (*last_12)(void);

    REQUIRE(with_13 && with_12 && runtime_13 && runtime_12);
    ask_13 = (ask_runtime_fn)dlsym(with_13, "ask_runtime");
    ask_12 = (ask_runtime_fn)dlsym(with_12, "ask_runtime");
    last_13 = (cudaError_t(*)(void))dlsym(runtime_13, "cudaGetLastError");
    last_12 = (cudaError_t(*)(void))dlsym(runtime_12, "cudaGetLastError");
    REQUIRE(ask_13 && ask_12 && last_13 && last_12);
    CHECK_EQ(ask_13(&a, 4096), cudaSuccess);
    CHECK_EQ(ask_12(&b, 4096), cudaSuccess);
    CHECK(a && b && a != b);
    /* each runtime keeps its own last error: it tells who was called */
    CHECK_EQ(ask_12(&b, SIZE_MAX / 2), cudaErrorMemoryAllocation);
    CHECK_EQ(last_13(), cudaSuccess);
    CHECK_EQ(last_12(), cudaErrorMemoryAllocation);
}

/* Without memory for ourselves we are not there; the program notices one line. */
TEST(without_memory_for_itself_kedge_steps_aside)
{
    struct rlimit limit = {1 * MB, RLIM_INFINITY}; /* less than is mapped: nothing more may be */
    CUcontext context = NULL;
    CUdeviceptr ptr = 0;

    if (!client_load())
        SKIP("no simulated driver");
    REQUIRE_EQ(cu->cuInit(0), CUDA_SUCCESS);
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    (void)cu->cuDevicePrimaryCtxRetain(&context, 0); /* where kedge starts */
    limit.rlim_cur = RLIM_INFINITY;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    if (!context)
        REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK(!client_is_pooled(ptr, 4096));
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
}

/* ---- two devices ---------------------------------------------------------------------------- */

static CUcontext context_of(CUdevice device)
{
    CUcontext context = NULL;

    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    return context;
}

static void two_devices(void)
{
    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    client_init();
}

/* R29, R30, R77: access that the program gives reaches memory that is there and memory that comes. */
TEST(r29_r77_access_given_to_a_peer_reaches_live_and_later_memory)
{
    CUmemAccessDesc desc;
    CUmemoryPool mempool;
    CUdeviceptr before, after, there;
    CUcontext second;
    CUstream stream;

    two_devices();
    second = context_of(1);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&before, 2 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(before, 0x21, 2 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = 1;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    REQUIRE_EQ(cu->cuMemPoolSetAccess(mempool, &desc, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&after, 64 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(after, 0x22, 64 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);

    REQUIRE_EQ(cu->cuCtxSetCurrent(second), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&there, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(before, 1, 1 * MB), CUDA_SUCCESS); /* by the second device */
    CHECK_EQ(cu->cuMemsetD8_v2(after, 1, 1 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS); /* a missing right is a sticky fault here */
}

/* The same, for storage that moves afterwards: what peers may use moves with it, and nothing is lost where it was. */
TEST(r77_access_given_to_a_peer_reaches_storage_that_moves)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr gone, stay, moved;
    CUmemoryPool mempool;
    CUcontext second;
    CUstream stream;

    REQUIRE(setenv("KEDGE_POOL", "remap=eager,trim=never", 1) == 0);
    two_devices();
    second = context_of(1);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&gone, 8 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&stay, 2 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 0), CUDA_SUCCESS);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = 1;
    REQUIRE_EQ(cu->cuMemPoolSetAccess(mempool, &desc, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(gone, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemUnmap"), 0);
    REQUIRE_EQ(cu->cuMemAllocAsync(&moved, 16 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemUnmap"), 1); /* of four slots side by side */
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);

    REQUIRE_EQ(cu->cuCtxSetCurrent(second), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(moved, 1, 16 * MB), CUDA_SUCCESS); /* by the second device */
    CHECK_EQ(cu->cuMemsetD8_v2(stay, 1, 2 * MB), CUDA_SUCCESS);
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* The same, for a pool that was named before anything came from it, from another device's context. */
TEST(r77_access_given_before_the_first_allocation_counts)
{
    CUmemAccessDesc desc;
    CUmemoryPool mempool;
    CUdeviceptr ptr;
    CUcontext second;
    CUstream stream;

    two_devices();
    second = context_of(1);
    REQUIRE_EQ(cu->cuDeviceGetDefaultMemPool(&mempool, 1), CUDA_SUCCESS);
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = 0;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    REQUIRE_EQ(cu->cuMemPoolSetAccess(mempool, &desc, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(second), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 2 * MB, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemAllocAsync"), 0);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 2 * MB), CUDA_SUCCESS); /* by the first device */
    CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
}

/* R27: a block of one device is freed while another one is current, and nothing else changes. */
TEST(r27_a_free_does_not_care_which_device_is_current)
{
    CUdeviceptr first, other;
    CUcontext second, current = NULL;

    two_devices();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&first, 1 * MB), CUDA_SUCCESS);
    second = context_of(1);
    REQUIRE_EQ(cu->cuCtxSetCurrent(second), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&other, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(first), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    CHECK_EQ(current, second);
    for (int i = 0; i < 100; i++) { /* the second device's heap never hands out the first one's */
        CUdeviceptr ptr;
        int device = -1;

        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 1 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
                CUDA_SUCCESS);
        CHECK_EQ(device, 1);
        REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    }
}

/* SPDX-License-Identifier: MIT */
/* The runtime over a driver that writes down what it is asked (runtime_fake_driver.h). */
#include "tests/check.h"
#include "tests/unit/sim/runtime_fake_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct fake *fake_find(void)
{
    static struct fake *f;

    if (!f) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);

        REQUIRE(driver);
        f = dlsym(driver, "fake");
        REQUIRE(f);
    }
    return f;
}

/* The calls since the last time this was asked. */
static const char *calls(void)
{
    static char text[sizeof(fake.calls)];
    struct fake *f = fake_find();

    memcpy(text, f->calls, sizeof(text));
    f->calls[0] = '\0';
    return text;
}

/* A context is there and its making is not in the log. */
static struct fake *begin(void)
{
    struct fake *f = fake_find();

    REQUIRE_EQ(cudaFree(NULL), cudaSuccess);
    (void)calls();
    return f;
}

TEST(driver_is_reached_as_the_real_runtime_reaches_it)
{
    static const char first[] = "dlsym:/0/0 dlsym:cuInit/2000/0 dlsym:cuGetProcAddress/11030/0 "
                                "dlsym:cuGetProcAddress/12000/0 name:";
    struct fake *f = fake_find();
    int count;

    CHECK_STR_EQ(f->look_ups, "");
    REQUIRE_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    CHECK_EQ(count, FAKE_DEVICES);
    CHECK_EQ(strncmp(f->look_ups, first, sizeof(first) - 1), 0);
    CHECK(!strstr(f->look_ups + sizeof(first), "dlsym:")); /* the one got by name from then on */
    CHECK(strstr(f->look_ups, " name:cuMemAlloc/3020/0 "));
    CHECK(strstr(f->look_ups, " name:cuMemFreeAsync/11020/0 name:cuMemFreeAsync/11020/2 "));
    CHECK(strstr(f->look_ups, " name:cuLaunchKernel/4000/0 name:cuLaunchKernel/7000/2 "));
    CHECK(strstr(f->look_ups, " name:cuStreamBeginCapture/10010/0 "));
    CHECK_STR_EQ(calls(), "cuInit cuDeviceGetCount "); /* and no context yet */
}

TEST(context_is_made_by_the_first_call_that_needs_one)
{
    void *p = NULL;
    int device = -1;

    REQUIRE_EQ(cudaGetDevice(&device), cudaSuccess);
    CHECK_EQ(device, 0);
    CHECK(!strstr(calls(), "cuDevicePrimaryCtxRetain"));
    REQUIRE_EQ(cudaMalloc(&p, 100), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuDevicePrimaryCtxRetain cuCtxSetCurrent cuMemAlloc_v2 birth/100/-1 ");
    REQUIRE_EQ(cudaFree(p), cudaSuccess);
    CHECK_STR_EQ(calls(), "death/1/-1 cuMemFree_v2 ");
}

TEST(nothing_is_allocated_for_0_bytes_and_null_is_freed_without_a_call)
{
    void *p = &p;

    (void)begin();
    CHECK_EQ(cudaMalloc(&p, 0), cudaSuccess);
    CHECK(p == NULL);
    CHECK_EQ(cudaFree(NULL), cudaSuccess);
    CHECK_EQ(cudaFreeAsync(NULL, NULL), cudaSuccess);
    CHECK_EQ(cudaMalloc(NULL, 8), cudaErrorInvalidValue);
    CHECK_STR_EQ(calls(), "");
}

TEST(witness_hears_of_each_block_with_its_stream)
{
    cudaStream_t stream;
    void *p = NULL;

    (void)begin();
    REQUIRE_EQ(cudaStreamCreate(&stream), cudaSuccess);
    REQUIRE_EQ(cudaMallocAsync(&p, 512, stream), cudaSuccess);
    REQUIRE_EQ(cudaFreeAsync(p, stream), cudaSuccess);
    CHECK_STR_EQ(calls(),
            "cuStreamCreate cuMemAllocAsync birth/512/4096 death/1/4096 "
            "cuMemFreeAsync ");
    /* in the per-thread form 0 is the thread's stream, in the plain one the legacy stream */
    REQUIRE_EQ(cudaMallocAsync_ptsz(&p, 512, NULL), cudaSuccess);
    REQUIRE_EQ(cudaFreeAsync_ptsz(p, NULL), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuMemAllocAsync_ptsz birth/512/2 death/1/2 cuMemFreeAsync_ptsz ");
    REQUIRE_EQ(cudaMallocAsync(&p, 512, NULL), cudaSuccess);
    REQUIRE_EQ(cudaFreeAsync(p, NULL), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuMemAllocAsync birth/512/0 death/1/0 cuMemFreeAsync ");
}

TEST(witness_does_not_hear_of_what_failed)
{
    struct fake *f = begin();
    cudaEvent_t event;
    void *p = &p;

    f->fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(cudaMalloc(&p, 512), cudaErrorMemoryAllocation);
    CHECK(p == NULL);
    CHECK_STR_EQ(calls(), "cuMemAlloc_v2 ");
    REQUIRE_EQ(cudaEventCreate(&event), cudaSuccess);
    REQUIRE_EQ(cudaEventRecord(event, NULL), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuEventCreate cuEventRecord step ");
    f->fail_next = CUDA_ERROR_INVALID_HANDLE;
    CHECK_EQ(cudaEventRecord(event, NULL), cudaErrorInvalidResourceHandle);
    CHECK_STR_EQ(calls(), "cuEventRecord ");
}

static void *other_thread(void *result)
{
    *(cudaError_t *)result = cudaPeekAtLastError();
    return NULL;
}

TEST(last_error_stays_until_it_is_asked_for_and_belongs_to_the_thread)
{
    struct fake *f = begin();
    cudaError_t other = cudaErrorUnknown;
    pthread_t thread;
    void *p;

    CHECK_EQ(cudaGetLastError(), cudaSuccess);
    f->fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(cudaMalloc(&p, 512), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess); /* a success does not clear it */
    CHECK_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    REQUIRE_EQ(pthread_create(&thread, NULL, other_thread, &other), 0);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(other, cudaSuccess);
    CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaGetLastError(), cudaSuccess);
    f->fail_next = CUDA_ERROR_NOT_READY;
    CHECK_EQ(cudaStreamQuery(NULL), cudaErrorNotReady);
    CHECK_EQ(cudaGetLastError(), cudaSuccess); /* "not ready" is an answer, no error */
    f->fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(cudaMalloc(&p, 512), cudaErrorMemoryAllocation);
    f->fail_next = CUDA_ERROR_NOT_READY;
    CHECK_EQ(cudaStreamQuery(NULL), cudaErrorNotReady);
    CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation); /* and replaces none */
    f->fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
    CHECK_EQ(cudaStreamQuery(NULL), cudaErrorIllegalAddress);
    CHECK_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

TEST(a_call_that_the_driver_has_not_says_that_it_is_too_old)
{
    cudaGraph_t graph;

    (void)begin();
    CHECK_EQ(cudaGraphCreate(&graph, 0), cudaErrorCallRequiresNewerDriver);
    CHECK_EQ(cudaMemPoolTrimTo(NULL, 0), cudaErrorCallRequiresNewerDriver);
    CHECK_EQ(cudaGetLastError(), cudaErrorCallRequiresNewerDriver);
}

TEST(direction_of_a_copy_chooses_the_call)
{
    char a[16] = "abc";
    char b[16] = "";

    (void)begin();
    CHECK_EQ(cudaMemcpy(b, a, 4, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_STR_EQ(b, "abc");
    CHECK_EQ(cudaMemcpy(b, a, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(cudaMemcpy(b, a, 4, cudaMemcpyDeviceToDevice), cudaSuccess);
    CHECK_EQ(cudaMemcpy(b, a, 4, cudaMemcpyDefault), cudaSuccess);
    CHECK_EQ(cudaMemcpy_ptds(b, a, 4, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaMemcpyAsync_ptsz(b, a, 4, cudaMemcpyDefault, NULL), cudaSuccess);
    CHECK_STR_EQ(calls(),
            "cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpy "
            "cuMemcpyHtoD_v2_ptds cuMemcpyAsync_ptsz ");
    CHECK_EQ(cudaMemcpy(b, a, 4, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    CHECK_STR_EQ(calls(), "");
}

TEST(rectangles_and_cuboids_arrive_as_they_were_meant)
{
    struct fake *f = begin();
    char host[64];
    char *device = host;
    struct cudaMemcpy3DParms p = {
            .srcPtr = {host, 8, 8, 2},
            .dstPtr = {device, 16, 8, 4},
            .dstPos = {1, 2, 3},
            .extent = {4, 2, 1},
            .kind = cudaMemcpyHostToDevice,
    };

    CHECK_EQ(cudaMemcpy2D(device, 16, host, 8, 4, 2, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(f->copy_2d.srcMemoryType, CU_MEMORYTYPE_HOST);
    CHECK_EQ(f->copy_2d.dstMemoryType, CU_MEMORYTYPE_DEVICE);
    CHECK(f->copy_2d.srcHost == host);
    CHECK_EQ(f->copy_2d.srcPitch, 8);
    CHECK_EQ(f->copy_2d.dstPitch, 16);
    CHECK_EQ(f->copy_2d.WidthInBytes, 4);
    CHECK_EQ(f->copy_2d.Height, 2);
    CHECK_EQ(cudaMemcpy2D(device, 16, host, 3, 4, 2, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
    CHECK_EQ(cudaMemcpy3D(&p), cudaSuccess);
    CHECK_EQ(f->copy_3d.dstXInBytes, 1);
    CHECK_EQ(f->copy_3d.dstY, 2);
    CHECK_EQ(f->copy_3d.dstZ, 3);
    CHECK_EQ(f->copy_3d.srcHeight, 2);
    CHECK_EQ(f->copy_3d.dstHeight, 4);
    CHECK_EQ(f->copy_3d.dstPitch, 16);
    p.srcArray = (cudaArray_t)(void *)host;
    CHECK_EQ(cudaMemcpy3D(&p), cudaErrorNotSupported);
}

TEST(a_cuboid_is_set_slice_by_slice)
{
    char memory[96]; /* 3 slices of 4 rows of 8 */
    struct cudaPitchedPtr ptr = {memory, 8, 6, 4};
    struct cudaExtent extent = {6, 2, 3};
    int ones = 0;

    (void)begin();
    memset(memory, 0, sizeof(memory));
    CHECK_EQ(cudaMemset3D(ptr, 1, extent), cudaSuccess);
    for (size_t i = 0; i < sizeof(memory); i++)
        ones += memory[i];
    CHECK_EQ(ones, 6 * 2 * 3);
    CHECK_EQ(memory[77], 1); /* the last one: slice 2, row 1, column 5 */
    CHECK_EQ(memory[16], 0); /* slice 0, row 2: beyond the extent's height */
}

TEST(pointers_that_the_driver_does_not_know_are_no_error)
{
    struct fake *f = begin();
    struct cudaPointerAttributes a;
    int x;

    f->pointer_type = (CUmemorytype)0;
    CHECK_EQ(cudaPointerGetAttributes(&a, &x), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeUnregistered);
    CHECK(a.hostPointer == &x);
    f->pointer_type = CU_MEMORYTYPE_DEVICE;
    CHECK_EQ(cudaPointerGetAttributes(&a, &x), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeDevice);
    CHECK(a.devicePointer == &x);
    CHECK_EQ(a.device, 1);
}

TEST(kernels_are_launched_by_handle_until_their_library_goes)
{
    struct fake *f = begin();
    cudaLibrary_t library;
    cudaKernel_t kernel;
    uint64_t sum = 0;
    uint32_t words[2] = {3, 4};
    uint64_t out = (uintptr_t)&sum;
    uint64_t src = (uintptr_t)words;
    uint64_t bytes = sizeof(words);
    void *args[] = {&out, &src, &bytes};
    dim3 grid = {2, 1, 1};
    dim3 block = {32, 1, 1};
    cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .dynamicSmemBytes = 7};

    REQUIRE_EQ(cudaLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    REQUIRE_EQ(cudaLibraryGetKernel(&kernel, library, "kedge_sum"), cudaSuccess);
    CHECK_EQ(cudaLaunchKernel((const void *)kernel, grid, block, args, 0, NULL), cudaSuccess);
    CHECK_EQ(sum, 3 * 1 + 4 * 2);
    CHECK_EQ(f->threads, 64);
    CHECK_EQ(cudaLaunchKernelExC(&config, (const void *)kernel, args), cudaSuccess);
    CHECK_EQ(f->launch.gridDimX, 2);
    CHECK_EQ(f->launch.blockDimX, 32);
    CHECK_EQ(f->launch.sharedMemBytes, 7);
    CHECK_EQ(cudaLaunchKernel(&sum, grid, block, args, 0, NULL), cudaErrorInvalidDeviceFunction);
    REQUIRE_EQ(cudaLibraryUnload(library), cudaSuccess);
    CHECK_EQ(cudaLaunchKernel((const void *)kernel, grid, block, args, 0, NULL),
            cudaErrorInvalidDeviceFunction);
}

static struct {
    cudaStream_t stream;
    cudaError_t status;
    int times;
} called_back;

static void callback(cudaStream_t stream, cudaError_t status, void *data)
{
    called_back.stream = stream;
    called_back.status = status;
    called_back.times += *(int *)data;
}

TEST(callbacks_get_the_programs_own_words)
{
    int one = 1;
    cudaStream_t stream;

    (void)begin();
    REQUIRE_EQ(cudaStreamCreate(&stream), cudaSuccess);
    CHECK_EQ(cudaStreamAddCallback(stream, callback, &one, 0), cudaSuccess);
    CHECK_EQ(called_back.times, 1);
    CHECK(called_back.stream == stream);
    CHECK_EQ(called_back.status, cudaErrorLaunchFailure);
    CHECK_EQ(cudaStreamAddCallback(stream, NULL, &one, 0), cudaErrorInvalidValue);
}

TEST(devices_are_bound_for_the_thread_and_anew_after_a_reset)
{
    int device = -1;

    (void)begin();
    CHECK_EQ(cudaSetDevice(FAKE_DEVICES), cudaErrorInvalidDevice);
    CHECK_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    CHECK_EQ(cudaGetDevice(&device), cudaSuccess);
    CHECK_EQ(device, 0);
    (void)calls();
    CHECK_EQ(cudaSetDevice(1), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuDeviceGetCount cuDevicePrimaryCtxRetain cuCtxSetCurrent ");
    CHECK_EQ(cudaGetDevice(&device), cudaSuccess);
    CHECK_EQ(device, 1);
    CHECK_EQ(cudaDeviceReset(), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuDevicePrimaryCtxReset_v2 ");
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxSynchronize ");
}

TEST(a_context_that_the_program_bound_itself_is_left_alone)
{
    CUresult (*retain)(CUcontext *, CUdevice) = NULL;
    CUresult (*set_current)(CUcontext) = NULL;
    CUcontext ctx;
    int device = -1;
    void *entry;

    (void)begin();
    REQUIRE_EQ(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxRetain", &entry, 7000, 0, NULL),
            cudaSuccess);
    memcpy(&retain, &entry, sizeof(entry));
    REQUIRE_EQ(cudaGetDriverEntryPointByVersion("cuCtxSetCurrent", &entry, 4000, 0, NULL),
            cudaSuccess);
    memcpy(&set_current, &entry, sizeof(entry));
    REQUIRE_EQ(retain(&ctx, 1), CUDA_SUCCESS);
    REQUIRE_EQ(set_current(ctx), CUDA_SUCCESS);
    (void)calls();
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_STR_EQ(calls(), "cuCtxSynchronize ");
    CHECK_EQ(cudaGetDevice(&device), cudaSuccess);
    CHECK_EQ(device, 1);
}

TEST(entry_points_come_from_the_look_up_that_was_got_by_name)
{
    enum cudaDriverEntryPointQueryResult status;
    struct fake *f = begin();
    void *entry = &entry;

    f->look_ups[0] = '\0';
    CHECK_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 3020, 0, &status), cudaSuccess);
    CHECK_EQ(status, cudaDriverEntryPointSuccess);
    CHECK(entry != NULL);
    CHECK_STR_EQ(f->look_ups, "name:cuMemAlloc/3020/0 ");
    CHECK_EQ(cudaGetDriverEntryPoint("cuNothing", &entry, 0, &status), cudaSuccess);
    CHECK_EQ(status, cudaDriverEntryPointSymbolNotFound);
    CHECK(entry == NULL);
}

TEST(private_tables_are_not_offered)
{
    const void *table = &table;
    cudaUUID_t id = {{0}};

    CHECK_EQ(cudaGetExportTable(&table, &id), cudaErrorSymbolNotFound);
    CHECK(table == NULL);
}

TEST(errors_have_names)
{
    CHECK_STR_EQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    CHECK_STR_EQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    CHECK_STR_EQ(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

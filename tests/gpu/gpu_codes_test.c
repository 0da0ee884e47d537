/* SPDX-License-Identifier: MIT */
/*
 * The codes of odd calls, alone and under kedge: tests/gpu/visit compares them line by line (R32, R35, R62). None of these harms a
 * context, so one program asks them all.
 */
#include "tests/gpu/gpu_device.h"

enum {
    MIB = 1 << 20,
};

#define CODE(name, call) gpu_fact("code." name, "%d", (int)gpu->call)

TEST(r35_wrong_frees_have_the_drivers_codes)
{
    const CUdeviceptr junk = 0x1234500;
    CUdeviceptr ptr = 0;
    CUdeviceptr other = 0;
    CUstream stream = NULL;

    gpu_init();
    REQUIRE_EQ(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr, 3 * MIB), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&other, 3000), CUDA_SUCCESS);
    CODE("free_interior", cuMemFree_v2(ptr + 4096));
    CODE("free_junk", cuMemFree_v2(junk));
    CODE("free", cuMemFree_v2(ptr));
    CODE("free_again", cuMemFree_v2(ptr));
    CHECK_EQ(gpu->cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
    CODE("free_small", cuMemFree_v2(other));
    CODE("free_small_again", cuMemFree_v2(other));
    REQUIRE_EQ(gpu->cuMemAllocAsync(&ptr, 3 * MIB, stream), CUDA_SUCCESS);
    CODE("free_async_interior", cuMemFreeAsync(ptr + 4096, stream));
    CODE("free_async_junk", cuMemFreeAsync(junk, stream));
    CODE("free_async", cuMemFreeAsync(ptr, stream));
    GPU_OK(cuStreamSynchronize(stream));
    CODE("free_async_again", cuMemFreeAsync(ptr, stream));
    CODE("free_after_free_async", cuMemFree_v2(ptr));
    GPU_OK(cuCtxSynchronize()); /* nothing of this was sticky */
}

TEST(r32_impossible_requests_have_the_drivers_codes)
{
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    size_t available, total, before;

    gpu_init();
    REQUIRE_EQ(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    GPU_OK(cuMemGetInfo_v2(&before, &total));
    CODE("alloc_more_than_there_is", cuMemAlloc_v2(&ptr, total + MIB));
    CODE("alloc_async_more_than_there_is", cuMemAllocAsync(&ptr, total + MIB, stream));
    CHECK_EQ(gpu->cuMemAlloc_v2(&ptr, total + MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CODE("alloc_everything", cuMemAlloc_v2(&ptr, SIZE_MAX));
    CODE("alloc_into_nowhere", cuMemAlloc_v2(NULL, MIB));
    GPU_OK(cuMemGetInfo_v2(&available, &total));
    CHECK(available + (size_t)64 * MIB >= before); /* no growth is left behind */
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr, MIB), CUDA_SUCCESS);
    CODE("after_that", cuMemFree_v2(ptr));
}

TEST(r32_questions_about_junk_have_the_drivers_codes)
{
    const CUdeviceptr junk = 0x1234500;
    CUdeviceptr base = 0;
    CUipcMemHandle handle;
    size_t size = 0;
    unsigned type = 0;

    gpu_init();
    CODE("range_of_junk", cuMemGetAddressRange_v2(&base, &size, junk));
    CODE("type_of_junk", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, junk));
    CODE("handle_of_junk", cuIpcGetMemHandle(&handle, junk));
    CODE("handle_of_null", cuIpcGetMemHandle(&handle, 0));
    CHECK_NE(gpu->cuIpcGetMemHandle(&handle, junk), CUDA_SUCCESS);
    GPU_OK(cuCtxSynchronize());
}

/* During a capture the driver says what is allowed, mode by mode (R11). */
TEST(r11_requests_during_a_capture_have_the_drivers_codes)
{
    static const struct {
        CUstreamCaptureMode mode;
        const char *name;
    } modes[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, "global"},
            {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread_local"},
            {CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed"}};
    CUstream stream = NULL;
    CUdeviceptr old = 0;

    gpu_init();
    REQUIRE_EQ(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr ptr = 0;
        CUgraph graph = NULL;
        CUresult alloc, release, end;
        char name[64];

        REQUIRE_EQ(gpu->cuMemAlloc_v2(&old, 40000), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuStreamBeginCapture_v2(stream, modes[i].mode), CUDA_SUCCESS);
        alloc = gpu->cuMemAlloc_v2(&ptr, 40000);
        end = gpu->cuStreamEndCapture(stream, &graph);
        (void)snprintf(name, sizeof name, "code.capture.%s.alloc", modes[i].name);
        gpu_fact(name, "%d, end %d", (int)alloc, (int)end);
        if (alloc == CUDA_SUCCESS)
            GPU_OK(cuMemFree_v2(ptr));
        if (end == CUDA_SUCCESS)
            GPU_OK(cuGraphDestroy(graph));
        /* A free of ours makes no driver call, so it is allowed where the driver's own is not. */
        REQUIRE_EQ(gpu->cuStreamBeginCapture_v2(stream, modes[i].mode), CUDA_SUCCESS);
        release = gpu->cuMemFree_v2(old);
        end = gpu->cuStreamEndCapture(stream, &graph);
        (void)snprintf(name, sizeof name, "code.capture.%s.free", modes[i].name);
        gpu_fact(name, "%d, end %d", (int)release, (int)end);
        if (release != CUDA_SUCCESS)
            GPU_OK(cuMemFree_v2(old));
        if (end == CUDA_SUCCESS)
            GPU_OK(cuGraphDestroy(graph));
    }
}

/* SPDX-License-Identifier: MIT */
/* The device reset, again and again, in the middle of things (R26, R76). */
#include "tests/gpu/gpu_device.h"

enum {
    RESETS = 20,
    MIB = 1 << 20,
};

/* Blocks of both allocation APIs that live, that are freed, and that are freed with work pending. */
static void mess_up(void)
{
    CUdeviceptr ptr[6] = {0};
    CUstream stream = NULL;

    REQUIRE_EQ(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++) {
        size_t size = (size_t)(i + 1) * MIB;

        REQUIRE_EQ(i % 2 ? gpu->cuMemAllocAsync(&ptr[i], size, stream)
                         : gpu->cuMemAlloc_v2(&ptr[i], size),
                CUDA_SUCCESS);
        GPU_OK(cuMemsetD8Async(ptr[i], (unsigned char)i, size, stream));
    }
    GPU_OK(cuMemFree_v2(ptr[2]));
    /* Stream-ordered memory survives a reset, so all of it is given back. */
    for (int i = 1; i < 6; i += 2)
        GPU_OK(cuMemFreeAsync(ptr[i], stream));
}

TEST(r26_r76_a_reset_leaves_nothing_behind)
{
    size_t free_bytes[RESETS];
    size_t total = 0;

    gpu_init();
    for (int i = 0; i < RESETS; i++) {
        CUcontext context = NULL;

        REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&context, gpu->device), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuCtxSetCurrent(context), CUDA_SUCCESS);
        mess_up();
        if (i % 2)
            GPU_OK(cuCtxSynchronize());
        REQUIRE_EQ(gpu->cuDevicePrimaryCtxReset_v2(gpu->device), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&context, gpu->device), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuCtxSetCurrent(context), CUDA_SUCCESS);
        GPU_OK(cuMemGetInfo_v2(&free_bytes[i], &total));
    }
    gpu_fact("lost_after_resets", "%lld",
            (long long)free_bytes[1] - (long long)free_bytes[RESETS - 1]);
    CHECK(free_bytes[RESETS - 1] + (size_t)64 * MIB >= free_bytes[1]);
}

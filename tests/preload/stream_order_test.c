/* SPDX-License-Identifier: MIT */
/* Which stream is which, and the order that CUDA gives to streams beside events (R69). */
#include "tests/preload/client.h"

#include <pthread.h>

#define MB ((size_t)1 << 20)

static void begin(const char *schedule)
{
    REQUIRE(setenv("SIMCUDA_SCHED", schedule, 1) == 0);
    client_init();
}

/* ---- which stream is which ------------------------------------------------------------------- */

static int device_of(CUdeviceptr ptr)
{
    int device = -1;

    REQUIRE_EQ(cu->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
            CUDA_SUCCESS);
    return device;
}

static CUdeviceptr on_default(bool own)
{
    CUdeviceptr ptr = 0;

    if (own)
        REQUIRE_EQ(cu->cuMemAllocAsync_ptsz(&ptr, 5 * MB, NULL), CUDA_SUCCESS);
    else
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 5 * MB, NULL), CUDA_SUCCESS);
    return ptr;
}

TEST(r69_default_streams_that_are_numbered_within_a_context_are_two)
{
    CUdeviceptr ptr[2][2];
    CUcontext context[2];

    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    REQUIRE(setenv("SIMCUDA_STREAM_IDS", "context", 1) == 0);
    begin("lazy");
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context[i], i), CUDA_SUCCESS);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            REQUIRE_EQ(cu->cuCtxSetCurrent(context[i]), CUDA_SUCCESS);
            for (int own = 0; own < 2; own++) {
                ptr[i][own] = on_default(own);
                CHECK_EQ(device_of(ptr[i][own]), i);
                CHECK_EQ(cu->cuMemsetD8Async(ptr[i][own], 1, 5 * MB,
                                 own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY),
                        CUDA_SUCCESS);
                CHECK_EQ(cu->cuMemFreeAsync(
                                 ptr[i][own], own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY),
                        CUDA_SUCCESS);
            }
            CHECK_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
        }
    CHECK_EQ(client_calls("cuMemAllocAsync") + client_calls("cuMemAllocAsync_ptsz"), 0);
}

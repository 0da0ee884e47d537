/* SPDX-License-Identifier: MIT */
/*
 * What an early release relies on (R57): a device that touches a range without storage, or without access, stops with an error
 * and does not read another tenant. Each in a process of its own, since the error ends a context.
 */
#include "tests/gpu/gpu_device.h"

enum range_state {
    RANGE_UNMAPPED,
    RANGE_NO_ACCESS,
};

static void touch(enum range_state state)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {
            .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range = 0;
    CUdeviceptr out = 0;
    size_t size = 0;
    CUresult r;

    gpu_init();
    REQUIRE_EQ(gpu->cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&out, 8), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8_v2(out, 0, 8));
    REQUIRE_EQ(gpu->cuMemAddressReserve(&range, size, 0, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemMap(range, size, 0, handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemSetAccess(range, size, &access, 1), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8_v2(range, 1, size));
    gpu_sum(out, range, size, NULL);
    GPU_OK(cuCtxSynchronize());

    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (state == RANGE_UNMAPPED)
        GPU_OK(cuMemUnmap(range, size));
    else
        GPU_OK(cuMemSetAccess(range, size, &access, 1));
    gpu_sum(out, range, size, NULL);
    r = gpu->cuCtxSynchronize();
    gpu_fact(state == RANGE_UNMAPPED ? "touch.unmapped" : "touch.no_access", "%d", (int)r);
    CHECK_EQ(r, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_NE(gpu->cuCtxSynchronize(), CUDA_SUCCESS); /* sticky */
}

static void touch_unmapped(void)
{
    touch(RANGE_UNMAPPED);
}

static void touch_no_access(void)
{
    touch(RANGE_NO_ACCESS);
}

TEST(r57_a_touch_of_a_range_without_storage_is_an_error)
{
    CHECK_EQ(gpu_in_a_process(touch_unmapped), 0);
}

TEST(r57_a_touch_of_a_range_without_access_is_an_error)
{
    CHECK_EQ(gpu_in_a_process(touch_no_access), 0);
}

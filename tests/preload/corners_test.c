/* SPDX-License-Identifier: MIT */
/* Where two rules meet: captures beside the stream entrance, pools and streams of different devices, access after a trim. */
#include "tests/preload/client.h"

#include <dlfcn.h>

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

/* R82: the quarantine of R12 is the sync entrance's. In stream order a free beside a capture is a free like any other. */
TEST(a_free_in_stream_order_beside_a_capture_is_not_lost)
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

static CUmemPoolProps pool_on(int device)
{
    CUmemPoolProps props;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

/* The device of the pool says where the memory is, not that of the stream. */
TEST(memory_of_a_pool_lies_on_the_pools_device)
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
TEST(access_reaches_what_a_trim_has_left)
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

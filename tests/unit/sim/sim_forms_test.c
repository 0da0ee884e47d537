/* SPDX-License-Identifier: MIT */
/* Kinds of memory and forms of calls beside the common ones: host, managed, arrays, host pools, old forms, attributes. */
#include "tests/unit/sim/sim_test.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- host memory ---- */

TEST(host_memory_tells_how_it_was_made_and_where_the_device_has_it)
{
    static unsigned char own[8192] __attribute__((aligned(4096)));
    void *host;
    CUdeviceptr ptr;
    unsigned flags = 0;

    sim_start();
    CU(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
    CU(cuMemHostGetFlags(&flags, host));
    CHECK_EQ(flags,
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP);
    CU(cuMemHostGetDevicePointer_v2(&ptr, (char *)host + 100, 0));
    CHECK_EQ(ptr, (CUdeviceptr)(uintptr_t)host + 100);
    CHECK_EQ(cuMemHostGetDevicePointer_v2(&ptr, host, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemHostGetDevicePointer_v2(&ptr, &flags, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(ptr, 0);
    CHECK_EQ(cuMemHostAlloc(&host, 4096, 64), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemHostRegister_v2(own, sizeof(own), CU_MEMHOSTREGISTER_PORTABLE));
    CHECK_EQ(cuMemHostRegister_v2(own + 4096, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CU(cuMemHostGetDevicePointer_v2(&ptr, own, 0));
    CU(sim_fill(ptr, 100, 5, NULL)); /* a kernel reaches it */
    CU(cuCtxSynchronize());
    CU(cuMemHostUnregister(own));
    CHECK_EQ(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST(sync_memops_has_the_host_wait)
{
    CUdeviceptr ptr;
    CUstream s;
    unsigned on = 1;
    bool is_on = false;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    ptr = sim_alloc(4 * MIB);
    s = sim_stream(0);
    CU(cuMemsetD8Async(ptr, 1, MIB, s));
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    CU(cuPointerGetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    CHECK(is_on);
    CU(cuMemsetD8Async(ptr, 1, MIB, s));
    CHECK_EQ(cuStreamQuery(s), CUDA_SUCCESS);
    CHECK_EQ(
            cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MAPPED, ptr), CUDA_ERROR_INVALID_VALUE);
}

/* ---- managed memory ---- */

TEST(advice_is_remembered_by_range)
{
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmem_range_attribute which[2] = {
            CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    CUdeviceptr ptr;
    int value = -9, list[2], both[2];
    void *values[2] = {&both[0], &both[1]};
    size_t rooms[2] = {4, 4};

    sim_start();
    CU(cuMemAllocManaged(&ptr, 8 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, 8 * MIB));
    CHECK_EQ(value, CU_DEVICE_INVALID);
    CU(cuMemAdvise_v2(ptr, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    CU(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, 4 * MIB));
    CHECK_EQ(value, 0);
    CU(cuMemRangeGetAttribute(
            &value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, ptr, 8 * MIB));
    CHECK_EQ(value, CU_MEM_LOCATION_TYPE_INVALID); /* not the same everywhere */
    CU(cuMemAdvise(ptr, 8 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    CU(cuMemAdvise(ptr, 8 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
    CU(cuMemRangeGetAttribute(list, 8, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, 8 * MIB));
    CHECK_EQ(list[0], 0);
    CHECK_EQ(list[1], CU_DEVICE_CPU);
    CU(cuMemAdvise_v2(ptr, 8 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    CU(cuMemPrefetchAsync_v2(ptr, 8 * MIB, host, 0, NULL));
    CU(cuMemRangeGetAttributes(values, rooms, which, 2, ptr, 8 * MIB));
    CHECK_EQ(both[0], 1);
    CHECK_EQ(both[1], CU_DEVICE_CPU);
    CHECK_EQ(cuMemRangeGetAttribute(&value, 3, which[0], ptr, MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemRangeGetAttribute(&value, 4, which[0], sim_alloc(100), 100),
            CUDA_ERROR_INVALID_VALUE);
    device.id = 5;
    CHECK_EQ(cuMemAdvise_v2(ptr, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST(batches_prefetch_and_discard_in_the_order_of_a_stream)
{
    CUmemLocation places[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUdeviceptr ptrs[2];
    size_t sizes[2] = {2 * MIB, 2 * MIB}, indices[2] = {0, 1};
    CUstream s;
    int value;

    sim_start();
    s = sim_stream(0);
    for (int i = 0; i < 2; i++)
        CU(cuMemAllocManaged(&ptrs[i], 2 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemPrefetchBatchAsync(ptrs, sizes, 2, places, indices, 2, 0, s));
    CU(cuMemRangeGetAttribute(
            &value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptrs[1], MIB));
    CHECK_EQ(value, CU_DEVICE_CPU);
    CHECK_EQ(cuMemPrefetchBatchAsync(ptrs, sizes, 2, places, indices, 2, 0, NULL),
            CUDA_ERROR_INVALID_VALUE); /* not on the default stream */
    indices[1] = 0;
    CHECK_EQ(cuMemPrefetchBatchAsync(ptrs, sizes, 2, places, indices, 2, 0, s),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuMemsetD8Async(ptrs[0], 7, 100, s));
    CU(cuMemDiscardBatchAsync(ptrs, sizes, 1, 0, s));
    CU(cuStreamSynchronize(s));
    CHECK_EQ(*(unsigned char *)(uintptr_t)ptrs[0], 0);
    CU(cuMemDiscardAndPrefetchBatchAsync(ptrs, sizes, 2, places, indices, 1, 0, s));
    CU(cuMemRangeGetAttribute(
            &value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptrs[1], MIB));
    CHECK_EQ(value, 0);
}

/* ---- arrays ---- */

TEST(arrays_of_several_levels_hold_bytes_and_tell_their_size)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {
            .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs, level_needs;
    CUmipmappedArray array;
    CUarrayMapInfo info = {0};
    CUarray level;
    unsigned in = 7, out = 0;

    sim_start();
    CU(cuMipmappedArrayCreate(&array, &desc, 3));
    CU(cuMipmappedArrayGetLevel(&level, array, 2));
    CU(cuArray3DGetDescriptor_v2(&desc, level));
    CHECK_EQ(desc.Width, 16);
    CU(cuMemcpyHtoA_v2(level, 0, &in, sizeof(in)));
    CU(cuMemcpyAtoH_v2(&out, level, 0, sizeof(out)));
    CHECK_EQ(out, 7);
    CU(cuArrayGetMemoryRequirements(&level_needs, level, 0));
    CU(cuMipmappedArrayGetMemoryRequirements(&needs, array, 0));
    CHECK_EQ(level_needs.size, 16 * 16 * 4);
    CHECK_EQ(needs.size, (64 * 64 + 32 * 32 + 16 * 16) * 4);
    CHECK_EQ(cuArrayGetMemoryRequirements(&needs, level, 5), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cuMipmappedArrayGetLevel(&level, array, 3), CUDA_ERROR_INVALID_VALUE);
    CU(cuMipmappedArrayGetLevel(&level, array, 0));
    CHECK_EQ(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* it is the mipmapped array's */
    CHECK_EQ(cuArrayGetPlane(&level, level, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemMapArrayAsync(&info, 1, NULL), CUDA_ERROR_NOT_SUPPORTED);
    CU(cuMipmappedArrayDestroy(array));
    CHECK_EQ(cuMipmappedArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(sim_figures().held[0], 0);
}

/* ---- pools of host memory ---- */

TEST(a_host_pool_takes_nothing_from_the_device)
{
    CUmemPoolProps props = {
            .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemoryPool pool, asked, fresh;
    CUdeviceptr ptr;
    int type;

    sim_start();
    CU(cuMemGetDefaultMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    CU(cuMemAllocFromPoolAsync(&ptr, 4 * MIB, pool, NULL));
    CU(cuMemsetD8_v2(ptr, 5, 4 * MIB));
    CU(cuCtxSynchronize());
    CHECK_EQ(*(unsigned char *)(uintptr_t)ptr, 5); /* the host reaches it */
    CHECK_EQ(sim_figures().held[0], 0);
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
    CHECK_EQ(type, CU_MEMORYTYPE_HOST);
    CU(cuMemFreeAsync(ptr, NULL));
    CU(cuMemPoolCreate(&fresh, &props));
    CU(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, fresh));
    CU(cuMemGetMemPool(&asked, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK_EQ(asked, fresh);
    CHECK_EQ(cuDeviceSetMemPool(0, fresh), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE); /* the default one */
    CU(cuMemPoolDestroy(fresh));
    CU(cuMemGetMemPool(&asked, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK_EQ(asked, pool);
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK_EQ(cuMemPoolCreate(&fresh, &props), CUDA_ERROR_INVALID_VALUE);
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    CHECK_EQ(cuMemPoolCreate(&fresh, &props), CUDA_ERROR_NOT_SUPPORTED);
    props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    CHECK_EQ(cuMemPoolCreate(&fresh, &props), CUDA_ERROR_INVALID_VALUE);
}

/* ---- forms of CUDA 2 ---- */

TEST(the_forms_with_32_bits_do_not_mix_with_a_context_of_today)
{
    CUdriverProcAddressQueryResult status;
    CUdeviceptr_v1 small;
    unsigned bytes = 0;
    void *address;
    CUcontext ctx;

    CHECK_EQ(cuMemAlloc(&small, 100), CUDA_ERROR_NOT_INITIALIZED);
    sim_start();
    CHECK_EQ(cuMemAlloc(&small, 100), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cuMemFree(0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cuMemcpyDtoD(0, 0, 1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cuCtxCreate(&ctx, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuStreamWaitValue32(NULL, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    CU(cuDeviceTotalMem(&bytes, 0));
    CHECK_EQ(bytes, UINT32_MAX); /* 80 GiB do not fit */
    CHECK_EQ(cuDeviceTotalMem(&bytes, 4), CUDA_ERROR_INVALID_DEVICE);
    CU(cuGetProcAddress_v2("cuMemAlloc", &address, 2000, 0, &status));
    CHECK_EQ(address, (void *)(uintptr_t)cuMemAlloc);
    CU(cuGetProcAddress_v2("cuMemAlloc", &address, 3019, 0, &status));
    CHECK_EQ(address, (void *)(uintptr_t)cuMemAlloc);
    CU(cuGetProcAddress_v2("cuMemAlloc", &address, 3020, 0, &status));
    CHECK_EQ(address, (void *)(uintptr_t)cuMemAlloc_v2);
}

/* ---- streams, contexts, devices ---- */

TEST(streams_keep_their_attributes)
{
    CUstreamAttrValue value = {0}, asked;
    CUstream s, other;
    int priority = -3;

    sim_start();
    s = sim_stream(0);
    other = sim_stream(0);
    memcpy(&value, &priority, sizeof(priority));
    CU(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    CU(cuStreamGetPriority(s, &priority));
    CHECK_EQ(priority, -3);
    value.pad[0] = 9;
    CU(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CU(cuStreamCopyAttributes(other, s));
    CU(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &asked));
    CHECK_EQ(asked.pad[0], 9);
    CHECK_EQ(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_context_that_is_attached_twice_is_destroyed_by_the_last)
{
    CUcontext ctx, again;
    CUdevprop properties;
    int support = 9;

    CU(cuInit(0));
    CU(cuCtxCreate_v2(&ctx, 0, 0));
    CU(cuCtxAttach(&again, 0));
    CHECK_EQ(again, ctx);
    CU(cuCtxDetach(ctx));
    CU(cuCtxSynchronize());
    CU(cuCtxDetach(ctx));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    CU(cuDeviceGetExecAffinitySupport(&support, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    CHECK_EQ(support, 0);
    CHECK_EQ(cuCtxCreate_v3(&ctx, NULL, 1, 0, 0), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    CU(cuCtxCreate_v3(&ctx, NULL, 0, 0, 0));
    CU(cuDeviceGetProperties(&properties, 0));
    CHECK_EQ(properties.SIMDWidth, 32);
    CHECK_EQ(cuDeviceGetProperties(&properties, 7), CUDA_ERROR_INVALID_DEVICE);
}

TEST(rare_questions_have_answers_and_refusals)
{
    CUexecAffinityParam affinity;
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr ptr;
    size_t bytes = 0;
    void *function;

    CHECK_EQ(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
            CUDA_ERROR_NOT_INITIALIZED);
    sim_start();
    CU(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    CHECK_EQ(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                     (CUflushGPUDirectRDMAWritesScope)5),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
            CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    CHECK_EQ(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_ERROR_INVALID_VALUE);
    CU(cuDeviceGetTexture1DLinearMaxWidth(&bytes, CU_AD_FORMAT_FLOAT, 1, 0));
    CHECK_GT(bytes, 0);
    CHECK_EQ(cuDeviceGetTexture1DLinearMaxWidth(&bytes, CU_AD_FORMAT_FLOAT, 1, 3),
            CUDA_ERROR_INVALID_DEVICE);
    CU(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, sim_function("kedge_fill"), 8, 64));
    CHECK_EQ(bytes, 166912 / 8);
    CHECK_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, sim_function("kedge_fill"), 0, 64),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuLibraryLoadData(&library, sim_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "kedge_fill"));
    CU(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
    CHECK_EQ(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 9), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cuKernelSetCacheConfig(NULL, CU_FUNC_CACHE_PREFER_L1, 0), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuLibraryGetManaged(&ptr, &bytes, library, "managed"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cuLibraryGetUnifiedFunction(&function, library, "function"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQ(cuLibraryGetUnifiedFunction(&function, NULL, "function"), CUDA_ERROR_INVALID_HANDLE);
}

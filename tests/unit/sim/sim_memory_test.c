/* SPDX-License-Identifier: MIT */
/* cuMemAlloc, pinned memory, pointer questions, the device's ledger. */
#include "tests/unit/sim/sim_test.h"

TEST(large_blocks_are_aligned_and_rounded_to_two_mib)
{
    CUdeviceptr a, base;
    size_t size;

    sim_start();
    a = sim_alloc(3 * MIB);
    CHECK_EQ(a % (2 * MIB), 0);
    CHECK_EQ(sim_figures().held[0], 4 * MIB);
    CU(cuMemGetAddressRange_v2(&base, &size, a + 1000));
    CHECK_EQ(base, a);
    CHECK_EQ(size, 3 * MIB);
    CU(cuMemFree_v2(a));
    CHECK_EQ(sim_figures().held[0], 0);
    CHECK_EQ(sim_figures().peak[0], 4 * MIB);
}

TEST(small_blocks_share_a_granule)
{
    CUdeviceptr a, b, c;

    sim_start();
    a = sim_alloc(100);
    b = sim_alloc(1000);
    c = sim_alloc(MIB);
    CHECK_EQ(b - a, 512);
    CHECK_EQ(c - b, 1024);
    CHECK_EQ(sim_figures().held[0], 2 * MIB);
    CU(cuMemFree_v2(b));
    CHECK_EQ(sim_alloc(513), b);
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
    CU(cuMemFree_v2(c));
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(bytes_survive_copies_and_sets)
{
    unsigned char out[4096], in[4096];
    CUdeviceptr a, b;

    sim_start();
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(i * 7);
    a = sim_alloc(sizeof(in));
    b = sim_alloc(8 * MIB);
    CU(cuMemcpyHtoD_v2(a, in, sizeof(in)));
    CU(cuMemcpyDtoD_v2(b + 5 * MIB, a, sizeof(in)));
    CU(cuMemsetD32_v2(b + 5 * MIB + 16, 0x01020304, 2));
    memset(out, 0, sizeof(out));
    CU(cuMemcpyDtoH_v2(out, b + 5 * MIB, sizeof(out)));
    CHECK_EQ(out[16], 4);
    CHECK_EQ(out[23], 1);
    memcpy(in + 16, out + 16, 8);
    CHECK(memcmp(in, out, sizeof(in)) == 0);
}

TEST(a_set_to_zero_is_seen_everywhere)
{
    unsigned char out[8192];
    CUdeviceptr a;

    sim_start();
    a = sim_alloc(4 * MIB);
    CU(cuMemsetD8_v2(a, 0xab, 4 * MIB));
    CU(cuMemsetD8_v2(a + 100, 0, 3 * MIB));
    CU(cuMemcpyDtoH_v2(out, a, sizeof(out)));
    CHECK_EQ(out[99], 0xab);
    CHECK_EQ(out[100], 0);
    CHECK_EQ(out[8191], 0);
    CU(cuMemcpyDtoH_v2(out, a + 3 * MIB, sizeof(out)));
    CHECK_EQ(out[99], 0);
    CHECK_EQ(out[100], 0xab);
}

static CUdeviceptr touched;

static void touch_freed(void)
{
    sim_start();
    touched = sim_alloc(4 * MIB);
    *(volatile char *)touched = 1;
    CU(cuMemFree_v2(touched));
    *(volatile char *)touched = 1;
}

static void touch_freed_page(void)
{
    sim_start();
    touched = sim_alloc(64 << 10);
    (void)sim_alloc(64 << 10);
    *(volatile char *)touched = 1;
    CU(cuMemFree_v2(touched));
    *(volatile char *)touched = 1;
}

/* Elements times their size, rows times their pitch: where a product or a sum has no 64 bits, nothing is written. */
TEST(counts_beyond_all_addresses_are_refused)
{
    const size_t huge = (size_t)1 << 62;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcPitch = (size_t)1 << 41,
            .dstPitch = (size_t)1 << 41,
            .WidthInBytes = (size_t)1 << 40,
            .Height = (size_t)1 << 40,
            .Depth = (size_t)1 << 40};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstXInBytes = 8,
            .WidthInBytes = SIZE_MAX,
            .Height = 1};
    CUDA_MEMSET_NODE_PARAMS node = {.elementSize = 4, .width = huge, .height = 1};
    CUgraphNode made;
    CUdeviceptr ptr;
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    unsigned char last[2] = {0, 0};

    sim_start();
    CU(cuCtxGetCurrent(&context));
    CU(cuMemAlloc_v2(&ptr, 4 * MIB));
    CU(cuMemsetD8_v2(ptr, 7, 4 * MIB));
    CU(cuStreamCreate(&stream, 0));
    CU(cuGraphCreate(&graph, 0));
    CHECK_EQ(cuMemsetD16_v2(ptr, 0, huge * 2), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD32_v2(ptr, 0, huge), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD32Async(ptr, 0, huge + 1, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD8_v2(ptr, 0, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD2D32_v2(ptr, (size_t)1 << 40, 0, huge, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD2D8_v2(ptr, huge, 0, 8, 5), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD2D8Async(ptr, huge, 0, 8, 5, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyDtoD_v2(ptr, ptr + 1, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyAsync(ptr, ptr + 1, SIZE_MAX, stream), CUDA_ERROR_INVALID_VALUE);
    copy.srcDevice = copy.dstDevice = rows.srcDevice = rows.dstDevice = node.dst = ptr;
    CHECK_EQ(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpy2D_v2(&rows), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddMemcpyNode(&made, graph, NULL, 0, &copy, context), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddMemsetNode(&made, graph, NULL, 0, &node, context), CUDA_ERROR_INVALID_VALUE);
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH_v2(&last[0], ptr, 1));
    CU(cuMemcpyDtoH_v2(&last[1], ptr + 4 * MIB - 1, 1));
    CHECK_EQ(last[0], 7);
    CHECK_EQ(last[1], 7);
}

TEST(freed_memory_faults)
{
    CHECK_EQ(sim_in_child(touch_freed), -SIGSEGV);
    CHECK_EQ(sim_in_child(touch_freed_page), -SIGSEGV);
}

TEST(wrong_frees_are_refused)
{
    CUdeviceptr a;

    sim_start();
    a = sim_alloc(4 * MIB);
    CHECK_EQ(cuMemFree_v2(0), CUDA_SUCCESS);
    CHECK_EQ(cuMemFree_v2(a + 512), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree_v2(a));
    CHECK_EQ(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(pinned_memory_is_known_and_pageable_memory_is_not)
{
    char stack[64];
    int type = 0;
    void *at;

    sim_start();
    CU(cuMemHostAlloc(&at, 1000, 0));
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)at + 10));
    CHECK_EQ(type, CU_MEMORYTYPE_HOST);
    CHECK_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)stack),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuMemHostRegister_v2(stack, sizeof(stack), 0));
    CHECK_EQ(cuMemHostRegister_v2(stack + 8, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)stack));
    CHECK_EQ(cuMemFreeHost(stack), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemHostUnregister(stack));
    CHECK_EQ(cuMemHostUnregister(stack), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CU(cuMemFreeHost(at));
}

TEST(pointer_attributes_tell_the_truth)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned long long start = 1, size = 1, first, second;
    bool managed = true, legacy = false;
    void *values[] = {&start, &size, &(int){0}, &managed};
    CUdeviceptr a, b;
    CUcontext ctx, of;

    ctx = sim_start();
    a = sim_alloc(5000);
    CU(cuPointerGetAttributes(4, which, values, a + 4999));
    CHECK_EQ(start, a);
    CHECK_EQ(size, 5000);
    CHECK(!managed);
    CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, a));
    CHECK_EQ(of, ctx);
    CU(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, a));
    CHECK(legacy);
    CU(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    CU(cuMemFree_v2(a));
    CU(cuPointerGetAttributes(4, which, values, a));
    CHECK_EQ(start, 0);
    b = sim_alloc(5000);
    CHECK_EQ(a, b);
    CU(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, b));
    CHECK_NE(first, second);
    CU(cuMemAllocManaged(&b, 4096, CU_MEM_ATTACH_GLOBAL));
    CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, b));
    CHECK(managed);
    *(volatile int *)b = 5;
    CU(cuMemFree_v2(b));
}

TEST(pitched_rows_are_aligned)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcPitch = 10,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .WidthInBytes = 10,
            .Height = 3};
    char in[30], out[30] = {0};
    size_t pitch;

    sim_start();
    memcpy(in, "0123456789abcdefghijABCDEFGHIJ", sizeof(in));
    CU(cuMemAllocPitch_v2(&copy.dstDevice, &pitch, 10, 3, 4));
    CHECK_EQ(pitch, 512);
    copy.srcHost = in;
    copy.dstPitch = pitch;
    CU(cuMemcpy2D_v2(&copy));
    CU(cuMemcpyDtoH_v2(out, copy.dstDevice + 2 * pitch, 10));
    CHECK(memcmp(out, "ABCDEFGHIJ", 10) == 0);
    copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
            .srcDevice = copy.dstDevice,
            .srcPitch = pitch,
            .srcY = 1,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = out,
            .dstPitch = 10,
            .WidthInBytes = 10,
            .Height = 2};
    CU(cuMemcpy2D_v2(&copy));
    CHECK(memcmp(out, in + 10, 20) == 0);
}

TEST(managed_memory_takes_advice_and_prefetches)
{
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0}, nowhere = {CU_MEM_LOCATION_TYPE_NONE, 0};
    CUdeviceptr a, plain;

    sim_start();
    CU(cuMemAllocManaged(&a, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    plain = sim_alloc(4 * MIB);
    CU(cuMemAdvise(a, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    CU(cuMemAdvise_v2(a, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    CHECK_EQ(cuMemAdvise(plain, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemAdvise(a, 5 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemAdvise(a, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 7), CUDA_ERROR_INVALID_DEVICE);
    CU(cuMemPrefetchAsync(a, 4 * MIB, CU_DEVICE_CPU, NULL));
    CU(cuMemPrefetchAsync_v2_ptsz(a, 4 * MIB, host, 0, NULL));
    CHECK_EQ(cuMemPrefetchAsync_v2(a, 4 * MIB, nowhere, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemPrefetchAsync(plain, MIB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CU(cuCtxSynchronize());
}

/* Where the pages are is the device's ledger, whatever the schedule: each step waits for the device. */
TEST(managed_memory_takes_of_the_device_what_is_there)
{
    struct simcuda_stats now;
    CUdeviceptr a, b;

    sim_start();
    CU(cuMemAllocManaged(&a, 7 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemAllocManaged(&b, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
    CHECK_EQ(sim_figures().held[0], 0);
    CU(cuMemsetD8_v2(a + 3 * MIB, 5, 2 * MIB)); /* the second and the third 2 MiB */
    CU(cuCtxSynchronize());
    now = sim_figures();
    CHECK_EQ(now.held[0], 4 * MIB);
    CHECK_EQ(now.page_faults, 2);
    CHECK_EQ(now.migrated_in_bytes, 0); /* they had no content */
    CU(cuMemPrefetchAsync(a, 7 * MIB, 0, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 8 * MIB);
    CU(cuMemPrefetchAsync(a + 2 * MIB, 5 * MIB, CU_DEVICE_CPU, NULL));
    CU(cuCtxSynchronize());
    now = sim_figures();
    CHECK_EQ(now.held[0], 2 * MIB);
    CHECK_EQ(now.migrated_out_bytes, 5 * MIB);
    CHECK_EQ(*(unsigned char *)(uintptr_t)(a + 4 * MIB), 5);
    CU(cuMemPrefetchAsync(a, 7 * MIB, 0, NULL));
    CU(cuMemsetD8_v2(a, 1, 7 * MIB));
    CU(cuCtxSynchronize());
    now = sim_figures();
    CHECK_EQ(now.migrated_in_bytes, 5 * MIB);
    CHECK_EQ(now.page_faults, 2);
    CHECK_EQ(now.peak[0], 8 * MIB);
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(a_full_device_sends_managed_pages_out_for_what_needs_room)
{
    struct simcuda_stats now;
    CUdeviceptr a, b, plain;

    REQUIRE(setenv("SIMCUDA_MEMORY", "8M", 1) == 0);
    sim_start();
    CU(cuMemAllocManaged(&a, 6 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemAllocManaged(&b, 12 * MIB, CU_MEM_ATTACH_GLOBAL)); /* more than there is */
    CU(cuMemsetD8_v2(a, 1, 6 * MIB));
    CU(cuMemsetD8_v2(a, 2, 2 * MIB));
    CU(cuCtxSynchronize());
    plain = sim_alloc(4 * MIB);
    now = sim_figures();
    CHECK_EQ(now.held[0], 8 * MIB);
    CHECK_EQ(now.pages_evicted, 1); /* there was room for one more */
    CHECK_EQ(now.migrated_out_bytes, 2 * MIB);
    CU(cuMemsetD8_v2(a, 3, 2 * MIB));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().page_faults, 3); /* the first one was used later than the others */
    CU(cuMemsetD8_v2(b, 4, 12 * MIB));      /* what finds no room is used where it is */
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 8 * MIB);
    CHECK_EQ(*(unsigned char *)(uintptr_t)(b + 11 * MIB), 4);
    CHECK_EQ(*(unsigned char *)(uintptr_t)(a + 5 * MIB), 1);
    CHECK_EQ(cuMemAlloc_v2(&plain, 6 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(sim_figures().held[0], 4 * MIB);
}

TEST(arrays_hold_rows_of_bytes)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 10, .Height = 3, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcPitch = 10,
            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
            .WidthInBytes = 10,
            .Height = 3};
    CUDA_ARRAY_DESCRIPTOR seen;
    char out[16] = {0};
    CUarray a, b;
    CUdeviceptr d;

    sim_start();
    CU(cuArrayCreate_v2(&a, &desc));
    CU(cuArrayCreate_v2(&b, &desc));
    CU(cuArrayGetDescriptor_v2(&seen, a));
    CHECK_EQ(seen.Height, 3);
    in.srcHost = "0123456789abcdefghijABCDEFGHIJ";
    in.dstArray = a;
    CU(cuMemcpy2D_v2(&in));
    in = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
            .srcArray = a,
            .srcXInBytes = 2,
            .srcY = 2,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = out,
            .WidthInBytes = 4,
            .Height = 1};
    CU(cuMemcpy2D_v2(&in));
    CHECK(memcmp(out, "CDEF", 4) == 0);
    d = sim_alloc(512);
    CU(cuMemcpyAtoD_v2(d, a, 3, 4));
    CU(cuMemcpyDtoA_v2(b, 1, d, 4));
    CU(cuMemcpyAtoA_v2(b, 6, a, 0, 2));
    CU(cuMemcpyHtoA_v2(b, 8, "xy", 2));
    CU(cuMemcpyAtoHAsync_v2(out, b, 0, 10, NULL));
    CHECK(memcmp(out,
                  "\0"
                  "3456"
                  "\0"
                  "01xy",
                  10)
            == 0);
    CU(cuArrayDestroy(a));
    CHECK_EQ(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuMemcpyAtoD_v2(d, a, 0, 4), CUDA_ERROR_INVALID_HANDLE);
    CU(cuArrayDestroy(b));
}

/* SPDX-License-Identifier: MIT */
/* Memory pools: the order of streams, reuse, figures, thresholds, trimming. */
#include "tests/unit/sim/sim_test.h"

#define CHUNK (32 * MIB)

static CUdeviceptr take(size_t size, CUstream stream)
{
    CUdeviceptr ptr;

    CU(cuMemAllocAsync(&ptr, size, stream));
    return ptr;
}

static CUmemoryPool pool(void)
{
    CUmemoryPool p;

    CU(cuDeviceGetDefaultMemPool(&p, 0));
    return p;
}

static cuuint64_t figure(CUmemPool_attribute which)
{
    cuuint64_t value;

    CU(cuMemPoolGetAttribute(pool(), which, &value));
    return value;
}

static void set_flag(CUmemPool_attribute which, int value)
{
    CU(cuMemPoolSetAttribute(pool(), which, &value));
}

static void keep_all(void)
{
    cuuint64_t all = UINT64_MAX;

    CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

TEST(figures_follow_the_calls)
{
    CUdeviceptr a, b;
    cuuint64_t zero = 0, one = 1;

    sim_start();
    keep_all();
    a = take(1000, NULL);
    b = take(MIB, NULL);
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024 + MIB);
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), CHUNK);
    CHECK_EQ(sim_figures().held[0], CHUNK);
    CU(cuMemFreeAsync(b, NULL));
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024);
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024 + MIB);
    CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024);
    CHECK_EQ(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero),
            CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFreeAsync(a, NULL));
    CHECK_EQ(cuMemFreeAsync(a, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemFreeAsync(sim_alloc(100), NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(free_chunks_above_the_threshold_go_back_when_the_program_waits)
{
    CUdeviceptr a, b;

    sim_start();
    a = take(40 * MIB, NULL);
    b = take(100, NULL);
    CHECK_EQ(sim_figures().held[0], 40 * MIB + CHUNK);
    CU(cuMemFreeAsync(a, NULL));
    CHECK_EQ(sim_figures().held[0], 40 * MIB + CHUNK);
    CU(cuStreamSynchronize(NULL));
    CHECK_EQ(sim_figures().held[0], CHUNK); /* the one that is still used */
    CU(cuMemFreeAsync(b, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(trim_keeps_what_it_was_told_to_keep)
{
    CUdeviceptr a, b;

    sim_start();
    keep_all();
    a = take(32 * MIB, NULL);
    b = take(64 * MIB, NULL);
    CU(cuMemFreeAsync(a, NULL));
    CU(cuMemFreeAsync(b, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 96 * MIB);
    CU(cuMemPoolTrimTo(pool(), 40 * MIB));
    CHECK_GE(sim_figures().held[0], 40 * MIB);
    CHECK_LT(sim_figures().held[0], 96 * MIB);
    CU(cuMemPoolTrimTo(pool(), 0));
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(one_stream_gets_its_own_memory_back_at_once)
{
    CUdeviceptr a, b, c;
    CUstream s, t;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    keep_all();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    a = take(MIB, s);
    CU(sim_fill(a, MIB, 1, s));
    CU(cuMemFreeAsync(a, s));
    b = take(MIB, s);
    CHECK_EQ(a, b);
    CU(cuMemFreeAsync(b, s));
    c = take(MIB, t); /* unordered: other bytes */
    CHECK_NE(b, c);
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().faults, 0);
}

TEST(an_allocation_is_an_operation_of_its_stream)
{
    unsigned char *host = NULL;
    CUstream first, second;
    CUdeviceptr from;

    setenv("SIMCUDA_SCHED", "lazy", 1);
    sim_start();
    CU(cuStreamCreate(&first, CU_STREAM_DEFAULT));
    CU(cuStreamCreate(&second, CU_STREAM_DEFAULT));
    CU(cuMemHostAlloc((void **)&host, MIB, 0));
    CU(cuMemAlloc_v2(&from, MIB));
    CU(cuMemsetD8Async(from, 7, MIB, first));
    CU(cuMemcpyDtoHAsync_v2(host, from, MIB, first));
    (void)take(
            MIB, NULL); /* the default stream: behind the first stream, and before the second one */
    CU(cuMemsetD8Async(from, 9, MIB, second));
    CU(cuStreamSynchronize(second));
    CHECK_EQ(host[0], 7);
    CHECK_EQ(host[MIB - 1], 7);
}

TEST(an_event_lets_another_stream_have_it)
{
    CUdeviceptr a, b;
    CUstream s, t;
    CUevent e;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    keep_all();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    a = take(MIB, s);
    CU(cuMemFreeAsync(a, s));
    CU(cuEventRecord(e, s));
    CU(cuStreamWaitEvent(t, e, 0));
    b = take(MIB, t);
    CHECK_EQ(a, b);
    CU(cuMemFreeAsync(b, t));
    set_flag(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
    CU(cuEventRecord(e, t));
    CU(cuStreamWaitEvent(s, e, 0));
    CHECK_NE(take(MIB, s), b);
}

TEST(memory_whose_free_has_run_is_for_everybody)
{
    CUdeviceptr a;
    CUstream s, t;

    sim_start(); /* eager: the free runs at once */
    keep_all();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    a = take(MIB, s);
    CU(cuMemFreeAsync(a, s));
    CHECK_EQ(take(MIB, t), a);
    CU(cuMemFreeAsync(a, t));
    set_flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
    CHECK_NE(take(MIB, s), a);
}

TEST(a_wait_is_put_in_before_the_device_is_out_of_memory)
{
    CUdeviceptr a, b;
    CUstream s, t;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_env("SIMCUDA_MEMORY", "64M");
    sim_start();
    keep_all();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    a = take(48 * MIB, s);
    CU(cuMemFreeAsync(a, s));
    set_flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
    CHECK_EQ(cuMemAllocAsync(&b, 48 * MIB, t), CUDA_ERROR_OUT_OF_MEMORY);
    set_flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
    CU(cuMemAllocAsync(&b, 48 * MIB, t));
    CHECK_EQ(a, b);
    CHECK_EQ(sim_figures().stream_waits, 1);
    CHECK_EQ(cuMemAllocAsync(&a, 48 * MIB, t), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemAllocAsync(&a, (size_t)1 << 50, t), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemAllocAsync(&a, SIZE_MAX, t), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(freed_pool_memory_may_not_be_touched)
{
    CUdeviceptr a;
    CUstream s;

    sim_start();
    keep_all();
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    a = take(MIB, s);
    CU(sim_fill(a, MIB, 1, s));
    CU(cuMemFreeAsync(a, s));
    CHECK_EQ(sim_fill(a, MIB, 1, s), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(cu_mem_free_frees_pool_memory)
{
    CUdeviceptr a;

    sim_start();
    keep_all();
    a = take(MIB, NULL);
    CU(cuMemFree_v2(a));
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    CHECK_EQ(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
}

TEST(created_pools_are_apart)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool mine, current, of;
    CUdeviceptr a;
    bool legacy = true;

    sim_start();
    CU(cuMemPoolCreate(&mine, &props));
    CU(cuMemAllocFromPoolAsync(&a, 100, mine, NULL));
    CHECK_EQ(figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    CHECK_EQ(of, mine);
    CU(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, a));
    CHECK(!legacy);
    CU(cuDeviceSetMemPool(0, mine));
    CU(cuDeviceGetMemPool(&current, 0));
    CHECK_EQ(current, mine);
    CU(cuMemPoolDestroy(mine)); /* with a block in it: the memory stays until that is freed */
    CHECK_EQ(cuMemPoolTrimTo(mine, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(sim_figures().held[0], CHUNK);
    CU(cuDeviceGetMemPool(&current, 0));
    CHECK_EQ(current, pool());
    CU(cuMemFreeAsync(a, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0);
    CHECK_EQ(cuMemPoolDestroy(pool()), CUDA_ERROR_INVALID_VALUE);
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    CHECK_EQ(cuMemPoolCreate(&mine, &props), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(pool_memory_survives_the_reset_of_its_context)
{
    CUdeviceptr plain, ordered;
    CUcontext ctx = sim_start();

    plain = sim_alloc(4 * MIB);
    ordered = take(MIB, NULL);
    CU(cuDevicePrimaryCtxReset_v2(0));
    CU(cuCtxSetCurrent(ctx));
    CHECK_EQ(cuMemFree_v2(plain), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(sim_figures().held[0], CHUNK);
    CU(cuMemsetD8_v2(ordered, 1, MIB));
    CU(cuMemFreeAsync(ordered, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(access_of_other_devices_is_the_pools)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags;
    CUcontext other;
    CUdeviceptr a;

    sim_env("SIMCUDA_DEVICES", "2");
    sim_start();
    a = take(MIB, NULL);
    CU(cuMemPoolGetAccess(&flags, pool(), &desc.location));
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CU(cuMemPoolSetAccess(pool(), &desc, 1));
    CU(cuMemPoolGetAccess(&flags, pool(), &desc.location));
    CHECK_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CU(cuDevicePrimaryCtxRetain(&other, 1));
    CU(cuCtxSetCurrent(other));
    CU(cuMemsetD8_v2(a, 1, MIB));
    CU(cuCtxSynchronize());
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CU(cuMemPoolSetAccess(pool(), &desc, 1));
    CU(cuMemsetD8_v2(a, 1, MIB));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

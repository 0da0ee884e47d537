/* SPDX-License-Identifier: MIT */
/* Devices, contexts, peers, resets: what lives where and dies with what. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>

static CUcontext retain(int device)
{
    CUcontext ctx;

    CU(cuDevicePrimaryCtxRetain(&ctx, device));
    CU(cuCtxSetCurrent(ctx));
    return ctx;
}

static unsigned long long id_of(CUcontext ctx)
{
    unsigned long long id;

    CU(cuCtxGetId(ctx, &id));
    return id;
}

TEST(reset_keeps_the_handle_and_nothing_else)
{
    unsigned long long before;
    CUdeviceptr a;
    CUstream s;
    CUevent e;
    CUcontext ctx = sim_start(), again;

    before = id_of(ctx);
    a = sim_alloc(4 * MIB);
    s = sim_stream(0);
    CU(cuEventCreate(&e, 0));
    (void)sim_function("kedge_fill");
    CU(cuDevicePrimaryCtxReset_v2(0));
    CHECK_EQ(sim_figures().held[0], 0);
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    again = retain(0);
    CHECK_EQ(ctx, again);
    CHECK_NE(id_of(again), before);
    CU(cuDevicePrimaryCtxRelease_v2(0));
    CU(cuDevicePrimaryCtxRelease_v2(0));
    CHECK_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void *current_in_thread(void *handle)
{
    CUcontext mine = handle, seen = handle;

    CU(cuCtxGetCurrent(&seen));
    CHECK_EQ(seen, NULL);
    CU(cuCtxSetCurrent(mine));
    return NULL;
}

TEST(each_thread_has_a_stack_of_contexts)
{
    CUcontext first, second, seen;
    pthread_t thread;
    CUdevice device;

    sim_env("SIMCUDA_DEVICES", "2");
    first = sim_start();
    CU(cuCtxCreate_v2(&second, 0, 1));
    CU(cuCtxGetCurrent(&seen));
    CHECK_EQ(seen, second);
    CU(cuCtxGetDevice(&device));
    CHECK_EQ(device, 1);
    CU(cuCtxPopCurrent_v2(&seen));
    CHECK_EQ(seen, second);
    CU(cuCtxGetCurrent(&seen));
    CHECK_EQ(seen, first);
    CU(cuCtxPushCurrent_v2(second));
    REQUIRE(pthread_create(&thread, NULL, current_in_thread, second) == 0);
    pthread_join(thread, NULL);
    CU(cuCtxDestroy_v2(second)); /* pops it, as it is current */
    CU(cuCtxGetCurrent(&seen));
    CHECK_EQ(seen, first);
    CHECK_EQ(cuCtxSetCurrent(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQ(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
    CHECK_EQ(cuDevicePrimaryCtxRetain(&seen, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST(memory_is_freed_from_any_context)
{
    CUdeviceptr a;
    CUcontext seen, other;

    sim_env("SIMCUDA_DEVICES", "2");
    sim_start();
    a = sim_alloc(4 * MIB);
    other = retain(1);
    CU(cuMemFree_v2(a));
    CU(cuCtxGetCurrent(&seen));
    CHECK_EQ(seen, other);
    CHECK_EQ(sim_figures().held[0], 0);
}

TEST(a_destroyed_context_takes_its_memory_and_finishes_its_work)
{
    CUcontext ctx, first;
    CUdeviceptr a, b;
    uint32_t word;

    sim_env("SIMCUDA_SCHED", "lazy");
    first = sim_start();
    b = sim_alloc(4096);
    CU(cuCtxCreate_v2(&ctx, 0, 0));
    a = sim_alloc(8 * MIB);
    CHECK_NE(a, b);
    CU(cuMemsetD32_v2(b, 77, 4)); /* memory of the other context, work of this one */
    CU(cuCtxDestroy_v2(ctx));
    CHECK_EQ(sim_figures().held[0], 2 * MIB);
    CU(cuCtxSetCurrent(first));
    CU(cuMemcpyDtoH_v2(&word, b, 4));
    CHECK_EQ(word, 77);
}

TEST(peers_need_access_for_kernels_and_not_for_copies)
{
    CUcontext first, second;
    CUdeviceptr a, b;
    uint32_t word;
    int can;

    sim_env("SIMCUDA_DEVICES", "2");
    first = sim_start();
    a = sim_alloc(4096);
    CU(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK_EQ(can, 1);
    second = retain(1);
    b = sim_alloc(4096);
    CHECK_EQ(sim_figures().held[1], 2 * MIB);
    CU(cuMemsetD32_v2(b, 5, 1024));
    CU(cuMemcpyPeer(a, first, b, second, 4096));
    CU(cuMemcpyDtoD_v2(a, b, 4096));
    CU(cuCtxSynchronize());
    CU(cuCtxEnablePeerAccess(first, 0));
    CHECK_EQ(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CHECK_EQ(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_DEVICE);
    CU(sim_fill(a, 4096, 1, NULL)); /* device 1 writes memory of device 0 */
    CU(cuMemcpyDtoH_v2(&word, a, 4));
    CHECK_NE(word, 5);
    CU(cuCtxDisablePeerAccess(first));
    CHECK_EQ(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CU(sim_fill(a, 4096, 1, NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU(cuCtxSetCurrent(first)); /* the other context is well */
    CU(cuCtxSynchronize());
}

TEST(access_to_a_peer_ends_with_either_context)
{
    CUcontext first, second, to, from;
    CUdeviceptr a;

    sim_env("SIMCUDA_DEVICES", "2");
    first = sim_start();
    a = sim_alloc(4096);
    CU(cuCtxCreate_v2(&to, 0, 0));
    CU(cuCtxCreate_v2(&from, 0, 1));
    CU(cuCtxEnablePeerAccess(first, 0));
    second = retain(1);
    CU(cuCtxEnablePeerAccess(first, 0));
    CU(cuCtxDestroy_v2(from)); /* takes nothing from the other one */
    CU(sim_fill(a, 4096, 1, NULL));
    CU(cuCtxSynchronize());
    CU(cuCtxEnablePeerAccess(to, 0));
    CU(cuCtxDisablePeerAccess(first));
    CU(sim_fill(a, 4096, 1, NULL));
    CU(cuCtxSynchronize());
    CU(cuCtxDestroy_v2(to));
    CU(cuCtxSetCurrent(second));
    CU(sim_fill(a, 4096, 1, NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(a_peer_copy_without_a_stream_is_in_order_with_both_contexts)
{
    CUcontext first, second;
    CUdeviceptr a, b;
    CUstream s;
    uint32_t word = 0;

    sim_env("SIMCUDA_DEVICES", "2");
    sim_env("SIMCUDA_SCHED", "lazy");
    first = sim_start();
    a = sim_alloc(512);
    second = retain(1);
    b = sim_alloc(512);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuMemsetD32Async(b, 5, 1, s));
    CU(cuCtxSetCurrent(first));
    CU(cuMemcpyPeer(a, first, b, second, 4));
    CU(cuCtxSetCurrent(second));
    CU(cuMemsetD32Async(b, 6, 1, s));
    CU(cuCtxSetCurrent(first));
    CU(cuMemcpyDtoHAsync_v2(&word, a, 4, CU_STREAM_PER_THREAD));
    CHECK_EQ(word, 5);
}

TEST(mapped_memory_needs_access_even_for_copies)
{
    CUmemAllocationProp prop = {
            .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUcontext first, second;
    CUdeviceptr va, b;

    sim_env("SIMCUDA_DEVICES", "2");
    first = sim_start();
    CU(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
    CU(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CU(cuMemMap(va, 2 * MIB, 0, handle, 0));
    CU(cuMemSetAccess(va, 2 * MIB, &own, 1));
    second = retain(1);
    b = sim_alloc(4096);
    CU(cuMemcpyPeer(b, second, va, first, 4096)); /* each side by its own device */
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoD_v2(b, va, 4096));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(devices_have_names_of_their_own)
{
    CUuuid first, second;
    char name[64];
    CUdevice device;
    int value;

    sim_env("SIMCUDA_DEVICES", "3");
    sim_start();
    CU(cuDeviceGetUuid_v2(&first, 0));
    CU(cuDeviceGetUuid_v2(&second, 2));
    CHECK(memcmp(&first, &second, sizeof(first)) != 0);
    CU(cuDeviceGetName(name, sizeof(name), 2));
    CHECK_STR_EQ(name, "Simulated device 2");
    CU(cuDeviceGetPCIBusId(name, sizeof(name), 2));
    CU(cuDeviceGetByPCIBusId(&device, name));
    CHECK_EQ(device, 2);
    CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    CHECK_EQ(value, 1);
    CHECK_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 3),
            CUDA_ERROR_INVALID_DEVICE);
}

static int attribute_of(CUdevice_attribute which)
{
    int value = -1;

    CU(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

TEST(a_device_is_of_the_capability_that_is_asked_for)
{
    int major, minor;

    sim_env("SIMCUDA_CAPABILITY", "8.9");
    sim_env("SIMCUDA_SMS", "128");
    sim_start();
    CU(cuDeviceComputeCapability(&major, &minor, 0));
    CHECK_EQ(major * 10 + minor, 89);
    CHECK_EQ(attribute_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
    CHECK_EQ(attribute_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 9);
    CHECK_EQ(attribute_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 128);
    CHECK_EQ(attribute_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR), 1536);
    CHECK_EQ(attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 99 << 10);
}

TEST(a_program_is_told_of_less_memory_than_there_is)
{
    size_t free_bytes, total;
    CUdeviceptr a;

    sim_env("SIMCUDA_MEMORY", "64M");
    sim_env("SIMCUDA_SHOWN", "16M");
    sim_start();
    CU(cuDeviceTotalMem_v2(&total, 0));
    CHECK_EQ(total, 16 << 20);
    CU(cuMemAlloc_v2(&a, 6 << 20));
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_EQ(free_bytes, 10 << 20);
    CHECK_EQ(total, 16 << 20);
    CU(cuMemAlloc_v2(&a, 20 << 20)); /* more than was told */
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_EQ(free_bytes, 0);
}

/* ---- other processes ---- */

static int to_importer[2], from_importer[2];

struct offer {
    CUipcMemHandle base, interior, small;
    size_t size;
};

static void importer(void)
{
    struct offer offer;
    CUdeviceptr a, again, small;
    char done = 1;

    sim_start();
    CHECK_EQ(read(to_importer[0], &offer, sizeof(offer)), sizeof(offer));
    CU(cuIpcOpenMemHandle_v2(&a, offer.base, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK_EQ(*(volatile char *)(a + MIB), 42);
    CHECK_EQ(*(volatile char *)(a + 3 * MIB), 0);
    *(volatile char *)(a + 3 * MIB) = 43;
    CU(cuIpcOpenMemHandle_v2(&again, offer.interior, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK_EQ(a, again); /* the interior pointer's handle is the base's */
    CU(cuIpcOpenMemHandle_v2(&small, offer.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK_EQ(*(volatile char *)small, 44);
    CU(cuMemsetD8_v2(small, 45, 1));
    CU(cuCtxSynchronize());
    CU(cuIpcCloseMemHandle(a));
    CU(cuIpcCloseMemHandle(a)); /* opened twice */
    CHECK_EQ(cuIpcCloseMemHandle(a), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(write(from_importer[1], &done, 1), 1);
}

static void exporter(void)
{
    struct offer offer = {0};
    CUdeviceptr a, small, opened;
    char done;

    sim_start();
    a = sim_alloc(4 * MIB);
    (void)sim_alloc(512);
    small = sim_alloc(512);
    CU(cuMemsetD8_v2(a + MIB, 42, 1));
    CU(cuMemsetD8_v2(small, 44, 1));
    CU(cuCtxSynchronize());
    CU(cuIpcGetMemHandle(&offer.base, a));
    CU(cuIpcGetMemHandle(&offer.interior, a + 3 * MIB));
    CU(cuIpcGetMemHandle(&offer.small, small));
    CHECK(memcmp(&offer.base, &offer.interior, sizeof(offer.base)) == 0);
    CHECK_EQ(*(volatile char *)(a + MIB), 42);
    CHECK_EQ(cuIpcOpenMemHandle_v2(&opened, offer.base, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQ(write(to_importer[1], &offer, sizeof(offer)), sizeof(offer));
    CHECK_EQ(read(from_importer[0], &done, 1), 1);
    CHECK_EQ(*(volatile char *)(a + 3 * MIB), 43);
    CHECK_EQ(*(volatile char *)small, 45);
    CU(cuMemAllocAsync(&a, 512, NULL));
    CHECK_EQ(cuIpcGetMemHandle(&offer.base, a), CUDA_ERROR_INVALID_VALUE);
}

TEST(r60_an_interior_pointer_shares_its_base_with_another_process)
{
    int status;
    pid_t pid;

    REQUIRE(pipe(to_importer) == 0 && pipe(from_importer) == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        importer();
        _exit(atomic_load(&check_state.failures) ? 1 : 0);
    }
    exporter();
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(default_streams_are_numbered_within_a_context_by_a_switch)
{
    unsigned long long legacy[2], own[2], made[2];
    CUcontext ctx[2];
    CUstream stream;

    sim_env("SIMCUDA_STREAM_IDS", "context");
    ctx[0] = sim_start();
    CU(cuCtxCreate_v2(&ctx[1], 0, 0));
    for (int i = 0; i < 2; i++) {
        CU(cuCtxSetCurrent(ctx[i]));
        CU(cuStreamGetId(NULL, &legacy[i]));
        CU(cuStreamGetId_ptsz(NULL, &own[i]));
        CU(cuStreamCreate(&stream, 0));
        CU(cuStreamGetId(stream, &made[i]));
    }
    CHECK_EQ(legacy[0], legacy[1]);
    CHECK_EQ(own[0], own[1]);
    CHECK_NE(legacy[0], own[0]);
    CHECK_NE(made[0], made[1]); /* those of created streams are the process's */
    CHECK(made[0] > own[0] && made[1] > own[0]);
}

TEST(there_are_more_than_sixty_four_contexts)
{
    enum {
        CONTEXTS = 300
    };
    static CUcontext ctx[CONTEXTS];
    CUdeviceptr ptr;

    (void)sim_start();
    for (int i = 0; i < CONTEXTS; i++)
        CU(cuCtxCreate_v2(&ctx[i], 0, 0));
    for (int i = 0; i < CONTEXTS; i++) {
        CU(cuCtxSetCurrent(ctx[i]));
        CU(cuMemAllocAsync(&ptr, 4096, NULL));
        CU(cuMemFreeAsync(ptr, NULL));
    }
    for (int i = CONTEXTS - 1; i >= 0; i--)
        CU(cuCtxDestroy_v2(ctx[i]));
}

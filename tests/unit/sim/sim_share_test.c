/* SPDX-License-Identifier: MIT */
/* Memory, events and pools of several processes. */
#include "tests/unit/sim/sim_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

/* What the two processes tell each other, and the pipes that they do it by. */
struct message {
    CUipcMemHandle memory, inner;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
    int pid, fd;
};

static int to_child[2], to_parent[2];

static void tell(const int *pipe_ends, const void *what, size_t size)
{
    REQUIRE_EQ(write(pipe_ends[1], what, size), (ssize_t)size);
}

static void hear(const int *pipe_ends, void *what, size_t size)
{
    REQUIRE_EQ(read(pipe_ends[0], what, size), (ssize_t)size);
}

/* The other process's descriptor as one of our own. */
static int their_fd(const struct message *message)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", message->pid, message->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    return fd;
}

/* Runs `child` in a process of its own, which hears us and tells us. Nothing of CUDA before this. */
static pid_t other_process(void (*child)(void))
{
    REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        child();
        _exit(atomic_load(&check_state.failures) ? 1 : 0);
    }
    return pid;
}

static void join(pid_t pid)
{
    int status;

    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

static unsigned byte_at(CUdeviceptr ptr)
{
    unsigned char value;

    CU(cuMemcpyDtoH_v2(&value, ptr, 1));
    return value;
}

/* ---- plain memory ---- */

static void open_memory(void)
{
    struct message message;
    CUdeviceptr base, inner, again;
    char done = 1;

    hear(to_child, &message, sizeof(message));
    sim_start();
    CU(cuIpcOpenMemHandle_v2(&base, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenMemHandle_v2(&inner, message.inner, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK_EQ(inner, base); /* what was exported by an interior pointer is the base */
    CHECK_EQ(byte_at(base), 7);
    CHECK_EQ(byte_at(base + MIB), 8);
    CU(cuMemsetD8_v2(base, 9, 1));
    CU(cuCtxSynchronize());
    CU(cuIpcCloseMemHandle(inner));
    CHECK_EQ(byte_at(base), 9); /* opened twice, closed once */
    CU(cuIpcCloseMemHandle(base));
    CHECK_EQ(cuIpcCloseMemHandle(base), CUDA_ERROR_INVALID_VALUE);
    memset(&message.memory, 0, sizeof(message.memory));
    CHECK_EQ(cuIpcOpenMemHandle_v2(&again, message.memory, 1), CUDA_ERROR_INVALID_VALUE);
    tell(to_parent, &done, 1);
}

TEST(r60_an_interior_pointer_exports_its_base_to_another_process)
{
    pid_t pid = other_process(open_memory);
    struct message message = {0};
    CUdeviceptr ptr;
    char done;

    sim_start();
    ptr = sim_alloc(4 * MIB);
    CU(cuMemsetD8_v2(ptr, 7, MIB));
    CU(cuMemsetD8_v2(ptr + MIB, 8, MIB));
    CU(cuCtxSynchronize());
    CU(cuIpcGetMemHandle(&message.memory, ptr));
    CU(cuIpcGetMemHandle(&message.inner, ptr + MIB));
    CHECK(memcmp(&message.memory, &message.inner, sizeof(message.memory)) == 0);
    CHECK_EQ(cuIpcOpenMemHandle_v2(&ptr, message.memory, 1), CUDA_ERROR_INVALID_CONTEXT);
    tell(to_child, &message, sizeof(message));
    hear(to_parent, &done, 1);
    join(pid);
    CHECK_EQ(byte_at(ptr), 9);
}

/* ---- events ---- */

static void wait_for_event(void)
{
    struct message message;
    CUdeviceptr base;
    CUevent event;
    CUstream s;
    char step;

    hear(to_child, &message, sizeof(message));
    sim_start();
    CU(cuIpcOpenMemHandle_v2(&base, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenEventHandle(&event, message.event));
    CHECK_EQ(cuEventQuery(event), CUDA_SUCCESS); /* never recorded */
    step = 1;
    tell(to_parent, &step, 1);
    hear(to_child, &step, 1); /* recorded now */
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamWaitEvent(s, event, 0));
    CU(cuMemcpyDtoDAsync_v2(base + 1, base, 1, s));
    CU(cuStreamSynchronize(s));
    CHECK_EQ(byte_at(base + 1), 5);
    CU(cuEventSynchronize(event));
    /* a record of ours is one for the other process */
    CU(cuEventRecord(event, s));
    tell(to_parent, &step, 1);
}

TEST(r60_events_order_the_work_of_two_processes)
{
    pid_t pid = other_process(wait_for_event);
    struct message message = {0};
    CUdeviceptr ptr;
    CUevent event, plain;
    CUstream s;
    char step;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    ptr = sim_alloc(4 * MIB);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    CHECK_EQ(cuIpcGetEventHandle(&message.event, plain), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CU(cuIpcGetEventHandle(&message.event, event));
    CHECK_EQ(cuIpcOpenEventHandle(&plain, message.event), CUDA_ERROR_INVALID_CONTEXT);
    CU(cuIpcGetMemHandle(&message.memory, ptr));
    tell(to_child, &message, sizeof(message));
    hear(to_parent, &step, 1);
    CU(cuMemsetD8Async(ptr, 5, 1, s));
    CU(cuEventRecord(event, s));
    tell(to_child, &step, 1);
    hear(to_parent, &step, 1);
    CU(cuEventSynchronize(event));
    CHECK_EQ(cuEventQuery(event), CUDA_SUCCESS);
    CHECK_EQ(byte_at(ptr + 1), 5);
    join(pid);
}

/* A host function of the one process that ends when the other says so: until then the record is not done. */
static void wait_for_the_other(void *unused)
{
    char step;

    (void)unused;
    hear(to_parent, &step, 1);
}

static void wait_before_it_is_done(void)
{
    struct message message;
    CUdeviceptr base;
    CUevent event;
    CUstream s;
    char step = 1;

    hear(to_child, &message, sizeof(message));
    sim_start();
    CU(cuIpcOpenMemHandle_v2(&base, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenEventHandle(&event, message.event));
    while (cuEventQuery(event) == CUDA_SUCCESS)
        (void)usleep(1000); /* not recorded yet */
    CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamWaitEvent(s, event, 0));
    CU(cuMemcpyDtoDAsync_v2(base + 1, base, 1, s));
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    tell(to_parent, &step, 1);
    CU(cuStreamSynchronize(s));
    CHECK_EQ(byte_at(base + 1), 5);
    CU(cuEventSynchronize(event));
}

TEST(r60_a_stream_waits_for_the_work_of_another_process)
{
    pid_t pid = other_process(wait_before_it_is_done);
    struct message message = {0};
    CUdeviceptr ptr;
    CUevent event;
    CUstream s;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    ptr = sim_alloc(4 * MIB);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CU(cuIpcGetEventHandle(&message.event, event));
    CU(cuIpcGetMemHandle(&message.memory, ptr));
    tell(to_child, &message, sizeof(message));
    CU(cuLaunchHostFunc(s, wait_for_the_other, NULL));
    CU(cuMemsetD8Async(ptr, 5, 1, s));
    CU(cuEventRecord(event, s)); /* returns when the host function has */
    CHECK_EQ(cuEventQuery(event), CUDA_SUCCESS);
    join(pid);
    CHECK_EQ(byte_at(ptr + 1), 5);
}

/* ---- handles of physical memory ---- */

static CUmemAllocationProp shared_prop(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static CUdeviceptr map_handle(CUmemGenericAllocationHandle handle, size_t size)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr ptr;

    CU(cuMemAddressReserve(&ptr, size, 0, 0, 0));
    CU(cuMemMap(ptr, size, 0, handle, 0));
    CU(cuMemSetAccess(ptr, size, &access, 1));
    return ptr;
}

static void import_handle(void)
{
    CUmemGenericAllocationHandle handle;
    struct message message;
    CUdeviceptr ptr;
    char done = 1;

    hear(to_child, &message, sizeof(message));
    sim_start();
    int fd = their_fd(&message);
    CU(cuMemImportFromShareableHandle(
            &handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    ptr = map_handle(handle, 4 * MIB);
    CHECK_EQ(byte_at(ptr + 3), 6);
    CU(cuMemsetD8_v2(ptr, 4, 1));
    CU(cuCtxSynchronize());
    CHECK_EQ(sim_figures().held[0], 0); /* it counts where it was made */
    tell(to_parent, &done, 1);
}

TEST(physical_memory_is_shared_by_a_descriptor)
{
    pid_t pid = other_process(import_handle);
    CUmemAllocationProp prop = shared_prop();
    CUmemGenericAllocationHandle handle;
    struct message message = {.pid = getpid()};
    CUdeviceptr ptr;
    char done;

    sim_start();
    CU(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    ptr = map_handle(handle, 4 * MIB);
    CU(cuMemsetD8_v2(ptr, 6, 8));
    CU(cuCtxSynchronize());
    CU(cuMemExportToShareableHandle(
            &message.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    tell(to_child, &message, sizeof(message));
    hear(to_parent, &done, 1);
    join(pid);
    CHECK_EQ(byte_at(ptr), 4);
}

/* ---- pools ---- */

static void import_pool(void)
{
    CUmemPoolPtrExportData wrong;
    struct message message;
    CUmemoryPool pool;
    CUdeviceptr ptr, none;
    char done = 1;

    hear(to_child, &message, sizeof(message));
    sim_start();
    int fd = their_fd(&message);
    CU(cuMemPoolImportFromShareableHandle(
            &pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemPoolImportPointer(&ptr, pool, &message.pointer));
    CHECK_EQ(byte_at(ptr), 3);
    CU(cuMemsetD8_v2(ptr, 2, 1));
    CU(cuCtxSynchronize());
    CHECK_EQ(cuMemAllocFromPoolAsync(&none, 100, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    wrong = message.pointer;
    wrong.reserved[0] ^= 1;
    CHECK_EQ(cuMemPoolImportPointer(&none, pool, &wrong), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFreeAsync(ptr, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(cuMemsetD8_v2(ptr, 1, 1), CUDA_SUCCESS);
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS); /* it is unmapped here */
    tell(to_parent, &done, 1);
}

TEST(pools_that_may_be_exported_are_shared_with_their_pointers)
{
    pid_t pid = other_process(import_pool);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    struct message message = {.pid = getpid()};
    CUmemoryPool pool, plain;
    CUdeviceptr ptr, first;
    int fd;
    char done;

    sim_start();
    CU(cuMemPoolCreate(&pool, &props));
    CU(cuMemAllocFromPoolAsync(&first, MIB, pool, NULL));
    CU(cuMemAllocFromPoolAsync(&ptr, MIB, pool, NULL)); /* not the first of its chunk */
    CU(cuMemsetD8_v2(ptr, 3, 8));
    CU(cuCtxSynchronize());
    CU(cuMemPoolExportToShareableHandle(
            &message.fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemPoolExportPointer(&message.pointer, ptr));
    CHECK_EQ(cuMemPoolExportPointer(&message.pointer, ptr + 512), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemPoolExportPointer(&message.pointer, ptr));
    CU(cuDeviceGetDefaultMemPool(&plain, 0));
    CHECK_EQ(cuMemPoolExportToShareableHandle(
                     &fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
    tell(to_child, &message, sizeof(message));
    hear(to_parent, &done, 1);
    join(pid);
    CHECK_EQ(byte_at(ptr), 2);
    CU(cuMemFreeAsync(ptr, NULL));
    CU(cuMemFreeAsync(first, NULL));
    CU(cuMemPoolDestroy(pool));
}

/* ---- external memory, dma-buf ---- */

TEST(external_memory_is_mapped_from_a_descriptor)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = 1, .size = 4 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = MIB, .size = 2 * MIB};
    CUexternalMemory memory;
    CUdeviceptr ptr, other;
    unsigned char value = 5;
    int fd = memfd_create("external", 0);
    int keep = dup(fd);

    REQUIRE(fd >= 0 && ftruncate(fd, 4 * (off_t)MIB) == 0);
    REQUIRE_EQ(pwrite(keep, &value, 1, (off_t)MIB), 1);
    sim_start();
    desc.handle.fd = fd;
    CU(cuImportExternalMemory(&memory, &desc)); /* fd is the device's now */
    CU(cuExternalMemoryGetMappedBuffer(&ptr, memory, &buffer));
    CHECK_EQ(byte_at(ptr), 5);
    CU(cuMemsetD8_v2(ptr + 1, 6, 1));
    CU(cuCtxSynchronize());
    REQUIRE_EQ(pread(keep, &value, 1, (off_t)MIB + 1), 1);
    CHECK_EQ(value, 6);
    CHECK_EQ(sim_figures().held[0], 0);
    buffer.size = 4 * MIB;
    CHECK_EQ(cuExternalMemoryGetMappedBuffer(&other, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
    CU(cuDestroyExternalMemory(memory));
    CHECK_EQ(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(byte_at(ptr), 5); /* a buffer outlives the import */
    CU(cuMemFree_v2(ptr));
    CHECK_EQ(cuMemFree_v2(ptr), CUDA_ERROR_INVALID_VALUE);
    desc.type = 6;
    CHECK_EQ(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_NOT_SUPPORTED);
    desc.type = 1;
    desc.handle.fd = -1;
    CHECK_EQ(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE);
    close(keep);
}

TEST(a_range_of_memory_has_a_descriptor)
{
    CUmemAllocationProp prop = shared_prop();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr, mapped;
    unsigned char value;
    int fd, supported;

    sim_start();
    CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    CHECK_EQ(supported, 1);
    ptr = sim_alloc(4 * MIB);
    CU(cuMemsetD8_v2(ptr, 5, 8));
    CU(cuCtxSynchronize());
    CU(cuMemGetHandleForAddressRange(&fd, ptr, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    REQUIRE_EQ(pread(fd, &value, 1, 0), 1);
    CHECK_EQ(value, 5);
    close(fd);
    CU(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    mapped = map_handle(handle, 2 * MIB);
    CU(cuMemGetHandleForAddressRange(&fd, mapped, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    value = 7;
    REQUIRE_EQ(pwrite(fd, &value, 1, 3), 1);
    CHECK_EQ(byte_at(mapped + 3), 7);
    close(fd);
    CHECK_EQ(cuMemGetHandleForAddressRange(
                     &fd, ptr, 8 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
            CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemGetHandleForAddressRange(
                     &fd, ptr + 1, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
            CUDA_ERROR_INVALID_VALUE);
}

/* ---- multicast ---- */

static CUdeviceptr map_both(CUmemGenericAllocationHandle handle, size_t size)
{
    CUmemAccessDesc access[2] = {
            {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
            {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr ptr;

    CU(cuMemAddressReserve(&ptr, size, 0, 0, 0));
    CU(cuMemMap(ptr, size, 0, handle, 0));
    CU(cuMemSetAccess(ptr, size, access, 2));
    return ptr;
}

TEST(what_is_written_to_a_multicast_object_is_in_all_its_memory)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmulticastObjectProp shape = {.numDevices = 2, .size = 4 * MIB};
    CUmemGenericAllocationHandle object, memory[2];
    CUdeviceptr own[2], all, reserved;
    size_t unit;

    sim_env("SIMCUDA_DEVICES", "2");
    sim_start();
    CU(cuMulticastGetGranularity(&unit, &shape, CU_MULTICAST_GRANULARITY_MINIMUM));
    CHECK_EQ(unit, 2 * MIB);
    shape.numDevices = 3;
    CHECK_EQ(cuMulticastCreate(&object, &shape), CUDA_ERROR_INVALID_VALUE);
    shape.numDevices = 2;
    CU(cuMulticastCreate(&object, &shape));
    for (int i = 0; i < 2; i++) {
        prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, i};
        CU(cuMemCreate(&memory[i], 4 * MIB, &prop, 0));
        own[i] = map_both(memory[i], 4 * MIB);
    }
    CU(cuMulticastAddDevice(object, 0));
    CHECK_EQ(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMulticastAddDevice(object, 9), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQ(cuMulticastBindMem(object, 0, memory[0], 0, 4 * MIB, 0), CUDA_ERROR_ILLEGAL_STATE);
    CU(cuMulticastAddDevice(object, 1));
    CU(cuMemAddressReserve(&reserved, 4 * MIB, 0, 0, 0));
    CHECK_EQ(cuMemMap(reserved, 4 * MIB, 0, object, 0), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(cuMulticastBindMem_v2(object, 1, 0, memory[0], 0, 4 * MIB, 0),
            CUDA_ERROR_INVALID_VALUE); /* another device's */
    CU(cuMulticastBindMem_v2(object, 0, 0, memory[0], 0, 4 * MIB, 0));
    CU(cuMulticastUnbind(object, 0, 0, 4 * MIB));
    CU(cuMulticastBindMem(object, 0, memory[0], 0, 4 * MIB, 0));
    CU(cuMulticastBindAddr_v2(object, 1, 0, own[1], 4 * MIB, 0));
    CU(cuMulticastUnbind(object, 1, 0, 4 * MIB));
    CU(cuMulticastBindAddr(object, 0, own[1], 4 * MIB, 0));
    CHECK_EQ(cuMulticastBindMem(object, 0, memory[1], 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    all = map_both(object, 4 * MIB);
    CU(cuMemsetD8_v2(all + 10, 9, 4));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(own[0] + 12), 9);
    CHECK_EQ(byte_at(own[1] + 12), 9);
    CHECK_EQ(byte_at(own[1] + 14), 0);
    /* bound memory lives on without a handle and without its own mapping */
    CU(cuMemUnmap(own[1], 4 * MIB));
    CU(cuMemRelease(memory[1]));
    CHECK_EQ(sim_figures().held[1], 4 * MIB);
    CU(cuMulticastUnbind(object, 1, 0, 4 * MIB));
    CHECK_EQ(sim_figures().held[1], 0);
    CHECK_EQ(cuMulticastUnbind(object, 1, 0, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemRelease(object));
    CHECK_EQ(byte_at(all + 12), 9); /* a mapping holds the object */
    CU(cuMemUnmap(all, 4 * MIB));
    CHECK_EQ(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
}

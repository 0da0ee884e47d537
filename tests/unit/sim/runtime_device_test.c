/* SPDX-License-Identifier: MIT */
/* The runtime over the simulated device: what programs rely on, through both libraries. Each test has a process of its own. */
#include "tests/check.h"
#include "tests/sim/base/simcuda.h"
#include "tests/sim/runtime/runtime_nodes.h"
#include "tests/trainers/kernels.ptx.h"
#include "tests/trainers/kernels_host.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 1 << 20,
};

static void *device_memory(size_t bytes)
{
    void *p = NULL;

    REQUIRE_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    return p;
}

static cudaKernel_t kernel(const char *name)
{
    static cudaLibrary_t library;
    cudaKernel_t k;

    if (!library)
        REQUIRE_EQ(cudaLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0),
                cudaSuccess);
    REQUIRE_EQ(cudaLibraryGetKernel(&k, library, name), cudaSuccess);
    return k;
}

static cudaError_t fill(void *dst, uint64_t bytes, uint32_t seed, cudaStream_t stream)
{
    void *args[] = {&dst, &bytes, &seed};
    dim3 one = {1, 1, 1};
    dim3 block = {64, 1, 1};

    return cudaLaunchKernel((const void *)kernel("kedge_fill"), one, block, args, 0, stream);
}

TEST(memory_is_counted_and_comes_back)
{
    size_t before;
    size_t during;
    size_t after;
    size_t total;
    void *p;

    REQUIRE_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
    p = device_memory(64 << 20);
    REQUIRE_EQ(cudaMemGetInfo(&during, &total), cudaSuccess);
    CHECK_EQ(before - during, 64 << 20);
    CHECK_EQ(cudaFree(p), cudaSuccess);
    REQUIRE_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    CHECK_EQ(after, before);
    CHECK_EQ(cudaMalloc(&p, total + 1), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_EQ(cudaFree(device_memory(BYTES)), cudaSuccess); /* and life goes on */
    CHECK_EQ(cudaGetLastError(), cudaSuccess);
}

static struct simcuda_stats figures(void)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};
    void *device = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    __typeof__(&simcuda_stats) ask = NULL;
    void *found = device ? dlsym(device, "simcuda_stats") : NULL;

    REQUIRE(found != NULL);
    memcpy(&ask, &found, sizeof(ask));
    REQUIRE_EQ(ask(&stats), 0);
    return stats;
}

/* What the program is given and gives back is reported here, above whoever stands between it and the driver. */
TEST(r91_the_runtime_is_the_witness_of_every_entrance)
{
    void *p, *q, *managed;
    size_t pitch;
    cudaMemPool_t pool;
    cudaStream_t stream;

    REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(figures().births, 0);
    p = device_memory(BYTES);
    CHECK_EQ(figures().births, 1);
    CHECK_EQ(cudaMallocAsync(&q, BYTES, stream), cudaSuccess);
    CHECK_EQ(figures().births, 2);
    CHECK_EQ(cudaFreeAsync(q, stream), cudaSuccess);
    CHECK_EQ(figures().deaths, 1);
    REQUIRE_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    CHECK_EQ(cudaMallocFromPoolAsync(&q, BYTES, pool, stream), cudaSuccess);
    CHECK_EQ(figures().births, 3);
    CHECK_EQ(figures().reuses, 1); /* the pool gave the same bytes out again */
    CHECK_EQ(figures().cross_stream_reuses, 0);
    CHECK_EQ(cudaFree(q), cudaSuccess);
    CHECK_EQ(cudaFree(p), cudaSuccess);
    CHECK_EQ(figures().deaths, 3);
    CHECK_EQ(cudaMallocPitch(&p, &pitch, 100, 100), cudaSuccess);
    CHECK_EQ(cudaMallocManaged(&managed, BYTES, 1), cudaSuccess);
    CHECK_EQ(figures().births, 5);
    CHECK_EQ(cudaFree(NULL), cudaSuccess);
    CHECK_EQ(figures().deaths, 3);
}

TEST(what_is_copied_in_comes_out)
{
    char in[64];
    char out[64];
    char *p = device_memory(256);

    memset(in, 'x', sizeof(in));
    CHECK_EQ(cudaMemset(p, 0, 256), cudaSuccess);
    CHECK_EQ(cudaMemcpy(p + 64, in, 64, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaMemcpyAsync(p + 128, p + 64, 64, cudaMemcpyDeviceToDevice, NULL), cudaSuccess);
    CHECK_EQ(cudaMemcpy(out, p + 128, 64, cudaMemcpyDefault), cudaSuccess);
    CHECK_EQ(memcmp(in, out, 64), 0);
    CHECK_EQ(cudaMemcpy_ptds(out, p, 64, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(out[0], 0);
    CHECK_EQ(cudaFree(p), cudaSuccess);
}

TEST(rectangles_and_cuboids_go_there_and_back)
{
    unsigned char in[6 * 4 * 10];
    unsigned char out[sizeof(in)];
    struct cudaPitchedPtr device;
    struct cudaExtent extent = {10, 4, 6};
    struct cudaMemcpy3DParms there = {.extent = extent, .kind = cudaMemcpyHostToDevice};
    struct cudaMemcpy3DParms back = {.extent = extent, .kind = cudaMemcpyDeviceToHost};
    size_t pitch;
    void *p;

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)i;
    memset(out, 0, sizeof(out));
    REQUIRE_EQ(cudaMallocPitch(&p, &pitch, 10, 4), cudaSuccess);
    CHECK_GE(pitch, 10);
    CHECK_EQ(cudaMemcpy2D(p, pitch, in, 10, 10, 4, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaMemset2D(p, pitch, 7, 1, 4), cudaSuccess);
    CHECK_EQ(cudaMemcpy2D(out, 10, p, pitch, 10, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(out[30], 7);
    CHECK_EQ(out[39], 39);
    CHECK_EQ(cudaFree(p), cudaSuccess);

    REQUIRE_EQ(cudaMalloc3D(&device, extent), cudaSuccess);
    there.srcPtr = (struct cudaPitchedPtr){in, 10, 10, 4};
    there.dstPtr = device;
    back.srcPtr = device;
    back.dstPtr = (struct cudaPitchedPtr){out, 10, 10, 4};
    CHECK_EQ(cudaMemcpy3D(&there), cudaSuccess);
    CHECK_EQ(cudaMemcpy3DAsync(&back, NULL), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQ(memcmp(in, out, sizeof(in)), 0);
    extent.depth = 1;
    CHECK_EQ(cudaMemset3D(device, 9, extent), cudaSuccess);
    CHECK_EQ(cudaMemcpy3D(&back), cudaSuccess);
    CHECK_EQ(out[39], 9);
    CHECK_EQ(out[40], 40);
    CHECK_EQ(cudaFree(device.ptr), cudaSuccess);
}

TEST(pools_answer_for_what_they_hold)
{
    struct cudaMemPoolProps props = {
            .allocType = cudaMemAllocationTypePinned, .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPool_t pool;
    cudaMemPool_t own;
    uint64_t threshold = UINT64_MAX;
    uint64_t used = 0;
    uint64_t reserved = 0;
    void *p;
    void *q;

    REQUIRE_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    CHECK_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaSuccess);
    REQUIRE_EQ(cudaMallocAsync(&p, BYTES, NULL), cudaSuccess);
    CHECK_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
    CHECK_EQ(used, BYTES);
    REQUIRE_EQ(cudaFreeAsync(p, NULL), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(NULL), cudaSuccess);
    CHECK_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
    CHECK_EQ(used, 0);
    CHECK_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
            cudaSuccess);
    CHECK_GE(reserved, BYTES);
    CHECK_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
    CHECK_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
            cudaSuccess);
    CHECK_EQ(reserved, 0);
    REQUIRE_EQ(cudaMemPoolCreate(&own, &props), cudaSuccess);
    REQUIRE_EQ(cudaMallocFromPoolAsync(&q, BYTES, own, NULL), cudaSuccess);
    CHECK_EQ(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
    CHECK_EQ(used, BYTES);
    CHECK_EQ(cudaFree(q), cudaSuccess);
    CHECK_EQ(cudaMemPoolDestroy(own), cudaSuccess);
}

TEST(pointers_say_what_they_are)
{
    struct cudaPointerAttributes a;
    void *device = device_memory(BYTES);
    void *pinned;
    void *managed;
    int plain;

    CHECK_EQ(cudaPointerGetAttributes(&a, (char *)device + 100), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeDevice);
    CHECK_EQ(a.device, 0);
    CHECK(a.devicePointer == (char *)device + 100);
    REQUIRE_EQ(cudaHostAlloc(&pinned, 4096, cudaHostAllocMapped), cudaSuccess);
    CHECK_EQ(cudaPointerGetAttributes(&a, pinned), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeHost);
    CHECK(a.hostPointer == pinned);
    REQUIRE_EQ(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
    CHECK_EQ(cudaPointerGetAttributes(&a, managed), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeManaged);
    CHECK_EQ(cudaPointerGetAttributes(&a, &plain), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeUnregistered);
    CHECK_EQ(cudaFreeHost(pinned), cudaSuccess);
    CHECK_EQ(cudaFree(managed), cudaSuccess);
    CHECK_EQ(cudaFree(device), cudaSuccess);
    CHECK_EQ(cudaFree(device), cudaErrorInvalidValue);
}

TEST(events_are_not_ready_before_their_work_is_done)
{
    cudaStream_t stream;
    cudaEvent_t event;
    float ms;
    void *p = device_memory(BYTES);

    (void)kernel("kedge_fill");
    REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    REQUIRE_EQ(cudaEventCreate(&event), cudaSuccess);
    REQUIRE_EQ(fill(p, BYTES, 1, stream), cudaSuccess);
    REQUIRE_EQ(cudaEventRecord(event, stream), cudaSuccess);
    CHECK_EQ(cudaEventQuery(event), cudaErrorNotReady);
    CHECK_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    CHECK_EQ(cudaStreamQuery_ptsz(stream), cudaErrorNotReady);
    CHECK_EQ(cudaGetLastError(), cudaSuccess); /* an answer, no error */
    CHECK_EQ(cudaEventElapsedTime(&ms, event, event), cudaErrorNotReady);
    CHECK_EQ(cudaGetLastError(), cudaErrorNotReady);
    CHECK_EQ(cudaEventSynchronize(event), cudaSuccess);
    CHECK_EQ(cudaEventQuery(event), cudaSuccess);
    CHECK_EQ(cudaStreamDestroy(stream), cudaSuccess);
    CHECK_EQ(cudaEventDestroy(event), cudaSuccess);
    CHECK_EQ(cudaFree(p), cudaSuccess);
}

static void count(void *data)
{
    ++*(int *)data;
}

static void count_callback(cudaStream_t stream, cudaError_t status, void *data)
{
    (void)stream;
    if (status == cudaSuccess)
        ++*(int *)data;
}

TEST(host_functions_run_in_their_turn)
{
    cudaStream_t stream;
    int counted = 0;

    REQUIRE_EQ(cudaStreamCreate(&stream), cudaSuccess);
    CHECK_EQ(cudaLaunchHostFunc(stream, count, &counted), cudaSuccess);
    CHECK_EQ(cudaStreamAddCallback(stream, count_callback, &counted, 0), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_EQ(counted, 2);
    CHECK_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

static void *own_stream(void *ret_id)
{
    /* handle 0 in the per-thread form */
    (void)cudaStreamGetId_ptsz(NULL, ret_id);
    return NULL;
}

TEST(each_thread_has_a_stream_of_its_own)
{
    unsigned long long mine = 0;
    unsigned long long legacy = 0;
    unsigned long long theirs = 0;
    unsigned long long handle = 0;
    pthread_t thread;

    CHECK_EQ(cudaStreamGetId_ptsz(NULL, &mine), cudaSuccess);
    CHECK_EQ(cudaStreamGetId(NULL, &legacy), cudaSuccess);
    CHECK_EQ(cudaStreamGetId(cudaStreamPerThread, &handle), cudaSuccess);
    REQUIRE_EQ(pthread_create(&thread, NULL, own_stream, &theirs), 0);
    (void)pthread_join(thread, NULL);
    CHECK_NE(mine, legacy);
    CHECK_NE(mine, theirs);
    CHECK_EQ(mine, handle);
}

TEST(a_step_is_captured_and_launched_again)
{
    enum cudaStreamCaptureStatus status;
    cudaGraphNode_t nodes[4];
    enum cudaGraphNodeType type;
    cudaGraphExec_t exec;
    cudaStream_t stream;
    cudaGraph_t graph;
    size_t nodes_count = 4;
    unsigned char *expected = host_tensor_new(8192);
    unsigned char out[8192];
    char *p = device_memory(8192);

    REQUIRE(expected);
    (void)kernel("kedge_fill");
    REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    REQUIRE_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    CHECK_EQ(status, cudaStreamCaptureStatusActive);
    CHECK_EQ(fill(p, 8192, 5, stream), cudaSuccess);
    CHECK_EQ(cudaMemsetAsync(p, 1, 4, stream), cudaSuccess);
    REQUIRE_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphGetNodes(graph, nodes, &nodes_count), cudaSuccess);
    CHECK_EQ(nodes_count, 2);
    CHECK_EQ(cudaGraphNodeGetType(nodes[0], &type), cudaSuccess);
    CHECK_EQ(type, cudaGraphNodeTypeKernel);
    REQUIRE_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    host_fill(expected, 8192, 5);
    memset(expected, 1, 4);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(cudaMemset(p, 0, 8192), cudaSuccess);
        CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
        CHECK_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
        CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        CHECK_EQ(cudaMemcpy(out, p, 8192, cudaMemcpyDeviceToHost), cudaSuccess);
        CHECK_EQ(memcmp(out, expected, 8192), 0);
    }
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    host_tensor_free(expected, 8192);
}

static unsigned byte_at(const void *ptr)
{
    unsigned char value = 0;

    REQUIRE_EQ(cudaMemcpy(&value, ptr, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
}

/* As programs make them that do not capture: a set, a copy, a kernel, a child, memory of the graph. */
TEST(graphs_are_made_by_hand_and_changed)
{
    CUDA_MEMSET_NODE_PARAMS set = {.value = 5, .elementSize = 1, .width = 64, .height = 1};
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
            .bytesize = BYTES};
    unsigned char *p = device_memory(BYTES);
    uint64_t bytes = 4096;
    uint32_t seed = 3;
    void *dst = p + 8192;
    void *args[] = {&dst, &bytes, &seed};
    struct cudaKernelNodeParams launch = {.func = (void *)kernel("kedge_fill"),
            .gridDim = {1, 1, 1},
            .blockDim = {64, 1, 1},
            .kernelParams = args};
    cudaGraph_t graph;
    cudaGraph_t child;
    cudaGraphNode_t nodes[5];
    cudaGraphExec_t exec;
    void *own;

    REQUIRE_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    REQUIRE_EQ(cudaGraphAddMemAllocNode(
                       &nodes[0], graph, NULL, 0, (struct cudaMemAllocNodeParams *)(void *)&alloc),
            cudaSuccess);
    set.dst = alloc.dptr;
    own = (void *)(uintptr_t)alloc.dptr;
    REQUIRE_EQ(cudaGraphAddMemsetNode(&nodes[1], graph, &nodes[0], 1,
                       (const struct cudaMemsetParams *)(const void *)&set),
            cudaSuccess);
    REQUIRE_EQ(cudaGraphAddMemcpyNode1D(
                       &nodes[2], graph, &nodes[1], 1, p, own, 64, cudaMemcpyDeviceToDevice),
            cudaSuccess);
    REQUIRE_EQ(cudaGraphAddMemFreeNode(&nodes[3], graph, &nodes[2], 1, own), cudaSuccess);
    REQUIRE_EQ(cudaGraphCreate(&child, 0), cudaSuccess);
    REQUIRE_EQ(cudaGraphAddKernelNode(&nodes[4], child, NULL, 0, &launch), cudaSuccess);
    REQUIRE_EQ(cudaGraphAddChildGraphNode(&nodes[4], graph, &nodes[1], 1, child), cudaSuccess);
    REQUIRE_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
    REQUIRE_EQ(cudaGraphLaunch(exec, NULL), cudaSuccess);
    REQUIRE_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQ(byte_at(p + 63), 5);
    CHECK_EQ(byte_at(p + 64), 0);
    set.value = 7;
    REQUIRE_EQ(cudaGraphExecMemsetNodeSetParams(
                       exec, nodes[1], (const struct cudaMemsetParams *)(const void *)&set),
            cudaSuccess);
    REQUIRE_EQ(cudaGraphExecMemcpyNodeSetParams1D(
                       exec, nodes[2], p + 64, own, 64, cudaMemcpyDeviceToDevice),
            cudaSuccess);
    REQUIRE_EQ(cudaGraphLaunch(exec, NULL), cudaSuccess);
    REQUIRE_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQ(byte_at(p), 5);
    CHECK_EQ(byte_at(p + 64), 7);
    CHECK_EQ(cudaGraphNodeSetEnabled(exec, nodes[3], 0), cudaErrorInvalidValue);
    launch.func = args;
    CHECK_EQ(cudaGraphAddKernelNode(&nodes[4], child, NULL, 0, &launch),
            cudaErrorInvalidDeviceFunction);
}

static void count_it(void *data)
{
    ++*(int *)data;
}

TEST(what_a_graph_holds_is_given_back_with_it)
{
    static int gone;
    cudaUserObject_t object;
    cudaGraph_t graph;

    REQUIRE_EQ(cudaUserObjectCreate(&object, &gone, count_it, 2, 1), cudaSuccess);
    REQUIRE_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    REQUIRE_EQ(cudaGraphRetainUserObject(graph, object, 1, 1), cudaSuccess);
    REQUIRE_EQ(cudaUserObjectRelease(object, 1), cudaSuccess);
    CHECK_EQ(gone, 0);
    REQUIRE_EQ(cudaGraphDestroy(graph), cudaSuccess);
    CHECK_EQ(gone, 1);
    CHECK_EQ(cudaUserObjectRetain(object, 1), cudaErrorInvalidValue);
}

TEST(an_unsafe_call_ends_a_capture_unless_the_thread_relaxed_it)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    cudaGraph_t graph;
    void *p = NULL;

    REQUIRE_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    REQUIRE_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    CHECK_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    CHECK_EQ(mode, cudaStreamCaptureModeGlobal);
    CHECK_EQ(cudaMalloc(&p, BYTES), cudaSuccess);
    CHECK_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    REQUIRE_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    REQUIRE_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    CHECK_EQ(cudaMalloc(&p, BYTES), cudaErrorStreamCaptureUnsupported);
    CHECK_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST(devices_reach_each_other)
{
    int devices = 0;
    int can = 0;
    int value = 0;
    void *a;
    void *b;

    REQUIRE_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    REQUIRE_EQ(devices, 2);
    a = device_memory(64);
    CHECK_EQ(cudaMemset(a, 5, 64), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    REQUIRE_EQ(cudaSetDevice(1), cudaSuccess);
    b = device_memory(64);
    CHECK_EQ(cudaDeviceCanAccessPeer(&can, 1, 0), cudaSuccess);
    CHECK_EQ(can, 1);
    CHECK_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
    CHECK_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    CHECK_EQ(cudaMemcpyPeer(b, 1, a, 0, 64), cudaSuccess);
    CHECK_EQ(cudaMemcpyPeerAsync(b, 1, a, 0, 64, NULL), cudaSuccess);
    CHECK_EQ(cudaMemcpy(&value, b, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(value, 0x05050505);
    CHECK_EQ(cudaDeviceDisablePeerAccess(0), cudaSuccess);
}

/* In a process that has not used CUDA yet. */
static int read_exported(int from)
{
    cudaIpcMemHandle_t handle;
    int value = 0;
    void *p;

    if (read(from, &handle, sizeof(handle)) != (ssize_t)sizeof(handle)
            || cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess
            || cudaMemcpy(&value, p, sizeof(value), cudaMemcpyDeviceToHost) != cudaSuccess
            || cudaIpcCloseMemHandle(p) != cudaSuccess)
        return 1;
    return value == 0x03030303 ? 0 : 2;
}

TEST(memory_is_shared_with_another_process)
{
    cudaIpcMemHandle_t handle;
    int status = -1;
    int ends[2];
    void *p;
    pid_t child;

    REQUIRE_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0)
        _exit(read_exported(ends[0]));
    p = device_memory(BYTES);
    CHECK_EQ(cudaMemset(p, 3, BYTES), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    REQUIRE_EQ(cudaIpcGetMemHandle(&handle, p), cudaSuccess);
    REQUIRE_EQ(write(ends[1], &handle, sizeof(handle)), (ssize_t)sizeof(handle));
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(a_reset_gives_all_memory_back)
{
    size_t before;
    size_t after;
    size_t total;

    REQUIRE_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
    (void)device_memory(BYTES);
    REQUIRE_EQ(cudaDeviceReset(), cudaSuccess);
    REQUIRE_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    CHECK_EQ(after, before);
    CHECK_EQ(cudaFree(device_memory(BYTES)), cudaSuccess);
}

TEST(a_bad_access_of_a_kernel_sticks)
{
    void *p = device_memory(BYTES);

    (void)kernel("kedge_fill");
    CHECK_EQ(cudaFree(p), cudaSuccess);
    CHECK_EQ(fill(p, BYTES, 1, NULL), cudaSuccess); /* it is noticed when it runs */
    CHECK_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    CHECK_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_EQ(cudaMalloc(&p, BYTES), cudaErrorIllegalAddress);
}

TEST(kernels_tell_their_parameters)
{
    struct cudaFuncAttributes attributes;
    cudaKernel_t k = kernel("kedge_fill");
    const char *name = NULL;
    cudaFunction_t function = NULL;
    size_t offset = 0;
    size_t size = 0;

    CHECK_EQ(cudaFuncGetParamInfo((const void *)k, 2, &offset, &size), cudaSuccess);
    CHECK_EQ(offset, 16);
    CHECK_EQ(size, 4);
    CHECK_EQ(cudaFuncGetParamInfo((const void *)k, 3, &offset, &size), cudaErrorInvalidValue);
    CHECK_EQ(cudaFuncGetName(&name, (const void *)k), cudaSuccess);
    CHECK_STR_EQ(name, "kedge_fill");
    CHECK_EQ(cudaFuncGetAttributes(&attributes, (const void *)k), cudaSuccess);
    CHECK_GE(attributes.maxThreadsPerBlock, 256);
    CHECK_EQ(cudaGetFuncBySymbol(&function, (const void *)k), cudaSuccess);
    CHECK(function != NULL);
}

TEST(entry_points_of_the_driver_can_be_called)
{
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUdeviceptr p = 0;
    void *entry = NULL;

    REQUIRE_EQ(cudaFree(NULL), cudaSuccess);
    REQUIRE_EQ(cudaGetDriverEntryPoint("cuMemAlloc", &entry, 0, NULL), cudaSuccess);
    memcpy(&alloc, &entry, sizeof(entry));
    CHECK_EQ(alloc(&p, BYTES), CUDA_SUCCESS);
    CHECK_EQ(cudaFree((void *)(uintptr_t)p), cudaSuccess);
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory by class: what the driver serves is on record with its kind, and what is no device memory of this process is
 * counted nowhere else. The test is the program; it reads its own capture while it is open.
 */
#include "tests/preload/capturing.h"
#include "tests/preload/client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

/* What is live in a class now, and that it ever was there. */
static uint64_t live_in(enum memclass memclass, uint64_t *ret_count)
{
    struct read_capture *capture = read_now();
    uint64_t bytes = capture->class_total[memclass].live_bytes;

    *ret_count = capture->class_total[memclass].live_count;
    CHECK_NE(capture->class_total[memclass].allocated_count, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
    return bytes;
}

#define CHECK_LIVE(memclass, bytes, count)               \
    do {                                                 \
        uint64_t live_count;                             \
        CHECK_EQ(live_in(memclass, &live_count), bytes); \
        CHECK_EQ(live_count, count);                     \
    } while (0)

static uint64_t device_bytes(void)
{
    struct read_capture *capture = read_now();
    uint64_t bytes = capture->total.live_bytes;

    read_close(capture);
    return bytes;
}

TEST(pinned_host_memory_is_recorded_and_no_device_memory)
{
    struct read_capture *capture;
    void *a = NULL, *b = NULL, *own;

    capture_to("host");
    client_init();
    REQUIRE_EQ(cu->cuMemHostAlloc(&a, 3 * MB, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocHost_v2(&b, 1 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_HOST, 4 * MB, 2);
    CHECK_EQ(device_bytes(), 0);
    own = mmap(NULL, 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(own != MAP_FAILED);
    REQUIRE_EQ(cu->cuMemHostRegister_v2(own, 2 * MB, 0), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_REGISTERED, 2 * MB, 1);
    capture = read_now();
    CHECK_EQ(capture->live_count, 0);
    REQUIRE_EQ(capture->other_count, 3);
    CHECK_EQ(capture->other[0].memclass, MEMCLASS_HOST);
    CHECK_EQ(capture->other[0].addr, (uintptr_t)a);
    CHECK_NE(capture->other[0].stack, 0);
    CHECK_EQ(capture->total.allocated_count, 0);
    read_close(capture);
    REQUIRE_EQ(cu->cuMemHostUnregister(own), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeHost(a), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeHost(b), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_HOST, 0, 0);
    CHECK_LIVE(MEMCLASS_REGISTERED, 0, 0);
    (void)unlink(capture_file);
}

static void arrays_are_in(enum memclass memclass)
{
    CUDA_ARRAY_DESCRIPTOR flat = {
            .Width = 256, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {
            .Width = 32, .Height = 16, .Depth = 8, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUarray a = NULL, b = NULL;

    client_init();
    REQUIRE_EQ(cu->cuArrayCreate_v2(&a, &flat), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuArray3DCreate_v2(&b, &deep), CUDA_SUCCESS);
    CHECK_LIVE(memclass, 256 * 64 * 16 + 32 * 16 * 8 * 4, 2);
    CHECK_EQ(device_bytes(), 256 * 64 * 16 + 32 * 16 * 8 * 4);
    REQUIRE_EQ(cu->cuArrayDestroy(a), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuArrayDestroy(b), CUDA_SUCCESS);
    CHECK_LIVE(memclass, 0, 0);
    (void)unlink(capture_file);
}

TEST(arrays_count_what_the_driver_says)
{
    capture_to("array");
    arrays_are_in(MEMCLASS_ARRAY);
}

/* As the toolkit's header has it: the question is only for arrays that are still to be mapped. */
TEST(arrays_count_what_their_description_needs_where_the_driver_does_not_say)
{
    capture_to("array-guess");
    REQUIRE(setenv("SIMCUDA_FAIL", "cuArrayGetMemoryRequirements:1+:CUDA_ERROR_INVALID_VALUE", 1)
            == 0);
    arrays_are_in(MEMCLASS_ARRAY_GUESS);
    CHECK_EQ(client_calls("cuArrayGetMemoryRequirements"), 1); /* once is enough */
}

/* Each level is half of the one before in each direction that there is. */
TEST(mipmapped_arrays_count_their_levels)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {
            .Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUmipmappedArray array = NULL;

    capture_to("mipmap");
    REQUIRE(setenv("SIMCUDA_FAIL",
                    "cuMipmappedArrayGetMemoryRequirements:1+:CUDA_ERROR_INVALID_VALUE", 1)
            == 0);
    client_init();
    REQUIRE_EQ(cu->cuMipmappedArrayCreate(&array, &desc, 3), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_ARRAY_GUESS, (256 * 256 + 128 * 128 + 64 * 64) * 16, 1);
    REQUIRE_EQ(cu->cuMipmappedArrayDestroy(array), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_ARRAY_GUESS, 0, 0);
    (void)unlink(capture_file);
}

TEST(pitched_managed_and_pooled_memory_have_classes_of_their_own)
{
    CUdeviceptr pitched, managed, pooled;
    size_t pitch = 0;

    capture_to("plain");
    client_init();
    REQUIRE_EQ(cu->cuMemAllocPitch_v2(&pitched, &pitch, 100, 32, 4), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocManaged(&managed, 3 * MB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&pooled, 5 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_PITCHED, 32 * pitch, 1);
    CHECK_LIVE(MEMCLASS_MANAGED, 3 * MB, 1);
    CHECK_LIVE(MEMCLASS_POOLED, 5 * MB, 1);
    CHECK_EQ(device_bytes(), 32 * pitch + 8 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(pitched), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(managed), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(pooled), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_PITCHED, 0, 0);
    CHECK_LIVE(MEMCLASS_MANAGED, 0, 0);
    CHECK_LIVE(MEMCLASS_POOLED, 0, 0);
    (void)unlink(capture_file);
}

TEST(what_the_driver_serves_in_track_mode_is_the_drivers)
{
    CUdeviceptr ptr;

    capture_to("driver");
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 5 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_DRIVER, 5 * MB, 1);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_DRIVER, 0, 0);
    (void)unlink(capture_file);
}

/* A free that the driver refuses is no free: the memory is there still. */
TEST(what_the_driver_refuses_to_free_stays_on_record)
{
    CUDA_ARRAY_DESCRIPTOR flat = {
            .Width = 256, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUdeviceptr managed = 0;
    CUdeviceptr pitched = 0;
    void *host = NULL;
    CUarray array = NULL;
    uint64_t count;
    size_t pitch;

    capture_to("refused");
    REQUIRE(setenv("SIMCUDA_FAIL",
                    "cuMemFree_v2:1:CUDA_ERROR_NOT_PERMITTED,"
                    "cuMemFree_v2:2:CUDA_ERROR_NOT_PERMITTED,"
                    "cuMemFreeAsync:1:CUDA_ERROR_NOT_PERMITTED,"
                    "cuMemFreeHost:1:CUDA_ERROR_NOT_PERMITTED,"
                    "cuArrayDestroy:1:CUDA_ERROR_NOT_PERMITTED",
                    1)
            == 0);
    client_init();
    REQUIRE_EQ(cu->cuMemAllocManaged(&managed, 3 * MB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocPitch_v2(&pitched, &pitch, 512, 2048, 4), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemHostAlloc(&host, 1 * MB, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuArrayCreate_v2(&array, &flat), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(managed), CUDA_ERROR_NOT_PERMITTED);
    REQUIRE_EQ(cu->cuMemFree_v2(pitched), CUDA_ERROR_NOT_PERMITTED);
    REQUIRE_EQ(cu->cuMemFreeAsync(pitched, NULL), CUDA_ERROR_NOT_PERMITTED);
    REQUIRE_EQ(cu->cuMemFreeHost(host), CUDA_ERROR_NOT_PERMITTED);
    REQUIRE_EQ(cu->cuArrayDestroy(array), CUDA_ERROR_NOT_PERMITTED);
    CHECK_LIVE(MEMCLASS_MANAGED, 3 * MB, 1);
    CHECK_LIVE(MEMCLASS_PITCHED, 1 * MB, 1);
    CHECK_LIVE(MEMCLASS_HOST, 1 * MB, 1);
    CHECK_NE(live_in(MEMCLASS_ARRAY, &count), 0);
    CHECK_EQ(count, 1);
    REQUIRE_EQ(cu->cuMemFree_v2(managed), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFree_v2(pitched), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeHost(host), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuArrayDestroy(array), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_MANAGED, 0, 0);
    CHECK_LIVE(MEMCLASS_PITCHED, 0, 0);
    CHECK_LIVE(MEMCLASS_HOST, 0, 0);
    CHECK_LIVE(MEMCLASS_ARRAY, 0, 0);
    (void)unlink(capture_file);
}

/* ---- virtual memory ------------------------------------------------------------------------- */

static CUmemAllocationProp device_prop(void)
{
    CUmemAllocationProp prop;

    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

TEST(a_handle_ends_with_its_last_reference_and_its_last_mapping)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr ptr = 0;

    capture_to("vmm");
    client_init();
    REQUIRE_EQ(cu->cuMemCreate(&handle, 4 * MB, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAddressReserve(&ptr, 8 * MB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VIRTUAL, 8 * MB, 1);
    CHECK_LIVE(MEMCLASS_VMM, 4 * MB, 1);
    REQUIRE_EQ(cu->cuMemMap(ptr, 4 * MB, 0, handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemMap(ptr + 4 * MB, 4 * MB, 0, handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(ptr + 5 * MB)),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemUnmap(ptr, 4 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VMM, 4 * MB, 1);
    REQUIRE_EQ(cu->cuMemUnmap(ptr + 4 * MB, 4 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VMM, 4 * MB, 1); /* retained */
    REQUIRE_EQ(cu->cuMemRelease(again), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VMM, 0, 0);
    REQUIRE_EQ(cu->cuMemAddressFree(ptr, 8 * MB), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VIRTUAL, 0, 0);
    CHECK_EQ(device_bytes(), 0);
    (void)unlink(capture_file);
}

/* What another process (or this one) has exported is recorded when it is mapped, since only then its size is known. */
TEST(an_imported_handle_is_imported_memory)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle, theirs;
    CUdeviceptr ptr = 0;
    int fd = -1;

    capture_to("shared");
    client_init();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    REQUIRE_EQ(cu->cuMemCreate(&handle, 4 * MB, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemExportToShareableHandle(
                       &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemImportFromShareableHandle(
                       &theirs, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAddressReserve(&ptr, 4 * MB, 0, 0, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemMap(ptr, 4 * MB, 0, theirs, 0), CUDA_SUCCESS);
    if (theirs != handle)
        CHECK_LIVE(MEMCLASS_IMPORTED, 4 * MB, 1);
    CHECK_LIVE(MEMCLASS_VMM, 4 * MB, 1);
    CHECK_EQ(device_bytes(), 4 * MB);
    REQUIRE_EQ(cu->cuMemRelease(theirs), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemUnmap(ptr, 4 * MB), CUDA_SUCCESS);
    if (theirs != handle)
        CHECK_LIVE(MEMCLASS_IMPORTED, 0, 0);
    REQUIRE_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_VMM, 0, 0);
    (void)close(fd);
    (void)unlink(capture_file);
}

TEST(a_multicast_object_is_an_address_space)
{
    CUmulticastObjectProp prop;
    CUmemGenericAllocationHandle object;
    size_t unit = 0;

    capture_to("multicast");
    REQUIRE(setenv("SIMCUDA_DEVICES", "2", 1) == 0);
    client_init();
    memset(&prop, 0, sizeof prop);
    prop.numDevices = 2;
    prop.size = 2 * MB;
    REQUIRE_EQ(cu->cuMulticastGetGranularity(&unit, &prop, CU_MULTICAST_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
    prop.size = 2 * unit;
    REQUIRE_EQ(cu->cuMulticastCreate(&object, &prop), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_MULTICAST, 2 * unit, 1);
    CHECK_EQ(device_bytes(), 0);
    REQUIRE_EQ(cu->cuMemRelease(object), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_MULTICAST, 0, 0);
    (void)unlink(capture_file);
}

/* ---- other interfaces and pools ------------------------------------------------------------- */

TEST(external_memory_counts_with_its_import)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC import;
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer;
    CUexternalMemory memory = NULL;
    CUdeviceptr ptr = 0;
    int fd = memfd_create("external", MFD_CLOEXEC);

    capture_to("external");
    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)(8 * MB)) == 0);
    client_init();
    memset(&import, 0, sizeof import);
    import.type = 1; /* a file descriptor */
    import.handle.fd = fd;
    import.size = 8 * MB;
    REQUIRE_EQ(cu->cuImportExternalMemory(&memory, &import), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_EXTERNAL, 8 * MB, 1);
    memset(&buffer, 0, sizeof buffer);
    buffer.size = 4 * MB;
    REQUIRE_EQ(cu->cuExternalMemoryGetMappedBuffer(&ptr, memory, &buffer), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_EXTERNAL, 8 * MB, 2); /* no bytes of its own */
    CHECK_EQ(device_bytes(), 0);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_EXTERNAL, 8 * MB, 1);
    REQUIRE_EQ(cu->cuDestroyExternalMemory(memory), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_EXTERNAL, 0, 0);
    (void)unlink(capture_file);
}

/* Memory of an exportable pool is the driver's; a pointer of it that comes back in is imported. */
TEST(exportable_pools_are_the_drivers_and_imported_pointers_count_nothing)
{
    CUmemoryPool pool = NULL, theirs = NULL;
    CUmemPoolPtrExportData data;
    CUdeviceptr ptr = 0, again = 0;
    CUmemPoolProps props;
    CUstream stream;
    int fd = -1;

    capture_to("pools");
    client_init();
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 3 * MB, pool, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_DRIVER, 3 * MB, 1);
    REQUIRE_EQ(cu->cuMemPoolExportToShareableHandle(
                       &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolExportPointer(&data, ptr), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolImportFromShareableHandle(
                       &theirs, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolImportPointer(&again, theirs, &data), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_IMPORTED, 3 * MB, 1);
    CHECK_EQ(device_bytes(), 3 * MB);
    REQUIRE_EQ(cu->cuMemFreeAsync(again, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_IMPORTED, 0, 0);
    CHECK_LIVE(MEMCLASS_DRIVER, 0, 0);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    (void)unlink(capture_file);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t size)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;

    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = size;
    return params;
}

TEST(memory_nodes_of_graphs_are_graph_memory)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(3 * MB);
    CUgraphNodeParams generic;
    struct read_capture *capture;
    CUgraphNode node, other;
    CUgraphExec exec;
    CUgraph graph;

    capture_to("graph");
    client_init();
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 3 * MB, 1);
    memset(&generic, 0, sizeof generic);
    generic.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    generic.alloc = alloc_params(2 * MB);
    REQUIRE_EQ(cu->cuGraphAddNode_v2(&other, graph, &node, NULL, 1, &generic), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 5 * MB, 2);
    REQUIRE_EQ(cu->cuGraphAddMemFreeNode(&node, graph, &other, 1, params.dptr), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 2 * MB, 1);
    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphLaunch(exec, NULL), CUDA_SUCCESS); /* takes the memory */
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);        /* kedge looks at the device */
    capture = read_now();
    CHECK_GE(capture->look[0].graph_high, 2 * MB);
    read_close(capture);
    (void)unlink(capture_file);
}

/* Launched five times and freed four times on the stream: the memory of one launch is there. */
static void launch_and_free(
        CUgraph graph, CUdeviceptr ptr, CUstream stream, unsigned long long flags)
{
    struct read_capture *capture;
    CUgraphExec exec;

    REQUIRE_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, flags), CUDA_SUCCESS);
    for (int i = 0; i < 5; i++) {
        REQUIRE_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        CHECK_LIVE(MEMCLASS_GRAPH, 64 * MB, 1);
        if (i < 4 && flags == 0) {
            REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
            CHECK_LIVE(MEMCLASS_GRAPH, 0, 0);
        }
    }
    capture = read_now();
    CHECK_EQ(capture->class_total[MEMCLASS_GRAPH].allocated_count, 5);
    read_close(capture);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 0, 0);
    (void)unlink(capture_file);
}

TEST(each_launch_of_a_memory_node_is_an_allocation)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(64 * MB);
    CUgraphNode node;
    CUstream stream;
    CUgraph graph;

    capture_to("launched");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_SUCCESS);
    launch_and_free(graph, params.dptr, stream, 0);
}

TEST(each_launch_of_a_captured_allocation_is_one)
{
    CUdeviceptr ptr = 0;
    CUstream stream;
    CUgraph graph;

    capture_to("launched");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 64 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    launch_and_free(graph, ptr, stream, 0);
}

TEST(an_instance_that_frees_at_its_launch_ends_what_it_had)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(64 * MB);
    CUgraphNode node;
    CUstream stream;
    CUgraph graph;

    capture_to("auto");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_SUCCESS);
    launch_and_free(
            graph, params.dptr, stream, 1); /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */
}

TEST(a_captured_allocation_is_graph_memory)
{
    CUdeviceptr ptr = 0;
    CUstream stream;
    CUgraph graph;

    capture_to("captured");
    client_init();
    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 3 * MB, stream), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 3 * MB, 1);
    REQUIRE_EQ(cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    CHECK_LIVE(MEMCLASS_GRAPH, 0, 0);
    REQUIRE_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    (void)unlink(capture_file);
}

/* ---- the device as the driver sees it ------------------------------------------------------- */

/* Everything that the device holds is ours or the driver's own: what is left over is the overhead. */
TEST(what_nobody_asked_for_is_the_difference)
{
    struct read_capture *capture;
    const struct format_look *look;
    CUdeviceptr pooled, pitched;
    size_t pitch, available, total;

    capture_to("look");
    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&pooled, 64 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocPitch_v2(&pitched, &pitch, 1 << 20, 32, 4), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    capture = read_now();
    look = &capture->look[0];
    CHECK_GE(look->looks, 2); /* at the first allocation, and with the program's own question */
    CHECK_EQ(look->total_bytes, total);
    CHECK_EQ(look->held_bytes, 64 * MB);
    CHECK_EQ(look->native_bytes, 32 * pitch);
    CHECK_GE(look->total_bytes - look->free_bytes, 64 * MB + 32 * pitch);
    CHECK(look->total_bytes - look->free_bytes < 64 * MB + 32 * pitch + 4 * MB);
    read_close(capture);
    (void)unlink(capture_file);
}

TEST(looks_are_rare)
{
    struct read_capture *capture;
    CUdeviceptr ptr;

    capture_to("rare");
    client_init();
    for (int i = 0; i < 1000; i++) {
        REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 1 * MB), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    }
    capture = read_now();
    CHECK_GE(capture->look[0].looks, 10);
    CHECK(capture->look[0].looks < 14);
    read_close(capture);
    (void)unlink(capture_file);
}

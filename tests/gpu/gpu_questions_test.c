/* SPDX-License-Identifier: MIT */
/*
 * What kedge relies on and only a GPU can say, asked of the driver: the numbers of streams and contexts, what mapping calls cost
 * beside a running kernel, what a context event ties together, tens of thousands of handles, unmaps of many mappings, mapped
 * memory over a reset, ranges over several handles, the layout of parameters by the wrong handle, later forms of an entry.
 *
 * Facts, alone and under kedge. A check stands where a rule says the answer; figures are called cost.*.
 */
#include "tests/gpu/gpu_device.h"

#include <dirent.h>
#include <dlfcn.h>

enum {
    BUSY_MS = 20,
    ROUNDS = 8, /* of each mapping call beside a kernel */
    IDLE_ROUNDS = 64,
    STREAMS = 64,
    PIECES = 64, /* mappings in one range */
    HANDLES_MOST = 35000,
    DESCRIPTORS = 1000, /* handles that can be exported */
};

#define GRANULE ((size_t)2 << 20)

static const CUmemAllocationProp plain = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr range = 0;

    REQUIRE_EQ(gpu->cuMemAddressReserve(&range, size, 0, 0, 0), CUDA_SUCCESS);
    return range;
}

static CUresult allow(CUdeviceptr at, size_t size)
{
    CUmemAccessDesc access = {
            .location = plain.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return gpu->cuMemSetAccess(at, size, &access, 1);
}

static void begin_with_mappings(void)
{
    gpu_init();
    if (!gpu->cuMemMap || !gpu->cuMemSetAccess)
        SKIP("the driver has no cuMemMap");
}

/* ---- numbers of streams and contexts (R69: a stream is its number and its context's generation) ---- */

struct numbers {
    unsigned long long null, legacy, per_thread, created, context;
};

static struct numbers numbers_of(CUcontext context)
{
    struct numbers n = {0};

    GPU_OK(cuCtxSetCurrent(context));
    GPU_OK(cuStreamGetId(NULL, &n.null));
    GPU_OK(cuStreamGetId(CU_STREAM_LEGACY, &n.legacy));
    GPU_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &n.per_thread));
    GPU_OK(cuStreamGetId(gpu_stream(CU_STREAM_NON_BLOCKING), &n.created));
    GPU_OK(cuCtxGetId(context, &n.context));
    return n;
}

static void *number_in_another_thread(void *data)
{
    gpu_here();
    GPU_OK(cuStreamGetId(CU_STREAM_PER_THREAD, data));
    return NULL;
}

static const char *same_or_not(unsigned long long a, unsigned long long b)
{
    return a == b ? "the same" : "different";
}

TEST(r69_default_streams_of_two_contexts_and_after_a_reset)
{
    unsigned long long other_thread = 0;
    struct numbers first, second, later;
    CUcontext other = NULL;
    pthread_t thread;

    gpu_init();
    if (!gpu->cuStreamGetId || !gpu->cuCtxGetId)
        SKIP("the driver does not number streams and contexts");
    first = numbers_of(gpu->context);
    REQUIRE(pthread_create(&thread, NULL, number_in_another_thread, &other_thread) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    gpu_fact("numbers.per_thread_streams_of_two_threads", "%s",
            same_or_not(first.per_thread, other_thread));
    gpu_fact("numbers.null_and_legacy", "%s", same_or_not(first.null, first.legacy));
    REQUIRE_EQ(gpu->cuCtxCreate_v2(&other, 0, gpu->device), CUDA_SUCCESS);
    second = numbers_of(other);
    gpu_fact("numbers.default_streams_of_two_contexts", "%s", same_or_not(first.null, second.null));
    gpu_fact("numbers.per_thread_streams_of_two_contexts", "%s",
            same_or_not(first.per_thread, second.per_thread));
    gpu_fact("numbers.created_streams_of_two_contexts", "%s",
            same_or_not(first.created, second.created));
    CHECK_NE(first.context, second.context);
    GPU_OK(cuCtxDestroy_v2(other));
    GPU_OK(cuDevicePrimaryCtxReset_v2(gpu->device));
    REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&other, gpu->device), CUDA_SUCCESS);
    later = numbers_of(other);
    gpu_fact("numbers.context_after_a_reset", "%s", same_or_not(first.context, later.context));
    gpu_fact("numbers.default_stream_after_a_reset", "%s", same_or_not(first.null, later.null));
    CHECK_NE(first.context, later.context);
}

/* ---- what cuCtxRecordEvent ties together, and its cost (R3, R67) ---- */

/* A stream that is busy, a context event, work on another stream: does the work wait for the first stream? */
TEST(r3_a_context_event_ties_streams_or_does_not)
{
    CUstream busy, other;
    CUevent context_event, done;
    CUdeviceptr word = 0;
    bool early = false;
    double begun;

    gpu_init();
    if (!gpu->cuCtxRecordEvent)
        SKIP("the driver has no cuCtxRecordEvent");
    busy = gpu_stream(CU_STREAM_NON_BLOCKING);
    other = gpu_stream(CU_STREAM_NON_BLOCKING);
    context_event = gpu_event();
    done = gpu_event();
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&word, 4096), CUDA_SUCCESS);
    gpu_hold(busy, 5 * BUSY_MS);
    GPU_OK(cuCtxRecordEvent(gpu->context, context_event));
    GPU_OK(cuMemsetD8Async(word, 1, 4096, other));
    GPU_OK(cuEventRecord(done, other));
    for (begun = gpu_microseconds(); !early && gpu_microseconds() - begun < 2e3 * BUSY_MS;)
        early = gpu->cuEventQuery(done) == CUDA_SUCCESS;
    gpu_fact("context_event.ties_streams", "%s", early ? "no" : "not finished beside the other");
    GPU_OK(cuCtxSynchronize());
}

TEST(r3_a_context_event_beside_sixty_four_streams_has_its_cost_written_down)
{
    CUstream stream[STREAMS];
    CUevent event;

    gpu_init();
    if (!gpu->cuCtxRecordEvent)
        SKIP("the driver has no cuCtxRecordEvent");
    event = gpu_event();
    for (int i = 0; i < STREAMS; i++)
        stream[i] = gpu_stream(CU_STREAM_NON_BLOCKING);
    for (int busy = 0; busy < 2; busy++) {
        double begun;

        for (int i = 0; busy && i < STREAMS; i++)
            gpu_hold(stream[i], BUSY_MS);
        begun = gpu_microseconds();
        for (int i = 0; i < ROUNDS; i++)
            GPU_OK(cuCtxRecordEvent(gpu->context, event));
        gpu_fact(busy ? "cost.context_event_beside_64_busy_streams_us"
                      : "cost.context_event_beside_64_idle_streams_us",
                "%.2f", (gpu_microseconds() - begun) / ROUNDS);
        GPU_OK(cuCtxSynchronize());
    }
}

/* What preload asks about a stream that captures, in each mode: does a question end the capture? */
TEST(r67_questions_inside_of_a_capture_in_each_mode)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    CUevent event;

    gpu_init();
    event = gpu_event();
    for (int i = 0; i < 3; i++) {
        CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
        CUstream stream = gpu_stream(CU_STREAM_NON_BLOCKING);
        unsigned long long number = 0;
        CUresult r[5] = {CUDA_SUCCESS};
        CUcontext context = NULL;
        unsigned int flags = 0;
        CUgraph graph = NULL;
        char name[64];

        GPU_OK(cuStreamBeginCapture_v2(stream, modes[i]));
        if (gpu->cuStreamGetId)
            r[0] = gpu->cuStreamGetId(stream, &number);
        r[1] = gpu->cuStreamGetCtx(stream, &context);
        r[2] = gpu->cuStreamGetFlags(stream, &flags);
        r[3] = gpu->cuStreamIsCapturing(CU_STREAM_LEGACY, &state);
        r[4] = gpu->cuStreamEndCapture(stream, &graph);
        (void)snprintf(name, sizeof name, "asked_in_a_capture.mode_%d", i);
        gpu_fact(name, "number %d, context %d, flags %d, legacy %d, end %d", (int)r[0], (int)r[1],
                (int)r[2], (int)r[3], (int)r[4]);
        CHECK_EQ(r[4], CUDA_SUCCESS);
    }
    if (gpu->cuCtxRecordEvent) {
        CUstream stream = gpu_stream(CU_STREAM_NON_BLOCKING);
        CUgraph graph = NULL;
        CUresult recorded;

        GPU_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        recorded = gpu->cuCtxRecordEvent(gpu->context, event);
        gpu_fact("asked_in_a_capture.context_event", "%d, end %d", (int)recorded,
                (int)gpu->cuStreamEndCapture(stream, &graph));
    }
}

/* ---- mapping calls ---- */

enum mapping_call {
    CALL_CREATE,
    CALL_MAP,
    CALL_ACCESS,
    CALL_UNMAP,
    CALL_RELEASE,
    CALL_COUNT,
};

static const char *const call_names[CALL_COUNT] = {
        "create", "map", "set_access", "unmap", "release"};

struct call_cost {
    double total, worst;
    bool waited;
};

static CUresult one_call(enum mapping_call which, CUdeviceptr at, CUmemGenericAllocationHandle *h)
{
    switch (which) {
    case CALL_CREATE:
        return gpu->cuMemCreate(h, GRANULE, &plain, 0);
    case CALL_MAP:
        return gpu->cuMemMap(at, GRANULE, 0, *h, 0);
    case CALL_ACCESS:
        return allow(at, GRANULE);
    case CALL_UNMAP:
        return gpu->cuMemUnmap(at, GRANULE);
    default:
        return gpu->cuMemRelease(*h);
    }
}

/* One granule from create to release. `busy`: each call stands beside a kernel that runs on that stream, or none. */
static void one_round(CUdeviceptr at, CUstream busy, CUevent behind, struct call_cost cost[])
{
    CUmemGenericAllocationHandle handle = 0;

    for (enum mapping_call k = CALL_CREATE; k < CALL_COUNT; k++) {
        double us;

        if (busy) {
            gpu_hold(busy, BUSY_MS);
            GPU_OK(cuEventRecord(behind, busy));
        }
        us = gpu_microseconds();
        CHECK_EQ(one_call(k, at, &handle), CUDA_SUCCESS);
        us = gpu_microseconds() - us;
        cost[k].total += us;
        cost[k].worst = us > cost[k].worst ? us : cost[k].worst;
        if (busy) {
            cost[k].waited |= gpu->cuEventQuery(behind) == CUDA_SUCCESS;
            GPU_OK(cuCtxSynchronize());
        }
    }
}

TEST(r89_each_mapping_call_alone_and_beside_a_running_kernel)
{
    CUdeviceptr range;
    CUstream stream;
    CUevent event;

    begin_with_mappings();
    range = reserve(GRANULE);
    stream = gpu_stream(CU_STREAM_NON_BLOCKING);
    event = gpu_event();
    for (int busy = 0; busy < 2; busy++) {
        struct call_cost cost[CALL_COUNT] = {{0}};
        int rounds = busy ? ROUNDS : IDLE_ROUNDS;

        for (int i = 0; i < rounds; i++)
            one_round(range, busy ? stream : NULL, event, cost);
        for (int k = 0; k < CALL_COUNT; k++) {
            char name[64];

            (void)snprintf(name, sizeof name, "cost.%s.%s_us", busy ? "beside_a_kernel" : "idle",
                    call_names[k]);
            gpu_fact(name, "%.1f, at most %.1f%s", cost[k].total / rounds, cost[k].worst,
                    !busy                    ? ""
                            : cost[k].waited ? ", waited for the kernel"
                                             : ", did not wait");
        }
    }
}

static void map_pieces(CUdeviceptr range, CUmemGenericAllocationHandle handle[])
{
    for (size_t i = 0; i < PIECES; i++) {
        REQUIRE_EQ(gpu->cuMemCreate(&handle[i], GRANULE, &plain, 0), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuMemMap(range + i * GRANULE, GRANULE, 0, handle[i], 0), CUDA_SUCCESS);
    }
}

TEST(many_mappings_are_set_and_unmapped_in_one_call)
{
    CUmemGenericAllocationHandle handle[PIECES];
    CUdeviceptr range;
    double us;

    begin_with_mappings();
    range = reserve(PIECES * GRANULE);
    map_pieces(range, handle);
    us = gpu_microseconds();
    gpu_fact("bulk.set_access_of_64_mappings", "%d", (int)allow(range, PIECES * GRANULE));
    gpu_fact("cost.bulk.set_access_of_64_mappings_us", "%.1f", gpu_microseconds() - us);
    gpu_fact("bulk.memset_over_borders", "%d",
            (int)gpu->cuMemsetD8_v2(range + 100, 5, PIECES * GRANULE - 200));
    gpu_fact("bulk.copy_over_borders", "%d",
            (int)gpu->cuMemcpyDtoD_v2(range + 8 * GRANULE + 100, range + 100, 5 * GRANULE));
    GPU_OK(cuCtxSynchronize());
    gpu_fact("bulk.unmap_of_half_a_mapping", "%d", (int)gpu->cuMemUnmap(range, GRANULE / 2));
    gpu_fact("bulk.unmap_of_8_in_one_call", "%d", (int)gpu->cuMemUnmap(range, 8 * GRANULE));
    gpu_fact(
            "bulk.unmap_over_a_hole", "%d", (int)gpu->cuMemUnmap(range + 4 * GRANULE, 8 * GRANULE));
    gpu_fact("bulk.what_that_left_mapped", "%d",
            (int)gpu->cuMemUnmap(range + 8 * GRANULE, 4 * GRANULE));
    us = gpu_microseconds();
    gpu_fact("bulk.unmap_of_52_in_one_call", "%d",
            (int)gpu->cuMemUnmap(range + 12 * GRANULE, 52 * GRANULE));
    gpu_fact("cost.bulk.unmap_of_52_in_one_call_us", "%.1f", gpu_microseconds() - us);
    for (int i = 0; i < PIECES; i++)
        GPU_OK(cuMemRelease(handle[i]));
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        (void)closedir(folder);
    return count;
}

static size_t create_handles(
        CUmemGenericAllocationHandle handle[], size_t count, const CUmemAllocationProp *prop)
{
    size_t made = 0;

    while (made < count && gpu->cuMemCreate(&handle[made], GRANULE, prop, 0) == CUDA_SUCCESS)
        made++;
    return made;
}

static void release_handles(CUmemGenericAllocationHandle handle[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        GPU_OK(cuMemRelease(handle[i]));
}

/* A device full of handles of 2 MiB, as a pool of many granules has it. */
TEST(a_device_full_of_handles_has_its_cost_written_down)
{
    CUmemGenericAllocationHandle *handle;
    size_t before, after, total, count, made;
    CUdeviceptr range;
    double us;

    begin_with_mappings();
    GPU_OK(cuMemGetInfo_v2(&before, &total));
    count = before / GRANULE * 9 / 10;
    count = count > HANDLES_MOST ? HANDLES_MOST : count;
    handle = calloc(count, sizeof *handle);
    REQUIRE(handle);
    range = reserve(count * GRANULE);
    us = gpu_microseconds();
    made = create_handles(handle, count, &plain);
    gpu_fact("cost.full.created", "%zu of %zu, %.2f us each", made, count,
            (gpu_microseconds() - us) / (double)count);
    REQUIRE_EQ(made, count);
    us = gpu_microseconds();
    for (size_t i = 0; i < made; i++)
        GPU_OK(cuMemMap(range + i * GRANULE, GRANULE, 0, handle[i], 0));
    gpu_fact("cost.full.map_us_each", "%.2f", (gpu_microseconds() - us) / (double)made);
    us = gpu_microseconds();
    CHECK_EQ(allow(range, made * GRANULE), CUDA_SUCCESS);
    gpu_fact("cost.full.set_access_of_all_us_each", "%.2f",
            (gpu_microseconds() - us) / (double)made);
    GPU_OK(cuMemGetInfo_v2(&after, &total));
    gpu_fact("cost.full.memory_beside_each_handle", "%lld",
            ((long long)(before - after) - (long long)(made * GRANULE)) / (long long)made);
    us = gpu_microseconds();
    GPU_OK(cuMemUnmap(range, made * GRANULE));
    gpu_fact("cost.full.unmap_of_all_us_each", "%.2f", (gpu_microseconds() - us) / (double)made);
    us = gpu_microseconds();
    release_handles(handle, made);
    gpu_fact("cost.full.release_us_each", "%.2f", (gpu_microseconds() - us) / (double)made);
    free(handle);
}

/* R99: descriptors belong to the program. Does a handle that can be exported hold one? */
TEST(r99_handles_that_can_be_exported_hold_descriptors_or_do_not)
{
    CUmemGenericAllocationHandle handle[DESCRIPTORS];
    CUmemAllocationProp prop = plain;
    size_t made;
    int before;

    begin_with_mappings();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    before = descriptors();
    made = create_handles(handle, DESCRIPTORS, &prop);
    gpu_fact("descriptors_of_exportable_handles", "%d for %zu", descriptors() - before, made);
    release_handles(handle, made);
}

/* ---- ranges over several handles (R79, R80) ---- */

static void say_dma_buf(const char *name, CUdeviceptr at, size_t size)
{
    int descriptor = -1;

    if (gpu->cuMemGetHandleForAddressRange)
        gpu_fact(name, "%d",
                (int)gpu->cuMemGetHandleForAddressRange(
                        &descriptor, at, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

TEST(r79_r80_what_is_said_of_a_range_over_two_handles)
{
    CUmemAllocationProp prop = plain;
    CUmemGenericAllocationHandle handle[2];
    CUdeviceptr range, base = 0;
    unsigned int one = 1;
    CUipcMemHandle ipc;
    CUresult asked;
    size_t size = 0;

    begin_with_mappings();
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.allocFlags.gpuDirectRDMACapable =
            gpu_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
    range = reserve(2 * GRANULE);
    for (size_t i = 0; i < 2; i++) {
        REQUIRE_EQ(gpu->cuMemCreate(&handle[i], GRANULE, &prop, 0), CUDA_SUCCESS);
        REQUIRE_EQ(gpu->cuMemMap(range + i * GRANULE, GRANULE, 0, handle[i], 0), CUDA_SUCCESS);
    }
    REQUIRE_EQ(allow(range, 2 * GRANULE), CUDA_SUCCESS);
    asked = gpu->cuMemGetAddressRange_v2(&base, &size, range + GRANULE);
    gpu_fact("two_handles.address_range", "%d, %lld from the first, %zu bytes", (int)asked,
            (long long)(base - range), size);
    say_dma_buf("two_handles.dma_buf_of_both", range, 2 * GRANULE);
    say_dma_buf("two_handles.dma_buf_of_one", range, GRANULE);
    gpu_fact("two_handles.sync_memops", "%d",
            (int)gpu->cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range));
    gpu_fact("two_handles.ipc", "%d", (int)gpu->cuIpcGetMemHandle(&ipc, range));
}

/* What stream-ordered memory answers to those who want its physical handle. */
TEST(r80_stream_ordered_memory_has_a_physical_handle_or_has_not)
{
    static const size_t sizes[] = {GRANULE / 2, GRANULE, 3 * GRANULE};

    gpu_init();
    if (!gpu->cuMemAllocAsync || !gpu->cuMemRetainAllocationHandle)
        SKIP("the driver has no stream-ordered memory");
    for (int i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle handle = 0;
        CUdeviceptr at = 0;
        CUresult retained, exported = CUDA_SUCCESS;
        int descriptor = -1;
        char name[64];

        REQUIRE_EQ(gpu->cuMemAllocAsync(&at, sizes[i], NULL), CUDA_SUCCESS);
        GPU_OK(cuCtxSynchronize());
        retained = gpu->cuMemRetainAllocationHandle(&handle, (void *)at);
        if (retained == CUDA_SUCCESS)
            exported = gpu->cuMemExportToShareableHandle(
                    &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        (void)snprintf(name, sizeof name, "stream_ordered.handle_of_%zu", sizes[i]);
        gpu_fact(name, "%d, export %d", (int)retained, (int)exported);
        (void)snprintf(name, sizeof name, "stream_ordered.dma_buf_of_%zu", sizes[i]);
        say_dma_buf(name, at, sizes[i] < GRANULE ? GRANULE : sizes[i]);
    }
}

/* ---- mapped memory over a reset of the primary context (R76) ---- */

TEST(r76_mapped_memory_outlives_a_reset)
{
    CUmemGenericAllocationHandle handle = 0;
    CUcontext context = NULL;
    unsigned char byte = 0;
    CUdeviceptr range;
    CUresult read;

    begin_with_mappings();
    range = reserve(GRANULE);
    REQUIRE_EQ(gpu->cuMemCreate(&handle, GRANULE, &plain, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemMap(range, GRANULE, 0, handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(allow(range, GRANULE), CUDA_SUCCESS);
    GPU_OK(cuMemsetD8_v2(range, 0x5a, GRANULE));
    GPU_OK(cuCtxSynchronize());
    GPU_OK(cuDevicePrimaryCtxReset_v2(gpu->device));
    REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&context, gpu->device), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    read = gpu->cuMemcpyDtoH_v2(&byte, range + 77, 1);
    gpu_fact("mapped_over_a_reset.read", "%d, %s", (int)read,
            byte == 0x5a ? "the content is there" : "the content is gone");
    gpu_fact("mapped_over_a_reset.unmap", "%d", (int)gpu->cuMemUnmap(range, GRANULE));
    gpu_fact("mapped_over_a_reset.release", "%d", (int)gpu->cuMemRelease(handle));
    gpu_fact("mapped_over_a_reset.free_range", "%d", (int)gpu->cuMemAddressFree(range, GRANULE));
}

/* ---- the layout of parameters, by the right handle and by the wrong one (R86) ---- */

static const char kernels[] = ".version 7.0\n"
                              ".target sm_70\n"
                              ".address_size 64\n"
                              ".visible .entry gpu_none()\n"
                              "{\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry gpu_two(.param .u64 p, .param .u32 q)\n"
                              "{\n"
                              "    ret;\n"
                              "}\n";

struct handles {
    CUfunction none, two;
    CUkernel kernel_none, kernel_two;
};

static void load_kernels(struct handles *ret)
{
    CUlibrary library = NULL;
    CUmodule module = NULL;

    gpu_init();
    if (!gpu->cuFuncGetParamInfo || !gpu->cuLibraryLoadData)
        SKIP("the driver does not tell the layout of parameters");
    REQUIRE_EQ(gpu->cuModuleLoadData(&module, kernels), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuModuleGetFunction(&ret->none, module, "gpu_none"), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuModuleGetFunction(&ret->two, module, "gpu_two"), CUDA_SUCCESS);
    REQUIRE_EQ(
            gpu->cuLibraryLoadData(&library, kernels, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuLibraryGetKernel(&ret->kernel_none, library, "gpu_none"), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuLibraryGetKernel(&ret->kernel_two, library, "gpu_two"), CUDA_SUCCESS);
}

TEST(r86_layouts_by_the_handle_that_a_launch_takes)
{
    const char *name = NULL;
    size_t offset = 0, size = 0;
    struct handles h = {0};

    load_kernels(&h);
    gpu_fact("layout.function_without_parameters", "%d",
            (int)gpu->cuFuncGetParamInfo(h.none, 0, &offset, &size));
    gpu_fact("layout.kernel_without_parameters_as_a_function", "%d",
            (int)gpu->cuFuncGetParamInfo((CUfunction)h.kernel_none, 0, &offset, &size));
    gpu_fact("layout.kernel_as_a_function", "%d",
            (int)gpu->cuFuncGetParamInfo((CUfunction)h.kernel_two, 0, &offset, &size));
    gpu_fact("layout.name_of_a_kernel_as_a_function", "%d",
            (int)gpu->cuFuncGetName(&name, (CUfunction)h.kernel_two));
}

/* A kernel that is first met inside of a capture: may its layout be asked there? */
TEST(r86_the_layout_of_a_kernel_that_a_capture_meets_first)
{
    uint64_t address = 0;
    uint32_t word = 0;
    void *params[] = {&address, &word};
    size_t offset = 0, size = 0;
    struct handles h = {0};
    CUgraph graph = NULL;
    CUstream stream;
    CUresult asked, launched, ended;

    load_kernels(&h);
    stream = gpu_stream(CU_STREAM_NON_BLOCKING);
    GPU_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    asked = gpu->cuKernelGetParamInfo(h.kernel_two, 1, &offset, &size);
    launched = gpu->cuLaunchKernel(
            (CUfunction)h.kernel_two, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
    ended = gpu->cuStreamEndCapture(stream, &graph);
    gpu_fact("layout.in_a_capture", "%d, launch %d, end %d", (int)asked, (int)launched, (int)ended);
    CHECK_EQ(ended, CUDA_SUCCESS);
}

static void ask_functions_as_kernels(void)
{
    const char *name = NULL;
    size_t offset = 0, size = 0;
    struct handles h = {0};

    load_kernels(&h);
    gpu_fact("layout.function_without_parameters_as_a_kernel", "%d",
            (int)gpu->cuKernelGetParamInfo((CUkernel)h.none, 0, &offset, &size));
    gpu_fact("layout.function_as_a_kernel", "%d",
            (int)gpu->cuKernelGetParamInfo((CUkernel)h.two, 0, &offset, &size));
    gpu_fact("layout.name_of_a_function_as_a_kernel", "%d",
            (int)gpu->cuKernelGetName(&name, (CUkernel)h.two));
}

/* The driver need not survive this; kedge does not do it. */
TEST(r86_a_function_asked_as_a_kernel_is_an_error_or_a_crash)
{
    gpu_fact("layout.process_that_asked_so", "%s",
            gpu_in_a_process(ask_functions_as_kernels) == 0 ? "goes on" : "ends");
}

/* ---- later forms (R100): the driver's newest answer to a name, where hooks.def does not know it ---- */

static const struct {
    const char *symbol, *name;
} rows[] = {
#define HOOK(symbol, name, ...) {#symbol, name},
#include "preload/base/hooks.def"
};

static bool is_row(const char *symbol)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].symbol, symbol) == 0)
            return true;
    return false;
}

/* The name of the exported symbol that begins at `fn`, or NULL. */
static const char *symbol_at(const void *fn)
{
    Dl_info info;

    return dladdr(fn, &info) && info.dli_saddr == fn ? info.dli_sname : NULL;
}

TEST(r100_no_name_has_a_form_that_is_unknown)
{
    int asked = 0, later = 0, nameless = 0;

    gpu_init();
    REQUIRE(gpu->cuGetProcAddress_v2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUdriverProcAddressQueryResult status;
        const char *symbol;
        void *fn = NULL;

        if (i > 0 && strcmp(rows[i].name, rows[i - 1].name) == 0)
            continue;
        if (gpu->cuGetProcAddress_v2(rows[i].name, &fn, gpu->version, 0, &status) != CUDA_SUCCESS
                || !fn)
            continue;
        asked++;
        symbol = symbol_at(fn);
        nameless += !symbol;
        if (symbol && !is_row(symbol)) {
            char name[128];

            later++;
            (void)snprintf(name, sizeof name, "later_form.%s", rows[i].name);
            gpu_fact(name, "%s at %d", symbol, gpu->version);
        }
    }
    gpu_fact("later_forms", "%d", later);
    gpu_fact("look_ups.later_forms.asked", "%d, %d of them without a symbol", asked, nameless);
    CHECK_GT(asked, 100);
}

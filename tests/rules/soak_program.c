/* SPDX-License-Identifier: MIT */
/*
 * soak_program KIND COUNT [counted] - things of one kind that come and go, COUNT of them, on the simulated device.
 *
 * Prints `KIND COUNT: held N touched N` before they come, after COUNT of them and after twice as many: bytes of memory that kedge has
 * from the kernel, and of them those in memory. kedge's own mappings are the private, writable ones without reserved swap: neither the
 * loader nor malloc (with MALLOC_ARENA_MAX=1) makes such, nor does the simulated device.
 *
 * counted: for callgrind (tests/bench/callgrind.py). Nothing is printed; the instructions of the function `counted`, which lets LAST
 * more come and go, each with a pair of every API, are those of the state after COUNT of them.
 */
#include "preload/base/kedge.h"
#include "tests/bench/instrument.h"
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

enum {
    WARM = 64, /* before the first look */
    LAST = 16,
};

static void *driver;
static CUcontext context;
static CUstream stream, other;
static CUdeviceptr block;
static unsigned number; /* of what comes next */

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "soak_program: number %u, %s: %d\n", number, what, (int)result);
    exit(2);
}

static void *find(const char *name)
{
    void *found = dlsym(driver, name);

    if (!found)
        must(CUDA_ERROR_NOT_FOUND, name);
    return found;
}

/* The look-up is made once for each place. */
#define CU(symbol, ...)                               \
    do {                                              \
        static __typeof__(&symbol) entry;             \
                                                      \
        if (!entry)                                   \
            entry = (__typeof__(entry))find(#symbol); \
        must(entry(__VA_ARGS__), #symbol);            \
    } while (0)

/* ---- pairs ---------------------------------------------------------------------------------- */

static void pair_on(CUstream on)
{
    CUdeviceptr ptr;

    CU(cuMemAllocAsync, &ptr, 4096, on);
    CU(cuMemsetD8Async, ptr, 1, 4096, on);
    CU(cuMemFreeAsync, ptr, on);
}

static void pair_sync(void)
{
    CUdeviceptr ptr;

    CU(cuMemAlloc_v2, &ptr, 4096);
    CU(cuMemFree_v2, ptr);
}

static void pairs(void)
{
    pair_on(stream);
    pair_sync();
}

/* ---- kinds ---------------------------------------------------------------------------------- */

static void a_stream(void)
{
    CUstream own;

    CU(cuStreamCreate, &own, number % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    pair_on(own);
    CU(cuStreamDestroy_v2, own);
}

static void an_event(void)
{
    CUevent event;

    CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    pair_on(stream);
    CU(cuEventRecord, event, stream);
    CU(cuStreamWaitEvent, other, event, 0);
    pair_on(other);
    CU(cuEventDestroy_v2, event);
}

static void a_context(void)
{
    CUcontext own;

    CU(cuCtxCreate_v2, &own, 0, 0);
    pair_sync();
    pair_on(NULL);
    a_stream();
    CU(cuCtxDestroy_v2, own);
    CU(cuCtxSetCurrent, context);
}

static void a_reset(void)
{
    CUcontext own;

    CU(cuDevicePrimaryCtxRetain, &own, 1);
    CU(cuCtxSetCurrent, own);
    pair_sync();
    pair_on(NULL);
    CU(cuDevicePrimaryCtxReset_v2, 1);
    CU(cuCtxSetCurrent, context);
}

static void a_release(void)
{
    CUcontext own;

    CU(cuDevicePrimaryCtxRetain, &own, 1);
    CU(cuCtxSetCurrent, own);
    pair_sync();
    pair_on(NULL);
    CU(cuCtxSetCurrent, context);
    CU(cuDevicePrimaryCtxRelease_v2, 1);
}

static void a_pool(void)
{
    CUmemoryPool pool;
    CUmemPoolProps props;
    CUdeviceptr ptr;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemPoolCreate, &pool, &props);
    CU(cuMemAllocFromPoolAsync, &ptr, 4096, pool, stream);
    CU(cuMemsetD8Async, ptr, 1, 4096, stream);
    CU(cuMemFreeAsync, ptr, stream);
    CU(cuMemPoolDestroy, pool);
}

static void *in_a_thread(void *unused)
{
    CUdeviceptr ptr;

    (void)unused;
    CU(cuCtxSetCurrent, context);
    KEDGE_PUSH("thread");
    pairs();
    CU(cuMemAllocAsync_ptsz, &ptr, 4096, NULL);
    CU(cuMemFreeAsync_ptsz, ptr, NULL);
    KEDGE_POP();
    return NULL;
}

static void a_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, in_a_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        must(CUDA_ERROR_UNKNOWN, "thread");
}

static const char kernels[] =
        ".version 6.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n    ret;\n}\n";

static void launch(CUfunction function)
{
    uint64_t bytes = 8;
    CUdeviceptr from = block + 64;
    void *params[] = {&block, &from, &bytes};

    CU(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void a_module(void)
{
    CUmodule module;
    CUfunction function;

    CU(cuModuleLoadData, &module, kernels);
    CU(cuModuleGetFunction, &function, module, "kedge_sum");
    launch(function);
    CU(cuStreamSynchronize, stream);
    CU(cuModuleUnload, module);
}

static void a_library(void)
{
    CUlibrary library;
    CUkernel kernel;

    CU(cuLibraryLoadData, &library, kernels, NULL, NULL, 0, NULL, NULL, 0);
    CU(cuLibraryGetKernel, &kernel, library, "kedge_sum");
    launch((CUfunction)kernel);
    CU(cuStreamSynchronize, stream);
    CU(cuLibraryUnload, library);
}

static void an_object(void)
{
    const char *file = getenv("TEST_OBJECT");
    void *object = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!object || dlclose(object) != 0)
        must(CUDA_ERROR_FILE_NOT_FOUND, "object");
}

static void a_range(void)
{
    KEDGE_PUSH("step");
    KEDGE_PUSH("forward");
    pairs();
    KEDGE_POP();
    KEDGE_MARK("between");
    KEDGE_POP();
}

/* Names with a number are names of their own. */
static void a_name(void)
{
    char name[32];

    (void)snprintf(name, sizeof name, "step %u", number);
    KEDGE_PUSH(name);
    pairs();
    KEDGE_POP();
}

static void a_line(void)
{
    char line[32];
    int length = snprintf(line, sizeof line, "epoch %u done\n", number % 8);

    if (write(STDERR_FILENO, line, (size_t)length) != length)
        must(CUDA_ERROR_UNKNOWN, "write");
    pairs();
}

static void run_graph(CUgraph graph)
{
    CUgraphExec instance;

    CU(cuGraphInstantiateWithFlags, &instance, graph, 0);
    CU(cuGraphLaunch, instance, stream);
    CU(cuStreamSynchronize, stream);
    CU(cuGraphExecDestroy, instance);
    CU(cuGraphDestroy, graph);
}

static void a_graph(void)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraphNode node;
    CUgraph graph, clone;

    memset(&set, 0, sizeof set);
    set.dst = block;
    set.elementSize = 1;
    set.width = 64;
    set.height = 1;
    CU(cuGraphCreate, &graph, 0);
    CU(cuGraphAddMemsetNode, &node, graph, NULL, 0, &set, context);
    CU(cuGraphClone, &clone, graph);
    CU(cuGraphDestroy, clone);
    run_graph(graph);
}

static void a_capture(void)
{
    CUgraph graph;

    CU(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuMemsetD8Async, block, 2, 64, stream);
    pair_sync();
    CU(cuStreamEndCapture, stream, &graph);
    run_graph(graph);
}

/* Its graph allocates and frees. */
static void a_capture_with_memory(void)
{
    CUgraph graph;

    CU(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pair_on(stream);
    CU(cuStreamEndCapture, stream, &graph);
    run_graph(graph);
}

static void nothing(void *unused)
{
    (void)unused;
}

static void a_host_function(void)
{
    CU(cuLaunchHostFunc, stream, nothing, &number + number % 2);
    CU(cuStreamSynchronize, stream);
    pairs();
}

static void an_export(void)
{
    CUdeviceptr ptr;
    CUipcMemHandle handle;

    CU(cuMemAlloc_v2, &ptr, 4 * MB);
    CU(cuIpcGetMemHandle, &handle, ptr);
    CU(cuMemFree_v2, ptr);
}

/* Device memory by hand. */
static void a_mapping(void)
{
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;

    memset(&prop, 0, sizeof prop);
    memset(&access, 0, sizeof access);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemAddressReserve, &at, 4 * MB, 0, 0, 0);
    CU(cuMemCreate, &handle, 2 * MB, &prop, 0);
    CU(cuMemMap, at, 2 * MB, 0, handle, 0);
    CU(cuMemSetAccess, at, 2 * MB, &access, 1);
    CU(cuMemsetD8Async, at, 1, 64, stream);
    CU(cuStreamSynchronize, stream);
    CU(cuMemUnmap, at, 2 * MB);
    CU(cuMemRelease, handle);
    CU(cuMemAddressFree, at, 4 * MB);
}

static void of_the_host(void)
{
    static char own[8192] __attribute__((aligned(4096)));
    void *host;

    CU(cuMemHostAlloc, &host, 4096, 0);
    CU(cuMemFreeHost, host);
    CU(cuMemHostRegister_v2, own, 4096, 0);
    CU(cuMemHostUnregister, own);
}

static void managed(void)
{
    CUdeviceptr ptr;

    CU(cuMemAllocManaged, &ptr, 4096, CU_MEM_ATTACH_GLOBAL);
    CU(cuMemFree_v2, ptr);
}

static void an_array(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
            .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;

    CU(cuArrayCreate_v2, &array, &shape);
    CU(cuArrayDestroy, array);
}

static void a_texture(void)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUtexObject object;
    CUdeviceptr ptr;

    memset(&resource, 0, sizeof resource);
    memset(&texture, 0, sizeof texture);
    CU(cuMemAlloc_v2, &ptr, 4096);
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = ptr;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4096;
    CU(cuTexObjectCreate, &object, &resource, &texture, NULL);
    CU(cuTexObjectDestroy, object);
    CU(cuMemFree_v2, ptr);
}

/* Blocks of sizes that take turns, from many places of the heap. */
static void a_block(void)
{
    CUdeviceptr ptr[4];

    for (unsigned i = 0; i < 4; i++)
        CU(cuMemAllocAsync, &ptr[i], (size_t)512 << (number * 7 + i * 3) % 13,
                i % 2 ? stream : other);
    for (unsigned i = 0; i < 4; i++)
        CU(cuMemFreeAsync, ptr[i], i % 2 ? stream : other);
}

static const struct kind {
    const char *name;
    void (*comes_and_goes)(void);
} kinds[] = {
        {"stream", a_stream},
        {"event", an_event},
        {"context", a_context},
        {"reset", a_reset},
        {"release", a_release},
        {"pool", a_pool},
        {"thread", a_thread},
        {"module", a_module},
        {"library", a_library},
        {"object", an_object},
        {"range", a_range},
        {"name", a_name},
        {"line", a_line},
        {"graph", a_graph},
        {"capture", a_capture},
        {"memory_of_graphs", a_capture_with_memory},
        {"host_function", a_host_function},
        {"export", an_export},
        {"mapping", a_mapping},
        {"host", of_the_host},
        {"managed", managed},
        {"array", an_array},
        {"texture", a_texture},
        {"block", a_block},
};

/* ---- the run -------------------------------------------------------------------------------- */

/* Bytes of kedge's own memory. */
static void look(const char *kind, unsigned count)
{
    unsigned long held = 0;
    unsigned long touched = 0;
    unsigned long size = 0;
    unsigned long resident = 0;
    bool is_private = false;
    char line[512];
    FILE *file = fopen("/proc/self/smaps", "re");

    while (file && fgets(line, sizeof line, file)) {
        char rights[5];

        if (sscanf(line, "%*x-%*x %4s", rights) == 1)
            is_private = strcmp(rights, "rw-p") == 0;
        (void)sscanf(line, "Size: %lu", &size);
        (void)sscanf(line, "Rss: %lu", &resident);
        if (strncmp(line, "VmFlags:", 8) == 0 && is_private && strstr(line, " nr")) {
            held += size;
            touched += resident;
        }
    }
    if (file)
        (void)fclose(file);
    printf("%s %u: held %lu touched %lu\n", kind, count, held << 10, touched << 10);
    (void)fflush(stdout);
}

static void come_and_go(const struct kind *kind, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        kind->comes_and_goes();
        number++;
        if (number % 32 == 0) {
            CU(cuCtxSynchronize);
            pairs();
        }
    }
    CU(cuCtxSynchronize);
}

__attribute__((noinline)) void counted(const struct kind *kind);

void counted(const struct kind *kind)
{
    for (int i = 0; i < LAST; i++) {
        kind->comes_and_goes();
        pairs();
    }
}

static void prepare(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        must(CUDA_ERROR_NOT_FOUND, "libcuda.so.1");
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
    CU(cuMemAlloc_v2, &block, 4096);
}

int main(int argc, char **argv)
{
    unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    const struct kind *kind = NULL;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc > 1 && strcmp(kinds[i].name, argv[1]) == 0)
            kind = &kinds[i];
    if (!kind || !count)
        return 2;
    prepare();
    if (argc > 3) {
        come_and_go(kind, count);
        instrument_from_here();
        counted(kind);
        _exit(0);
    }
    come_and_go(kind, count < WARM ? count : WARM);
    for (unsigned round = 0; round < 3; round++) {
        look(kind->name, number);
        if (round < 2)
            come_and_go(kind, count);
    }
    return 0;
}

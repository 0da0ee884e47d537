/* SPDX-License-Identifier: MIT */
/*
 * driver_program.c - a program of the driver API that meets no device; prints the code of each call.
 *
 *     driver_program plain|threads|fork|fork_first|killed|binders
 *
 * The calls are made before and after cuInit, in the ways of program.h. binders: 16 threads find the driver at once, ask both
 * look-ups 1,000 times and call what they got. Compiled with LINKED it is linked with the driver, else it opens it and asks dlsym.
 */
#include "tests/driver/program.h"

#include <dlfcn.h>
#include <stdint.h>

/* clang-format off */
#define FUNCTIONS(X)                                                                      \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuGetErrorName)  \
    X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemFreeAsync)                 \
    X(cuMemAllocHost_v2) X(cuMemFreeHost) X(cuMemAllocManaged) X(cuMemAllocPitch_v2)      \
    X(cuMemGetInfo_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemsetD8Async)      \
    X(cuPointerGetAttribute) X(cuMemGetAddressRange_v2) X(cuIpcGetMemHandle)              \
    X(cuCtxGetCurrent) X(cuCtxCreate_v2) X(cuCtxSynchronize) X(cuDevicePrimaryCtxRetain)  \
    X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) X(cuStreamCreate)       \
    X(cuStreamSynchronize) X(cuStreamDestroy_v2) X(cuEventCreate) X(cuEventDestroy_v2)    \
    X(cuDeviceGetDefaultMemPool) X(cuMemPoolTrimTo) X(cuMemAddressReserve) X(cuMemCreate) \
    X(cuMemMap) X(cuMemRelease) X(cuModuleLoadData) X(cuLaunchKernel) X(cuLaunchHostFunc) \
    X(cuStreamBeginCapture_v2) X(cuGraphCreate) X(cuGraphDestroy) X(cuProfilerStart)      \
    X(cuGetExportTable)
/* clang-format on */

enum {
    BINDERS = 16,
    ASKED = 1000,
};

typedef int (*function)();

#ifdef LINKED
#    define X(name) int name();
FUNCTIONS(X)
#    undef X
static void driver_program_bind(void)
{
}
#else
#    define X(name) static function name;
FUNCTIONS(X)
#    undef X
static void driver_program_bind(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (!driver)
        exit(2);
#    define X(name)                            \
        name = (function)dlsym(driver, #name); \
        if (!name)                             \
            printf("there is no %s\n", #name);
    FUNCTIONS(X)
#    undef X
}
#endif

static void driver_program_memory(struct text *out)
{
    uint64_t p = 0, a = 0;
    size_t free_bytes = 0, total = 0, pitch = 0;
    char handle[64], bytes[8];
    void *host = NULL;
    int value = 0;

    program_say(out, "alloc", cuMemAlloc_v2(&p, (size_t)4096));
    program_say(out, "alloc of nothing", cuMemAlloc_v2(&p, (size_t)0));
    program_say(out, "alloc to nowhere", cuMemAlloc_v2((uint64_t *)NULL, (size_t)4096));
    program_say(out, "large alloc", cuMemAlloc_v2(&p, (size_t)1 << 46));
    program_say(out, "free of nothing", cuMemFree_v2((uint64_t)0));
    program_say(out, "free", cuMemFree_v2((uint64_t)0x7f0000000000));
    program_say(out, "alloc async", cuMemAllocAsync(&p, (size_t)4096, (void *)NULL));
    program_say(out, "alloc async, per thread", cuMemAllocAsync(&p, (size_t)4096, (void *)2));
    program_say(out, "free async", cuMemFreeAsync((uint64_t)0x7f0000000000, (void *)NULL));
    program_say(out, "host", cuMemAllocHost_v2(&host, (size_t)4096));
    program_say(out, "host free", cuMemFreeHost((void *)NULL));
    program_say(out, "managed", cuMemAllocManaged(&p, (size_t)4096, 1));
    program_say(out, "pitch", cuMemAllocPitch_v2(&p, &pitch, (size_t)100, (size_t)100, 4));
    program_say(out, "info", cuMemGetInfo_v2(&free_bytes, &total));
    program_say(
            out, "copy to the host", cuMemcpyDtoH_v2(bytes, (uint64_t)0x7f0000000000, (size_t)4));
    program_say(out, "copy",
            cuMemcpyHtoDAsync_v2((uint64_t)0x7f0000000000, bytes, (size_t)4, (void *)NULL));
    program_say(out, "set", cuMemsetD8Async((uint64_t)0x7f0000000000, 1, (size_t)4, (void *)NULL));
    program_say(out, "attribute", cuPointerGetAttribute(&value, 2, (uint64_t)0x7f0000000000));
    program_say(out, "range", cuMemGetAddressRange_v2(&a, &free_bytes, (uint64_t)0x7f0000000000));
    program_say(out, "ipc", cuIpcGetMemHandle(handle, (uint64_t)0x7f0000000000));
    program_say(
            out, "reserve", cuMemAddressReserve(&a, (size_t)2 << 20, (size_t)0, (uint64_t)0, 0ULL));
    program_say(out, "create",
            cuMemCreate(&a, (size_t)2 << 20, (char[32]){1, 0, 0, 0, 0, 0, 0, 0, 1}, 0ULL));
    program_say(out, "map",
            cuMemMap((uint64_t)0x7f0000000000, (size_t)2 << 20, (size_t)0, (uint64_t)1, 0ULL));
    program_say(out, "release", cuMemRelease((uint64_t)1));
}

static void driver_program_hosted(void *nothing)
{
    (void)nothing;
}

static void driver_program_others(struct text *out)
{
    static const unsigned char table_id[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89,
            0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    const void *table = NULL;
    void *handle = NULL;
    int value = -1;

    program_say(out, "version", cuDriverGetVersion(&value));
    program_say(out, "version is", value);
    program_say(out, "devices", cuDeviceGetCount(&value));
    program_say(out, "device", cuDeviceGet(&value, 0));
    program_say(out, "current", cuCtxGetCurrent(&handle));
    program_say(out, "context", cuCtxCreate_v2(&handle, 0, 0));
    program_say(out, "primary", cuDevicePrimaryCtxRetain(&handle, 0));
    program_say(out, "its release", cuDevicePrimaryCtxRelease_v2(0));
    program_say(out, "its reset", cuDevicePrimaryCtxReset_v2(0));
    program_say(out, "synchronize", cuCtxSynchronize());
    program_say(out, "stream", cuStreamCreate(&handle, 0));
    program_say(out, "stream synchronize", cuStreamSynchronize((void *)NULL));
    program_say(out, "stream destroy", cuStreamDestroy_v2((void *)NULL));
    program_say(out, "event", cuEventCreate(&handle, 0));
    program_say(out, "event destroy", cuEventDestroy_v2((void *)NULL));
    program_say(out, "pool", cuDeviceGetDefaultMemPool(&handle, 0));
    program_say(out, "trim", cuMemPoolTrimTo((void *)NULL, (size_t)0));
    program_say(out, "module",
            cuModuleLoadData(&handle, ".version 7.0\n.target sm_50\n.address_size 64\n"));
    program_say(out, "launch",
            cuLaunchKernel(
                    (void *)NULL, 1, 1, 1, 1, 1, 1, 0, (void *)NULL, (void *)NULL, (void *)NULL));
    program_say(out, "host function",
            cuLaunchHostFunc((void *)NULL, driver_program_hosted, (void *)NULL));
    program_say(out, "capture", cuStreamBeginCapture_v2((void *)NULL, 0));
    program_say(out, "graph", cuGraphCreate(&handle, 0));
    program_say(out, "graph destroy", cuGraphDestroy((void *)NULL));
    program_say(out, "profiler", cuProfilerStart());
    program_say(out, "export table", cuGetExportTable(&table, table_id));
    program_say(out, "export table is there", table != NULL);
}

static void driver_program_calls(struct text *out)
{
    const char *name = NULL;
    int code;

    for (int round = 0; round < 2; round++) {
        driver_program_others(out);
        driver_program_memory(out);
        if (round == 0) {
            program_meet();
            code = cuInit(0);
            program_meet();
            program_say(out, "init", code);
            if (cuGetErrorName(code, &name) == 0)
                program_say(out, name, 0);
        }
    }
}

static pthread_barrier_t together;

static void *driver_program_binder(void *codes)
{
    int (*ask)(const char *, void **, int, uint64_t) = NULL;
    int (*init)(unsigned);
    int (*allocate)(uint64_t *, size_t) = NULL;
    uint64_t p = 0;
    int *code = codes;
    void *driver;

    pthread_barrier_wait(&together);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&ask = dlsym(driver, "cuGetProcAddress");
    for (int i = 0; i < ASKED; i++) {
        void *fn = NULL;
        void *linked = dlsym(driver, "cuMemAlloc_v2");

        if (ask("cuMemAlloc", &fn, 11040, 0) != 0 || !fn || fn != linked)
            code[2]++;
        *(void **)&allocate = fn;
    }
    *(void **)&init = dlsym(driver, "cuInit");
    code[0] = init(0);
    code[1] = allocate(&p, 4096);
    return NULL;
}

static void driver_program_binders(void)
{
    static int codes[BINDERS][3];
    pthread_t threads[BINDERS];

    pthread_barrier_init(&together, NULL, BINDERS);
    for (int i = 0; i < BINDERS; i++)
        if (pthread_create(&threads[i], NULL, driver_program_binder, codes[i]) != 0)
            exit(2);
    for (int i = 0; i < BINDERS; i++) {
        pthread_join(threads[i], NULL);
        printf("init %d, alloc %d, %d wrong\n", codes[i][0], codes[i][1], codes[i][2]);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "binders") == 0) {
        driver_program_binders();
        return PROGRAM_STATUS;
    }
    driver_program_bind();
    return program_run(argc > 1 ? argv[1] : "plain", driver_program_calls);
}

/* SPDX-License-Identifier: MIT */
/*
 * driverprog.c - a program that is written against the driver's interface and finds it with dlopen and dlsym, or with
 * --gpa through cuGetProcAddress.
 *
 * Two streams allocate, compute and free, with an event between them; results are checked against the host. On the
 * simulated device it also reports its blocks to the oracle, as the simulated runtime does for other programs.
 */
#include "tests/trainers/kernels.ptx.h"
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/sample.h"

#include <cuda.h>
#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(name, version that cuGetProcAddress is asked for, symbol in the library) */
#define DRIVER_CALLS(X)                                                 \
    X(cuInit, 2000, "cuInit")                                           \
    X(cuGetErrorName, 6000, "cuGetErrorName")                           \
    X(cuDeviceGet, 2000, "cuDeviceGet")                                 \
    X(cuDevicePrimaryCtxRetain, 7000, "cuDevicePrimaryCtxRetain")       \
    X(cuDevicePrimaryCtxRelease, 11000, "cuDevicePrimaryCtxRelease_v2") \
    X(cuCtxSetCurrent, 4000, "cuCtxSetCurrent")                         \
    X(cuCtxSynchronize, 2000, "cuCtxSynchronize")                       \
    X(cuModuleLoadData, 2000, "cuModuleLoadData")                       \
    X(cuModuleGetFunction, 2000, "cuModuleGetFunction")                 \
    X(cuModuleUnload, 2000, "cuModuleUnload")                           \
    X(cuLaunchKernel, 4000, "cuLaunchKernel")                           \
    X(cuMemAlloc, 3020, "cuMemAlloc_v2")                                \
    X(cuMemFree, 3020, "cuMemFree_v2")                                  \
    X(cuMemAllocAsync, 11020, "cuMemAllocAsync")                        \
    X(cuMemFreeAsync, 11020, "cuMemFreeAsync")                          \
    X(cuMemcpyDtoH, 3020, "cuMemcpyDtoH_v2")                            \
    X(cuMemcpyHtoD, 3020, "cuMemcpyHtoD_v2")                            \
    X(cuStreamCreate, 2000, "cuStreamCreate")                           \
    X(cuStreamDestroy, 4000, "cuStreamDestroy_v2")                      \
    X(cuStreamWaitEvent, 3020, "cuStreamWaitEvent")                     \
    X(cuEventCreate, 2000, "cuEventCreate")                             \
    X(cuEventDestroy, 4000, "cuEventDestroy_v2")                        \
    X(cuEventRecord, 2000, "cuEventRecord")

/* Fields are called as the functions are, or as the header renames them. */
static struct {
#define FIELD(name_, version_, symbol_) __typeof__(&name_) name_;
    DRIVER_CALLS(FIELD)
#undef FIELD
    CUresult (*get_proc_address)(
            const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    void (*born)(CUdeviceptr, size_t, CUstream);
    void (*dies)(CUdeviceptr, CUstream);
    void (*step)(void);
} driver;

enum {
    STREAMS = 2,
    SLOTS = 2,
    BLOCK = 256,
};

struct tensor {
    CUdeviceptr device;
    void *host;
    uint64_t bytes;
};

struct program {
    bool async;
    int rounds;
    CUmodule module;
    CUfunction fill, mix, sum;
    CUstream streams[STREAMS];
    CUevent event;
    CUdeviceptr sums;
    uint64_t host_sums[SLOTS];
};

#define MUST(call_) must(driver.call_, __LINE__, #call_)

static void must(CUresult r, int line, const char *call)
{
    const char *name = NULL;

    if (r == CUDA_SUCCESS)
        return;
    if (driver.cuGetErrorName)
        (void)driver.cuGetErrorName(r, &name);
    (void)fprintf(stderr, "driverprog.c:%d: %s: %s (%d)\n", line, call, name ? name : "?", (int)r);
    exit(3);
}

/* ---- finding the driver ---- */

static void set(void *field, void *value)
{
    memcpy(field, &value, sizeof(value));
}

static void *find(void *library, bool by_look_up, const char *name, int version, const char *symbol)
{
    CUdriverProcAddressQueryResult status;
    void *entry = NULL;

    if (!by_look_up)
        entry = dlsym(library, symbol);
    else if (driver.get_proc_address(name, &entry, version, 0, &status) != CUDA_SUCCESS)
        entry = NULL;
    if (!entry) {
        (void)fprintf(stderr, "driverprog: the driver has no %s\n", symbol);
        exit(3);
    }
    return entry;
}

/* The header may rename a function; the look-up wants the plain name, which is the symbol without its version. */
static void find_all(void *library, bool by_look_up)
{
    static const struct {
        const char *symbol;
        int version;
        void *field;
    } rows[] = {
#define ROW(name_, version_, symbol_) {symbol_, version_, &driver.name_},
            DRIVER_CALLS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char plain[64];
        size_t length = (size_t)snprintf(plain, sizeof(plain), "%s", rows[i].symbol);

        if (length > 3 && strcmp(plain + length - 3, "_v2") == 0)
            plain[length - 3] = '\0';
        set(rows[i].field, find(library, by_look_up, plain, rows[i].version, rows[i].symbol));
    }
}

static void open_driver(bool by_look_up)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library) {
        (void)fprintf(stderr, "driverprog: %s\n", dlerror());
        exit(3);
    }
    set(&driver.get_proc_address, dlsym(library, "cuGetProcAddress_v2"));
    if (by_look_up && !driver.get_proc_address) {
        (void)fprintf(stderr, "driverprog: the driver has no cuGetProcAddress_v2\n");
        exit(3);
    }
    find_all(library, by_look_up);
    set(&driver.born, dlsym(library, "simcuda_witness_birth"));
    set(&driver.dies, dlsym(library, "simcuda_witness_death"));
    set(&driver.step, dlsym(library, "simcuda_witness_step"));
}

/* ---- memory ---- */

static struct tensor take(struct program *p, uint64_t bytes, int stream)
{
    struct tensor t = {.bytes = bytes, .host = host_tensor_new(bytes)};

    if (!t.host)
        exit(1);
    if (p->async)
        MUST(cuMemAllocAsync(&t.device, bytes, p->streams[stream]));
    else
        MUST(cuMemAlloc(&t.device, bytes));
    if (driver.born)
        driver.born(t.device, bytes, p->async ? p->streams[stream] : (CUstream)(uintptr_t)-1);
    return t;
}

static void give(struct program *p, struct tensor *t, int stream)
{
    if (driver.dies)
        driver.dies(t->device, p->async ? p->streams[stream] : (CUstream)(uintptr_t)-1);
    if (p->async)
        MUST(cuMemFreeAsync(t->device, p->streams[stream]));
    else
        MUST(cuMemFree(t->device));
    host_tensor_free(t->host, t->bytes);
}

/* ---- kernels, on the device and on the host ---- */

static void launch(CUfunction f, uint64_t bytes, void **args, CUstream stream)
{
    unsigned int blocks = (unsigned int)((sample_items(bytes) + BLOCK - 1) / BLOCK);

    MUST(cuLaunchKernel(f, blocks, 1, 1, BLOCK, 1, 1, 0, stream, args, NULL));
}

static void fill(struct program *p, struct tensor *t, uint32_t seed, int stream)
{
    void *args[] = {&t->device, &t->bytes, &seed};

    launch(p->fill, t->bytes, args, p->streams[stream]);
    host_fill(t->host, t->bytes, seed);
}

static void mix(struct program *p, struct tensor *dst, struct tensor *src, int stream)
{
    void *args[] = {&dst->device, &src->device, &dst->bytes};

    launch(p->mix, dst->bytes, args, p->streams[stream]);
    host_mix(dst->host, src->host, dst->bytes);
}

static void sum(struct program *p, int slot, struct tensor *t, int stream)
{
    CUdeviceptr out = p->sums + (CUdeviceptr)slot * sizeof(uint64_t);
    void *args[] = {&out, &t->device, &t->bytes};

    launch(p->sum, t->bytes, args, p->streams[stream]);
    host_sum(&p->host_sums[slot], t->host, t->bytes);
}

/* ---- the program ---- */

/* The first stream makes a tensor, the second reads it; both are freed with their work still queued. */
static void run_round(struct program *p, int round)
{
    static const uint64_t sizes[] = {4096, 65536, 1048576, 3538944};
    uint64_t bytes = sizes[round % 4];
    struct tensor a = take(p, bytes, 0);
    struct tensor b = take(p, bytes, 1);
    uint32_t seed = (uint32_t)round * 2 + 1;

    fill(p, &a, seed, 0);
    MUST(cuEventRecord(p->event, p->streams[0]));
    MUST(cuStreamWaitEvent(p->streams[1], p->event, 0));
    fill(p, &b, seed + 1, 1);
    mix(p, &b, &a, 1);
    sum(p, 1, &b, 1);
    sum(p, 0, &a, 0);
    MUST(cuEventRecord(p->event, p->streams[1]));
    MUST(cuStreamWaitEvent(p->streams[0], p->event, 0));
    give(p, &a, 0);
    give(p, &b, 1);
    if (driver.step)
        driver.step();
}

static void set_up(struct program *p)
{
    static const uint64_t zeros[SLOTS];

    MUST(cuModuleLoadData(&p->module, kernels_ptx));
    MUST(cuModuleGetFunction(&p->fill, p->module, "kedge_fill"));
    MUST(cuModuleGetFunction(&p->mix, p->module, "kedge_mix"));
    MUST(cuModuleGetFunction(&p->sum, p->module, "kedge_sum"));
    for (int i = 0; i < STREAMS; i++)
        MUST(cuStreamCreate(&p->streams[i], CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&p->event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&p->sums, sizeof(zeros)));
    MUST(cuMemcpyHtoD(p->sums, zeros, sizeof(zeros)));
    MUST(cuCtxSynchronize());
}

/* Compares and prints; true if all is right. */
static bool finish(struct program *p)
{
    uint64_t got[SLOTS];
    bool right = true;

    MUST(cuCtxSynchronize());
    MUST(cuMemcpyDtoH(got, p->sums, sizeof(got)));
    for (int i = 0; i < SLOTS; i++) {
        if (got[i] != p->host_sums[i]) {
            printf("wrong sum %d: 0x%016" PRIx64 " instead of 0x%016" PRIx64 "\n", i, got[i],
                    p->host_sums[i]);
            right = false;
        }
    }
    printf("checksum 0x%016" PRIx64 "\n", got[0] ^ (got[1] << 1 | got[1] >> 63));
    MUST(cuMemFree(p->sums));
    MUST(cuEventDestroy(p->event));
    for (int i = 0; i < STREAMS; i++)
        MUST(cuStreamDestroy(p->streams[i]));
    MUST(cuModuleUnload(p->module));
    return right;
}

static bool run(struct program *p)
{
    CUcontext ctx;
    CUdevice device;
    bool right;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, device));
    MUST(cuCtxSetCurrent(ctx));
    set_up(p);
    for (int round = 0; round < p->rounds; round++)
        run_round(p, round);
    right = finish(p);
    MUST(cuDevicePrimaryCtxRelease(device));
    return right;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"entrance", required_argument, NULL, 'e'},
            {"rounds", required_argument, NULL, 'n'},
            {"gpa", no_argument, NULL, 'g'},
            {NULL, 0, NULL, 0},
    };
    struct program p = {.rounds = 40};
    bool by_look_up = false;
    bool wrong_use = false;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'e') {
            p.async = strcmp(optarg, "stream") == 0;
            wrong_use |= !p.async && strcmp(optarg, "sync") != 0;
        } else if (option == 'n') {
            p.rounds = (int)strtol(optarg, NULL, 10);
        } else if (option == 'g') {
            by_look_up = true;
        } else {
            wrong_use = true;
        }
    }
    if (wrong_use || optind != argc || p.rounds < 1) {
        (void)fprintf(stderr, "usage: driverprog [--gpa] [--entrance sync|stream] [--rounds N]\n");
        return 2;
    }
    open_driver(by_look_up);
    return run(&p) ? 0 : 1;
}

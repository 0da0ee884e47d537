/* SPDX-License-Identifier: MIT */
/*
 * hot_pair.c - a program of the driver's interface that allocates and frees in a loop, to be run with kedge preloaded on the
 * simulated device: hot.py counts the instructions below `measured`, the program itself counts everything else there.
 *
 *     hot_pair ENTRANCE LIVE WORKLOAD PAIRS
 *
 * ENTRANCE  sync    cuMemAlloc, cuMemFree
 *           stream  cuMemAllocAsync, cuMemFreeAsync on the default stream
 *           pool    cuMemAllocFromPoolAsync on a pool of the program's, default stream
 *           side    cuMemAllocAsync on a non-blocking stream
 *           ptsz    cuMemAllocAsync_ptsz: the thread's own default stream
 *           runtime-sync, runtime-stream    the same as sync and stream by cudaMalloc, cudaMallocAsync and their frees, called by
 *                   the library in TEST_HOT_RUNTIME; before it everything in the folder TEST_HOT_OBJECTS is loaded
 * WORKLOAD  a size in bytes: one block of it, again and again; or `small`, `mixed`: of 64 blocks one is chosen at random, freed,
 *           and a block of another size, below 64 KiB or up to 1 MiB, allocated in its place
 * LIVE      blocks of mixed sizes that live all the while, with up to a thousand free ones between them
 *
 * With TEST_HOT_SECCOMP set, the kernel refuses and counts each system call of the loop; with TEST_HOT_TIMED, calls of the
 * driver are not counted.
 * Prints one line: ns N pairs N mallocs N syscalls N [nr] calls NAME=N... (calls of the driver, whoever made them)
 */
#include "tests/bench/instrument.h"
#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    HELD = 64,
    HOLES = 1000,
    SIZES = 7,
    SPARE = 320, /* of each size: more than can be in use, and than wait for the device */
    NAMES = 64,
};

static struct {
    __typeof__(&cuInit) init;
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuCtxSetCurrent) set_current;
    __typeof__(&cuMemAlloc_v2) alloc;
    __typeof__(&cuMemFree_v2) free;
    __typeof__(&cuMemAllocAsync) alloc_async;
    __typeof__(&cuMemFreeAsync) free_async;
    __typeof__(&cuMemAllocFromPoolAsync) alloc_from;
    __typeof__(&cuMemPoolCreate) pool_create;
    __typeof__(&cuStreamCreate) stream_create;
    __typeof__(&simcuda_set_call_hook) set_hook;
    void *(*hot_take)(size_t size, int on_stream); /* NULL: not through the runtime */
    cudaError_t (*hot_give)(void *ptr, int on_stream);
} cu;

static bool on_stream;
static CUmemoryPool pool;
static CUstream stream;

/* ---- what the loop must not do ---- */

static atomic_bool watching;
static atomic_ulong mallocs;
static volatile sig_atomic_t syscalls, last_syscall;
static struct {
    const char *name;
    unsigned long count;
} calls[NAMES];

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);

static void note_malloc(void)
{
    if (atomic_load_explicit(&watching, memory_order_relaxed))
        atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    note_malloc();
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    note_malloc();
    return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *ptr, size_t size)
{
    note_malloc();
    return __libc_realloc(ptr, size);
}

static void on_call(const char *name)
{
    int i = 0;

    if (!atomic_load_explicit(&watching, memory_order_relaxed))
        return;
    while (i < NAMES - 1 && calls[i].name && strcmp(calls[i].name, name) != 0)
        i++;
    calls[i].name = name;
    calls[i].count++;
}

/* The call was not made; what asked for it is told that it does not exist. */
static void on_syscall(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    syscalls++;
    last_syscall = info->si_syscall;
#ifdef __x86_64__
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -38;
#else
    (void)context;
#endif
}

/* From here on every system call but three, which only the end of this program makes, is counted and refused. 0 or -1. */
static int refuse_syscalls(void)
{
    struct sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof program / sizeof *program, program};
    struct sigaction action = {.sa_sigaction = on_syscall, .sa_flags = SA_SIGINFO | SA_NODEFER};

    if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

/* ---- the program ---- */

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "hot_pair: %s: %d\n", what, (int)result);
    exit(3);
}

static void *find(void *library, const char *name)
{
    void *entry = dlsym(library, name);

    if (!entry)
        (void)fprintf(stderr, "hot_pair: no %s\n", name);
    if (!entry)
        exit(77);
    return entry;
}

#define FIND(to, library, name) (to) = (__typeof__(to))find(library, name)

static void load(bool ptsz)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        exit(77);
    FIND(cu.init, library, "cuInit");
    FIND(cu.retain, library, "cuDevicePrimaryCtxRetain");
    FIND(cu.set_current, library, "cuCtxSetCurrent");
    FIND(cu.alloc, library, "cuMemAlloc_v2");
    FIND(cu.free, library, "cuMemFree_v2");
    FIND(cu.alloc_async, library, ptsz ? "cuMemAllocAsync_ptsz" : "cuMemAllocAsync");
    FIND(cu.free_async, library, ptsz ? "cuMemFreeAsync_ptsz" : "cuMemFreeAsync");
    FIND(cu.alloc_from, library, "cuMemAllocFromPoolAsync");
    FIND(cu.pool_create, library, "cuMemPoolCreate");
    FIND(cu.stream_create, library, "cuStreamCreate");
    FIND(cu.set_hook, library, "simcuda_set_call_hook");
}

/* What a framework has in its process: a hundred libraries, NCCL among them, and a runtime between itself and the driver. */
static void load_runtime(void)
{
    const char *folder = getenv("TEST_HOT_OBJECTS");
    const char *library = getenv("TEST_HOT_RUNTIME");
    DIR *objects = folder ? opendir(folder) : NULL;
    struct dirent *entry;
    char path[512];
    void *handle;

    while (objects && (entry = readdir(objects))) { /* NOLINT(concurrency-mt-unsafe): one thread */
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && !dlopen(path, RTLD_NOW | RTLD_LOCAL))
            exit(77);
    }
    if (objects)
        (void)closedir(objects);
    handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle)
        exit(77);
    FIND(cu.hot_take, handle, "hot_take");
    FIND(cu.hot_give, handle, "hot_give");
}

static void prepare(const char *entrance)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUcontext context;

    load(strcmp(entrance, "ptsz") == 0);
    must(cu.init(0), "cuInit");
    must(cu.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cu.set_current(context), "cuCtxSetCurrent");
    on_stream = strcmp(entrance, "sync") != 0 && strcmp(entrance, "runtime-sync") != 0;
    if (strncmp(entrance, "runtime", 7) == 0)
        load_runtime();
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (strcmp(entrance, "pool") == 0)
        must(cu.pool_create(&pool, &props), "cuMemPoolCreate");
    if (strcmp(entrance, "side") == 0)
        must(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static CUdeviceptr take(size_t size)
{
    CUdeviceptr ptr = 0;

    if (cu.hot_take) {
        ptr = (CUdeviceptr)(uintptr_t)cu.hot_take(size, on_stream);
        must(ptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "cudaMalloc");
    } else if (!on_stream)
        must(cu.alloc(&ptr, size), "cuMemAlloc");
    else if (pool)
        must(cu.alloc_from(&ptr, size, pool, stream), "cuMemAllocFromPoolAsync");
    else
        must(cu.alloc_async(&ptr, size, stream), "cuMemAllocAsync");
    return ptr;
}

static void give(CUdeviceptr ptr)
{
    if (cu.hot_give)
        must((CUresult)cu.hot_give((void *)(uintptr_t)ptr, on_stream), "cudaFree");
    else
        must(on_stream ? cu.free_async(ptr, stream) : cu.free(ptr), "free");
}

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

static void fill(long live)
{
    CUdeviceptr holes[HOLES];
    uint64_t state = 1;
    long every = live > HOLES ? live / HOLES : 1;
    int count = 0;

    for (long i = 0; i < live; i++) {
        (void)take(512 + next(&state) % (i % 64 == 0 ? 1 << 14 : 1 << 10));
        if (i % every == 0 && count < HOLES)
            holes[count++] = take(512 + next(&state) % (1 << 12));
    }
    while (count > 0)
        give(holes[--count]);
}

static const size_t small[SIZES] = {512, 1024, 2048, 5000, 10000, 20000, 40000};
static const size_t mixed[SIZES] = {512, 5000, 40000, 100000, 270000, 600000, 1 << 20};
static const size_t *sizes = small;
static CUdeviceptr held[HELD];

__attribute__((noinline)) static void pairs_of(long pairs, size_t size, uint64_t state)
{
    for (long i = 0; i < pairs; i++) {
        if (size) {
            give(take(size));
        } else {
            uint32_t chosen = next(&state);
            CUdeviceptr *slot = &held[chosen % HELD];

            give(*slot);
            *slot = take(sizes[chosen / HELD % SIZES]);
        }
    }
}

/* What callgrind looks at. */
void counted(long pairs, size_t size, uint64_t state);

__attribute__((noinline)) void counted(long pairs, size_t size, uint64_t state)
{
    pairs_of(pairs, size, state);
}

static void provide(size_t size)
{
    CUdeviceptr spare[SPARE];

    for (int i = 0; i < SPARE; i++)
        spare[i] = take(size);
    for (int i = 0; i < SPARE; i++)
        give(spare[i]);
}

int main(int argc, char **argv)
{
    static char line[BUFSIZ]; /* with refused system calls printf could not get memory for one */
    struct timespec begin, end;
    size_t size;
    long pairs, ns;

    if (argc != 5 || setvbuf(stdout, line, _IOFBF, sizeof line) != 0)
        return 2;
    prepare(argv[1]);
    fill(strtol(argv[2], NULL, 10));
    size = strtoull(argv[3], NULL, 10);
    if (strcmp(argv[3], "mixed") == 0)
        sizes = mixed;
    pairs = strtol(argv[4], NULL, 10);
    /* What the loop needs is there before it begins, freed blocks that wait for the device included. */
    for (int i = 0; i < HELD; i++)
        held[i] = take(sizes[i % SIZES]);
    for (int i = 0; i < SIZES; i++)
        provide(size ? size : sizes[i]);
    pairs_of(pairs / 2, size, 5);
    if (!getenv("TEST_HOT_TIMED"))
        cu.set_hook(on_call);
    instrument_from_here();
    if (getenv("TEST_HOT_SECCOMP") && refuse_syscalls() != 0)
        return 77;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    atomic_store(&watching, true);
    counted(pairs, size, 9);
    atomic_store(&watching, false);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    ns = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    printf("ns %.1f pairs %ld mallocs %lu syscalls %d [%d] calls", (double)ns / (double)pairs,
            pairs, atomic_load(&mallocs), (int)syscalls, (int)last_syscall);
    for (int i = 0; i < NAMES && calls[i].name; i++)
        printf(" %s=%lu", calls[i].name, calls[i].count);
    printf("\n");
    (void)fflush(stdout);
    _exit(0);
}

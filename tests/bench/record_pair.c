/* SPDX-License-Identifier: MIT */
/*
 * record_pair.c - a program that allocates and frees deep in its stack, to be run with kedge preloaded and recording on the
 * simulated device: record.py counts the instructions of a pair, and those of a bare unwinding of the same stack, in one run.
 *
 *     record_pair ENTRANCE STACKS PAIRS
 *
 * The same as a library, for a program in Python: record_deep(ENTRANCE, STACKS, PAIRS), from any depth.
 *
 * ENTRANCE  sync    cuMemAlloc, cuMemFree
 *           stream  cuMemAllocAsync, cuMemFreeAsync on the default stream
 *           mixed   the same with sizes from 512 bytes to 768 KiB and LIVE blocks alive, as in a training step: blocks are cut and joined,
 *                   so that one address has blocks of many sizes
 * STACKS    how many different stacks take turns, 1 to 64; each is FRAMES deep, as unw_backtrace counts
 *
 * Prints one line: frames N pairs N
 */
#include "tests/bench/instrument.h"
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES = 46,
    TURNS = 6, /* levels at which one of two ways is taken */
    SIZES = 8,
    LIVE = 64,
};

static struct {
    __typeof__(&cuInit) init;
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuCtxSetCurrent) set_current;
    __typeof__(&cuMemAlloc_v2) alloc;
    __typeof__(&cuMemFree_v2) free;
    __typeof__(&cuMemAllocAsync) alloc_async;
    __typeof__(&cuMemFreeAsync) free_async;
    int (*backtrace)(void **frames, int size);
} cu;

static bool on_stream, is_mixed;
static unsigned long done;
static int frames_seen;

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "record_pair: %s: %d\n", what, (int)result);
    exit(3);
}

static void *find(void *library, const char *name)
{
    void *entry = library ? dlsym(library, name) : NULL;

    if (!entry) {
        (void)printf("SKIP: no %s\n", name);
        exit(77);
    }
    return entry;
}

#define FIND(to, library, name) (to) = (__typeof__(to))find(library, name)

static void prepare(const char *entrance)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    /* the measure */
    void *unwind = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    CUcontext context;

    FIND(cu.init, library, "cuInit");
    FIND(cu.retain, library, "cuDevicePrimaryCtxRetain");
    FIND(cu.set_current, library, "cuCtxSetCurrent");
    FIND(cu.alloc, library, "cuMemAlloc_v2");
    FIND(cu.free, library, "cuMemFree_v2");
    FIND(cu.alloc_async, library, "cuMemAllocAsync");
    FIND(cu.free_async, library, "cuMemFreeAsync");
    FIND(cu.backtrace, unwind, "unw_backtrace");
    must(cu.init(0), "cuInit");
    must(cu.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cu.set_current(context), "cuCtxSetCurrent");
    is_mixed = strcmp(entrance, "mixed") == 0;
    on_stream = is_mixed || strcmp(entrance, "stream") == 0;
}

/* What is compared. Their callees' instructions are counted, not their own. */
void bare(void);
void pair(void);

__attribute__((noinline)) void bare(void)
{
    void *frames[128];

    frames_seen = cu.backtrace(frames, 128);
    __asm__ volatile("" ::"r"(frames) : "memory");
}

/* One block goes, another one comes; the same ones in each run. */
static void exchange(void)
{
    static CUdeviceptr live[LIVE];
    static uint64_t state = 1;
    CUdeviceptr *one;

    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    one = &live[(state >> 58) % LIVE];
    if (*one)
        must(cu.free_async(*one, NULL), "cuMemFreeAsync");
    must(cu.alloc_async(
                 one, (size_t)512 << (state >> 40) % 11 | (size_t)512 << (state >> 48) % 11, NULL),
            "cuMemAllocAsync");
}

__attribute__((noinline)) void pair(void)
{
    static const size_t sizes[SIZES] = {512, 1024, 2048, 5000, 10000, 20000, 40000, 60000};
    size_t size = sizes[done++ % SIZES];
    CUdeviceptr ptr = 0;

    if (is_mixed) {
        exchange();
    } else if (on_stream) {
        must(cu.alloc_async(&ptr, size, NULL), "cuMemAllocAsync");
        must(cu.free_async(ptr, NULL), "cuMemFreeAsync");
    } else {
        must(cu.alloc(&ptr, size), "cuMemAlloc");
        must(cu.free(ptr), "cuMemFree");
    }
}

static void down(int levels, unsigned way, void (*at_the_end)(void));

/* Two ways one level down: different return addresses, the same depth. No tail calls: each level is a frame. */
__attribute__((noinline)) static void left(int levels, unsigned way, void (*at_the_end)(void))
{
    down(levels, way, at_the_end);
    __asm__ volatile("");
}

__attribute__((noinline)) static void right(int levels, unsigned way, void (*at_the_end)(void))
{
    down(levels, way, at_the_end);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void down(int levels, unsigned way, void (*at_the_end)(void))
{
    if (levels == 0)
        at_the_end();
    else if (levels <= TURNS && (way >> (levels - 1) & 1))
        right(levels - 1, way, at_the_end);
    else
        left(levels - 1, way, at_the_end);
    __asm__ volatile("" ::: "memory");
}

/* One frame more, for depths that two frames a level do not meet. */
__attribute__((noinline)) static void one_more(int levels, unsigned way, void (*at_the_end)(void))
{
    down(levels, way, at_the_end);
    __asm__ volatile("");
}

typedef void (*begin)(int levels, unsigned way, void (*at_the_end)(void));

/* What callgrind looks at: it begins to count anew where it is warm. */
void counted(begin from, int levels, unsigned stacks, long pairs);
void is_warm(void);

__attribute__((noinline)) void is_warm(void)
{
    __asm__ volatile("");
}

/* The same calls before and after: another return address would be another stack. */
__attribute__((noinline)) void counted(begin from, int levels, unsigned stacks, long pairs)
{
    const long rounds[] = {4 * (long)stacks + 1000, pairs};

    for (int warm = 0; warm < 2; warm++) {
        if (warm)
            is_warm();
        for (long i = 0; i < rounds[warm]; i++)
            from(levels, (unsigned)i % stacks, bare);
        for (long i = 0; i < rounds[warm]; i++)
            from(levels, (unsigned)i % stacks, pair);
    }
}

/* As deep as it takes, and how to begin. */
__attribute__((noinline)) static begin find_depth(int *ret_levels)
{
    *ret_levels = 0;
    do
        down(++*ret_levels, 0, bare);
    while (frames_seen < FRAMES - 1 && *ret_levels < FRAMES);
    return frames_seen < FRAMES ? one_more : down;
}

__attribute__((visibility("default"))) int record_deep(
        const char *entrance, unsigned stacks, long pairs);

int record_deep(const char *entrance, unsigned stacks, long pairs)
{
    begin from;
    int levels;

    if (stacks < 1 || stacks > 1u << TURNS)
        return 2;
    prepare(entrance);
    from = find_depth(&levels);
    instrument_from_here();
    counted(from, levels, stacks, pairs);
    (void)printf("frames %d pairs %ld\n", frames_seen, pairs);
    (void)fflush(stdout);
    _Exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    return record_deep(argv[1], (unsigned)strtoul(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
}

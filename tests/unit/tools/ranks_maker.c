/* SPDX-License-Identifier: MIT */
/*
 * ranks_maker - writes the captures of a job of many ranks, with figures that can be told beforehand.
 *
 *     ranks_maker FOLDER RANKS EVENTS [OUTLIER LEAKER LACKING [PATHS]]
 *
 * FOLDER/rankN.kcap for each rank but LACKING. Each has steps of ten events: `step` is entered, two weights of 1 MiB and activations
 * of 4 MiB (of OUTLIER in its second step: 64 MiB) are allocated, one is freed and allocated again, all are freed, the step is left.
 * Before the steps each rank allocates a table of its own rank times 4 KiB, and 4 KiB more. LEAKER keeps a block of 8 KiB in its first step.
 * Ahead of it all the ranges a0, a1, ... as many as PATHS says are entered and left.
 */
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/where/anchor.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

static uint64_t seq;
static uint64_t next_address = 0x7f0000000000;
static int paths; /* as PATHS says */

static __attribute__((noinline)) uint64_t allocate(uint64_t size)
{
    uint64_t address = next_address;
    struct tag tag;

    next_address += (size + 511) & ~UINT64_C(511);
    (void)where_am_i(NULL, size, 0, &tag);
    (void)capture_alloc(&(struct capture_alloc_info){
            .tag = &tag, .ptr = address, .seq = ++seq, .stream = 1, .api = API_STREAM, .rule = -1});
    return address;
}

static void release(uint64_t address)
{
    (void)capture_free(&(struct capture_free_info){
            .ptr = address, .seq = ++seq, .stream = 1, .device = -1, .api = API_STREAM});
}

/* A call site each: no tail call, the frame must stay. */
#define SITE(name_)                                                \
    static __attribute__((noinline)) uint64_t name_(uint64_t size) \
    {                                                              \
        uint64_t address = allocate(size);                         \
        __asm__ volatile("" ::: "memory");                         \
        return address;                                            \
    }

SITE(table)
SITE(weights)
SITE(activations)
SITE(leak)

static void one_step(uint64_t activation_bytes, bool leaks)
{
    struct edge edge;

    (void)anchor_push(NULL, "step", &edge);
    (void)capture_edge(&edge, ++seq);
    uint64_t first = weights(MIB);
    uint64_t second = weights(MIB);
    uint64_t third = activations(activation_bytes);
    release(third);
    third = activations(activation_bytes);
    release(third);
    release(second);
    release(first);
    if (leaks)
        (void)leak(8 * KIB);
    (void)anchor_pop(NULL, &edge);
    (void)capture_edge(&edge, ++seq);
}

static void pass_through(void)
{
    struct edge edge;
    char name[16];

    for (int i = 0; i < paths; i++) {
        (void)snprintf(name, sizeof(name), "a%d", i);
        (void)anchor_push(NULL, name, &edge);
        (void)capture_edge(&edge, ++seq);
        (void)anchor_pop(NULL, &edge);
        (void)capture_edge(&edge, ++seq);
    }
}

static void *open_library(const char *file, int flags)
{
    return dlopen(file, flags);
}

static void *find_symbol(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

static int write_capture(
        const char *folder, unsigned rank, unsigned steps, bool is_outlier, bool leaks)
{
    struct where_opts where = {.unwind = {.mode = UNWIND_AUTO, .ops = {open_library, find_symbol}}};
    char file[4096];
    char number[16];

    (void)snprintf(file, sizeof(file), "%s/rank%%r.kcap", folder);
    (void)snprintf(number, sizeof(number), "%u", rank);
    struct capture_opts opts = {.file = file, .rank = number, .trace = FORMAT_TRACE_FULL};
    if (where_init(&where) != 0 || capture_init(&opts) != 0 || capstate_open() != 0)
        return 1;
    (void)table(4 * KIB * (rank + 1));
    pass_through();
    for (unsigned i = 0; i < steps; i++)
        one_step(is_outlier && i == 1 ? 64 * MIB : 4 * MIB, leaks && i == 0);
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN);
    return 0;
}

static int number_of(int argc, char **argv, int at)
{
    return argc > at ? atoi(argv[at]) : -1;
}

int main(int argc, char **argv)
{
    int ranks = number_of(argc, argv, 2);
    int events = number_of(argc, argv, 3);
    int status = 0;

    if (argc < 4 || ranks < 1 || events < 1)
        return 2;
    paths = number_of(argc, argv, 7);
    for (int rank = 0; rank < ranks; rank++) {
        if (rank == number_of(argc, argv, 6))
            continue;
        pid_t child = fork();
        if (child == 0)
            _exit(write_capture(argv[1], (unsigned)rank, (unsigned)events / 10,
                    rank == number_of(argc, argv, 4), rank == number_of(argc, argv, 5)));
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}

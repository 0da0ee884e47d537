/* SPDX-License-Identifier: MIT */
/*
 * scanstack.h - a copy of a thread's stack, and whose each part of it is.
 *
 *     this thread      its frames, by call frame information (cfirule.h)
 *     one that waits   /proc/self/task/N/syscall has where it waits: rsp and the instruction; frames as
 *                      far as they need no other register
 *     one that runs    has no known rsp, and what is below it is left over: it is not looked at
 *
 * The other threads run on. A copy counts if the thread waits at the same place after it was made. The
 * upper end is where the thread's own data begin (their first word is their address), of the first
 * thread where its program began; a stack with neither, as of a coroutine, is not looked at.
 *
 * Frames in kedge, in libcuda, libcudart and libc are nobody's: a thread that waits in the driver has
 * the driver's words on its stack. A thread that the driver began is the driver's.
 *
 * Threads: any. No malloc.
 */
#ifndef KEDGE_PRELOAD_SCANSTACK_H
#define KEDGE_PRELOAD_SCANSTACK_H

#include "preload/scan/scanread.h"

#define SCANSTACK_BYTES_MAX (4u << 20) /* of a stack */
#define SCANSTACK_NAME      20u        /* bytes of a thread's name, with its end */
#define SCANSTACK_THREADS   4096u

enum {
    SCANSTACK_DEPTH = 128,
};

enum scanstack_result {
    SCANSTACK_COPIED,
    SCANSTACK_OTHERS, /* the driver's, or gone */
    SCANSTACK_RUNS,   /* or its stack is not known */
};

/* The part of the stack from the end of the frame before to `end`. */
struct scanstack_frame {
    uint64_t ip; /* 0: of no known function */
    uint64_t end;
    bool is_wanted;
};

struct scanstack {
    uint32_t tid;
    bool is_first;             /* the process's first thread */
    char name[SCANSTACK_NAME]; /* printable */
    uint64_t data;      /* the thread's own: thread-local memory lies before it; 0: unknown */
    uint64_t low, high; /* of the copy */
    struct scanstack_frame frame[SCANSTACK_DEPTH + 1];
    uint32_t frames;
    uint64_t word[SCANSTACK_BYTES_MAX / sizeof(uint64_t)];
};

/* In the first thread, before there are others. */
void scanstack_start(void);

/* The numbers of all threads, at most `room`; how many were written. */
uint32_t scanstack_threads(uint32_t *to, uint32_t room);

enum scanstack_result scanstack_copy(
        const struct scanread *read, uint32_t tid, struct scanstack *ret_stack);

#endif

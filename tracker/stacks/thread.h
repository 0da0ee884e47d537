/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the per-thread record of tracker/.
 *
 * One record per thread, found through one thread-local pointer: the walk in progress (a small
 * stack has no space for it), the walks of walkmemo.c, the open ranges of anchor.c, the chunk of
 * caplog.c, the stack's bounds of unwind.c. Records come from meta.h and are reused after their
 * thread ended; a key destructor calls those modules (THREAD_AT_EXIT).
 *
 * Threads: a record is used by its own thread only, except in the child of a fork, which has one
 * thread.
 */
#ifndef KEDGE_TRACKER_THREAD_H
#define KEDGE_TRACKER_THREAD_H

#include "tracker/stacks/unwind.h"
#include "tracker/stacks/walkmemo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREAD_PYMEMO    256u /* Python stacks that a thread caches; a power of two */
#define THREAD_RANGES    128u /* entries of the range stack, refused pushes included */
#define THREAD_OVERFLOWS 4u   /* domains whose further pushes are counted separately */
#define THREAD_NAME_MAX  16u

/* pystack.c: Python frames seen by this thread. */
struct thread_pymemo {
    uint64_t hash; /* of the frames, 0 = empty */
    uint32_t leaf;
    uint32_t spare;
};

/* anchor.c: one pushed range; range 0 = refused, it only waits for its pop. */
struct thread_range {
    uint32_t range;
    uint32_t domain;
};

/* anchor.c: pushes of a domain that found the stack full and wait for their pops; the last entry
 * counts all other domains. */
struct thread_overflow {
    uint32_t domain;
    uint32_t count;
};

struct thread {
    uint32_t number; /* from 1, never reused */
    uint32_t tid;
    bool in_where;
    bool is_announced; /* its name is in the capture */
    bool is_main;      /* the process's first thread */

    uintptr_t stack_low, stack_high; /* 0 = not queried yet */
    void *ips[UNWIND_DEPTH_MAX]; /* where.c: addresses of the walk in progress, innermost first */
    struct walkmemo *walkmemo;   /* NULL = none yet; a reused record keeps it */

    struct thread_pymemo pymemo[THREAD_PYMEMO];

    struct thread_range ranges[THREAD_RANGES];
    uint32_t range_count;
    struct thread_overflow overflow[THREAD_OVERFLOWS]; /* pushes beyond THREAD_RANGES */
    uint32_t range_real;                               /* entries with a range */

    uint32_t chunk;       /* caplog.c: index of its current chunk, 0 = none */
    uint32_t chunk_epoch; /* of the chunk's log */

    uint32_t blocks; /* capevents.c: number of its device allocations, modulo 2^32 */

    uint64_t use_block, use_ns; /* capevents.c: its last recorded use */

    struct thread *next_free;
};

/* For thread_self; NULL: none yet. */
extern __thread struct thread *thread_current __attribute__((tls_model("initial-exec")));
struct thread *thread_make(void) __attribute__((cold));

/* This thread's record, created at the first call. NULL: no memory. */
static inline struct thread *thread_self(void)
{
    struct thread *thread = thread_current;

    return __builtin_expect(thread != NULL, 1) ? thread : thread_make();
}

/* Called once, early: glibc keeps the value of a late key in malloc'ed memory, which a thread must
 * not allocate if its first edge comes in a signal handler. */
void thread_prepare(void);

/* Number of live threads with a record. Threads that are not the program's have none. */
uint32_t thread_living(void);

/* In the child of a fork: resets locks; the records of the other threads are lost. */
void thread_fork_child(void);

/* A function that a module runs at the end of each thread with a record. The linker collects them:
 * a thread may end before a registration could run. In no order, in the ending thread. */
typedef void (*thread_exit)(struct thread *thread);
#define THREAD_AT_EXIT(function)              \
    static const thread_exit function##_entry \
            __attribute__((used, section("kedge_thread_exits"))) = (function)

#endif

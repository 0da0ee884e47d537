/* SPDX-License-Identifier: MIT */
/*
 * thread.h - what tracker/ keeps per thread.
 *
 * One record per thread, found through one thread-local pointer: the walk under way (a small stack
 * has no room for it), those of walkmemo.c, the open ranges of anchor.c, the chunk of caplog.c, the
 * stack's bounds of unwind.c. Records come from meta.h and are used again when their thread ended;
 * a key destructor tells those modules of the end (THREAD_AT_EXIT).
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

#define THREAD_PYMEMO    256u /* Python stacks that a thread remembers; a power of two */
#define THREAD_RANGES    128u /* entries of the range stack, refused pushes included */
#define THREAD_OVERFLOWS 4u   /* domains whose pushes beyond that are told apart */
#define THREAD_NAME_MAX  16u

/* pystack.c: Python frames seen by this thread. */
struct thread_pymemo {
    uint64_t hash; /* of the frames, 0 = empty */
    uint32_t leaf;
    uint32_t spare;
};

/* anchor.c: one pushed range; range 0 = it was refused and only waits for its pop. */
struct thread_range {
    uint32_t range;
    uint32_t domain;
};

/* anchor.c: how many pushes of a domain found the stack full, and wait for their pops; the last
 * entry is of all others. */
struct thread_overflow {
    uint32_t domain;
    uint32_t count;
};

struct thread {
    uint32_t number; /* from 1, never used twice */
    uint32_t tid;
    bool in_where;
    bool is_announced; /* its name is in the capture */
    bool is_main;      /* the process's first thread */

    uintptr_t stack_low, stack_high; /* 0 = not asked yet */
    void *ips[UNWIND_DEPTH_MAX];     /* where.c: of the walk that is under way, innermost first */
    struct walkmemo *walkmemo;       /* NULL = none yet; a record that is used again keeps it */

    struct thread_pymemo pymemo[THREAD_PYMEMO];

    struct thread_range ranges[THREAD_RANGES];
    uint32_t range_count;
    struct thread_overflow overflow[THREAD_OVERFLOWS]; /* pushes beyond THREAD_RANGES */
    uint32_t range_real;                               /* entries with a range */

    uint32_t chunk;       /* caplog.c: index of the chunk that it writes to, 0 = none */
    uint32_t chunk_epoch; /* of the log that it belongs to */

    uint32_t blocks; /* capevents.c: device memory that it allocated, counted modulo 2^32 */

    uint64_t use_block, use_ns; /* capevents.c: of its last event of a use */

    struct thread *next_free;
};

/* For thread_self; NULL: this thread has none yet. */
extern __thread struct thread *thread_current __attribute__((tls_model("initial-exec")));
struct thread *thread_make(void) __attribute__((cold));

/* This thread's record; made at the first call. NULL if there is no memory for it. */
static inline struct thread *thread_self(void)
{
    struct thread *thread = thread_current;

    return __builtin_expect(thread != NULL, 1) ? thread : thread_make();
}

/*
 * Once, early: glibc keeps what belongs to a late key in memory from malloc, which a thread's first
 * edge may not ask for if it comes in a signal handler.
 */
void thread_prepare(void);

/* Threads with a record that have not ended. What is no thread of the program's has none. */
uint32_t thread_living(void);

/* In the child of a fork: locks are new, the records of the other threads are lost. */
void thread_fork_child(void);

/*
 * What a module does at the end of each thread that has a record. The linker collects them: a
 * thread may end before anybody could have registered. In no order, in the thread itself.
 */
typedef void (*thread_exit)(struct thread *thread);
#define THREAD_AT_EXIT(function)              \
    static const thread_exit function##_entry \
            __attribute__((used, section("kedge_thread_exits"))) = (function)

#endif

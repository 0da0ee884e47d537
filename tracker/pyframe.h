/* SPDX-License-Identifier: MIT */
/*
 * pyframe.h - the calling thread's own Python frames, read where they lie.
 *
 * Trainers let go of the GIL before they ask for memory, and to wait for it there can deadlock. But a thread that is in C
 * changes none of its frames, frames own their code objects, and what we read of those never changes. So plain loads
 * are enough: no GIL, no reference count, no call that could make an object, and no Python to build with. Where the
 * fields are says pylayout.h.
 *
 *     pyframe_look ─► an interpreter? ─► its layout ─► READY, or REFUSED with a reason
 *     pyframe_hash ─► PyGILState_GetThisThreadState (a thread-specific value) ─► frame ─► previous ─► ...
 *
 * Left out are frames that are none yet (the interpreter is still calling the function) and the interpreter's own
 * shims between C and Python.
 *
 * A thread whose interpreter ends while it is in C (a daemon thread at exit) could lose its frames under our eyes: from
 * the moment at which the interpreter says that it ends, only the thread that ends it is walked. Up to 3.11 a thread
 * inside a sub-interpreter shows the frames of the main one that lie below.
 *
 * Threads: pyframe_hash and pyframe_walk any, not in a signal handler. pyframe_look asks the loader: no kedge lock may be held.
 * No malloc of ours.
 */
#ifndef KEDGE_TRACKER_PYFRAME_H
#define KEDGE_TRACKER_PYFRAME_H

#include "tracker/pylayout.h"
#include "tracker/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYFRAME_DEPTH_MAX 128u /* innermost frames of a stack that are kept */

enum pyframe_state {
    PYFRAME_NONE,  /* no interpreter in the process, as far as is known */
    PYFRAME_LOOK,  /* a library was opened since: worth a look */
    PYFRAME_READY, /* one whose frames can be read */
    PYFRAME_REFUSED,
};

/* One frame of a walk, innermost first. `code` may be read until this thread goes on. */
struct pyframe {
    const char *code;
    uint64_t stamp; /* differs, as good as surely, for another code object at the same address */
    int32_t lasti;  /* in bytes */
    bool is_entry;  /* entered from C */
};

/* pyframe.c's; read by pyframe_is_wanted. */
extern _Atomic uint32_t pyframe_now __attribute__((visibility("hidden")));

/* Anything to do here? One load for processes without Python. */
static inline bool pyframe_is_wanted(void)
{
    uint32_t state = atomic_load_explicit(&pyframe_now, memory_order_acquire);

    return state == PYFRAME_READY || state == PYFRAME_LOOK;
}

/*
 * Looks for an interpreter: in the program, in its global libraries, in any libpython3. It stays loaded from then on.
 * Once; and again after pyframe_library_opened.
 */
void pyframe_look(const struct unwind_ops *ops);

/* Something was loaded. One store. */
void pyframe_library_opened(void);

/* In the child of a fork: a look that another thread was at begins again. */
void pyframe_fork_child(void);

static inline enum pyframe_state pyframe_state(void)
{
    return (enum pyframe_state)atomic_load_explicit(&pyframe_now, memory_order_acquire);
}

/* Whether it is settled, and is another one than `told`, the last that somebody spoke of. */
static inline bool pyframe_is_news(uint32_t told)
{
    enum pyframe_state state = pyframe_state();

    return state >= PYFRAME_READY && (uint32_t)state > told;
}

/*
 * Whether a return address lies in the loop that runs Python functions: what is further out in a native stack is behind frames that
 * pyframe_walk has. Only when READY; false where the interpreter does not name its loop.
 */
extern uintptr_t pyframe_loop __attribute__((visibility("hidden")));
extern size_t pyframe_loop_bytes __attribute__((visibility("hidden")));
static inline bool pyframe_is_loop(const void *address)
{
    return (uintptr_t)address - pyframe_loop < pyframe_loop_bytes;
}

/* "CPython 3.11", or why it was refused ("CPython 3.14.0 ...: its version is not ..."); "" without an interpreter. */
const char *pyframe_text(void);

/* The layout in force; only when READY. */
const struct pylayout *pyframe_layout(void);

/*
 * How many frames this thread has (at most PYFRAME_DEPTH_MAX, the innermost ones; those that are none yet count), and in
 * *ret_hash what changes with any of them. 0 when it has none. Only when READY, as pyframe_walk.
 */
unsigned pyframe_hash(uint64_t *ret_hash);

/*
 * The frames themselves, innermost first, into an array of PYFRAME_DEPTH_MAX. 0 also when all of them are none yet.
 * *ret_early: one of them has not come to the first instruction of its own; the next frames of this hash may be others, since it
 * does not tell a generator's (which counts) from one that is none yet (which does not).
 */
unsigned pyframe_walk(struct pyframe *ret_frames, bool *ret_early);

/* Is what a frame calls a code object one, with strings where strings should be? */
bool pyframe_is_code(const char *code);

/* The objects are not what the layout says: no Python stacks from here on. `why` is a literal. */
void pyframe_refuse(const char *why);

#endif

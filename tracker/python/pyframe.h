/* SPDX-License-Identifier: MIT */
/*
 * pyframe.h - the calling thread's own Python frames, read where they lie.
 *
 * Trainers let go of the GIL before they ask for memory, and to wait for it there can deadlock. But a thread that is in C
 * changes none of its frames, frames own their code objects, and what we read of those never changes. So plain loads
 * are enough: no GIL, no reference count, no call that could make an object, and no Python needed for the build.
 * pylayout.h knows where the fields are.
 *
 *     pyframe_look ─► an interpreter? ─► its layout ─► READY, or REFUSED with a reason
 *     pyframe_hash ─► PyGILState_GetThisThreadState (a thread-specific value) ─► frame ─► previous ─► ...
 *
 * Two kinds of frames are left out: incomplete ones (the interpreter is still calling the function), and the
 * interpreter's own shims between C and Python.
 *
 * A thread whose interpreter ends while the thread is in C (a daemon thread at exit) could lose its frames during the walk:
 * once the interpreter says that it is ending, only the thread that ends it is walked. Up to 3.11 a thread
 * inside a sub-interpreter shows the frames of the main one that lie below.
 *
 * Threads: pyframe_hash and pyframe_walk any, not in a signal handler. pyframe_look asks the loader: no kedge lock may be held.
 * No malloc of ours.
 */
#ifndef KEDGE_TRACKER_PYFRAME_H
#define KEDGE_TRACKER_PYFRAME_H

#include "tracker/python/pylayout.h"
#include "tracker/stacks/unwind.h"

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
    uint64_t stamp; /* a hash: another code object at the same address has another one */
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
 * Once; and again after pyframe_library_opened. To open a file is a cancellation point: the thread is not cancelled in here.
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

/* Whether the state is final and differs from `told`, the last one that was reported. */
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

/* "CPython 3.11", or why it was refused ("CPython 3.9.18 ...: its version is not ..."); "" without an interpreter. */
const char *pyframe_text(void);

/* The layout in force; only when READY. */
const struct pylayout *pyframe_layout(void);

/*
 * How many frames this thread has (the innermost PYFRAME_DEPTH_MAX at most; incomplete ones count), and in *ret_hash a hash
 * that changes with each of them. 0 when it has none. Only when READY, as pyframe_walk.
 */
unsigned pyframe_hash(uint64_t *ret_hash);

/*
 * The frames themselves, innermost first, into an array of PYFRAME_DEPTH_MAX. 0 also if all of them are incomplete.
 * *ret_early: one of them has not reached its first instruction. The same hash may then belong to other frames, because it
 * does not tell a generator's frame (which counts) from an incomplete one (which does not).
 */
unsigned pyframe_walk(struct pyframe *ret_frames, bool *ret_early);

/* Whether `code` is a code object, with strings where strings should be. */
bool pyframe_is_code(const char *code);

/* The objects are not what the layout says: no Python stacks from here on. `why` is a literal. */
void pyframe_refuse(const char *why);

#endif

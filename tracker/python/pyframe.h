/* SPDX-License-Identifier: MIT */
/*
 * pyframe.h - the calling thread's own Python frames, read in place.
 *
 * Trainers release the GIL before they allocate, and waiting for it there can deadlock. But a
 * thread that is in C changes none of its frames, frames own their code objects, and the fields
 * read here never change. So plain loads suffice: no GIL, no reference count, no call that could
 * make an object, and no Python needed for the build. pylayout.h has the offsets of the fields.
 *
 *     pyframe_look ─► an interpreter? ─► its layout ─► READY, or REFUSED with a reason
 *     pyframe_hash ─► PyGILState_GetThisThreadState (a thread-specific value) ─► frame
 *                     ─► previous ─► ...
 *
 * Two kinds of frames are skipped: incomplete ones (the interpreter is still calling the function),
 * and the interpreter's own shims between C and Python.
 *
 * A thread whose interpreter ends while the thread is in C (a daemon thread at exit) could lose its
 * frames during the walk: once the interpreter reports that it is ending, only the thread that ends
 * it is walked. Up to 3.11 a thread inside a sub-interpreter shows the frames of the main one
 * below.
 *
 * Threads: pyframe_hash and pyframe_walk any, not in a signal handler. pyframe_look calls the
 * loader: no kedge lock may be held. No malloc by kedge.
 */
#ifndef KEDGE_TRACKER_PYFRAME_H
#define KEDGE_TRACKER_PYFRAME_H

#include "tracker/python/pylayout.h"
#include "tracker/stacks/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYFRAME_DEPTH_MAX 128u /* innermost frames that are kept */

enum pyframe_state {
    PYFRAME_NONE,  /* no interpreter found in the process */
    PYFRAME_LOOK,  /* a library was opened since: search again */
    PYFRAME_READY, /* an interpreter whose frames can be read */
    PYFRAME_REFUSED,
};

/* One frame of a walk, innermost first. `code` is readable until this thread goes on. */
struct pyframe {
    const char *code;
    uint64_t stamp; /* a hash that distinguishes code objects at the same address */
    int32_t lasti;  /* in bytes */
    bool is_entry;  /* entered from C */
};

/* Private to pyframe.c and pyframe_is_wanted. */
extern _Atomic uint32_t pyframe_now __attribute__((visibility("hidden")));

/* Is there work for this module? One load for processes without Python. */
static inline bool pyframe_is_wanted(void)
{
    uint32_t state = atomic_load_explicit(&pyframe_now, memory_order_acquire);

    return state == PYFRAME_READY || state == PYFRAME_LOOK;
}

/* Searches for an interpreter: in the program, in its global libraries, in any libpython3. The
 * interpreter stays loaded from then on. Once; and again after pyframe_library_opened. Opening a
 * file is a cancellation point: the thread is not cancelled in here. */
void pyframe_look(const struct unwind_ops *ops);

/* A library was loaded. One store. */
void pyframe_library_opened(void);

/* In the child of a fork: restarts a search of another thread. */
void pyframe_fork_child(void);

static inline enum pyframe_state pyframe_state(void)
{
    return (enum pyframe_state)atomic_load_explicit(&pyframe_now, memory_order_acquire);
}

/* True if the state is final and differs from `told`, the last reported one. */
static inline bool pyframe_is_news(uint32_t told)
{
    enum pyframe_state state = pyframe_state();

    return state >= PYFRAME_READY && (uint32_t)state > told;
}

/* True if a return address lies in the loop that runs Python functions: native frames further out
 * are behind frames that pyframe_walk returns. Only when READY; false where the interpreter does
 * not name its loop. */
extern uintptr_t pyframe_loop __attribute__((visibility("hidden")));
extern size_t pyframe_loop_bytes __attribute__((visibility("hidden")));
static inline bool pyframe_is_loop(const void *address)
{
    return (uintptr_t)address - pyframe_loop < pyframe_loop_bytes;
}

/* "CPython 3.11", or why it was refused ("CPython 3.9.18 ...: its version is not ..."); "" without
 * an interpreter. */
const char *pyframe_text(void);

/* The layout in force; only when READY. */
const struct pylayout *pyframe_layout(void);

/* Number of frames of this thread (the innermost PYFRAME_DEPTH_MAX at most; incomplete ones count),
 * and in *ret_hash a hash that changes with each of them. 0 = none. Only when READY, like
 * pyframe_walk. */
unsigned pyframe_hash(uint64_t *ret_hash);

/* The frames themselves, innermost first, into an array of PYFRAME_DEPTH_MAX. 0 also if all of them
 * are incomplete. *ret_early: one of them has not reached its first instruction. Other frames may
 * then have the same hash, because it does not distinguish a generator's frame (which counts) from
 * an incomplete one (which does not). */
unsigned pyframe_walk(struct pyframe *ret_frames, bool *ret_early);

/* Is `code` a code object, with strings where strings are expected? */
bool pyframe_is_code(const char *code);

/* The objects do not match the layout: disables Python stacks from here on. `why` is a literal. */
void pyframe_refuse(const char *why);

#endif

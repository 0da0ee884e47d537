/* SPDX-License-Identifier: MIT */
/*
 * where.h - the caller of an allocation, and its position in the program.
 *
 *     return addresses ─ strip ─► frames ─ intern ─► leaf, site ┐
 *     anchor_here ─────────────────────────► anchor, path ──────┼─► struct tag ─► hint.h, capture.h
 *     (anchor, site, size) counted ────────► nth ───────────────┘
 *
 * Frames inside kedge, libcuda, libcudart and libc/ld.so are removed, wherever they are: the rest
 * is the program's own path to this allocation. `site`, the key of the call site, hashes the
 * innermost 8 frames by (build-id of the module, offset in it). So it is equal from run to run
 * under ASLR and changes when a module is rebuilt. A module without a build-id counts by path and a
 * fingerprint of its code (fingerprint.h). Code outside modules counts as one unknown frame.
 *
 * `nth` counts per (anchor instance, site, size), from 0. The table is bounded; a key without space
 * has the count UINT32_MAX, which only a rule for `nth: all` matches.
 *
 * If the process has an interpreter, the thread's Python frames are taken as well (pystack.h):
 * tag.pystack, with FORMAT_PYSTACK_AMBIENT set if they are another thread's. They are part of no
 * key. If they are the thread's own, the native walk ends at the interpreter's loop, and the Python
 * frames continue it. It ends there only once it has more frames than a site hashes, so that sites
 * are those of a whole walk. (Native frames further out, of libraries that call back into Python,
 * are lost.) Without Python frames the native stack is walked to its end.
 *
 * Does not record anything, never called from a signal handler (R49, no unwinding in handlers).
 * Threads: any, no kedge lock may be held (a new address calls the loader). A thread cannot be
 * cancelled while its stack is walked: reading the mappings, and querying the stack's bounds, are
 * cancellation points. No malloc.
 */
#ifndef KEDGE_TRACKER_WHERE_H
#define KEDGE_TRACKER_WHERE_H

#include "alloc/base/types.h"
#include "tracker/stacks/thread.h"
#include "tracker/stacks/unwind.h"
#include "tracker/stacks/walkmemo.h"

#include <stdbool.h>
#include <stdint.h>

struct where_opts {
    struct unwind_opts unwind;
    bool python;       /* also take Python stacks */
    uint64_t min_size; /* smaller requests get no stack (KEDGE_STACKS min=) */
    const void
            *self; /* any address inside libkedge.so, to recognise its frames; NULL = strip none */
};

struct where_stats {
    uint64_t stacks_known; /* from an address that any thread had walked before */
    uint64_t known_walks;  /* part of them that was not walked again */
    uint64_t stacks_lost;  /* requests without a stack although one was wanted */
    uint64_t stacks_cut;   /* walks cut at the depth */
    uint64_t nth_lost;     /* requests without an entry in the nth table */
    uint64_t no_build_id;  /* modules counted by path and fingerprint */
};

/* Called once, in the constructor, with one thread: chooses the unwinder, warms it up, records the
 * loaded modules. */
int where_init(const struct where_opts *opts);

/* Fills all of *ret_tag for a request of `size` bytes on `device` (-1 = unknown): unknown fields
 * are 0 (stack, site) or "" (path). `caller`: the return address at which the program's part of the
 * stack begins, so that one place is one walk on every path through kedge; NULL: the caller of this
 * function. Returns 0, or 1 if where_python_news has a message, or -EAGAIN if it was called from
 * inside itself (tag zeroed). */
int where_am_i(const void *caller, uint64_t size, int device, struct tag *ret_tag);

/* The same in two steps, for a caller that wants the walk to begin in its own frame: each frame of
 * kedge is one more to walk. The same thread calls where_end right after where_go; `caller` is not
 * NULL. A stack that was walked from the same place before is walked again only if something in it
 * has changed (walkmemo.h). */
struct where_walk {
    struct walkmemo_from from;
    const struct walkmemo_known *known; /* not NULL: no walk is needed */
    struct thread *thread;              /* NULL: it was called from inside itself */
    unsigned depth;                     /* 0: no stack is wanted */
    int found;                          /* number of addresses, in thread->ips */
    uint32_t pystack;                   /* the Python stack, taken first */
    bool is_walked;                     /* until where_end the thread cannot be cancelled, */
    int cancel;                         /* and this is its previous state */
};
unwind_fn where_begin(
        uint64_t size, struct where_walk *walk); /* for where_go; `from` has sp, bp and caller */
static inline __attribute__((always_inline)) void where_go(
        uint64_t size, const void *caller, struct where_walk *ret_walk)
{
    unwind_fn walk;

    ret_walk->from = (struct walkmemo_from){.caller = (uintptr_t)caller};
    __asm__ volatile("mov %%rsp, %0\n\tmov %%rbp, %1"
                     : "=r"(ret_walk->from.sp), "=r"(ret_walk->from.bp));
    walk = where_begin(size, ret_walk);
    if (walk)
        ret_walk->found = walk(ret_walk->thread->ips, (int)ret_walk->depth);
}
int where_end(const struct where_walk *walk, uint64_t size, int device, struct tag *ret_tag);

/* The native stack of the calling thread as a leaf, 0 = none: for a use of a released range, which
 * no rule counts. Same context as where_am_i. */
uint32_t where_stack(void);

/* The Python stack of the calling thread, as tag.pystack. Same context. */
uint32_t where_pystack(void);

/* A library was loaded, which may be an interpreter. One store. */
void where_library_opened(void);

/* Was code unloaded that walks went through? From then on a walk must be preceded by a call of
 * where_modules_came, since newly loaded code may be at those addresses. One load. */
bool where_code_has_gone(void);
void where_modules_came(void);

/* The message for the user about Python, once: "CPython 3.11.2" when the frames of an interpreter
 * are read, or why they are not. NULL = none. One load. */
const char *where_python_news(bool *ret_refused);

/* Why no hint by Python call site can match now, in words; NULL: it can. An interpreter may still
 * come, or turn out to be unsupported. No kedge lock may be held. */
const char *where_lacks_python(void);

/* A library was unloaded: addresses may have other code now. Any thread; call it after a successful
 * dlclose. */
void where_modules_changed(void);

/* The program's identity, for receipts and the capture: "build-id:<hex>" of the main executable,
 * else "path:<hex16>". Available after where_init; "" before. */
const char *where_program(void);

void where_stats(struct where_stats *ret_stats);

/* Only stacks_cut of where_stats. */
uint64_t where_stacks_cut(void);

/* In the child of a fork, once: resets the locks of where, anchor and intern. Async-signal-safe. */
void where_fork_child(void);

#endif

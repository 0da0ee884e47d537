/* SPDX-License-Identifier: MIT */
/*
 * where.h - who asks for memory, and where in the program.
 *
 *     return addresses ─ strip ─► frames ─ intern ─► leaf, site ┐
 *     anchor_here ─────────────────────────► anchor, path ──────┼─► struct tag ─► hint.h, capture.h
 *     (anchor, site, size) counted ────────► nth ───────────────┘
 *
 * Frames inside kedge, libcuda, libcudart and libc/ld.so are removed, wherever they are: the rest is the program's own
 * path to this allocation. `site`, the key of the call site, hashes the innermost 8 frames by (build-id of the module,
 * offset in it). So it is equal from run to run under ASLR and changes when a module is rebuilt. A module without a
 * build-id counts by path and a fingerprint of its code (fingerprint.h). Code in no module counts as one unknown frame.
 *
 * `nth` counts per (anchor instance, site, size), from 0. The table is bounded; a key for which there is no room has
 * the count UINT32_MAX, which only a rule for `nth: all` matches.
 *
 * If there is an interpreter in the process, the Python frames of the thread are taken as well (pystack.h): tag.pystack,
 * with FORMAT_PYSTACK_AMBIENT set if they are another thread's. They are part of no key. If they are the thread's own, the
 * native walk ends at the interpreter's loop, and the Python frames continue it. It ends there only once it has more frames
 * than a site hashes, so that sites are those of a whole walk. (Native frames further out, of libraries that call Python
 * back, are lost.) Without Python frames the native stack is walked to its end.
 *
 * Does not write anything down, never called from a signal handler (R49).
 * Threads: any, no kedge lock may be held (a new address asks the loader). A thread cannot be cancelled while its stack is walked: to
 * read what is mapped, or to ask for the stack's bounds, is a cancellation point. No malloc.
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
    bool python;       /* Python stacks too */
    uint64_t min_size; /* smaller requests get no stack (KEDGE_STACKS min=) */
    const void *
            self; /* any address inside libkedge.so, so that its frames are known; NULL = strip none as ours */
};

struct where_stats {
    uint64_t stacks_known; /* that any thread had asked from before */
    uint64_t known_walks;  /* of them, those that were not walked again */
    uint64_t stacks_lost;  /* requests without a stack although one was wanted */
    uint64_t stacks_cut;   /* walks that ended at the depth */
    uint64_t nth_lost;     /* requests without a place in the nth table */
    uint64_t no_build_id;  /* modules counted by path and fingerprint */
};

/* Once, in the constructor, with one thread: chooses the unwinder, warms it up, notes the modules loaded so far. */
int where_init(const struct where_opts *opts);

/*
 * Fills *ret_tag for a request of `size` bytes on `device` (-1 = unknown). Always fills all of it: what cannot be
 * known is 0 (stack, site) or "" (path). `caller`: the return address at which the program's part of the stack begins, so
 * that one place is one walk by whichever way it comes here; NULL: whoever calls this. Returns 0, or 1 if where_python_news
 * has something to say, or -EAGAIN if it was called from inside itself (tag filled with zeroes).
 */
int where_am_i(const void *caller, uint64_t size, int device, struct tag *ret_tag);

/*
 * The same in two steps, for a caller that wants the walk to begin in its own frame: each frame of kedge is one more to
 * walk. The same thread calls where_end right after where_go; `caller` is not NULL. A stack that was walked from the same
 * place before is not walked again unless something in it has changed (walkmemo.h).
 */
struct where_walk {
    struct walkmemo_from from;
    const struct walkmemo_known *known; /* not NULL: there is no need to walk */
    struct thread *thread;              /* NULL: it was called from inside itself */
    unsigned depth;                     /* 0: no stack is wanted */
    int found;                          /* addresses, in thread->ips */
    uint32_t pystack;                   /* the Python stack, taken first */
    bool is_walked;                     /* until where_end the thread cannot be cancelled, */
    int cancel;                         /* and this is its state of before */
};
unwind_fn where_begin(
        uint64_t size, struct where_walk *walk); /* for where_go; `from` has sp, bp and caller */
static inline __attribute__((always_inline)) void where_go(
        uint64_t size, const void *caller, struct where_walk *ret_walk)
{
    unwind_fn walk;

    ret_walk->from = (struct walkmemo_from){.caller = (uintptr_t)caller};
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %0\n\tmov %%rbp, %1"
                     : "=r"(ret_walk->from.sp), "=r"(ret_walk->from.bp));
#endif
    walk = where_begin(size, ret_walk);
    if (walk)
        ret_walk->found = walk(ret_walk->thread->ips, (int)ret_walk->depth);
}
int where_end(const struct where_walk *walk, uint64_t size, int device, struct tag *ret_tag);

/*
 * The native stack of the calling thread as a leaf, 0 if there is none: for a use of a released range, which no rule
 * counts. Same context as where_am_i.
 */
uint32_t where_stack(void);

/* The Python stack of the calling thread, as tag.pystack. Same context. */
uint32_t where_pystack(void);

/* A library was loaded, which may be an interpreter. One store. */
void where_library_opened(void);

/*
 * Has code gone that walks went through? From then on the next walk must not begin before it is known what was loaded, since that
 * may lie there: where_modules_came. One load.
 */
bool where_code_has_gone(void);
void where_modules_came(void);

/*
 * What to tell the user about Python, once: "CPython 3.11.2" when an interpreter was found whose frames are read, or why
 * they are not read. NULL = nothing new. One load.
 */
const char *where_python_news(bool *ret_refused);

/*
 * Why no hint by Python call site can match now, as words; NULL: it can. An interpreter may still come, or turn out not to be one
 * whose frames can be read. No kedge lock may be held.
 */
const char *where_lacks_python(void);

/* A library was unloaded: addresses may mean something else now. Any thread; call it after a dlclose that succeeded. */
void where_modules_changed(void);

/*
 * What the program is, for receipts and the capture: "build-id:<hex>" of the main executable, else "path:<hex16>".
 * Known after where_init; "" before.
 */
const char *where_program(void);

void where_stats(struct where_stats *ret_stats);

/* where_stats' stacks_cut alone. */
uint64_t where_stacks_cut(void);

/* In the child of a fork, once: locks of where, anchor and intern are new again. Async-signal-safe. */
void where_fork_child(void);

#endif

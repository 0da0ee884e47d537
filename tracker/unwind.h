/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - the return addresses above the caller.
 *
 * libunwind is never linked: as a dependency of a preloaded object it would sit in the global scope before libgcc_s,
 * and C++ programs would bind their _Unwind_* functions to it (pthread_cancel then skips destructors). It is opened
 * with RTLD_LOCAL and used through four pointers. Where it is missing, glibc's backtrace() is used, and UNWIND_FP
 * walks frame pointers inside the bounds of the thread's own stack.
 *
 *     unwind_init ─► libunwind.so.8 (dlopen, RTLD_LOCAL) ─► or libc backtrace() ─► or nothing
 *
 * libunwind caches, per thread and by address, how each frame is laid out, and the cache cannot be cleared. When other code
 * is loaded at an address that a walk went through, a thread that walked before would read a wrong layout. Such threads use
 * backtrace() from then on, which caches nothing and takes much longer.
 *
 * Does not name, strip, store or hash frames: where.h. Never called from a signal handler (R49).
 * Threads: unwind_init and unwind_warm once, in the constructor, before other threads; unwind_walker from any thread,
 * and what it returns with no kedge lock held (a cold libunwind takes the loader's lock). No malloc of ours.
 */
#ifndef KEDGE_TRACKER_UNWIND_H
#define KEDGE_TRACKER_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#define UNWIND_DEPTH_MAX 128

struct thread; /* thread.h; NULL: the caller has no record */

enum unwind_mode {
    UNWIND_AUTO,   /* libunwind, else backtrace(); where.h adds Python stacks */
    UNWIND_NATIVE, /* the same, without them */
    UNWIND_FP,     /* frame pointers only: fast, stops at the first function compiled without */
    UNWIND_OFF,
    UNWIND_MODE_COUNT,
};

/*
 * Writes at most `max` return addresses, innermost first, into `ret_ips`; the first ones lie in frames of the walker's own choice,
 * its caller's among them. Returns how many, 0 or less where nothing was found.
 */
typedef int (*unwind_fn)(void **ret_ips, int max);

/* What is really used after unwind_init. */
enum unwind_engine {
    UNWIND_ENGINE_NONE,
    UNWIND_ENGINE_LIBUNWIND,
    UNWIND_ENGINE_BACKTRACE,
    UNWIND_ENGINE_FP,
    UNWIND_ENGINE_COUNT,
};

/* The real loader functions: the caller hooks dlsym itself and must not be entered again from here. */
struct unwind_ops {
    void *(*open)(const char *file, int flags);        /* dlopen */
    void *(*symbol)(void *handle, const char *symbol); /* dlsym */
};

struct unwind_opts {
    enum unwind_mode mode;
    unsigned depth; /* frames looked at, own ones included; 0 = 48; at most UNWIND_DEPTH_MAX */
    struct unwind_ops ops;
};

/*
 * Chooses the engine. Returns 0, or -EINVAL (mode or depth out of range, ops missing). A missing libunwind is no
 * error: unwind_engine says what came of it. May be called again (tests), while no thread unwinds.
 */
int unwind_init(const struct unwind_opts *opts);

/*
 * One walk while the process has one thread: the first walk opens libgcc_s or sets up libunwind's caches, and both
 * are unsafe to race (libunwind 1.6 has a known race there). Returns 0 or -ENODATA when nothing was found.
 */
int unwind_warm(void);

/*
 * How `thread` may walk now, NULL when stacks are off or there is no way; called anew for each walk. Not a walk by itself, since
 * a frame of ours between the walker and its caller would be one more to walk.
 */
unwind_fn unwind_walker(struct thread *thread);

/*
 * Where the thread's own stack ends (the first address behind it), if `sp` lies in it and walks are libunwind's; else false. The
 * first call of a thread asks the system.
 */
bool unwind_stack(struct thread *thread, uintptr_t sp, uintptr_t *ret_high);

/* Something was unloaded: what libunwind remembers for all threads together is forgotten. Any thread, no lock held. */
void unwind_code_unloaded(void);

/*
 * Code that walks went through was replaced by other code, for the `times`-th time; a number that was told before changes nothing.
 * When it returns, no thread that walked before relies on libunwind. Any thread, no lock held; the first call may open libgcc_s.
 */
void unwind_code_replaced(uint32_t times);

/* Walks that took the long way because of that. */
uint64_t unwind_long_walks(void);

/* What unwind_init chose, and its name for the capture ("libunwind", "backtrace", "fp", "none"). */
enum unwind_engine unwind_engine(void);
const char *unwind_engine_name(enum unwind_engine engine);

/* The depth in force. */
unsigned unwind_depth(void);

#endif

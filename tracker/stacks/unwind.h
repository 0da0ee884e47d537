/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - the return addresses above the caller.
 *
 * A walk follows the frames by their call frame information (cfirule.h), remembered by address for all threads. It reads nothing
 * but the stack and, for addresses that are new, the tables of the objects in memory: no file, no descriptor (R99), no library
 * besides, no system call but the one that asks for the bounds of a thread's stack. A stack with a frame of another kind is walked
 * by glibc's backtrace(), which takes longer and opens libgcc_s when it is called first. On other machines than x86-64 all are.
 * UNWIND_FP walks frame pointers inside the bounds of the thread's own stack.
 *
 *     ip, rsp, rbp ─► rule of ip ─► the caller's ip, rsp, rbp ─► ... ─► the outermost frame, or the depth
 *                        └─ of another kind ─► backtrace() from the start
 *
 * Frames without a table (generated code) are taken to have a frame pointer, and only on the thread's own stack, where each
 * word that is read is known to be there.
 *
 * Does not name, strip, store or hash frames: where.h. Never called from a signal handler (R49).
 * Threads: unwind_init once, before walks; unwind_walker from any thread, and what it returns with no kedge lock held (an address
 * that is new takes the loader's lock). No malloc of ours.
 */
#ifndef KEDGE_TRACKER_UNWIND_H
#define KEDGE_TRACKER_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#define UNWIND_DEPTH_MAX 128

struct thread; /* thread.h; NULL: the caller has no record */

enum unwind_mode {
    UNWIND_AUTO,   /* by tables, else backtrace(); where.h adds Python stacks */
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
    UNWIND_ENGINE_TABLES,
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
 * Chooses the engine. Returns 0, or -EINVAL (mode or depth out of range, ops missing). May be called again (tests), while no
 * thread unwinds.
 */
int unwind_init(const struct unwind_opts *opts);

/*
 * How to walk, NULL when stacks are off or there is no way. Not a walk by itself, since a frame of ours between the walker and its
 * caller would be one more to walk.
 */
unwind_fn unwind_walker(void);

/*
 * Where the thread's own stack ends (the first address behind it), if `sp` lies in it and walks are by tables; else false. The
 * first call of a thread asks the system.
 */
bool unwind_stack(struct thread *thread, uintptr_t sp, uintptr_t *ret_high);

/* Code was unloaded or replaced by other code: what is remembered of addresses is forgotten. Any thread. */
void unwind_code_changed(void);

/* What unwind_init chose, and its name for the capture ("tables", "backtrace", "fp", "none"). */
enum unwind_engine unwind_engine(void);
const char *unwind_engine_name(enum unwind_engine engine);

/* The depth in force. */
unsigned unwind_depth(void);

#endif

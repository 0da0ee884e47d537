/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - the return addresses above the caller.
 *
 * A walk follows the frames by their call frame information (cfirule.h), cached by address for all
 * threads. It reads only the stack and, for new addresses, the tables of the objects in memory: no
 * file, no descriptor (R99), no other library, no system call except the one that queries the
 * bounds of a thread's stack. A stack with an unsupported frame is walked by glibc's backtrace(),
 * which is slower and opens libgcc_s at its first call. UNWIND_FP walks frame pointers inside the
 * bounds of the thread's own stack.
 *
 *     ip, rsp, rbp ─► rule of ip ─► the caller's ip, rsp, rbp ─► ... ─► the outermost frame, or
 *                        │                                             the depth
 *                        └─ unsupported ─► backtrace() from the start
 *
 * Frames without a table (generated code) are assumed to have a frame pointer, but only on the
 * thread's own stack, where each word to be read is known to be mapped.
 *
 * Does not name, strip, store or hash frames: where.h. Never called from a signal handler (R49, no
 * unwinding in handlers).
 * Threads: unwind_init once, before walks; unwind_walker from any thread, and its result with no
 * kedge lock held (a new address takes the loader's lock). No malloc by kedge.
 */
#ifndef KEDGE_TRACKER_UNWIND_H
#define KEDGE_TRACKER_UNWIND_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UNWIND_DEPTH_MAX 128

struct thread; /* thread.h; NULL: the caller has no record */

enum unwind_mode {
    UNWIND_AUTO,   /* by tables, else backtrace(); where.h adds Python stacks */
    UNWIND_NATIVE, /* the same without Python stacks */
    UNWIND_FP,     /* frame pointers only: fast, stops at the first function without one */
    UNWIND_OFF,
    UNWIND_MODE_COUNT,
};

/* Writes at most `max` return addresses, innermost first, into `ret_ips`; the first ones are in
 * frames of the walker itself, and its caller's is among them. Returns their number, 0 or less if
 * none. */
typedef int (*unwind_fn)(void **ret_ips, int max);

/* The engine in use after unwind_init. */
enum unwind_engine {
    UNWIND_ENGINE_NONE,
    UNWIND_ENGINE_TABLES,
    UNWIND_ENGINE_FP,
    UNWIND_ENGINE_COUNT,
};

/* The real loader functions: the caller hooks dlsym itself and must not be re-entered from here. */
struct unwind_ops {
    void *(*open)(const char *file, int flags);        /* dlopen */
    void *(*symbol)(void *handle, const char *symbol); /* dlsym */
};

struct unwind_opts {
    enum unwind_mode mode;
    unsigned depth; /* frames to walk, kedge's own included; 0 = 48; at most UNWIND_DEPTH_MAX */
    struct unwind_ops ops;
};

/* Chooses the engine. Returns 0, or -EINVAL (mode or depth out of range, ops missing). May be
 * called again (tests), while no thread unwinds. */
int unwind_init(const struct unwind_opts *opts);

/* The walk function, NULL when stacks are off. Not a walk itself, since a kedge
 * frame between the walker and its caller would be one more to walk. */
unwind_fn unwind_walker(void);

/* The end of the thread's own stack (the first address after it), if `sp` is in it and walks use
 * tables; else false. A thread's first call queries the system. */
bool unwind_stack(struct thread *thread, uintptr_t sp, uintptr_t *ret_high);

/* A word of the stack. No sanitizer: it may be between other functions' variables. */
static inline __attribute__((always_inline, no_sanitize("address"))) uint64_t unwind_stack_word(
        uintptr_t at)
{
    uint64_t word;

    memcpy(&word, (const void *)at, sizeof word); // NOLINT(performance-no-int-to-ptr)
    return word;
}

/* Code was unloaded or replaced: drops data cached by address. Any thread. */
void unwind_code_changed(void);

/* The engine that unwind_init chose, and its name for the capture ("tables", "fp", "none"). */
enum unwind_engine unwind_engine(void);
const char *unwind_engine_name(enum unwind_engine engine);

/* The depth in force. */
unsigned unwind_depth(void);

#endif

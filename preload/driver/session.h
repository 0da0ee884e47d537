/* SPDX-License-Identifier: MIT */
/*
 * session.h - the state of this run that many modules read: the pool, the options, the order of
 * events.
 *
 * start.c and dispatch.c fill this state. It is a module below them, so that a module that only
 * asks "is there a pool?" does not depend on the steps of a request.
 *
 *     KEDGE_MODE=pool   session_pool serves, and numbers the events
 *     KEDGE_MODE=track  session_pool is NULL; session_seq has a counter of its own
 *
 * Threads: any. Locks: none. No driver call. Rules: R7 (short path) R10 R38 (when the driver may be
 * asked) R75 (frees).
 */
#ifndef KEDGE_PRELOAD_SESSION_H
#define KEDGE_PRELOAD_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pool;

/* What the short path loads is hidden: the address is in the code, not in the GOT. */
#define SESSION_HIDDEN __attribute__((visibility("hidden")))

/* Fixed by dispatch_start: */
extern SESSION_HIDDEN struct pool *session_pool;  /* NULL unless KEDGE_MODE=pool */
extern SESSION_HIDDEN unsigned session_sync_free; /* KEDGE_SYNC_FREE: auto|0|1 */
extern bool session_meminfo_raw;                  /* KEDGE_POOL=meminfo=driver */
extern bool session_sync_mapped;                  /* KEDGE_POOL=sync=mapped */
extern bool session_records; /* requests are recorded: KEDGE_TRACE is not off */

/*
 * Whether kedge may call the driver for its own purposes now (R10, no calls during captures; R38).
 */
bool session_may_fence(void);

/* The next number in the order of events. */
uint64_t session_seq(void);

/*
 * `r` is the result of a call of capture.h: if it is < 0, one line names the problem. The capture
 * reports each kind once.
 */
void session_report(int r);

/* Called after a stack was taken: prints once which Python's frames are read, or why none are. */
void session_tell_python(void);

/* ---- work left for the next request or submission (dispatch_go_on) ---- */

extern SESSION_HIDDEN atomic_bool session_goes_on;
void session_go_on_later(void);

static inline bool session_must_go_on(void)
{
    return atomic_load_explicit(&session_goes_on, memory_order_relaxed);
}

/* ---- the short path (quick.h) ---- */

/* Reasons why the short path is closed. */
enum session_reason {
    SESSION_ASLEEP = 1,  /* not started, or not serving */
    SESSION_DECIDED = 2, /* hints were read: open to callers that check them */
    SESSION_ENDED = 4,   /* degraded, a forked child, a device that failed */
    SESSION_RECORDED = 8 /* a capture is written: open to callers that record what they serve */
};

extern SESSION_HIDDEN atomic_uint session_closed; /* bits of enum session_reason */

/* Closes the short path for good. */
void session_end_quick(void);

/*
 * Clears the stack below the caller, after work about released blocks and before the program
 * continues: the blocks' addresses are left on its stack. A struct that it passes to a kernel next
 * may contain them in bytes that were never set, which would look like a use (R86, guard of hints).
 */
__attribute__((noinline)) void session_sweep_stack(void);

#endif

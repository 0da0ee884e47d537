/* SPDX-License-Identifier: MIT */
/*
 * life.h - from "loaded into some process" to "passing everything through".
 *
 * A shell or a compiler that kedge is preloaded into must not pay for it, so kedge does nothing
 * before the first relevant CUDA call:
 *
 *     loaded ─► asleep ─first hook─► on ─┬─ own error, AT_SECURE, KEDGE_MODE=off ─► pass-through
 *     (constructor: NVTX variable,       ├─ fork ─► child: frees of our pointers succeed (R39)
 *      unwinder where CUDA is linked)    ├─ sticky error, driver gone ─► frozen (R34, R40)
 *                                        └─ exit ─► the capture is marked clean; no CUDA call
 *
 * Starting may be re-entered, because the loader runs other constructors: the inner call finds the
 * thread inside kedge and goes straight to the driver. No function here ends the process. Degrading
 * is permanent.
 * Threads: any. Starting runs once. Rules: R28 R34 R37 R39 R40 R41 R43 R51.
 */
#ifndef KEDGE_PRELOAD_LIFE_H
#define KEDGE_PRELOAD_LIFE_H

#include "tracker/base/config.h"

#include <stdbool.h>

enum life_mode {
    LIFE_OFF,   /* look-ups hand out no hooks */
    LIFE_TRACK, /* requests are recorded; the driver serves them */
    LIFE_POOL,  /* requests are recorded and served by kedge */
};

/* The configured mode, read at the first call; OFF after degrading. No driver call, no file. */
enum life_mode life_mode(void);

/* Whether look-ups hand out hooks. */
static inline bool life_is_wanted(void)
{
    return life_mode() != LIFE_OFF;
}

/*
 * At the head of every hook that does more than check arguments. True: kedge acts, and the thread
 * is inside it until life_leave. False: make the real call and nothing else, because this is a call
 * of kedge itself, kedge passes everything through, or no driver was found.
 */
bool life_enter(int slot); /* enum resolve_slot, for the coverage record */
void life_leave(void);

/*
 * For an anchor's edge: true (then life_leave) if kedge is on. Never starts kedge: without a CUDA
 * call there is nothing to do (R28, no early start).
 */
bool life_begin_edge(void);

/*
 * A result of the driver, for a call of kedge or one that it forwarded. Sticky errors freeze the
 * pool.
 */
void life_driver_said(int result);

/* The sticky error, 0 = none. */
int life_sticky(void);

/* Records in the capture that the process exits with this status. Async-signal-safe. */
void life_exits(int status);

/* Whether this is a child of a process that used CUDA. Below: marks it as one. */
bool life_is_child(void);
void life_become_child(void);

/* kedge acts here: started, not degraded, no forked child. */
bool life_is_on(void);

/*
 * kedge serves nothing more, but blocks that it served still belong to the program: a forked child,
 * or degraded.
 */
bool life_is_passive(void);

/*
 * A function that runs at the first hook (start.c): 0, or -errno, which makes life degrade. The
 * linker collects them.
 */
typedef int (*life_start)(const struct config *config);
#define LIFE_STARTS(function)                                                                 \
    static const life_start function##_entry __attribute__((used, section("kedge_starts"))) = \
            (function)

/* In the constructor: reads the configuration and returns whether kedge may act. Prints nothing. */
bool life_read_early(struct config *ret_config);

/* The process has other privileges than its user (AT_SECURE): kedge does nothing. */
bool life_is_secure(void);

/* The configuration; valid only after life_mode() was called. */
const struct config *life_config(void);

#endif

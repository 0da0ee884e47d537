/* SPDX-License-Identifier: MIT */
/*
 * life.h - from "loaded into some process" to "passing everything through".
 *
 * Being preloaded into a shell or a compiler must cost nothing, so nothing happens before the first CUDA call that matters:
 *
 *     loaded ──► asleep ──first hook──► on ──┬─ our trouble, AT_SECURE, KEDGE_MODE=off ─► pass-through
 *     (constructor: NVTX variable,           ├─ fork ─► child: our pointers' frees succeed, the rest is forwarded (R39)
 *      unwinder where CUDA is linked)        ├─ sticky error, driver gone ─► frozen (R34, R40)
 *                                            └─ exit ─► the capture is marked clean; no CUDA call
 *
 * Starting may be re-entered, because the loader runs other constructors: the inner call finds the thread inside kedge and
 * goes straight to the driver. Nothing here ends the process. Degrading is permanent.
 * Threads: any. Starting runs once. Rules: R28 R34 R37 R39 R40 R41 R43 R51.
 */
#ifndef KEDGE_PRELOAD_LIFE_H
#define KEDGE_PRELOAD_LIFE_H

#include "tracker/base/config.h"

#include <stdbool.h>

enum life_mode {
    LIFE_OFF,   /* the hooks are not there */
    LIFE_TRACK, /* recorded, served by the driver */
    LIFE_POOL,  /* served and recorded */
};

/* What the configuration says, read on the first question; OFF after degrading. No driver call, no file. */
enum life_mode life_mode(void);

/* Whether look-ups hand out hooks. */
static inline bool life_is_wanted(void)
{
    return life_mode() != LIFE_OFF;
}

/*
 * At the head of every hook that does more than look at arguments: true = kedge acts, and the thread is inside it until
 * life_leave. False = make the real call and nothing else: our own call, pass-through, or no driver to be found.
 */
bool life_enter(int slot); /* enum resolve_slot, for the coverage record */
void life_leave(void);

/* For an anchor's edge: true (then life_leave) if kedge is on. Never starts it: no CUDA call, nothing to do (R28). */
bool life_begin_edge(void);

/* An error that the driver gave, to us or to a call that we forwarded. Sticky ones freeze the pool. */
void life_driver_said(int result);

/* The sticky error, 0 = none. */
int life_sticky(void);

/* The process ends by itself with this status, and the capture says so. Async-signal-safe. */
void life_exits(int status);

/* In a child of a process that used CUDA; and how it becomes one. */
bool life_is_child(void);
void life_become_child(void);

/* Kedge acts here: started, not degraded, no forked child. */
bool life_is_on(void);

/* Nothing is served any more, but blocks that were are still the program's: a child, or degraded. */
bool life_is_passive(void);

/* What starts at the first hook (start.c): 0 or -errno, then life degrades. The linker collects them. */
typedef int (*life_start)(const struct config *config);
#define LIFE_STARTS(function)                                                                 \
    static const life_start function##_entry __attribute__((used, section("kedge_starts"))) = \
            (function)

/* In the constructor: what the configuration says, and whether kedge may act. Prints nothing. */
bool life_read_early(struct config *ret_config);

/* The program has other rights than its user: kedge does nothing. */
bool life_is_secure(void);

/* The configuration; only after life_mode() was asked. */
const struct config *life_config(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * held.h - when a program is asked who refers to its live device memory, as KEDGE_HELD says.
 *
 *     a framework makes its error ────┐ (helderrors.h)
 *     memory has grown ───────────────┤ (heldrounds.h: a step, a backward pass, a module's call)
 *     the interpreter ends ───────────┼─► objects of Python (heldwalk.h) ───┐
 *          (threading._shutdown)      │                                     ├─► capture_held
 *     `kedge held` asks (asked.h) ────┤                                     │
 *     a request fails, the process ───┴─► words of memory (scan.h), where ──┘
 *     exits                               no known framework is loaded
 *
 * A walk runs in the thread that makes the error, has stepped or ends the interpreter, or in one
 * of ours (asked.h); a scan in the one whose request has failed or that exits, or in one of ours.
 * Bounds are those of heldwalk.c and scan.h; further limits are in kedge-run(1).
 *
 * Threads: those that hold the GIL of the main interpreter, but for held_start and held_exits. No
 * lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HELD_H
#define KEDGE_PRELOAD_HELD_H

#include "preload/anchors/pyhost.h"
#include "tracker/base/config.h"

/* From the constructor: keeps what KEDGE_HELD asks for. Returns whether held_at is to be called. */
bool held_start(const struct config *config);

/* At each audit event of the interpreter: watches what is not watched yet. */
void held_find(void);

/*
 * A moment of a training loop or a service of PyTorch's: walks if memory has grown, and after the 4th, 8th ...
 * step of all optimizers if that is wanted.
 */
void held_at(const struct pyhost_moment *moment);

/*
 * What a tensor's memory is and what holds it, as held.py's `holders` tells it: a new object. NULL:
 * nothing was found that can be walked, or an interrupt came, which is set.
 */
struct pyhost_object *held_holders(struct pyhost_object *reference);

/*
 * The process exits, after the program's own destructors: a program without a known framework is
 * scanned. In the thread that exits, without the GIL.
 */
void held_exits(void);

/* The interpreter has ended. */
void held_forget(void);

#endif

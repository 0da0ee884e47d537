/* SPDX-License-Identifier: MIT */
/*
 * held.h - which objects of a Python program refer to its live device memory (KEDGE_HELD).
 *
 *     a framework makes its error ────┐ (tp_init of OutOfMemoryError, AcceleratorError, MemoryError)
 *     memory has grown (grown.c) ─────┤ (a step, a backward pass, a module's call)
 *     the interpreter ends ───────────┼─► held.py walks the program's objects ─► capture_held
 *          (threading._shutdown)      │      with kedge's live blocks: joined by address
 *     `kedge held` asks (asked.c) ────┘
 *
 * held.py is compiled at each walk, in a namespace of its own: no module is added, and nothing of
 * it stays. Its bounds are those of held.c; further limits are in kedge-run(1).
 *
 * The walk runs in the thread that makes the error, has stepped or ends the interpreter, or in one
 * of ours (asked.c). It holds the GIL; other Python threads stand still meanwhile (bounded by KEDGE_HELD=seconds=). It calls no code of the
 * program, and an error in it is dropped, unless it is an interrupt, which the program gets.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HELD_H
#define KEDGE_PRELOAD_HELD_H

#include "preload/anchors/pyhost.h"
#include "tracker/base/config.h"

/* From the constructor: keeps what KEDGE_HELD asks for. True: held_at is to be called. */
bool held_start(const struct config *config);

/* At each audit event of the interpreter: watches what is not watched yet. */
void held_find(void);

/*
 * A moment of a training loop or a service: walks if memory has grown, and after the 4th, 8th ...
 * step of all optimizers if that is wanted.
 */
void held_at(const struct pyhost_moment *moment);

/*
 * What a tensor's memory is and what holds it, as held.py's `holders` tells it: a new object. NULL:
 * nothing was found that can be walked, or an interrupt came, which is set.
 */
struct pyhost_object *held_holders(struct pyhost_object *reference);

/* The process exits, after the program's own destructors: a program without PyTorch is scanned. */
void held_exits(void);

/* The interpreter has ended. */
void held_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * kinds.h - what device memory of a program is, by its modules and optimizers (KEDGE_KINDS).
 *
 *     pyhost.c: a module is called, an optimizer has stepped ─┐
 *     PyTorch makes an OutOfMemoryError, Paddle a MemoryError ┴─► kindwalk_look ─► capture_data
 *
 * A look at all objects is made at the first call of an outermost module, unless a program has made
 * many of them, before the first step of each optimizer, and at failed allocations; a look at one
 * optimizer after its first, second, fourth step and so on, and when its state has another number of
 * entries than before. So what looks take is little beside the steps. What is live between two looks
 * gets its kind in the tools (tools/load/datakind.h).
 *
 * No code of the program is called. Gradients are not read while a backward pass runs in any
 * thread, which is known of passes that Python starts.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_KINDS_H
#define KEDGE_PRELOAD_KINDS_H

#include "preload/anchors/pyhost.h"
#include "tracker/base/config.h"

/* From the constructor. False: kinds are not wanted. */
bool kinds_start(const struct config *config);

/* A call of a watched function begins or has ended; for pyhost_parts.at. */
void kinds_at(const struct pyhost_moment *moment);

/* At each audit event of the interpreter: watches what is not watched yet. */
void kinds_find(void);

/* The interpreter has ended. */
void kinds_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pyloop.h - the position of a Python program in its training loop: steps and phases as anchors.
 *
 *     pyhost.c (a function begins or ends) ─► pyloop_enter, pyloop_leave ─► source_* ─► anchors
 *
 *     step           from the end of an optimizer's step to the end of its next one; the first one
 *                    from the first forward of training
 *     step/forward   the outermost call of a module; likewise backward, optimizer and data
 *     eval/forward   the call of a module that does not train, nested in nothing; eval/data
 *
 * A phase inside another one is part of the outer one, with two exceptions: an optimizer's step is
 * a phase of its own wherever it runs, and phases inside it (a closure's) are nested in it. A step
 * that fails does not count. One that a gradient scaler skips ends the step as well. An optimizer
 * that steps inside a phase (in the backward pass) ends the step with that phase.
 *
 * Several optimizers, as of a GAN: the step ends with the one that ended the last step, until
 * another one has stepped twice meanwhile.
 *
 * Each thread that trains has steps of its own. A thread that calls modules or an optimizer while
 * another one is in a phase is that one's helper (autograd's workers, DataParallel's replicas): it
 * opens nothing. It is recognised as no helper once its call outlasts the phases that it began in,
 * or when its optimizer steps while no backward pass runs.
 *
 * Each enter has its leave, also on an exception or an interrupt: they are around a call in C.
 * Threads: those that hold the GIL of the main interpreter. No lock, no malloc.
 */
#ifndef KEDGE_PRELOAD_PYLOOP_H
#define KEDGE_PRELOAD_PYLOOP_H

#include <stdbool.h>
#include <stdint.h>

enum pyloop_kind {
    PYLOOP_NONE,
    PYLOOP_FORWARD,
    PYLOOP_BACKWARD,
    PYLOOP_DATA,
    PYLOOP_OPTIMIZER,
    PYLOOP_SCALER, /* a gradient scaler decides whether its optimizer steps */
};

/* A call under way, on its caller's stack. */
struct pyloop_call {
    enum pyloop_kind kind;
    uint8_t state; /* pyloop.c's own */
    uintptr_t who;
    uint64_t serial;
    uint32_t steps;
};

/* Whether a call of this kind may open a phase here: false inside another phase. */
bool pyloop_may_open(enum pyloop_kind kind);

/*
 * Around the call. `trains`: it is part of training, not of an evaluation. `who`: the optimizer, by
 * address. `is_failed`: it ended with an exception.
 */
void pyloop_enter(struct pyloop_call *call, enum pyloop_kind kind, bool trains, uintptr_t who);
void pyloop_leave(struct pyloop_call *call, bool is_failed);

/*
 * Whether the innermost phase of this thread is a forward, so that modules inside it may be named.
 */
bool pyloop_in_forward(void);

/* A word of this thread for the module that names inner modules; NULL at first. */
void *pyloop_inner(void);
void pyloop_set_inner(void *inner);

/* In the child of a fork: drops the phases of other threads. */
void pyloop_fork_child(void);

#endif

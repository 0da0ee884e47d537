/* SPDX-License-Identifier: MIT */
/*
 * pyparts.h - the functions of PyTorch and PaddlePaddle that are watched, with their kinds.
 *
 * Each of them is called from C (pyhost.h): a module's `_call_impl`, an optimizer's own `step` and
 * a scaler's decision by `f(*args)`, the engine's `run_backward` is C itself, a loader's `__next__`
 * by `for` and `next`.
 *
 * Threads: those that hold the GIL of the main interpreter.
 */
#ifndef KEDGE_PRELOAD_PYPARTS_H
#define KEDGE_PRELOAD_PYPARTS_H

/* Looks for functions that are not watched yet. Runs no Python code. */
void pyparts_look(void);

/*
 * Looks for new classes of optimizers and loaders, at each backward pass, since they may be defined
 * at any time.
 */
void pyparts_look_for_classes(void);

/* The interpreter has ended, and all watched functions with it. */
void pyparts_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pyparts.h - which functions of PyTorch and PaddlePaddle are watched, and as what.
 *
 * Each of them is called from C (pyhost.h): a module's `_call_impl`, an optimizer's own `step` and
 * a scaler's decision by `f(*args)`, the engine's `run_backward` is C itself, a loader's `__next__`
 * by `for` and `next`.
 *
 * Threads: those that hold the GIL of the main interpreter.
 */
#ifndef KEDGE_PRELOAD_PYPARTS_H
#define KEDGE_PRELOAD_PYPARTS_H

/* Looks for what is not watched yet. Runs no code of Python's. */
void pyparts_look(void);

/* Classes of optimizers and loaders come at any time; looked for at each backward pass. */
void pyparts_look_for_classes(void);

/* The interpreter has ended, and all of that with it. */
void pyparts_forget(void);

#endif

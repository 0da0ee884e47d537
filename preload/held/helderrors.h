/* SPDX-License-Identifier: MIT */
/*
 * helderrors.h - the frameworks whose objects held.py knows, and their errors about device memory.
 *
 *     PyTorch       torch.OutOfMemoryError; AcceleratorError, if a request of the device failed
 *     CuPy          cupy.cuda.memory.OutOfMemoryError
 *     PaddlePaddle  MemoryError, if a request of the device failed
 *
 * An error is seen when its object is filled in (pyhost_watch_init): its first handler has not run
 * yet, and the frames that failed are alive.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HELDERRORS_H
#define KEDGE_PRELOAD_HELDERRORS_H

#include <stdbool.h>

struct pyhost_object;

/*
 * An error about memory was made, after a failed request of `device` (-1: of none that is known).
 * Returns 0, or -1: an interrupt came, and is set.
 */
typedef int (*helderrors_made)(struct pyhost_object *error, int device);

/*
 * For each framework that has been loaded since the last call: calls `begin`, and if that returns
 * true has `made` called for its errors from now on, where a walk could be recorded (heldwalk_may).
 * `made` NULL: its errors are left alone. It is the same in all calls.
 */
void helderrors_find(bool (*begin)(void), helderrors_made made);

/* The interpreter has ended. */
void helderrors_forget(void);

#endif

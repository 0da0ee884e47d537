/* SPDX-License-Identifier: MIT */
/*
 * params.h - where the parameters of a kernel lie, asked from the driver (since 12.4) once per kernel; and looking at them.
 *
 * Keyed by the handle of the launch, which may be a CUfunction or a CUkernel. Looking one up takes no lock. When any module
 * or library is unloaded, by itself or with its context, all that is known goes, since handles come back as other kernels.
 * Threads: any. May call the driver. Memory: meta.h; a layout is given back when its slot is taken by another kernel and no
 * reader section that began before is open any more (guard.h).
 */
#ifndef KEDGE_PRELOAD_PARAMS_H
#define KEDGE_PRELOAD_PARAMS_H

#include "preload/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Looks at the parameters of a launch as conduct_touch looks at a range: one of eight bytes is a pointer or looks like one,
 * larger ones are looked through in steps of eight, `extra` buffers by their size. True: the launch must not be made.
 * Where the layout is not known, live hints end (R86).
 */
bool params_touch(CUfunction func, void **params, void **extra, const char *what);

/*
 * A launch as in CUDA 3, whose parameters the program gave to the function one by one before: as one with an unknown layout.
 * False: it may be made.
 */
bool params_given_before(const char *what);

/*
 * Looks at the words that memory operations write and wait for, as conduct_touch does. True: the call must not be made. An
 * operation that is not known makes the call unseen.
 */
bool params_words_touch(const CUstreamBatchMemOpParams *items, unsigned count, const char *what);

/* A module or library goes, or a context with its modules. */
void params_forget(void);

#endif

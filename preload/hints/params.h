/* SPDX-License-Identifier: MIT */
/*
 * params.h - where the parameters of a kernel lie, asked from the driver (since 12.4) once per kernel; and looking at them.
 *
 * Keyed by the handle of the launch, which is a CUfunction, or a CUkernel if the driver has told it as one: no question is asked
 * with a handle of the other kind. When any module or library is unloaded, by
 * itself or with its context, all that is known goes, since handles come back as other kernels.
 * Threads: any; a lock around the look-up, none around the driver's calls. Memory: meta.h; a layout is given back when it is
 * known no more and the last launch has looked at it.
 */
#ifndef KEDGE_PRELOAD_PARAMS_H
#define KEDGE_PRELOAD_PARAMS_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>

/*
 * Looks at the parameters of a launch as argcheck_range looks at a range: one of eight bytes is a pointer or looks like one,
 * larger ones are looked through in steps of eight, `extra` buffers by their size. True: the launch must not be made.
 * Where the layout is not known, live hints end (R86).
 */
bool params_touch(CUfunction func, void **params, void **extra, const char *what);

/*
 * Looks at the words that memory operations write and wait for, as argcheck_range does. True: the call must not be made. An
 * operation that is not known makes the call unseen.
 */
bool params_words_touch(const CUstreamBatchMemOpParams *items, unsigned count, const char *what);

/* These are kernels of a library; NULL = nobody knows of which one. */
void params_kernels_told(CUlibrary library, const CUkernel *kernels, unsigned count);

/* A library goes, and its kernels are no more. */
void params_library_gone(CUlibrary library);

/* Whether the handle of a launch is a CUkernel. */
bool params_is_kernel(CUfunction func);

/* A module or library goes, or a context with its modules. */
void params_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * params.h - the layout of a kernel's parameters, asked from the driver (since 12.4) once per
 * kernel, and the check of their values.
 *
 * Keyed by the handle of the launch: a CUfunction, or a CUkernel if the driver has returned it as
 * one. The driver is never asked with a handle of the other kind. When any module or library is
 * unloaded, by itself or with its context, all layouts are forgotten, since handles are reused for
 * other kernels.
 * Threads: any; a lock around the look-up, none around the driver's calls. Memory: meta.h; a layout
 * is freed when it was forgotten and the last launch has checked it.
 */
#ifndef KEDGE_PRELOAD_PARAMS_H
#define KEDGE_PRELOAD_PARAMS_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>

/*
 * Checks the parameters of a launch like argcheck_range: a parameter of eight bytes counts as a
 * pointer, larger ones are searched in steps of eight, `extra` buffers by their size. True: the
 * launch must not be made. If the layout is unknown, live hints end (R86, guard of hints).
 */
bool params_touch(CUfunction func, void **params, void **extra, const char *what);

/*
 * Checks the addresses that memory operations write to and wait for, like argcheck_range. True: the
 * call must not be made. An unknown operation makes the call unseen.
 */
bool params_words_touch(const CUstreamBatchMemOpParams *items, unsigned count, const char *what);

/* These are kernels of a library; NULL = of an unknown one. */
void params_kernels_told(CUlibrary library, const CUkernel *kernels, unsigned count);

/* A library is unloaded, and its kernels with it. */
void params_library_gone(CUlibrary library);

/* Whether the handle of a launch is a CUkernel. */
bool params_is_kernel(CUfunction func);

/* A module, a library or a context with its modules ends. */
void params_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * kernelnames.h - the names of kernels, if KEDGE_ANCHORS=kernel= or a hint names kernels.
 *
 * The driver is asked once per handle, and again after a module or a context has ended
 * (kernelnames_forget). The name is the one in the binary, mangled where the compiler does so.
 * Drivers below 12.3 have no names.
 * Threads: any. Locks: one inside, none across a driver call. Memory: meta.h; without any, a name
 * is asked for again.
 */
#ifndef KEDGE_PRELOAD_KERNELNAMES_H
#define KEDGE_PRELOAD_KERNELNAMES_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* the value of KEDGE_ANCHORS=kernel=, "" = none; set by kernelnames_list */
extern const char *kernelnames_patterns;

/* Once, when life starts: wildcards separated by commas; the text is kept. */
void kernelnames_list(const char *patterns);

static inline bool kernelnames_are_listed(void)
{
    return *kernelnames_patterns;
}

/* Whether a pattern of the list matches the name. */
bool kernelnames_is_listed(const char *name);

/*
 * Whether any kernel's name is wanted. Below: the name's string number, 0 = this one is not wanted,
 * or the driver has no name.
 */
bool kernelnames_are_wanted(void);
uint32_t kernelnames_of(CUfunction function, bool *ret_is_known);

/* From now on handles of functions may name other kernels. */
void kernelnames_forget(void);

#endif

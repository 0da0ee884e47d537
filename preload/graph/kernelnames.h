/* SPDX-License-Identifier: MIT */
/*
 * kernelnames.h - the names of kernels, where KEDGE_ANCHORS=kernel= or a hint asks for them.
 *
 * A kernel's name is asked once per handle, and again after a module or a context went
 * (kernelnames_forget). It is the name in the binary, mangled where the compiler does so. Below
 * driver 12.3 there is none.
 * Threads: any. Locks: one inside, none across a driver call. Memory: meta.h; without any, a name
 * is asked for again.
 */
#ifndef KEDGE_PRELOAD_KERNELNAMES_H
#define KEDGE_PRELOAD_KERNELNAMES_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

extern const char
        *kernelnames_patterns; /* of KEDGE_ANCHORS=kernel=, "" = none; set by kernelnames_list */

/* Once, when life starts: wildcards with commas between them; kept. */
void kernelnames_list(const char *patterns);

static inline bool kernelnames_are_listed(void)
{
    return *kernelnames_patterns;
}

/* Whether a pattern of the list matches the name. */
bool kernelnames_is_listed(const char *name);

/* Whether any kernel's name is asked for; its string number, 0 = nobody asks for this one, or the
 * driver has none. */
bool kernelnames_are_wanted(void);
uint32_t kernelnames_of(CUfunction function, bool *ret_is_known);

/* Handles of functions may mean others from now on. */
void kernelnames_forget(void);

#endif

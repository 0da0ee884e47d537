/* SPDX-License-Identifier: MIT */
/*
 * params.h - where the parameters of a kernel lie, asked from the driver once per kernel.
 *
 * Keyed by the handle of the launch, which may be a CUfunction or a CUkernel. Looking one up takes no lock. When any module
 * or library is unloaded all that is known goes, since handles come back as other kernels.
 * Threads: any. May call the driver. Memory: meta.h; what an unload forgot is not given back (a reader may look at it).
 */
#ifndef KEDGE_PRELOAD_PARAMS_H
#define KEDGE_PRELOAD_PARAMS_H

#include "preload/cuda_abi.h"

#include <stdint.h>

struct params {
    uint32_t count;
    struct {
        uint32_t offset;
        uint32_t size;
    } param[];
};

/* NULL: the driver does not say, or there is no memory. */
const struct params *params_of(CUfunction func);

/* A module or library goes. */
void params_forget(void);

#endif

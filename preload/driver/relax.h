/* SPDX-License-Identifier: MIT */
/*
 * relax.h - relaxed capture mode for calls of ours, so that a capture which begins in another
 * thread is not spoilt (R13, relaxed capture mode).
 *
 * The thread's mode is the program's. It is left alone if the driver does not say what it was, and
 * put back whatever comes in between: a refusal is asked again. Threads: each its own. Rules: R13
 * R32.
 */
#ifndef KEDGE_PRELOAD_RELAX_H
#define KEDGE_PRELOAD_RELAX_H

#include "preload/driver/resolve.h"

#include <stdbool.h>

struct relaxed {
    CUstreamCaptureMode mode; /* of the program */
    bool is_on;
};

static inline struct relaxed relax_begin(void)
{
    struct relaxed relaxed = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};

    relaxed.is_on = REAL_HAS(cuThreadExchangeStreamCaptureMode)
            && REAL(cuThreadExchangeStreamCaptureMode)(&relaxed.mode) == CUDA_SUCCESS;
    return relaxed;
}

static inline void relax_end(struct relaxed *relaxed)
{
    enum {
        TRIES = 4
    };

    for (int i = 0; i < TRIES && relaxed->is_on; i++)
        relaxed->is_on = REAL(cuThreadExchangeStreamCaptureMode)(&relaxed->mode) != CUDA_SUCCESS;
}

#endif

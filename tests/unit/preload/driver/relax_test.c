/* SPDX-License-Identifier: MIT */
/* covers: export_output.c */
/* The thread's capture mode is the program's, whichever of our two calls about it fails. */
#include "preload/driver/relax.h"
#include "tests/check.h"

void *resolve_real[SLOT_COUNT];

static CUstreamCaptureMode mode; /* the thread's */
static unsigned calls, failing;  /* bits: which of the calls fail */

bool resolve_has(enum resolve_slot slot)
{
    return resolve_real[slot] != NULL;
}

static CUresult exchange(CUstreamCaptureMode *io_mode)
{
    CUstreamCaptureMode before = mode;

    if (failing >> calls++ & 1)
        return CUDA_ERROR_UNKNOWN;
    mode = *io_mode;
    *io_mode = before;
    return CUDA_SUCCESS;
}

TEST(r13_r32_the_mode_is_what_it_was)
{
    resolve_real[SLOT_cuThreadExchangeStreamCaptureMode] = (void *)exchange;
    for (failing = 0; failing < 16; failing++) { /* never all four tries to put it back */
        struct relaxed relaxed;

        calls = 0;
        mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        relaxed = relax_begin();
        CHECK_EQ(mode,
                failing & 1 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
        relax_end(&relaxed);
        CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
}

TEST(r13_a_driver_without_modes_is_not_asked)
{
    struct relaxed relaxed;

    resolve_real[SLOT_cuThreadExchangeStreamCaptureMode] = NULL;
    calls = 0;
    relaxed = relax_begin();
    relax_end(&relaxed);
    CHECK_EQ(calls, 0);
}

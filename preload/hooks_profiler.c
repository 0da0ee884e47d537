/* SPDX-License-Identifier: MIT */
/*
 * The profiler's begin and end: a program that wants a part of its run looked at says so here (cudaProfilerStart, which
 * torch.cuda.profiler calls, comes to the same entry). A range of the process, `profiler`, which any thread may end.
 */
#include "preload/cuda_abi.h"
#include "preload/life.h"
#include "preload/resolve.h"
#include "preload/speech.h"

#include <stdatomic.h>

static _Atomic(uint64_t) open_range; /* 0 = none */

/* A start while it runs changes nothing, as for the driver. */
static void started(void)
{
    uint64_t none = 0;
    uint64_t range;

    if (atomic_load(&open_range) != 0 || !speech_wants(SPEECH_PROFILER))
        return;
    range = speech_start(NULL, "profiler");
    if (!atomic_compare_exchange_strong(&open_range, &none, range))
        speech_end(range); /* another thread was first */
}

CUresult cuProfilerStart(void)
{
    bool entered = life_enter(SLOT_cuProfilerStart);
    CUresult result = REAL(cuProfilerStart)();

    if (entered)
        life_leave();
    if (result == CUDA_SUCCESS)
        started();
    return result;
}

CUresult cuProfilerStop(void)
{
    bool entered = life_enter(SLOT_cuProfilerStop);
    CUresult result = REAL(cuProfilerStop)();

    if (entered)
        life_leave();
    if (result == CUDA_SUCCESS)
        speech_end(atomic_exchange(&open_range, 0));
    return result;
}

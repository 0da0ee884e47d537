/* SPDX-License-Identifier: MIT */
/*
 * The profiler's start and stop: a program marks the part of its run that it wants examined
 * (cudaProfilerStart, which torch.cuda.profiler calls, reaches the same entry). kedge makes it a
 * range of the process, `profiler`, which any thread may end.
 */
#include "preload/anchors/source.h"
#include "preload/base/cuda_abi.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"

#include <stdatomic.h>

static _Atomic(uint64_t) open_range; /* 0 = none */

/* A start while it runs changes nothing, as for the driver. */
static void profiler_started(void)
{
    uint64_t none = 0;
    uint64_t range;

    if (atomic_load(&open_range) != 0 || !source_wants(SOURCE_PROFILER))
        return;
    range = source_start(NULL, "profiler");
    if (!atomic_compare_exchange_strong(&open_range, &none, range))
        source_end(range); /* another thread was first */
}

static void profiler_stopped(void)
{
    source_end(atomic_exchange(&open_range, 0));
}

#define CALLED(symbol, then)                      \
    CUresult symbol(void)                         \
    {                                             \
        bool entered = life_enter(SLOT_##symbol); \
        CUresult result = REAL(symbol)();         \
        if (entered)                              \
            life_leave();                         \
        if (result == CUDA_SUCCESS)               \
            (then)();                             \
        return result;                            \
    }

CALLED(cuProfilerStart, profiler_started)
CALLED(cuProfilerStop, profiler_stopped)

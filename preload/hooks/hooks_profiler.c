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

CUresult cuProfilerStart(void)
{
    bool entered = life_enter(SLOT_cuProfilerStart);
    CUresult result = REAL(cuProfilerStart)();

    if (entered)
        life_leave();
    if (result == CUDA_SUCCESS)
        profiler_started();
    return result;
}

CUresult cuProfilerStop(void)
{
    bool entered = life_enter(SLOT_cuProfilerStop);
    CUresult result = REAL(cuProfilerStop)();

    if (entered)
        life_leave();
    if (result == CUDA_SUCCESS)
        source_end(atomic_exchange(&open_range, 0));
    return result;
}

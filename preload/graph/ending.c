/* SPDX-License-Identifier: MIT */
#include "preload/graph/ending.h"

#include "preload/base/gate.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/reach.h"
#include "preload/driver/session.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/launches.h"
#include "tracker/capture/capture.h"

#include "alloc/pool.h"

struct ending ending_begin(uint64_t generation)
{
    struct ending ending = {generation, REACH_ALL, session_pool != NULL};
    struct context context;

    if (context_of_generation(generation, &context))
        ending.devices = reach_of(context.device);
    context_end_begin(generation, ending.devices, ending.is_told);
    if (ending.is_told)
        pool_ending(session_pool, ending.devices, true);
    return ending;
}

void ending_done(const struct ending *ending)
{
    context_end_done(ending->generation, ending->devices);
    if (ending->is_told)
        pool_ending(session_pool, ending->devices, false);
}

void ending_hide(uint64_t generation, bool hidden)
{
    if (session_pool)
        pool_context_hide(session_pool, generation, hidden);
}

/* The streams' work is over: their frees are ordered by the fences that remain. */
static void ending_streams_gone(uint64_t generation)
{
    uint64_t identity[STREAM_ENDED];
    unsigned count;

    while ((count = stream_take_ended(generation, identity)) > 0)
        for (unsigned i = 0; i < count; i++)
            pool_stream_lost(session_pool, identity[i]);
}

void ending_device_reset(int device)
{
    session_report(capture_context_gone(context_pools_of(device), session_seq()));
}

void ending_context_gone(uint64_t generation)
{
    struct gate_capture capture;

    while (gate_context_gone(generation, &capture)) {
        graphmem_capture_ended(&capture, 0);
        launches_capture_gone(capture.stream);
    }
    backend_context_gone(generation);
    /* the program has lost its memory there, kedge's blocks and the driver's */
    session_report(capture_context_gone(generation, session_seq()));
    if (!session_pool)
        return;
    pool_context_going(session_pool, generation);
    ending_streams_gone(generation);
    pool_context_gone(session_pool, generation);
}

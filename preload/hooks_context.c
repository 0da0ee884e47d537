/* SPDX-License-Identifier: MIT */
/*
 * Contexts. A new one is noted, so that fences cover it (R1). One that dies takes its plain heap with it: it is struck from
 * our books before the call, so that nothing of ours names it any more (R26), and its number never comes back.
 */
#include "preload/backend.h"
#include "preload/conduct.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/resolve.h"

/* ---- beginnings ----------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
    CUresult result;

    if (!life_enter(SLOT_cuDevicePrimaryCtxRetain))
        return REAL(cuDevicePrimaryCtxRetain)(ret_context, device);
    result = REAL(cuDevicePrimaryCtxRetain)(ret_context, device);
    if (result == CUDA_SUCCESS && ret_context) {
        context_note(*ret_context);
        context_note_primary(device, *ret_context);
    }
    life_leave();
    return result;
}

CUresult cuCtxCreate_v2(CUcontext *ret_context, unsigned int flags, CUdevice device)
{
    CUresult result;

    if (!life_enter(SLOT_cuCtxCreate_v2))
        return REAL(cuCtxCreate_v2)(ret_context, flags, device);
    result = REAL(cuCtxCreate_v2)(ret_context, flags, device);
    if (result == CUDA_SUCCESS && ret_context)
        context_note(*ret_context);
    life_leave();
    return result;
}

CUresult cuCtxCreate_v3(CUcontext *ret_context, CUexecAffinityParam *affinities, int count,
        unsigned int flags, CUdevice device)
{
    CUresult result;

    if (!life_enter(SLOT_cuCtxCreate_v3))
        return REAL(cuCtxCreate_v3)(ret_context, affinities, count, flags, device);
    result = REAL(cuCtxCreate_v3)(ret_context, affinities, count, flags, device);
    if (result == CUDA_SUCCESS && ret_context)
        context_note(*ret_context);
    life_leave();
    return result;
}

CUresult cuCtxCreate_v4(
        CUcontext *ret_context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    CUresult result;

    if (!life_enter(SLOT_cuCtxCreate_v4))
        return REAL(cuCtxCreate_v4)(ret_context, params, flags, device);
    result = REAL(cuCtxCreate_v4)(ret_context, params, flags, device);
    if (result == CUDA_SUCCESS && ret_context)
        context_note(*ret_context);
    life_leave();
    return result;
}

/* ---- ends ----------------------------------------------------------------------------------- */

/*
 * Nothing of a dying context is handed out or named any more. What it holds in mapped memory is given back when it is dead,
 * because its work uses that to the end; its plain heap is forgotten. If the driver refuses to end it, its blocks are the
 * driver's again: they are freed by address, and nothing new comes from the old heap.
 */
static uint64_t going(CUcontext handle)
{
    struct context context;

    context_end_begin();
    if (!context_of_handle(handle, &context))
        return 0;
    conduct_context_going(context.generation);
    (void)context_forget(handle);
    gate_fences_end(); /* another thread's fence may be on its way into this context */
    return context.generation;
}

static void gone(uint64_t generation)
{
    context_end_done();
    conduct_context_gone(generation);
}

static bool is_inactive(CUdevice device)
{
    unsigned flags;
    int active = 1;

    return REAL_HAS(cuDevicePrimaryCtxGetState)
            && REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active;
}

/* Whoever retained the context has it still, with the same handle and a new generation: fences cover that from now on,
 * and the next reset is noticed too. */
static void reset(CUdevice device)
{
    CUcontext handle = context_primary(device);

    if (handle && is_inactive(device))
        context_note_primary(device, NULL);
    else if (handle)
        context_note(handle);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    bool entered = life_enter(SLOT_cuCtxDestroy_v2);
    uint64_t generation = entered ? going(handle) : 0;
    CUresult result = REAL(cuCtxDestroy_v2)(handle);

    context_changed();
    if (entered) {
        gone(generation);
        life_leave();
    }
    return result;
}

CUresult cuCtxDestroy(CUcontext handle)
{
    bool entered = life_enter(SLOT_cuCtxDestroy);
    uint64_t generation = entered ? going(handle) : 0;
    CUresult result = REAL(cuCtxDestroy)(handle);

    context_changed();
    if (entered) {
        gone(generation);
        life_leave();
    }
    return result;
}

/* The last reference destroys; which one is the last, the driver knows. */
CUresult cuCtxDetach(CUcontext handle)
{
    bool entered = life_enter(SLOT_cuCtxDetach);
    CUresult result = REAL(cuCtxDetach)(handle);
    unsigned version;

    if (entered && result == CUDA_SUCCESS
            && REAL(cuCtxGetApiVersion)(handle, &version) != CUDA_SUCCESS)
        gone(going(handle));
    context_changed();
    if (entered)
        life_leave();
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxReset_v2);
    uint64_t generation = entered ? going(context_primary(device)) : 0;
    CUresult result = REAL(cuDevicePrimaryCtxReset_v2)(device);

    context_changed();
    if (entered) {
        gone(generation);
        reset(device);
        life_leave();
    }
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxReset);
    uint64_t generation = entered ? going(context_primary(device)) : 0;
    CUresult result = REAL(cuDevicePrimaryCtxReset)(device);

    context_changed();
    if (entered) {
        gone(generation);
        reset(device);
        life_leave();
    }
    return result;
}

/* A release that was not the last one changes nothing. */
static void released(CUdevice device, CUresult result)
{
    if (result == CUDA_SUCCESS && is_inactive(device)) {
        gone(going(context_primary(device)));
        context_note_primary(device, NULL);
    }
    context_changed();
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxRelease_v2);
    CUresult result = REAL(cuDevicePrimaryCtxRelease_v2)(device);

    if (entered) {
        released(device, result);
        life_leave();
    }
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxRelease);
    CUresult result = REAL(cuDevicePrimaryCtxRelease)(device);

    if (entered) {
        released(device, result);
        life_leave();
    }
    return result;
}

/* ---- peers ---------------------------------------------------------------------------------- */

/* Segments of the plain heap follow by themselves; what is mapped has to be told (R30). */
static void peer(CUcontext peer_context, bool enabled)
{
    struct context here, there;

    if (!conduct_pool() || context_here(&here) != 0)
        return;
    context_note(peer_context);
    if (context_of_handle(peer_context, &there))
        backend_apply_peer(there.device, here.device, enabled);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuCtxEnablePeerAccess);
    CUresult result = REAL(cuCtxEnablePeerAccess)(peer_context, flags);

    if (entered && result == CUDA_SUCCESS)
        peer(peer_context, true);
    if (entered)
        life_leave();
    return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_context)
{
    bool entered = life_enter(SLOT_cuCtxDisablePeerAccess);
    CUresult result = REAL(cuCtxDisablePeerAccess)(peer_context);

    if (entered && result == CUDA_SUCCESS)
        peer(peer_context, false);
    if (entered)
        life_leave();
    return result;
}

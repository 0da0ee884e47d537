/* SPDX-License-Identifier: MIT */
/*
 * Contexts. A new one is noted, so that fences cover it (R1). One that dies takes its plain heap with it: it is struck from
 * our books before the call, so that nothing of ours names it any more (R26), and its number never comes back.
 */
#include "preload/backend.h"
#include "preload/conduct.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/launches.h"
#include "preload/life.h"
#include "preload/params.h"
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

/* A context on its way out. */
struct ending {
    CUcontext handle;
    uint64_t generation; /* 0 = it was not known */
};

/*
 * Before the driver is asked: no call of ours names the context any more, its addresses are not looked up as ours, and no
 * fence of its work passes (R1, R26). What the pool keeps of it stays until it is known to be dead.
 */
static struct ending going(CUcontext handle)
{
    struct ending ending = {handle, 0};

    params_forget(); /* its modules go with it, and their handles may be other kernels' right after */
    launches_forget();
    context_end_begin();
    if (handle)
        ending.generation = context_forget(handle);
    if (ending.generation)
        conduct_context_hide(ending.generation, true);
    gate_fences_end(); /* another thread's fence may be on its way into this context */
    return ending;
}

/* The driver may refuse to end it: then it is the same one still, and what came from it is the program's as before. */
static bool is_alive(const struct ending *ending)
{
    struct context context;

    context_note(ending->handle);
    return context_of_handle(ending->handle, &context) && context.generation == ending->generation;
}

/* Its plain heap went with it; what it held in mapped memory is given back now, because its work used that to the end. */
static void gone(const struct ending *ending, CUresult result)
{
    context_end_done();
    if (!ending->generation)
        return;
    if (result != CUDA_SUCCESS && is_alive(ending)) {
        conduct_context_hide(ending->generation, false);
        return;
    }
    conduct_context_going(ending->generation);
    conduct_context_gone(ending->generation);
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
    struct ending ending = {NULL, 0};
    CUresult result;

    if (entered)
        ending = going(handle);
    result = REAL(cuCtxDestroy_v2)(handle);

    context_changed();
    if (entered) {
        gone(&ending, result);
        life_leave();
    }
    return result;
}

CUresult cuCtxDestroy(CUcontext handle)
{
    bool entered = life_enter(SLOT_cuCtxDestroy);
    struct ending ending = {NULL, 0};
    CUresult result;

    if (entered)
        ending = going(handle);
    result = REAL(cuCtxDestroy)(handle);

    context_changed();
    if (entered) {
        gone(&ending, result);
        life_leave();
    }
    return result;
}

/* The last reference destroys; which one is the last, the driver knows. */
CUresult cuCtxDetach(CUcontext handle)
{
    bool entered = life_enter(SLOT_cuCtxDetach);
    CUresult result = REAL(cuCtxDetach)(handle);
    struct ending ending;
    unsigned version;

    if (entered && result == CUDA_SUCCESS
            && REAL(cuCtxGetApiVersion)(handle, &version) != CUDA_SUCCESS) {
        ending = going(handle);
        gone(&ending, CUDA_SUCCESS);
    }
    context_changed();
    if (entered)
        life_leave();
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxReset_v2);
    struct ending ending = {NULL, 0};
    CUresult result;

    if (entered)
        ending = going(context_primary(device));
    result = REAL(cuDevicePrimaryCtxReset_v2)(device);

    context_changed();
    if (entered) {
        gone(&ending, result);
        reset(device);
        life_leave();
    }
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    bool entered = life_enter(SLOT_cuDevicePrimaryCtxReset);
    struct ending ending = {NULL, 0};
    CUresult result;

    if (entered)
        ending = going(context_primary(device));
    result = REAL(cuDevicePrimaryCtxReset)(device);

    context_changed();
    if (entered) {
        gone(&ending, result);
        reset(device);
        life_leave();
    }
    return result;
}

/* A release that was not the last one changes nothing. */
static void released(CUdevice device, CUresult result)
{
    struct ending ending;

    if (result == CUDA_SUCCESS && is_inactive(device)) {
        ending = going(context_primary(device));
        gone(&ending, CUDA_SUCCESS);
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

/* SPDX-License-Identifier: MIT */
/*
 * Contexts. A new one is noted, so that fences cover it (R1, fences cover all streams). One that
 * ends takes its plain heap with it: it is removed from our records before the call, so that kedge
 * does not use it any more (R26, ends of contexts), and its number is never reused.
 */
#include "preload/base/gate.h"
#include "preload/driver/backend.h"
#include "preload/driver/reach.h"
#include "preload/driver/session.h"
#include "preload/graph/ending.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/ipc.h"
#include "preload/graph/kernelnames.h"
#include "preload/graph/launches.h"
#include "preload/hints/params.h"
#include "preload/request/dispatch.h"

/* ---- beginnings ----------------------------------------------------------------------------- */

static void primary_made(CUdevice device, CUcontext context)
{
    context_note(context);
    context_note_primary(device, context);
}

/* clang-format off */
HOOKROW(cuDevicePrimaryCtxRetain, (CUcontext *made, CUdevice device), (made, device),
        primary_made(device, *made))
HOOKROW(cuCtxCreate_v2, (CUcontext *made, unsigned int flags, CUdevice device),
        (made, flags, device), context_note(*made))
HOOKROW(cuCtxCreate_v3,
        (CUcontext *made, CUexecAffinityParam *affinities, int count, unsigned int flags, CUdevice device),
        (made, affinities, count, flags, device), context_note(*made))
HOOKROW(cuCtxCreate_v4,
        (CUcontext *made, CUctxCreateParams *params, unsigned int flags, CUdevice device),
        (made, params, flags, device), context_note(*made))
/* clang-format on */

/* ---- ends ----------------------------------------------------------------------------------- */

/* A context that is about to end. */
struct leaving {
    CUcontext handle;
    uint64_t generation; /* 0 = unknown context */
    bool has_work;       /* true if not known */
    struct ending work;  /* if it has work */
};

/*
 * A context's modules end with it, and their handles may be reused for other kernels at once:
 * called before the driver.
 */
static void modules_going(void)
{
    params_forget();
    kernelnames_forget();
}

static uint64_t hooks_context_generation_of(CUcontext handle)
{
    struct context context;

    return handle && context_of_handle(handle, &context) ? context.generation : 0;
}

/* An idle context ends like one that has ended already: no other call has to wait for it. */
static bool has_work(CUcontext handle)
{
    uint64_t generation = hooks_context_generation_of(handle);

    return !generation || !backend_is_idle(generation);
}

/*
 * Before the driver is called: no call of kedge uses the context any more, its addresses are not
 * looked up as ours, and no fence of its work passes (R1, R26). The pool's records of it stay until
 * it is known to have ended.
 */
static struct leaving hooks_context_going(CUcontext handle, bool has_work)
{
    struct leaving ending = {.handle = handle, .has_work = has_work};

    modules_going();
    if (has_work)
        ending.work = ending_begin(hooks_context_generation_of(handle));
    if (handle)
        ending.generation = context_forget(handle);
    if (ending.generation)
        ending_hide(ending.generation, true);
    gate_fences_end(); /* another thread's fence may just be entering this context */
    return ending;
}

/*
 * The driver may refuse to end it: then the context is unchanged, and its memory belongs to the
 * program as before.
 */
static bool hooks_context_is_alive(const struct leaving *ending)
{
    struct context context;

    context_note(ending->handle);
    return context_of_handle(ending->handle, &context) && context.generation == ending->generation;
}

/*
 * Its plain heap ended with it. Its mapped memory is released now, because its work used that to
 * the end.
 */
static void gone(const struct leaving *ending, CUresult result)
{
    if (ending->has_work)
        ending_done(&ending->work);
    if (!ending->generation)
        return;
    context_forget_done(ending->generation, ending->handle);
    if (result != CUDA_SUCCESS && hooks_context_is_alive(ending)) {
        ending_hide(ending->generation, false);
        return;
    }
    ending_context_gone(ending->generation);
    ipc_context_gone(ending->generation);
}

static bool is_inactive(CUdevice device)
{
    unsigned flags;
    int active = 1;

    return REAL_HAS(cuDevicePrimaryCtxGetState)
            && REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active;
}

/*
 * Contexts that other code retained exist still, with the same handle and a new generation: fences
 * cover that generation from now on, and the next reset is noticed too.
 */
static void reset(const struct leaving *ending, CUresult result, CUdevice device)
{
    CUcontext handle = context_primary(device);

    gone(ending, result);
    if (result == CUDA_SUCCESS)
        ending_device_reset(device);
    if (handle && is_inactive(device))
        context_note_primary(device, NULL);
    else if (handle)
        context_note(handle);
}

/* A hook for a call that ends the context `handle`, which has work or not; then `after` runs. */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define ENDS(symbol, params, args, handle, works, after)                           \
    CUresult symbol params                                                         \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        struct leaving ending = {0};                                               \
        CUresult result;                                                           \
        if (entered)                                                               \
            ending = hooks_context_going(handle, works);                           \
        result = REAL(symbol) args;                                                \
        context_changed();                                                         \
        if (entered) {                                                             \
            after;                                                                 \
            life_leave();                                                          \
        }                                                                          \
        launches_leave_gone();                                                     \
        return result;                                                             \
    }
/* A hook for a call that drops a reference; only the driver knows whether it was the last one. */
#define LETS_GO(symbol, params, args, after)                                       \
    CUresult symbol params                                                         \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        CUresult result;                                                           \
        if (entered)                                                               \
            modules_going();                                                       \
        result = REAL(symbol) args;                                                \
        if (entered && result == CUDA_SUCCESS)                                     \
            after;                                                                 \
        if (entered)                                                               \
            life_leave();                                                          \
        launches_leave_gone();                                                     \
        return result;                                                             \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

ENDS(cuCtxDestroy, (CUcontext context), (context), context, has_work(context),
        gone(&ending, result))
ENDS(cuCtxDestroy_v2, (CUcontext context), (context), context, has_work(context),
        gone(&ending, result))
ENDS(cuDevicePrimaryCtxReset, (CUdevice device), (device), context_primary(device),
        has_work(context_primary(device)), reset(&ending, result, device))
ENDS(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), context_primary(device),
        has_work(context_primary(device)), reset(&ending, result, device))
/* clang-format on */

static void ended_by_itself(CUcontext handle)
{
    struct leaving ending = hooks_context_going(handle, false);

    gone(&ending, CUDA_SUCCESS);
}

/* The last reference destroys the context; only the driver knows which one is the last. */
static void detached(CUcontext handle)
{
    unsigned version;

    if (REAL(cuCtxGetApiVersion)(handle, &version) != CUDA_SUCCESS)
        ended_by_itself(handle);
    context_changed();
}

/* A release that was not the last one changes nothing. */
static void released(CUdevice device)
{
    if (is_inactive(device)) {
        ended_by_itself(context_primary(device));
        context_note_primary(device, NULL);
    }
    context_changed();
}

LETS_GO(cuCtxDetach, (CUcontext context), (context), detached(context))
LETS_GO(cuDevicePrimaryCtxRelease, (CUdevice device), (device), released(device))
LETS_GO(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), released(device))

/*
 * A green context has streams and work of its own, but its memory belongs to its primary context
 * and stays. Meanwhile the driver holds the primary context, which may end with the green one.
 */
static void green_made(CUgreenCtx green, CUdevice device)
{
    CUcontext primary = NULL;
    CUcontext context = NULL;

    if (REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
        return;
    context_note_primary(device, primary);
    if (REAL(cuCtxFromGreenCtx)(&context, green) == CUDA_SUCCESS)
        context_note_green(green, context, primary);
    (void)REAL(cuDevicePrimaryCtxRelease_v2)(device);
}

HOOKROW(cuGreenCtxCreate,
        (CUgreenCtx * made, CUdevResourceDesc part, CUdevice device, unsigned int flags),
        (made, part, device, flags), green_made(*made, device))

static void green_gone(const struct leaving *ending, CUresult result, CUgreenCtx green)
{
    gone(ending, result);
    if (result != CUDA_SUCCESS)
        return;
    context_forget_green(green);
    for (CUdevice device = 0; device < DEVICES_MAX; device++)
        if (context_primary(device))
            released(device);
}

ENDS(cuGreenCtxDestroy, (CUgreenCtx green), (green), context_of_green(green), true,
        green_gone(&ending, result, green))

/* ---- peers ---------------------------------------------------------------------------------- */

/*
 * Segments of the plain heap get the access by themselves; mapped memory must be given it (R30,
 * access of peers).
 */
static void peer(CUcontext peer_context, bool enabled)
{
    struct context here, there;

    if (!session_pool || context_here(&here) != 0)
        return;
    context_note(peer_context);
    if (context_of_handle(peer_context, &there))
        backend_apply_peer(&here, &there, enabled);
}

/*
 * Before the driver gives the access: from then on work of one device may use memory of the other.
 */
static void peer_ahead(CUcontext peer_context)
{
    struct context here, there;
    bool is_here = context_here(&here) == 0;

    context_note(peer_context);
    reach_add(is_here ? here.device : REACH_ANY,
            context_of_handle(peer_context, &there) ? there.device : REACH_ANY);
}

/*
 * If the driver says that the access exists already, it is noted too: kedge may not have seen the
 * call that gave it (R30).
 */
CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuCtxEnablePeerAccess);
    CUresult result;

    if (entered)
        peer_ahead(context);
    result = REAL(cuCtxEnablePeerAccess)(context, flags);
    if (entered && hookrow_again(result))
        result = REAL(cuCtxEnablePeerAccess)(context, flags);
    if (entered && (result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED))
        peer(context, true);
    if (entered)
        life_leave();
    return result;
}

HOOKROW(cuCtxDisablePeerAccess, (CUcontext context), (context), peer(context, false))

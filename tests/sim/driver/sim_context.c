/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_context.h"

#include "tests/sim/driver/sim_device.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/kernel/sim_module.h"
#include "tests/sim/memory/sim_memory.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/stream/sim_stream.h"

#include <stdlib.h>
#include <string.h>

static struct CUctx_st primaries[SIMCUDA_MAX_DEVICES];
static struct CUctx_st *contexts; /* all that ever were, latest first */
static uint64_t next_id = 1;

/* A context may touch another one's plain memory until it gives that up or either of them ends. */
struct peering {
    const struct CUctx_st *from; /* NULL: the place is free */
    const struct CUctx_st *to;
};
static struct peering peerings[256];

#define THREAD_STACK 1024
#define NEAR         (sizeof(((struct sim_thread *)0)->stack) / sizeof(struct CUctx_st *))

static struct CUctx_st *top(void)
{
    const struct sim_thread *me = sim_self();
    size_t i = (size_t)me->depth;

    if (i == 0)
        return NULL;
    return i <= NEAR ? me->stack[i - 1] : me->more[i - 1 - NEAR];
}

static int push(struct CUctx_st *ctx)
{
    struct sim_thread *me = sim_self();
    size_t i = (size_t)me->depth;

    if (i == THREAD_STACK)
        return CUDA_ERROR_INVALID_VALUE;
    if (i >= NEAR && !me->more)
        me->more = sim_new((THREAD_STACK - NEAR) * sizeof(*me->more));
    *(i < NEAR ? &me->stack[i] : &me->more[i - NEAR]) = ctx;
    me->depth++;
    return 0;
}

static void pop(void)
{
    struct sim_thread *me = sim_self();

    if (me->depth == 0 || --me->depth > (int)NEAR)
        return;
    free(me->more);
    me->more = NULL;
}

int sim_context_current(struct CUctx_st **ret_ctx)
{
    struct CUctx_st *ctx = top();

    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (ctx->sticky)
        return (int)ctx->sticky;
    *ret_ctx = ctx;
    return 0;
}

void sim_context_break(CUresult code)
{
    struct CUctx_st *ctx = top();

    if (ctx && ctx->alive && !ctx->sticky)
        ctx->sticky = code;
}

int sim_context_get(CUcontext handle, struct CUctx_st **ret_ctx)
{
    struct CUctx_st *ctx = handle ? handle : top();

    if (!sim_handle_is(ctx, SIM_KIND_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_ctx = ctx;
    return 0;
}

bool sim_context_is_peer(int device, int owner)
{
    for (size_t i = 0; i < sizeof peerings / sizeof *peerings; i++)
        if (peerings[i].from && peerings[i].from->device == device
                && peerings[i].to->device == owner)
            return true;
    return false;
}

/* The access of one context to another one, or a free place (NULL, NULL); NULL: there is none. */
static struct peering *peering_of(const struct CUctx_st *from, const struct CUctx_st *to)
{
    for (size_t i = 0; i < sizeof peerings / sizeof *peerings; i++)
        if (peerings[i].from == from && peerings[i].to == to)
            return &peerings[i];
    return NULL;
}

static void end_peerings(const struct CUctx_st *ctx)
{
    for (size_t i = 0; i < sizeof peerings / sizeof *peerings; i++)
        if (peerings[i].from == ctx || peerings[i].to == ctx)
            peerings[i] = (struct peering){NULL, NULL};
}

struct CUctx_st *sim_context_primary(int device)
{
    return primaries[device].alive ? &primaries[device] : NULL;
}

void sim_context_each(void (*see)(struct CUctx_st *ctx, void *data), void *data)
{
    for (struct CUctx_st *ctx = contexts; ctx; ctx = ctx->next)
        if (ctx->alive)
            see(ctx, data);
}

static void begin_life(struct CUctx_st *ctx, int device)
{
    ctx->device = device;
    ctx->alive = true;
    ctx->id = next_id++;
    ctx->sticky = CUDA_SUCCESS;
    ctx->legacy = sim_stream_open_legacy(ctx);
    if (!sim_handle_is(ctx, SIM_KIND_CONTEXT)) {
        sim_handle_add(ctx, SIM_KIND_CONTEXT);
        ctx->next = contexts;
        contexts = ctx;
    }
}

/* Work in flight ends first: what a dying context's work writes must not land elsewhere. */
static void end_life(struct CUctx_st *ctx)
{
    sim_capture_end_context(ctx);
    sim_queue_demand_context(ctx);
    if (!ctx->alive)
        return; /* another thread was faster while the lock was away */
    for (struct CUctx_st *green = contexts; green; green = green->next)
        if (green->alive && green->primary_of == ctx)
            end_life(green);
    ctx->alive = false;
    end_peerings(ctx);
    sim_stream_end_context(ctx);
    sim_module_end_context(ctx);
    sim_memory_end_context(ctx);
    sim_clock_clear(&ctx->waits);
}

/* ---- primary contexts ---- */

static int valid_device(CUdevice device)
{
    return device >= 0 && device < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

static struct CUctx_st *retain(int device)
{
    struct CUctx_st *ctx = &primaries[device];

    if (!ctx->alive) {
        ctx->primary = true;
        begin_life(ctx, device);
    }
    ctx->retained++;
    return ctx;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_ctx, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = !ret_ctx ? CUDA_ERROR_INVALID_VALUE : valid_device(device);
    if (r == 0) {
        *ret_ctx = retain(device);
        sim_note(&call, " device=%d", device);
    }
    return sim_leave(&call, r);
}

static int primary_release(CUdevice device)
{
    int r = valid_device(device);

    if (r)
        return r;
    struct CUctx_st *ctx = &primaries[device];
    if (!ctx->alive || ctx->retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--ctx->retained == 0)
        end_life(ctx);
    return 0;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_release(device);
    return sim_leave(&call, r);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_release(device);
    return sim_leave(&call, r);
}

/* The handle stays; whoever retained it has a context with a new id and nothing in it. */
static int primary_reset(CUdevice device)
{
    int r = valid_device(device);

    if (r)
        return r;
    struct CUctx_st *ctx = &primaries[device];
    if (!ctx->alive)
        return 0;
    end_life(ctx);
    if (ctx->retained)
        begin_life(ctx, device);
    return 0;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_reset(device);
    return sim_leave(&call, r);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_reset(device);
    return sim_leave(&call, r);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *ret_flags, int *ret_active)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = valid_device(device);
    if (r == 0) {
        if (ret_flags)
            *ret_flags = primaries[device].flags;
        if (ret_active)
            *ret_active = primaries[device].alive;
    }
    return sim_leave(&call, r);
}

static int primary_set_flags(CUdevice device, unsigned int flags)
{
    int r = valid_device(device);

    if (r == 0)
        primaries[device].flags = flags;
    return r;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_set_flags(device, flags);
    return sim_leave(&call, r);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = primary_set_flags(device, flags);
    return sim_leave(&call, r);
}

/* ---- created contexts and the stack ---- */

static int create(CUcontext *ret_ctx, unsigned int flags, CUdevice device)
{
    struct CUctx_st *ctx;
    int r = ret_ctx ? valid_device(device) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    ctx = sim_new(sizeof(*ctx));
    ctx->flags = flags;
    begin_life(ctx, device);
    r = push(ctx);
    *ret_ctx = ctx;
    return r;
}

CUresult cuCtxCreate_v2(CUcontext *ret_ctx, unsigned int flags, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = create(ret_ctx, flags, device);
    return sim_leave(&call, r);
}

CUresult cuCtxCreate_v4(
        CUcontext *ret_ctx, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && params && (params->execAffinityParams || params->cigParams))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == 0)
        r = create(ret_ctx, flags, device);
    return sim_leave(&call, r);
}

static int destroy(CUcontext handle)
{
    struct CUctx_st *ctx;
    int r = handle ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    if (ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    end_life(ctx);
    if (top() == ctx)
        pop();
    return 0;
}

/* With an affinity to few multiprocessors: there are none to be few of. */
CUresult cuCtxCreate_v3(CUcontext *ret_ctx, CUexecAffinityParam *params, int params_count,
        unsigned int flags, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (params || params_count))
        r = CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (r == 0)
        r = create(ret_ctx, flags, device);
    return sim_leave(&call, r);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *ret_param, CUexecAffinityType type)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_param || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT))
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r ? r : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

/* How programs of CUDA 3 shared a context: a count, and the last one destroys it. */
CUresult cuCtxAttach(CUcontext *ret_ctx, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_ctx || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        call.ctx->attached++;
        *ret_ctx = call.ctx;
    }
    return sim_leave(&call, r);
}

CUresult cuCtxDetach(CUcontext ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (ctx != call.ctx || (ctx->primary && !ctx->attached)))
        r = CUDA_ERROR_INVALID_CONTEXT; /* the reference: the current one only */
    if (r == 0 && ctx->attached)
        ctx->attached--;
    else if (r == 0)
        r = destroy(ctx);
    return sim_leave(&call, r);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(ctx);
    return sim_leave(&call, r);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(ctx);
    return sim_leave(&call, r);
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    struct sim_call call;
    struct CUctx_st *ctx;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_IS_QUERY);

    if (r == 0)
        r = handle ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == 0)
        r = push(ctx);
    return sim_leave(&call, r);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_IS_QUERY);

    if (r == 0 && sim_self()->depth == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == 0) {
        if (ret_ctx)
            *ret_ctx = top();
        pop();
    }
    return sim_leave(&call, r);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    struct sim_call call;
    struct CUctx_st *ctx = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_IS_QUERY);

    if (r == 0 && handle)
        r = sim_context_get(handle, &ctx);
    if (r == 0) {
        pop();
        if (ctx)
            r = push(ctx);
    }
    return sim_leave(&call, r);
}

CUresult cuCtxGetCurrent(CUcontext *ret_ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_IS_QUERY);

    if (r == 0 && !ret_ctx)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_ctx = top();
    return sim_leave(&call, r);
}

/* ---- questions and settings ---- */

static int get_device(CUdevice *ret_device, CUcontext handle)
{
    struct CUctx_st *ctx;
    int r = ret_device ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0)
        *ret_device = ctx->device;
    return r;
}

CUresult cuCtxGetDevice(CUdevice *ret_device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = get_device(ret_device, NULL);
    return sim_leave(&call, r);
}

CUresult cuCtxGetDevice_v2(CUdevice *ret_device, CUcontext ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = get_device(ret_device, ctx);
    return sim_leave(&call, r);
}

CUresult cuCtxGetFlags(unsigned int *ret_flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !ret_flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_flags = call.ctx->flags;
    return sim_leave(&call, r);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        call.ctx->flags = flags;
    return sim_leave(&call, r);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
    struct sim_call call;
    struct CUctx_st *ctx;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_id ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_id = ctx->id;
    return sim_leave(&call, r);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *ret_version)
{
    struct sim_call call;
    struct CUctx_st *ctx;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_version ? sim_context_get(handle, &ctx) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_version = 3020;
    return sim_leave(&call, r);
}

CUresult cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        if (ret_least)
            *ret_least = SIM_PRIORITY_LEAST;
        if (ret_greatest)
            *ret_greatest = SIM_PRIORITY_GREATEST;
    }
    return sim_leave(&call, r);
}

CUresult cuCtxGetLimit(size_t *ret_value, CUlimit limit)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_value || (unsigned)limit >= 16))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_value = call.ctx->limits[limit] ? call.ctx->limits[limit]
                                             : (limit == CU_LIMIT_STACK_SIZE ? 1024 : 8U << 20);
    return sim_leave(&call, r);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (unsigned)limit >= 16)
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (r == 0)
        call.ctx->limits[limit] = value;
    return sim_leave(&call, r);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *ret_config)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !ret_config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_config = (CUfunc_cache)call.ctx->cache_config;
    return sim_leave(&call, r);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        call.ctx->cache_config = (int)config;
    return sim_leave(&call, r);
}

/* Banks and persisting cache lines are nothing here: settings are kept or forgotten. */
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *ret_config)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !ret_config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return sim_leave(&call, r);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        r = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    return sim_leave(&call, r);
}

/* ---- green contexts ---- */

/*
 * A part of the device's multiprocessors, of which there are none to choose from: every descriptor stands for all of them. The handle
 * is that of the context that it is converted to.
 */
static int green_of(CUgreenCtx handle, struct CUctx_st **ret_ctx)
{
    int r = handle ? sim_context_get((CUcontext)(void *)handle, ret_ctx) : CUDA_ERROR_INVALID_VALUE;

    return r == 0 && !(*ret_ctx)->primary_of ? CUDA_ERROR_INVALID_CONTEXT : r;
}

static int green_create(CUgreenCtx *ret_green, CUdevice device, unsigned flags)
{
    struct CUctx_st *ctx;
    int r = ret_green && flags == CU_GREEN_CTX_DEFAULT_STREAM ? valid_device(device)
                                                              : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    retain(device);
    ctx = sim_new(sizeof(*ctx));
    ctx->primary_of = &primaries[device];
    begin_life(ctx, device);
    *ret_green = (CUgreenCtx)(void *)ctx;
    return 0;
}

CUresult cuGreenCtxCreate(
        CUgreenCtx *ret_green, CUdevResourceDesc part, CUdevice device, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)part;
    if (r == 0)
        r = green_create(ret_green, device, flags);
    return sim_leave(&call, r);
}

CUresult cuCtxFromGreenCtx(CUcontext *ret_ctx, CUgreenCtx green)
{
    struct sim_call call;
    struct CUctx_st *ctx = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = ret_ctx ? green_of(green, &ctx) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_ctx = ctx;
    return sim_leave(&call, r);
}

CUresult cuGreenCtxStreamCreate(
        CUstream *ret_stream, CUgreenCtx green, unsigned int flags, int priority)
{
    struct sim_call call;
    struct CUctx_st *ctx = NULL;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = flags == CU_STREAM_NON_BLOCKING ? green_of(green, &ctx) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = sim_stream_create(ctx, ret_stream, flags, priority);
    return sim_leave(&call, r);
}

static int green_destroy(CUgreenCtx green)
{
    struct CUctx_st *ctx = NULL;
    int r = green_of(green, &ctx);

    if (r)
        return r;
    end_life(ctx);
    return primary_release(ctx->device);
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = green_destroy(green);
    return sim_leave(&call, r);
}

/* ---- waiting ---- */

static int synchronize(CUcontext handle)
{
    struct CUctx_st *ctx;
    int r = sim_context_get(handle, &ctx);

    if (r)
        return r;
    r = sim_capture_synchronize_context(ctx);
    if (r)
        return r;
    sim_stats.synchronizes++;
    sim_queue_demand_context(ctx);
    sim_pool_synchronized();
    return ctx->alive ? (int)ctx->sticky : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuCtxSynchronize(void)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = synchronize(NULL);
    return sim_leave(&call, r);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0)
        r = synchronize(ctx);
    return sim_leave(&call, r);
}

/* ---- peers ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    struct sim_call call;
    struct CUctx_st *other;
    struct peering *place;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = peer ? sim_context_get(peer, &other) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == 0 && flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && other->device == call.ctx->device)
        r = CUDA_ERROR_INVALID_DEVICE;
    if (r == 0 && peering_of(call.ctx, other))
        r = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    place = r == 0 ? peering_of(NULL, NULL) : NULL;
    if (r == 0 && !place)
        r = CUDA_ERROR_TOO_MANY_PEERS;
    if (place)
        *place = (struct peering){call.ctx, other};
    return sim_leave(&call, r);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    struct sim_call call;
    struct CUctx_st *other;
    struct peering *place;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = peer ? sim_context_get(peer, &other) : CUDA_ERROR_INVALID_CONTEXT;
    place = r == 0 ? peering_of(call.ctx, other) : NULL;
    if (r == 0 && !place)
        r = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (place)
        *place = (struct peering){NULL, NULL};
    return sim_leave(&call, r);
}

/* SPDX-License-Identifier: MIT */
/*
 * sim_context.h - contexts: primary and created, a stack of them per thread, what dies with them.
 *
 * A context owns its streams, events, modules and what cuMemAlloc gave out in it. Memory from
 * cuMemCreate and from pools belongs to no context and outlives all of them. Reset of a primary
 * context keeps its handle and gives it a new id, as a driver may.
 *
 * Contexts are never freed: a thread may have a dead one on its stack, and is told 709 then.
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CONTEXT_H
#define KEDGE_TESTS_SIM_SIM_CONTEXT_H

#include "tests/sim/stream/sim_queue.h"

struct CUctx_st {
    /* fixed at creation */
    int device;
    bool primary;
    /* NULL: not a green one. A green context has streams, events and a number of its own; its memory is its primary's. */
    struct CUctx_st *primary_of;
    /* guarded by the lock */
    unsigned flags;
    unsigned retained; /* primary: cuDevicePrimaryCtxRetain */
    unsigned attached; /* others: cuCtxAttach */
    bool alive;
    uint64_t id;     /* new at each life */
    CUresult sticky; /* what every call returns from now on */
    struct CUstream_st *streams;
    struct CUstream_st *legacy;
    uint64_t own_ids; /* default streams that were numbered (SIMCUDA_STREAM_IDS) */
    struct CUevent_st *events;
    struct CUmod_st *modules;
    struct sim_block *blocks;
    struct sim_granule *granules;
    struct sim_clock waits; /* cuCtxWaitEvent: all later work comes behind it */
    size_t limits[16];
    int cache_config;
    struct CUctx_st *next;
};

/* The calling thread's context, or 201, 709, or its sticky error. */
int sim_context_current(struct CUctx_st **ret_ctx);

/* The calling thread's context, if it has one, has a sticky error from now on. */
void sim_context_break(CUresult code);

/* 0 if the handle is a living context, else 201 or 709. NULL: the current one. */
int sim_context_get(CUcontext handle, struct CUctx_st **ret_ctx);

/* Whether kernels of `device` may touch plain memory of device `owner`. */
bool sim_context_is_peer(int device, int owner);

/* Whose cuMemAlloc's memory is that is asked for there. */
static inline struct CUctx_st *sim_context_owner(struct CUctx_st *ctx)
{
    return ctx->primary_of ? ctx->primary_of : ctx;
}

static inline CUgreenCtx sim_context_green(struct CUctx_st *ctx)
{
    return ctx->primary_of ? (CUgreenCtx)(void *)ctx : NULL;
}

/* Whether what is asked of the context as a whole is about work of `other`: its own, and a primary one's green ones. */
static inline bool sim_context_covers(const struct CUctx_st *ctx, const struct CUctx_st *other)
{
    return other == ctx || (other && other->primary_of == ctx);
}

/* The primary context of a device if it is alive, else NULL. */
struct CUctx_st *sim_context_primary(int device);

/* Calls `see` for every living context. */
void sim_context_each(void (*see)(struct CUctx_st *ctx, void *data), void *data);

#endif

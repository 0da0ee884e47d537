/* SPDX-License-Identifier: MIT */
/*
 * quick.h - the short ways through cuMemAlloc, cuMemFree and their stream-ordered forms.
 *
 * A request that finds a block in the pool costs some hundred instructions there. The script around
 * it (dispatch.c) checks anchors, hints, stream captures, new libraries, bypassed callers and
 * coverage: ten times as many instructions, usually to find that nothing has changed. So a hook
 * tries three ways, and each takes the calls that the one before it left (hooks_mem.c):
 *
 *     hook ─► at once ─┬─► placed ─┬─► fully: life_enter ─► dispatch_alloc, dispatch_free
 *                      └─ served   └─ served, and recorded
 *
 *     a request                    at once         placed                       fully
 *     recorded                     left            served, then written down    written down
 *     a hint names its size        left            asked: a match is left       asked, acted on
 *     neither                      served          left                         served
 *     capture, callback, kedge     left            left                         looked at
 *     caller, context, stream      as remembered   as remembered                found out
 *     new libraries, hooks         -               left                         looked at, noted
 *     hints have work to go on     left            left                         done
 *     stack and place              -               taken                        taken or `counted`
 *     pool                         a hit or fit    a hit or fit                 all, and the driver
 *
 * A free at once leaves only a free that is recorded, which the next way serves. Hints are not
 * asked, since a block that a hint matched has a holder, and the pool's short form leaves such
 * blocks. Both ways leave a free that has to wait for the device (R75, host barrier), and one on
 * an unknown stream.
 *
 * "Left" means that nothing has happened, with one exception: a placed request that a hint
 * matched, or that the pool had no block for, was counted (nth), so its tag goes the long way with
 * it. One in QUICK_ROUNDS calls goes the long way in any case, and so does a call once libraries
 * may have been loaded: the long way learns the caller (behind a runtime: the caller of the
 * runtime's export), the memory pool and the stream.
 *
 * The short ways make two driver calls, cuCtxGetCurrent and, for a stream that is no default
 * stream, cuStreamGetId: both read a word of the thread or the handle, and safety depends on both
 * (R69, stream identity). Nothing is allocated, no system call made, unless the capture grows.
 * Deferred cancellation cannot strike in here, so it is not switched off as life_enter does;
 * where_go does for a walk.
 * Threads: any. Rules: R7 R29 R43 R69 R75 R83.
 */
#ifndef KEDGE_PRELOAD_QUICK_H
#define KEDGE_PRELOAD_QUICK_H

#include "preload/base/guard.h"
#include "preload/caller/bypass.h"
#include "preload/caller/coverage.h"
#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/hints_run.h"
#include "preload/request/dispatch.h"

#include "alloc/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUICK_ROUNDS = 1024,
};

/* The bits of guard_word that matter for requests too. */
#define QUICK_GUARDS ((unsigned)(GUARD_UNBOUND | GUARD_CAPTURING))

/* Bits that close the way "at once", but not the way "placed". */
#define QUICK_OPENED ((unsigned)(SESSION_RECORDED | SESSION_DECIDED))

static inline unsigned quick_closed(void)
{
    return atomic_load_explicit(&session_closed, memory_order_acquire);
}

/* `closed`: the bits of quick_closed that close it to this call. */
static inline bool quick_is_open(unsigned closed)
{
    return (closed | (atomic_load_explicit(&guard_word, memory_order_relaxed) & QUICK_GUARDS)
                   | guard_thread.depth | guard_thread.callback)
            == 0;
}

/* Opens the short ways. `decides`: there are hints; `records`: a capture is written. */
void quick_start(bool decides, bool records);

/* After a request that the long way served and a short way could have. `mempool_id`
 * 0: the sync API. */
void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id);

/* ---- inside ---- */

static inline struct caller_memo *quick_caller(const void *caller, const void *asker)
{
    return &context_memo.caller[((uintptr_t)caller + (uintptr_t)asker) / 4 % CALLER_MEMOS];
}

static inline bool quick_is_noted(const void *caller)
{
    const struct caller_memo *memo = quick_caller(caller, bypass_asker);

    return memo->caller == caller && memo->asker == bypass_asker;
}

/* Is it known that no request of this caller is forwarded? The long way checks this as well. */
static inline bool quick_knows(const void *caller)
{
    return quick_is_noted(caller) && context_memo.epoch == atomic_load(&context_epoch);
}

/* The last of QUICK_ROUNDS calls goes the long way, and so do those after it until the long way
 * has learned the caller. */
static inline bool quick_is_spared(const void *caller)
{
    if (!quick_is_noted(caller) || context_memo.left <= 1)
        return false;
    context_memo.left--;
    return true;
}

/* Is the current context the one in which the thread filled its memo? */
static inline bool quick_is_here(void)
{
    unsigned epoch = atomic_load(&context_epoch);
    CUcontext handle = NULL;

    return context_memo.epoch == epoch && REAL(cuCtxGetCurrent)(&handle) == CUDA_SUCCESS
            && context_memo.context.handle == handle;
}

static inline bool quick_is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY;
}

/*
 * The number of a stream other than the default one, if it is known and not per-thread; else 0.
 * The driver answers only while a context is current, so the number is check enough.
 */
static inline uint64_t quick_stream(CUstream stream)
{
    unsigned at = stream_memo_at(stream);
    unsigned long long id = 0;

    return context_memo.handle[at] == stream && REAL(cuStreamGetId)(stream, &id) == CUDA_SUCCESS
                    && context_memo.identity[at] == id + 1
            ? id + 1
            : 0;
}

/* ---- one request ---- */

/* A request or a free as the program called it. */
struct quick_call {
    CUmemoryPool mempool; /* of the stream API: NULL = the current one of the device */
    CUstream stream;      /* of the stream API */
    const void *caller;   /* return address of the hook */
    enum api api;
    enum resolve_slot slot; /* of the hook */
};

/* The heap that serves a request, and on the stream API its stream. */
struct quick_place {
    uint64_t owner, stream;
};

#define QUICK_INLINE static inline __attribute__((always_inline))

/* Finds the place on the stream API. False: unknown, or the named pool does not serve it. */
QUICK_INLINE bool quick_find_stream(const struct quick_call *call, struct quick_place *ret)
{
    uint64_t identity = 0;
    int device = 0;

    if (context_memo.mempool != call->mempool)
        return false;
    if (!quick_is_default(call->stream)) {
        if (context_memo.epoch == atomic_load(&context_epoch))
            identity = quick_stream(call->stream);
        device = context_memo.device_of[stream_memo_at(call->stream)];
    } else if (quick_is_here()) {
        identity = context_memo.legacy.identity;
        device = context_memo.legacy.device;
    }
    if (device != context_memo.device || !identity)
        return false;
    *ret = (struct quick_place){context_memo.mempool_id, identity};
    return true;
}

QUICK_INLINE bool quick_find_place(const struct quick_call *call, struct quick_place *ret)
{
    if (!quick_is_spared(call->caller))
        return false;
    if (call->api != API_SYNC)
        return quick_find_stream(call, ret);
    if (!quick_is_here())
        return false;
    *ret = (struct quick_place){.owner = context_memo.context.memory};
    return true;
}

QUICK_INLINE struct pool_given quick_take(
        const struct quick_call *call, const struct quick_place *place, uint64_t size)
{
    return call->api == API_SYNC
            ? pool_alloc_quickly(session_pool, place->owner, size)
            : pool_alloc_on_quickly(session_pool, place->owner, place->stream, size);
}

/* Have hints no release to continue and no outcome to record? `closed`: of quick_closed. */
static inline bool quick_is_settled(unsigned closed)
{
    return !(closed & SESSION_DECIDED) || (!session_must_go_on() && !pool_has_news(session_pool));
}

/* Do hints alone close the way "at once", and does none of them name this size? */
bool quick_is_open_beside_hints(uint64_t size);

/* Serves a request at once. Address 0: nothing has happened. */
QUICK_INLINE struct pool_given quick_alloc(const struct quick_call *call, uint64_t size)
{
    struct pool_given given = {0, 0};
    struct quick_place place;

    if (__builtin_expect(!quick_is_open(quick_closed()), 0) && !quick_is_open_beside_hints(size))
        return given;
    if (!quick_find_place(call, &place))
        return given;
    guard_push();
    given = quick_take(call, &place, size);
    guard_pop();
    return given;
}

/* Ends the walk of where_go. */
void quick_know(
        const struct where_walk *walk, struct quick_call call, uint64_t size, struct tag *ret_tag);
/* Does a hint match the request at this place? */
bool quick_is_wanted(struct tag *io_tag);
void quick_record_alloc(struct pool_given given, struct quick_call call, const struct tag *tag);

/*
 * Serves a placed request: takes stack and place, since the request is recorded or a hint names its
 * size. Address 0: go the long way, with *ret_tag if written: the request was then counted.
 * Inlined: the walk begins in the frame of the hook's function.
 */
QUICK_INLINE struct pool_given quick_alloc_placed(
        const struct quick_call *call, uint64_t size, struct tag *ret_tag)
{
    unsigned closed = quick_closed();
    bool asks = closed & SESSION_DECIDED && hint_has_size(hints_run.hints, size);
    struct pool_given given = {0, 0};
    struct quick_place place;
    struct where_walk walk;

    if (!(asks || closed & SESSION_RECORDED) || !coverage_is_quiet() || !quick_is_settled(closed)
            || !quick_is_open(closed & ~QUICK_OPENED) || !quick_find_place(call, &place))
        return given;
    guard_push();
    where_go(size, call->caller, &walk);
    quick_know(&walk, *call, size, ret_tag);
    if (!asks || !quick_is_wanted(ret_tag))
        given = quick_take(call, &place, size);
    if (given.ptr && closed & SESSION_RECORDED)
        quick_record_alloc(given, *call, ret_tag);
    guard_pop();
    return given;
}

/* ---- one free ---- */

/* The stream of a free that records no event; 0 = unknown, or it records one: the
 * memo holds no such stream. */
static inline uint64_t quick_stream_of_free(CUstream stream)
{
    if (quick_is_default(stream))
        return quick_is_here() ? context_memo.legacy.identity : 0;
    return context_memo.epoch == atomic_load(&context_epoch) ? quick_stream(stream) : 0;
}

/* `ret_taken`: for the record, NULL = none. False: nothing has happened. */
QUICK_INLINE bool quick_free(
        const struct quick_call *call, devptr_t ptr, struct pool_taken *ret_taken)
{
    unsigned why = ret_taken ? QUICK_OPENED : SESSION_DECIDED;
    uint64_t stream = 0;
    bool done;

    if (!quick_is_open(quick_closed() & ~why))
        return false;
    if (call->api == API_SYNC ? !dispatch_frees_without_wait()
                              : !(stream = quick_stream_of_free(call->stream)))
        return false;
    guard_push();
    if (call->api == API_SYNC)
        done = ret_taken ? pool_free_told(session_pool, ptr, ret_taken)
                         : pool_free_quickly(session_pool, ptr);
    else
        done = ret_taken ? pool_free_on_told(session_pool, ptr, stream, ret_taken)
                         : pool_free_on_quickly(session_pool, ptr, stream);
    guard_pop();
    return done;
}

void quick_record_free(devptr_t ptr, const struct pool_taken *taken, struct quick_call call);

/* The free of a run that records. False: nothing has happened. */
QUICK_INLINE bool quick_free_recorded(const struct quick_call *call, devptr_t ptr)
{
    struct pool_taken taken;

    if (!(quick_closed() & SESSION_RECORDED) || !quick_free(call, ptr, &taken))
        return false;
    quick_record_free(ptr, &taken, *call);
    return true;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * quick.h - the shortest way through cuMemAlloc, cuMemFree and their stream-ordered forms.
 *
 * A request that finds a block in the pool costs some hundred instructions there. The script around
 * it (dispatch.c) checks anchors, hints, stream captures, new libraries, bypassed callers and
 * coverage: ten times as many instructions, usually to find that nothing has changed. So a hook
 * first tries the short path, which takes the same decisions from what the thread has learned on
 * the long path:
 *
 *     hook ─► quick_is_open? ─► quick_alloc · quick_free ─┬─ served ─► quick_record_... if a capture is written
 *                                                         └─ 0, false: nothing has happened ─► life_enter ─► dispatch_...
 *
 * It is open while kedge serves (session_closed), no stream is being captured (guard_word), and the
 * thread is neither inside kedge nor in a host function; while something is recorded or hints are
 * asked, as long as there is also nothing new to be looked at or told about libraries and hooks
 * (coverage.h). What it knows of its caller (behind a runtime: of whoever called the runtime's
 * export), its memory pool and its stream comes from the long way, which it goes at the first call,
 * whenever libraries may have come, and once in QUICK_ROUNDS calls in any case.
 *
 * Both paths record the same. The short path asks the pool before it takes the stack, because a
 * request that finds no block must be counted (nth) only once, on the long path. Hints are asked
 * before the pool, which a request that one of them matches must not find: there the stack comes
 * first, and the long path is given the place that was counted (quick_alloc_decided). Of a size
 * that no hint speaks of nothing is asked, and no stack is taken for the hints. A free asks no
 * hint: a block that one has matched has a holder, and the short path passes it over.
 *
 * Of the driver only two things are asked, cuCtxGetCurrent and, for a stream that is no default
 * stream, cuStreamGetId: both read a word of the thread's or the handle's, and both decide about
 * safety (R69). Nothing is allocated, no system call made, unless the capture grows.
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

/* `why`: SESSION_RECORDED if the caller records what it is served, SESSION_DECIDED if it asks the
 * hints, else 0. */
static inline bool quick_is_open(unsigned why)
{
    return ((atomic_load_explicit(&session_closed, memory_order_acquire) & ~why)
                   | (atomic_load_explicit(&guard_word, memory_order_relaxed) & QUICK_GUARDS)
                   | guard_thread.depth | guard_thread.callback)
            == 0;
}

/* From now on kedge serves. `decides`: there are hints; `records`: a capture is written. */
void quick_start(bool decides, bool records);

/* After a request that was served on the long way and might have gone the short one. `mempool_id`
 * 0: the sync API. */
void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id);

/* ---- inside ---- */

/* Both are settled before the short path opens for the first time, and never changed. */
static inline bool quick_records(void)
{
    return atomic_load_explicit(&session_closed, memory_order_relaxed) & SESSION_RECORDED;
}

static inline bool quick_decides(void)
{
    return atomic_load_explicit(&session_closed, memory_order_acquire) & SESSION_DECIDED;
}

static inline struct caller_memo *quick_caller(const void *caller, const void *asker)
{
    return &context_memo.caller[((uintptr_t)caller + (uintptr_t)asker) / 4 % CALLER_MEMOS];
}

static inline bool quick_is_noted(const void *caller)
{
    const struct caller_memo *memo = quick_caller(caller, bypass_asker);

    return memo->caller == caller && memo->asker == bypass_asker;
}

/* Whether hints have to be asked about a request of this size, wherever it is made. */
static inline bool quick_asks(uint64_t size)
{
    return quick_decides() && hint_has_size(hints_run.hints, size);
}

/* Whether nothing has to be looked at, told or gone on with first: where requests are recorded or
 * there are hints. */
static inline bool quick_is_calm(bool looks)
{
    return (!looks || coverage_is_quiet())
            && (!quick_decides() || (!session_must_go_on() && !pool_has_news(session_pool)));
}

/* Whether it is known of this caller that nothing it asks for is forwarded; the long way asks as
 * well. */
static inline bool quick_knows(const void *caller)
{
    return quick_is_noted(caller) && context_memo.epoch == atomic_load(&context_epoch);
}

/* The last of QUICK_ROUNDS calls goes the long way, and so do those that follow until something was
 * learned there. */
static inline bool quick_is_spared(const void *caller)
{
    if (!quick_is_noted(caller) || context_memo.left <= 1)
        return false;
    context_memo.left--;
    return true;
}

/* Whether the thread is where it was when it learned what it knows. */
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
 * The number of another stream than the default one, if it is known and not a thread's own; else 0.
 * The driver answers for a stream only where a context is current, and its number says enough.
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

/* ---- the short way, all of it: no address, or false = go the long one ---- */

static inline __attribute__((always_inline)) bool quick_may_alloc(unsigned why, const void *caller)
{
    return quick_is_open(why) && quick_is_spared(caller) && quick_is_here();
}

static inline __attribute__((always_inline)) struct pool_given quick_alloc(
        unsigned why, uint64_t size, const void *caller)
{
    struct pool_given given = {0, 0};

    if (!quick_may_alloc(why, caller))
        return given;
    guard_push();
    given = pool_alloc_quickly(session_pool, context_memo.context.memory, size);
    guard_pop();
    return given;
}

/* The number of the stream that a request names, if the pool that it names serves it; else 0. */
static inline __attribute__((always_inline)) uint64_t quick_stream_of_alloc(
        unsigned why, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    uint64_t identity = 0;
    int device = 0;

    if (!quick_is_open(why) || !quick_is_spared(caller) || context_memo.mempool != mempool)
        return 0;
    if (!quick_is_default(stream)) {
        if (context_memo.epoch == atomic_load(&context_epoch))
            identity = quick_stream(stream);
        device = context_memo.device_of[stream_memo_at(stream)];
    } else if (quick_is_here()) {
        identity = context_memo.legacy.identity;
        device = context_memo.legacy.device;
    }
    return device == context_memo.device ? identity : 0;
}

static inline __attribute__((always_inline)) struct pool_given quick_alloc_on(
        unsigned why, uint64_t size, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    uint64_t identity = quick_stream_of_alloc(why, mempool, stream, caller);
    struct pool_given given = {0, 0};

    if (!identity)
        return given;
    guard_push();
    given = pool_alloc_on_quickly(session_pool, context_memo.mempool_id, identity, size);
    guard_pop();
    return given;
}

/* `ret_taken`: for the record, NULL = none. */
static inline __attribute__((always_inline)) bool quick_free(
        unsigned why, devptr_t ptr, struct pool_taken *ret_taken)
{
    bool done;

    if (!quick_is_open(why | SESSION_DECIDED) || !dispatch_frees_without_wait())
        return false;
    guard_push();
    done = ret_taken ? pool_free_told(session_pool, ptr, ret_taken)
                     : pool_free_quickly(session_pool, ptr);
    guard_pop();
    return done;
}

/* The stream of a free that records no event; 0 = not known, or it does: nothing is remembered of
 * such a stream. */
static inline uint64_t quick_stream_of_free(CUstream stream)
{
    if (quick_is_default(stream))
        return quick_is_here() ? context_memo.legacy.identity : 0;
    return context_memo.epoch == atomic_load(&context_epoch) ? quick_stream(stream) : 0;
}

static inline __attribute__((always_inline)) bool quick_free_on(
        unsigned why, devptr_t ptr, CUstream stream, struct pool_taken *ret_taken)
{
    uint64_t identity = quick_is_open(why | SESSION_DECIDED) ? quick_stream_of_free(stream) : 0;
    bool done;

    if (!identity)
        return false;
    guard_push();
    done = ret_taken ? pool_free_on_told(session_pool, ptr, identity, ret_taken)
                     : pool_free_on_quickly(session_pool, ptr, identity);
    guard_pop();
    return done;
}

/* ---- the record of what was served ---- */

/* Written inside the guard: what a signal handler prints meanwhile becomes no event in the middle
 * of another. */

/* A hook's call. */
struct quick_call {
    CUstream stream; /* of the stream API, as the program named it */
    enum api api;
    enum resolve_slot slot; /* of the hook */
};

/*
 * The short way where hints are asked (quick_asks), and the record of it. No address: go the long
 * one, with *ret_tag if it has a path, since the request was counted.
 */
struct pool_given quick_alloc_decided(uint64_t size, CUmemoryPool mempool, struct quick_call call,
        const void *caller, struct tag *ret_tag);

/* Records what quick_alloc gave. Always CUDA_SUCCESS: a hook that ends with this call has one frame
 * less in the walk. */
CUresult quick_record_alloc(
        struct pool_given given, uint64_t size, struct quick_call call, const void *caller);

/* Records what quick_free or quick_free_on took. */
void quick_record_free(devptr_t ptr, const struct pool_taken *taken, struct quick_call call);

#endif

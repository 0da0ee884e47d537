/* SPDX-License-Identifier: MIT */
/*
 * quick.h - the shortest way through cuMemAlloc, cuMemFree and their stream-ordered forms.
 *
 * A request that finds a block in the pool costs some hundred instructions there. The script around it (conduct.c) asks for
 * stacks, anchors, hints, captures of streams, libraries that came, callers that are left alone, and tells a capture file:
 * ten times as many, for nothing where none of that is in use. So a hook first tries this way, which takes the same decisions
 * from what the thread has learned on the long one:
 *
 *     hook ─► quick_is_open? ─► quick_alloc · quick_free ─┬─ served
 *                                                         └─ 0, false: nothing has happened ─► life_enter ─► conduct_...
 *
 * It is open while kedge serves, nothing is recorded, no hint and no plan is there (quick_closed), no stream is being captured and no
 * hint acts (guard_word), and the thread is neither inside kedge nor in a host function. What it knows of its caller, its
 * memory pool and its stream comes from the long way, which it goes at the first call, whenever libraries may have come, and
 * once in QUICK_ROUNDS calls in any case.
 *
 * Of the driver only two things are asked, cuCtxGetCurrent and, for a stream that is no default stream, cuStreamGetId: both
 * read a word of the thread's or the handle's, and both decide about safety (R69). Nothing is allocated, no system call made.
 * Deferred cancellation cannot strike in here, so it is not switched off as life_enter does.
 * Threads: any. Rules: R7 R29 R43 R69 R75 R83.
 */
#ifndef KEDGE_PRELOAD_QUICK_H
#define KEDGE_PRELOAD_QUICK_H

#include "preload/conduct.h"
#include "preload/contexts.h"
#include "preload/guard.h"
#include "preload/resolve.h"

#include "alloc/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUICK_ROUNDS = 1024,
};

/* Why nobody may go the short way. */
enum quick_reason {
    QUICK_ASLEEP = 1,   /* not started, or not serving */
    QUICK_RECORDED = 2, /* a capture is written, or hints or a plan were read */
    QUICK_ENDED = 4,    /* degraded, a forked child, a device that failed */
};

extern atomic_uint quick_closed;

static inline bool quick_is_open(void)
{
    return (atomic_load_explicit(&quick_closed, memory_order_acquire)
                   | atomic_load_explicit(&guard_word, memory_order_relaxed) | guard_thread.depth
                   | guard_thread.callback)
            == 0;
}

/* kedge serves from here on; `quiet`: nothing is recorded and no hint read. And: it does not any more. */
struct pool;
void quick_start(struct pool *pool, bool quiet);
void quick_end(void);

/* After a request that was served on the long way and might have gone the short one. `mempool_id` 0: the sync entrance. */
void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id);

/* ---- inside ---- */

extern struct pool *quick_pool; /* fixed by quick_start */

static inline const void **quick_caller(const void *caller)
{
    return &context_memo.caller[(uintptr_t)caller / 4 % CALLER_MEMOS];
}

/* Whether it is known of this caller that nothing it asks for is forwarded; the long way asks as well. */
static inline bool quick_knows(const void *caller)
{
    return *quick_caller(caller) == caller && context_memo.epoch == atomic_load(&context_epoch);
}

static inline bool quick_is_spared(const void *caller)
{
    return *quick_caller(caller) == caller && --context_memo.left != 0;
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

/* The number of another stream than the default one, if it is known and not a thread's own; else 0. The driver answers for a
 * stream only where a context is current, and its number says enough. */
static inline uint64_t quick_stream(CUstream stream)
{
    unsigned at = stream_memo_at(stream);
    unsigned long long id = 0;

    return context_memo.handle[at] == stream && REAL(cuStreamGetId)(stream, &id) == CUDA_SUCCESS
                    && context_memo.identity[at] == id + 1
            ? id + 1
            : 0;
}

/* ---- the short way, all of it: the address, 0 = go the long one ---- */

static inline devptr_t quick_alloc(uint64_t size, const void *caller)
{
    devptr_t ptr;

    if (!quick_is_open() || !quick_is_spared(caller) || !quick_is_here())
        return 0;
    guard_push();
    ptr = pool_alloc_quickly(quick_pool, context_memo.context.generation, size);
    guard_pop();
    return ptr;
}

static inline __attribute__((always_inline)) devptr_t quick_alloc_on(
        uint64_t size, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    uint64_t identity = 0;
    int device = 0;
    devptr_t ptr;

    if (!quick_is_open() || !quick_is_spared(caller) || context_memo.mempool != mempool)
        return 0;
    if (!quick_is_default(stream)) {
        if (context_memo.epoch == atomic_load(&context_epoch))
            identity = quick_stream(stream);
        device = context_memo.device_of[stream_memo_at(stream)];
    } else if (quick_is_here()) {
        identity = context_memo.legacy.identity;
        device = context_memo.legacy.device;
    }
    if (!identity || device != context_memo.device)
        return 0;
    guard_push();
    ptr = pool_alloc_on_quickly(quick_pool, context_memo.mempool_id, identity, size);
    guard_pop();
    return ptr;
}

static inline bool quick_free(devptr_t ptr)
{
    bool done;

    if (!quick_is_open() || !conduct_frees_without_wait())
        return false;
    guard_push();
    done = pool_free_quickly(quick_pool, ptr);
    guard_pop();
    return done;
}

static inline bool quick_free_on(devptr_t ptr, CUstream stream)
{
    uint64_t identity = 0;
    bool done;

    if (!quick_is_open())
        return false;
    if (!quick_is_default(stream))
        identity = quick_stream(stream);
    else if (quick_is_here() && !stream_meets(context_memo.legacy.device))
        identity = context_memo.legacy.identity;
    if (!identity)
        return false;
    guard_push();
    done = pool_free_on_quickly(quick_pool, ptr, identity);
    guard_pop();
    return done;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * quick.h - the shortest way through cuMemAlloc, cuMemFree and their stream-ordered forms.
 *
 * A request that finds a block in the pool costs some hundred instructions there. The script around it (conduct.c) asks for
 * anchors, hints, captures of streams, libraries that came, callers that are left alone, what the report is to be told: ten
 * times as many, as a rule to hear that nothing has changed. So a hook first tries this way, which takes the same decisions
 * from what the thread has learned on the long one:
 *
 *     hook ─► quick_is_open? ─► quick_alloc · quick_free ─┬─ served ─► where_am_i, capture_... if a capture is written
 *                                                         └─ 0, false: nothing has happened ─► life_enter ─► conduct_...
 *
 * It is open while kedge serves, no hint is there (quick_closed), no stream is being captured (guard_word), and the
 * thread is neither inside kedge nor in a host function; while something is recorded, as long as there is also nothing new to
 * be looked at or told about libraries and hooks (coverage.h). What it knows of its caller (behind a runtime: of whoever called the
 * runtime's door), its memory pool and its stream comes from the long way, which it goes at the first call, whenever libraries may have come, and once in QUICK_ROUNDS calls
 * in any case.
 *
 * What is recorded is the same on both ways. Here the pool comes first and the stack then: what finds no block has to be
 * counted once (nth), on the long way.
 *
 * Of the driver only two things are asked, cuCtxGetCurrent and, for a stream that is no default stream, cuStreamGetId: both
 * read a word of the thread's or the handle's, and both decide about safety (R69). Nothing is allocated, no system call made,
 * unless the capture grows.
 * Deferred cancellation cannot strike in here, so it is not switched off as life_enter does, but for the walk of a stack.
 * Threads: any. Rules: R7 R29 R43 R69 R75 R83.
 */
#ifndef KEDGE_PRELOAD_QUICK_H
#define KEDGE_PRELOAD_QUICK_H

#include "preload/conduct.h"
#include "preload/contexts.h"
#include "preload/coverage.h"
#include "preload/doors.h"
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
    QUICK_ASLEEP = 1,  /* not started, or not serving */
    QUICK_DECIDED = 2, /* hints were read, which have a say in each request */
    QUICK_ENDED = 4,   /* degraded, a forked child, a device that failed */
    QUICK_TOLD = 8,    /* a capture is written: only those forms are open that tell it */
};

extern atomic_uint quick_closed;

/* Of guard_word what concerns more than submissions. */
#define QUICK_GUARDS ((unsigned)(GUARD_UNBOUND | GUARD_ACTING | GUARD_CAPTURING))

/* `why` is no reason for who asks: QUICK_TOLD, or 0. */
static inline bool quick_is_open(unsigned why)
{
    return ((atomic_load_explicit(&quick_closed, memory_order_acquire) & ~why)
                   | (atomic_load_explicit(&guard_word, memory_order_relaxed) & QUICK_GUARDS)
                   | guard_thread.depth | guard_thread.callback)
            == 0;
}

/* kedge serves from here on; `decides`: there are hints; `records`: a capture is written. And: it serves no more. */
struct pool;
void quick_start(struct pool *pool, bool decides, bool records);
void quick_end(void);

/* After a request that was served on the long way and might have gone the short one. `mempool_id` 0: the sync entrance. */
void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id);

/* ---- inside ---- */

extern struct pool *quick_pool; /* fixed by quick_start */

/* Which of the two forms a hook may try. The other one is closed, whatever happens in between. */
static inline bool quick_tells(void)
{
    return atomic_load_explicit(&quick_closed, memory_order_relaxed) & QUICK_TOLD;
}

static inline struct caller_memo *quick_caller(const void *caller, const void *asker)
{
    return &context_memo.caller[((uintptr_t)caller + (uintptr_t)asker) / 4 % CALLER_MEMOS];
}

static inline bool quick_is_noted(const void *caller)
{
    const struct caller_memo *memo = quick_caller(caller, door_asker);

    return memo->caller == caller && memo->asker == door_asker;
}

/* Whether it is known of this caller that nothing it asks for is forwarded; the long way asks as well. */
static inline bool quick_knows(const void *caller)
{
    return quick_is_noted(caller) && context_memo.epoch == atomic_load(&context_epoch);
}

/* The last of QUICK_ROUNDS calls goes the long way, and so do those that follow until something was learned there. */
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

/* ---- the short way, all of it: no address, or false = go the long one ---- */

static inline __attribute__((always_inline)) struct pool_given quick_alloc(
        unsigned why, uint64_t size, const void *caller)
{
    struct pool_given given = {0, 0};

    if (!quick_is_open(why) || !quick_is_spared(caller) || !quick_is_here())
        return given;
    guard_push();
    given = pool_alloc_quickly(quick_pool, context_memo.context.generation, size);
    guard_pop();
    return given;
}

static inline __attribute__((always_inline)) struct pool_given quick_alloc_on(
        unsigned why, uint64_t size, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    struct pool_given given = {0, 0};
    uint64_t identity = 0;
    int device = 0;

    if (!quick_is_open(why) || !quick_is_spared(caller) || context_memo.mempool != mempool)
        return given;
    if (!quick_is_default(stream)) {
        if (context_memo.epoch == atomic_load(&context_epoch))
            identity = quick_stream(stream);
        device = context_memo.device_of[stream_memo_at(stream)];
    } else if (quick_is_here()) {
        identity = context_memo.legacy.identity;
        device = context_memo.legacy.device;
    }
    if (!identity || device != context_memo.device)
        return given;
    guard_push();
    given = pool_alloc_on_quickly(quick_pool, context_memo.mempool_id, identity, size);
    guard_pop();
    return given;
}

static inline bool quick_free(devptr_t ptr)
{
    bool done;

    if (!quick_is_open(0) || !conduct_frees_without_wait())
        return false;
    guard_push();
    done = pool_free_quickly(quick_pool, ptr);
    guard_pop();
    return done;
}

/* The stream of a free that records no event; 0 = not known, or it does. */
static inline uint64_t quick_stream_of_free(CUstream stream)
{
    if (!quick_is_default(stream))
        return quick_stream(stream);
    return quick_is_here() && !stream_meets(context_memo.legacy.device)
            ? context_memo.legacy.identity
            : 0;
}

static inline bool quick_free_on(devptr_t ptr, CUstream stream)
{
    uint64_t identity = quick_is_open(0) ? quick_stream_of_free(stream) : 0;
    bool done;

    if (!identity)
        return false;
    guard_push();
    done = pool_free_on_quickly(quick_pool, ptr, identity);
    guard_pop();
    return done;
}

/* ---- the same while requests are recorded (quick_tells) ---- */

/* A hook's call, for the record. */
struct quick_call {
    CUstream stream; /* of the stream entrance, as the program named it */
    enum entrance entrance;
    enum resolve_slot slot; /* of the hook */
};

/* Writes down what quick_alloc gave. Always CUDA_SUCCESS: who ends with this call has a frame less in the walk. */
CUresult quick_tell_alloc(
        struct pool_given given, uint64_t size, struct quick_call call, const void *caller);

void quick_tell_free(devptr_t ptr, const struct pool_taken *taken, struct quick_call call);

/* quick_free and quick_free_on, written down. */
static inline bool quick_free_told(devptr_t ptr, enum resolve_slot slot)
{
    struct pool_taken taken;
    bool done;

    if (!quick_is_open(QUICK_TOLD) || !conduct_frees_without_wait())
        return false;
    guard_push();
    done = pool_free_told(quick_pool, ptr, &taken);
    if (done)
        quick_tell_free(ptr, &taken, (struct quick_call){NULL, ENTRANCE_SYNC, slot});
    guard_pop();
    return done;
}

static inline bool quick_free_on_told(devptr_t ptr, CUstream stream, enum resolve_slot slot)
{
    uint64_t identity = quick_is_open(QUICK_TOLD) ? quick_stream_of_free(stream) : 0;
    struct pool_taken taken;
    bool done;

    if (!identity)
        return false;
    guard_push();
    done = pool_free_on_told(quick_pool, ptr, identity, &taken);
    if (done)
        quick_tell_free(ptr, &taken, (struct quick_call){stream, ENTRANCE_STREAM, slot});
    guard_pop();
    return done;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "preload/request/quick.h"

#include "preload/caller/bypass.h"
#include "preload/driver/mempools.h"
#include "preload/driver/session.h"
#include "preload/hints/pynamed.h"
#include "tracker/capture/capture.h"
#include "tracker/where/where.h"

#include <pthread.h>

void quick_start(bool decides, bool records)
{
    atomic_fetch_or(
            &session_closed, (decides ? SESSION_DECIDED : 0u) | (records ? SESSION_RECORDED : 0u));
    atomic_fetch_and(&session_closed, ~(unsigned)SESSION_ASLEEP);
}

/* ---- what the long way learns --------------------------------------------------------------- */

void quick_learn(const void *caller, CUmemoryPool mempool, int device, uint64_t mempool_id)
{
    struct context_memo *memo = &context_memo;
    const void *asker = bypass_asker;

    if (memo->epoch != atomic_load(&context_epoch))
        return;
    memo->left = QUICK_ROUNDS;
    if (!quick_is_noted(caller))
        *quick_caller(caller, asker) = bypass_spares(caller, asker)
                ? (struct caller_memo){caller, asker}
                : (struct caller_memo){NULL, NULL};
    if (!mempool_id
            || (atomic_load_explicit(&session_closed, memory_order_relaxed)
                       & ~(unsigned)(SESSION_RECORDED | SESSION_DECIDED))
                    != 0)
        return;
    memo->mempool = mempool;
    memo->device = device;
    /* Checked after the epoch: a change since the look-up is seen here or by the epoch. */
    memo->mempool_id = mempool_is_still(mempool, device, mempool_id) ? mempool_id : 0;
}

/* ---- what is recorded ----------------------------------------------------------------------- */

/*
 * Records are written inside the guard: output of a signal handler meanwhile makes no event in the
 * middle of another.
 */

/*
 * As stream_told returns it; the memo's entry of the stream was checked when the call was served.
 */
static uint64_t quick_told(struct quick_call call)
{
    if (call.api == API_SYNC)
        return 0;
    return quick_is_default(call.stream)
            ? format_stream((uintptr_t)CU_STREAM_LEGACY, 1)
            : format_stream(
                    (uintptr_t)call.stream, context_memo.number_of[stream_memo_at(call.stream)]);
}

/* Prints the capture's own error (r < 0), or the Python found: a cancellation point. */
static __attribute__((noinline)) void quick_tell_news(int r)
{
    int cancel, unused;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (r < 0)
        session_report(r);
    else
        session_tell_python();
    (void)pthread_setcancelstate(cancel, &unused);
}

void quick_know(
        const struct where_walk *walk, struct quick_call call, uint64_t size, struct tag *ret_tag)
{
    int device = call.api == API_SYNC ? context_memo.context.device : context_memo.device;
    int r = where_end(walk, size, device, ret_tag);

    if (r > 0)
        quick_tell_news(r);
    ret_tag->stream = format_stream_number(quick_told(call));
}

void quick_record_alloc(struct pool_given given, struct quick_call call, const struct tag *tag)
{
    struct capture_alloc_info info = {
            .tag = tag,
            .ptr = given.ptr,
            .seq = given.seq,
            .stream = quick_told(call),
            .api = call.api,
            .rule = -1,
            .context = call.api == API_SYNC ? context_memo.context.memory
                                            : context_pools_of(context_memo.device),
    };
    int r;

    resolve_note(call.slot, ROUTE_CALLED);
    r = capture_alloc(&info);
    if (r < 0)
        quick_tell_news(r);
}

void quick_record_free(devptr_t ptr, const struct pool_taken *taken, struct quick_call call)
{
    struct capture_free_info info = {
            .ptr = ptr,
            .seq = taken->seq,
            .size = taken->size,
            .stream = quick_told(call),
            .device = taken->device,
            .api = call.api,
    };
    int r;

    guard_push();
    resolve_note(call.slot, ROUTE_CALLED);
    r = capture_free(&info);
    if (r < 0)
        quick_tell_news(r);
    guard_pop();
}

/* ---- hints ---------------------------------------------------------------------------------- */

bool quick_is_open_beside_hints(uint64_t size)
{
    return quick_closed() == SESSION_DECIDED && quick_is_open(0)
            && !hint_has_size(hints_run.hints, size) && quick_is_settled(SESSION_DECIDED);
}

/* Does a hint match? The long way makes the plan (dispatch.c). */
bool quick_is_wanted(struct tag *io_tag)
{
    struct plan plan;

    io_tag->pysites = pynamed_of(io_tag->pystack);
    hint_plan(hints_run.hints, io_tag, &plan);
    return plan.rule >= 0;
}

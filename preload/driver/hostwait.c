/* SPDX-License-Identifier: MIT */
#include "preload/driver/hostwait.h"

#include "preload/base/guard.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/reach.h"
#include "preload/driver/session.h"

#include "alloc/pool.h"

atomic_bool hostwait_is_on;
static atomic_bool graphs_wait;
/* devices whose streams were given such calls, as bits (reach.h) */
static _Atomic(uint64_t) devices;
static __thread unsigned beginning __attribute__((
        tls_model("initial-exec"))); /* such calls that this thread is about to make */

static void set(atomic_bool *flag)
{
    if (!atomic_load_explicit(flag, memory_order_relaxed))
        atomic_store(flag, true);
}

void hostwait_in_graph(void)
{
    set(&graphs_wait);
    set(&hostwait_is_on);
}

/* The pool, if this is a call of the program in a process where kedge serves memory. */
static struct pool *pool_of_call(void)
{
    return guard_depth() == 0 && !guard_in_callback() && !life_is_passive() ? session_pool : NULL;
}

/* The stream is about to wait for a stream that may itself be waiting. */
static void hostwait_settle_stream(struct pool *pool, CUstream stream, bool per_thread)
{
    struct stream here;

    guard_push();
    if (stream_here(stream, per_thread, &here) == 0 && !stream_is_captured(here.handle))
        pool_settle_stream(pool, here.identity);
    guard_pop();
}

/*
 * Asks the driver whether the stream is being captured, since kedge does not see every begin of a
 * capture.
 */
static struct hostwait stall(struct pool *pool, CUstream stream, bool per_thread)
{
    struct hostwait call = {.stream = 0};
    struct stream here;
    bool is_known;

    guard_push();
    is_known = stream_here(stream, per_thread, &here) == 0;
    if (is_known && stream_is_captured(here.handle)) {
        hostwait_in_graph();
    } else if (is_known) {
        atomic_fetch_or(&devices, reach_bit(here.device));
        beginning++;
        pool_stall_begin(pool, here.identity, session_may_fence());
        beginning--;
        call = (struct hostwait){here.identity, here.per_thread || here.handle == CU_STREAM_LEGACY};
    }
    guard_pop();
    return call;
}

void hostwait_follow(CUstream stream, bool per_thread)
{
    struct pool *pool = pool_of_call();

    if (pool && pool_has_stalls(pool))
        hostwait_settle_stream(pool, stream, per_thread);
}

struct hostwait hostwait_begin_slowly(enum hostwait_kind kind, CUstream stream, bool per_thread)
{
    struct pool *pool = pool_of_call();

    set(&hostwait_is_on);
    if (!pool)
        return (struct hostwait){.stream = 0};
    if (kind == HOSTWAIT_OUTSIDE || atomic_load(&graphs_wait))
        return stall(pool, stream, per_thread);
    hostwait_follow(stream, per_thread);
    return (struct hostwait){.stream = 0};
}

bool hostwait_goes_on(int device)
{
    struct pool *pool = session_pool;

    return pool && (atomic_load_explicit(&devices, memory_order_relaxed) & reach_bit(device)) != 0
            && pool_stall_goes_on(pool, beginning);
}

void hostwait_end_slowly(uint64_t stream, bool at_once)
{
    guard_push();
    pool_stall_end(session_pool, stream, at_once);
    guard_pop();
}

void hostwait_streams_meet(void)
{
    struct pool *pool = session_pool;

    if (!pool || guard_in_callback() || life_is_passive())
        return;
    guard_push();
    pool_settle_streams(pool);
    guard_pop();
}

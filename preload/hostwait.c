/* SPDX-License-Identifier: MIT */
#include "preload/hostwait.h"

#include "preload/contexts.h"
#include "preload/dispatch.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/life.h"

/* A call of the program's, in a process where memory is served. */
static struct pool *pool_of_call(void)
{
    return guard_depth() == 0 && !guard_in_callback() && !life_is_passive() ? dispatch_pool()
                                                                            : NULL;
}

struct hostwait hostwait_begin_slowly(enum hostwait_kind kind, CUstream stream, bool per_thread)
{
    struct pool *pool = pool_of_call();
    struct hostwait call = {.stream = 0};
    struct stream here;

    if (!pool || (kind == HOSTWAIT_EVENT && !pool_has_stalls(pool)))
        return call;
    guard_push();
    if (stream_here(stream, per_thread, &here) == 0
            && !(gate_may_capture() && stream_is_captured(here.handle))) {
        if (kind == HOSTWAIT_EVENT) {
            pool_settle_stream(pool, here.identity);
        } else {
            call = (struct hostwait){here.identity, here.per_thread};
            pool_stall_begin(pool, here.identity, dispatch_may_fence());
        }
    }
    guard_pop();
    return call;
}

void hostwait_end_slowly(const struct hostwait *call)
{
    guard_push();
    pool_stall_end(dispatch_pool(), call->stream, call->own);
    guard_pop();
}

void hostwait_streams_meet(void)
{
    struct pool *pool = dispatch_pool();

    if (!pool || guard_in_callback() || life_is_passive())
        return;
    guard_push();
    pool_settle_streams(pool);
    guard_pop();
}

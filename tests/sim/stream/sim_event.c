/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_event.h"

#include "tests/sim/base/sim_time.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/memory/sim_ipc.h"
#include "tests/sim/memory/sim_pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void forget_record(struct CUevent_st *event)
{
    sim_clock_clear(&event->points);
    sim_clock_clear(&event->known);
    free(event->frontier);
    free(event->frontier_edges);
    event->frontier = NULL;
    event->frontier_edges = NULL;
    event->frontier_count = 0;
    event->capture = 0;
    event->time_ns = 0;
    event->record++;
}

static void close_event(struct CUevent_st *event)
{
    struct CUevent_st **link = &event->ctx->events;

    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    forget_record(event);
    if (event->shared)
        close(event->shared_fd);
    sim_handle_remove(event);
    free(event);
}

void sim_event_end_context(struct CUctx_st *ctx)
{
    while (ctx->events)
        close_event(ctx->events);
}

struct CUevent_st *sim_event_open(struct CUctx_st *ctx, unsigned flags)
{
    struct CUevent_st *event = sim_new(sizeof(*event));

    event->ctx = ctx;
    event->flags = flags;
    event->next = ctx->events;
    ctx->events = event;
    sim_handle_add(event, SIM_KIND_EVENT);
    return event;
}

static int create(struct CUctx_st *ctx, CUevent *ret_event, unsigned flags)
{
    if (!ret_event || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_event = sim_event_open(ctx, flags);
    return 0;
}

CUresult cuEventCreate(CUevent *ret_event, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = create(call.ctx, ret_event, flags);
    return sim_leave(&call, r);
}

static int destroy(CUevent event)
{
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    close_event(event);
    return 0;
}

CUresult cuEventDestroy(CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(event);
    return sim_leave(&call, r);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(event);
    return sim_leave(&call, r);
}

/* ---- recording ---- */

struct stamp {
    struct CUevent_st *event; /* may be gone when this runs */
    uint64_t record;
    struct sim_ipc_event *shared;
    uint64_t shared_number;
};

/* Records of several processes: the latest that is done counts. */
static void shared_done(struct sim_ipc_event *shared, uint64_t number)
{
    uint64_t was = atomic_load(&shared->done);

    while (was < number && !atomic_compare_exchange_weak(&shared->done, &was, number))
        ;
}

static bool shared_is_done(const struct CUevent_st *event)
{
    return !event->shared
            || atomic_load(&event->shared->done) >= atomic_load(&event->shared->recorded);
}

static CUresult run_stamp(struct sim_op *op)
{
    const struct stamp *stamp = (const struct stamp *)op->payload;

    if (sim_handle_is(stamp->event, SIM_KIND_EVENT) && stamp->event->record == stamp->record)
        stamp->event->time_ns = sim_time_is_virtual() ? op->end_ns : sim_time_now();
    if (stamp->shared)
        shared_done(stamp->shared, stamp->shared_number);
    return CUDA_SUCCESS;
}

struct sim_op *sim_event_make_record(struct CUevent_st *event)
{
    struct stamp stamp = {.event = event, .record = event->record + 1, .shared = event->shared};
    struct sim_op *op = sim_op_new("cuEventRecord", sizeof(stamp));

    if (event->shared)
        stamp.shared_number = atomic_fetch_add(&event->shared->recorded, 1) + 1;
    memcpy(op->payload, &stamp, sizeof(stamp));
    op->run = run_stamp;
    return op;
}

void sim_event_recorded(struct CUevent_st *event, const struct sim_queue *queue)
{
    forget_record(event);
    sim_stats.event_records++;
    event->recorded = true;
    sim_clock_set(&event->points, queue, queue->submitted);
    sim_clock_merge(&event->known, &queue->clock);
}

int sim_event_record(struct CUstream_st *stream, CUevent event, unsigned flags)
{
    int r;

    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->ctx != stream->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return stream->capture
                ? sim_capture_add_event(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event)
                : CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) {
        forget_record(event);
        return sim_capture_record_event(stream, event);
    }
    r = sim_stream_submit(stream, sim_event_make_record(event));
    if (r == 0)
        sim_event_recorded(event, stream->queue);
    if (r == 0 && event->shared)
        sim_queue_demand_clock(&event->points);
    return r;
}

#define RECORD_CALL(name, per_thread, params, flags)                                           \
    CUresult name params                                                                       \
    {                                                                                          \
        struct sim_call call;                                                                  \
        struct CUstream_st *stream;                                                            \
        int r = sim_stream_enter(&call, #name, SIM_NEED_CONTEXT, handle, per_thread, &stream); \
        if (r == 0)                                                                            \
            r = sim_event_record(stream, event, flags);                                        \
        return sim_leave(&call, r);                                                            \
    }
RECORD_CALL(cuEventRecord, false, (CUevent event, CUstream handle), 0)
RECORD_CALL(cuEventRecord_ptsz, true, (CUevent event, CUstream handle), 0)
RECORD_CALL(
        cuEventRecordWithFlags, false, (CUevent event, CUstream handle, unsigned int flags), flags)
RECORD_CALL(cuEventRecordWithFlags_ptsz, true, (CUevent event, CUstream handle, unsigned int flags),
        flags)

static int record_context(CUcontext handle, CUevent event)
{
    struct CUctx_st *ctx;
    int r = sim_context_get(handle, &ctx);

    if (r)
        return r;
    if (ctx->sticky)
        return (int)ctx->sticky;
    if (!sim_handle_is(event, SIM_KIND_EVENT) || event->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->shared)
        return CUDA_ERROR_NOT_SUPPORTED; /* an operation would have to stand for it */
    r = sim_capture_conflicts_with_context(ctx);
    if (r)
        return r;
    forget_record(event);
    sim_stats.context_records++;
    event->recorded = true;
    sim_queue_context_points(ctx, &event->points, &event->known);
    event->time_ns = sim_time_now();
    return 0;
}

CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = record_context(ctx, event);
    return sim_leave(&call, r);
}

/* An operation that waits for the latest record in whatever process it was made. */
static bool shared_record_is_done(struct sim_op *op)
{
    const struct stamp *stamp = (const struct stamp *)op->payload;

    return atomic_load(&stamp->shared->done) >= stamp->shared_number;
}

static CUresult run_shared_wait(struct sim_op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

struct sim_op *sim_event_make_shared_wait(const struct CUevent_st *event)
{
    struct stamp stamp = {.shared = event->shared};
    struct sim_op *op = sim_op_new("cuStreamWaitEvent", sizeof(stamp));

    stamp.shared_number = atomic_load(&event->shared->recorded);
    memcpy(op->payload, &stamp, sizeof(stamp));
    op->run = run_shared_wait;
    op->is_ready = shared_record_is_done;
    return op;
}

static int wait_context(CUcontext handle, CUevent event)
{
    struct CUctx_st *ctx;
    int r = sim_context_get(handle, &ctx);

    if (r)
        return r;
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return sim_capture_refuse_event(event, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    r = sim_capture_conflicts_with_context(ctx);
    if (r)
        return r;
    sim_stats.stream_waits++;
    sim_clock_merge(&ctx->waits, &event->points);
    return 0;
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = wait_context(ctx, event);
    return sim_leave(&call, r);
}

/* ---- asking ---- */

static int usable(CUevent event)
{
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return sim_capture_refuse_event(event, CUDA_ERROR_CAPTURED_EVENT);
    return (int)event->ctx->sticky;
}

CUresult cuEventQuery(CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE | SIM_IS_QUERY);

    if (r == 0)
        r = usable(event);
    if (r == 0 && !sim_clock_is_done(&event->points)
            && !sim_queue_not_ready(&event->points, &event->asked))
        r = CUDA_ERROR_NOT_READY;
    if (r == 0 && sim_handle_is(event, SIM_KIND_EVENT) && !shared_is_done(event))
        r = CUDA_ERROR_NOT_READY;
    return sim_leave(&call, r);
}

CUresult cuEventSynchronize(CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0)
        r = usable(event);
    if (r == 0) {
        struct CUctx_st *ctx = event->ctx;
        sim_stats.synchronizes++;
        sim_queue_demand_clock(&event->points);
        while (sim_handle_is(event, SIM_KIND_EVENT) && !shared_is_done(event))
            sim_sleep(2); /* the other process is at it */
        sim_pool_synchronized();
        r = (int)ctx->sticky;
    }
    return sim_leave(&call, r);
}

static int elapsed(float *ret_ms, CUevent start, CUevent end)
{
    int r = usable(start);

    if (r == 0)
        r = usable(end);
    if (r)
        return r;
    if (!ret_ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_clock_is_done(&start->points) || !sim_clock_is_done(&end->points))
        return CUDA_ERROR_NOT_READY;
    *ret_ms = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
    return 0;
}

CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = elapsed(ret_ms, start, end);
    return sim_leave(&call, r);
}

CUresult cuEventElapsedTime_v2(float *ret_ms, CUevent start, CUevent end)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = elapsed(ret_ms, start, end);
    return sim_leave(&call, r);
}

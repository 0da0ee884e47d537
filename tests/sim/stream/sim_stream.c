/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_stream.h"

#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_device.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/stream/sim_event.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_MOST               6 /* operations of one node */
#define STREAM_HANDLE_LEGACY     ((uintptr_t)1)
#define STREAM_HANDLE_PER_THREAD ((uintptr_t)2)

/* Numbers that a context gives to its default streams, where each context counts its own. */
#define OWN_IDS 4096

static uint64_t next_id = OWN_IDS;

/* Of a default stream: 1 is the legacy one's, in each context. */
static uint64_t default_id(struct CUctx_st *ctx)
{
    return sim_config.own_ids ? ++ctx->own_ids : next_id++;
}

/* Streams that are gone: a driver gives their handles again, the last one first. */
static struct CUstream_st *gone;

static struct CUstream_st *stream_new(void)
{
    struct CUstream_st *stream = gone;

    if (!stream)
        return sim_new(sizeof(*stream));
    gone = stream->next;
    *stream = (struct CUstream_st){.next = NULL};
    return stream;
}

static void stream_free(struct CUstream_st *stream)
{
    if (!sim_config.handles_again) {
        free(stream);
        return;
    }
    stream->next = gone;
    gone = stream;
}

static struct CUstream_st *open_stream(
        struct CUctx_st *ctx, unsigned flags, int priority, bool legacy, uint64_t thread)
{
    struct CUstream_st *stream = stream_new();

    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = legacy || thread ? default_id(ctx) : next_id++;
    stream->thread = thread;
    stream->queue = sim_queue_open(ctx, legacy, !legacy && !(flags & CU_STREAM_NON_BLOCKING));
    stream->next = ctx->streams;
    ctx->streams = stream;
    return stream;
}

struct CUstream_st *sim_stream_open_legacy(struct CUctx_st *ctx)
{
    return open_stream(ctx, 0, 0, true, 0);
}

static void close_stream(struct CUstream_st *stream)
{
    struct CUstream_st **link = &stream->ctx->streams;

    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    sim_queue_close(stream->queue);
    sim_handle_remove(stream);
    free(stream->frontier);
    free(stream->frontier_edges);
    stream_free(stream);
}

void sim_stream_end_context(struct CUctx_st *ctx)
{
    sim_event_end_context(ctx);
    while (ctx->streams)
        close_stream(ctx->streams);
    ctx->legacy = NULL;
    ctx->own_ids = 0;
}

bool sim_stream_is_legacy(const struct CUstream_st *stream)
{
    return stream->queue->legacy;
}

static struct CUstream_st *per_thread_stream(struct CUctx_st *ctx)
{
    uint64_t me = sim_self()->number;

    for (struct CUstream_st *stream = ctx->streams; stream; stream = stream->next)
        if (stream->thread == me)
            return stream;
    return open_stream(ctx, 0, 0, false, me);
}

int sim_stream_get(
        struct CUctx_st *ctx, CUstream handle, bool per_thread, struct CUstream_st **ret_stream)
{
    uintptr_t number = (uintptr_t)handle;

    if (number == STREAM_HANDLE_PER_THREAD || (number == 0 && per_thread))
        *ret_stream = per_thread_stream(ctx);
    else if (number == STREAM_HANDLE_LEGACY || number == 0)
        *ret_stream = ctx->legacy;
    else if (sim_handle_is(handle, SIM_KIND_STREAM))
        *ret_stream = handle;
    else
        return CUDA_ERROR_INVALID_HANDLE;
    return (int)(*ret_stream)->ctx->sticky;
}

int sim_stream_enter(struct sim_call *call, const char *name, unsigned needs, CUstream handle,
        bool per_thread, struct CUstream_st **ret_stream)
{
    int r = sim_enter(call, name, needs);

    if (r == 0)
        r = sim_stream_get(call->ctx, handle, per_thread, ret_stream);
    if (r == 0) {
        sim_queue_make_room((*ret_stream)->queue);
        r = sim_stream_get(call->ctx, handle, per_thread, ret_stream);
    }
    return r;
}

static void count(const struct CUstream_st *stream)
{
    if (sim_stream_is_legacy(stream))
        sim_stats.on_legacy++;
    else if (stream->thread)
        sim_stats.on_per_thread++;
    else if (stream->flags & CU_STREAM_NON_BLOCKING)
        sim_stats.on_non_blocking++;
    else
        sim_stats.on_blocking++;
}

int sim_stream_submit_after(struct CUstream_st *stream, struct sim_op *op,
        const struct sim_clock *after, const struct sim_clock *known)
{
    op->ctx = stream->ctx;
    if (stream->capture)
        return sim_capture_add(stream, op);
    if (sim_stream_is_legacy(stream)) {
        int r = sim_capture_implicit(stream->ctx);
        if (r) {
            sim_op_free(op);
            return r;
        }
    }
    sim_queue_submit(stream->queue, op, after, known);
    count(stream);
    return 0;
}

int sim_stream_submit(struct CUstream_st *stream, struct sim_op *op)
{
    return sim_stream_submit_after(stream, op, NULL, NULL);
}

int sim_stream_wait(struct CUstream_st *stream)
{
    struct CUctx_st *ctx = stream->ctx;
    struct sim_clock points = {0};

    sim_stats.synchronizes++;
    /* Waiting for the default stream is waiting for what it would wait for. */
    sim_queue_stream_points(stream->queue, &points);
    sim_queue_demand_clock(&points);
    sim_clock_clear(&points);
    sim_pool_synchronized();
    return ctx->alive ? (int)ctx->sticky : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* ---- creating and destroying ---- */

int sim_stream_create(struct CUctx_st *ctx, CUstream *ret_stream, unsigned flags, int priority)
{
    if (!ret_stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > SIM_PRIORITY_LEAST)
        priority = SIM_PRIORITY_LEAST;
    if (priority < SIM_PRIORITY_GREATEST)
        priority = SIM_PRIORITY_GREATEST;
    *ret_stream = open_stream(ctx, flags, priority, false, 0);
    sim_handle_add(*ret_stream, SIM_KIND_STREAM);
    return 0;
}

CUresult cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = sim_stream_create(call.ctx, ret_stream, flags, 0);
    return sim_leave(&call, r);
}

CUresult cuStreamCreateWithPriority(CUstream *ret_stream, unsigned int flags, int priority)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = sim_stream_create(call.ctx, ret_stream, flags, priority);
    return sim_leave(&call, r);
}

/* The handle is gone at once; what is on the stream still runs. */
static int destroy(CUstream handle)
{
    if (!sim_handle_is(handle, SIM_KIND_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_capture_forget_stream(handle);
    close_stream(handle);
    return 0;
}

CUresult cuStreamDestroy(CUstream handle)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(handle);
    return sim_leave(&call, r);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = destroy(handle);
    return sim_leave(&call, r);
}

/* ---- questions ---- */

static int answer(bool wanted)
{
    return wanted ? 0 : CUDA_ERROR_INVALID_VALUE;
}

SIM_STREAM_CALL(cuStreamGetPriority, SIM_NEED_CONTEXT, (CUstream handle, int *ret_priority),
        answer(ret_priority && (*ret_priority = stream->priority, true)))
SIM_STREAM_CALL(cuStreamGetFlags, SIM_NEED_CONTEXT, (CUstream handle, unsigned int *ret_flags),
        answer(ret_flags && (*ret_flags = stream->flags, true)))
SIM_STREAM_CALL(cuStreamGetId, SIM_NEED_CONTEXT, (CUstream handle, unsigned long long *ret_id),
        answer(ret_id && (*ret_id = stream->id, true)))
SIM_STREAM_CALL(cuStreamGetDevice, SIM_NEED_CONTEXT, (CUstream handle, CUdevice *ret_device),
        answer(ret_device && (*ret_device = stream->ctx->device, true)))
SIM_STREAM_CALL(cuStreamGetCtx, SIM_NEED_CONTEXT, (CUstream handle, CUcontext *ret_ctx),
        answer(ret_ctx && (*ret_ctx = stream->ctx, true)))
SIM_STREAM_CALL(cuStreamGetCtx_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUcontext *ret_ctx, CUgreenCtx *ret_green),
        answer(ret_ctx
                && (*ret_ctx = stream->ctx,
                        !ret_green || (*ret_green = sim_context_green(stream->ctx), true))))

/* Attributes are kept and asked for; only the priority means something, and only to who asks. */
static bool has_attribute(CUstreamAttrID which)
{
    return which == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            || which == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            || which == CU_LAUNCH_ATTRIBUTE_PRIORITY
            || which == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            || which == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

static int get_attribute(
        const struct CUstream_st *stream, CUstreamAttrID which, CUstreamAttrValue *ret_value)
{
    if (!ret_value || !has_attribute(which))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_value = stream->attributes[which];
    if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        memcpy(ret_value, &stream->priority, sizeof(stream->priority));
    return 0;
}

static int set_attribute(
        struct CUstream_st *stream, CUstreamAttrID which, const CUstreamAttrValue *value)
{
    if (!value || !has_attribute(which))
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes[which] = *value;
    if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        memcpy(&stream->priority, value, sizeof(stream->priority));
    return 0;
}

static int copy_attributes(struct CUctx_st *ctx, struct CUstream_st *to, CUstream handle)
{
    struct CUstream_st *from;
    int r = sim_stream_get(ctx, handle, false, &from);

    if (r == 0)
        memcpy(to->attributes, from->attributes, sizeof(to->attributes));
    return r;
}

SIM_STREAM_CALL(cuStreamGetAttribute, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamAttrID which, CUstreamAttrValue *ret_value),
        get_attribute(stream, which, ret_value))
SIM_STREAM_CALL(cuStreamSetAttribute, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamAttrID which, const CUstreamAttrValue *value),
        set_attribute(stream, which, value))
SIM_STREAM_CALL(cuStreamCopyAttributes, SIM_NEED_CONTEXT, (CUstream handle, CUstream from),
        copy_attributes(call.ctx, stream, from))

/* ---- waiting ---- */

static int query(struct CUstream_st *stream)
{
    struct sim_clock points = {0};
    int r = sim_capture_synchronize_stream(stream);

    if (r)
        return r;
    sim_queue_stream_points(stream->queue, &points);
    if (!sim_clock_is_done(&points) && !sim_queue_not_ready(&points, &stream->asked))
        r = CUDA_ERROR_NOT_READY;
    sim_clock_clear(&points);
    return r;
}

static int synchronize(struct CUstream_st *stream)
{
    int r = sim_capture_synchronize_stream(stream);

    return r ? r : sim_stream_wait(stream);
}

SIM_STREAM_CALL(cuStreamQuery, SIM_NEED_CONTEXT | SIM_NEED_SAFE | SIM_IS_QUERY, (CUstream handle),
        query(stream))
SIM_STREAM_CALL(cuStreamSynchronize, SIM_NEED_CONTEXT | SIM_NEED_SAFE, (CUstream handle),
        synchronize(stream))

static CUresult run_nothing(struct sim_op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

struct sim_op *sim_stream_make_nothing(const char *name)
{
    struct sim_op *op = sim_op_new(name, 0);

    op->run = run_nothing;
    return op;
}

static int wait_event(struct CUstream_st *stream, CUevent event, unsigned flags)
{
    struct sim_op *op;

    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_WAIT_EXTERNAL)
        return stream->capture ? sim_capture_add_event(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event)
                               : CUDA_ERROR_INVALID_VALUE;
    if (stream->capture || event->capture)
        return sim_capture_wait_event(stream, event);
    sim_stats.stream_waits++;
    if (event->shared)
        return sim_stream_submit_after(
                stream, sim_event_make_shared_wait(event), &event->points, &event->known);
    if (!event->recorded)
        return 0; /* an event that was never recorded counts as done */
    op = sim_stream_make_nothing("cuStreamWaitEvent");
    return sim_stream_submit_after(stream, op, &event->points, &event->known);
}

SIM_STREAM_CALL(cuStreamWaitEvent, SIM_NEED_CONTEXT,
        (CUstream handle, CUevent event, unsigned int flags), wait_event(stream, event, flags))

/* ---- host functions ---- */

struct host_call {
    CUhostFn fn;
    CUstreamCallback callback;
    void *data;
    CUstream handle; /* as the program named it */
    struct CUctx_st *ctx;
};

static void host_run(struct sim_op *op)
{
    const struct host_call *host = (const struct host_call *)op->payload;

    if (host->fn)
        host->fn(host->data);
    else
        host->callback(host->handle, host->ctx->sticky, host->data);
}

struct sim_op *sim_stream_make_host(const char *name, CUhostFn fn, void *data)
{
    struct host_call host = {.fn = fn, .data = data};
    struct sim_op *op = sim_op_new(name, sizeof(host));

    op->host = host_run;
    memcpy(op->payload, &host, sizeof(host));
    return op;
}

void sim_stream_host_params(const struct sim_op *op, CUDA_HOST_NODE_PARAMS *ret_params)
{
    const struct host_call *host = (const struct host_call *)op->payload;

    *ret_params = (CUDA_HOST_NODE_PARAMS){.fn = host->fn, .userData = host->data};
}

static int launch_host(const char *name, struct CUstream_st *stream, struct host_call host)
{
    struct sim_op *op;

    if (!host.fn && !host.callback)
        return CUDA_ERROR_INVALID_VALUE;
    if (host.callback && stream->capture)
        return sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    op = sim_op_new(name, sizeof(host));
    op->host = host_run;
    op->runs_when_broken = host.callback != NULL;
    host.ctx = stream->ctx;
    memcpy(op->payload, &host, sizeof(host));
    return sim_stream_submit(stream, op);
}

/* Managed memory is the host's here: nothing to move, only something to check. */
static int attach(CUdeviceptr ptr, size_t size, unsigned flags)
{
    const struct sim_block *block = sim_ledger_live(ptr);

    if (!block || block->kind != SIM_BLOCK_MANAGED || flags == 0 || flags > 4
            || (size && size > block->size))
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

SIM_STREAM_CALL(cuLaunchHostFunc, SIM_NEED_CONTEXT, (CUstream handle, CUhostFn fn, void *data),
        launch_host("cuLaunchHostFunc", stream, (struct host_call){.fn = fn, .data = data}))
SIM_STREAM_CALL(cuLaunchHostFunc_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUhostFn fn, void *data, unsigned int sync_mode),
        sync_mode > 1 ? CUDA_ERROR_INVALID_VALUE
                      : launch_host("cuLaunchHostFunc", stream,
                              (struct host_call){.fn = fn, .data = data}))
SIM_STREAM_CALL(cuStreamAddCallback, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCallback callback, void *data, unsigned int flags),
        flags ? CUDA_ERROR_INVALID_VALUE
              : launch_host("cuStreamAddCallback", stream,
                      (struct host_call){.callback = callback, .data = data, .handle = handle}))
SIM_STREAM_CALL(cuStreamAttachMemAsync, SIM_NEED_CONTEXT,
        (CUstream handle, CUdeviceptr ptr, size_t size, unsigned int flags),
        attach(ptr, size, flags))

/* ---- values in memory ---- */

struct value {
    uint64_t addr, value;
    unsigned flags;
    unsigned size;
};

static uint64_t value_at(const struct value *value)
{
    uint64_t at = 0;

    memcpy(&at, (const void *)(uintptr_t)value->addr, value->size);
    return at;
}

static bool is_there(const struct value *wait, int device)
{
    uint64_t bad;

    if (!sim_ledger_may(device, SIM_SIDE_COPY, wait->addr, wait->size, false, &bad))
        return true; /* runs, and is found out */
    uint64_t at = value_at(wait);
    switch (wait->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wait->size == 4 ? (int32_t)((uint32_t)at - (uint32_t)wait->value) >= 0
                               : (int64_t)(at - wait->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return at == wait->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (at & wait->value) != 0;
    default:
        return (at | wait->value) != (wait->size == 4 ? UINT32_MAX : UINT64_MAX);
    }
}

static bool value_is_there(struct sim_op *op)
{
    return is_there((const struct value *)op->payload, op->ctx->device);
}

static void put(const struct value *write)
{
    memcpy((void *)(uintptr_t)write->addr, &write->value, write->size);
}

static CUresult value_write(struct sim_op *op)
{
    put((const struct value *)op->payload);
    return CUDA_SUCCESS;
}

static int submit_value(
        const char *name, struct CUstream_st *stream, bool write, struct value value)
{
    struct sim_op *op;

    if (value.addr % value.size)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    op = sim_op_new(name, sizeof(value));
    memcpy(op->payload, &value, sizeof(value));
    sim_op_range(op, stream->ctx->device, SIM_SIDE_COPY, value.addr, value.size, write);
    op->run = write ? value_write : run_nothing;
    op->is_ready = write ? NULL : value_is_there;
    return sim_stream_submit(stream, op);
}

SIM_STREAM_CALL(cuStreamWaitValue32_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
        submit_value("cuStreamWaitValue32", stream, false, (struct value){addr, value, flags, 4}))
SIM_STREAM_CALL(cuStreamWaitValue64_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
        submit_value("cuStreamWaitValue64", stream, false, (struct value){addr, value, flags, 8}))
SIM_STREAM_CALL(cuStreamWriteValue32_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
        submit_value("cuStreamWriteValue32", stream, true, (struct value){addr, value, flags, 4}))
SIM_STREAM_CALL(cuStreamWriteValue64_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
        submit_value("cuStreamWriteValue64", stream, true, (struct value){addr, value, flags, 8}))

enum item_kind {
    ITEM_BAD,
    ITEM_NOTHING, /* barriers and flushes change nothing here */
    ITEM_WAIT,
    ITEM_WRITE,
};

static enum item_kind read_item(const CUstreamBatchMemOpParams *item, struct value *ret_value)
{
    bool narrow = item->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32
            || item->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;

    switch (item->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        *ret_value = (struct value){item->waitValue.address,
                narrow ? item->waitValue.value : item->waitValue.value64, item->waitValue.flags,
                narrow ? 4 : 8};
        return ITEM_WAIT;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        *ret_value = (struct value){item->writeValue.address,
                narrow ? item->writeValue.value : item->writeValue.value64, item->writeValue.flags,
                narrow ? 4 : 8};
        return ITEM_WRITE;
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return ITEM_NOTHING;
    }
    return ITEM_BAD;
}

static int submit_batch_item(struct CUstream_st *stream, const CUstreamBatchMemOpParams *item)
{
    struct value value;
    enum item_kind kind = read_item(item, &value);

    if (kind == ITEM_WAIT || kind == ITEM_WRITE)
        return submit_value("cuStreamBatchMemOp", stream, kind == ITEM_WRITE, value);
    return kind == ITEM_BAD ? CUDA_ERROR_INVALID_VALUE : 0;
}

static int submit_batch(
        struct CUstream_st *stream, unsigned count, const CUstreamBatchMemOpParams *items)
{
    int r = items && count && count <= 256 ? 0 : CUDA_ERROR_INVALID_VALUE;

    for (unsigned i = 0; r == 0 && i < count; i++)
        r = submit_batch_item(stream, &items[i]);
    return r;
}

SIM_STREAM_CALL(cuStreamBatchMemOp_v2, SIM_NEED_CONTEXT,
        (CUstream handle, unsigned int count, CUstreamBatchMemOpParams *items, unsigned int flags),
        flags ? CUDA_ERROR_INVALID_VALUE : submit_batch(stream, count, items))

/* ---- the same as a node of a graph ---- */

struct batch {
    CUcontext ctx;
    unsigned count, flags;
    CUstreamBatchMemOpParams items[BATCH_MOST];
};

static bool batch_is_ready(struct sim_op *op)
{
    const struct batch *batch = (const struct batch *)op->payload;
    struct value value;

    for (unsigned i = 0; i < batch->count; i++)
        if (read_item(&batch->items[i], &value) == ITEM_WAIT && !is_there(&value, op->ctx->device))
            return false;
    return true;
}

static CUresult batch_run(struct sim_op *op)
{
    const struct batch *batch = (const struct batch *)op->payload;
    struct value value;

    for (unsigned i = 0; i < batch->count; i++)
        if (read_item(&batch->items[i], &value) == ITEM_WRITE)
            put(&value);
    return CUDA_SUCCESS;
}

/* All waits of a node are for what others write: they come first, and it has few items. */
static int check_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    bool writes = false;

    if (!params || !params->paramArray || !params->count || params->flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->count > BATCH_MOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < params->count; i++) {
        struct value value = {.size = 1};
        enum item_kind kind = read_item(&params->paramArray[i], &value);

        if (kind == ITEM_BAD || value.addr % value.size)
            return CUDA_ERROR_INVALID_VALUE;
        if (kind == ITEM_WAIT && writes)
            return CUDA_ERROR_NOT_SUPPORTED;
        writes |= kind == ITEM_WRITE;
    }
    return 0;
}

int sim_stream_make_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct sim_op **ret_op)
{
    struct CUctx_st *ctx;
    struct batch *batch;
    int r = check_batch(params);

    if (r == 0)
        r = sim_context_get(params->ctx, &ctx);
    if (r)
        return r;
    *ret_op = sim_op_new("batch node", sizeof(*batch));
    batch = (struct batch *)(*ret_op)->payload;
    batch->ctx = params->ctx;
    batch->count = params->count;
    for (unsigned i = 0; i < params->count; i++) {
        struct value value;
        enum item_kind kind = read_item(&params->paramArray[i], &value);

        batch->items[i] = params->paramArray[i];
        if (kind == ITEM_WAIT || kind == ITEM_WRITE)
            sim_op_range(*ret_op, ctx->device, SIM_SIDE_COPY, value.addr, value.size,
                    kind == ITEM_WRITE);
    }
    (*ret_op)->run = batch_run;
    (*ret_op)->is_ready = batch_is_ready;
    return 0;
}

bool sim_stream_is_batch(const struct sim_op *op)
{
    return op->run == batch_run;
}

void sim_stream_batch_params(struct sim_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret_params)
{
    struct batch *batch = (struct batch *)op->payload;

    *ret_params =
            (CUDA_BATCH_MEM_OP_NODE_PARAMS){batch->ctx, batch->count, batch->items, batch->flags};
}

/* SPDX-License-Identifier: MIT */
#include "tests/sim/graph/sim_capture.h"

#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_edges.h"
#include "tests/sim/graph/sim_graph_parts.h"
#include "tests/sim/stream/sim_event.h"

#include <stdlib.h>
#include <string.h>

struct sim_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread; /* that began it */
    struct CUstream_st *origin;
    struct CUctx_st *ctx;
    CUgraph graph;
    bool graph_is_callers; /* cuStreamBeginCaptureToGraph */
    bool invalidated;
    struct sim_capture *next;
};

static struct sim_capture *captures; /* in progress, invalidated ones included */
static uint64_t next_id = 1;

static void invalidate(struct sim_capture *capture)
{
    if (capture->invalidated)
        return;
    capture->invalidated = true;
    sim_stats.captures_invalidated++;
}

static struct sim_capture *find_capture(uint64_t id)
{
    struct sim_capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

/* ---- what is forbidden ---- */

static bool forbids(const struct sim_capture *capture, const struct sim_thread *me)
{
    bool own = capture->thread == me->number;

    if (me->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->invalidated)
        return false;
    if (own)
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return me->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL
            && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

int sim_capture_unsafe_call(void)
{
    const struct sim_thread *me = sim_self();
    int r = 0;

    for (struct sim_capture *capture = captures; capture; capture = capture->next) {
        if (!forbids(capture, me))
            continue;
        invalidate(capture);
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return r;
}

int sim_capture_refuse(struct CUstream_st *stream, int code)
{
    invalidate(stream->capture);
    return code;
}

int sim_capture_refuse_event(struct CUevent_st *event, int code)
{
    struct sim_capture *capture = find_capture(event->capture);

    if (capture)
        invalidate(capture);
    return code;
}

int sim_capture_implicit(struct CUctx_st *ctx)
{
    int r = 0;

    for (struct CUstream_st *stream = ctx->streams; stream; stream = stream->next) {
        if (!stream->capture || !stream->queue->blocking)
            continue;
        invalidate(stream->capture);
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return r;
}

int sim_capture_synchronize_stream(struct CUstream_st *stream)
{
    if (stream->capture)
        return sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return sim_stream_is_legacy(stream) ? sim_capture_implicit(stream->ctx) : 0;
}

int sim_capture_conflicts_with_context(struct CUctx_st *ctx)
{
    int r = 0;

    for (struct CUstream_st *stream = ctx->streams; stream; stream = stream->next) {
        if (!stream->capture)
            continue;
        invalidate(stream->capture);
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return r;
}

int sim_capture_synchronize_context(struct CUctx_st *ctx)
{
    return sim_capture_conflicts_with_context(ctx);
}

/* ---- frontier ---- */

static void frontier_clear(struct CUstream_st *stream)
{
    free(stream->frontier);
    free(stream->frontier_edges);
    stream->frontier = NULL;
    stream->frontier_edges = NULL;
    stream->frontier_count = 0;
}

/* By two different edges to the same node it is the plain one, which says more. NULL: a plain one. */
static void frontier_add(struct CUstream_st *stream, CUgraphNode node, const CUgraphEdgeData *edge)
{
    const CUgraphEdgeData plain = {0};
    unsigned at = 0;

    while (at < stream->frontier_count && stream->frontier[at] != node)
        at++;
    if (at < stream->frontier_count) {
        if (!edge || memcmp(&stream->frontier_edges[at], edge, sizeof(*edge)) != 0)
            stream->frontier_edges[at] = plain;
        return;
    }
    stream->frontier = sim_grow(stream->frontier, (at + 1) * sizeof(CUgraphNode));
    stream->frontier_edges = sim_grow(stream->frontier_edges, (at + 1) * sizeof(CUgraphEdgeData));
    stream->frontier[at] = node;
    stream->frontier_edges[at] = edge ? *edge : plain;
    stream->frontier_count++;
}

int sim_capture_add_node(struct CUstream_st *stream, CUgraphNode node)
{
    sim_graph_node_edges(node, stream->frontier_edges);
    frontier_clear(stream);
    frontier_add(stream, node, NULL);
    return 0;
}

void sim_capture_begin_early(struct CUstream_st *stream)
{
    const CUgraphEdgeData early = {
            .from_port = SIM_EDGE_PORT_PROGRAMMATIC, .type = SIM_EDGE_TYPE_PROGRAMMATIC};

    for (unsigned i = 0; stream->capture && i < stream->frontier_count; i++)
        if (sim_edges_check(stream->frontier[i], NULL, &early) == 0
                && sim_edges_are_plain(&stream->frontier_edges[i], 1))
            stream->frontier_edges[i] = early;
}

void sim_capture_event_is_early(struct CUevent_st *event, CUgraphEdgeData edge)
{
    for (unsigned i = 0; event->capture && i < event->frontier_count; i++)
        event->frontier_edges[i] = edge;
}

CUgraph sim_capture_graph(const struct CUstream_st *stream)
{
    return stream->capture->graph;
}

int sim_capture_status(const struct CUstream_st *stream)
{
    return stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : 0;
}

int sim_capture_add(struct CUstream_st *stream, struct sim_op *op)
{
    int r = sim_capture_status(stream);

    if (r) {
        sim_op_free(op);
        return r;
    }
    return sim_capture_add_node(stream,
            sim_graph_add_operation(
                    stream->capture->graph, op, stream->frontier, stream->frontier_count));
}

int sim_capture_add_event(
        struct CUstream_st *stream, CUgraphNodeType type, struct CUevent_st *event)
{
    int r = sim_capture_status(stream);

    if (r == 0 && event->capture)
        r = sim_capture_refuse(stream, CUDA_ERROR_CAPTURED_EVENT);
    if (r)
        return r;
    return sim_capture_add_node(stream,
            sim_graph_add_event(
                    stream->capture->graph, type, event, stream->frontier, stream->frontier_count));
}

int sim_capture_record_event(struct CUstream_st *stream, struct CUevent_st *event)
{
    int r = sim_capture_status(stream);

    if (r)
        return r;
    event->recorded = true;
    event->capture = stream->capture->id;
    event->frontier_count = stream->frontier_count;
    if (stream->frontier_count) {
        event->frontier = sim_new(stream->frontier_count * sizeof(CUgraphNode));
        memcpy(event->frontier, stream->frontier, stream->frontier_count * sizeof(CUgraphNode));
        event->frontier_edges = sim_new(stream->frontier_count * sizeof(CUgraphEdgeData));
        memcpy(event->frontier_edges, stream->frontier_edges,
                stream->frontier_count * sizeof(CUgraphEdgeData));
    }
    return 0;
}

int sim_capture_wait_event(struct CUstream_st *stream, struct CUevent_st *event)
{
    struct sim_capture *capture = event->capture ? find_capture(event->capture) : NULL;

    if (stream->capture && sim_capture_status(stream))
        return sim_capture_status(stream);
    if (!capture) {
        if (event->capture) /* of a capture that has ended */
            return stream->capture ? sim_capture_refuse(stream, CUDA_ERROR_CAPTURED_EVENT)
                                   : CUDA_ERROR_CAPTURED_EVENT;
        if (!event->recorded)
            return 0;
        return sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        invalidate(capture);
        return sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (sim_stream_is_legacy(stream)) {
        invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    sim_stats.stream_waits++;
    stream->capture = capture;
    for (unsigned i = 0; i < event->frontier_count; i++)
        frontier_add(stream, event->frontier[i], &event->frontier_edges[i]);
    return 0;
}

/* ---- begin and end ---- */

/* Nodes that a stream's next one comes behind, as a call names them. */
struct deps {
    const CUgraphNode *node;
    const CUgraphEdgeData *edge; /* NULL: plain ones */
    size_t count;
};

static int deps_check(const struct deps *deps)
{
    int r = deps->count && !deps->node ? CUDA_ERROR_INVALID_VALUE : 0;

    for (size_t i = 0; r == 0 && i < deps->count; i++) {
        if (!sim_handle_is(deps->node[i], SIM_KIND_NODE))
            return CUDA_ERROR_INVALID_VALUE;
        r = sim_edges_check(deps->node[i], NULL, deps->edge ? &deps->edge[i] : NULL);
    }
    return r;
}

static void deps_take(struct CUstream_st *stream, const struct deps *deps)
{
    for (size_t i = 0; i < deps->count; i++)
        frontier_add(stream, deps->node[i], deps->edge ? &deps->edge[i] : NULL);
}

static int begin(
        struct CUstream_st *stream, CUgraph graph, struct deps deps, CUstreamCaptureMode mode)
{
    struct sim_capture *capture;

    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            && mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_is_legacy(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture = sim_new(sizeof(*capture));
    *capture = (struct sim_capture){.id = next_id++,
            .mode = mode,
            .thread = sim_self()->number,
            .origin = stream,
            .ctx = stream->ctx,
            .graph = graph ? graph : sim_graph_new(),
            .graph_is_callers = graph != NULL,
            .next = captures};
    captures = capture;
    stream->capture = capture;
    deps_take(stream, &deps);
    sim_stats.captures++;
    return 0;
}

static int begin_to_graph(
        struct CUstream_st *stream, CUgraph graph, struct deps deps, CUstreamCaptureMode mode)
{
    int r = sim_handle_is(graph, SIM_KIND_GRAPH) ? deps_check(&deps) : CUDA_ERROR_INVALID_VALUE;

    return r ? r : begin(stream, graph, deps, mode);
}

/* Takes the capture away from its streams and from the list; frees the graph unless it is kept. */
static void finish(struct sim_capture *capture, bool keep_graph)
{
    struct sim_capture **link = &captures;

    for (struct CUstream_st *stream = capture->ctx->streams; stream; stream = stream->next) {
        if (stream->capture != capture)
            continue;
        stream->capture = NULL;
        frontier_clear(stream);
    }
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    if (!keep_graph && !capture->graph_is_callers)
        sim_graph_free(capture->graph);
    free(capture);
}

/* Every forked stream's last node has to be before one of the origin's. */
static bool is_joined(const struct sim_capture *capture)
{
    const struct CUstream_st *origin = capture->origin;

    for (struct CUstream_st *stream = capture->ctx->streams; stream; stream = stream->next) {
        if (stream->capture != capture || stream == origin)
            continue;
        for (unsigned i = 0; i < stream->frontier_count; i++)
            if (!sim_graph_comes_before(
                        stream->frontier[i], origin->frontier, origin->frontier_count))
                return false;
    }
    return true;
}

static int end(struct CUstream_st *stream, CUgraph *ret_graph)
{
    struct sim_capture *capture = stream->capture;

    if (!ret_graph)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_graph = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_self()->number)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->invalidated) {
        finish(capture, false);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!is_joined(capture)) {
        invalidate(capture);
        finish(capture, false);
        return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    *ret_graph = capture->graph;
    finish(capture, true);
    return 0;
}

/* A stream that ends in the middle of a capture ends it (origin) or spoils it. */
void sim_capture_forget_stream(struct CUstream_st *stream)
{
    struct sim_capture *capture = stream->capture;

    if (!capture)
        return;
    invalidate(capture);
    if (capture->origin == stream)
        finish(capture, false);
    else
        stream->capture = NULL;
}

void sim_capture_end_context(struct CUctx_st *ctx)
{
    for (struct sim_capture *capture = captures, *next; capture; capture = next) {
        next = capture->next;
        if (capture->ctx == ctx)
            finish(capture, false);
    }
}

SIM_STREAM_CALL(cuStreamBeginCapture, SIM_NEED_CONTEXT, (CUstream handle),
        begin(stream, NULL, (struct deps){0}, CU_STREAM_CAPTURE_MODE_GLOBAL))
SIM_STREAM_CALL(cuStreamBeginCapture_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCaptureMode mode), begin(stream, NULL, (struct deps){0}, mode))
SIM_STREAM_CALL(cuStreamBeginCaptureToGraph, SIM_NEED_CONTEXT,
        (CUstream handle, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                size_t count, CUstreamCaptureMode mode),
        begin_to_graph(stream, graph, (struct deps){deps, edges, count}, mode))
SIM_STREAM_CALL(cuStreamEndCapture, SIM_NEED_CONTEXT, (CUstream handle, CUgraph *ret_graph),
        end(stream, ret_graph))

CUresult simcuda_begin_unseen(CUstream stream, CUstreamCaptureMode mode)
{
    return cuStreamBeginCapture_v2(stream, mode);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_IS_QUERY);

    if (r == 0 && (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        CUstreamCaptureMode was = sim_self()->capture_mode;
        sim_self()->capture_mode = *mode;
        *mode = was;
    }
    return sim_leave(&call, r);
}

/* ---- questions ---- */

struct info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **deps;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static int legacy_is_unusable(const struct CUstream_st *stream)
{
    if (!sim_stream_is_legacy(stream))
        return 0;
    for (struct CUstream_st *other = stream->ctx->streams; other; other = other->next)
        if (other->capture && other->queue->blocking)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return 0;
}

static bool is_active(const struct sim_capture *capture)
{
    return capture && !capture->invalidated;
}

static int ask(struct CUstream_st *stream, struct info info)
{
    const struct sim_capture *capture = stream->capture;
    int r = legacy_is_unusable(stream);

    if (!info.status || (info.edges && !info.deps))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && info.deps && !info.edges && is_active(capture)
            && !sim_edges_are_plain(stream->frontier_edges, stream->frontier_count))
        r = CUDA_ERROR_LOSSY_QUERY;
    if (r)
        return r;
    *info.status = !capture        ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!is_active(capture))
        return 0;
    if (info.id)
        *info.id = capture->id;
    if (info.graph)
        *info.graph = capture->graph;
    if (info.deps)
        *info.deps = stream->frontier;
    if (info.edges)
        *info.edges = stream->frontier_edges;
    if (info.count)
        *info.count = stream->frontier_count;
    return 0;
}

SIM_STREAM_CALL(cuStreamIsCapturing, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCaptureStatus *ret_status),
        ask(stream, (struct info){.status = ret_status}))
SIM_STREAM_CALL(cuStreamGetCaptureInfo, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id),
        ask(stream, (struct info){.status = ret_status, .id = ret_id}))
SIM_STREAM_CALL(cuStreamGetCaptureInfo_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id, CUgraph *ret_graph,
                const CUgraphNode **ret_deps, size_t *ret_count),
        ask(stream, (struct info){ret_status, ret_id, ret_graph, ret_deps, NULL, ret_count}))
SIM_STREAM_CALL(cuStreamGetCaptureInfo_v3, SIM_NEED_CONTEXT,
        (CUstream handle, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id, CUgraph *ret_graph,
                const CUgraphNode **ret_deps, const CUgraphEdgeData **ret_edges, size_t *ret_count),
        ask(stream, (struct info){ret_status, ret_id, ret_graph, ret_deps, ret_edges, ret_count}))

static int update(struct CUstream_st *stream, struct deps deps, unsigned flags)
{
    int r;

    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    r = sim_capture_status(stream);
    if (r == 0)
        r = flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES ? CUDA_ERROR_INVALID_VALUE
                                                       : deps_check(&deps);
    if (r)
        return r;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        frontier_clear(stream);
    deps_take(stream, &deps);
    return 0;
}

SIM_STREAM_CALL(cuStreamUpdateCaptureDependencies, SIM_NEED_CONTEXT,
        (CUstream handle, CUgraphNode *deps, size_t count, unsigned int flags),
        update(stream, (struct deps){deps, NULL, count}, flags))
SIM_STREAM_CALL(cuStreamUpdateCaptureDependencies_v2, SIM_NEED_CONTEXT,
        (CUstream handle, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
                unsigned int flags),
        update(stream, (struct deps){deps, edges, count}, flags))

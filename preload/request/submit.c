/* SPDX-License-Identifier: MIT */
#include "preload/request/submit.h"

#include "preload/base/gate.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "preload/hints/graphnodes.h"
#include "preload/request/dispatch.h"

#include <pthread.h>
#include <stdatomic.h>

/* A capture whose graph the driver does not report (below 11.3): its pins stay for good. */
#define UNKNOWN_GRAPH UINT64_MAX

/* A stream's capture state, as the driver reports it. */
struct capture_info {
    CUstreamCaptureStatus status;
    CUgraph graph;
    const CUgraphNode *nodes; /* the next node depends on these */
    size_t count;
};

/*
 * Edges may carry data (ports, programmatic launches). The older form then fails (CUDA driver API,
 * cuStreamGetCaptureInfo: CUDA_ERROR_LOSSY_QUERY), and is called again for the graph alone.
 */
static CUresult submit_ask(CUstream stream, struct capture_info *ret)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    const CUgraphEdgeData *edges;
    cuuint64_t id;

    *ret = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    if (REAL_HAS(cuStreamGetCaptureInfo_v3))
        result = REAL(cuStreamGetCaptureInfo_v3)(
                stream, &ret->status, &id, &ret->graph, &ret->nodes, &edges, &ret->count);
    else if (REAL_HAS(cuStreamGetCaptureInfo_v2))
        result = REAL(cuStreamGetCaptureInfo_v2)(
                stream, &ret->status, &id, &ret->graph, &ret->nodes, &ret->count);
    if (result == CUDA_SUCCESS || !REAL_HAS(cuStreamGetCaptureInfo_v2))
        return result;
    *ret = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    return REAL(cuStreamGetCaptureInfo_v2)(stream, &ret->status, &id, &ret->graph, NULL, NULL);
}

/*
 * The driver does not report the graph that a stream is captured into. It is known since the
 * capture began, if that was on this stream.
 */
static uint64_t graph_untold(CUstream stream)
{
    uint64_t graph;

    if (!stream_is_captured(stream))
        return 0;
    graph = gate_graph(stream_capture_key(stream, false));
    return graph ? graph : UNKNOWN_GRAPH;
}

/*
 * The graph that the stream is captured into, 0 = none; its last node, if any, in *ret_node. A
 * query that fails counts as a capture: blocks that the call names are then pinned.
 */
static uint64_t graph_of(CUstream stream, CUgraphNode *ret_node)
{
    struct capture_info info;

    *ret_node = NULL;
    if (submit_ask(stream, &info) != CUDA_SUCCESS)
        return graph_untold(stream);
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return 0;
    if (info.count == 1 && info.nodes)
        *ret_node = info.nodes[0];
    return (uint64_t)(uintptr_t)info.graph;
}

bool submit_event_begin(void)
{
    if (!guard_has(GUARD_ACTING) || guard_depth() > 0)
        return false;
    guard_read_begin();
    return true;
}

/*
 * Enters kedge: notes which entry was called and blocks cancellation of the thread. False: kedge is
 * not on.
 */
static bool submit_enter(int slot, bool is_begun, int *ret_cancel)
{
    if (!is_begun && !life_begin_edge())
        return false;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, ret_cancel);
    guard_thread.entry = slot;
    return true;
}

static void submit_leave(bool is_begun, int cancel)
{
    int unused;

    (void)pthread_setcancelstate(cancel, &unused);
    if (!is_begun)
        life_leave();
}

bool submit_out_of_memory(int slot, bool is_begun)
{
    struct pool_ladder ladder = {.waits = 0};
    int cancel;
    bool has_more;

    if (!submit_enter(slot, is_begun, &cancel))
        return false;
    has_more = dispatch_more_room(&ladder);
    if (!has_more)
        dispatch_refused(CUDA_ERROR_OUT_OF_MEMORY, 0, dispatch_device(), &ladder);
    submit_leave(is_begun, cancel);
    return has_more;
}

void submit_refused(int slot, bool is_begun, CUresult result)
{
    const struct pool_ladder ladder = {.trims = 1, .attempts = 1};
    int cancel;

    if (result != CUDA_ERROR_OUT_OF_MEMORY || !submit_enter(slot, is_begun, &cancel))
        return;
    dispatch_refused((int)result, 0, dispatch_device(), &ladder);
    submit_leave(is_begun, cancel);
}

void submit_go_on(void)
{
    if ((!session_must_go_on() && !evict_in_has_more()) || !life_begin_edge())
        return;
    dispatch_go_on();
    evict_in_go_on();
    life_leave();
}

void submit_event_end(void)
{
    guard_read_end();
    submit_go_on();
}

/*
 * A function of its own, as end_reading is, so that a call whose uses alone are recorded saves no
 * registers for it.
 */
static __attribute__((noinline)) void begin_reading(
        struct submit *submit, CUstream stream, bool per_thread)
{
    guard_read_begin();
    if (submit->graph) {
        submit->pins = PINS_NONE(POOL_PIN_GRAPH);
        guard_thread.pins = &submit->pins;
        if (guard_thread.from)
            pins_runs_on(&submit->pins, argcheck_devices(guard_thread.from));
    } else if (evict_in_is_wanted() && !guard_in_callback()) {
        if (atomic_load_explicit(&evict_in_owes, memory_order_acquire))
            evict_in_owed();
        evict_in_begin(&submit->bring,
                stream == SUBMIT_NO_STREAM ? NULL : stream_named(stream, per_thread));
    }
}

static __attribute__((noinline)) void begin_from(
        struct submit *submit, CUstream stream, bool per_thread)
{
    submit->from = (struct argcheck_from){
            stream == SUBMIT_NO_STREAM ? STREAM_NONE : stream_named(stream, per_thread), 0, 0};
    guard_thread.from = &submit->from;
}

bool submit_begin(struct submit *submit, CUstream stream, bool per_thread)
{
    unsigned word;
    CUgraphNode node;

    submit->graph = 0;
    if (guard_depth() > 0 || !resolve_ready() || life_is_passive())
        return false;
    word = atomic_load(&guard_word);
    guard_push();
    if (word & GUARD_ACTING)
        dispatch_go_on();
    if (word & GUARD_CAPTURING && stream != SUBMIT_NO_STREAM
            && (session_pool || word & GUARD_USES)) {
        submit->stream = stream_named(stream, per_thread);
        submit->graph = graph_of(submit->stream, &node);
    }
    if (!(word & (GUARD_ACTING | GUARD_USES | GUARD_DEVICES)) && !submit->graph) {
        guard_pop();
        return false;
    }
    guard_thread.moment = 0;
    if (word & GUARD_DEVICES)
        begin_from(submit, stream, per_thread);
    submit->is_reader = (word & GUARD_ACTING) || submit->graph;
    if (submit->is_reader)
        begin_reading(submit, stream, per_thread);
    return true;
}

/* Gives the call's pins to the node that the call became. */
static void submit_give(struct submit *submit)
{
    CUgraphNode node = NULL;

    if (submit->graph == UNKNOWN_GRAPH) {
        pins_keep(&submit->pins);
        pins_unknown_graph();
        return;
    }
    if (submit->pins.first && graph_of(submit->stream, &node) != submit->graph)
        node = NULL;
    graphnodes_note(submit->graph, (uintptr_t)node);
    pins_give(&submit->pins, PINS_OF_GRAPH, graphnodes_owner(submit->graph), (uintptr_t)node);
}

void submit_end_whole(struct submit *submit, bool is_made)
{
    if (submit->graph && is_made && submit->graph != UNKNOWN_GRAPH)
        pins_give(&submit->pins, PINS_OF_GRAPH, graphnodes_owner(submit->graph), 0);
    (void)submit_end(submit, is_made ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static __attribute__((noinline)) CUresult end_reading(struct submit *submit, CUresult result)
{
    if (submit->graph) {
        guard_thread.pins = NULL;
        if (result == CUDA_SUCCESS)
            submit_give(submit);
        else
            pins_undo(&submit->pins);
    }
    if (guard_thread.bring)
        result = evict_in_end(&submit->bring, result);
    guard_read_end();
    evict_in_go_on();
    return result;
}

/*
 * The program may ignore the result. A function of its own, so that a call that succeeded saves no
 * registers for it.
 */
static __attribute__((noinline)) CUresult end_refused(CUresult result)
{
    guard_push();
    life_driver_said((int)result);
    guard_pop();
    return result;
}

CUresult submit_end(struct submit *submit, CUresult result)
{
    if (submit->is_reader)
        result = end_reading(submit, result);
    guard_thread.from = NULL;
    guard_pop();
    return __builtin_expect(result == CUDA_SUCCESS, 1) ? result : end_refused(result);
}

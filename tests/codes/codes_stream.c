/* SPDX-License-Identifier: MIT */
/* Streams, events, launches, host functions, captures and graphs. */
#include "tests/codes/codes.h"

/* ---- streams ---- */

static int stream_slot(bool alive)
{
    int at = (int)chance(STREAMS);

    for (int i = 0; i < STREAMS; i++, at = (at + 1) % STREAMS)
        if (state.streams[at].alive == alive)
            return at;
    return -1;
}

CUstream some_stream(int *ret_slot)
{
    int slot = one_in(4) ? -1 : stream_slot(true);

    if (ret_slot)
        *ret_slot = slot;
    if (slot >= 0)
        return state.streams[slot].handle;
    /* the legacy stream by both names, and the thread's own */
    return (CUstream)(uintptr_t)chance(3);
}

bool any_capture(void)
{
    for (int i = 0; i < STREAMS; i++)
        if (state.streams[i].alive && state.streams[i].capturing)
            return true;
    return false;
}

static void op_create(void)
{
    int slot = stream_slot(false);
    unsigned flags = one_in(10) ? 6 : chance(2);
    CUstream handle = NULL;
    CUresult r;

    if (slot < 0)
        return;
    if (one_in(3))
        r = CALL(cuStreamCreateWithPriority, &handle, flags, -(int)chance(3));
    else
        r = CALL(cuStreamCreate, &handle, flags);
    if (r == CUDA_SUCCESS)
        state.streams[slot] = (struct stream){
                .handle = handle, .alive = true, .blocking = flags == 0, .context = codes_here};
}

static void op_destroy(void)
{
    int slot = stream_slot(true);
    CUstream handle;
    CUdeviceptr ptr = 0;

    if (slot < 0)
        return;
    handle = state.streams[slot].handle;
    journal_say(" slot %d", slot);
    if (CALL(cuStreamDestroy_v2, handle) != CUDA_SUCCESS)
        return;
    state.streams[slot].alive = state.streams[slot].capturing = false;
    for (int i = 0; i < BLOCKS; i++) {
        if (state.blocks[i].kind == BLOCK_GRAPH && state.blocks[i].stream == slot)
            block_gone(i);
        if (state.blocks[i].stream == slot)
            state.blocks[i].stream = -1;
    }
    if (one_in(3))
        (void)CALL(cuStreamSynchronize, handle);
    if (one_in(3))
        (void)CALL(cuMemAllocAsync, &ptr, 4096, handle);
    if (one_in(3))
        (void)CALL(cuStreamDestroy_v2, handle);
}

/* An answer of "not yet" is a matter of time. */
static void ask_done(CUstream stream)
{
    CUresult r;

    journal_before("cuStreamQuery");
    r = codes_api.cuStreamQuery(stream);
    (void)journal_after(r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r);
}

static void op_wait(void)
{
    unsigned flags;
    int slot;
    CUstream stream = some_stream(&slot);

    journal_say(" stream %d", slot);
    switch (chance(4)) {
    case 0:
        (void)CALL(cuStreamSynchronize, stream);
        break;
    case 1:
        ask_done(stream);
        break;
    case 2:
        (void)CALL(cuStreamGetFlags, stream, &flags);
        break;
    default:
        (void)CALL(cuCtxSynchronize);
    }
}

/* ---- events ---- */

static void op_event(void)
{
    unsigned slot = chance(EVENTS);
    struct event *event = &state.events[slot];
    int stream;
    CUstream handle = some_stream(&stream);
    CUresult r;

    if (!event->alive) {
        if (CALL(cuEventCreate, &event->handle, one_in(8) ? 0x70 : CU_EVENT_DISABLE_TIMING)
                == CUDA_SUCCESS) {
            event->alive = true;
            event->context = codes_here;
        }
        return;
    }
    journal_say(" event %u stream %d", slot, stream);
    switch (chance(6)) {
    case 0:
    case 1:
        (void)CALL(cuEventRecord, event->handle, handle);
        break;
    case 2:
        (void)CALL(cuStreamWaitEvent, handle, event->handle, one_in(8) ? 8 : 0);
        break;
    case 3:
        journal_before("cuEventQuery");
        r = codes_api.cuEventQuery(event->handle);
        (void)journal_after(r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r);
        break;
    case 4:
        (void)CALL(cuEventSynchronize, event->handle);
        break;
    default:
        if (CALL(cuEventDestroy_v2, event->handle) == CUDA_SUCCESS)
            event->alive = false;
        if (one_in(3))
            (void)CALL(cuEventDestroy_v2, event->handle);
    }
}

/* ---- launches ---- */

static void op_launch(void)
{
    int slot = any_capture() ? pinned_block() : some_block(1 << BLOCK_SYNC | 1 << BLOCK_PITCH);
    unsigned seed = 3;
    CUdeviceptr ptr;
    uint64_t size;
    void *params[] = {&ptr, &size, &seed};
    int stream;
    CUstream handle = some_stream(&stream);

    if (slot < 0 || codes_here != state.module_context
            || state.blocks[slot].context != state.module_context)
        return;
    ptr = state.blocks[slot].ptr;
    size = state.blocks[slot].size < 4096 ? state.blocks[slot].size : 4096;
    if (stream >= 0 && state.streams[stream].context != state.module_context)
        handle = 0;
    journal_say(" stream %d", stream);
    (void)CALL(cuLaunchKernel, one_in(12) ? NULL : state.fill, one_in(12) ? 0 : 1, 1, 1, 32,
            one_in(12) ? 0 : 1, 1, 0, handle, params, NULL);
}

void break_device(void)
{
    CUdeviceptr out = unknown_address();
    uint64_t size = 64;
    void *params[] = {&out, &out, &size};

    journal_say(" to its end");
    (void)CALL(cuLaunchKernel, state.sum, 1, 1, 1, 32, 1, 1, 0, 0, params, NULL);
}

/* ---- host functions ---- */

static struct {
    CUdeviceptr ptr; /* that it frees, 0 = none */
    CUstream stream;
    CUresult freed, asked, got;
    unsigned ran;
} host_job;

/* Runs in a thread of the driver's: nothing is written down here. */
static void host_function(void *data)
{
    CUdeviceptr ptr = 0;

    (void)data;
    host_job.ran++;
    codes_own("cuMemFree_v2");
    if (host_job.ptr)
        host_job.freed = codes_api.cuMemFree_v2(host_job.ptr);
    codes_own("cuStreamQuery");
    host_job.asked = codes_api.cuStreamQuery(host_job.stream);
    codes_own("cuMemAlloc_v2");
    host_job.got = codes_api.cuMemAlloc_v2(&ptr, 4096);
}

static void callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    host_function(data);
}

static void op_host_function(void)
{
    int block = some_block(1 << BLOCK_SYNC);
    int slot = stream_slot(true);
    CUresult r;

    if (slot < 0 || any_capture() || state.streams[slot].context != codes_here)
        return;
    host_job.ran = 0;
    host_job.ptr = block < 0 || one_in(3) ? 0 : state.blocks[block].ptr;
    host_job.stream = state.streams[slot].handle;
    journal_say(" slot %d", slot);
    if (one_in(2))
        r = CALL(cuLaunchHostFunc, host_job.stream, one_in(12) ? NULL : host_function, NULL);
    else
        r = CALL(cuStreamAddCallback, host_job.stream, callback, NULL, one_in(8) ? 5 : 0);
    if (r != CUDA_SUCCESS)
        return;
    if (host_job.ptr)
        block_gone(block);
    if (CALL(cuStreamSynchronize, host_job.stream) != CUDA_SUCCESS || !host_job.ran)
        return;
    if (host_job.ptr)
        (void)journal_late("cuMemFree_v2", RULE_R38, host_job.freed);
    (void)journal_late("cuStreamQuery", RULE_NONE, host_job.asked);
    (void)journal_late("cuMemAlloc_v2", RULE_NONE, host_job.got);
}

/* ---- captures ---- */

static void op_begin(void)
{
    int slot;
    CUstream stream = some_stream(&slot);
    CUstreamCaptureMode mode = one_in(12) ? (CUstreamCaptureMode)7 : (CUstreamCaptureMode)chance(3);

    journal_say(" stream %d mode %d", slot, (int)mode);
    /* A capture of a thread's own stream could be ended by nobody else. */
    if (slot < 0)
        stream = CU_STREAM_LEGACY;
    if (CALL(cuStreamBeginCapture_v2, stream, mode) == CUDA_SUCCESS && slot >= 0) {
        state.streams[slot].capturing = true;
        state.streams[slot].began = state.step;
    }
}

static void lose_captured(int stream)
{
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind == BLOCK_GRAPH && state.blocks[i].stream == stream)
            block_gone(i);
}

static void keep_graph(CUgraph graph)
{
    for (int i = 0; i < GRAPHS && graph; i++)
        if (!state.graphs[i].graph) {
            state.graphs[i].graph = graph;
            return;
        }
    if (graph)
        (void)CALL(cuGraphDestroy, graph);
}

static void end_capture(int slot)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;

    journal_say(" slot %d", slot);
    if (CALL(cuStreamEndCapture, state.streams[slot].handle, &graph) == CUDA_SUCCESS)
        keep_graph(graph);
    if (CALL(cuStreamIsCapturing, state.streams[slot].handle, &status) != CUDA_SUCCESS)
        return;
    journal_answer("status %d", (int)status);
    state.streams[slot].capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!state.streams[slot].capturing)
        lose_captured(slot);
}

static void op_end(void)
{
    int slot = stream_slot(true);

    for (int i = 0; i < STREAMS; i++)
        if (state.streams[i].alive && state.streams[i].capturing && !one_in(8))
            slot = i;
    if (slot >= 0)
        end_capture(slot);
}

static void op_is_capturing(void)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    int slot;
    CUstream stream = some_stream(&slot);

    journal_say(" stream %d", slot);
    if (CALL(cuStreamIsCapturing, stream, one_in(12) ? NULL : &status) == CUDA_SUCCESS)
        journal_answer("status %d", (int)status);
}

static void op_exchange(void)
{
    CUstreamCaptureMode mode = one_in(12) ? (CUstreamCaptureMode)9 : (CUstreamCaptureMode)chance(3);

    if (CALL(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS)
        journal_answer("was %d", (int)mode);
}

/* ---- graphs ---- */

static void build_by_hand(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = one_in(6) ? 0 : chance(50000) + 1};
    CUgraphNode first = NULL;
    CUgraphNode second = NULL;
    CUgraph graph = NULL;
    CUresult r;

    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (CALL(cuGraphCreate, &graph, one_in(8) ? 4 : 0) != CUDA_SUCCESS)
        return;
    r = CALL(cuGraphAddMemAllocNode, &first, graph, NULL, 0, &params);
    if (journal_spared())
        QUIET(cuGraphAddMemFreeNode, &second, graph, &first, 1, params.dptr);
    if (r == CUDA_SUCCESS)
        (void)CALL(cuGraphAddMemFreeNode, &second, graph, &first, 1,
                one_in(6) ? unknown_address() : params.dptr);
    (void)CALL(cuGraphAddEmptyNode, &second, graph, NULL, 0);
    keep_graph(graph);
}

static void op_graph(void)
{
    struct graph *graph = &state.graphs[chance(GRAPHS)];
    int slot;
    CUstream stream = some_stream(&slot);

    if (!graph->graph) {
        if (one_in(2))
            build_by_hand();
        return;
    }
    journal_say(" stream %d", slot);
    if (!graph->exec) {
        CUresult r = CALL(cuGraphInstantiateWithFlags, &graph->exec, graph->graph, 0);

        if (journal_spared())
            QUIET(cuGraphExecDestroy, graph->exec);
        if (r != CUDA_SUCCESS)
            graph->exec = NULL;
        return;
    }
    if (!one_in(4)) {
        (void)CALL(cuGraphLaunch, graph->exec, one_in(12) ? (CUstream)(uintptr_t)0x77770 : stream);
        return;
    }
    (void)CALL(cuGraphExecDestroy, graph->exec);
    (void)CALL(cuGraphDestroy, graph->graph);
    if (one_in(4))
        (void)CALL(cuGraphExecDestroy, graph->exec);
    *graph = (struct graph){NULL, NULL};
}

/* Captures are not left open for long: with one of them everything else says the same. */
static void op_settle(void)
{
    for (int i = 0; i < STREAMS; i++)
        if (state.streams[i].alive && state.streams[i].capturing
                && state.step - state.streams[i].began > 8)
            end_capture(i);
}

const struct op stream_ops[] = {
        {op_create, {5, 5, 4, 4}},
        {op_destroy, {3, 2, 2, 2}},
        {op_wait, {6, 4, 6, 8}},
        {op_event, {8, 6, 5, 6}},
        {op_launch, {5, 3, 2, 5}},
        {op_host_function, {3, 1, 1, 3}},
        {op_begin, {2, 14, 0, 1}},
        {op_end, {2, 9, 0, 1}},
        {op_is_capturing, {2, 3, 0, 1}},
        {op_exchange, {2, 5, 0, 1}},
        {op_graph, {5, 8, 0, 2}},
        {op_settle, {3, 6, 0, 1}},
};
const unsigned stream_ops_count = sizeof stream_ops / sizeof *stream_ops;

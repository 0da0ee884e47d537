/* SPDX-License-Identifier: MIT */
/* Launches of graphs: the nodes of an instance on queues. The picture is in sim_graph.h. */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_graph_parts.h"
#include "tests/sim/graph/sim_graphmem.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/stream/sim_event.h"
#include "tests/sim/stream/sim_oracle.h"

#include <stdlib.h>
#include <string.h>

/* Where an item of this launch stands. */
struct spot {
    struct sim_queue *queue; /* NULL: it put nothing on any queue */
    uint64_t number;
    struct sim_clock points; /* what has to be done for it to be done */
    struct sim_clock known;  /* what is ordered before its end */
};

struct layout {
    struct CUstream_st *stream;
    struct CUgraphExec_st *exec;
    struct spot begin;
    struct spot *spots; /* one per item */
    struct sim_queue **lanes;
    unsigned lanes_count;
};

/* ---- memory ---- */

static bool frees(const struct CUgraphExec_st *exec, uint64_t addr)
{
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->items[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE && exec->items[i].addr == addr)
            return true;
    return false;
}

/* Memory of an earlier launch that nobody freed: an error, or freed now if the flag says so. */
static int free_leftovers(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    for (unsigned i = 0; i < exec->count; i++) {
        struct sim_node_memory *memory = exec->items[i].memory;
        if (!memory || frees(exec, memory->addr) || !sim_pool_piece_is_live(memory->piece))
            continue;
        if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return CUDA_ERROR_INVALID_VALUE;
        int r = sim_pool_free_ordered(memory->piece, stream);
        if (r)
            return r;
    }
    return 0;
}

/* The memory that the launch needs, before anything of it is put anywhere. */
static int back(const struct CUgraphExec_st *exec)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < exec->count; i++)
        if (exec->items[i].memory)
            r = sim_graphmem_back(exec->items[i].memory->piece);
    return r;
}

static bool allocates(const struct CUgraphExec_st *exec, uint64_t addr)
{
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->items[i].memory && exec->items[i].memory->addr == addr)
            return true;
    return false;
}

/* Before anything is put anywhere: what the launch would stumble over. */
static int check(const struct CUgraphExec_st *exec)
{
    for (unsigned i = 0; i < exec->count; i++) {
        const struct sim_item *item = &exec->items[i];
        const struct sim_block *block;
        if (item->event && !sim_handle_is(item->event, SIM_KIND_EVENT))
            return CUDA_ERROR_INVALID_HANDLE;
        if (item->type != CU_GRAPH_NODE_TYPE_MEM_FREE || allocates(exec, item->addr))
            continue;
        block = sim_ledger_live(item->addr);
        if (!block || block->kind != SIM_BLOCK_GRAPH)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

/* ---- laying out ---- */

static void spot_set(struct spot *spot, struct sim_queue *queue)
{
    spot->queue = queue;
    spot->number = queue->submitted;
    sim_clock_set(&spot->points, queue, queue->submitted);
    sim_clock_merge(&spot->known, &queue->clock);
}

static void spot_clear(struct spot *spot)
{
    sim_clock_clear(&spot->points);
    sim_clock_clear(&spot->known);
}

static void spot_merge(struct spot *spot, const struct spot *other)
{
    sim_clock_merge(&spot->points, &other->points);
    sim_clock_merge(&spot->known, &other->known);
}

/* The queue of a dependency on which nothing came behind it yet, or a new one. */
static struct sim_queue *lane_for(struct layout *layout, const struct sim_item *item)
{
    struct sim_queue *lane;

    if (layout->exec->is_chain)
        return layout->stream->queue;
    for (unsigned i = 0; i < item->deps_count; i++) {
        const struct spot *spot = &layout->spots[item->deps[i]];
        if (spot->queue && spot->queue->submitted == spot->number)
            return spot->queue;
    }
    lane = sim_queue_open(layout->stream->ctx, false, false);
    layout->lanes = sim_grow(layout->lanes, (layout->lanes_count + 1) * sizeof(*layout->lanes));
    layout->lanes[layout->lanes_count++] = lane;
    return lane;
}

static void place_operation(
        struct layout *layout, const struct sim_item *item, struct sim_op *op, struct spot *spot)
{
    struct sim_queue *lane = lane_for(layout, item);

    sim_queue_submit(lane, op, &spot->points, &spot->known);
    spot_set(spot, lane);
}

/* `spot` has what the item comes behind, and gets what stands for the item. */
static void place(struct layout *layout, struct sim_item *item, struct spot *spot)
{
    struct sim_queue *lane;

    switch (item->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        sim_graphmem_use(item->memory->piece);
        return;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        lane = lane_for(layout, item);
        sim_pool_free_on(sim_ledger_find(item->addr)->piece, lane, &spot->points, &spot->known);
        spot_set(spot, lane);
        return;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        place_operation(layout, item, sim_event_make_record(item->event), spot);
        sim_event_recorded(item->event, spot->queue);
        return;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        sim_stats.stream_waits++;
        sim_clock_merge(&spot->points, &item->event->points);
        sim_clock_merge(&spot->known, &item->event->known);
        place_operation(layout, item, sim_stream_make_nothing("event wait node"), spot);
        return;
    default:
        if (!item->op || item->disabled)
            return;
        sim_oracle_replay(item->op);
        place_operation(layout, item, sim_op_clone(item->op), spot);
    }
}

/* A first operation on the stream: all branches come behind it, and it behind the last launch. */
static int begin(struct layout *layout)
{
    int r = sim_stream_submit_after(layout->stream, sim_stream_make_nothing("graph begins"),
            &layout->exec->last, &layout->exec->last);

    if (r == 0)
        spot_set(&layout->begin, layout->stream->queue);
    return r;
}

static int end(struct layout *layout)
{
    struct spot all = {0};
    int r;

    for (unsigned i = 0; i < layout->exec->count; i++)
        spot_merge(&all, &layout->spots[i]);
    r = sim_stream_submit_after(
            layout->stream, sim_stream_make_nothing("graph ends"), &all.points, &all.known);
    spot_clear(&all);
    return r;
}

static int lay_out(struct layout *layout)
{
    struct CUgraphExec_st *exec = layout->exec;
    int r = begin(layout);

    for (unsigned i = 0; r == 0 && i < exec->count; i++) {
        struct sim_item *item = &exec->items[i];
        struct spot *spot = &layout->spots[i];
        for (unsigned k = 0; k < item->deps_count; k++)
            spot_merge(spot, &layout->spots[item->deps[k]]);
        if (item->deps_count == 0)
            spot_merge(spot, &layout->begin);
        place(layout, item, spot);
    }
    if (r == 0 && !exec->is_chain)
        r = end(layout);
    if (r == 0) {
        sim_clock_clear(&exec->last);
        sim_clock_set(&exec->last, layout->stream->queue, layout->stream->queue->submitted);
    }
    return r;
}

/* ---- launches ---- */

/* In a capture the launch is a node that has copies of the instance's operations. */
static int capture(struct CUstream_st *stream, const struct CUgraphExec_st *exec)
{
    CUgraphNode *nodes;
    CUgraph child;
    int r = sim_capture_status(stream);

    for (unsigned i = 0; r == 0 && i < exec->count; i++)
        if (exec->items[i].memory || exec->items[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            r = sim_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (r)
        return r;
    child = sim_graph_new();
    nodes = sim_new((exec->count + 1) * sizeof(CUgraphNode));
    for (unsigned i = 0; i < exec->count; i++) {
        const struct sim_item *item = &exec->items[i];
        CUgraphNode *deps = sim_new((item->deps_count + 1) * sizeof(CUgraphNode));
        for (unsigned k = 0; k < item->deps_count; k++)
            deps[k] = nodes[item->deps[k]];
        nodes[i] = item->event
                ? sim_graph_add_event(child, item->type, item->event, deps, item->deps_count)
                : sim_graph_add_operation(child,
                        item->op && !item->disabled ? sim_op_clone(item->op) : NULL, deps,
                        item->deps_count);
        if (item->op && !item->disabled)
            nodes[i]->op->generation = item->op->generation;
        free(deps);
    }
    free(nodes);
    return sim_capture_add_node(stream,
            sim_graph_add_child(
                    sim_capture_graph(stream), child, stream->frontier, stream->frontier_count));
}

static int launch(struct CUstream_st *stream, CUgraphExec exec)
{
    struct layout layout = {.stream = stream, .exec = exec};
    int r = sim_handle_is(exec, SIM_KIND_EXEC) ? 0 : CUDA_ERROR_INVALID_VALUE;

    if (r == 0 && stream->capture)
        return capture(stream, exec);
    if (r == 0)
        r = check(exec);
    if (r == 0)
        r = back(exec);
    if (r == 0)
        r = free_leftovers(exec, stream);
    if (r)
        return r;
    layout.spots = sim_new((exec->count + 1) * sizeof(*layout.spots));
    r = lay_out(&layout);
    for (unsigned i = 0; i < exec->count; i++)
        spot_clear(&layout.spots[i]);
    spot_clear(&layout.begin);
    for (unsigned i = 0; i < layout.lanes_count; i++)
        sim_queue_close(layout.lanes[i]); /* free for others once they are empty */
    free(layout.lanes);
    free(layout.spots);
    if (r == 0)
        sim_stats.graph_launches++;
    return r;
}

static int upload(CUgraphExec exec)
{
    return sim_handle_is(exec, SIM_KIND_EXEC) ? back(exec) : CUDA_ERROR_INVALID_VALUE;
}

SIM_STREAM_CALL(
        cuGraphLaunch, SIM_NEED_CONTEXT, (CUgraphExec exec, CUstream handle), launch(stream, exec))
SIM_STREAM_CALL(cuGraphUpload, SIM_NEED_CONTEXT, (CUgraphExec exec, CUstream handle),
        ((void)stream, upload(exec)))

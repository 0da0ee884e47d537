/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#include "tests/trainers/include/nvtx.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

enum {
    CROWD_BIT = 31, /* of the captures of a crowd, beside a bit for each graph */
};

/* ---- graphs --------------------------------------------------------------------------------- */

static int graph_free_entry(void)
{
    for (int i = 0; i < DENSE_GRAPHS; i++)
        if (!dense.graphs[i].used)
            return i;
    return -1;
}

static int graph_new(int home)
{
    int index = graph_free_entry();

    if (index >= 0)
        dense.graphs[index] = (struct dense_graph){.used = true, .home = home};
    return index;
}

static void graph_add(struct dense_graph *graph, struct dense_block *block, uint32_t value)
{
    struct dense_node *node = &graph->nodes[graph->nodes_count++];

    *node = (struct dense_node){(int)(block - dense.blocks), block->ptr, value};
    block->graphs |= 1U << (graph - dense.graphs);
}

void graph_drop(int index)
{
    struct dense_graph *graph = &dense.graphs[index];

    if (graph->exec)
        DO(cuGraphExecDestroy(graph->exec));
    if (graph->graph)
        DO(cuGraphDestroy(graph->graph));
    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].graphs >> index & 1) {
            dense.blocks[i].graphs &= ~(1U << index);
            dense.blocks[i].done |= dense.blocks[i].anchored;
        }
    limbo_without_graph(index);
    dense.checks[DENSE_CHECKS + index].on = false;
    *graph = (struct dense_graph){0};
    dense_say("graph %d destroyed", index);
}

unsigned graph_films(void)
{
    unsigned films = dense.crowd_streams_count ? 1U << CROWD_BIT : 0;

    for (int i = 0; i < DENSE_FILMS; i++)
        if (dense.films[i].on)
            films |= 1U << dense.films[i].graph;
    return films;
}

static bool graph_is_filmed(int index)
{
    for (int i = 0; i < DENSE_FILMS; i++)
        if (dense.films[i].on && dense.films[i].graph == index)
            return true;
    return false;
}

/* ---- captures ------------------------------------------------------------------------------- */

static struct film *film_on(bool on)
{
    int first = dense_pick(DENSE_FILMS);

    for (int i = 0; i < DENSE_FILMS; i++) {
        struct film *film = &dense.films[(first + i) % DENSE_FILMS];

        if (film->on == on && !(on && dense.flows[film->flow].busy))
            return film;
    }
    return NULL;
}

static CUDA_MEMSET_NODE_PARAMS set_of(const struct dense_block *block, uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = block->ptr,
            .pitch = block->bytes / 8 & ~(uint64_t)511,
            .value = value,
            .elementSize = 4,
            .width = 4,
            .height = 8};
}

static struct dense_block *block_for_graph(int home)
{
    struct dense_block *block = block_pick(dense.homes[home].device);

    return block && block->bytes > 65536 && (block->kind == BLOCK_STREAM || block->home == home)
            ? block
            : NULL;
}

static void begin(struct film *film, struct flow *flow)
{
    struct dense_graph *graph = &dense.graphs[film->graph];
    CUstream handle = flow->handle ? flow->handle : CU_STREAM_PER_THREAD;

    if (film->to_own)
        DO(cuStreamBeginCaptureToGraph(handle, graph->graph, NULL, NULL, 0, film->mode));
    else
        DO(cuStreamBeginCapture_v2(handle, film->mode));
}

/* A graph that the capture is to go to, with a node of its own that has nothing to do with it. */
static void prepare_own(struct film *film, int home)
{
    struct dense_graph *graph = &dense.graphs[film->graph];
    struct dense_block *block = block_for_graph(home);
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraphNode node;
    uint32_t value = block_value();

    DO(cuGraphCreate(&graph->graph, 0));
    film->to_own = true;
    if (!block)
        return;
    set = set_of(block, value);
    DO(cuGraphAddMemsetNode(&node, graph->graph, NULL, 0, &set, dense.homes[home].handle));
    graph_add(graph, block, value);
}

bool act_film_begin(struct hand *me)
{
    struct film *film = film_on(false);
    struct flow *flow = flow_pick(me, -1, -1);
    int what = dense_pick(100);
    struct dense_event *event;
    bool away;

    if (!film || !flow || flow->kind == LANE_LEGACY || !scene_may_capture()
            || (flow->kind != LANE_NONBLOCKING && what < 75))
        return false;
    *film = (struct film){.flow = flow_index(flow),
            .hand = me->number,
            .mode = what % 10 < 5   ? CU_STREAM_CAPTURE_MODE_RELAXED
                    : what % 10 < 9 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                    : CU_STREAM_CAPTURE_MODE_GLOBAL};
    film->graph = graph_new(flow->home);
    if (film->graph < 0)
        return false;
    dense_home_enter(flow->home);
    event = &dense.events[dense_pick(DENSE_EVENTS)];
    if (!scene_is_about_streams() && event->handle && event->home == flow->home
            && dense_chance(60)) {
        DO(cuEventRecord(event->handle, flow->handle ? flow->handle : CU_STREAM_PER_THREAD));
        (void)order_submit(flow);
        event->recorded = true;
        event->clock = flow->clock;
    }
    if (dense_chance(25))
        prepare_own(film, flow->home);
    dense_say("stream %d begins a capture to graph %d, mode %d", film->flow, film->graph,
            (int)film->mode);
    flow->busy = flow->filming = film->on = true;
    dense.homes[flow->home].films++;
    dense.homes[flow->home].blocking_films += flow->kind != LANE_NONBLOCKING;
    away = flow->kind == LANE_NONBLOCKING && dense_chance(30)
            && dense_leave(
                    me, film->to_own ? "cuStreamBeginCaptureToGraph" : "cuStreamBeginCapture");
    begin(film, flow);
    if (away)
        dense_back(me);
    flow->busy = false;
    COUNT(dense_captures);
    return true;
}

/* Nobody but its own thread captures on a thread's own stream. */
static bool film_may(const struct hand *me, const struct film *film)
{
    const struct flow *flow = &dense.flows[film->flow];

    return !flow->busy && dense_home_is_usable(flow->home)
            && (flow->hand < 0 || flow->hand == me->number);
}

static void capture_fill(struct flow *flow, const struct dense_block *block, uint32_t value)
{
    CUstream handle = flow->handle ? flow->handle : CU_STREAM_PER_THREAD;
    bool asked_in_vain = dense_chance(20);

    /* An edge of the capture has a port: the driver answers so, and whoever asks about it learns nothing. */
    if (asked_in_vain)
        cu.fail_next("cuStreamGetCaptureInfo", 0, CUDA_ERROR_LOSSY_QUERY);
    DO(cuMemsetD2D32Async(block->ptr, block->bytes / 8 & ~(uint64_t)511, value, 4, 8, handle));
    if (asked_in_vain)
        (void)cu.fail_clear();
}

/* Memory of the graph's own, written and copied to the block. */
static void capture_memory(struct dense_graph *graph, struct flow *flow,
        const struct dense_block *block, uint32_t value)
{
    CUstream handle = flow->handle ? flow->handle : CU_STREAM_PER_THREAD;
    uint64_t pitch = block->bytes / 8 & ~(uint64_t)511;
    CUdeviceptr ptr;
    CUresult result = cu.cuMemAllocAsync(&ptr, block->bytes, handle);

    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        memory_refused(block->device, block->bytes, "cuMemAllocAsync in a capture");
        capture_fill(flow, block, value);
        return;
    }
    world_must(result, "cuMemAllocAsync in a capture", __FILE__, __LINE__);
    cu.born(ptr, block->bytes, handle);
    DO(cuMemsetD2D32Async(ptr, pitch, value, 4, 8, handle));
    DO(cuMemcpyDtoDAsync_v2(block->ptr, ptr, block->bytes, handle));
    cu.dies(ptr, handle);
    DO(cuMemFreeAsync(ptr, handle));
    graph->memory += (block->bytes + MIB * 2 - 1) & ~(MIB * 2 - 1);
    COUNT(memory_nodes);
}

bool act_film_add(struct hand *me)
{
    struct film *film = film_on(true);
    struct flow *flow = film ? &dense.flows[film->flow] : NULL;
    struct dense_block *block;
    uint32_t value = block_value();

    if (!film || film->spoilt || !film_may(me, film)
            || dense.graphs[film->graph].nodes_count == DENSE_NODES)
        return false;
    block = block_for_graph(flow->home);
    if (!block)
        return false;
    for (int i = 0; i < dense.graphs[film->graph].nodes_count; i++)
        if (film->to_own && dense.graphs[film->graph].nodes[i].block == block - dense.blocks)
            return false; /* nothing orders it behind the graph's own node */
    dense_home_enter(flow->home);
    if (dense_chance(20) && (block->bytes <= 8 * MIB || dense.small) && !film->to_own
            && memory_fits(block->device, block->bytes))
        capture_memory(&dense.graphs[film->graph], flow, block, value);
    else
        capture_fill(flow, block, value);
    graph_add(&dense.graphs[film->graph], block, value);
    film->added++;
    COUNT(dense_captured);
    dense_say("block %d captured on %d", (int)(block - dense.blocks), film->flow);
    return true;
}

static void film_over(struct film *film)
{
    struct flow *flow = &dense.flows[film->flow];

    film->on = flow->filming = false;
    dense.homes[flow->home].films--;
    dense.homes[flow->home].blocking_films -= flow->kind != LANE_NONBLOCKING;
}

/* A synchronisation in the middle: the capture is spoilt, and its end says so. */
static void film_spoil(const struct hand *me, struct film *film, const struct flow *flow)
{
    CUresult result;

    film->spoilt = true;
    if (!flow_is_safe(me)) { /* it would spoil another one */
        film->spoilt = false;
        return;
    }
    result = cu.cuStreamSynchronize(flow->handle ? flow->handle : CU_STREAM_PER_THREAD);
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        dense_wrong(
                "a synchronisation in a capture", result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    COUNT(dense_spoilt);
}

static void instantiate(int index)
{
    struct dense_graph *graph = &dense.graphs[index];
    CUresult result = cu.cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);

    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        graph->exec = NULL;
        memory_refused(0, 0, "cuGraphInstantiateWithFlags");
        return;
    }
    world_must(result, "cuGraphInstantiateWithFlags", __FILE__, __LINE__);
    if (dense_chance(40)) {
        DO(cuGraphDestroy(graph->graph));
        graph->graph = NULL;
    }
}

bool act_film_end(struct hand *me)
{
    struct film *film = film_on(true);
    struct flow *flow = film ? &dense.flows[film->flow] : NULL;
    struct dense_graph *graph;
    CUgraph made = NULL;
    CUresult result, want;
    bool away;

    if (!film || !film_may(me, film)
            || (film->mode != CU_STREAM_CAPTURE_MODE_RELAXED && film->hand != me->number))
        return false;
    graph = &dense.graphs[film->graph];
    dense_home_enter(flow->home);
    if (!film->spoilt && dense_chance(12))
        film_spoil(me, film, flow);
    want = film->spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    flow->busy = true; /* the others act while the driver ends it */
    away = dense.further && !film->spoilt && dense_chance(90)
            && dense_leave(me, "cuStreamEndCapture");
    result = cu.cuStreamEndCapture(flow->handle ? flow->handle : CU_STREAM_PER_THREAD, &made);
    if (away)
        dense_back(me);
    if (away)
        COUNT(dense_ends_parked);
    flow->busy = false;
    if (result != want)
        dense_wrong("the end of a capture", result, want);
    dense_say("the capture on %d ends: %d", film->flow, (int)result);
    film_over(film);
    if (film->spoilt && film->to_own)
        graph->stale |= film->added > 0; /* what has come to it is open */
    if (!film->to_own)
        graph->graph = made;
    if (!graph->graph || dense_chance(20))
        graph_drop(film->graph);
    else
        instantiate(film->graph);
    return true;
}

bool act_film_stream_gone(struct hand *me)
{
    struct film *film = film_on(true);
    struct flow *flow = film ? &dense.flows[film->flow] : NULL;
    struct dense_clock next;

    if (!film || !film_may(me, film) || !flow->handle)
        return false;
    next = order_next(flow);
    if (order_is_stalled(&next))
        return false;
    dense_home_enter(flow->home);
    DO(cuStreamDestroy_v2(flow->handle));
    dense_say("stream %d is destroyed in its capture", film->flow);
    film_over(film);
    graph_drop(film->graph);
    flow->state = FLOW_CLOSED;
    dense.figures->captures_dropped++;
    return true;
}

void film_end_own(const struct hand *me)
{
    for (int i = 0; i < DENSE_FILMS; i++) {
        struct film *film = &dense.films[i];
        CUgraph graph;

        if (!film->on || dense.flows[film->flow].hand != me->number)
            continue;
        dense_home_enter(dense.flows[film->flow].home);
        if (cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph) == 0 && !film->to_own)
            DO(cuGraphDestroy(graph));
        film_over(film);
    }
}

void film_end_all(void)
{
    for (int i = 0; i < DENSE_FILMS; i++) {
        struct film *film = &dense.films[i];
        struct flow *flow = &dense.flows[film->flow];

        if (!film->on)
            continue;
        dense_home_enter(flow->home);
        DO(cuStreamDestroy_v2(flow->handle));
        flow->state = FLOW_CLOSED;
        film_over(film);
    }
}

/* ---- graphs by hand ------------------------------------------------------------------------- */

static CUgraphNode add_set(struct dense_graph *graph, struct dense_block *block)
{
    uint32_t value = block_value();
    CUDA_MEMSET_NODE_PARAMS set = set_of(block, value);
    CUgraphNode node;

    DO(cuGraphAddMemsetNode(&node, graph->graph, NULL, 0, &set, dense.homes[graph->home].handle));
    graph_add(graph, block, value);
    return node;
}

/* Its last node names the block no longer, which it alone has named. */
static void graph_unname(struct dense_graph *graph)
{
    int block = graph->nodes[--graph->nodes_count].block;

    dense.blocks[block].graphs &= ~(1U << (graph - dense.graphs));
}

/* The node names another block from now on: no earlier one. */
static void set_other(struct dense_graph *graph, CUgraphNode node)
{
    struct dense_block *block = block_for_graph(graph->home);
    uint32_t value = block_value();
    CUDA_MEMSET_NODE_PARAMS set;

    if (!block)
        return;
    set = set_of(block, value);
    DO(cuGraphMemsetNodeSetParams(node, &set));
    graph_unname(graph);
    graph_add(graph, block, value);
    COUNT(dense_set_params);
}

/* The graph becomes its own clone, whose node is set. */
static void become_clone(struct dense_graph *graph, CUgraphNode node)
{
    CUgraph clone;
    CUgraphNode found;

    DO(cuGraphClone(&clone, graph->graph));
    DO(cuGraphNodeFindInClone(&found, node, clone));
    if (dense_chance(70))
        set_other(graph, found);
    DO(cuGraphDestroy(graph->graph));
    graph->graph = clone;
    COUNT(dense_clones);
}

/* It becomes a node of another graph: as a copy, or moved there. */
static CUgraphNode become_child(struct dense_graph *graph)
{
    CUgraphNodeParams params;
    CUgraph parent;
    CUgraphNode node;
    int moves = dense_chance(50);

    graph->has_copy = !moves;
    DO(cuGraphCreate(&parent, 0));
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    memcpy(&params.reserved1[0], &graph->graph, sizeof(graph->graph));
    memcpy(&params.reserved1[1], &moves, sizeof(moves)); /* the ownership */
    DO(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params));
    if (!moves)
        DO(cuGraphDestroy(graph->graph));
    graph->graph = parent;
    COUNT(dense_children);
    return node;
}

/* The only node inside of a child is set. Of a copy the library may keep what it named first (preload/DESIGN.md). */
static void set_inner(struct dense_graph *graph, CUgraphNode child)
{
    struct dense_block *first = &dense.blocks[graph->nodes[0].block];
    CUgraphNode inner;
    size_t count = 1;
    CUgraph within;

    DO(cuGraphChildGraphNodeGetGraph(child, &within));
    DO(cuGraphGetNodes(within, &inner, &count));
    set_other(graph, inner);
    if (graph->has_copy)
        first->graphs |= 1U << (graph - dense.graphs);
    COUNT(dense_inner);
}

/* A node that copies between host words, until it is told to write a block. */
static CUgraphNode add_host_copy(struct dense_graph *graph)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .srcHost = &dense.pinned[DENSE_CHECKS + 64],
            .dstHost = &dense.pinned[DENSE_CHECKS + 96],
            .WidthInBytes = 64,
            .Height = 1,
            .Depth = 1};
    CUgraphNode node;

    DO(cuGraphAddMemcpyNode(&node, graph->graph, NULL, 0, &copy, dense.homes[graph->home].handle));
    return node;
}

/* What the block holds then is open to the model: it is written next, or not read. */
static void set_host_copy(struct dense_graph *graph, CUgraphNode node, struct dense_block *block)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcHost = &dense.pinned[DENSE_CHECKS + 64],
            .dstDevice = block->ptr,
            .WidthInBytes = 64,
            .Height = 1,
            .Depth = 1};

    DO(cuGraphMemcpyNodeSetParams(node, &copy));
    graph_add(graph, block, 0);
    COUNT(dense_set_params);
}

/* Few, so that what one of them names is named by no other. */
static int graph_count(void)
{
    int count = 0;

    for (int i = 0; i < DENSE_GRAPHS; i++)
        count += dense.graphs[i].used;
    return count;
}

bool act_graph_make(struct hand *me)
{
    int home = dense_chance(80) ? 0 : dense_pick(DENSE_HOMES), index;
    struct dense_block *block;
    struct dense_graph *graph;
    CUgraphNode node, child;
    bool sets = false;

    (void)me;
    if (!dense_home_is_usable(home))
        return false;
    block = block_for_graph(home);
    index = block && !(dense.scene && graph_count() > 2) ? graph_new(home) : -1;
    if (index < 0)
        return false;
    graph = &dense.graphs[index];
    dense_home_enter(home);
    DO(cuGraphCreate(&graph->graph, 0));
    if (dense_chance(30)) {
        set_host_copy(graph, add_host_copy(graph), block);
    } else {
        node = add_set(graph, block);
        sets = true;
        if (dense_chance(25))
            set_other(graph, node);
        if (dense_chance(dense.scene ? 70 : 30))
            become_clone(graph, node);
    }
    if (dense_chance(30)) {
        child = become_child(graph);
        if (sets && dense_chance(50))
            set_inner(graph, child);
    }
    dense_say("graph %d made", index);
    if (dense_chance(60))
        instantiate(index);
    return true;
}

/* ---- a graph that keeps what a hint would release ------------------------------------------ */

enum {
    ANCHORED = 8388608
}; /* a hint releases these when the range "P" ends (oracle.py) */

/* By a capture: one that the library can know little of, or one to a graph that has the node already and is spoilt then. */
static void name_by_capture(struct dense_graph *graph, struct dense_block *block)
{
    bool to_own = dense_chance(50);
    CUgraph made = NULL;
    CUstream stream;

    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (to_own) {
        DO(cuGraphCreate(&graph->graph, 0));
        (void)add_set(graph, block);
        DO(cuStreamBeginCaptureToGraph(
                stream, graph->graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
        if (dense_chance(60))
            (void)cu.cuStreamSynchronize(stream);
        (void)cu.cuStreamEndCapture(stream, &made);
    } else {
        uint32_t value = block_value();
        struct flow flow = {.kind = LANE_NONBLOCKING, .handle = stream};

        DO(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        capture_fill(&flow, block, value);
        graph_add(graph, block, value);
        DO(cuStreamEndCapture(stream, &graph->graph));
    }
    DO(cuStreamDestroy_v2(stream));
}

static void name_by_node(struct dense_graph *graph, struct dense_block *block)
{
    CUgraphNode node;

    DO(cuGraphCreate(&graph->graph, 0));
    if (dense_chance(30)) {
        set_host_copy(graph, add_host_copy(graph), block);
    } else {
        node = add_set(graph, block);
        if (dense_chance(30)) {
            CUgraph clone;

            DO(cuGraphClone(&clone, graph->graph));
            DO(cuGraphNodeFindInClone(&node, node, clone));
            DO(cuGraphDestroy(graph->graph));
            graph->graph = clone;
        }
    }
    if (dense_chance(30))
        (void)become_child(graph);
}

bool act_graph_anchored(struct hand *me)
{
    struct dense_graph *graph;
    struct dense_block *block;
    int index;

    if (!world.anchors || !dense_home_is_usable(0) || !flow_is_safe(me)
            || order_device_is_stalled(0) || !memory_fits(0, ANCHORED))
        return false;
    index = graph_new(0);
    if (index < 0)
        return false;
    graph = &dense.graphs[index];
    (void)nvtxRangePushA("P");
    block = block_sync(0, ANCHORED);
    if (block) {
        block->anchored = true;
        if (dense_chance(50))
            name_by_capture(graph, block);
        else
            name_by_node(graph, block);
        COUNT(anchors);
        dense_say("graph %d keeps block %d", index, (int)(block - dense.blocks));
        instantiate(index);
    } else {
        graph->used = false;
    }
    (void)nvtxRangePop();
    return true;
}

/* ---- a capture that nobody has seen begin --------------------------------------------------- */

static void count_run(void *data)
{
    ++*(volatile uint32_t *)data;
}

/* It begins by an entry that no library knows. What it captures runs at each launch all the same. */
bool act_graph_unseen(struct hand *me)
{
    struct dense_graph *graph;
    CUstream stream;
    int index;

    if (!dense_home_is_usable(0) || !flow_is_safe(me) || dense.away >= 0)
        return false;
    index = graph_new(0);
    if (index < 0)
        return false;
    graph = &dense.graphs[index];
    graph->counts = true;
    dense.pinned[DENSE_CHECKS + index] = 0;
    dense_home_enter(0);
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    world_must(cu.begin_unseen(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "a capture", __FILE__,
            __LINE__);
    DO(cuLaunchHostFunc(stream, count_run, &dense.pinned[DENSE_CHECKS + index]));
    DO(cuStreamEndCapture(stream, &graph->graph));
    DO(cuStreamDestroy_v2(stream));
    instantiate(index);
    COUNT(dense_unseen);
    dense_say("graph %d counts its runs", index);
    return true;
}

/* The graph's own memory comes at its launch, out of what the program has freed before (R81). */
bool act_graph_room(struct hand *me)
{
    uint64_t bytes = dense.memory / 2;
    struct dense_clock all = order_of_home(0);
    CUgraphExec exec;
    CUstream stream;
    CUdeviceptr ptr;
    CUgraph graph;

    if (!dense.small || !memory_is_calm() || !flow_is_safe(me) || !dense_home_is_usable(0)
            || !memory_fits(0, bytes))
        return false;
    dense_home_enter(0);
    DO(cuMemAlloc_v2(&ptr, bytes));
    DO(cuMemFree_v2(ptr));
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    DO(cuMemAllocAsync(&ptr, bytes, stream));
    DO(cuMemsetD32Async(ptr, 1, 1024, stream));
    DO(cuMemFreeAsync(ptr, stream));
    DO(cuStreamEndCapture(stream, &graph));
    DO(cuGraphInstantiateWithFlags(&exec, graph, 0));
    DO(cuGraphLaunch(exec, stream));
    DO(cuStreamSynchronize(stream));
    DO(cuGraphExecDestroy(exec));
    DO(cuGraphDestroy(graph));
    DO(cuStreamDestroy_v2(stream));
    if (dense.barrier)
        order_host_waited(&all);
    COUNT(dense_rooms);
    return true;
}

/* ---- launches ------------------------------------------------------------------------------- */

static bool graph_may_launch(const struct dense_graph *graph, const struct flow *flow)
{
    struct dense_clock next = order_next(flow);

    for (int i = 0; i < graph->nodes_count; i++) {
        const struct dense_block *block = &dense.blocks[graph->nodes[i].block];

        if (block->kind == BLOCK_NONE || block->ptr != graph->nodes[i].ptr
                || !block_may_write(block, flow))
            return false;
    }
    return order_is_before(graph->last, &next);
}

bool act_graph_launch(struct hand *me)
{
    int index = dense_pick(DENSE_GRAPHS);
    struct dense_graph *graph = &dense.graphs[index];
    struct flow *flow = flow_pick(me, graph->home, -1);
    CUresult result;
    CUstream handle;
    bool ptsz;

    if (!graph->used || !graph->exec || graph->stale || graph_is_filmed(index) || !flow
            || !graph_may_launch(graph, flow))
        return false;
    dense_home_enter(flow->home);
    handle = flow_handle(flow, &ptsz);
    if (dense_chance(30)) {
        result = ptsz ? cu.cuGraphUpload_ptsz(graph->exec, handle)
                      : cu.cuGraphUpload(graph->exec, handle);
        if (result == 0)
            (void)order_submit(flow);
        else if (result == CUDA_ERROR_OUT_OF_MEMORY)
            memory_refused(dense.homes[graph->home].device, 2 * MIB, "cuGraphUpload");
        else
            world_must(result, "cuGraphUpload", __FILE__, __LINE__);
    }
    result = ptsz ? cu.cuGraphLaunch_ptsz(graph->exec, handle)
                  : cu.cuGraphLaunch(graph->exec, handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        memory_refused(dense.homes[graph->home].device, 2 * MIB, "cuGraphLaunch");
        return true;
    }
    world_must(result, "cuGraphLaunch", __FILE__, __LINE__);
    graph->last = order_submit(flow);
    for (int i = 0; i < graph->nodes_count; i++)
        block_written(&dense.blocks[graph->nodes[i].block], graph->last, graph->nodes[i].value);
    if (graph->counts)
        check_expect(DENSE_CHECKS + index, ++graph->runs, graph->last, "runs of a host function");
    COUNT(dense_launches);
    dense_say("graph %d launched on %d", index, flow_index(flow));
    return true;
}

bool act_graph_drop(struct hand *me)
{
    int index = dense_pick(DENSE_GRAPHS);

    (void)me;
    if (!dense.graphs[index].used || graph_is_filmed(index)
            || !order_is_known(dense.graphs[index].last))
        return false;
    graph_drop(index);
    return true;
}

/* ---- many captures at once ------------------------------------------------------------------ */

bool act_crowd_begin(struct hand *me)
{
    int count = dense_chance(15) ? DENSE_CROWD : 6 + dense_pick(10);

    (void)me;
    if (dense.crowd_streams_count || !dense_home_is_usable(0))
        return false;
    dense_home_enter(0);
    for (int i = 0; i < count; i++)
        DO(cuStreamCreate(&dense.crowd_streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < count; i++)
        DO(cuStreamBeginCapture_v2(dense.crowd_streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    dense.crowd_streams_count = count;
    dense.crowd_home = 0;
    dense.homes[0].films++;
    COUNT(dense_crowds);
    dense_say("%d captures begin", count);
    return true;
}

bool act_crowd_end(struct hand *me)
{
    CUgraph graph;

    (void)me;
    if (!dense.crowd_streams_count)
        return false;
    dense_home_enter(0);
    for (int i = 0; i < dense.crowd_streams_count; i++) {
        if (dense_chance(80)) {
            DO(cuStreamEndCapture(dense.crowd_streams[i], &graph));
            DO(cuGraphDestroy(graph));
        }
        DO(cuStreamDestroy_v2(dense.crowd_streams[i]));
    }
    dense.crowd_streams_count = 0;
    dense.homes[0].films--;
    limbo_without_graph(CROWD_BIT);
    dense_say("the crowd of captures ends");
    return true;
}

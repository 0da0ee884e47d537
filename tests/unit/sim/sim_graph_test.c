/* SPDX-License-Identifier: MIT */
/* Graphs: launches in any legal order, nodes of every kind, changes, clones, what the oracle sees of them. */
#include "tests/unit/sim/sim_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static CUgraph new_graph(void)
{
    CUgraph graph;

    CU(cuGraphCreate(&graph, 0));
    return graph;
}

static CUgraphExec instance(CUgraph graph)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static CUgraphNode set_node(
        CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dst, unsigned value)
{
    CUDA_MEMSET_NODE_PARAMS params = {
            .dst = dst, .value = value, .elementSize = 1, .width = 1, .height = 1};
    CUgraphNode node;

    CU(cuGraphAddMemsetNode(&node, graph, deps, count, &params, NULL));
    return node;
}

static CUgraphNode fill_node(
        CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dst, uint32_t seed)
{
    uint64_t bytes = 4096;
    void *args[] = {&dst, &bytes, &seed};
    CUDA_KERNEL_NODE_PARAMS params = {.func = sim_function("kedge_fill"),
            .gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 32,
            .blockDimY = 1,
            .blockDimZ = 1,
            .kernelParams = args};
    CUgraphNode node;

    CU(cuGraphAddKernelNode_v2(&node, graph, deps, count, &params));
    return node;
}

static unsigned byte_at(CUdeviceptr ptr)
{
    unsigned char value;

    CU(cuMemcpyDtoH_v2(&value, ptr, 1));
    return value;
}

/* ---- order ---- */

/* Bits of the final values that were seen; the seed is the schedule's. */
static void print_who_was_last(void)
{
    CUgraph graph;
    CUgraphNode nodes[3];
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    for (unsigned i = 0; i < 3; i++)
        nodes[i] = set_node(graph, NULL, 0, ptr, i + 1);
    (void)nodes;
    CU(cuGraphLaunch(instance(graph), sim_stream(0)));
    CU(cuCtxSynchronize());
    _exit(10 + (int)byte_at(ptr));
}

TEST(r60_branches_of_a_graph_run_in_any_order_by_seed)
{
    int seen[4] = {0};

    sim_env("SIMCUDA_SCHED", "random");
    for (int seed = 0; seed < 40 && !(seen[1] && seen[2] && seen[3]); seed++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", seed);
        sim_env("SIMCUDA_SEED", text);
        int status = sim_in_child(print_who_was_last);
        REQUIRE(status > 10 && status < 14);
        seen[status - 10]++;
    }
    for (int i = 1; i < 4; i++)
        CHECK_GT(seen[i], 0); /* each of the three was the last one under some seed */
}

/* a ─► b ─► d,  a ─► c ─► d: whatever the order of the branches, the edges hold. */
static void check_diamond(void)
{
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode a, b, c, d;
    CUgraphExec exec;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    d = set_node(graph, NULL, 0, ptr, 4); /* made first, runs last */
    a = set_node(graph, NULL, 0, ptr, 1);
    b = set_node(graph, &a, 1, ptr, 2);
    c = set_node(graph, &a, 1, ptr + 1, 3);
    CUgraphNode from[2] = {b, c}, to[2] = {d, d};
    CU(cuGraphAddDependencies(graph, from, to, 2));
    exec = instance(graph);
    for (int i = 0; i < 5; i++) {
        CU(cuMemsetD8_v2(ptr, 0, 2));
        CU(cuGraphLaunch(exec, sim_stream(0)));
        CU(cuCtxSynchronize());
        CHECK_EQ(byte_at(ptr), 4);
        CHECK_EQ(byte_at(ptr + 1), 3);
    }
}

TEST(edges_hold_in_every_schedule_also_those_to_earlier_nodes)
{
    static const char *const schedules[] = {"eager", "lazy", "random"};

    for (int i = 0; i < 9; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        sim_env("SIMCUDA_SEED", text);
        sim_env("SIMCUDA_SCHED", schedules[i % 3]);
        CHECK_EQ(sim_in_child(check_diamond), 0);
    }
}

TEST(edges_that_go_round_make_no_instance)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode a, b;
    CUgraphExec exec;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    a = set_node(graph, NULL, 0, ptr, 1);
    b = set_node(graph, &a, 1, ptr, 2);
    CHECK_EQ(cuGraphAddDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE); /* exists */
    CHECK_EQ(cuGraphAddDependencies(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphAddDependencies(graph, &b, &a, 1));
    CHECK_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    CU(cuGraphRemoveDependencies(graph, &b, &a, 1));
    CHECK_EQ(cuGraphRemoveDependencies(graph, &b, &a, 1), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphInstantiateWithParams(&exec, graph, &params));
    CHECK_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
}

TEST(work_behind_a_launch_comes_behind_all_branches)
{
    CUdeviceptr ptr;
    CUgraph graph;
    CUstream s, other;
    CUevent event;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    for (unsigned i = 0; i < 4; i++)
        (void)set_node(graph, NULL, 0, ptr + i, 7);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    other = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuGraphLaunch(instance(graph), s));
    CU(cuMemcpyDtoDAsync_v2(ptr + 8, ptr, 4, s));
    CU(cuEventRecord(event, s));
    CU(cuStreamWaitEvent(other, event, 0));
    CU(cuMemcpyDtoDAsync_v2(ptr + 16, ptr + 8, 4, other));
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    CU(cuStreamSynchronize(other));
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(byte_at(ptr + 16 + i), 7);
}

/* ---- what the oracle sees ---- */

static CUdeviceptr reused;

/* A block is freed and given to another stream; between them stands an event of one branch only. */
static void reuse_behind_one_branch(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUevent event;
    CUstream s, t;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    reused = sim_alloc(4 * MIB);
    simcuda_witness_birth(reused, 4 * MIB, SIMCUDA_NO_STREAM);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    graph = new_graph();
    (void)fill_node(graph, NULL, 0, reused, 5); /* the branch that the event leaves out */
    node = set_node(graph, NULL, 0, reused, 1);
    CU(cuGraphAddEventRecordNode(&node, graph, &node, 1, event));
    CU(cuGraphLaunch(instance(graph), s));
    simcuda_witness_death(reused, s);
    CU(cuStreamWaitEvent(t, event, 0));
    simcuda_witness_birth(reused, 4 * MIB, t);
}

TEST(r60_the_oracle_fires_when_a_branch_of_a_graph_was_forgotten)
{
    CHECK_EQ(sim_in_child(reuse_behind_one_branch), SIMCUDA_ORACLE_STATUS);
}

static void reuse_behind_the_graph(void)
{
    CUgraph graph;
    CUevent event;
    CUstream s, t;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    reused = sim_alloc(4 * MIB);
    simcuda_witness_birth(reused, 4 * MIB, SIMCUDA_NO_STREAM);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    graph = new_graph();
    (void)set_node(graph, NULL, 0, reused, 1);
    (void)fill_node(graph, NULL, 0, reused, 5);
    CU(cuGraphLaunch(instance(graph), s));
    simcuda_witness_death(reused, s);
    CU(cuEventRecord(event, s));
    CU(cuStreamWaitEvent(t, event, 0));
    simcuda_witness_birth(reused, 4 * MIB, t);
    CHECK_EQ(sim_figures().cross_stream_reuses, 1);
}

TEST(r60_an_event_behind_the_launch_covers_every_branch)
{
    CHECK_EQ(sim_in_child(reuse_behind_the_graph), 0);
}

static void reuse_under_a_copy_node(void)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .WidthInBytes = 100,
            .Height = 1,
            .Depth = 1};
    CUgraph graph;
    CUgraphNode node;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    reused = sim_alloc(4 * MIB);
    copy.srcDevice = reused + MIB;
    copy.dstDevice = sim_alloc(4 * MIB);
    simcuda_witness_birth(reused, 4 * MIB, SIMCUDA_NO_STREAM);
    graph = new_graph();
    CU(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, NULL));
    CU(cuGraphLaunch(instance(graph), sim_stream(0)));
    simcuda_witness_death(reused, SIMCUDA_NO_STREAM);
    simcuda_witness_birth(reused, 4 * MIB, SIMCUDA_NO_STREAM);
}

TEST(r60_the_oracle_sees_the_copies_of_a_graph)
{
    CHECK_EQ(sim_in_child(reuse_under_a_copy_node), SIMCUDA_ORACLE_STATUS);
}

/* ---- child graphs and events ---- */

TEST(a_child_graph_runs_between_its_neighbours)
{
    CUdeviceptr ptr;
    CUgraph graph, child, inner;
    CUgraphNode before, node, after, a, found;
    CUgraphExec exec;
    size_t count = 0;

    sim_env("SIMCUDA_SCHED", "random");
    sim_start();
    ptr = sim_alloc(4096);
    child = new_graph();
    a = set_node(child, NULL, 0, ptr, 2);
    (void)set_node(child, NULL, 0, ptr + 1, 2);
    graph = new_graph();
    before = set_node(graph, NULL, 0, ptr, 1);
    CU(cuGraphAddChildGraphNode(&node, graph, &before, 1, child));
    after = set_node(graph, &node, 1, ptr + 1, 3);
    (void)after;
    CU(cuGraphChildGraphNodeGetGraph(node, &inner));
    CHECK(inner != child); /* the node has a copy */
    CU(cuGraphGetNodes(inner, NULL, &count));
    CHECK_EQ(count, 2);
    CU(cuGraphNodeFindInClone(&found, a, inner));
    CHECK_EQ(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, inner, 0), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphDestroy(child));
    exec = instance(graph);
    for (int i = 0; i < 10; i++) {
        CU(cuMemsetD8_v2(ptr, 0, 2));
        CU(cuGraphLaunch(exec, sim_stream(0)));
        CU(cuCtxSynchronize());
        CHECK_EQ(byte_at(ptr), 2);
        CHECK_EQ(byte_at(ptr + 1), 3);
    }
    /* another graph of the same shape takes its place in the instance */
    child = new_graph();
    (void)set_node(child, NULL, 0, ptr, 8);
    CHECK_EQ(cuGraphExecChildGraphNodeSetParams(exec, node, child), CUDA_ERROR_INVALID_VALUE);
    (void)set_node(child, NULL, 0, ptr + 2, 9);
    CU(cuGraphExecChildGraphNodeSetParams(exec, node, child));
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr), 8);
    CHECK_EQ(byte_at(ptr + 2), 9);
}

TEST(a_launch_on_a_capturing_stream_becomes_a_child_graph)
{
    CUdeviceptr ptr;
    CUgraph graph, outer;
    CUgraphNode node;
    CUgraphNodeType type;
    size_t count = 1;
    CUgraphExec exec;
    CUstream s;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    (void)set_node(graph, NULL, 0, ptr, 6);
    (void)set_node(graph, NULL, 0, ptr + 1, 6);
    exec = instance(graph);
    s = sim_stream(0);
    CU(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuGraphLaunch(exec, s));
    CU(cuStreamEndCapture(s, &outer));
    CU(cuGraphGetNodes(outer, &node, &count));
    CU(cuGraphNodeGetType(node, &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
    CHECK_EQ(byte_at(ptr), 0);
    CU(cuGraphLaunch(instance(outer), s));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr), 6);
    CHECK_EQ(byte_at(ptr + 1), 6);
}

TEST(event_nodes_record_and_wait_at_each_launch)
{
    CUdeviceptr ptr;
    CUgraph producer, consumer, captured;
    CUgraphNode node;
    CUgraphNodeType type;
    CUevent event, asked;
    CUstream s, t;
    size_t count = 2;
    CUgraphNode nodes[2];

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    ptr = sim_alloc(4096);
    s = sim_stream(CU_STREAM_NON_BLOCKING);
    t = sim_stream(CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    producer = new_graph();
    node = set_node(producer, NULL, 0, ptr, 5);
    CU(cuGraphAddEventRecordNode(&node, producer, &node, 1, event));
    CU(cuGraphEventRecordNodeGetEvent(node, &asked));
    CHECK_EQ(asked, event);
    CHECK_EQ(cuGraphEventWaitNodeGetEvent(node, &asked), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddEventRecordNode(&node, producer, NULL, 0, (CUevent)&count),
            CUDA_ERROR_INVALID_HANDLE);
    CU(cuGraphLaunch(instance(producer), s));
    CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    /* the consumer is captured: external waits and records are nodes */
    CHECK_EQ(cuStreamWaitEvent(t, event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    CU(cuStreamBeginCapture_v2(t, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuStreamWaitEvent(t, event, CU_EVENT_WAIT_EXTERNAL));
    CU(cuMemcpyDtoDAsync_v2(ptr + 1, ptr, 1, t));
    CU(cuStreamEndCapture(t, &consumer));
    CU(cuGraphGetNodes(consumer, nodes, &count));
    CU(cuGraphNodeGetType(nodes[0], &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    CU(cuGraphLaunch(instance(consumer), t));
    CU(cuStreamSynchronize(t));
    CHECK_EQ(byte_at(ptr + 1), 5);
    CHECK_EQ(cuEventQuery(event), CUDA_SUCCESS);
    CU(cuStreamBeginCapture_v2(t, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuEventRecordWithFlags(event, t, CU_EVENT_RECORD_EXTERNAL));
    CU(cuStreamEndCapture(t, &captured));
    count = 1;
    CU(cuGraphGetNodes(captured, nodes, &count));
    CU(cuGraphNodeGetType(nodes[0], &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

/* ---- parameters ---- */

static CUDA_MEMCPY3D copy_of_a_byte(CUdeviceptr dst, CUdeviceptr src)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = src,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstDevice = dst,
            .WidthInBytes = 1,
            .Height = 1,
            .Depth = 1};
}

TEST(nodes_tell_their_parameters)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy, asked;
    CUDA_HOST_NODE_PARAMS host = {0};
    CUdeviceptr ptr, shown;
    CUgraph graph;
    CUgraphNode fill, node, copy_node;

    sim_start();
    ptr = sim_alloc(64 << 10);
    graph = new_graph();
    fill = fill_node(graph, NULL, 0, ptr, 5);
    CU(cuGraphKernelNodeGetParams_v2(fill, &kernel));
    CHECK_EQ(kernel.func, sim_function("kedge_fill"));
    CHECK_EQ(kernel.blockDimX, 32);
    memcpy(&shown, kernel.kernelParams[0], sizeof(shown));
    CHECK_EQ(shown, ptr);
    node = set_node(graph, NULL, 0, ptr + 8192, 1);
    CU(cuGraphMemsetNodeGetParams(node, &set));
    CHECK_EQ(set.dst, ptr + 8192);
    CHECK_EQ(set.value, 1);
    CHECK_EQ(cuGraphMemsetNodeGetParams(fill, &set), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphHostNodeGetParams(node, &host), CUDA_ERROR_INVALID_VALUE);
    copy = copy_of_a_byte(ptr + 16384, ptr + 8192);
    CU(cuGraphAddMemcpyNode(&copy_node, graph, &node, 1, &copy, NULL));
    CU(cuGraphMemcpyNodeGetParams(copy_node, &asked));
    CHECK_EQ(asked.srcDevice, ptr + 8192);
    CHECK_EQ(asked.dstDevice, ptr + 16384);
    CHECK_EQ(asked.WidthInBytes, 1);
}

TEST(nodes_and_their_instances_take_parameters)
{
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode node, copy_node;
    CUgraphExec exec;

    sim_start();
    ptr = sim_alloc(64 << 10);
    graph = new_graph();
    node = set_node(graph, NULL, 0, ptr + 8192, 1);
    copy = copy_of_a_byte(ptr + 16384, ptr + 8192);
    CU(cuGraphAddMemcpyNode(&copy_node, graph, &node, 1, &copy, NULL));
    CU(cuGraphMemsetNodeGetParams(node, &set));
    set.value = 2;
    CU(cuGraphMemsetNodeSetParams(node, &set));
    set.elementSize = 3;
    CHECK_EQ(cuGraphMemsetNodeSetParams(node, &set), CUDA_ERROR_INVALID_VALUE);
    set.elementSize = 1;
    exec = instance(graph);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr + 16384), 2);
    /* in the instance only, by the form that all types share */
    memcpy(&any.memset, &set, sizeof(set));
    any.memset.value = 3;
    CU(cuGraphExecNodeSetParams(exec, node, &any));
    CHECK_EQ(cuGraphExecNodeSetParams(exec, copy_node, &any), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr + 16384), 3);
    CU(cuGraphMemsetNodeGetParams(node, &set));
    CHECK_EQ(set.value, 2);
    any.memset.value = 4;
    CU(cuGraphNodeSetParams(node, &any));
    CHECK_EQ(cuGraphNodeSetParams(copy_node, &any), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphLaunch(instance(graph), NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr + 16384), 4);
}

TEST(a_node_of_an_instance_can_be_switched_off)
{
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode first, second, empty;
    CUgraphExec exec;
    unsigned is_enabled = 9;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    first = set_node(graph, NULL, 0, ptr, 1);
    second = set_node(graph, &first, 1, ptr, 2);
    CU(cuGraphAddEmptyNode(&empty, graph, &second, 1));
    exec = instance(graph);
    CU(cuGraphNodeSetEnabled(exec, second, 0));
    CU(cuGraphNodeGetEnabled(exec, second, &is_enabled));
    CHECK_EQ(is_enabled, 0);
    CHECK_EQ(cuGraphNodeSetEnabled(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr), 1);
}

/* ---- changes of the whole ---- */

static CUgraph two_sets(CUdeviceptr ptr, unsigned value)
{
    CUgraph graph = new_graph();
    CUgraphNode first = set_node(graph, NULL, 0, ptr, value);

    (void)set_node(graph, &first, 1, ptr + 1, value);
    return graph;
}

TEST(an_instance_takes_over_a_graph_of_the_same_shape)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphExecUpdateResult result;
    CUgraphNode bad;
    CUdeviceptr ptr;
    CUgraph graph, other;
    CUgraphExec exec;

    sim_start();
    ptr = sim_alloc(64 << 10);
    exec = instance(two_sets(ptr, 1));
    CU(cuGraphExecUpdate_v2(exec, two_sets(ptr, 2), &info));
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr + 1), 2);
    other = new_graph(); /* the same nodes without the edge */
    (void)set_node(other, NULL, 0, ptr, 3);
    (void)set_node(other, NULL, 0, ptr, 3);
    CHECK_EQ(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    graph = new_graph();
    bad = set_node(graph, NULL, 0, ptr, 3);
    (void)fill_node(graph, &bad, 1, ptr, 3);
    CHECK_EQ(cuGraphExecUpdate(exec, graph, &bad, &result), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQ(result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    CHECK(bad != NULL);
    CHECK_EQ(cuGraphExecUpdate_v2(exec, new_graph(), &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CU(cuGraphLaunch(exec, NULL)); /* as it was before */
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr + 1), 2);
}

TEST(a_clone_is_a_graph_of_its_own)
{
    CUgraphNode nodes[2], found, from, to, near;
    CUgraphEdgeData edge;
    CUdeviceptr ptr;
    CUgraph graph, clone, memory;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
            .bytesize = MIB};
    size_t count = 2;

    sim_start();
    ptr = sim_alloc(4096);
    graph = two_sets(ptr, 5);
    CU(cuGraphGetNodes(graph, nodes, &count));
    CU(cuGraphClone(&clone, graph));
    CU(cuGraphNodeFindInClone(&found, nodes[1], clone));
    CHECK_EQ(cuGraphNodeFindInClone(&found, found, graph), CUDA_ERROR_INVALID_VALUE);
    count = 0;
    CU(cuGraphGetEdges(clone, NULL, NULL, &count));
    CHECK_EQ(count, 1);
    CU(cuGraphGetEdges_v2(clone, &from, &to, &edge, &count));
    CHECK_EQ(to, found);
    CHECK_EQ(edge.type, 0);
    CU(cuGraphNodeGetDependencies(to, &near, &count));
    CHECK_EQ(near, from);
    CU(cuGraphNodeGetDependentNodes(from, &near, &count));
    CHECK_EQ(near, to);
    CHECK_EQ(cuGraphGetEdges(clone, &from, NULL, &count), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphDestroy(graph));
    CU(cuGraphDestroyNode(found));
    CHECK_EQ(cuGraphDestroyNode(found), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphGetEdges(clone, NULL, NULL, &count));
    CHECK_EQ(count, 0);
    CU(cuGraphLaunch(instance(clone), NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr), 5);
    CHECK_EQ(byte_at(ptr + 1), 0);
    /* memory nodes bind a graph to one life */
    memory = new_graph();
    CU(cuGraphAddMemAllocNode(&found, memory, NULL, 0, &params));
    CHECK_EQ(cuGraphClone(&clone, memory), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphDestroyNode(found), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphAddChildGraphNode(&found, new_graph(), NULL, 0, memory),
            CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- memory nodes by hand ---- */

TEST(memory_nodes_of_the_shared_form_allocate_use_and_free)
{
    CUgraphNodeParams alloc = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC},
                      release = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    CUdeviceptr out;
    CUgraph graph;
    CUgraphNode first, use, copy_node, last;
    CUDA_MEMCPY3D copy;
    CUgraphExec exec;
    cuuint64_t used;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    out = sim_alloc(4096);
    graph = new_graph();
    alloc.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.alloc.bytesize = 4 * MIB;
    CU(cuGraphAddNode_v2(&first, graph, NULL, NULL, 0, &alloc));
    use = set_node(graph, &first, 1, alloc.alloc.dptr, 9);
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = alloc.alloc.dptr,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstDevice = out,
            .WidthInBytes = 1,
            .Height = 1,
            .Depth = 1};
    CU(cuGraphAddMemcpyNode(&copy_node, graph, &use, 1, &copy, NULL));
    release.free.dptr = alloc.alloc.dptr;
    CU(cuGraphAddNode(&last, graph, &copy_node, 1, &release));
    release.free.dptr = out;
    CHECK_EQ(cuGraphAddNode(&last, graph, NULL, 0, &release), CUDA_ERROR_INVALID_VALUE);
    alloc.alloc.poolProps.location.id = 7;
    CHECK_EQ(cuGraphAddNode(&last, graph, NULL, 0, &alloc), CUDA_ERROR_INVALID_DEVICE);
    exec = instance(graph);
    for (int i = 0; i < 3; i++) {
        CU(cuMemsetD8_v2(out, 0, 1));
        CU(cuGraphLaunch(exec, sim_stream(0)));
        CU(cuCtxSynchronize());
        CHECK_EQ(byte_at(out), 9);
        CU(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
        CHECK_EQ(used, 0);
    }
}

/* A branch uses the memory that another one frees: found out in some order. */
static void use_beside_the_free(void)
{
    CUgraphNodeParams alloc = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraph graph;
    CUgraphNode first, last;

    sim_start();
    graph = new_graph();
    alloc.alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.alloc.bytesize = 4 * MIB;
    CU(cuGraphAddNode(&first, graph, NULL, 0, &alloc));
    CU(cuGraphAddMemFreeNode(&last, graph, &first, 1, alloc.alloc.dptr));
    (void)set_node(graph, &first, 1, alloc.alloc.dptr, 1);
    CU(cuGraphLaunch(instance(graph), sim_stream(0)));
    _exit(cuCtxSynchronize() == CUDA_SUCCESS ? 10 : 11);
}

TEST(r60_memory_of_a_graph_that_one_branch_frees_under_another_is_found_out)
{
    int seen[2] = {0};

    sim_env("SIMCUDA_SCHED", "random");
    for (int seed = 0; seed < 30 && !(seen[0] && seen[1]); seed++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", seed);
        sim_env("SIMCUDA_SEED", text);
        int status = sim_in_child(use_beside_the_free);
        REQUIRE(status == 10 || status == 11);
        seen[status - 10]++;
    }
    CHECK_GT(seen[0], 0);
    CHECK_GT(seen[1], 0);
}

/* Members of the union that kedge does not look into. */
static CUgraphNodeParams child_params(CUgraph child, CUgraphChildGraphNodeOwnership ownership)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUDA_CHILD_GRAPH_NODE_PARAMS member = {child, ownership};

    memcpy(params.reserved1, &member, sizeof(member));
    return params;
}

static CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event)
{
    CUgraphNodeParams params = {.type = type};

    memcpy(params.reserved1, &event, sizeof(event));
    return params;
}

TEST(child_graphs_and_events_of_the_shared_form)
{
    CUgraphNodeParams params;
    CUgraph graph, child, moved, asked;
    CUgraphNode node, moved_node, record_node;
    CUgraphExec exec;
    CUevent event, other;
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    child = new_graph();
    (void)set_node(child, NULL, 0, ptr, 1);
    params = child_params(child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
    CU(cuGraphAddNode(&node, graph, NULL, 0, &params));
    moved = new_graph();
    (void)set_node(moved, NULL, 0, ptr + 1, 2);
    params = child_params(moved, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    CU(cuGraphAddNode(&moved_node, graph, &node, 1, &params));
    CU(cuGraphChildGraphNodeGetGraph(moved_node, &asked));
    CHECK_EQ(asked, moved);
    CHECK_EQ(cuGraphDestroy(moved), CUDA_ERROR_INVALID_VALUE); /* it is the node's now */
    CHECK_EQ(cuGraphAddNode(&moved_node, new_graph(), NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params = child_params(graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
    CHECK_EQ(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    CU(cuGraphAddNode(&record_node, graph, &moved_node, 1, &params));
    params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    CU(cuGraphAddNode(&node, graph, &record_node, 1, &params));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, other);
    CU(cuGraphExecNodeSetParams(exec, record_node, &params));
    CHECK_EQ(cuGraphExecNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, (CUevent)(uintptr_t)ptr);
    CHECK_EQ(cuGraphNodeSetParams(record_node, &params), CUDA_ERROR_INVALID_HANDLE);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQ(byte_at(ptr), 1);
    CHECK_EQ(byte_at(ptr + 1), 2);
    CHECK_EQ(sim_figures().event_records, 1);
    CU(cuEventDestroy_v2(other));
    CHECK_EQ(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_HANDLE); /* its event is gone */
}

/* cuda.h: what is moved is neither instantiated, destroyed nor added elsewhere, and gets no more memory nodes. */
TEST(a_child_graph_that_was_moved_is_its_parents)
{
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {.bytesize = 4096};
    CUgraphExecUpdateResultInfo info;
    CUgraphNodeParams params;
    CUgraph graph, other, moved, asked;
    CUgraphNode node, alloc, inside;
    CUgraphExec exec;
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    other = new_graph();
    moved = new_graph();
    memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuGraphAddMemAllocNode(&alloc, moved, NULL, 0, &memory));
    inside = set_node(moved, &alloc, 1, memory.dptr, 1);
    CU(cuGraphAddMemFreeNode(&node, moved, &inside, 1, memory.dptr));
    params = child_params(moved, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
    CHECK_EQ(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    params = child_params(moved, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    CU(cuGraphAddNode(&node, graph, NULL, 0, &params));
    CU(cuGraphChildGraphNodeGetGraph(node, &asked));
    CHECK_EQ(asked, moved);
    CHECK_EQ(cuGraphDestroy(moved), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, moved, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddNode(&node, other, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddChildGraphNode(&node, other, NULL, 0, moved), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphAddMemAllocNode(&node, moved, NULL, 0, &memory), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphAddMemFreeNode(&node, moved, NULL, 0, memory.dptr), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphClone(&asked, graph), CUDA_ERROR_NOT_SUPPORTED); /* it has memory inside */
    exec = instance(graph);
    CHECK_EQ(cuGraphExecUpdate_v2(exec, moved, &info), CUDA_ERROR_INVALID_VALUE);
    (void)set_node(moved, &inside, 1, ptr, 3); /* other nodes it gets */
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CHECK_EQ(cuGraphDestroy(moved), CUDA_ERROR_INVALID_VALUE); /* gone with its parent */
}

/* ---- edges with ports ---- */

static const CUgraphEdgeData port = {.from_port = 1, .type = 1}, started = {.from_port = 2};

static CUresult add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to, CUgraphEdgeData edge)
{
    return cuGraphAddDependencies_v2(graph, &from, &to, &edge, 1);
}

static bool is_port(CUgraphEdgeData edge)
{
    return memcmp(&edge, &port, sizeof(port)) == 0;
}

TEST(edges_have_ports_that_older_questions_cannot_tell)
{
    CUgraphNode nodes[3], from[3], to[3];
    CUgraphEdgeData edges[3], plain = {0};
    size_t count = 3, none = 0;
    CUdeviceptr ptr;
    CUgraph graph;

    sim_start();
    ptr = sim_alloc(64 << 10);
    graph = new_graph();
    nodes[0] = fill_node(graph, NULL, 0, ptr, 1);
    nodes[1] = fill_node(graph, NULL, 0, ptr + 8192, 2);
    nodes[2] = set_node(graph, NULL, 0, ptr + 16384, 3);
    CU(add_edge(graph, nodes[1], nodes[2], plain));
    CU(cuGraphGetEdges(graph, from, to, &count)); /* nothing is left out */
    CU(add_edge(graph, nodes[0], nodes[1], port));
    CHECK_EQ(add_edge(graph, nodes[0], nodes[1], plain), CUDA_ERROR_INVALID_VALUE); /* it exists */
    count = 3;
    CHECK_EQ(cuGraphGetEdges(graph, from, to, &count), CUDA_ERROR_LOSSY_QUERY);
    CHECK_EQ(cuGraphGetEdges_v2(graph, from, to, NULL, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuGraphGetEdges(graph, NULL, NULL, &none)); /* how many there are may be asked */
    CHECK_EQ(none, 2);
    CHECK_EQ(cuGraphGetEdges_v2(graph, NULL, NULL, edges, &count), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphGetEdges_v2(graph, from, to, edges, &count));
    CHECK_EQ(count, 2);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(is_port(edges[i]), from[i] == nodes[0]);
    count = 3;
    CHECK_EQ(cuGraphNodeGetDependencies(nodes[1], from, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuGraphNodeGetDependencies_v2(nodes[1], from, edges, &count));
    CHECK(count == 1 && is_port(edges[0]));
    CU(cuGraphNodeGetDependencies(nodes[2], from, &count)); /* a plain one */
    count = 3;
    CHECK_EQ(cuGraphNodeGetDependentNodes(nodes[0], from, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuGraphNodeGetDependentNodes_v2(nodes[0], from, edges, &count));
    CHECK(count == 1 && is_port(edges[0]) && from[0] == nodes[1]);
    /* An edge goes with its own data, and is only found by them. */
    CHECK_EQ(cuGraphRemoveDependencies(graph, &nodes[0], &nodes[1], 1), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphRemoveDependencies_v2(graph, &nodes[0], &nodes[1], &port, 1));
    count = 3;
    CU(cuGraphGetEdges(graph, from, to, &count));
    CHECK_EQ(count, 1);
}

TEST(ports_belong_to_kernels)
{
    const CUgraphEdgeData bad[] = {{.from_port = 1}, {.type = 1}, {.from_port = 3, .type = 1},
            {.from_port = 1, .type = 2}, {.to_port = 1}, {.reserved = {1}}};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUgraphNode a, b, set, node, found[2];
    CUgraphEdgeData edges[2];
    CUgraph graph, clone;
    size_t count = 2;
    CUdeviceptr ptr;

    sim_start();
    ptr = sim_alloc(64 << 10);
    graph = new_graph();
    a = fill_node(graph, NULL, 0, ptr, 1);
    b = fill_node(graph, NULL, 0, ptr + 8192, 2);
    set = set_node(graph, NULL, 0, ptr + 16384, 3);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(add_edge(graph, a, b, bad[i]), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add_edge(graph, set, a, port), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add_edge(graph, a, set, port), CUDA_ERROR_INVALID_VALUE); /* between kernels only */
    CU(add_edge(graph, a, set, started));
    CHECK_EQ(cuGraphAddNode_v2(&node, graph, &a, &port, 1, &params), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphAddNode_v2(&node, graph, &a, &started, 1, &params));
    CHECK_EQ(cuGraphNodeGetDependencies(node, found, &count), CUDA_ERROR_LOSSY_QUERY);
    CU(cuGraphClone(&clone, graph));
    CU(cuGraphNodeFindInClone(&node, set, clone));
    CU(cuGraphNodeGetDependencies_v2(node, found, edges, &count));
    CHECK(count == 1 && edges[0].from_port == 2);
    CU(cuGraphDestroyNode(a)); /* its edges go with it */
    count = 2;
    CU(cuGraphNodeGetDependencies(set, found, &count));
    CHECK_EQ(count, 0);
}

/* ---- user objects ---- */

static int destroyed;
static CUresult destroyer_result;

static void destroy_it(void *data)
{
    size_t bytes;

    destroyed += *(int *)data;
    destroyer_result = cuMemGetInfo_v2(&bytes, &bytes);
}

TEST(user_objects_live_as_long_as_who_holds_them)
{
    static int one = 1;
    CUuserObject object;
    CUgraph graph, clone;
    CUgraphExec exec;
    CUstream s;

    sim_env("SIMCUDA_SCHED", "lazy");
    sim_start();
    s = sim_stream(0);
    CHECK_EQ(cuUserObjectCreate(&object, &one, destroy_it, 1, 0), CUDA_ERROR_INVALID_VALUE);
    CU(cuUserObjectCreate(&object, &one, destroy_it, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CU(cuUserObjectRetain(object, 1));
    CU(cuUserObjectRelease(object, 2));
    graph = two_sets(sim_alloc(4096), 1);
    CU(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE)); /* the last one */
    CHECK_EQ(cuGraphReleaseUserObject(graph, object, 2), CUDA_ERROR_INVALID_VALUE);
    CU(cuGraphClone(&clone, graph));
    exec = instance(graph);
    CU(cuGraphDestroy(graph));
    CU(cuGraphReleaseUserObject(clone, object, 1));
    CU(cuGraphLaunch(exec, s));
    CU(cuGraphExecDestroy(exec));
    CHECK_EQ(destroyed, 0); /* the launch has not run */
    CU(cuStreamSynchronize(s));
    CHECK_EQ(destroyed, 1);
    CHECK_EQ(destroyer_result, CUDA_ERROR_NOT_PERMITTED);
    CHECK_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_graph_can_be_drawn)
{
    char path[] = "/tmp/simcuda_dot_XXXXXX";
    char text[512] = {0};
    CUgraph graph;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0);
    sim_start();
    graph = two_sets(sim_alloc(4096), 1);
    CU(cuGraphDebugDotPrint(graph, path, 0));
    REQUIRE(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    unlink(path);
    CHECK(strstr(text, "digraph") != NULL);
    CHECK(strstr(text, " -> ") != NULL);
    CHECK_EQ(cuGraphDebugDotPrint(graph, "/no/such/folder/graph", 0), CUDA_ERROR_OPERATING_SYSTEM);
    CHECK_EQ(cuGraphDebugDotPrint(graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_batch_of_memory_operations_is_a_node)
{
    CUstreamBatchMemOpParams items[2] = {{.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32},
            {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 2, .paramArray = items}, told;
    CUstreamBatchMemOpParams turned[2];
    CUgraphNodeType type;
    CUgraphExec exec;
    uint64_t value = 0;
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode node;
    CUstream s;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    items[0].waitValue.address = ptr;
    items[0].waitValue.value = 5;
    items[1].writeValue.address = ptr + 8;
    items[1].writeValue.value64 = 77;
    CU(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch));
    CU(cuGraphNodeGetType(node, &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CU(cuGraphBatchMemOpNodeGetParams(node, &told));
    CHECK_EQ(told.count, 2);
    CHECK(memcmp(told.paramArray, items, sizeof(items)) == 0);
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, s));
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY); /* nobody wrote the 5 yet */
    CU(cuMemsetD32_v2(ptr, 5, 1));
    CU(cuStreamSynchronize(s));
    CU(cuMemcpyDtoH_v2(&value, ptr + 8, 8));
    CHECK_EQ(value, 77);
    items[1].writeValue.value64 = 78;
    CU(cuGraphExecBatchMemOpNodeSetParams(exec, node, &batch));
    CU(cuGraphLaunch(exec, s));
    CU(cuStreamSynchronize(s));
    CU(cuMemcpyDtoH_v2(&value, ptr + 8, 8));
    CHECK_EQ(value, 78);
    CU(cuGraphBatchMemOpNodeSetParams(node, &batch));
    turned[0] = items[1];
    turned[1] = items[0];
    batch.paramArray = turned;
    CHECK_EQ(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch), CUDA_ERROR_NOT_SUPPORTED);
    turned[0].writeValue.address++;
    CHECK_EQ(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch), CUDA_ERROR_INVALID_VALUE);
    batch.count = 0;
    CHECK_EQ(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch), CUDA_ERROR_INVALID_VALUE);
}

TEST(what_a_device_cannot_do_in_graphs_is_refused)
{
    CUgraphNodeParams conditional = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphConditionalHandle handle;
    CUdeviceptr ptr;
    CUgraph graph;
    CUgraphNode a, node;

    sim_start();
    ptr = sim_alloc(4096);
    graph = new_graph();
    CHECK_EQ(cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphAddNode(&node, graph, NULL, 0, &conditional), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cuGraphAddNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    a = set_node(graph, NULL, 0, ptr, 1);
    CUgraphNode twice[2] = {a, a};
    CHECK_EQ(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
}

/* SPDX-License-Identifier: MIT */
/* covers: hooks_graph.c submit.c */
/*
 * Pins of the whole library (R80): what a graph, a descriptor or a registration names is not released by a hint, and the
 * hint goes on with everything else.
 */
#include "tests/preload/hints_kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static CUstream stream;

static void start(const char *tail, const char *mode)
{
    kit_hint(tail, mode);
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* The exit of the phase passes: was the storage of `ptr` kept for a pin, or released? */
static void must_be_kept(CUdeviceptr ptr)
{
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_SUCCESS);
}

static void must_be_released(CUdeviceptr ptr)
{
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, ptr), 0);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 1), CUDA_ERROR_INVALID_VALUE);
}

static void must_be_freed(CUdeviceptr ptr)
{
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
}

/* ---- captured calls ------------------------------------------------------------------------- */

static void begin_capture(void)
{
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraph end_capture(void)
{
    CUgraph graph = NULL;

    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    return graph;
}

TEST(r80_what_a_captured_call_names_is_not_released)
{
    CUdeviceptr read, set, copied, idle, out;
    CUgraphExec exec;
    CUfunction sum;
    CUgraph graph;

    start("captured", "trap");
    sum = client_sum_kernel();
    out = kit_alloc(512);
    KEDGE_PUSH("PHASE_0");
    read = kit_alloc(KIT_BYTES);
    set = kit_alloc(KIT_BYTES);
    copied = kit_alloc(KIT_BYTES);
    idle = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(client_sum(sum, out, read + 64, 64, stream));
    CU_OK(cu->cuMemsetD8Async(set + 100, 7, 10, stream));
    CU_OK(cu->cuMemcpyDtoDAsync_v2(out + 256, copied, 16, stream));
    graph = end_capture();
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(cu->cuGraphLaunch(exec, stream));
    KEDGE_POP();
    must_be_kept(read);
    must_be_kept(set);
    must_be_kept(copied);
    must_be_released(idle); /* the hint goes on */
    CU_OK(cu->cuGraphLaunch(exec, stream));
    CU_OK(cu->cuCtxSynchronize());
    must_be_freed(read);
    must_be_freed(set);
    must_be_freed(copied);
    must_be_freed(idle);
    kit_clean_up();
}

TEST(r80_a_pin_lasts_as_long_as_the_last_instance)
{
    CUdeviceptr first, second, third;
    CUgraphExec exec;
    CUgraph graph;

    start("instance", "trap");
    KEDGE_PUSH("PHASE_0");
    first = kit_alloc(KIT_BYTES);
    second = kit_alloc(KIT_BYTES);
    third = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(first, 7, 10, stream));
    graph = end_capture();
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(KIT_CU(cuGraphDestroy)(graph)); /* the instance still has it */
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(second, 7, 10, stream));
    graph = end_capture();
    CU_OK(KIT_CU(cuGraphDestroy)(graph)); /* never instantiated */
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(third, 7, 10, stream));
    CU_OK(KIT_CU(cuGraphDestroy)(end_capture()));
    KEDGE_POP();
    must_be_kept(first);
    must_be_released(second);
    must_be_released(third);
    KEDGE_PUSH("PHASE_1");
    second = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(second, 7, 10, stream));
    graph = end_capture();
    {
        CUgraphExec other;

        CU_OK(cu->cuGraphInstantiateWithFlags(&other, graph, 0));
        CU_OK(KIT_CU(cuGraphDestroy)(graph));
        CU_OK(KIT_CU(cuGraphExecDestroy)(other));
    }
    KEDGE_POP();
    must_be_released(second);
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    kit_clean_up();
}

TEST(r80_a_capture_that_fails_pins_nothing)
{
    CUdeviceptr ptr;
    CUgraph graph = NULL;

    start("failed", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, stream));
    CHECK_NE(cu->cuStreamSynchronize(stream), CUDA_SUCCESS); /* spoils it */
    CHECK_NE(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    KEDGE_POP();
    must_be_released(ptr);
    kit_clean_up();
}

TEST(r80_a_captured_call_that_the_driver_refuses_pins_nothing)
{
    CUdeviceptr ptr;
    CUgraph graph;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuMemsetD8Async:1:1", 1) == 0);
    start("call", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    begin_capture();
    CHECK_EQ(cu->cuMemsetD8Async(ptr, 7, 10, stream), CUDA_ERROR_INVALID_VALUE);
    graph = end_capture();
    KEDGE_POP();
    must_be_released(ptr);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    kit_clean_up();
}

/* The driver does not say whether the stream is captured, or of what: what the call names is kept, for the graph that the begin told. */
static void ask_in_vain(const char *failures)
{
    bool is_back = false;
    CUdeviceptr ptr;
    CUgraph graph;

    REQUIRE(setenv("SIMCUDA_FAIL", failures, 1) == 0);
    start("vain", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    begin_capture(); /* asks once */
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, stream));
    graph = end_capture();
    KEDGE_POP();
    must_be_kept(ptr);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    KEDGE_PUSH("PHASE_1"); /* of another instance of the phase */
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    KEDGE_PUSH("PHASE_2");
    for (int i = 0; i < 4; i++)
        is_back |= kit_alloc(KIT_BYTES) == ptr;
    KEDGE_POP();
    CHECK(is_back);
    kit_clean_up();
}

TEST(r80_a_lossy_answer_is_asked_for_the_graph_alone)
{
    ask_in_vain("cuStreamGetCaptureInfo:2:402");
}

TEST(r80_a_question_that_fails_means_captured)
{
    ask_in_vain("cuStreamGetCaptureInfo:2+:402,cuStreamIsCapturing:1:999");
}

/*
 * A stream waits, in a capture, for an event that a launch records: the edge to what it does next has a port, which the
 * older question does not tell (cuStreamGetCaptureInfo: CUDA_ERROR_LOSSY_QUERY).
 */
TEST(r80_what_is_captured_behind_a_port_of_a_kernel_is_not_released)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, &attribute, 1};
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes;
    CUdeviceptr ptr, out;
    uint64_t bytes = 64;
    void *args[] = {&out, &out, &bytes};
    CUfunction sum;
    CUstream other;
    CUevent event;
    CUgraph graph;
    cuuint64_t id;
    size_t count;

    start("port", "trap");
    sum = client_sum_kernel();
    out = kit_alloc(512);
    CU_OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU_OK(KIT_CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    attribute.value.programmaticEvent.event = event;
    config.hStream = stream;
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(KIT_CU(cuLaunchKernelEx)(&config, sum, args, NULL));
    CU_OK(KIT_CU(cuStreamWaitEvent)(other, event, 0));
    CHECK_EQ(KIT_CU(cuStreamGetCaptureInfo_v2)(other, &status, &id, &graph, &nodes, &count),
            CUDA_ERROR_LOSSY_QUERY);
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, other));
    CU_OK(KIT_CU(cuEventRecord)(event, other));
    CU_OK(KIT_CU(cuStreamWaitEvent)(stream, event, 0));
    graph = end_capture();
    KEDGE_POP();
    must_be_kept(ptr);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    must_be_freed(ptr);
    kit_clean_up();
}

/* Other streams than the captured one pin nothing, and nothing is pinned when nothing is captured. */
TEST(r80_only_the_captured_stream_pins)
{
    CUdeviceptr ptr;
    CUstream other;
    CUgraph graph;

    start("other", "trap");
    CU_OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, other));
    graph = end_capture();
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, stream));
    KEDGE_POP();
    must_be_released(ptr);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    kit_clean_up();
}

/* Outside captures, and without hints, a submission is one load, one branch and the driver: nothing is asked, nothing pinned. */
TEST(r66_no_submission_asks_about_captures_while_there_is_none)
{
    uint64_t asked, params;
    CUdeviceptr ptr;
    CUfunction sum;
    CUgraph graph;

    kit_files("cost");
    REQUIRE(setenv("KEDGE_TRACE", "full,uses=off", 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    ptr = kit_alloc(1 * MB);
    for (int round = 0; round < 2; round++) {
        asked = client_calls("cuStreamGetCaptureInfo") + client_calls("cuStreamIsCapturing");
        params = client_calls("cuFuncGetParamInfo") + client_calls("cuKernelGetParamInfo");
        for (int i = 0; i < 50; i++) {
            CU_OK(cu->cuMemsetD8Async(ptr, 1, 64, stream));
            CU_OK(client_sum(sum, ptr, ptr + 64, 64, stream));
        }
        CHECK_EQ(client_calls("cuStreamGetCaptureInfo") + client_calls("cuStreamIsCapturing"),
                asked);
        CHECK_EQ(client_calls("cuFuncGetParamInfo") + client_calls("cuKernelGetParamInfo"), params);
        begin_capture(); /* and again after one */
        CU_OK(client_sum(sum, ptr, ptr + 64, 64, stream));
        graph = end_capture();
        CHECK_GT(client_calls("cuStreamGetCaptureInfo") + client_calls("cuStreamIsCapturing"),
                asked);
        CU_OK(KIT_CU(cuGraphDestroy)(graph));
    }
    kit_clean_up();
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr ptr)
{
    return (CUDA_MEMSET_NODE_PARAMS){
            .dst = ptr, .value = 3, .elementSize = 1, .width = 64, .height = 1};
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr dst, CUdeviceptr src)
{
    CUDA_MEMCPY3D copy;

    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dst;
    copy.WidthInBytes = 64;
    copy.Height = 1;
    copy.Depth = 1;
    return copy;
}

TEST(r80_nodes_made_by_hand_pin_what_they_name)
{
    CUdeviceptr set, from, to, read, out;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMSET_NODE_PARAMS params;
    CUDA_MEMCPY3D copy;
    CUgraphNode node;
    CUgraph graph;
    uint64_t bytes = 64;
    void *args[] = {&out, &read, &bytes};

    start("nodes", "trap");
    out = kit_alloc(512);
    KEDGE_PUSH("PHASE_0");
    set = kit_alloc(KIT_BYTES);
    from = kit_alloc(KIT_BYTES);
    to = kit_alloc(KIT_BYTES);
    read = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(set);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    copy = copy_of(to, from);
    CU_OK(KIT_CU(cuGraphAddMemcpyNode)(&node, graph, NULL, 0, &copy, cu->context));
    memset(&kernel, 0, sizeof kernel);
    kernel.func = client_sum_kernel();
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = args;
    CU_OK(KIT_CU(cuGraphAddKernelNode_v2)(&node, graph, NULL, 0, &kernel));
    KEDGE_POP();
    must_be_kept(set);
    must_be_kept(from);
    must_be_kept(to);
    must_be_kept(read);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    kit_clean_up();
}

TEST(r80_a_node_of_memory_operations_pins_their_words)
{
    CUstreamBatchMemOpParams item = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 1, .paramArray = &item};
    CUdeviceptr before, after;
    CUgraphNode node;
    CUgraph graph;

    start("words", "trap");
    KEDGE_PUSH("PHASE_0");
    before = kit_alloc(KIT_BYTES);
    after = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    item.writeValue.address = before;
    CU_OK(KIT_CU(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &batch));
    item.writeValue.address = after;
    CU_OK(KIT_CU(cuGraphBatchMemOpNodeSetParams)(node, &batch));
    KEDGE_POP();
    must_be_released(before);
    must_be_kept(after);
    item.writeValue.address = before;
    CHECK_EQ(KIT_CU(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &batch),
            CUDA_ERROR_INVALID_VALUE);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    kit_clean_up();
}

TEST(r80_a_node_that_is_refused_pins_nothing)
{
    CUDA_MEMSET_NODE_PARAMS params;
    CUdeviceptr ptr;
    CUgraphNode node;
    CUgraph graph;

    start("refused", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(ptr);
    params.elementSize = 3;
    CHECK_NE(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context),
            CUDA_SUCCESS);
    KEDGE_POP();
    must_be_released(ptr);
    params = set_of(ptr); /* and released storage is not put into a graph */
    CHECK_EQ(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context),
            CUDA_ERROR_INVALID_VALUE);
    kit_clean_up();
}

TEST(r80_a_node_that_is_set_anew_gives_up_what_it_had)
{
    CUdeviceptr before, after, captured;
    CUDA_MEMSET_NODE_PARAMS params;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;
    size_t count = 1;

    start("anew", "trap");
    KEDGE_PUSH("PHASE_0");
    before = kit_alloc(KIT_BYTES);
    captured = kit_alloc(KIT_BYTES);
    after = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(before);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    params = set_of(after);
    CU_OK(KIT_CU(cuGraphExecMemsetNodeSetParams)(exec, node, &params, cu->context));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    begin_capture(); /* the same for a node that a captured call became */
    CU_OK(cu->cuMemsetD8Async(captured, 7, 64, stream));
    graph = end_capture();
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(KIT_CU(cuGraphGetNodes)(graph, &node, &count));
    CU_OK(KIT_CU(cuGraphExecMemsetNodeSetParams)(exec, node, &params, cu->context));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    KEDGE_POP();
    must_be_released(before);
    must_be_released(captured);
    must_be_kept(after);
    kit_clean_up();
}

TEST(r80_copies_of_a_graph_pin_by_themselves)
{
    CUdeviceptr cloned, inner, before, after;
    CUgraphExecUpdateResultInfo info;
    CUDA_MEMSET_NODE_PARAMS params;
    CUgraph graph, other;
    CUgraphExec exec;
    CUgraphNode node;

    start("copies", "trap");
    KEDGE_PUSH("PHASE_0");
    cloned = kit_alloc(KIT_BYTES);
    inner = kit_alloc(KIT_BYTES);
    before = kit_alloc(KIT_BYTES);
    after = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(cloned);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    CU_OK(KIT_CU(cuGraphClone)(&other, graph));
    CU_OK(KIT_CU(cuGraphDestroy)(graph)); /* the clone has it */
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(inner);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    CU_OK(KIT_CU(cuGraphAddChildGraphNode)(&node, other, NULL, 0, graph));
    CU_OK(KIT_CU(cuGraphDestroy)(graph)); /* the child of the clone has it */
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(before);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(after);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, graph, NULL, 0, &params, cu->context));
    CU_OK(KIT_CU(cuGraphExecUpdate_v2)(exec, graph, &info));
    CU_OK(KIT_CU(cuGraphDestroy)(graph)); /* the instance names this one now */
    KEDGE_POP();
    must_be_kept(cloned);
    must_be_kept(inner);
    must_be_released(before);
    must_be_kept(after);
    kit_clean_up();
}

/* A launch that is captured becomes a child of what is captured. */
TEST(r80_a_captured_launch_pins_what_its_instance_names)
{
    CUdeviceptr ptr;
    CUgraphExec exec;
    CUgraph graph;

    start("launch", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 10, stream));
    graph = end_capture();
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    begin_capture();
    if (cu->cuGraphLaunch(exec, stream) != CUDA_SUCCESS)
        SKIP("this device captures no launches");
    graph = end_capture();
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    KEDGE_POP();
    must_be_kept(ptr);
    kit_clean_up();
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static CUtexObject texture_of(CUdeviceptr ptr)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUtexObject object = 0;

    memset(&resource, 0, sizeof resource);
    memset(&texture, 0, sizeof texture);
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = ptr;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4096;
    CU_OK(KIT_CU(cuTexObjectCreate)(&object, &resource, &texture, NULL));
    return object;
}

TEST(r80_a_texture_pins_its_memory_until_it_is_destroyed)
{
    CUdeviceptr kept, released;
    CUtexObject object;

    start("texture", "trap");
    KEDGE_PUSH("PHASE_0");
    kept = kit_alloc(KIT_BYTES);
    released = kit_alloc(KIT_BYTES);
    (void)texture_of(kept);
    object = texture_of(released);
    CU_OK(KIT_CU(cuTexObjectDestroy)(object));
    CHECK_NE(KIT_CU(cuTexObjectDestroy)(object + 1000), CUDA_SUCCESS);
    KEDGE_POP();
    must_be_kept(kept);
    must_be_released(released);
    must_be_freed(kept);
    kit_clean_up();
}

TEST(r80_a_tensor_map_pins_its_memory_for_good)
{
    cuuint64_t dim[] = {64, 64}, strides[] = {256};
    cuuint32_t box[] = {16, 16}, steps[] = {1, 1};
    CUdeviceptr ptr, again;
    CUtensorMap map;

    start("tensormap", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CU_OK(KIT_CU(cuTensorMapEncodeTiled)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
            (void *)(uintptr_t)ptr, dim, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    KEDGE_POP();
    must_be_kept(ptr);
    CHECK_EQ(kit_shared(ptr), 1); /* for `kedge suggest` */
    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    KEDGE_PUSH("PHASE_1");
    for (int i = 0; i < 4; i++) {
        again = kit_alloc(KIT_BYTES);
        if (again == ptr)
            break;
    }
    KEDGE_POP();
    CHECK_EQ(again, ptr); /* a map of freed memory is nobody's */
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    kit_clean_up();
}

/* ---- handles and exports -------------------------------------------------------------------- */

TEST(r80_r85_a_retained_handle_pins_its_block_and_ends_the_hint)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr ptr, other;

    start("retain", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    other = kit_alloc(KIT_BYTES);
    CU_OK(cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ptr));
    CHECK_NE(handle, 0);
    KEDGE_POP();
    must_be_kept(ptr);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0); /* the hint is off, for blocks from before too */
    CHECK_EQ(cu->cuMemsetD8_v2(other, 1, 1), CUDA_SUCCESS);
    KEDGE_PUSH("PHASE_1");
    (void)kit_alloc(KIT_BYTES);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_PLANNED, 0), 2); /* nothing is planned any more */
    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK_NE(kit_alloc(KIT_BYTES), ptr); /* still the handle's */
    CU_OK(cu->cuMemRelease(handle));
    kit_clean_up();
}

TEST(r85_a_refused_export_ends_its_hint_and_no_other)
{
    CUipcMemHandle handle;
    CUdeviceptr ptr;

    kit_files("export");
    kit_write(
            "kedge-hints: 1\n"
            "hints:\n"
            "  - {id: a, do: release, pick: {size: 8388608}, when: {anchor: \"P\", edge: exit}}\n"
            "  - {id: b, do: release, pick: {size: 4194304}, when: {anchor: \"P\", edge: exit}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    client_init();
    KEDGE_PUSH("P");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, ptr), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(client_calls("cuIpcGetMemHandle"), 0);
    (void)kit_alloc(4 * MB);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 1);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, 1), CUDA_SUCCESS);
    kit_clean_up();
}

static int show_range(CUdeviceptr ptr, size_t size)
{
    int fd = -1;

    return (int)KIT_CU(cuMemGetHandleForAddressRange)(
            &fd, ptr, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

/* Without any hint, a run says which blocks were shared, once each, so that none is suggested for their sites. */
TEST(r85_a_capture_names_what_was_shared)
{
    CUdeviceptr exported, ranged, described, other;
    CUipcMemHandle handle;

    kit_files("shared");
    client_init();
    exported = kit_alloc(64 * MB);
    ranged = kit_alloc(64 * MB);
    described = kit_alloc(1 * MB);
    other = kit_alloc(1 * MB);
    CU_OK(cu->cuIpcGetMemHandle(&handle, exported));
    (void)show_range(ranged, 65536);
    (void)texture_of(described);
    (void)texture_of(described);
    CHECK_GE(kit_shared(exported), 1);
    CHECK_GE(kit_shared(ranged), 1);
    CHECK_EQ(kit_shared(described), 1);
    CHECK_EQ(kit_shared(other), 0);
    kit_clean_up();
}

/* An export that the driver refuses leaves no pin. */
TEST(r80_what_the_driver_refuses_is_not_pinned)
{
    CUdeviceptr a, b;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuMemGetHandleForAddressRange:1:801", 1) == 0);
    kit_files("dmabuf");
    client_init();
    a = kit_alloc(64 * MB);
    CHECK_EQ(show_range(a, 4096), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(client_calls("cuMemGetHandleForAddressRange"), 1); /* it was the driver's word */
    CHECK_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    CU_OK(cu->cuCtxSynchronize());
    b = kit_alloc(64 * MB);
    CHECK_EQ(b, a);
    /* beyond one block: ours to refuse */
    CHECK_EQ(show_range(b, 128 * MB), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(client_calls("cuMemGetHandleForAddressRange"), 1);
    kit_clean_up();
}

/* A device that got the range may use it as long as it likes: there is no call that ends it. */
TEST(r24_r80_a_range_that_was_shown_is_pinned_for_good)
{
    CUdeviceptr ptr;

    kit_files("range");
    client_init();
    ptr = kit_alloc(64 * MB);
    CU_OK(show_range(ptr, 65536));
    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK_NE(kit_alloc(64 * MB), ptr);
    kit_clean_up();
}

/* The request alone says that the block is to be shared: its hint is off, whatever the driver answers (R85). */
TEST(r85_a_range_of_a_hinted_block_ends_its_hint)
{
    CUdeviceptr ptr;

    start("hintedrange", "trap");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    (void)show_range(ptr, KIT_BYTES);
    CHECK_EQ(client_calls("cuMemGetHandleForAddressRange"), 1);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 0);
    must_be_freed(ptr);
    kit_clean_up();
}

/* ---- NCCL ----------------------------------------------------------------------------------- */

typedef int (*register_fn)(void *, void *, size_t, void **);
typedef int (*deregister_fn)(void *, void *);

TEST(r80_r85_a_buffer_that_nccl_registers_is_pinned)
{
    void *library = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    register_fn do_register;
    deregister_fn deregister;
    CUdeviceptr ptr;
    void *handle = NULL;
    int *calls;

    REQUIRE(library);
    start("nccl", "trap");
    do_register = (register_fn)dlsym(library, "ncclCommRegister");
    deregister = (deregister_fn)dlsym(library, "ncclCommDeregister");
    calls = dlsym(library, "nccl_calls");
    REQUIRE(do_register && deregister && calls);
    CHECK(dlsym(library, "ncclCommNoSuchThing") == NULL);
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(do_register(&handle, (void *)(uintptr_t)(ptr + 4096), 4096, &handle), 0);
    CHECK(handle != NULL);
    KEDGE_POP();
    must_be_kept(ptr);
    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK_NE(kit_alloc(KIT_BYTES), ptr); /* a network card may still write to it (R24) */
    CHECK_EQ(deregister(&handle, handle), 0);
    CHECK_EQ(*calls, 2);
    /* what NCCL does not take is not pinned */
    CHECK_NE(do_register(NULL, (void *)(uintptr_t)kit_alloc(512), 512, &handle), 0);
    kit_clean_up();
}

typedef int (*window_fn)(void *, void *, size_t, void **, int);

/* Does the block's memory come back after it is freed? */
static bool is_free_again(CUdeviceptr ptr)
{
    bool comes = false;

    must_be_freed(ptr);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        comes |= kit_alloc(32 * MB) == ptr;
    return comes;
}

TEST(r80_a_window_is_pinned_until_it_is_gone)
{
    void *library = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    int (*group_start)(void), (*group_end)(void);
    CUdeviceptr kept, gone, none, later;
    deregister_fn deregister;
    window_fn do_register;
    void *window = NULL;

    REQUIRE(library);
    start("window", "trap");
    do_register = (window_fn)dlsym(library, "ncclCommWindowRegister");
    deregister = (deregister_fn)dlsym(library, "ncclCommWindowDeregister");
    group_start = (int (*)(void))dlsym(library, "ncclGroupStart");
    group_end = (int (*)(void))dlsym(library, "ncclGroupEnd");
    REQUIRE(do_register && deregister && group_start && group_end);
    kept = kit_alloc(32 * MB);
    gone = kit_alloc(32 * MB);
    none = kit_alloc(32 * MB);
    later = kit_alloc(32 * MB);
    CHECK_EQ(do_register(&window, (void *)(uintptr_t)gone, 4096, &window, 0), 0);
    CHECK_EQ(deregister(&window, window), 0);
    CHECK_EQ(do_register(&window, (void *)(uintptr_t)kept, 4096, &window, 1), 0);
    CHECK_EQ(
            do_register(&window, (void *)(uintptr_t)none, 4096, &window, 8), 0); /* there is none */
    CHECK_EQ(group_start(), 0);
    CHECK_EQ(do_register(&window, (void *)(uintptr_t)later, 4096, &window, 7), 0);
    CHECK_EQ(group_end(), 0);
    CHECK(is_free_again(gone));
    CHECK(is_free_again(none));
    CHECK(!is_free_again(kept));
    CHECK(!is_free_again(later));
    kit_clean_up();
}

TEST(r80_a_library_that_is_linked_with_nccl_is_seen_too)
{
    void *library = dlopen(NCCL_USER_PATH, RTLD_NOW | RTLD_LOCAL);
    register_fn do_register;
    deregister_fn deregister;
    CUdeviceptr kept, released;
    void *handle = NULL;

    REQUIRE(library);
    start("linked", "trap");
    do_register = (register_fn)dlsym(library, "user_register");
    deregister = (deregister_fn)dlsym(library, "user_deregister");
    REQUIRE(do_register && deregister);
    kept = kit_alloc(32 * MB);
    released = kit_alloc(32 * MB);
    CHECK_EQ(do_register(&handle, (void *)(uintptr_t)released, 4096, &handle), 0);
    CHECK_EQ(deregister(&handle, handle), 0);
    CHECK_EQ(do_register(&handle, (void *)(uintptr_t)kept, 4096, &handle), 0);
    CHECK_GE(kit_shared(kept), 1);
    must_be_freed(kept);
    must_be_freed(released);
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++) {
        CUdeviceptr next = kit_alloc(32 * MB);

        CHECK_NE(next, kept);
        handle = next == released ? NULL : handle;
    }
    CHECK(handle == NULL); /* that one came back */
    kit_clean_up();
}

TEST(r80_without_nccl_its_names_are_not_found)
{
    CHECK(dlsym(RTLD_DEFAULT, "ncclCommRegister") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "ncclCommDeregister") == NULL);
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "ncclCommDeregister")
            == NULL); /* the same scope by its handle */
    CHECK(dlerror() != NULL);
}

/* ---- R12 ------------------------------------------------------------------------------------ */

/* Does the address come back among a few requests, once everything has passed? */
static bool comes_back(CUdeviceptr ptr, size_t size)
{
    bool back = false;

    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4 && !back; i++)
        back = kit_alloc(size) == ptr;
    return back;
}

TEST(r12_what_is_freed_during_a_capture_waits_for_the_end_of_its_graph)
{
    CUdeviceptr ptr;
    CUgraphExec exec;
    CUgraph graph;

    kit_files("r12");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ptr = kit_alloc(32 * MB);
    begin_capture();
    CU_OK(cu->cuMemFree_v2(ptr));
    CHECK(kit_alloc(32 * MB) != ptr); /* before its end */
    graph = end_capture();
    CHECK(!comes_back(ptr, 32 * MB)); /* the graph may name it, in a way that nobody sees */
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    CHECK(!comes_back(ptr, 32 * MB));
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    CHECK(comes_back(ptr, 32 * MB));
    kit_clean_up();
}

TEST(r12_what_a_graph_uses_and_the_program_frees_waits_for_the_end_of_the_graph)
{
    CUdeviceptr ptr;
    CUgraphExec exec;
    CUgraph graph;

    kit_files("r12b");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ptr = kit_alloc(32 * MB);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 64, stream));
    graph = end_capture();
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(cu->cuMemFree_v2(ptr));
    CHECK(!comes_back(ptr, 32 * MB));
    CU_OK(cu->cuGraphLaunch(exec, stream)); /* writes to memory that is nobody else's */
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    CHECK(comes_back(ptr, 32 * MB));
    kit_clean_up();
}

TEST(r12_a_capture_that_comes_to_nothing_keeps_nothing)
{
    CUgraph graph = NULL;
    CUdeviceptr ptr;

    kit_files("r12c");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ptr = kit_alloc(32 * MB);
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemFree_v2(ptr));
    CHECK_NE(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_NE(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    CHECK(comes_back(ptr, 32 * MB));
    kit_clean_up();
}

enum {
    MANY = 70
};

/* What is freed while many captures run belongs to each of them, and comes back behind the last one. */
TEST(r12_any_number_of_captures_may_run_at_once)
{
    CUstream streams[MANY];
    CUgraph graphs[MANY] = {NULL};
    CUdeviceptr ptr;

    kit_files("many");
    client_init();
    ptr = kit_alloc(32 * MB);
    for (int i = 0; i < MANY; i++) {
        CU_OK(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CU_OK(cu->cuStreamBeginCapture_v2(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    CU_OK(cu->cuMemFree_v2(ptr));
    for (int i = 0; i < MANY; i++)
        CU_OK(cu->cuStreamEndCapture(streams[i], &graphs[i]));
    for (int i = 0; i < MANY - 1; i++)
        CU_OK(KIT_CU(cuGraphDestroy)(graphs[i]));
    CHECK(!comes_back(ptr, 32 * MB));
    CU_OK(KIT_CU(cuGraphDestroy)(graphs[MANY - 1]));
    CHECK(comes_back(ptr, 32 * MB));
    kit_clean_up();
}

/* A capture that is gone with its stream keeps nothing. */
TEST(r12_what_a_capture_keeps_goes_with_its_stream)
{
    CUdeviceptr named, ptr;

    kit_files("r12d");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    named = kit_alloc(16 * MB);
    ptr = kit_alloc(32 * MB);
    begin_capture();
    CU_OK(cu->cuMemsetD8Async(named, 7, 64, stream));
    CU_OK(cu->cuMemFree_v2(named));
    CU_OK(cu->cuMemFree_v2(ptr));
    CU_OK(cu->cuStreamDestroy_v2(stream));
    CHECK(comes_back(named, 16 * MB));
    CHECK(comes_back(ptr, 32 * MB));
    kit_clean_up();
}

/* ---- frees beside the begin of a capture ------------------------------------------------------ */

static atomic_int parked; /* 0 armed, 1 a thread stands in the driver, 2 it goes on */
static __thread bool may_park;

static void park_at_begin(const char *call)
{
    if (!may_park || strcmp(call, "cuStreamBeginCapture_v2") != 0 || atomic_load(&parked) != 0)
        return;
    atomic_store(&parked, 1);
    while (atomic_load(&parked) != 2)
        (void)sched_yield();
}

static void *begins(void *unused)
{
    (void)unused;
    may_park = true;
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    begin_capture();
    return NULL;
}

/* A capture that is about to begin has captured nothing yet: what is freed just then is free, before its end already. */
TEST(r12_a_free_beside_the_begin_of_a_capture_is_not_lost)
{
    __typeof__(&simcuda_set_call_hook) set_hook;
    pthread_t thread;
    CUdeviceptr ptr;
    CUgraph graph;

    kit_files("r12e");
    client_init();
    set_hook = (__typeof__(&simcuda_set_call_hook))client_sim("simcuda_set_call_hook");
    REQUIRE(set_hook);
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ptr = kit_alloc(32 * MB);
    set_hook(park_at_begin);
    REQUIRE(pthread_create(&thread, NULL, begins, NULL) == 0);
    while (atomic_load(&parked) != 1)
        (void)sched_yield();
    CU_OK(cu->cuMemFree_v2(ptr));
    atomic_store(&parked, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    set_hook(NULL);
    graph = end_capture();
    CHECK(comes_back(ptr, 32 * MB));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    kit_clean_up();
}

/* ---- two captures on streams with one handle -------------------------------------------------- */

static pthread_barrier_t meeting;

static struct {
    CUdeviceptr ptr;
    CUgraph graph;
} other;

/* Captures on its own default stream from before the other capture's end until after it. */
static void *capture_beside(void *unused)
{
    (void)unused;
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    CU_OK(cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemsetD8Async(other.ptr, 7, 64, CU_STREAM_PER_THREAD));
    (void)pthread_barrier_wait(&meeting);
    (void)pthread_barrier_wait(&meeting);
    CU_OK(cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &other.graph));
    return NULL;
}

/* Threads' own default streams have one handle: the end of the one capture leaves the pins of the other alone. */
TEST(r69_r80_captures_on_threads_own_streams_are_two)
{
    CUgraph graph = NULL;
    CUgraphExec exec;
    pthread_t thread;
    CUdeviceptr ptr;

    kit_files("own");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ptr = kit_alloc(16 * MB);
    other.ptr = kit_alloc(32 * MB);
    REQUIRE(pthread_barrier_init(&meeting, NULL, 2) == 0);
    CU_OK(cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    REQUIRE(pthread_create(&thread, NULL, capture_beside, NULL) == 0);
    (void)pthread_barrier_wait(&meeting);
    CU_OK(cu->cuMemsetD8Async(ptr, 7, 64, CU_STREAM_PER_THREAD));
    CU_OK(cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    (void)pthread_barrier_wait(&meeting);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, other.graph, 0));
    CU_OK(cu->cuMemFree_v2(ptr));
    CU_OK(cu->cuMemFree_v2(other.ptr));
    CHECK(comes_back(ptr, 16 * MB));
    CHECK(!comes_back(other.ptr, 32 * MB));
    CU_OK(cu->cuGraphLaunch(exec, stream)); /* writes to memory that is nobody else's */
    CU_OK(KIT_CU(cuGraphDestroy)(other.graph));
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    CHECK(comes_back(other.ptr, 32 * MB));
    kit_clean_up();
}

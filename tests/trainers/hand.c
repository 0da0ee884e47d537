/* SPDX-License-Identifier: MIT */
#include "tests/trainers/hand.h"

#include "tests/trainers/kernels.ptx.h"
#include "tests/trainers/kernels_host.h"

#include <cuda.h>
#include <dlfcn.h>
#include <nvtx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES = 3538944,
    SMALL_BYTES = 40000,
    HEAD_BYTES = 4096,
    LAUNCHES_OF_CLONE = 2,
    NEW_INPUT_EVERY = 3,
    NEW_PRODUCT_AT = 4,
};

/* X(name as the header has it, symbol in the library) */
#define HAND_CALLS(X)                                                      \
    X(cuModuleLoadData, "cuModuleLoadData")                                \
    X(cuModuleUnload, "cuModuleUnload")                                    \
    X(cuModuleGetFunction, "cuModuleGetFunction")                          \
    X(cuCtxGetCurrent, "cuCtxGetCurrent")                                  \
    X(cuGraphCreate, "cuGraphCreate")                                      \
    X(cuGraphDestroy, "cuGraphDestroy")                                    \
    X(cuGraphClone, "cuGraphClone")                                        \
    X(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2")                     \
    X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")                        \
    X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode")                        \
    X(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode")                \
    X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode")                    \
    X(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode")                      \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")          \
    X(cuGraphExecUpdate, "cuGraphExecUpdate_v2")                           \
    X(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2") \
    X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams")    \
    X(cuGraphLaunch, "cuGraphLaunch")                                      \
    X(cuGraphExecDestroy, "cuGraphExecDestroy")

static struct {
#define FIELD(name_, symbol_) __typeof__(&name_) name_;
    HAND_CALLS(FIELD)
#undef FIELD
} driver;

#define MUST(call_) must(driver.call_, __LINE__, #call_)

static void must(CUresult r, int line, const char *call)
{
    if (r == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "hand.c:%d: %s: %d\n", line, call, (int)r);
    exit(3);
}

static void find_driver(void)
{
    static const struct {
        const char *symbol;
        void *field;
    } rows[] = {
#define ROW(name_, symbol_) {symbol_, &driver.name_},
            HAND_CALLS(ROW)
#undef ROW
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *entry = library ? dlsym(library, rows[i].symbol) : NULL;

        if (!entry) {
            (void)fprintf(stderr, "hand.c: the driver has no %s\n", rows[i].symbol);
            exit(3);
        }
        memcpy(rows[i].field, &entry, sizeof(entry));
    }
}

struct hand {
    enum trainer_entrance entrance;
    cudaStream_t stream, side;
    const struct twin_sums *sums;
    int slot;
    CUmodule module;
    CUfunction fill, mix, sum;
    CUcontext ctx;
    struct twin state, input, product;
    struct twin unused; /* after start */
    /* the graph that the instance is made of, and those of its nodes that are set anew */
    CUgraph graph;
    CUgraphNode reads_input, writes_input;
    CUgraphExec exec;
    CUgraphExec own; /* of a graph with memory of its own */
};

static CUdeviceptr at(const struct twin *t)
{
    return (CUdeviceptr)(uintptr_t)t->device;
}

static struct twin take(const struct hand *h, uint64_t bytes, uint32_t seed, cudaStream_t stream)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(h->entrance, &ptr, bytes, stream);
    twin_new(&t, ptr, bytes);
    twin_fill(&t, seed, stream);
    return t;
}

static void give(const struct hand *h, struct twin *t, cudaStream_t stream)
{
    TRAINER_FREE(h->entrance, t->device, stream);
    twin_drop(t);
}

/* ---- nodes ---- */

static CUDA_KERNEL_NODE_PARAMS kernel_of(CUfunction function, void **args)
{
    CUDA_KERNEL_NODE_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = 32;
    params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 256;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = args;
    return params;
}

static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, CUfunction function, void **args)
{
    CUDA_KERNEL_NODE_PARAMS params = kernel_of(function, args);
    CUgraphNode node;

    MUST(cuGraphAddKernelNode(&node, graph, after ? &after : NULL, after ? 1 : 0, &params));
    return node;
}

static CUgraphNode add_mix(
        const struct hand *h, CUgraph graph, CUgraphNode after, CUdeviceptr dst, CUdeviceptr src)
{
    uint64_t bytes = BYTES;
    void *args[] = {&dst, &src, &bytes};

    return add_kernel(graph, after, h->mix, args);
}

static CUDA_MEMCPY3D head_copy(CUdeviceptr dst, CUdeviceptr src)
{
    CUDA_MEMCPY3D copy;

    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    copy.dstDevice = dst;
    copy.WidthInBytes = HEAD_BYTES;
    copy.Height = copy.Depth = 1;
    return copy;
}

/* product = 0, += input · child: state += product · input's head = state's, beside: sum of state */
static CUgraph make(struct hand *h, CUgraphNode *ret_reads, CUgraphNode *ret_writes)
{
    CUDA_MEMSET_NODE_PARAMS zero = {
            .dst = at(&h->product), .elementSize = 4, .width = BYTES / 4, .height = 1};
    CUDA_MEMCPY3D copy = head_copy(at(&h->input), at(&h->state));
    CUdeviceptr sum = (CUdeviceptr)(uintptr_t)&h->sums->device[h->slot];
    CUdeviceptr state = at(&h->state);
    uint64_t bytes = BYTES;
    void *sum_args[] = {&sum, &state, &bytes};
    CUgraph graph, inner;
    CUgraphNode set, child;

    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphCreate(&inner, 0));
    (void)add_mix(h, inner, NULL, at(&h->state), at(&h->product));
    MUST(cuGraphAddMemsetNode(&set, graph, NULL, 0, &zero, h->ctx));
    *ret_reads = add_mix(h, graph, set, at(&h->product), at(&h->input));
    MUST(cuGraphAddChildGraphNode(&child, graph, ret_reads, 1, inner));
    MUST(cuGraphDestroy(inner));
    MUST(cuGraphAddMemcpyNode(ret_writes, graph, &child, 1, &copy, h->ctx));
    (void)add_kernel(graph, child, h->sum, sum_args);
    return graph;
}

static void host_step(struct hand *h)
{
    host_tensor_free(h->product.host, BYTES);
    h->product.host = host_tensor_new(BYTES);
    if (!h->product.host)
        trainer_fail(1, "no memory");
    host_mix(h->product.host, h->input.host, BYTES);
    host_mix(h->state.host, h->product.host, BYTES);
    memcpy(h->input.host, h->state.host, HEAD_BYTES);
    host_sum(&h->sums->host[h->slot], h->state.host, BYTES);
}

/* ---- memory nodes ---- */

static CUgraphExec make_own(struct hand *h)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUgraphNode born, node;
    uint64_t bytes = SMALL_BYTES, head = HEAD_BYTES;
    uint32_t seed = 77;
    CUdeviceptr state = at(&h->state);
    void *fill_args[] = {&alloc.dptr, &bytes, &seed};
    void *mix_args[] = {&state, &alloc.dptr, &head};
    CUgraphExec exec;
    CUgraph graph;

    memset(&alloc, 0, sizeof(alloc));
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    alloc.bytesize = SMALL_BYTES;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&born, graph, NULL, 0, &alloc));
    node = add_kernel(graph, born, h->fill, fill_args);
    node = add_kernel(graph, node, h->mix, mix_args);
    MUST(cuGraphAddMemFreeNode(&born, graph, &node, 1, alloc.dptr));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphDestroy(graph));
    return exec;
}

static void launch_own(struct hand *h)
{
    void *own = host_tensor_new(SMALL_BYTES);

    if (!own)
        trainer_fail(1, "no memory");
    MUST(cuGraphLaunch(h->own, h->stream));
    host_fill(own, SMALL_BYTES, 77);
    host_mix(h->state.host, own, HEAD_BYTES);
    host_tensor_free(own, SMALL_BYTES);
}

/* ---- changes ---- */

/* Two nodes of the instance name another tensor from now on; the old one goes. */
static void new_input(struct hand *h, uint32_t seed)
{
    struct twin old = h->input;
    CUdeviceptr product = at(&h->product), input;
    uint64_t bytes = BYTES;
    void *args[] = {&product, &input, &bytes};
    CUDA_KERNEL_NODE_PARAMS params = kernel_of(h->mix, args);
    CUDA_MEMCPY3D copy;

    h->input = take(h, BYTES, seed, h->stream);
    input = at(&h->input);
    copy = head_copy(input, at(&h->state));
    MUST(cuGraphExecKernelNodeSetParams(h->exec, h->reads_input, &params));
    MUST(cuGraphExecMemcpyNodeSetParams(h->exec, h->writes_input, &copy, h->ctx));
    give(h, &old, h->stream);
}

/* The whole instance is made anew from another graph of the same shape. */
static void new_product(struct hand *h, uint32_t seed)
{
    CUgraphExecUpdateResultInfo info;
    struct twin old = h->product;
    CUgraphNode reads, writes;
    CUgraph graph;

    h->product = take(h, BYTES, seed, h->stream);
    graph = make(h, &reads, &writes);
    MUST(cuGraphExecUpdate(h->exec, graph, &info));
    MUST(cuGraphDestroy(graph));
    give(h, &old, h->stream);
}

/* Tensors of the graph's sizes come and go on another stream. */
static void churn(const struct hand *h, uint32_t seed)
{
    struct twin a = take(h, BYTES, seed, h->side);
    struct twin b = take(h, BYTES, seed + 1, h->side);

    twin_mix(&a, &b, h->side);
    give(h, &b, h->side);
    twin_sum(h->sums, h->slot, &a, h->side);
    give(h, &a, h->side);
}

static void launch_clone(struct hand *h)
{
    CUgraphExec exec;
    CUgraph clone;

    MUST(cuGraphClone(&clone, h->graph));
    MUST(cuGraphInstantiateWithFlags(&exec, clone, 0));
    MUST(cuGraphDestroy(clone));
    for (int i = 0; i < LAUNCHES_OF_CLONE; i++) {
        MUST(cuGraphLaunch(exec, h->stream));
        host_step(h);
    }
    MUST(cuGraphExecDestroy(exec)); /* while it runs */
}

static void start(struct hand *h)
{
    find_driver();
    MUST(cuCtxGetCurrent(&h->ctx));
    MUST(cuModuleLoadData(&h->module, kernels_ptx));
    MUST(cuModuleGetFunction(&h->fill, h->module, "kedge_fill"));
    MUST(cuModuleGetFunction(&h->mix, h->module, "kedge_mix"));
    MUST(cuModuleGetFunction(&h->sum, h->module, "kedge_sum"));
    h->state = take(h, BYTES, 11, h->stream);
    h->input = take(h, BYTES, 12, h->stream);
    h->product = take(h, BYTES, 13, h->stream);
    h->unused = take(h, BYTES, 14, h->stream);
    h->graph = make(h, &h->reads_input, &h->writes_input);
    h->own = make_own(h);
    launch_clone(h);
    MUST(cuGraphInstantiateWithFlags(&h->exec, h->graph, 0));
}

static void finish(struct hand *h)
{
    CUDA_OK(cudaStreamSynchronize(h->stream));
    MUST(cuGraphExecDestroy(h->exec));
    MUST(cuGraphExecDestroy(h->own));
    MUST(cuGraphDestroy(h->graph));
    give(h, &h->unused, h->stream);
    give(h, &h->product, h->stream);
    give(h, &h->input, h->stream);
    give(h, &h->state, h->stream);
    CUDA_OK(cudaStreamSynchronize(h->stream));
    MUST(cuModuleUnload(h->module));
}

void hand_run(enum trainer_entrance entrance, cudaStream_t stream, cudaStream_t side,
        const struct twin_sums *sums, int slot, uint32_t rounds)
{
    struct hand h = {
            .entrance = entrance, .stream = stream, .side = side, .sums = sums, .slot = slot};

    (void)nvtxRangePushA("BY_HAND");
    start(&h);
    (void)nvtxRangePop();
    for (uint32_t i = 0; i < rounds; i++) {
        MUST(cuGraphLaunch(h.exec, h.stream));
        host_step(&h);
        churn(&h, 1000 + 2 * i);
        launch_own(&h);
        if (i % NEW_INPUT_EVERY == NEW_INPUT_EVERY - 1)
            new_input(&h, 500 + i);
        if (i == NEW_PRODUCT_AT)
            new_product(&h, 600 + i);
    }
    finish(&h);
}

/* SPDX-License-Identifier: MIT */
/*
 * hot_launch.c - a program that submits work in a loop, to be run with kedge preloaded on the simulated device: uses.py counts
 * the instructions below `counted`.
 *
 *     hot_launch CALL LIVE CALLS
 *
 * CALL  sum   a kernel with two addresses and a number, all of eight bytes
 *       copy  a kernel with two addresses and three numbers
 *       set   cuMemsetD8Async: one address
 *       graph a graph with one kernel of two addresses
 *       event an event is recorded on a stream, and another one waits for it; a memory pool serves the first alone
 *       order the same where both streams have freed memory of the pool
 * LIVE  blocks of 4 KiB beside those that are used
 */
#include "tests/bench/instrument.h"
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Refused, so that the capture has its name from the beginning: valgrind 3.19 ends with a failed assertion when parts of one file
 * lie side by side and were mapped under two names. Whether they do depends on what else is mapped.
 */
__attribute__((visibility("default"))) int linkat(
        int fromfd, const char *from, int tofd, const char *to, int flags)
{
    (void)fromfd;
    (void)from;
    (void)tofd;
    (void)to;
    (void)flags;
    errno = EOPNOTSUPP;
    return -1;
}

static struct {
    __typeof__(&cuInit) init;
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuCtxSetCurrent) set_current;
    __typeof__(&cuCtxSynchronize) synchronise;
    __typeof__(&cuMemAlloc_v2) alloc;
    __typeof__(&cuStreamCreate) stream_create;
    __typeof__(&cuModuleLoadData) load;
    __typeof__(&cuModuleGetFunction) function;
    __typeof__(&cuLaunchKernel) launch;
    __typeof__(&cuMemsetD8Async) set;
    __typeof__(&cuStreamBeginCapture_v2) begin;
    __typeof__(&cuStreamEndCapture) end;
    __typeof__(&cuGraphInstantiateWithFlags) instantiate;
    __typeof__(&cuGraphLaunch) graph_launch;
    __typeof__(&cuMemAllocAsync) alloc_async;
    __typeof__(&cuMemFreeAsync) free_async;
    __typeof__(&cuEventCreate) event_create;
    __typeof__(&cuEventRecord) record;
    __typeof__(&cuStreamWaitEvent) wait;
} cu;

static const char text[] =
        ".version 6.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n    ret;\n}\n"
        ".visible .entry kedge_copy_strided(.param .u64 a, .param .u64 b, .param .u64 c, .param "
        ".u64 d, "
        ".param .u64 e)\n{\n    ret;\n}\n";

static CUfunction sum, copy;
static CUstream stream, other;
static CUevent event;
static CUgraphExec exec;
static CUdeviceptr block[2];

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "hot_launch: %s: %d\n", what, (int)result);
    exit(2);
}

static void *find(void *driver, const char *name)
{
    void *found = dlsym(driver, name);

    if (!found)
        must(CUDA_ERROR_NOT_FOUND, name);
    return found;
}

static void look_up(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!driver)
        must(CUDA_ERROR_NOT_FOUND, "libcuda.so.1");
#define FIND(member, symbol) cu.member = (__typeof__(cu.member))find(driver, #symbol)
    FIND(init, cuInit);
    FIND(retain, cuDevicePrimaryCtxRetain);
    FIND(set_current, cuCtxSetCurrent);
    FIND(synchronise, cuCtxSynchronize);
    FIND(alloc, cuMemAlloc_v2);
    FIND(stream_create, cuStreamCreate);
    FIND(load, cuModuleLoadData);
    FIND(function, cuModuleGetFunction);
    FIND(launch, cuLaunchKernel);
    FIND(set, cuMemsetD8Async);
    FIND(begin, cuStreamBeginCapture_v2);
    FIND(end, cuStreamEndCapture);
    FIND(instantiate, cuGraphInstantiateWithFlags);
    FIND(graph_launch, cuGraphLaunch);
    FIND(alloc_async, cuMemAllocAsync);
    FIND(free_async, cuMemFreeAsync);
    FIND(event_create, cuEventCreate);
    FIND(record, cuEventRecord);
    FIND(wait, cuStreamWaitEvent);
#undef FIND
}

static CUresult submit_sum(void)
{
    uint64_t bytes = 8;
    CUdeviceptr src = block[1] + 64;
    void *params[] = {&block[0], &src, &bytes};

    return cu.launch(sum, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult submit_copy(void)
{
    uint64_t rows = 1;
    uint64_t bytes = 8;
    void *params[] = {&block[0], &block[1], &rows, &bytes, &bytes};

    return cu.launch(copy, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult submit_set(void)
{
    return cu.set(block[0] + 64, 1, 8, stream);
}

static CUresult submit_graph(void)
{
    return cu.graph_launch(exec, stream);
}

static CUresult submit_event(void)
{
    CUresult result = cu.record(event, stream);

    return result == CUDA_SUCCESS ? cu.wait(other, event, 0) : result;
}

static void free_on(CUstream on)
{
    CUdeviceptr ptr;

    must(cu.alloc_async(&ptr, 4096, on), "allocation on a stream");
    must(cu.free_async(ptr, on), "free on a stream");
}

static void prepare(long live)
{
    CUdeviceptr beside;
    CUcontext context;
    CUmodule module;
    CUgraph graph;

    must(cu.init(0), "cuInit");
    must(cu.retain(&context, 0), "retain");
    must(cu.set_current(context), "set current");
    must(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), "stream");
    must(cu.load(&module, text), "module");
    must(cu.function(&sum, module, "kedge_sum"), "sum");
    must(cu.function(&copy, module, "kedge_copy_strided"), "copy");
    for (long i = 0; i <= live; i++) {
        if (i == live / 2) {
            must(cu.alloc(&block[0], 4096), "block");
            must(cu.alloc(&block[1], 4096), "block");
        }
        must(cu.alloc(&beside, 4096), "block");
    }
    must(cu.stream_create(&other, CU_STREAM_NON_BLOCKING), "stream");
    must(cu.event_create(&event, CU_EVENT_DISABLE_TIMING), "event");
    must(cu.begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    must(submit_sum(), "captured");
    must(cu.end(stream, &graph), "end");
    must(cu.instantiate(&exec, graph, 0), "instantiate");
}

__attribute__((noinline)) void counted(CUresult (*submit)(void), long calls);

void counted(CUresult (*submit)(void), long calls)
{
    for (long i = 0; i < calls; i++)
        must(submit(), "submit");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CUresult (*submit)(void);
    } known[] = {{"sum", submit_sum}, {"copy", submit_copy}, {"set", submit_set},
            {"graph", submit_graph}, {"event", submit_event}, {"order", submit_event}};

    if (argc != 4)
        must(CUDA_ERROR_INVALID_VALUE, "hot_launch CALL LIVE CALLS");
    look_up();
    prepare(strtol(argv[2], NULL, 10));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(argv[1], known[i].name) == 0) {
            free_on(stream);
            if (strcmp(argv[1], "order") == 0)
                free_on(other);
            must(known[i].submit(), "the first"); /* what happens once is not counted */
            must(cu.synchronise(), "synchronise");
            instrument_from_here();
            counted(known[i].submit, strtol(argv[3], NULL, 10));
            return 0;
        }
    must(CUDA_ERROR_INVALID_VALUE, argv[1]);
    return 2;
}

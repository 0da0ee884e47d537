/* SPDX-License-Identifier: MIT */
/*
 * small_stack_program KIND - CUDA in threads with the smallest stack that there is, PTHREAD_STACK_MIN (16 KiB).
 *
 * KIND  sync, stream, other, managed, host, copy, graph, event, oom, reset, anchor: what such a thread does. Each does it in several
 *       threads, one after the other: the first one finds nothing prepared.
 *
 * Prints the bytes of stack that the thread has used that used most. Exit status 0: all calls did what they should. Below each stack lies
 * a page that may not be touched.
 */
#include "preload/base/kedge.h"

#include <cuda_runtime_api.h>

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    THREADS = 4,
    PAGE = 4096,
    STACK = 16384,
    BLOCK = 1 << 20,
    LARGE = 300 << 20,
};

static const char *kind;
static cudaStream_t stream;

/* The first error of several calls. */
#define TRY(call) (result = result ? result : (int)(call))

static int on_stream(cudaStream_t on)
{
    void *small = NULL;
    void *large = NULL;
    int result = 0;

    TRY(cudaMallocAsync(&small, BLOCK, on));
    TRY(cudaMallocAsync(&large, LARGE, on));
    TRY(cudaMemsetAsync(small, 1, BLOCK, on));
    TRY(cudaFreeAsync(small, on));
    TRY(cudaFreeAsync(large, on));
    return result;
}

static int sync_api(void)
{
    void *small = NULL;
    void *large = NULL;
    int result = 0;

    TRY(cudaMalloc(&small, BLOCK));
    TRY(cudaMalloc(&large, LARGE));
    TRY(cudaMemcpy(large, small, BLOCK, cudaMemcpyDeviceToDevice));
    TRY(cudaFree(small));
    TRY(cudaFree(large));
    return result;
}

static int other_stream(void)
{
    cudaStream_t other = NULL;
    int result = 0;

    TRY(cudaStreamCreate(&other));
    TRY(on_stream(other));
    TRY(on_stream(stream));
    TRY(cudaStreamSynchronize(other));
    TRY(cudaStreamDestroy(other));
    return result;
}

static int other_memory(void)
{
    void *managed = NULL;
    void *host = NULL;
    int result = 0;

    TRY(cudaMallocManaged(&managed, BLOCK, cudaMemAttachGlobal));
    TRY(cudaFree(managed));
    TRY(cudaMallocHost(&host, BLOCK));
    TRY(cudaFreeHost(host));
    return result;
}

static int graph(void)
{
    cudaGraphExec_t instance = NULL;
    cudaGraph_t captured = NULL;
    void *block = NULL;
    int result = 0;

    TRY(cudaMalloc(&block, BLOCK));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    TRY(cudaMemsetAsync(block, 1, BLOCK, stream));
    TRY(cudaStreamEndCapture(stream, &captured));
    TRY(cudaGraphInstantiate(&instance, captured, 0));
    TRY(cudaGraphLaunch(instance, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(instance));
    TRY(cudaGraphDestroy(captured));
    TRY(cudaFree(block));
    return result;
}

static int event(void)
{
    cudaEvent_t made = NULL;
    int result = 0;

    TRY(cudaEventCreate(&made));
    TRY(cudaEventRecord(made, stream));
    TRY(cudaEventSynchronize(made));
    TRY(cudaEventDestroy(made));
    return result;
}

static int out_of_memory(void)
{
    void *block = NULL;

    return cudaMalloc(&block, (size_t)1 << 50) == cudaErrorMemoryAllocation ? 0 : 1;
}

static int reset(void)
{
    int result = 0;

    TRY(cudaSetDevice(1));
    TRY(sync_api());
    TRY(cudaDeviceReset());
    return result;
}

static int anchor(void)
{
    int result = 0;

    KEDGE_PUSH("MODEL");
    TRY(sync_api());
    TRY(on_stream(stream));
    KEDGE_POP();
    KEDGE_MARK("step");
    return result;
}

static const struct {
    const char *name;
    int (*act)(void);
} kinds[] = {
        {"sync", sync_api},
        {"other", other_stream},
        {"memory", other_memory},
        {"graph", graph},
        {"event", event},
        {"oom", out_of_memory},
        {"reset", reset},
        {"anchor", anchor},
};

static int act(void)
{
    if (strcmp(kind, "stream") == 0)
        return on_stream(stream);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0)
            return kinds[i].act();
    return -1;
}

static void *in_a_thread(void *ret_result)
{
    *(int *)ret_result = act();
    return NULL;
}

/* The bytes that it used of its stack. */
static long run_thread(int *ret_result)
{
    char *place = mmap(NULL, STACK + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = place + PAGE;
    pthread_attr_t attributes;
    pthread_t thread;
    long unused = 0;

    if (place == MAP_FAILED || mprotect(stack, STACK, PROT_READ | PROT_WRITE) != 0
            || pthread_attr_init(&attributes) != 0
            || pthread_attr_setstack(&attributes, stack, STACK) != 0
            || pthread_create(&thread, &attributes, in_a_thread, ret_result) != 0
            || pthread_join(thread, NULL) != 0)
        return -1;
    while (unused < STACK && stack[unused] == 0)
        unused++;
    (void)munmap(place, STACK + 2 * PAGE);
    return STACK - unused;
}

int main(int argc, char **argv)
{
    void *block;
    long most = 0;
    int result = 0;

    if (argc != 2)
        return 2;
    kind = argv[1];
    TRY(cudaMalloc(&block, BLOCK));
    TRY(cudaFree(block));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < THREADS && !result; i++) {
        long used = run_thread(&result);

        most = used > most ? used : most;
        result = used < 0 ? -1 : result;
    }
    printf("%ld\n", most);
    if (result)
        (void)fprintf(stderr, "small_stack_program %s: %d\n", kind, result);
    return result ? 1 : 0;
}

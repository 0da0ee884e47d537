/* SPDX-License-Identifier: MIT */
/*
 * capture_replay.c - the trainer `graphs`: a step captured from a stream, instantiated, and launched many times.
 *
 * The step reads and writes tensors that were allocated before; their addresses are in the graph for good. While it is
 * captured, the program allocates and frees others, as a garbage collector does at any moment: under a relaxed
 * capture mode, which is how libraries do it. Between launches it allocates, uses and frees tensors of the same sizes,
 * so that a block that the graph still writes to would be noticed. With the stream API the step also takes a
 * tensor of its own from the graph's memory.
 *
 * Everything that the graph uses, and one tensor that nothing uses again, is allocated in the range "CAPTURE".
 *
 * After that the same with graphs that are made by hand and changed while they are in use (hand.h).
 */
#include "tests/trainers/hand.h"
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/twin.h"

#include <getopt.h>
#include <nvtx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES = 3538944,
    SMALL_BYTES = 40000,
    SLOT_GRAPH = 0,
    SLOT_BETWEEN,
    SLOT_HAND,
    SLOTS,
};

struct step {
    enum trainer_entrance entrance;
    struct twin_sums sums;
    cudaStream_t stream; /* captured, then launched on */
    cudaStream_t side;
    struct twin state, input, product;
    void *own; /* device memory of the graph itself, NULL: none */
};

static struct twin take(enum trainer_entrance entrance, uint64_t bytes, cudaStream_t stream)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(entrance, &ptr, bytes, stream);
    twin_new(&t, ptr, bytes);
    return t;
}

static void give(enum trainer_entrance entrance, struct twin *t, cudaStream_t stream)
{
    TRAINER_FREE(entrance, t->device, stream);
    twin_drop(t);
}

/* What the graph does, as calls on a capturing stream. */
static void queue_step(struct step *s)
{
    if (s->entrance == TRAINER_STREAM) {
        CUDA_OK(cudaMallocAsync(&s->own, SMALL_BYTES, s->stream));
        trainer_fill(s->own, SMALL_BYTES, 9, s->stream);
        trainer_mix(s->state.device, s->own, 4096, s->stream);
        CUDA_OK(cudaFreeAsync(s->own, s->stream));
    }
    CUDA_OK(cudaMemsetAsync(s->product.device, 0, s->product.bytes, s->stream));
    trainer_mix(s->product.device, s->input.device, BYTES, s->stream);
    trainer_mix(s->state.device, s->product.device, BYTES, s->stream);
    CUDA_OK(cudaMemcpyAsync(
            s->input.device, s->state.device, 4096, cudaMemcpyDeviceToDevice, s->stream));
    trainer_sum(&s->sums.device[SLOT_GRAPH], s->state.device, BYTES, s->stream);
}

/* The same on the host, once for each launch. */
static void host_step(struct step *s)
{
    if (s->own) {
        void *own = host_tensor_new(SMALL_BYTES);

        if (!own)
            trainer_fail(1, "no memory");
        host_fill(own, SMALL_BYTES, 9);
        host_mix(s->state.host, own, 4096);
        host_tensor_free(own, SMALL_BYTES);
    }
    host_tensor_free(s->product.host, BYTES);
    s->product.host = host_tensor_new(BYTES);
    if (!s->product.host)
        trainer_fail(1, "no memory");
    host_mix(s->product.host, s->input.host, BYTES);
    host_mix(s->state.host, s->product.host, BYTES);
    memcpy(s->input.host, s->state.host, 4096);
    host_sum(&s->sums.host[SLOT_GRAPH], s->state.host, BYTES);
}

/* Memory management in the middle of a capture, on another stream, of blocks that the graph does not know. */
static void free_while_capturing(struct step *s, struct twin *old)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    struct twin other;

    (void)nvtxRangePushA("MEANWHILE");
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    give(s->entrance, old, s->side);
    other = take(s->entrance, BYTES, s->side);
    give(s->entrance, &other, s->side);
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    (void)nvtxRangePop();
}

static cudaGraphExec_t capture(struct step *s)
{
    struct twin old = take(s->entrance, BYTES, s->side);
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    CUDA_OK(cudaStreamSynchronize(s->side));
    CUDA_OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    queue_step(s);
    free_while_capturing(s, &old);
    CUDA_OK(cudaStreamEndCapture(s->stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    return exec;
}

/* Tensors of the graph's sizes come and go on another stream while the graph runs. */
static void between(struct step *s, uint32_t seed)
{
    struct twin a = take(s->entrance, BYTES, s->side);
    struct twin b = take(s->entrance, SMALL_BYTES, s->side);

    twin_fill(&a, seed, s->side);
    twin_fill(&b, seed + 1, s->side);
    twin_mix(&a, &b, s->side);
    twin_sum(&s->sums, SLOT_BETWEEN, &a, s->side);
    give(s->entrance, &b, s->side);
    give(s->entrance, &a, s->side);
}

static int run(enum trainer_entrance entrance, uint32_t launches)
{
    struct step s = {.entrance = entrance};
    struct twin unused;
    cudaGraphExec_t exec;

    trainer_load_kernels();
    s.sums = twin_sums_new(SLOTS);
    CUDA_OK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&s.side, cudaStreamNonBlocking));
    (void)nvtxRangePushA("CAPTURE");
    s.state = take(entrance, BYTES, s.stream);
    s.input = take(entrance, BYTES, s.stream);
    s.product = take(entrance, BYTES, s.stream);
    unused = take(entrance, BYTES, s.stream);
    twin_fill(&s.state, 1, s.stream);
    twin_fill(&s.input, 2, s.stream);
    twin_fill(&unused, 3, s.stream);
    CUDA_OK(cudaStreamSynchronize(s.stream));
    exec = capture(&s);
    (void)nvtxRangePop();
    for (uint32_t i = 0; i < launches; i++) {
        CUDA_OK(cudaGraphLaunch(exec, s.stream));
        host_step(&s);
        between(&s, 100 + i);
    }
    CUDA_OK(cudaStreamSynchronize(s.stream));
    CUDA_OK(cudaGraphExecDestroy(exec));
    give(entrance, &unused, s.stream);
    give(entrance, &s.product, s.stream);
    give(entrance, &s.input, s.stream);
    give(entrance, &s.state, s.stream);
    hand_run(entrance, s.stream, s.side, &s.sums, SLOT_HAND, launches);
    CUDA_OK(cudaStreamDestroy(s.side));
    CUDA_OK(cudaStreamDestroy(s.stream));
    return twin_sums_finish(&s.sums);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"entrance", required_argument, NULL, 'e'},
            {"launches", required_argument, NULL, 'n'},
            {NULL, 0, NULL, 0},
    };
    enum trainer_entrance entrance = TRAINER_SYNC;
    uint32_t launches = 20;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'e')
            entrance = trainer_entrance_named(optarg);
        else if (option == 'n')
            launches = (uint32_t)trainer_number(optarg);
        else
            trainer_fail(2, "usage: graphs [--entrance sync|stream] [--launches N]");
    }
    if (optind != argc)
        trainer_fail(2, "graphs takes options only");
    return run(entrance, launches);
}

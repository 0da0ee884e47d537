/* SPDX-License-Identifier: MIT */
/*
 * loop.c - a plain training loop: forward, loss, backward, optimizer, step after step on one stream.
 *
 * The loss is read as many programs read it: an asynchronous copy to pinned memory, then cudaFree of a temporary, then
 * the host reads. cudaFree waits for the device, so that the copy has arrived by then. With the stream API the
 * free waits for nothing and the program synchronises the stream itself.
 *
 * With --late-gradients a step's gradients are held until the next step begins, though nothing reads them any more. --batch
 * makes all tensors that many times as large, --length those of two layers longer or shorter.
 */
#include "tests/trainers/twin.h"

#include <getopt.h>
#include <inttypes.h>
#include <nvtx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LAYERS = 6,
    LOSS_BYTES = 4096,
    LENGTH = 64, /* of a sequence, without --length */
    SLOT_ACTIVATIONS = 0,
    SLOT_GRADIENTS,
    SLOT_PARAMETERS,
    SLOTS,
};

struct options {
    enum trainer_entrance entrance;
    uint64_t steps;
    uint64_t seconds; /* 0: `steps` counts */
    uint64_t batch;
    uint64_t length;
    bool late_gradients;
    const char *ledger;
};

struct loop {
    const struct options *options;
    cudaStream_t stream;
    cudaEvent_t step_done;
    struct trainer_ledger *ledger;
    struct twin_sums sums;
    struct twin parameters[LAYERS];
    struct twin activations[LAYERS];
    struct twin gradients[LAYERS]; /* those that are held; bytes 0: none */
    unsigned char *pinned;
    uint32_t seed;
    int stale; /* losses that had not arrived when the host read them */
};

static const uint64_t layer_bytes[LAYERS] = {49152, 2408448, 1204224, 6422528, 100000, 3538944};

static uint64_t layer_size(const struct loop *l, int layer)
{
    bool of_sequence = layer == 1 || layer == 5;
    uint64_t bytes = layer_bytes[layer] * l->options->batch;

    return of_sequence ? bytes / LENGTH * l->options->length : bytes;
}

static struct twin take(struct loop *l, uint64_t bytes)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(l->options->entrance, &ptr, bytes, l->stream);
    trainer_ledger_alloc(l->ledger, bytes);
    twin_new(&t, ptr, bytes);
    return t;
}

static void give(struct loop *l, struct twin *t)
{
    TRAINER_FREE(l->options->entrance, t->device, l->stream);
    trainer_ledger_free(l->ledger, t->bytes);
    twin_drop(t);
}

static void forward(struct loop *l)
{
    (void)nvtxRangePushA("forward");
    for (int i = 0; i < LAYERS; i++) {
        struct twin workspace = take(l, layer_size(l, i) / 2 / 4 * 4);
        struct twin *activation = &l->activations[i];

        *activation = take(l, layer_size(l, i));
        twin_fill(&workspace, ++l->seed, l->stream);
        twin_mix(&workspace, &l->parameters[i], l->stream);
        twin_fill(activation, ++l->seed, l->stream);
        twin_mix(activation, &workspace, l->stream);
        twin_mix(activation, &l->parameters[i], l->stream);
        if (i > 0)
            twin_mix(activation, &l->activations[i - 1], l->stream);
        give(l, &workspace);
    }
    (void)nvtxRangePop();
}

/* Copy to pinned memory, free, read: equal only if the free has waited (or the program has). */
static void read_loss(struct loop *l)
{
    struct twin loss = take(l, LOSS_BYTES);

    twin_fill(&loss, ++l->seed, l->stream);
    twin_mix(&loss, &l->activations[LAYERS - 1], l->stream);
    CUDA_OK(cudaMemcpyAsync(l->pinned, loss.device, LOSS_BYTES, cudaMemcpyDeviceToHost, l->stream));
    if (l->options->entrance == TRAINER_STREAM)
        CUDA_OK(cudaStreamSynchronize(l->stream));
    TRAINER_FREE(l->options->entrance, loss.device, l->stream);
    l->stale += memcmp(l->pinned, loss.host, LOSS_BYTES) != 0;
    trainer_ledger_free(l->ledger, loss.bytes);
    twin_drop(&loss);
}

static void give_gradients(struct loop *l)
{
    for (int i = 0; i < LAYERS; i++) {
        if (l->gradients[i].bytes > 0)
            give(l, &l->gradients[i]);
        l->gradients[i].bytes = 0;
    }
}

static void backward_and_update(struct loop *l)
{
    (void)nvtxRangePushA("backward");
    for (int i = LAYERS - 1; i >= 0; i--) {
        struct twin gradient = take(l, layer_size(l, i));

        twin_fill(&gradient, ++l->seed, l->stream);
        twin_mix(&gradient, &l->activations[i], l->stream);
        twin_sum(&l->sums, SLOT_ACTIVATIONS, &l->activations[i], l->stream);
        give(l, &l->activations[i]);
        twin_mix(&l->parameters[i], &gradient, l->stream);
        twin_sum(&l->sums, SLOT_GRADIENTS, &gradient, l->stream);
        if (l->options->late_gradients)
            l->gradients[i] = gradient;
        else
            give(l, &gradient);
    }
    (void)nvtxRangePop();
}

static uint64_t seconds_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

static void run_steps(struct loop *l)
{
    uint64_t start = seconds_now();

    for (uint64_t step = 0;; step++) {
        if (l->options->seconds > 0 ? seconds_now() - start >= l->options->seconds
                                    : step >= l->options->steps)
            return;
        (void)nvtxRangePushA("step");
        give_gradients(l);
        forward(l);
        read_loss(l);
        backward_and_update(l);
        (void)nvtxRangePop();
        CUDA_OK(cudaEventRecord(l->step_done, l->stream));
    }
}

static int run(const struct options *options)
{
    struct loop l = {.options = options};
    int status;

    trainer_load_kernels();
    l.ledger = trainer_ledger_open(options->ledger);
    CUDA_OK(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking));
    CUDA_OK(cudaEventCreateWithFlags(&l.step_done, cudaEventDisableTiming));
    CUDA_OK(cudaHostAlloc((void **)&l.pinned, LOSS_BYTES, cudaHostAllocDefault));
    l.sums = twin_sums_new(SLOTS);
    trainer_ledger_alloc(l.ledger, SLOTS * sizeof(uint64_t));
    for (int i = 0; i < LAYERS; i++) {
        l.parameters[i] = take(&l, layer_size(&l, i));
        twin_fill(&l.parameters[i], ++l.seed, l.stream);
    }
    run_steps(&l);
    give_gradients(&l);
    for (int i = 0; i < LAYERS; i++) {
        twin_sum(&l.sums, SLOT_PARAMETERS, &l.parameters[i], l.stream);
        give(&l, &l.parameters[i]);
    }
    status = twin_sums_finish(&l.sums);
    trainer_ledger_free(l.ledger, SLOTS * sizeof(uint64_t));
    trainer_ledger_print(l.ledger, "whole");
    trainer_ledger_close(l.ledger);
    CUDA_OK(cudaFreeHost(l.pinned));
    CUDA_OK(cudaEventDestroy(l.step_done));
    CUDA_OK(cudaStreamDestroy(l.stream));
    trainer_unload_kernels();
    if (l.stale > 0) {
        printf("stale losses: %d\n", l.stale);
        status = 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"entrance", required_argument, NULL, 'e'},
            {"steps", required_argument, NULL, 'n'},
            {"seconds", required_argument, NULL, 's'},
            {"batch", required_argument, NULL, 'b'},
            {"length", required_argument, NULL, 'l'},
            {"late-gradients", no_argument, NULL, 'g'},
            {"ledger", required_argument, NULL, 'L'},
            {NULL, 0, NULL, 0},
    };
    struct options o = {.steps = 20, .batch = 1, .length = LENGTH};
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'e')
            o.entrance = trainer_entrance_named(optarg);
        else if (option == 'n')
            o.steps = trainer_number(optarg);
        else if (option == 's')
            o.seconds = trainer_number(optarg);
        else if (option == 'b')
            o.batch = trainer_number(optarg);
        else if (option == 'l')
            o.length = trainer_number(optarg);
        else if (option == 'g')
            o.late_gradients = true;
        else if (option == 'L')
            o.ledger = optarg;
        else
            trainer_fail(2,
                    "usage: loop [--entrance sync|stream] [--steps N | --seconds S] [--batch N] "
                    "[--length N] [--late-gradients] [--ledger FILE]");
    }
    if (optind != argc)
        trainer_fail(2, "loop takes options only");
    return run(&o);
}

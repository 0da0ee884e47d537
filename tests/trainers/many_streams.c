/* SPDX-License-Identifier: MIT */
/*
 * many_streams.c - the trainer `streams`: work on the legacy stream, on two non-blocking streams and on the per-thread
 * streams of two more threads, with tensors that go from one stream to the other.
 *
 * With the sync API it frees while work is queued, on any stream, and relies on cudaFree to wait for all of it,
 * as real programs do. With the stream API it orders its streams by events, as it must: a tensor that two streams
 * used is freed on a third one that has waited for both, as PyTorch frees it.
 */
#include "tests/trainers/twin.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEPT = 5,         /* tensors that each stream keeps for some rounds */
    THREADS = 2,      /* beside the main one */
    MAIN_STREAMS = 3, /* legacy, two non-blocking */
    SLOT_SHARED = MAIN_STREAMS + THREADS,
    SLOTS,
};

struct options {
    enum trainer_entrance entrance;
    int rounds;
};

/* What one stream works with. */
struct lane {
    const struct options *options;
    const struct twin_sums *sums;
    cudaStream_t stream;
    struct twin kept[KEPT];
    int slot;
    uint32_t random;
};

/* Few sizes, so that freed blocks fit the next request. */
static const uint64_t sizes[] = {4096, 40000, 262144, 1048576, 2097152, 3538944};

static uint32_t random_next(struct lane *lane)
{
    lane->random ^= lane->random << 13;
    lane->random ^= lane->random >> 17;
    lane->random ^= lane->random << 5;
    return lane->random;
}

static struct twin take(struct lane *lane, uint64_t bytes)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(lane->options->entrance, &ptr, bytes, lane->stream);
    twin_new(&t, ptr, bytes);
    return t;
}

static void give(struct lane *lane, struct twin *t)
{
    TRAINER_FREE(lane->options->entrance, t->device, lane->stream);
    twin_drop(t);
}

/* A temporary that dies while its work is queued, and a tensor that lives for some rounds. */
static void lane_round(struct lane *lane, int round)
{
    struct twin *kept = &lane->kept[round % KEPT];
    struct twin temp = take(lane, sizes[random_next(lane) % 6]);

    twin_fill(&temp, random_next(lane), lane->stream);
    if (kept->device) {
        twin_mix(&temp, kept, lane->stream);
        twin_sum(lane->sums, lane->slot, kept, lane->stream);
        give(lane, kept);
    }
    *kept = take(lane, sizes[random_next(lane) % 6]);
    twin_fill(kept, random_next(lane), lane->stream);
    twin_mix(kept, &temp, lane->stream);
    twin_sum(lane->sums, lane->slot, &temp, lane->stream);
    give(lane, &temp);
}

static void lane_end(struct lane *lane)
{
    for (int i = 0; i < KEPT; i++) {
        if (lane->kept[i].device) {
            twin_sum(lane->sums, lane->slot, &lane->kept[i], lane->stream);
            give(lane, &lane->kept[i]);
        }
    }
}

/* ---- threads with streams of their own ---- */

static void *thread_main(void *arg)
{
    struct lane *lane = arg;

    for (int round = 0; round < lane->options->rounds; round++)
        lane_round(lane, round);
    lane_end(lane);
    CUDA_OK(cudaStreamSynchronize(lane->stream)); /* the stream ends with its thread */
    return NULL;
}

/* ---- a tensor that two streams use ---- */

static void record_and_wait(cudaEvent_t event, cudaStream_t from, cudaStream_t to)
{
    CUDA_OK(cudaEventRecord(event, from));
    CUDA_OK(cudaStreamWaitEvent(to, event, 0));
}

/* Made on one stream, read on another, freed at once: by waiting for all, or on a stream that waits for both. */
static void share(struct lane *from, struct lane *to, struct lane *dummy, cudaEvent_t event)
{
    struct twin t = take(from, sizes[random_next(from) % 6]);
    struct twin product = take(to, t.bytes);

    twin_fill(&t, random_next(from), from->stream);
    record_and_wait(event, from->stream, to->stream);
    twin_fill(&product, random_next(to), to->stream);
    twin_mix(&product, &t, to->stream);
    twin_sum(to->sums, SLOT_SHARED, &product, to->stream);
    twin_sum(from->sums, SLOT_SHARED, &t, from->stream);
    if (from->options->entrance == TRAINER_STREAM) {
        record_and_wait(event, from->stream, dummy->stream);
        record_and_wait(event, to->stream, dummy->stream);
        give(dummy, &t);
    } else {
        give(from, &t);
    }
    give(to, &product);
}

static int run(const struct options *options)
{
    struct lane lanes[MAIN_STREAMS + THREADS + 1];
    struct lane *dummy = &lanes[MAIN_STREAMS + THREADS];
    struct twin_sums sums;
    pthread_t threads[THREADS];
    cudaEvent_t event;

    trainer_load_kernels();
    sums = twin_sums_new(SLOTS);
    CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < MAIN_STREAMS + THREADS + 1; i++)
        lanes[i] = (struct lane){
                .options = options, .sums = &sums, .slot = i, .random = 77u + (uint32_t)i};
    CUDA_OK(cudaStreamCreateWithFlags(&lanes[1].stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&lanes[2].stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&dummy->stream, cudaStreamNonBlocking));
    for (int i = 0; i < THREADS; i++) {
        lanes[MAIN_STREAMS + i].stream = cudaStreamPerThread;
        if (pthread_create(&threads[i], NULL, thread_main, &lanes[MAIN_STREAMS + i]) != 0)
            trainer_fail(1, "no thread");
    }
    for (int round = 0; round < options->rounds; round++) {
        for (int i = 0; i < MAIN_STREAMS; i++)
            lane_round(&lanes[i], round);
        share(&lanes[round % MAIN_STREAMS], &lanes[(round + 1) % MAIN_STREAMS], dummy, event);
    }
    for (int i = 0; i < MAIN_STREAMS; i++)
        lane_end(&lanes[i]);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    CUDA_OK(cudaStreamDestroy(lanes[1].stream));
    CUDA_OK(cudaStreamDestroy(lanes[2].stream));
    CUDA_OK(cudaStreamDestroy(dummy->stream));
    CUDA_OK(cudaEventDestroy(event));
    return twin_sums_finish(&sums);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"entrance", required_argument, NULL, 'e'},
            {"rounds", required_argument, NULL, 'n'},
            {NULL, 0, NULL, 0},
    };
    struct options o = {.rounds = 30};
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'e')
            o.entrance = trainer_entrance_named(optarg);
        else if (option == 'n')
            o.rounds = (int)trainer_number(optarg);
        else
            trainer_fail(2, "usage: streams [--entrance sync|stream] [--rounds N]");
    }
    if (optind != argc)
        trainer_fail(2, "streams takes options only");
    return run(&o);
}

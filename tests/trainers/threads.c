/* SPDX-License-Identifier: MIT */
/*
 * threads.c - four threads that allocate, use and free on streams of their own, and hand each other tensors.
 *
 * Every fifth tensor goes to the next thread, with an event behind its last write, and is read and freed there, as an
 * autograd thread frees what the forward thread made.
 */
#include "tests/trainers/twin.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    THREADS = 4,
    HELD = 12,
    PASSED_EVERY = 5,
};

struct parcel {
    struct twin tensor;
    cudaEvent_t written;
    struct parcel *next;
};

struct worker {
    enum trainer_entrance entrance;
    int rounds;
    int number;
    uint32_t random;
    struct worker *next_worker;
    const struct twin_sums *sums;
    cudaStream_t stream;
    pthread_t thread;
    struct twin held[HELD];
    pthread_barrier_t *all_sent;
    pthread_mutex_t lock;
    struct parcel *inbox; /* guarded by lock */
};

static uint32_t random_next(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 17;
    w->random ^= w->random << 5;
    return w->random;
}

static struct twin take(struct worker *w, uint64_t bytes)
{
    struct twin t;
    void *ptr;

    TRAINER_MALLOC(w->entrance, &ptr, bytes, w->stream);
    twin_new(&t, ptr, bytes);
    twin_fill(&t, random_next(w), w->stream);
    return t;
}

/* Reads and frees; the slot is that of the thread that made the tensor or received it, and sums commute. */
static void finish(struct worker *w, struct twin *t)
{
    twin_sum(w->sums, w->number, t, w->stream);
    TRAINER_FREE(w->entrance, t->device, w->stream);
    twin_drop(t);
    t->device = NULL;
}

static void pass_on(struct worker *w, struct twin *t)
{
    struct parcel *p = malloc(sizeof(*p));
    struct worker *to = w->next_worker;

    if (!p)
        trainer_fail(1, "no memory");
    p->tensor = *t;
    t->device = NULL;
    CUDA_OK(cudaEventCreateWithFlags(&p->written, cudaEventDisableTiming));
    CUDA_OK(cudaEventRecord(p->written, w->stream));
    (void)pthread_mutex_lock(&to->lock);
    p->next = to->inbox;
    to->inbox = p;
    (void)pthread_mutex_unlock(&to->lock);
}

static void receive(struct worker *w)
{
    struct parcel *p;

    (void)pthread_mutex_lock(&w->lock);
    p = w->inbox;
    w->inbox = NULL;
    (void)pthread_mutex_unlock(&w->lock);
    while (p) {
        struct parcel *next = p->next;

        CUDA_OK(cudaStreamWaitEvent(w->stream, p->written, 0));
        finish(w, &p->tensor);
        CUDA_OK(cudaEventDestroy(p->written));
        free(p);
        p = next;
    }
}

static void *work(void *arg)
{
    static const uint64_t sizes[] = {512, 4000, 65536, 400000, 1048576, 2359296};
    struct worker *w = arg;

    for (int round = 0; round < w->rounds; round++) {
        struct twin *t = &w->held[random_next(w) % HELD];
        struct twin other;

        if (t->device)
            finish(w, t);
        *t = take(w, sizes[random_next(w) % 6]);
        other = take(w, sizes[random_next(w) % 6]);
        twin_mix(t, &other, w->stream);
        finish(w, &other);
        if (round % PASSED_EVERY == 0)
            pass_on(w, t);
        receive(w);
    }
    (void)pthread_barrier_wait(w->all_sent);
    receive(w);
    for (int i = 0; i < HELD; i++) {
        if (w->held[i].device)
            finish(w, &w->held[i]);
    }
    CUDA_OK(cudaStreamSynchronize(w->stream));
    return NULL;
}

static int run(enum trainer_entrance entrance, int rounds)
{
    struct worker workers[THREADS];
    pthread_barrier_t all_sent;
    struct twin_sums sums;

    trainer_load_kernels();
    sums = twin_sums_new(THREADS);
    if (pthread_barrier_init(&all_sent, NULL, THREADS) != 0)
        trainer_fail(1, "no barrier");
    for (int i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];

        *w = (struct worker){.entrance = entrance,
                .rounds = rounds,
                .number = i,
                .next_worker = &workers[(i + 1) % THREADS],
                .sums = &sums,
                .random = 1000u + (uint32_t)i,
                .all_sent = &all_sent,
                .lock = PTHREAD_MUTEX_INITIALIZER};
        CUDA_OK(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            trainer_fail(1, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        CUDA_OK(cudaStreamDestroy(workers[i].stream));
    (void)pthread_barrier_destroy(&all_sent);
    return twin_sums_finish(&sums);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
            {"entrance", required_argument, NULL, 'e'},
            {"rounds", required_argument, NULL, 'n'},
            {NULL, 0, NULL, 0},
    };
    enum trainer_entrance entrance = TRAINER_SYNC;
    int rounds = 60;
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'e')
            entrance = trainer_entrance_named(optarg);
        else if (option == 'n')
            rounds = (int)trainer_number(optarg);
        else
            trainer_fail(2, "usage: threads [--entrance sync|stream] [--rounds N]");
    }
    if (optind != argc)
        trainer_fail(2, "threads takes options only");
    return run(entrance, rounds);
}

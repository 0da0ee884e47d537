/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_patience.h"

#include "tests/sim/stream/sim_queue.h"

#include <signal.h>
#include <time.h>

static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static bool is_watching;

/* The host function that was submitted first, of those that are not done. */
struct oldest {
    struct sim_queue *queue; /* NULL: there is none */
    uint64_t number, order;
};

static void see(struct sim_op *op, void *data)
{
    struct oldest *oldest = data;

    if (op->host && !op->running && (!oldest->queue || op->order < oldest->order))
        *oldest = (struct oldest){op->queue, op->number, op->order};
}

static struct oldest find_oldest(void)
{
    struct oldest oldest = {0};

    sim_queue_each(see, &oldest);
    return oldest;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec span = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};

    (void)nanosleep(&span, NULL);
}

static void *watch(void *unused)
{
    struct oldest oldest;
    uint64_t newest;

    (void)unused;
    sim_lock();
    for (;;) {
        while (!find_oldest().queue)
            sim_sleep_on(&work);
        newest = sim_queue_submissions();
        sim_unlock();
        sleep_ms(sim_config.patience);
        sim_lock();
        /* One that another queue's running function holds up stays, and is tried again later. */
        for (oldest = find_oldest(); oldest.queue && oldest.order <= newest; oldest = find_oldest())
            if (!sim_queue_go_on(oldest.queue, oldest.number))
                break;
    }
    return NULL;
}

void sim_patience_watch(void)
{
    pthread_t thread;
    sigset_t all, before;

    if (!sim_config.patience)
        return;
    if (is_watching) {
        pthread_cond_signal(&work);
        return;
    }
    /* The program's signals are for the program's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    is_watching = pthread_create(&thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_watching)
        pthread_detach(thread);
}

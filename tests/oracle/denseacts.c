/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    TRIES = 12,
    SLOW = 98, /* exit status */
};

/* Seconds, far above what an act takes: kedge's longest wait is 10, and a thread stands for 2 at most. */
#define STALL_S 7.0
#define PARK_S  1.7

static struct {
    int weight;
    bool always; /* a seed must have it */
    bool (*act)(struct hand *me);
    int mine; /* the seed's weight */
} acts[] = {
        {14, true, act_alloc_stream, 0},
        {9, false, act_alloc_sync, 0},
        {14, true, act_free_stream, 0},
        {8, true, act_free_sync, 0},
        {22, true, act_fill, 0},
        {12, true, act_check, 0},
        {3, false, act_copy, 0},
        {8, false, act_event_record, 0},
        {9, false, act_event_wait, 0},
        {2, false, act_event_renew, 0},
        {4, false, act_host_function, 0},
        {8, true, act_wait, 0},
        {5, false, act_flow_open, 0},
        {3, false, act_flow_close, 0},
        {1, false, act_churn, 0},
        {2, false, act_stall, 0},
        {5, false, act_film_begin, 0},
        {8, false, act_film_add, 0},
        {5, true, act_film_end, 0},
        {1, false, act_film_stream_gone, 0},
        {5, false, act_graph_make, 0},
        {8, false, act_graph_launch, 0},
        {6, true, act_graph_drop, 0},
        {5, false, act_graph_anchored, 0},
        {2, false, act_peer, 0},
        {1, false, act_crowd_begin, 0},
        {1, true, act_crowd_end, 0},
        {3, false, act_pool_make, 0},
        {2, false, act_pool_destroy, 0},
        {2, false, act_pool_trim, 0},
        {1, false, act_pool_crowd, 0},
        {2, false, act_home_end, 0},
        {1, false, act_memory_info, 0},
        {1, false, act_streams_gone, 0},
        {2, false, act_graph_unseen, 0},
        {2, false, act_graph_room, 0},
        {2, false, act_pool_alone, 0},
        {1, false, act_pool_room, 0},
        {3, false, act_impossible, 0},
        {0, false, act_memory_room, 0},
        {0, false, act_pool_current, 0},
        {0, false, act_busy_end, 0},
};

enum {
    ACTS = sizeof(acts) / sizeof(*acts)
};

/* What worlds of few words have. */
static bool is_crowded(bool (*act)(struct hand *me))
{
    return act == act_alloc_sync || act == act_free_sync || act == act_fill || act == act_check
            || act == act_flow_open;
}

static bool is_sparse(bool (*act)(struct hand *me))
{
    return act == act_alloc_stream || act == act_free_stream || act == act_fill || act == act_check
            || act == act_flow_open || act == act_wait;
}

/* Words of the worlds that have more of them than others, on top of their own weight. */
static int further_weight(bool (*act)(struct hand *me))
{
    if (act == act_film_end)
        return 20;
    if (act == act_film_begin || act == act_alloc_sync || act == act_free_sync)
        return 8;
    return act == act_pool_current || act == act_memory_info ? 5 : 0;
}

/* Each seed does without some of them and has more of others: so that few of them meet often. */
void dense_weigh(void)
{
    static const int times[] = {0, 1, 1, 4};

    for (int i = 0; i < ACTS; i++) {
        int by = acts[i].weight ? times[dense_pick(4)] : 0; /* 0: a scene's */

        acts[i].mine = acts[i].weight * (acts[i].always && by == 0 ? 1 : by);
        if (dense.scene)
            acts[i].mine = scene_weight(acts[i].act);
        else if (dense.sparse || dense.crowded)
            acts[i].mine = (dense.sparse ? is_sparse(acts[i].act) : is_crowded(acts[i].act))
                    ? acts[i].weight
                    : 0;
        if (dense.further)
            acts[i].mine += further_weight(acts[i].act);
    }
}

static int pick_act(void)
{
    int sum = 0, what;

    for (int i = 0; i < ACTS; i++)
        sum += acts[i].mine;
    what = dense_pick(sum);
    for (int i = 0; i < ACTS; i++) {
        what -= acts[i].mine;
        if (what < 0)
            return i;
    }
    return 0;
}

static void time_passes(void)
{
    if (dense.stall.n && --dense.stall_left <= 0)
        flow_unstall();
}

/* A call that natively does not wait has waited for what the host, or another thread, does later. */
static void judge_time(const struct timespec *begin)
{
    double limit = dense.stall.n ? STALL_S : PARK_S, took;
    struct timespec end;

    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    took = (double)(end.tv_sec - begin->tv_sec) + (double)(end.tv_nsec - begin->tv_nsec) * 1e-9;
    if (took < limit)
        return;
    (void)fprintf(stderr, "seed %llu: slow: an act took %.1f s while %s\n",
            (unsigned long long)world.seed, took,
            dense.stall.n ? "a stream waits for the host" : "a thread stands in a call");
    _Exit(SLOW);
}

void dense_act(struct hand *me)
{
    bool judged = dense.stall.n || dense.away >= 0, done = false;
    struct timespec begin;

    if (dense.away >= 0) { /* who stands in a call is there before the others act */
        (void)cu.wait_parked(1);
        COUNT(dense_parks);
    }
    cu.step();
    dense.waits_for_end = false;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    if (me->number == DENSE_HANDS - 1 && !scene_is_about_streams())
        done = act_bare(me);
    for (int i = 0; i < TRIES && !done && me->number < DENSE_HANDS - 1; i++)
        done = acts[pick_act()].act(me);
    if (judged && (dense.stall.n || (dense.away >= 0 && !dense.waits_for_end)))
        judge_time(&begin);
    time_passes();
}

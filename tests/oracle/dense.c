/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct dense_world dense = {.away = -1};

#define MIB ((uint64_t)1 << 20)

/* ---- chance and words ----------------------------------------------------------------------- */

int dense_pick(int n)
{
    uint64_t x = dense.random += 0x9e3779b97f4a7c15U;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return (int)((x ^ (x >> 31)) % (uint64_t)n);
}

bool dense_chance(int percent)
{
    return dense_pick(100) < percent;
}

void dense_wrong(const char *what, uint64_t got, uint64_t want)
{
    (void)fprintf(stderr, "seed %llu: wrong: %s: got %llx, wanted %llx\n",
            (unsigned long long)world.seed, what, (unsigned long long)got,
            (unsigned long long)want);
    _Exit(1);
}

void dense_say(const char *format, ...)
{
    va_list list;

    if (!world.verbose)
        return;
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
    (void)fputc('\n', stderr);
}

/* ---- homes ---------------------------------------------------------------------------------- */

static const char module_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry kedge_fill(.param .u64 a, .param .u64 b, "
                                  ".param .u32 c)\n{\n    ret;\n}\n";

bool dense_home_is_usable(int home)
{
    return dense.homes[home].handle && !dense.homes[home].leaving;
}

void dense_home_enter(int home)
{
    DO(cuCtxSetCurrent(dense.homes[home].handle));
}

void dense_home_open(int index)
{
    struct dense_home *home = &dense.homes[index];
    CUmodule module;

    if (!home->primary)
        DO(cuCtxCreate_v2(&home->handle, 0, home->device));
    else if (!home->handle)
        DO(cuDevicePrimaryCtxRetain(&home->handle, home->device));
    dense_home_enter(index);
    DO(cuModuleLoadData(&module, module_text));
    DO(cuModuleGetFunction(&home->fill, module, "kedge_fill"));
    (void)flow_open(index, LANE_LEGACY, -1);
    for (int i = 0; i < DENSE_HANDS - 1; i++)
        if (!dense.late && dense_chance(60)) /* else it comes late */
            (void)flow_open(index, LANE_THREAD, i);
    if (dense.sparse) {
        (void)flow_open(index, LANE_BLOCKING, -1);
    } else if (!scene_is_about_streams() && dense_chance(dense.scene ? 100 : 60)) {
        (void)flow_open(index, dense_chance(60) ? LANE_BLOCKING : LANE_NONBLOCKING, -1);
    }
    COUNT(contexts);
}

/* ---- the baton ------------------------------------------------------------------------------ */

static void baton_wait(const struct hand *me)
{
    while (dense.turn != me->number && !dense.over)
        (void)pthread_cond_wait(&world.turn_changed, &world.lock);
}

static void baton_give(int hand)
{
    dense.turn = hand;
    (void)pthread_cond_broadcast(&world.turn_changed);
}

/* One that does not stand in a call; `not`: nor this one. */
static int baton_next(int not )
{
    int hand;

    do
        hand = dense_chance(8) ? DENSE_HANDS - 1 : dense_pick(DENSE_HANDS - 1);
    while (hand == dense.away || hand == not );
    return hand;
}

bool dense_leave(struct hand *me, const char *call)
{
    if (dense.away >= 0 || dense.stall.n || dense.over || me->number == DENSE_HANDS - 1)
        return false;
    dense_say("hand %d stands in %s", me->number, call);
    cu.park_next(call, NULL);
    (void)pthread_mutex_lock(&world.lock);
    dense.away = me->number;
    dense.back = false;
    dense.away_left = dense.scene == SCENE_IDLE_ENDS ? 12 + dense_pick(30) : 2 + dense_pick(10);
    baton_give(baton_next(me->number));
    (void)pthread_mutex_unlock(&world.lock);
    return true;
}

void dense_back(struct hand *me)
{
    (void)pthread_mutex_lock(&world.lock);
    dense.back = true;
    (void)pthread_cond_broadcast(&world.turn_changed);
    baton_wait(me);
    dense.away = -1;
    (void)pthread_mutex_unlock(&world.lock);
    dense_say("hand %d is back", me->number);
}

/* The one that stands in a call goes on, and gets the baton; this hand waits for its next turn. */
static void let_away_go(struct hand *me)
{
    (void)cu.wait_parked(1);
    cu.unpark();
    (void)pthread_mutex_lock(&world.lock);
    while (!dense.back)
        (void)pthread_cond_wait(&world.turn_changed, &world.lock);
    baton_give(dense.away);
    baton_wait(me);
    (void)pthread_mutex_unlock(&world.lock);
}

static void pass_on(struct hand *me)
{
    if (dense.away >= 0 && dense.away != me->number && --dense.away_left <= 0) {
        let_away_go(me);
        return;
    }
    (void)pthread_mutex_lock(&world.lock);
    baton_give(baton_next(-1));
    if (!dense.over)
        baton_wait(me);
    (void)pthread_mutex_unlock(&world.lock);
}

static void end_turns(void)
{
    (void)pthread_mutex_lock(&world.lock);
    dense.over = true;
    (void)pthread_cond_broadcast(&world.turn_changed);
    (void)pthread_mutex_unlock(&world.lock);
}

static void *hand_run(void *data)
{
    struct hand *me = data;

    (void)pthread_mutex_lock(&world.lock);
    baton_wait(me);
    (void)pthread_mutex_unlock(&world.lock);
    while (!dense.over) {
        if (dense.acts_left-- > 0)
            dense_act(me);
        else if (dense.away < 0)
            end_turns();
        else
            dense.away_left = 0;
        if (!dense.over)
            pass_on(me);
    }
    (void)pthread_mutex_lock(&world.lock);
    film_end_own(me);
    (void)pthread_mutex_unlock(&world.lock);
    return NULL;
}

/* ---- the seed ------------------------------------------------------------------------------- */

static void choose_sizes(void)
{
    static const uint64_t sizes[] = {4096, 65536, 1 << 20, 2 << 20, 4 << 20, 6 << 20, 20 << 20};

    dense.sizes_count = dense_chance(50) ? 1 : 2 + dense_pick(2);
    for (int i = 0; i < dense.sizes_count; i++)
        dense.sizes[i] = sizes[dense_pick(7)];
    if (dense.sizes_count == 1 && dense_chance(60))
        dense.sizes[0] = 4 << 20;
}

static void open_world(void)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};

    dense.random = world.seed * 0x2545f4914f6cdd1dU + 77;
    dense.barrier = !getenv("KEDGE_SYNC_FREE") || strcmp(getenv("KEDGE_SYNC_FREE"), "0") != 0;
    dense.acts_left = 60 + dense_pick(80);
    dense.late = dense_chance(40);
    dense.sparse = dense_chance(12);
    dense.refuses = dense_chance(dense.sparse ? 50 : 10);
    dense.crowded = !dense.sparse && dense_chance(5);
    choose_sizes();
    dense.scene = scene_of(world.seed);
    dense.current = -1;
    dense.further = world.seed % 8 == 7 && !dense.scene && !dense.sparse && !dense.crowded;
    if (dense.scene)
        dense.sparse = dense.crowded = dense.refuses = false;
    dense_weigh();
    DO(cuInit(0));
    if (cu.stats(&stats) == 0)
        dense.memory = stats.total[0];
    dense.small = dense.memory <= 512 * MIB;
    dense.homes[0] = (struct dense_home){.primary = true};
    dense.homes[1] = (struct dense_home){0};
    dense.homes[2] = (struct dense_home){.device = 1, .primary = true};
    if (dense.sparse) {
        dense.late = true;
        dense.sizes[0] = 4 << 20;
        dense.sizes_count = 1;
        COUNT(dense_sparse);
    }
    dense.late |= dense.scene != SCENE_NONE;
    dense_home_open(0);
    DO(cuMemHostAlloc((void **)&dense.pinned, 4096, 0));
    if (dense.scene) {
        scene_open();
    } else if (dense.crowded) {
        home_crowd();
        dense_home_open(1);
    } else if (!dense.sparse && dense_chance(40)) {
        dense_home_open(1);
    }
    if (!dense.sparse && !dense.scene && dense_chance(dense.further ? 90 : 40))
        dense_home_open(2);
    dense_home_enter(0);
    for (int i = 0; i < DENSE_EVENTS; i++)
        DO(cuEventCreate(&dense.events[i].handle, CU_EVENT_DISABLE_TIMING));
}

static void close_world(struct hand *me)
{
    flow_unstall();
    scene_close();
    (void)act_crowd_end(me);
    film_end_all();
    for (int i = 0; i < DENSE_HOMES; i++) {
        struct dense_clock all = order_of_home(i);

        if (!dense.homes[i].handle)
            continue;
        dense_home_enter(i);
        DO(cuCtxSynchronize());
        order_host_waited(&all);
    }
    for (int i = 0; i < DENSE_GRAPHS; i++)
        if (dense.graphs[i].used)
            graph_drop(i);
    for (int i = 0; i < DENSE_POOLS; i++)
        if (dense.pools[i])
            DO(cuMemPoolDestroy(dense.pools[i]));
    dense.current = -1;
    if (dense.crowd_pools_count)
        (void)act_pool_crowd(me);
    memory_end(me);
}

void dense_run(struct seed_figures *figures)
{
    dense.figures = figures;
    open_world();
    for (int i = 0; i < DENSE_HANDS; i++) {
        dense.hands[i].number = i;
        if (pthread_create(&dense.hands[i].thread, NULL, hand_run, &dense.hands[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < DENSE_HANDS; i++)
        (void)pthread_join(dense.hands[i].thread, NULL);
    close_world(&dense.hands[0]);
}

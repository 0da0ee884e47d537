/* SPDX-License-Identifier: MIT */
#include "tests/oracle/seedworld.h"

#include "tests/trainers/include/nvtx.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    CLUSTER = 7,        /* blocks, of more streams than a set of points has room for */
    HINTED = 6291456,   /* a hint that never acts puts these into mapped memory (oracle.py) */
    ANCHORED = 8388608, /* a hint releases these when the range "P" ends */
};

/* ---- turns ---------------------------------------------------------------------------------- */

static void wait_turn(const struct actor *actor)
{
    while (world.turn != actor->number)
        (void)pthread_cond_wait(&world.turn_changed, &world.lock);
}

void actor_enter(struct actor *actor)
{
    (void)pthread_mutex_lock(&world.lock);
    wait_turn(actor);
    (void)pthread_mutex_unlock(&world.lock);
}

static void pass_turn(struct actor *actor)
{
    world.turn = actor_pick(actor, world.actors_count);
    (void)pthread_cond_broadcast(&world.turn_changed);
}

void actor_turn(struct actor *actor)
{
    if (world.free_running)
        return;
    actor->figures.turns++;
    (void)pthread_mutex_lock(&world.lock);
    if (world.acting == world.actors_count) { /* whoever has left would not pass it on */
        pass_turn(actor);
        wait_turn(actor);
    }
    (void)pthread_mutex_unlock(&world.lock);
}

void actor_meet(struct actor *actor)
{
    (void)pthread_mutex_lock(&world.lock);
    world.acting--;
    while (world.acting > 0) {
        if (world.turn == actor->number) {
            world.turn = (world.turn + 1) % world.actors_count;
            (void)pthread_cond_broadcast(&world.turn_changed);
        }
        (void)pthread_cond_wait(&world.turn_changed, &world.lock);
    }
    world.turn = -1;
    (void)pthread_cond_broadcast(&world.turn_changed);
    while (world.closed != actor->number)
        (void)pthread_cond_wait(&world.turn_changed, &world.lock);
    (void)pthread_mutex_unlock(&world.lock);
}

void actor_leave(struct actor *actor)
{
    (void)actor;
    (void)pthread_mutex_lock(&world.lock);
    world.closed++;
    (void)pthread_cond_broadcast(&world.turn_changed);
    (void)pthread_mutex_unlock(&world.lock);
}

/* ---- the letter box ------------------------------------------------------------------------- */

static bool is_shared(const struct point *point)
{
    return !point->home || point->home->shared;
}

static bool may_be_sent(const struct block *block)
{
    bool may = block->graphs == 0 && block->home->shared && !block->own_pool
            && is_shared(&block->writer);

    for (int i = 0; may && i < block->readers_count; i++)
        may = is_shared(&block->readers[i]);
    return may;
}

static void send(struct actor *actor)
{
    struct block *block = actor_block(actor);

    if (!block || !may_be_sent(block))
        return;
    (void)block_sum(actor, block);
    block_pin_points(block, NULL);
    (void)pthread_mutex_lock(&world.lock);
    for (int i = 0; i < SEED_LETTERS; i++)
        if (world.letters[i].kind == BLOCK_NONE) {
            world.letters[i] = *block;
            block->kind = BLOCK_NONE;
            actor->figures.letters++;
            break;
        }
    (void)pthread_mutex_unlock(&world.lock);
}

static void receive(struct actor *actor)
{
    struct block *to = NULL;

    for (int i = 0; i < SEED_BLOCKS && !to; i++)
        if (actor->blocks[i].kind == BLOCK_NONE)
            to = &actor->blocks[i];
    (void)pthread_mutex_lock(&world.lock);
    for (int i = 0; to && i < SEED_LETTERS; i++)
        if (world.letters[i].kind != BLOCK_NONE) {
            *to = world.letters[i];
            world.letters[i].kind = BLOCK_NONE;
            to->birth = &actor->lanes[actor_pick(actor, 4)]; /* of the shared context */
            break;
        }
    (void)pthread_mutex_unlock(&world.lock);
}

/* ---- single actions ------------------------------------------------------------------------- */

static uint64_t pick_bytes(struct actor *actor)
{
    static const uint64_t large[] = {2097152, 3538944, 2621440, 4194304, 5242880};
    int what = actor_pick(actor, 100);

    if (what < 25)
        return 512U * (1 + (uint64_t)actor_pick(actor, 16)) - 4 * (uint64_t)actor_pick(actor, 3);
    if (what < 55)
        return 16384U << actor_pick(actor, 5);
    if (what < 70)
        return 1048576U + 131072U * (uint64_t)actor_pick(actor, 6);
    if (what < 94)
        return large[actor_pick(actor, 5)];
    return HINTED;
}

static struct lane *lane_for(struct actor *actor, const struct block *block)
{
    return actor_lane(actor, block->own_pool || actor_chance(actor, 60) ? block->home->device : -1);
}

static void take(struct actor *actor)
{
    uint64_t bytes = pick_bytes(actor);
    struct block *block = block_new(actor, bytes, actor_chance(actor, 50));

    if (!block)
        return;
    actor->figures.mapped_allocs += bytes == HINTED;
    block_fill(actor, block,
            actor_chance(actor, 60) && !block->birth->capturing ? block->birth
                                                                : lane_for(actor, block));
}

static void read(struct actor *actor)
{
    struct block *block = actor_block(actor);

    if (!block)
        return;
    if (actor_chance(actor, 70))
        block_check(actor, block, lane_for(actor, block));
    else
        block_copy_check(actor, block, lane_for(actor, block));
}

static void write(struct actor *actor)
{
    struct block *block = actor_block(actor);

    if (block)
        block_fill(actor, block, lane_for(actor, block));
}

enum {
    BY_ADDRESS_MAX = 4,             /* in a seed */
    BY_ADDRESS_LEAST = 2 * 1048576, /* bytes of each: a hint evicts it, */
    BY_ADDRESS_MOST = 4
            * 1048576, /* and the caps have room for the largest block beside all of them (oracle.py) */
};

/* kedge sees the address on its way to the device, and the block stays in for good. */
static void write_by_address(struct actor *actor)
{
    static atomic_uint written;
    struct block *block = actor_block(actor);

    if (block && block->bytes >= BY_ADDRESS_LEAST && block->bytes <= BY_ADDRESS_MOST
            && atomic_fetch_add(&written, 1) < BY_ADDRESS_MAX)
        block_fill_by_address(actor, block, actor_lane(actor, block->home->device));
}

static void copy(struct actor *actor)
{
    struct block *from = actor_block(actor);
    struct block *to;
    struct lane *lane;

    if (!from || from->bytes > 262144)
        return;
    to = block_new(actor, from->bytes, actor_chance(actor, 50));
    if (!to)
        return;
    lane = actor_lane(actor, from->own_pool || to->own_pool ? 0 : -1);
    if (from->kind == BLOCK_NONE) /* it made room */
        block_fill(actor, to, to->own_pool ? lane : lane_for(actor, to));
    else
        block_copy(actor, from, to, lane);
}

static void give(struct actor *actor)
{
    struct block *block = NULL;

    for (int tries = 0; tries < 6 && !block; tries++) {
        block = &actor->blocks[actor_pick(actor, SEED_BLOCKS)];
        if (block->kind == BLOCK_NONE || block->away || block->graphs)
            block = NULL;
    }
    if (block)
        block_free(actor, block);
}

/* Neighbours of several streams, freed with their work pending, and then something that needs the room of all. */
static void cluster(struct actor *actor)
{
    static const uint64_t sizes[] = {2097152, 3145728};
    uint64_t bytes = sizes[actor_pick(actor, 2)];
    struct block *blocks[CLUSTER] = {NULL};
    int count = actor_chance(actor, 30) ? CLUSTER : 4;
    struct block *large;

    for (int i = 0; i < count; i++) {
        blocks[i] = block_new(actor, bytes, true);
        if (blocks[i])
            block_fill(actor, blocks[i], blocks[i]->birth);
    }
    for (int i = 0; i < count; i++) {
        if (!blocks[i] || blocks[i]->kind != BLOCK_STREAM)
            continue;
        if (actor_chance(actor, 50))
            block_check(actor, blocks[i], lane_for(actor, blocks[i]));
        block_free(actor, blocks[i]);
    }
    large = block_new(actor, bytes * (uint64_t)(count - 1), true);
    if (large)
        block_fill(actor, large, large->birth);
    actor->figures.clusters++;
}

static void call_back(struct actor *actor)
{
    struct block *block = actor_block(actor);

    if (block && block->kind == BLOCK_SYNC && block->graphs == 0)
        block_free_in_callback(actor, block, actor_lane(actor, -1));
}

static void wait(struct actor *actor)
{
    struct lane *lane = actor_lane(actor, -1);
    struct point point = point_of(lane);
    CUevent event;

    home_current(lane->home);
    if (actor_chance(actor, 30)) {
        point_wait(&point);
    } else if (actor_chance(actor, 50)) {
        DO(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        DO(cuEventRecord(event, lane->handle));
        lane_after(actor_lane(actor, -1), &point);
        if (actor_chance(actor, 30))
            DO(cuEventSynchronize(event));
        DO(cuEventDestroy_v2(event));
    } else if (!world.free_running && atomic_load(&lane->home->captures) == 0
            && actor_chance(actor, 40)) {
        DO(cuCtxSynchronize());
    }
}

static void trim(struct actor *actor)
{
    CUmemoryPool pool = actor->pools[0];
    size_t available, total;

    home_current(&world.first);
    if (!pool || actor_chance(actor, 50))
        DO(cuDeviceGetDefaultMemPool(&pool, 0));
    DO(cuMemPoolTrimTo(pool, actor_chance(actor, 50) ? 0 : 4194304));
    DO(cuMemGetInfo_v2(&available, &total));
    actor->figures.trims++;
}

/* Memory that is not used after the range "P" although it is freed later. */
static void anchored(struct actor *actor)
{
    struct block *block;
    struct lane *lane;

    (void)nvtxRangePushA("P");
    block = block_new(actor, ANCHORED, actor_chance(actor, 50));
    if (block) {
        lane = lane_for(actor, block);
        block_fill(actor, block, lane);
        block_check(actor, block, lane);
        if (actor_chance(actor, 50))
            block_check(actor, block, lane_for(actor, block));
        block->done_with = true;
        actor->figures.anchors++;
    }
    (void)nvtxRangePop();
}

static void drop(struct actor *actor)
{
    struct exec *exec = &actor->execs[actor_pick(actor, SEED_EXECS)];

    if (exec->handle)
        actor_drop_exec(actor, exec);
}

void actor_act(struct actor *actor)
{
    static const struct {
        int weight;
        void (*act)(struct actor *actor);
    } acts[] = {
            {22, take},
            {16, read},
            {6, write},
            {5, copy},
            {20, give},
            {4, wait},
            {2, cluster},
            {3, call_back},
            {3, actor_end_lane},
            {3, actor_capture},
            {6, actor_launch},
            {2, drop},
            {3, send},
            {3, receive},
            {1, trim},
            {1, actor_end_home},
    };
    int what = actor_pick(actor, 100);

    cu.step();
    actor_harvest_calls(actor);
    if (world.anchors && actor_chance(actor, 3))
        anchored(actor);
    for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
        what -= acts[i].weight;
        if (what < 0) {
            if (world.uncaptured && acts[i].act == actor_capture)
                write_by_address(actor); /* in its place */
            else
                acts[i].act(actor);
            return;
        }
    }
}

void actor_act_in_capture(struct actor *actor, bool relaxed)
{
    struct block *block = actor_block(actor);

    if (block && block->graphs == 0 && actor_chance(actor, 50)
            && (relaxed || block->kind == BLOCK_STREAM)) {
        block_free(actor, block);
        actor->figures.frees_in_captures++;
        return;
    }
    block = block_new(actor, pick_bytes(actor), !relaxed || actor_chance(actor, 50));
    if (block) {
        block_fill(actor, block, lane_for(actor, block));
        actor->figures.allocs_in_captures++;
    }
}

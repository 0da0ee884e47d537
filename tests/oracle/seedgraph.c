/* SPDX-License-Identifier: MIT */
#include "tests/oracle/seedworld.h"

#include "tests/trainers/kernels_host.h"

#include <string.h>

/* A capture under way. */
struct film {
    struct exec *exec;
    struct lane *lane;
    struct lane *side;    /* joined later; NULL: no fork */
    struct block *frozen; /* read on the side: not to be written any more */
    CUstreamCaptureMode mode;
};

static struct lane *quiet_lane(struct actor *actor, const struct home *home, bool blocking)
{
    for (int tries = 0; tries < 12; tries++) {
        struct lane *lane = &actor->lanes[actor_pick(actor, actor->lanes_count)];

        if (!lane->capturing && (!home || lane->home == home)
                && (lane->kind == LANE_NONBLOCKING || (blocking && lane->kind == LANE_BLOCKING)))
            return lane;
    }
    return NULL;
}

/* What is recorded on the lane from now on would be captured. */
static void leave_lane(struct actor *actor, const struct lane *lane)
{
    for (int i = 0; i < SEED_BLOCKS; i++)
        if (actor->blocks[i].kind != BLOCK_NONE)
            block_pin_points(&actor->blocks[i], lane);
    for (int i = 0; i < SEED_EXECS; i++) {
        struct block holder = {.writer = actor->execs[i].last};

        block_pin_points(&holder, lane);
        actor->execs[i].last = holder.writer;
    }
}

static struct block *block_for(struct actor *actor, const struct lane *lane)
{
    for (int tries = 0; tries < 6; tries++) {
        struct block *block = actor_block(actor);

        if (block && !(block->own_pool && lane->home->device == 1)
                && (block->home->shared || block->home == lane->home
                        || block->kind == BLOCK_STREAM))
            return block;
    }
    return NULL;
}

static void join_lanes(struct lane *to, struct lane *from)
{
    CUevent event;

    home_current(from->home);
    DO(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DO(cuEventRecord(event, from->handle));
    DO(cuStreamWaitEvent(to->handle, event, 0));
    DO(cuEventDestroy_v2(event));
}

static struct node *add_node(struct film *film, enum node_kind kind, struct block *block)
{
    struct node *node = &film->exec->nodes[film->exec->nodes_count++];

    *node = (struct node){.kind = kind, .block = block, .slot = -1};
    block->graphs++;
    return node;
}

static void film_sum(struct film *film, struct block *block, struct lane *lane)
{
    int slot = home_slot(lane->home);

    if (slot < 0)
        return;
    add_node(film, NODE_SUM, block)->slot = slot;
    lane_launch_sum(lane, slot, block->ptr, block->bytes);
}

static void film_fill(struct actor *actor, struct film *film, struct block *block)
{
    struct node *node = add_node(film, NODE_FILL, block);

    node->value = (uint32_t)actor->number << 24 | ++actor->values;
    lane_launch_fill(film->lane, block->ptr, block->bytes, node->value);
}

static void film_copy(struct film *film, struct block *block, struct block *from)
{
    add_node(film, NODE_COPY, block)->from = from;
    from->graphs++;
    home_current(film->lane->home);
    DO(cuMemcpyDtoDAsync_v2(block->ptr, from->ptr, block->bytes, film->lane->handle));
}

static void film_memory(struct actor *actor, struct film *film)
{
    uint64_t bytes = 4096U << actor_pick(actor, 6);
    uint32_t value = (uint32_t)actor->number << 24 | ++actor->values;
    struct exec *exec = film->exec;
    CUdeviceptr ptr;

    exec->memory_slot = home_slot(film->lane->home);
    if (exec->memory_slot < 0)
        return;
    home_current(film->lane->home);
    if (cu.cuMemAllocAsync(&ptr, bytes, film->lane->handle) == CUDA_ERROR_OUT_OF_MEMORY) {
        actor->figures.full_devices++;
        exec->memory_slot = -1;
        return;
    }
    cu.born(ptr, bytes, film->lane->handle);
    lane_launch_fill(film->lane, ptr, bytes, value);
    lane_launch_sum(film->lane, exec->memory_slot, ptr, bytes);
    home_current(film->lane->home);
    cu.dies(ptr, film->lane->handle);
    DO(cuMemFreeAsync(ptr, film->lane->handle));
    host_fill(actor->scratch, bytes, value);
    exec->sum_of_memory = 0;
    host_sum(&exec->sum_of_memory, actor->scratch, bytes);
    actor->figures.memory_nodes++;
}

static void film_fork(struct actor *actor, struct film *film)
{
    struct block *block = block_for(actor, film->lane);
    struct lane *side = quiet_lane(actor, film->lane->home, false);

    if (!block || !side)
        return;
    leave_lane(actor, side);
    side->capturing = true;
    join_lanes(side, film->lane);
    film_sum(film, block, side);
    film->side = side;
    film->frozen = block;
    actor->figures.forked_captures++;
}

static void film_node(struct actor *actor, struct film *film)
{
    struct block *block = block_for(actor, film->lane);
    struct block *from = block_for(actor, film->lane);
    int what = actor_pick(actor, 10);

    if (!block)
        return;
    if (what < 4 && block != film->frozen)
        film_fill(actor, film, block);
    else if (what < 6 && from && from != block && from->bytes == block->bytes
            && block != film->frozen && block->bytes <= 65536)
        film_copy(film, block, from);
    else
        film_sum(film, block, film->lane);
}

static void film_meanwhile(struct actor *actor, const struct film *film)
{
    if (film->lane->kind == LANE_BLOCKING)
        return; /* the default stream must keep out of it */
    if (actor_chance(actor, 40))
        actor_act_in_capture(actor, film->mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    if (film->mode != CU_STREAM_CAPTURE_MODE_GLOBAL && actor_chance(actor, 40))
        actor_turn(actor);
}

static CUgraph film_end(struct film *film)
{
    CUgraph graph;

    if (film->side) {
        join_lanes(film->lane, film->side);
        film->side->capturing = false;
    }
    home_current(film->lane->home);
    DO(cuStreamEndCapture(film->lane->handle, &graph));
    film->lane->capturing = false;
    atomic_fetch_sub(&film->lane->home->captures, 1);
    return graph;
}

static void film_shoot(struct actor *actor, struct film *film)
{
    int nodes = 2 + actor_pick(actor, SEED_NODES - 3);

    for (int i = 0; i < nodes && film->exec->nodes_count < SEED_NODES - 1; i++) {
        if (!film->side && actor_chance(actor, 15))
            film_fork(actor, film);
        else
            film_node(actor, film);
        film_meanwhile(actor, film);
    }
    if (actor_chance(actor, 40))
        film_memory(actor, film);
}

void actor_capture(struct actor *actor)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED,
            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL};
    struct film film = {0};
    CUgraph graph;

    for (int i = 0; i < SEED_EXECS && !film.exec; i++)
        if (!actor->execs[i].handle)
            film.exec = &actor->execs[i];
    film.lane = quiet_lane(actor, NULL, !world.free_running);
    if (!film.exec || !film.lane
            || world.late) /* captured: the driver's own memory, and its rules */
        return;
    film.mode = modes[actor_pick(actor, world.free_running ? 2 : 3)];
    *film.exec = (struct exec){.home = film.lane->home, .memory_slot = -1};
    leave_lane(actor, film.lane);
    home_current(film.lane->home);
    atomic_fetch_add(&film.lane->home->captures, 1);
    DO(cuStreamBeginCapture_v2(film.lane->handle, film.mode));
    film.lane->capturing = actor->filming = true;
    film_shoot(actor, &film);
    graph = film_end(&film);
    actor->filming = false;
    DO(cuGraphInstantiateWithFlags(&film.exec->handle, graph, 0));
    DO(cuGraphDestroy(graph));
}

static void foresee(struct actor *actor, struct exec *exec, struct lane *lane)
{
    for (int i = 0; i < exec->nodes_count; i++) {
        struct node *node = &exec->nodes[i];

        if (node->kind == NODE_SUM) {
            exec->home->expected[node->slot] += block_sum(actor, node->block);
            block_after_read(actor, node->block, lane);
            continue;
        }
        node->block->value = node->kind == NODE_FILL ? node->value : node->from->value;
        node->block->sum = 0;
        block_after_write(actor, node->block, lane);
        if (node->from)
            block_after_read(actor, node->from, lane);
    }
    if (exec->memory_slot >= 0)
        exec->home->expected[exec->memory_slot] += exec->sum_of_memory;
    exec->last = point_of(lane);
}

void actor_launch(struct actor *actor)
{
    struct exec *exec = &actor->execs[actor_pick(actor, SEED_EXECS)];
    struct lane *lane = actor_lane(actor, -1);
    CUresult result;

    if (!exec->handle || lane->home != exec->home)
        return;
    for (int i = 0; i < exec->nodes_count; i++) {
        struct node *node = &exec->nodes[i];

        if (node->kind == NODE_SUM)
            block_before_read(node->block, lane);
        else
            block_before_write(node->block, lane);
        if (node->from)
            block_before_read(node->from, lane);
    }
    lane_after(lane, &exec->last);
    home_current(lane->home);
    result = cu.cuGraphLaunch(exec->handle, lane->handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && exec->memory_slot >= 0) {
        actor->figures.full_devices++; /* its memory is taken at the launch; then nothing runs */
        return;
    }
    world_must(result, "cuGraphLaunch", __FILE__, __LINE__);
    foresee(actor, exec, lane);
}

void actor_drop_exec(struct actor *actor, struct exec *exec)
{
    (void)actor;
    home_current(exec->home);
    DO(cuGraphExecDestroy(exec->handle)); /* launches on their way run to their end */
    for (int i = 0; i < exec->nodes_count; i++) {
        exec->nodes[i].block->graphs--;
        if (exec->nodes[i].from)
            exec->nodes[i].from->graphs--;
    }
    exec->handle = NULL;
    exec->nodes_count = 0;
}

/* SPDX-License-Identifier: MIT */
#include "tests/oracle/seedworld.h"

#include "tests/trainers/kernels_host.h"

#include <string.h>

/* ---- points --------------------------------------------------------------------------------- */

struct point point_of(struct lane *lane)
{
    return (struct point){.lane = lane, .home = lane->home, .life = lane->home->life};
}

/* Work of a context that has ended is over. */
static bool is_open(const struct point *point)
{
    return point->home && point->life == point->home->life;
}

/* The default stream and the blocking streams of its context wait for each other by themselves. */
static bool is_implied(const struct lane *from, const struct lane *to)
{
    return from == to
            || (from->home == to->home && from->kind != LANE_NONBLOCKING
                    && to->kind != LANE_NONBLOCKING
                    && (from->kind == LANE_LEGACY || to->kind == LANE_LEGACY));
}

static CUevent event_on(const struct lane *lane)
{
    CUevent event;

    home_current(lane->home);
    DO(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DO(cuEventRecord(event, lane->handle));
    return event;
}

void lane_after(struct lane *lane, const struct point *point)
{
    CUevent event = point->event;

    if (!is_open(point) || (point->lane && is_implied(point->lane, lane)))
        return;
    if (point->lane)
        event = event_on(point->lane);
    home_current(lane->home);
    DO(cuStreamWaitEvent(lane->handle, event, 0));
    if (point->lane)
        DO(cuEventDestroy_v2(event)); /* at once: it need not have happened */
}

void point_wait(const struct point *point)
{
    if (!is_open(point))
        return;
    home_current(point->home);
    if (point->lane)
        DO(cuStreamSynchronize(point->lane->handle));
    else
        DO(cuEventSynchronize(point->event));
}

static void pin(struct point *point, const struct lane *only)
{
    if (!is_open(point) || !point->lane || (only && point->lane != only))
        return;
    point->event = event_on(point->lane);
    point->lane = NULL;
}

void block_pin_points(struct block *block, const struct lane *only)
{
    pin(&block->writer, only);
    for (int i = 0; i < block->readers_count; i++)
        pin(&block->readers[i], only);
}

void block_before_read(struct block *block, struct lane *lane)
{
    lane_after(lane, &block->writer);
    if (block->readers_count == SEED_READERS) /* this reader will stand for the first one */
        lane_after(lane, &block->readers[0]);
}

void block_after_read(struct actor *actor, struct block *block, struct lane *lane)
{
    lane_count(actor, lane, block);
    for (int i = 0; i < block->readers_count; i++)
        if (block->readers[i].lane == lane && is_open(&block->readers[i]))
            return;
    if (block->readers_count == SEED_READERS)
        block->readers[0] = point_of(lane);
    else
        block->readers[block->readers_count++] = point_of(lane);
}

void block_before_write(struct block *block, struct lane *lane)
{
    lane_after(lane, &block->writer);
    for (int i = 0; i < block->readers_count; i++)
        lane_after(lane, &block->readers[i]);
}

void block_after_write(struct actor *actor, struct block *block, struct lane *lane)
{
    lane_count(actor, lane, block);
    block->writer = point_of(lane);
    block->readers_count = 0;
}

void block_host_wait(struct block *block)
{
    point_wait(&block->writer);
    for (int i = 0; i < block->readers_count; i++)
        point_wait(&block->readers[i]);
    block->writer = (struct point){0};
    block->readers_count = 0;
}

void lane_count(struct actor *actor, const struct lane *lane, const struct block *block)
{
    uint64_t *kinds[] = {&actor->figures.legacy_uses, &actor->figures.blocking_uses,
            &actor->figures.nonblocking_uses, &actor->figures.thread_uses};

    (*kinds[lane->kind])++;
    actor->figures.second_context_uses += lane->home != &world.first && !lane->home->device;
    actor->figures.device_1_uses += lane->home->device == 1;
    actor->figures.peer_uses += lane->home->device != block->home->device;
}

/* ---- birth ---------------------------------------------------------------------------------- */

struct block *actor_block(struct actor *actor)
{
    for (int tries = 0; tries < 12; tries++) {
        struct block *block = &actor->blocks[actor_pick(actor, SEED_BLOCKS)];

        if (block->kind != BLOCK_NONE && !block->away && !block->done_with)
            return block;
    }
    return NULL;
}

static CUresult alloc_on_lane(
        struct actor *actor, struct block *block, struct lane *lane, CUdeviceptr *ret_ptr)
{
    home_current(lane->home);
    if (lane->home->device == 0 && actor->pools[0] && actor_chance(actor, 25)) {
        block->own_pool = true;
        actor->figures.pool_allocs++;
        return cu.cuMemAllocFromPoolAsync(ret_ptr, block->bytes, actor->pools[0], lane->handle);
    }
    if (lane->kind == LANE_THREAD && actor_chance(actor, 70))
        return cu.cuMemAllocAsync_ptsz(ret_ptr, block->bytes, NULL);
    return cu.cuMemAllocAsync(ret_ptr, block->bytes, lane->handle);
}

/* The device is full: that may be, and something must go. */
static void make_room(struct actor *actor)
{
    struct block *block = actor_block(actor);

    actor->figures.full_devices++;
    if (block && block->graphs == 0 && !actor->filming)
        block_free(actor, block);
}

struct block *block_new(struct actor *actor, uint64_t bytes, bool on_stream)
{
    struct lane *lane = actor_lane(actor, -1);
    struct block *block = NULL;
    CUresult result;

    for (int i = 0; i < SEED_BLOCKS && !block; i++)
        if (actor->blocks[i].kind == BLOCK_NONE)
            block = &actor->blocks[i];
    if (!block)
        return NULL;
    *block = (struct block){.bytes = bytes, .home = lane->home, .birth = lane};
    home_current(lane->home);
    result = on_stream ? alloc_on_lane(actor, block, lane, &block->ptr)
                       : cu.cuMemAlloc_v2(&block->ptr, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        make_room(actor);
        return NULL;
    }
    world_must(
            result, on_stream ? "an allocation on a stream" : "cuMemAlloc_v2", __FILE__, __LINE__);
    cu.born(block->ptr, bytes, on_stream ? lane->handle : SIMCUDA_NO_STREAM);
    block->kind = on_stream ? BLOCK_STREAM : BLOCK_SYNC;
    if (on_stream)
        block->writer = point_of(lane);
    world_say(actor, "born", block, lane);
    actor->figures.sync_allocs += !on_stream;
    actor->figures.stream_allocs += on_stream;
    return block;
}

/* ---- uses ----------------------------------------------------------------------------------- */

int home_slot(struct home *home)
{
    int slot = atomic_fetch_add(&home->slots_used, 1);

    return slot < SEED_SLOTS ? slot : -1;
}

static void launch(
        struct lane *lane, CUfunction function, uint64_t first, uint64_t second, uint64_t third)
{
    void *params[] = {&first, &second, &third};

    home_current(lane->home);
    if (lane->kind == LANE_THREAD && third % 2)
        DO(cuLaunchKernel_ptsz(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    else
        DO(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, lane->handle, params, NULL));
}

void lane_launch_sum(struct lane *lane, int slot, CUdeviceptr from, uint64_t bytes)
{
    launch(lane, lane->home->sum, lane->home->slots + 8 * (uint64_t)slot, from, bytes);
}

void lane_launch_fill(struct lane *lane, CUdeviceptr to, uint64_t bytes, uint32_t value)
{
    launch(lane, lane->home->fill, to, bytes, value);
}

void block_fill(struct actor *actor, struct block *block, struct lane *lane)
{
    block->value = (uint32_t)actor->number << 24 | ++actor->values;
    block->sum = 0;
    block_before_write(block, lane);
    lane_launch_fill(lane, block->ptr, block->bytes, block->value);
    block_after_write(actor, block, lane);
}

void block_fill_by_address(struct actor *actor, struct block *block, struct lane *lane)
{
    uint64_t address = block->ptr;
    CUdeviceptr table;

    home_current(lane->home);
    if (cu.cuMemAlloc_v2(&table, 512))
        return;
    cu.born(table, 512, SIMCUDA_NO_STREAM);
    DO(cuMemcpyHtoDAsync_v2(table, &address, sizeof(address), lane->handle));
    DO(cuStreamSynchronize(lane->handle));
    block->value = 0;
    block->sum = 0;
    block_before_write(block, lane);
    launch(lane, lane->home->fill_at, table, block->bytes, 0);
    block_after_write(actor, block, lane);
    DO(cuStreamSynchronize(lane->handle));
    cu.dies(table, SIMCUDA_NO_STREAM);
    DO(cuMemFree_v2(table));
    actor->figures.fills_by_address++;
}

uint64_t block_sum(struct actor *actor, struct block *block)
{
    if (block->sum == 0) {
        host_fill(actor->scratch, block->bytes, block->value);
        host_sum(&block->sum, actor->scratch, block->bytes);
    }
    return block->sum;
}

void block_check(struct actor *actor, struct block *block, struct lane *lane)
{
    int slot = home_slot(lane->home);

    if (slot < 0)
        return;
    block_before_read(block, lane);
    lane_launch_sum(lane, slot, block->ptr, block->bytes);
    lane->home->expected[slot] += block_sum(actor, block);
    block_after_read(actor, block, lane);
    actor->figures.data_checks++;
}

void block_copy_check(struct actor *actor, struct block *block, struct lane *lane)
{
    uint64_t words[] = {0, block->bytes / 4 - 1};

    block_before_read(block, lane);
    home_current(lane->home);
    host_fill(actor->scratch, block->bytes, block->value);
    for (int i = 0; i < 2 && actor->checks_count < SEED_CHECKS; i++) {
        struct check *check = &actor->checks[actor->checks_count];

        check->at = &actor->pinned[actor->checks_count++];
        memcpy(&check->want, (const char *)actor->scratch + words[i] * 4, 4);
        DO(cuMemcpyDtoHAsync_v2(check->at, block->ptr + words[i] * 4, 4, lane->handle));
    }
    block_after_read(actor, block, lane);
    actor->figures.data_checks++;
}

void block_copy(struct actor *actor, struct block *from, struct block *to, struct lane *lane)
{
    block_before_read(from, lane);
    block_before_write(to, lane);
    home_current(lane->home);
    if (from->home != to->home) {
        DO(cuMemcpyPeerAsync(to->ptr, to->home->handle, from->ptr, from->home->handle, from->bytes,
                lane->handle));
        actor->figures.peer_copies++;
    } else {
        DO(cuMemcpyDtoDAsync_v2(to->ptr, from->ptr, from->bytes, lane->handle));
    }
    to->value = from->value;
    to->sum = from->sum;
    block_after_read(actor, from, lane);
    block_after_write(actor, to, lane);
}

/* ---- death ---------------------------------------------------------------------------------- */

/* cuMemFree waits for the block's own context only; what others do to it has to be brought there first. */
static void bring_home(struct actor *actor, struct block *block)
{
    struct lane *lane = NULL;

    if (world.late && actor_chance(actor, 50))
        return;
    for (int i = 0; i < actor->lanes_count && !lane; i++)
        if (actor->lanes[i].home == block->home && !actor->lanes[i].capturing)
            lane = &actor->lanes[i];
    if (block->writer.home != block->home)
        lane_after(lane, &block->writer);
    for (int i = 0; i < block->readers_count; i++)
        if (block->readers[i].home != block->home)
            lane_after(lane, &block->readers[i]);
}

void block_free_plain(struct actor *actor, struct block *block)
{
    home_current(actor->homes[actor_pick(actor, actor->homes_count)]);
    world_say(actor, "freed", block, NULL);
    cu.dies(block->ptr, SIMCUDA_NO_STREAM);
    DO(cuMemFree_v2(block->ptr));
    block->kind = BLOCK_NONE;
}

static void free_on_lane(struct actor *actor, struct block *block, struct lane *lane)
{
    bool per_thread = lane->kind == LANE_THREAD && actor_chance(actor, 70);
    CUresult result;

    block_before_write(block, lane);
    actor->figures.frees_elsewhere += lane != block->birth;
    home_current(lane->home);
    world_say(actor, "freed in stream order", block, lane);
    cu.dies(block->ptr, lane->handle);
    result = per_thread ? cu.cuMemFreeAsync_ptsz(block->ptr, NULL)
                        : cu.cuMemFreeAsync(block->ptr, lane->handle);
    if (block->kind == BLOCK_SYNC && result == CUDA_ERROR_INVALID_VALUE)
        result = cu.cuMemFree_v2(block->ptr); /* a driver need not take it */
    world_must(result, "cuMemFreeAsync", __FILE__, __LINE__);
    block->kind = BLOCK_NONE;
}

static void free_sync_block(struct actor *actor, struct block *block)
{
    if (world.late && actor_chance(actor, 15)) {
        free_on_lane(actor, block, actor_lane(actor, block->home->device)); /* R9 */
        return;
    }
    bring_home(actor, block);
    actor->figures.frees_with_work_pending += block->writer.home || block->readers_count;
    block_free_plain(actor, block);
}

void block_free(struct actor *actor, struct block *block)
{
    struct lane *lane = block->birth;

    if (block->kind == BLOCK_SYNC) {
        free_sync_block(actor, block);
        return;
    }
    if (!actor->filming && actor_chance(actor, world.late ? 20 : 8)) {
        if (!world.late || actor_chance(actor, 30))
            block_host_wait(block); /* as CUDA wants it; kedge waits by itself (R64) */
        actor->figures.sync_frees_of_stream_blocks++;
        block_free_plain(actor, block);
        return;
    }
    if (actor_chance(actor, 60) || lane->capturing || lane->home->device != block->home->device)
        lane = actor_lane(actor, block->home->device);
    free_on_lane(actor, block, lane);
}

static void run_call(void *data)
{
    struct call *call = data;

    call->result = cu.cuMemFree_v2(call->ptr);
    atomic_store(&call->state, 2);
}

static void run_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    run_call(data);
}

void block_free_in_callback(struct actor *actor, struct block *block, struct lane *lane)
{
    struct call *call = NULL;

    for (int i = 0; i < SEED_CALLS && !call; i++)
        if (atomic_load(&actor->calls[i].state) == 0)
            call = &actor->calls[i];
    if (!call)
        return;
    bring_home(actor, block);
    call->block = block;
    call->ptr = block->ptr;
    atomic_store(&call->state, 1);
    block->away = true;
    home_current(lane->home);
    world_say(actor, "freed by a callback", block, lane);
    actor->figures.callbacks++;
    if (actor_chance(actor, 50))
        DO(cuLaunchHostFunc(lane->handle, run_call, call));
    else
        DO(cuStreamAddCallback(lane->handle, run_callback, call, 0));
    call->done =
            (struct point){.event = event_on(lane), .home = lane->home, .life = lane->home->life};
}

/* A driver may refuse to free in a host function: then the block is still the program's. */
void actor_harvest_calls(struct actor *actor)
{
    for (int i = 0; i < SEED_CALLS; i++) {
        struct call *call = &actor->calls[i];

        if (atomic_load(&call->state) != 2)
            continue;
        if (call->result != CUDA_SUCCESS && call->result != CUDA_ERROR_NOT_PERMITTED)
            world_must(call->result, "cuMemFree in a host function", __FILE__, __LINE__);
        call->block->away = false;
        if (call->result == CUDA_SUCCESS) {
            call->block->kind = BLOCK_NONE;
            actor->figures.callback_frees++;
        }
        atomic_store(&call->state, 0);
    }
}

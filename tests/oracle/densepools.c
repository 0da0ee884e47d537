/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#define MIB ((uint64_t)1 << 20)

static CUmemoryPool pool_new(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    cuuint64_t keep = UINT64_MAX;
    CUmemoryPool pool;

    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DO(cuMemPoolCreate(&pool, &props));
    if (!dense.small && dense_chance(30))
        DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    return pool;
}

bool act_pool_make(struct hand *me)
{
    int index = dense_pick(DENSE_POOLS);

    (void)me;
    if (dense.pools[index])
        return false;
    dense.pools[index] = pool_new();
    COUNT(dense_pools);
    return true;
}

/* Its blocks live on; what is freed of them later goes back to the device. */
bool act_pool_destroy(struct hand *me)
{
    int index = dense_pick(DENSE_POOLS);
    CUmemoryPool pool = dense.pools[index];

    (void)me;

    if (!pool)
        return false;
    dense.pools[index] = NULL;
    if (dense.current == index)
        dense.current = -1;
    dense_say("pool %d is destroyed", index);
    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].kind == BLOCK_STREAM && dense.blocks[i].pool == index) {
            dense.blocks[i].pool = -1;
            COUNT(dense_orphans);
        }
    DO(cuMemPoolDestroy(pool));
    return true;
}

/* As a library does that wants all stream-ordered memory of a program in its own pool. */
bool act_pool_current(struct hand *me)
{
    int index = dense_pick(DENSE_POOLS);
    CUmemoryPool pool = dense.pools[index];

    (void)me;
    if (!pool)
        pool = dense.pools[index] = pool_new();
    if (dense_chance(30)) {
        index = -1;
        DO(cuDeviceGetDefaultMemPool(&pool, 0));
    }
    DO(cuDeviceSetMemPool(0, pool));
    dense.current = index;
    dense_say("pool %d is current", index);
    COUNT(dense_current_pools);
    return true;
}

/* At least what is alive there is used; more, while a free is pending. */
void pools_must_say(void)
{
    for (int i = 0; i < DENSE_POOLS; i++) {
        cuuint64_t used = 0, alive = 0;

        for (int at = 0; at < DENSE_BLOCKS; at++)
            if (dense.blocks[at].kind == BLOCK_STREAM && dense.blocks[at].pool == i)
                alive += dense.blocks[at].bytes;
        if (!dense.pools[i])
            continue;
        DO(cuMemPoolGetAttribute(dense.pools[i], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        if (used < alive)
            dense_wrong("what is used of a pool", used, alive);
    }
}

bool act_pool_trim(struct hand *me)
{
    CUmemoryPool pool = dense.pools[dense_pick(DENSE_POOLS)];

    (void)me;
    if (!pool || dense_chance(50))
        DO(cuDeviceGetDefaultMemPool(&pool, dense_pick(2)));
    DO(cuMemPoolTrimTo(pool, dense_chance(60) ? 0 : 4 * MIB));
    COUNT(trims);
    return true;
}

static void crowd_end(void)
{
    for (int i = 0; i < dense.crowd_pools_count; i++)
        DO(cuMemPoolDestroy(dense.crowd_pools[i]));
    dense.crowd_pools_count = 0;
}

/* Many pools with a small block each that is freed with its work pending; they go at the next call. */
static void crowd_begin(struct flow *flow, int count)
{
    CUstream handle = flow->handle;
    CUdeviceptr ptr;

    dense_home_enter(flow->home);
    for (int i = 0; i < count; i++) {
        dense.crowd_pools[dense.crowd_pools_count++] = pool_new();
        if (cu.cuMemAllocFromPoolAsync(&ptr, 65536, dense.crowd_pools[i], handle))
            continue;
        DO(cuMemsetD32Async(ptr, 1, 16384, handle));
        DO(cuMemFreeAsync(ptr, handle));
        (void)order_submit(flow);
    }
    limbo_add(0, (uint64_t)count * 32 * MIB, (struct dense_at){flow_index(flow), flow->count}, 0);
    dense_say("%d pools on stream %d", count, flow_index(flow));
}

bool act_pool_crowd(struct hand *me)
{
    struct flow *flow = flow_pick(me, -1, 0);

    if (dense.crowd_pools_count) {
        crowd_end();
        return true;
    }
    /* some of these requests fail on a small device, each after its own short wait (R104) */
    if (!flow || !flow->handle || (dense.small && dense.stall.n))
        return false;
    crowd_begin(flow, DENSE_CROWD);
    COUNT(dense_pool_crowds);
    return true;
}

/* A stream waits for the host, and some pools wait for it; a request that no device could serve is refused at once (R104). */
bool act_impossible(struct hand *me)
{
    struct flow *stalled = &dense.flows[dense.stall.flow];
    struct flow *flow = flow_pick(me, -1, 0);
    int count = 3 + dense_pick(4);
    CUdeviceptr ptr;
    CUresult result;

    if (!dense.stall.n || !flow || !flow->handle || !stalled->handle || !flow_may(me, stalled)
            || dense.homes[stalled->home].device != 0 || dense.crowd_pools_count
            || !memory_fits(0, (uint64_t)count * 32 * MIB))
        return false;
    crowd_begin(stalled, count);
    dense_home_enter(flow->home);
    result = cu.cuMemAllocAsync(&ptr, dense.memory + 2 * MIB, flow->handle);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        dense_wrong("a request for more than there is", result, CUDA_ERROR_OUT_OF_MEMORY);
    COUNT(dense_impossible);
    return true;
}

/* Half of the device is freed with work pending. */
static void free_half(struct flow *flow, uint64_t bytes)
{
    CUdeviceptr ptr;

    dense_home_enter(0);
    DO(cuMemAllocAsync(&ptr, bytes, flow->handle));
    if (dense.scene)
        DO(cuMemsetD32Async(ptr, 1, 16384, flow->handle));
    DO(cuMemFreeAsync(ptr, flow->handle));
    (void)order_submit(flow);
}

/* What any of many pools has free goes before a request is refused (R81). In a scene it is another stream's, too. */
bool act_pool_room(struct hand *me)
{
    struct flow *flow = flow_pick(me, 0, 0), *other = dense.scene ? flow_pick(me, 0, 0) : flow;
    uint64_t bytes = dense.memory / 2;
    struct dense_clock clock;
    CUdeviceptr ptr;
    CUresult result;

    if (!flow || !flow->handle || !other || !other->handle || !memory_is_calm() || !dense.small
            || dense.crowd_pools_count || !memory_fits(0, bytes))
        return false;
    free_half(other, bytes);
    crowd_begin(flow, DENSE_CROWD);
    clock = other->clock;
    if (flow == other) {
        DO(cuStreamSynchronize(flow->handle));
        limbo_synchronised();
    } else { /* no wait, at which memory would be given back */
        while ((result = cu.cuStreamQuery(other->handle)) == CUDA_ERROR_NOT_READY)
            cu.step();
        world_must(result, "cuStreamQuery", __FILE__, __LINE__);
    }
    order_host_waited(&clock);
    DO(cuMemAllocFromPoolAsync(&ptr, bytes, dense.crowd_pools[DENSE_CROWD - 1], flow->handle));
    DO(cuMemFreeAsync(ptr, flow->handle));
    (void)order_submit(flow);
    limbo_add(0, bytes, (struct dense_at){flow_index(flow), flow->count}, 0);
    COUNT(dense_rooms);
    return true;
}

/* A pool is destroyed with work pending on its only block. Once the program has waited the device holds nothing of it (R77). */
bool act_pool_alone(struct hand *me)
{
    struct flow *flow = flow_pick(me, 0, 0);
    uint64_t bytes = 64 * MIB, before, after;
    bool early = dense_chance(50);
    cuuint64_t keep = UINT64_MAX;
    struct dense_clock clock;
    CUmemoryPool pool;
    CUdeviceptr ptr;

    if (!flow || !flow->handle || !memory_is_calm() || !memory_fits(0, bytes))
        return false;
    dense_home_enter(0);
    before = memory_held(0);
    pool = pool_new();
    DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    DO(cuMemAllocFromPoolAsync(&ptr, bytes, pool, flow->handle));
    DO(cuMemsetD32Async(ptr, 1, 16384, flow->handle));
    if (early)
        DO(cuMemFreeAsync(ptr, flow->handle));
    DO(cuMemPoolDestroy(pool));
    if (!early)
        DO(cuMemFreeAsync(ptr, flow->handle));
    (void)order_submit(flow);
    clock = flow->clock;
    DO(cuStreamSynchronize(flow->handle));
    order_host_waited(&clock);
    limbo_synchronised();
    after = memory_held(0);
    if (after > before)
        dense_wrong("what the device holds of a pool that is gone", after, before);
    COUNT(dense_pools_alone);
    return true;
}

/* ---- peers ----------------------------------------------------------------------------------- */

bool home_reaches(int home, const struct dense_block *block)
{
    return dense.homes[home].device == block->device
            || (home == 0 && dense.homes[0].peer && block->kind == BLOCK_SYNC && block->home == 2
                    && dense_home_is_usable(2));
}

static void take_access(int home)
{
    CUresult result;

    dense_home_enter(home);
    result = cu.cuCtxEnablePeerAccess(dense.homes[2].handle, 0);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        world_must(result, "cuCtxEnablePeerAccess", __FILE__, __LINE__);
    dense.homes[home].peer = true;
}

bool act_peer(struct hand *me)
{
    (void)me;
    if (!dense_home_is_usable(2) || dense.stall.n)
        return false;
    if (!dense.homes[0].peer) {
        take_access(0);
        return true;
    }
    if (!dense_home_is_usable(1))
        return false;
    if (!dense.homes[1].peer) {
        take_access(1);
        return true;
    }
    dense_home_enter(1);
    DO(cuCtxDisablePeerAccess(dense.homes[2].handle));
    dense.homes[1].peer = false;
    COUNT(dense_peers);
    return true;
}

/* ---- contexts end --------------------------------------------------------------------------- */

void home_crowd(void)
{
    CUcontext context;

    for (int i = 0; i < 260; i++)
        DO(cuCtxCreate_v2(&context, 0, 0));
    COUNT(dense_many_contexts);
}

/* Nobody else uses it, and nothing of it is waited for. */
static bool home_may_end(int home)
{
    if (home == 0 || !dense_home_is_usable(home) || dense.homes[home].films
            || order_device_is_stalled(dense.homes[home].device))
        return false;
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (dense.flows[i].busy && dense.flows[i].home == home)
            return false;
    for (int i = 0; i < DENSE_BLOCKS; i++) {
        const struct dense_block *block = &dense.blocks[i];

        if (block->kind != BLOCK_SYNC || block->home != home)
            continue;
        for (int f = 0; f < DENSE_FLOWS; f++)
            if (dense.flows[f].home != home
                    && !order_is_known((struct dense_at){f, block->readers.at[f]}))
                return false;
        if (block->writer.n && dense.flows[block->writer.flow].home != home
                && !order_is_known(block->writer))
            return false;
    }
    return true;
}

/* What it has goes; what its work would have written is open. */
static void home_forget(int home)
{
    for (int i = 0; i < DENSE_GRAPHS; i++)
        if (dense.graphs[i].used && dense.graphs[i].home == home)
            graph_drop(i);
    for (int i = 0; i < DENSE_BLOCKS; i++) {
        struct dense_block *block = &dense.blocks[i];

        if (block->kind == BLOCK_SYNC && block->home == home) {
            cu.dies(block->ptr, SIMCUDA_NO_STREAM);
            block_dead(block, (struct dense_at){0});
        } else if (block->kind == BLOCK_STREAM && block->writer.n
                && dense.flows[block->writer.flow].home == home && !order_is_known(block->writer)) {
            block->value = 0;
        }
        if (block->home == home)
            block->home = dense.homes[home].device ? home : 0;
    }
    for (int i = 0; i < DENSE_WORDS; i++)
        if (dense.checks[i].on && dense.flows[dense.checks[i].done.flow].home == home
                && !order_is_known(dense.checks[i].done))
            dense.checks[i].on = false;
}

/* Its work is over. */
static void home_gone(int home)
{
    struct dense_clock all = order_of_home(home);

    dense.homes[home].peer = false;
    if (home == 2)
        dense.homes[0].peer = dense.homes[1].peer = false;
    order_join(&dense.known, &all);
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (dense.flows[i].home == home)
            dense.flows[i].state = FLOW_FREE;
    for (int i = 0; i < DENSE_EVENTS; i++)
        if (dense.events[i].home == home)
            dense.events[i] = (struct dense_event){0};
}

static bool home_is_idle(int home)
{
    struct dense_clock all = order_of_home(home), none = {{0}};

    return order_are_before(&all, &none);
}

bool act_home_end(struct hand *me)
{
    int home = dense.scene ? 1 : 1 + dense_pick(DENSE_HOMES - 1);
    struct dense_home *place = &dense.homes[home];
    CUcontext handle = place->handle;
    bool away;

    if (!flow_is_safe(me))
        return false;
    if (!handle && !place->leaving && !order_device_is_stalled(place->device)) {
        dense_home_open(home);
        return true;
    }
    if (dense.scene == SCENE_BUSY_ENDS && home_is_idle(home) && dense_chance(80))
        return false;
    if (!home_may_end(home))
        return false;
    dense_home_enter(home);
    if (dense.scene ? dense.scene == SCENE_IDLE_ENDS : dense_chance(40)) {
        struct dense_clock all = order_of_home(home);

        DO(cuCtxSynchronize());
        order_host_waited(&all);
    }
    dense_say("home %d ends", home);
    home_forget(home);
    place->leaving = true;
    dense_home_enter(0);
    away = dense_chance(dense.scene ? 90 : 60)
            && dense_leave(me, place->primary ? "cuDevicePrimaryCtxReset" : "cuCtxDestroy");
    if (place->primary)
        DO(cuDevicePrimaryCtxReset_v2(place->device));
    else
        DO(cuCtxDestroy_v2(handle));
    if (away)
        dense_back(me);
    place->leaving = false;
    home_gone(home);
    if (place->primary)
        COUNT(device_resets);
    else
        COUNT(contexts_ended);
    place->handle = NULL;
    if (flow_is_safe(me))
        dense_home_open(home);
    return true;
}

/* ---- a thread without a context ------------------------------------------------------------- */

static bool bare_free(void)
{
    struct dense_block *block = block_pick(-1);

    for (int i = 0; block && i < DENSE_FLOWS; i++)
        if (!order_is_known((struct dense_at){i, block->readers.at[i]}))
            return false;
    if (!block || !order_is_known(block->writer) || order_device_is_stalled(block->device)
            || (block->kind == BLOCK_SYNC && !dense_home_is_usable(block->home)))
        return false;
    dense_say("block %d freed without a context", (int)(block - dense.blocks));
    cu.dies(block->ptr, SIMCUDA_NO_STREAM);
    DO(cuMemFree_v2(block->ptr));
    block_dead(block, (struct dense_at){0});
    return true;
}

static bool bare_event(void)
{
    const struct dense_event *event = &dense.events[dense_pick(DENSE_EVENTS)];

    if (!event->handle || !event->recorded || !dense_home_is_usable(event->home)
            || order_is_stalled(&event->clock))
        return false;
    dense_say("host waits for event %d without a context", (int)(event - dense.events));
    DO(cuEventSynchronize(event->handle));
    order_host_waited(&event->clock);
    return true;
}

/* Its questions about events are not answered, as by a driver that wants a context for them. */
bool act_bare(struct hand *me)
{
    int what = dense_pick(100);
    bool done;

    if (!flow_is_safe(me))
        return false;
    cu.fail_next("cuEventQuery", 0, CUDA_ERROR_INVALID_CONTEXT);
    if (what < 40)
        done = act_pool_trim(me);
    else if (what < 65)
        done = bare_free();
    else if (what < 80)
        done = bare_event();
    else
        done = act_graph_drop(me);
    (void)cu.fail_clear();
    if (done)
        COUNT(dense_bare);
    return done;
}

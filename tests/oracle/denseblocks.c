/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

#include "tests/trainers/kernels_host.h"

enum {
    ROWS = 8, /* of a block that are written and read: a large block's other pages stay untouched */
    ROW_WORDS = 4,
    WHOLE = 65536, /* blocks up to here are written in full */
};

#define MIB ((uint64_t)1 << 20)

/* ---- what must fit -------------------------------------------------------------------------- */

/* Bytes of storage that a block may keep from others: a small one a whole chunk of a pool of the driver's. */
static uint64_t memory_kept(uint64_t bytes)
{
    if (bytes && bytes < 32 * MIB)
        return 32 * MIB;
    return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static bool limbo_is_over(const struct limbo *limbo)
{
    return limbo->graphs == 0 && (limbo->freed.n == 0 || limbo->synchronised);
}

void limbo_add(int device, uint64_t bytes, struct dense_at freed, unsigned graphs)
{
    for (int i = 0; i < DENSE_LIMBO; i++) {
        struct limbo *limbo = &dense.limbo[i];

        if (limbo->bytes && !limbo_is_over(limbo))
            continue;
        *limbo = (struct limbo){memory_kept(bytes), device, freed, graphs, false};
        return;
    }
    dense_wrong("too much is freed at once", DENSE_LIMBO, 0);
}

void limbo_synchronised(void)
{
    for (int i = 0; i < DENSE_LIMBO; i++)
        dense.limbo[i].synchronised |= order_is_known(dense.limbo[i].freed);
}

void limbo_without_graph(int graph)
{
    for (int i = 0; i < DENSE_LIMBO; i++)
        dense.limbo[i].graphs &= ~(1U << graph);
}

static uint64_t memory_taken(int device)
{
    /* pools that keep what they have; on a small device none does */
    uint64_t taken = device || dense.small ? 0 : (uint64_t)dense.crowd_pools_count * 32 * MIB;

    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].kind != BLOCK_NONE && dense.blocks[i].device == device)
            taken += memory_kept(dense.blocks[i].bytes);
    for (int i = 0; i < DENSE_GRAPHS; i++)
        if (dense.graphs[i].used && dense.homes[dense.graphs[i].home].device == device)
            taken += dense.graphs[i].memory;
    for (int i = 0; i < DENSE_LIMBO; i++)
        if (dense.limbo[i].bytes && dense.limbo[i].device == device
                && !limbo_is_over(&dense.limbo[i]))
            taken += dense.limbo[i].bytes;
    return taken;
}

/* What is documented: chunks that small blocks hold, storage on its way, and the room that a best fit leaves. */
static uint64_t memory_slack(void)
{
    if (dense.scene == SCENE_IDLE_ENDS || dense.scene == SCENE_GRAPHS)
        return 48 * MIB; /* all blocks are large and of one size */
    return dense.memory / 4 + 32 * MIB;
}

uint64_t memory_held(int device)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};

    return cu.stats(&stats) == 0 ? stats.held[device] : 0;
}

bool memory_is_calm(void)
{
    return !dense.stall.n && dense.away < 0 && !graph_films();
}

bool memory_fits(int device, uint64_t bytes)
{
    /* what is freed meanwhile, or was shortly before, may be kept for the context's work (R26) */
    if (dense.scene == SCENE_BUSY_ENDS && dense.away >= 0)
        return memory_held(device) + memory_kept(bytes) + 48 * MIB <= dense.memory;
    return memory_taken(device) + memory_kept(bytes) + memory_slack() <= dense.memory;
}

bool memory_waits_for_end(int device, uint64_t bytes)
{
    bool ends = false;

    for (int i = 0; i < DENSE_HOMES; i++)
        ends |= dense.homes[i].leaving && dense.homes[i].device == device;
    return ends && !memory_fits(device, bytes);
}

void memory_refused(int device, uint64_t bytes, const char *call)
{
    dense_say("%s of %llu bytes refused, %llu taken", call, (unsigned long long)bytes,
            (unsigned long long)memory_taken(device));
    if (!graph_films()
            && memory_fits(device, bytes)) /* R10, R82: what is pending stays so beside a capture */
        dense_wrong(call, CUDA_ERROR_OUT_OF_MEMORY, CUDA_SUCCESS);
    COUNT(full_devices);
}

/* ---- birth ---------------------------------------------------------------------------------- */

uint32_t block_value(void)
{
    return ++dense.values | 0x5a000000;
}

struct dense_block *block_pick(int device)
{
    for (int tries = 0; tries < 16; tries++) {
        struct dense_block *block = &dense.blocks[dense_pick(DENSE_BLOCKS)];

        if (block->kind != BLOCK_NONE && !block->done && (device < 0 || block->device == device))
            return block;
    }
    return NULL;
}

static struct dense_block *block_free_entry(void)
{
    int alive = 0;

    for (int i = 0; i < DENSE_BLOCKS; i++)
        alive += dense.blocks[i].kind != BLOCK_NONE;
    if (alive >= (dense.scene == SCENE_LEGACY ? SCENE_LEGACY_BLOCKS : dense.small ? 6 : 12))
        return NULL;
    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].kind == BLOCK_NONE)
            return &dense.blocks[i];
    return NULL;
}

static uint64_t block_bytes(void)
{
    if (dense.small && !dense.scene && dense_chance(70))
        return (24 + 4 * (uint64_t)dense_pick(20)) * MIB;
    /* more than the budget has room for, while a context ends */
    if (dense.scene == SCENE_BUSY_ENDS)
        return dense.sizes[dense.away >= 0 ? 2 : dense_pick(2)];
    return dense.sizes[dense_pick(dense.sizes_count)];
}

static CUresult alloc_on(struct flow *flow, struct dense_block *block)
{
    bool ptsz;
    CUstream handle = flow_handle(flow, &ptsz);

    dense_home_enter(flow->home);
    if (block->device == 0 && dense_chance(35)) {
        int pool = dense_pick(DENSE_POOLS);

        if (dense.pools[pool]) {
            block->pool = pool;
            COUNT(pool_allocs);
            return ptsz ? cu.cuMemAllocFromPoolAsync_ptsz(
                           &block->ptr, block->bytes, dense.pools[pool], handle)
                        : cu.cuMemAllocFromPoolAsync(
                                &block->ptr, block->bytes, dense.pools[pool], handle);
        }
    }
    if (block->device == 0)
        block->pool = dense.current;
    return ptsz ? cu.cuMemAllocAsync_ptsz(&block->ptr, block->bytes, handle)
                : cu.cuMemAllocAsync(&block->ptr, block->bytes, handle);
}

/* The library's own events are refused while the call runs, which records none by itself. */
static bool refuse_events(void)
{
    bool refuses = dense.refuses && dense_chance(60);

    if (refuses)
        cu.fail_next("cuEventRecord", 0, CUDA_ERROR_UNKNOWN);
    if (refuses)
        COUNT(dense_refused);
    return refuses;
}

/* In a sparse world memory is the default stream's. */
static struct flow *flow_of_memory(struct hand *me)
{
    if (scene_memory())
        return flow_may(me, scene_memory()) ? scene_memory() : NULL;
    return dense.sparse && dense_chance(85) && flow_may(me, &dense.flows[0]) ? &dense.flows[0]
                                                                             : NULL;
}

bool act_alloc_stream(struct hand *me)
{
    struct flow *flow = flow_of_memory(me);
    struct dense_block *block = block_free_entry();
    CUresult result;
    bool refused;

    if (!flow && !scene_memory())
        flow = flow_pick(me, -1, -1);
    if (!flow || !block)
        return false;
    *block = (struct dense_block){.bytes = block_bytes(),
            .home = flow->home,
            .device = dense.homes[flow->home].device,
            .pool = -1};
    if (dense.small && !memory_fits(block->device, block->bytes)
            && ((dense.stall.n && graph_films()) || dense_chance(70)))
        return false; /* beside a capture the driver may order it behind what the stream that waits has freed */
    refused = refuse_events();
    dense.waits_for_end = memory_waits_for_end(block->device, block->bytes);
    result = alloc_on(flow, block);
    if (refused)
        (void)cu.fail_clear();
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        memory_refused(block->device, block->bytes, "cuMemAllocAsync");
        return true;
    }
    world_must(result, "cuMemAllocAsync", __FILE__, __LINE__);
    cu.born(block->ptr, block->bytes,
            flow->handle                        ? flow->handle
                    : flow->kind == LANE_THREAD ? CU_STREAM_PER_THREAD
                                                : CU_STREAM_LEGACY);
    block->kind = BLOCK_STREAM;
    block->writer = order_submit(flow);
    COUNT(stream_allocs);
    dense_say("block %d, 0x%llx + %llu, allocated on %d%s", (int)(block - dense.blocks), block->ptr,
            (unsigned long long)block->bytes, flow_index(flow),
            block->pool >= 0 ? ", own pool" : "");
    if (dense.further && dense_chance(50))
        pools_must_say();
    return true;
}

struct dense_block *block_sync(int home, uint64_t bytes)
{
    struct dense_block *block = block_free_entry();
    CUresult result;

    if (!block)
        return NULL;
    *block = (struct dense_block){
            .bytes = bytes, .home = home, .device = dense.homes[home].device, .pool = -1};
    dense_home_enter(home);
    dense.waits_for_end = memory_waits_for_end(block->device, bytes);
    result = cu.cuMemAlloc_v2(&block->ptr, block->bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        memory_refused(block->device, block->bytes, "cuMemAlloc");
        return NULL;
    }
    world_must(result, "cuMemAlloc_v2", __FILE__, __LINE__);
    cu.born(block->ptr, block->bytes, SIMCUDA_NO_STREAM);
    block->kind = BLOCK_SYNC;
    COUNT(sync_allocs);
    dense_say("block %d, 0x%llx + %llu, allocated in home %d", (int)(block - dense.blocks),
            block->ptr, (unsigned long long)block->bytes, home);
    return block;
}

bool act_alloc_sync(struct hand *me)
{
    int home = dense.scene     ? 0 /* what a context has goes when it has ended */
            : dense_chance(60) ? dense.crowded
                               : dense_pick(DENSE_HOMES);
    uint64_t bytes = block_bytes();

    if (!dense_home_is_usable(home) || !flow_is_safe(me)
            || order_device_is_stalled(dense.homes[home].device))
        return false;
    if (dense.small && !memory_fits(dense.homes[home].device, bytes)
            && dense_chance(dense.scene ? 100 : 70))
        return false;
    return block_sync(home, bytes) != NULL;
}

/* ---- uses ----------------------------------------------------------------------------------- */

static bool block_may_reach(const struct dense_block *block, const struct flow *flow)
{
    return home_reaches(flow->home, block)
            && (block->kind != BLOCK_SYNC || dense_home_is_usable(block->home));
}

bool block_may_write(const struct dense_block *block, const struct flow *flow)
{
    struct dense_clock next = order_next(flow);

    return block_may_reach(block, flow) && order_is_before(block->writer, &next)
            && order_are_before(&block->readers, &next);
}

static bool block_may_read(const struct dense_block *block, const struct flow *flow)
{
    struct dense_clock next = order_next(flow);

    return block_may_reach(block, flow) && order_is_before(block->writer, &next);
}

void block_written(struct dense_block *block, struct dense_at at, uint32_t value)
{
    block->writer = at;
    block->readers = (struct dense_clock){{0}};
    block->value = value;
    block->hashed = false;
}

static void block_read(struct dense_block *block, struct dense_at at)
{
    if (block->readers.at[at.flow] < at.n)
        block->readers.at[at.flow] = at.n;
}

/* A flow on which the block may be used; sometimes one is ordered behind its last use for that. */
static struct flow *flow_for(struct hand *me, const struct dense_block *block, bool write)
{
    struct flow *flow = NULL;

    for (int tries = 0; tries < 8; tries++) {
        flow = flow_pick(me, -1, dense.homes[0].peer ? -1 : block->device);
        if (flow && scene_memory() == flow && dense_chance(95))
            continue;
        if (flow && (write ? block_may_write(block, flow) : block_may_read(block, flow)))
            return flow;
    }
    if (!flow || dense.scene == SCENE_LEGACY || !dense_chance(35) || !block->writer.n)
        return NULL;
    flow_follow(me, flow, &dense.flows[block->writer.flow]);
    return (write ? block_may_write(block, flow) : block_may_read(block, flow)) ? flow : NULL;
}

static uint64_t block_pitch(const struct dense_block *block)
{
    return block->bytes / ROWS & ~(uint64_t)511;
}

/* Whether a kernel does it. */
static bool fill(struct flow *flow, const struct dense_block *block, uint32_t value)
{
    uint64_t ptr = block->ptr, bytes = block->bytes;
    void *params[] = {&ptr, &bytes, &value};
    bool ptsz;
    CUstream handle = flow_handle(flow, &ptsz);

    dense_home_enter(flow->home);
    if (bytes > WHOLE) {
        if (ptsz)
            DO(cuMemsetD2D32Async_ptsz(ptr, block_pitch(block), value, ROW_WORDS, ROWS, handle));
        else
            DO(cuMemsetD2D32Async(ptr, block_pitch(block), value, ROW_WORDS, ROWS, handle));
    } else if (dense_chance(50)) {
        if (ptsz)
            DO(cuMemsetD32Async_ptsz(ptr, value, bytes / 4, handle));
        else
            DO(cuMemsetD32Async(ptr, value, bytes / 4, handle));
    } else {
        CUfunction kernel = dense.homes[flow->home].fill;

        if (ptsz)
            DO(cuLaunchKernel_ptsz(kernel, 1, 1, 1, 32, 1, 1, 0, handle, params, NULL));
        else
            DO(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, handle, params, NULL));
        return true;
    }
    return false;
}

bool act_fill(struct hand *me)
{
    struct dense_block *block = block_pick(-1);
    struct flow *flow = block ? flow_for(me, block, true) : NULL;
    uint32_t value = block_value();
    bool hashed;

    if (!flow)
        return false;
    hashed = fill(flow, block, value);
    block_written(block, order_submit(flow), value);
    block->hashed = hashed;
    COUNT(dense_fills);
    dense_say("block %d filled on %d", (int)(block - dense.blocks), flow_index(flow));
    return true;
}

int check_slot(void)
{
    for (int tries = 0; tries < 24; tries++) {
        int slot = dense_pick(DENSE_CHECKS);

        if (!dense.checks[slot].on)
            return slot;
    }
    return -1;
}

void check_expect(int slot, uint32_t want, struct dense_at done, const char *what)
{
    dense.checks[slot] = (struct dense_check){true, want, done, what};
}

/* One word is copied to pinned memory, and looked at when the host may rely on it. */
static bool check_word(struct flow *flow, struct dense_block *block, uint64_t offset)
{
    int slot = check_slot();
    uint32_t want = block->value;
    struct dense_at at;
    CUstream handle;
    bool ptsz;

    if (slot < 0)
        return false;
    dense_home_enter(flow->home);
    dense.pinned[slot] = 0;
    handle = flow_handle(flow, &ptsz);
    if (ptsz)
        DO(cuMemcpyDtoHAsync_v2_ptsz(&dense.pinned[slot], block->ptr + offset, 4, handle));
    else
        DO(cuMemcpyDtoHAsync_v2(&dense.pinned[slot], block->ptr + offset, 4, handle));
    at = order_submit(flow);
    block_read(block, at);
    if (block->hashed)
        host_fill(&want, sizeof(want), want);
    check_expect(slot, want, at, "a copied word");
    return true;
}

bool act_check(struct hand *me)
{
    struct dense_block *block = block_pick(-1);
    struct flow *flow = block && block->value ? flow_for(me, block, false) : NULL;

    if (!flow)
        return false;
    if (block->bytes <= WHOLE)
        return check_word(
                flow, block, block->hashed ? 0 : (uint64_t)dense_pick((int)(block->bytes / 4)) * 4);
    dense_say("block %d read on %d", (int)(block - dense.blocks), flow_index(flow));
    return check_word(flow, block, (uint64_t)dense_pick(2) * block_pitch(block))
            && check_word(flow, block,
                    (uint64_t)(2 + dense_pick(ROWS - 2)) * block_pitch(block) + ROW_WORDS * 4 - 4);
}

bool act_copy(struct hand *me)
{
    struct dense_block *from = block_pick(-1);
    struct dense_block *to = from ? block_pick(from->device) : NULL;
    struct flow *flow;
    struct dense_at at;

    if (!to || to == from || from->bytes != to->bytes || from->bytes > 4 * MIB || !from->value)
        return false;
    flow = flow_for(me, to, true);
    if (!flow || !block_may_read(from, flow))
        return false;
    dense_home_enter(flow->home);
    if (from->home != to->home && from->kind == BLOCK_SYNC && to->kind == BLOCK_SYNC)
        DO(cuMemcpyPeerAsync(to->ptr, dense.homes[to->home].handle, from->ptr,
                dense.homes[from->home].handle, from->bytes,
                flow->handle ? flow->handle
                             : (flow->kind == LANE_THREAD ? CU_STREAM_PER_THREAD : NULL)));
    else
        DO(cuMemcpyDtoDAsync_v2(to->ptr, from->ptr, from->bytes,
                flow->handle ? flow->handle
                             : (flow->kind == LANE_THREAD ? CU_STREAM_PER_THREAD : NULL)));
    at = order_submit(flow);
    block_written(to, at, from->value);
    to->hashed = from->hashed;
    block_read(from, at);
    return true;
}

/* ---- death ---------------------------------------------------------------------------------- */

void block_dead(struct dense_block *block, struct dense_at freed)
{
    limbo_add(block->device, block->bytes, freed, block->graphs | graph_films());
    for (int i = 0; i < DENSE_GRAPHS; i++)
        if (block->graphs >> i & 1)
            dense.graphs[i].stale = true;
    block->kind = BLOCK_NONE;
    block->graphs = 0;
}

static void free_on(struct flow *flow, const struct dense_block *block)
{
    bool ptsz;
    CUstream handle = flow_handle(flow, &ptsz);

    dense_home_enter(flow->home);
    cu.dies(block->ptr,
            handle                              ? handle
                    : flow->kind == LANE_THREAD ? CU_STREAM_PER_THREAD
                                                : CU_STREAM_LEGACY);
    if (ptsz)
        DO(cuMemFreeAsync_ptsz(block->ptr, handle));
    else
        DO(cuMemFreeAsync(block->ptr, handle));
}

/* One that is not to be used any more, too. */
static struct dense_block *block_to_free(void)
{
    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].kind != BLOCK_NONE && dense.blocks[i].done && dense_chance(30))
            return &dense.blocks[i];
    return block_pick(-1);
}

bool act_free_stream(struct hand *me)
{
    struct dense_block *block = block_to_free(), dying;
    struct flow *flow = block && block->kind == BLOCK_STREAM ? flow_of_memory(me) : NULL;
    bool refused;

    if (flow && !block_may_write(block, flow))
        flow = NULL;
    if (!flow && block && block->kind == BLOCK_STREAM && !scene_memory())
        flow = flow_for(me, block, true);
    if (!flow)
        return false;
    dense_say("block %d freed on %d", (int)(block - dense.blocks), flow_index(flow));
    dying = *block;
    block_dead(block, (struct dense_at){flow_index(flow), flow->count + 1});
    refused = refuse_events();
    free_on(flow, &dying);
    if (refused) /* no library makes it an operation then */
        (void)cu.fail_clear();
    else
        (void)order_submit(flow);
    COUNT(dense_stream_frees);
    return true;
}

/* cuMemFree waits for the block's context; what other contexts do to it, and all use of stream-ordered memory, must be over. */
static bool may_free_sync(const struct dense_block *block)
{
    struct dense_clock uses = block->readers;

    if (block->writer.n && uses.at[block->writer.flow] < block->writer.n)
        uses.at[block->writer.flow] = block->writer.n;
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (!order_is_known((struct dense_at){i, uses.at[i]})
                && (block->kind == BLOCK_STREAM || dense.flows[i].home != block->home))
            return false;
    return true;
}

bool act_free_sync(struct hand *me)
{
    struct dense_block *block = block_to_free(), dying;
    struct dense_clock all;

    if (!block || !flow_is_safe(me) || !may_free_sync(block)
            || order_device_is_stalled(block->device)
            || (block->kind == BLOCK_SYNC && !dense_home_is_usable(block->home)))
        return false;
    if (dense_chance(dense.further ? 40 : 80) && dense_home_is_usable(block->home))
        dense_home_enter(block->home);
    else if (dense_home_is_usable(0))
        dense_home_enter(0);
    dense_say("block %d freed by cuMemFree", (int)(block - dense.blocks));
    dying = *block;
    all = order_of_home(block->home);
    cu.dies(dying.ptr, SIMCUDA_NO_STREAM);
    DO(cuMemFree_v2(dying.ptr));
    block_dead(block, (struct dense_at){0});
    COUNT(dense_sync_frees);
    if (dying.kind == BLOCK_SYNC && dense.barrier) {
        order_host_waited(&all);
        COUNT(dense_barriers);
    }
    return true;
}

/* What nobody names any more counts as free, once the program has waited (R80). */
static void memory_info_must_say(void)
{
    struct dense_clock all = order_of_home(0);
    size_t available, total;

    DO(cuCtxSynchronize());
    order_host_waited(&all);
    limbo_synchronised();
    DO(cuMemGetInfo_v2(&available, &total));
    if (available + memory_taken(0) + memory_slack() < dense.memory)
        dense_wrong("what cuMemGetInfo says is free", available, dense.memory - memory_taken(0));
}

/* All that must be there. What it takes is free again before anybody else acts. */
bool act_memory_room(struct hand *me)
{
    struct dense_clock home = order_of_home(0);
    CUdeviceptr all[32];
    int count = 0;

    if (graph_films() || !flow_is_safe(me) || order_device_is_stalled(0))
        return false;
    dense_home_enter(0);
    if (dense.scene == SCENE_GRAPHS)
        memory_info_must_say();
    while (count < 32 && memory_fits(0, (uint64_t)(count + 1) * dense.sizes[0])) {
        CUresult result = cu.cuMemAlloc_v2(&all[count], dense.sizes[0]);

        if (result)
            dense_wrong("blocks that are served of those that fit", (uint64_t)count, result);
        count++;
    }
    dense_say("room for %d blocks", count);
    for (int i = 0; i < count; i++)
        DO(cuMemFree_v2(all[i]));
    if (count > 0 && dense.barrier)
        order_host_waited(&home);
    COUNT(dense_filled);
    return count > 0;
}

static uint64_t memory_alive(int device)
{
    uint64_t bytes = 0;

    for (int i = 0; i < DENSE_BLOCKS; i++)
        if (dense.blocks[i].kind != BLOCK_NONE && dense.blocks[i].device == device)
            bytes += dense.blocks[i].bytes;
    return bytes;
}

/* What the program holds is not free, and is where it was asked for. */
bool act_memory_info(struct hand *me)
{
    size_t available, total;

    (void)me;
    dense_home_enter(0);
    DO(cuMemGetInfo_v2(&available, &total));
    if (available + memory_alive(0) > total)
        dense_wrong("cuMemGetInfo", available, total - memory_alive(0));
    pools_must_say();
    return true;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void memory_must_be_there(int device, uint64_t bytes, bool on_stream)
{
    CUdeviceptr ptr;
    CUresult result =
            on_stream ? cu.cuMemAllocAsync(&ptr, bytes, NULL) : cu.cuMemAlloc_v2(&ptr, bytes);

    if (result)
        dense_wrong(device ? "all of device 1's memory, at the end"
                           : "all of device 0's memory, at the end",
                result, CUDA_SUCCESS);
    if (on_stream)
        DO(cuMemFreeAsync(ptr, NULL));
    else
        DO(cuMemFree_v2(ptr));
    DO(cuCtxSynchronize());
}

void memory_end(struct hand *me)
{
    uint64_t most = dense.memory - 2 * MIB;
    size_t available, total;
    CUmemoryPool pool;

    (void)me;
    for (int i = 0; i < DENSE_BLOCKS; i++) {
        struct dense_block *block = &dense.blocks[i];

        if (block->kind == BLOCK_NONE)
            continue;
        dense_home_enter(block->home);
        cu.dies(block->ptr, SIMCUDA_NO_STREAM);
        DO(cuMemFree_v2(block->ptr));
        block->kind = BLOCK_NONE;
    }
    for (int i = 0; i < DENSE_HOMES; i++) {
        if (!dense.homes[i].handle || !dense.homes[i].primary)
            continue;
        dense_home_enter(i);
        DO(cuCtxSynchronize());
        if (dense_chance(30)) {
            DO(cuDeviceGetDefaultMemPool(&pool, dense.homes[i].device));
            DO(cuMemPoolTrimTo(pool, 0));
        }
        DO(cuMemGetInfo_v2(&available, &total));
        if (available < most - 14 * MIB) /* no answer is finer than storage is asked for in */
            dense_wrong("what cuMemGetInfo says is free, at the end", available, most);
        memory_must_be_there(dense.homes[i].device, most, dense_chance(50));
        COUNT(dense_ends);
    }
}

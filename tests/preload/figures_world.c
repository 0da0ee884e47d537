/* SPDX-License-Identifier: MIT */
#define KEDGE_CHECK_NO_MAIN
#include "tests/preload/figures_world.h"

#include "preload/base/kedge.h"

enum kind {
    KIND_NONE,
    KIND_SYNC,
    KIND_STREAM,
    KIND_HANDLE, /* physical memory of the program's own */
};

struct block {
    enum kind kind;
    uint64_t ptr; /* or handle */
    size_t size;
    int device, context, pool, stream;
    bool hinted; /* its storage may go, or has gone, before it is freed */
};

struct mempool {
    CUmemoryPool handle;
    bool is_open; /* else: destroyed, but its blocks live on */
    bool is_ours; /* kedge serves it */
    int device;
    uint64_t threshold;
    uint64_t used, used_high; /* predicted */
    uint64_t seen_high;       /* RESERVED, the most that was seen since its mark was reset */
};

static struct {
    const struct world_form *form;
    uint64_t seed, state;
    unsigned step;
    const char *doing;
    struct block block[WORLD_BLOCKS];
    struct mempool pool[WORLD_POOLS];
    CUcontext context[WORLD_CONTEXTS]; /* NULL = dead */
    int context_device[WORLD_CONTEXTS];
    CUstream stream[WORLD_DEVICES][WORLD_STREAMS];
    int current[WORLD_DEVICES]; /* pool of the calls that name none */
    uint64_t base[WORLD_DEVICES], total[WORLD_DEVICES];
    /* blocks may stand in memory of the driver's own, or it keeps some of a pool that is gone */
    bool is_blurred[WORLD_DEVICES];
    bool in_phase;
    unsigned done
            [4]; /* allocations, frees, deaths, refusals: a program that does nothing proves nothing */
} world;

const char *const world_floor_name[FLOOR_COUNT] = {"allocations", "frees", "refusals",
        "failed_calls", "contexts_ended", "pools_ended_with_blocks", "hinted_blocks", "told_had",
        "exact_used", "bounded_after_waits", "trims"};
uint64_t *world_floors;

/* ── small things ── */

static uint64_t dice(uint64_t sides)
{
    world.state ^= world.state << 13;
    world.state ^= world.state >> 7;
    world.state ^= world.state << 17;
    return (world.state >> 11) % sides;
}

static size_t rounded(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static void must(CUresult result)
{
    REQUIRE_EQ(result, CUDA_SUCCESS);
}

static void use_device(int device)
{
    must(cu->cuCtxSetCurrent(world.context[device]));
}

static struct block *pick_block(enum kind kind)
{
    size_t first = dice(WORLD_BLOCKS);

    for (size_t i = 0; i < WORLD_BLOCKS; i++) {
        struct block *block = &world.block[(first + i) % WORLD_BLOCKS];

        if (block->kind == kind)
            return block;
    }
    return NULL;
}

/* What kedge counts a block as: what the driver would give it, where it stands alone. */
static size_t unit_of(const struct block *block)
{
    return world.form->whole && block->kind == KIND_SYNC && block->size >= 2 * MB ? 2 * MB : 512;
}

static uint64_t held_on(int device, bool by_ours)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < WORLD_BLOCKS; i++) {
        const struct block *block = &world.block[i];

        if (block->kind == KIND_NONE || block->device != device)
            continue;
        if (block->kind == KIND_STREAM && !world.pool[block->pool].is_ours && by_ours)
            continue;
        bytes += by_ours ? rounded(block->size, unit_of(block)) : block->size;
    }
    return bytes;
}

/* ── the figures ── */

static uint64_t ask(const struct mempool *pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;

    must(cu->cuMemPoolGetAttribute(pool->handle, which, &value));
    return value;
}

/* Memory of pools that the driver serves: what it holds for them, it says itself. */
static uint64_t held_by_driver(int device)
{
    uint64_t bytes = 0;

    for (int i = 0; i < WORLD_POOLS; i++)
        if (world.pool[i].is_open && !world.pool[i].is_ours && world.pool[i].device == device)
            bytes += ask(&world.pool[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    return bytes;
}

/* Bytes of blocks whose storage may have gone before their free. */
static uint64_t hinted_on(int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < WORLD_BLOCKS; i++)
        if (world.block[i].kind != KIND_NONE && world.block[i].device == device
                && world.block[i].hinted)
            bytes += world.block[i].size;
    return bytes;
}

/* One request of all that is told to be free, by either API; it is over at once. */
static void take_what_is_told(int device, size_t bytes)
{
    struct mempool *pool = &world.pool[device];
    /* where calls fail, the marks of a pool are the heap's and the driver's, added up: not to be raised by this */
    bool streams = !world.form->fails && dice(2);
    CUdeviceptr ptr = 0;

    if (streams)
        CHECK_EQ(cu->cuMemAllocFromPoolAsync(&ptr, bytes, pool->handle, world.stream[device][1]),
                CUDA_SUCCESS);
    else
        CHECK_EQ(cu->cuMemAlloc_v2(&ptr, bytes), CUDA_SUCCESS);
    if (!ptr)
        return;
    world_floors[FLOOR_TOLD_HAD]++;
    if (!streams) {
        must(cu->cuMemFree_v2(ptr));
        return;
    }
    must(cu->cuMemFreeAsync(ptr, world.stream[device][1]));
    if (pool->used + bytes > pool->used_high)
        pool->used_high = pool->used + bytes;
}

static void check_device(int device)
{
    __typeof__(&cuMemGetInfo_v2) native = (__typeof__(native))client_driver("cuMemGetInfo_v2");
    uint64_t held = held_on(device, false);
    size_t available = 0;
    size_t total = 0;
    size_t least;

    use_device(device);
    must(cu->cuMemGetInfo_v2(&available, &total));
    CHECK_EQ(total, world.total[device]);
    /* With hints a program may hold more than there is: then nothing is free. */
    CHECK_LE(available, total - (held < total ? held : total));
    if (held > total / 2)
        world.is_blurred[device] = true;
    if (world.form->native)
        return;
    if (!world.form->fails && !world.is_blurred[device]) {
        CHECK_LE(available, world.base[device] - held_on(device, true) - held_by_driver(device));
        /* what the driver has free is free, but for what hints took from blocks that are held */
        must(native(&least, &total));
        CHECK_LE(least, available + hinted_on(device) + world.form->granule);
    }
    if (available && dice(64) == 0)
        take_what_is_told(device, available);
}

static uint64_t without_storage(const struct mempool *pool)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < WORLD_BLOCKS; i++)
        if (world.block[i].kind == KIND_STREAM && &world.pool[world.block[i].pool] == pool
                && world.block[i].hinted)
            bytes += world.block[i].size;
    return bytes;
}

static void check_pool(struct mempool *pool)
{
    uint64_t used = ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    uint64_t used_high = ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    uint64_t reserved = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t reserved_high = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);

    CHECK_LE(used, used_high);
    CHECK_LE(reserved, reserved_high);
    CHECK_LE(reserved_high, world.total[pool->device]);
    if (reserved > pool->seen_high)
        pool->seen_high = reserved;
    CHECK_LE(pool->seen_high, reserved_high);
    CHECK_LE(used, reserved + without_storage(pool));
    if (world.form->native || !pool->is_ours)
        return;
    CHECK_EQ(used, pool->used);
    world_floors[FLOOR_EXACT_USED] += used > 0;
    CHECK_EQ(used_high, pool->used_high);
    world_floors[FLOOR_EXACT_USED] += used > 0;
    if (world.form->fails || world.is_blurred[pool->device])
        CHECK_LE(pool->used_high, used_high); /* the heap's mark and the driver's, added up */
    else
        CHECK_EQ(used_high, pool->used_high);
}

/* What the pools say that they hold, the device has given. */
static void check_ledger(void)
{
    struct simcuda_stats stats = {.size = sizeof stats};
    uint64_t held[WORLD_DEVICES] = {0};

    ((__typeof__(&simcuda_stats))client_sim("simcuda_stats"))(&stats);
    for (int i = 0; i < WORLD_POOLS; i++)
        if (world.pool[i].is_open)
            held[world.pool[i].device] += ask(&world.pool[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    for (int device = 0; device < WORLD_DEVICES; device++)
        CHECK_LE(held[device], stats.held[device]);
}

static void check_all(void)
{
    for (int device = 0; device < WORLD_DEVICES; device++)
        check_device(device);
    for (int i = 0; i < WORLD_POOLS; i++)
        if (world.pool[i].is_open)
            check_pool(&world.pool[i]);
    check_ledger();
}

/* ── what a block does to the books ── */

static void born(struct block *block)
{
    struct mempool *pool = &world.pool[block->pool];

    world_floors[FLOOR_ALLOCS]++;
    if (block->kind != KIND_STREAM)
        return;
    pool->used += rounded(block->size, 512);
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
}

static void died(struct block *block)
{
    if (block->kind == KIND_STREAM)
        world.pool[block->pool].used -= rounded(block->size, 512);
    block->kind = KIND_NONE;
}

/* ── calls ── */

static size_t some_size(void)
{
    if (world.in_phase && dice(2))
        return 8 * MB;
    switch (dice(8)) {
    case 0:
        return 1 + dice(700);
    case 1:
    case 2:
        return 1 + dice(64 << 10);
    case 3:
    case 4:
        return 1 + dice(1 * MB);
    case 5:
    case 6:
        return 1 + dice(12 * MB);
    default:
        return dice(12) ? 2 * MB * (1 + dice(8)) : 64 * MB * (1 + dice(8));
    }
}

/* One of the calls that make memory fails, the program's or one of kedge's. */
static void arm(void)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
            "cuMemAlloc_v2", "cuMemAddressReserve", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
            "cuMemGetInfo_v2"};

    if (world.form->fails && dice(4) == 0)
        ((__typeof__(&simcuda_fail_next))client_sim("simcuda_fail_next"))(
                calls[dice(sizeof calls / sizeof *calls)], 1 + (unsigned)dice(3),
                CUDA_ERROR_OUT_OF_MEMORY);
}

static void disarm(void)
{
    if (world.form->fails
            && ((__typeof__(&simcuda_fail_clear))client_sim("simcuda_fail_clear"))() > 0)
        world_floors[FLOOR_FAILED]++;
}

static bool was_served(CUresult result, struct block *block, uint64_t ptr)
{
    disarm();
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        world.is_blurred[block->device] = true;
        world_floors[FLOOR_REFUSED]++;
        return false;
    }
    must(result);
    block->ptr = ptr;
    block->hinted = world.form->hinted && world.in_phase && block->size == 8 * MB;
    return true;
}

static void alloc_sync(void)
{
    struct block *block = pick_block(KIND_NONE);
    struct block new = {
            .kind = KIND_SYNC, .context = (int)dice(WORLD_CONTEXTS), .size = some_size()};
    CUdeviceptr ptr = 0;
    CUresult result;

    world.doing = "cuMemAlloc";
    if (!block || !world.context[new.context])
        return;
    new.device = world.context_device[new.context];
    must(cu->cuCtxSetCurrent(world.context[new.context]));
    arm();
    result = cu->cuMemAlloc_v2(&ptr, new.size);
    if (was_served(result, &new, ptr)) {
        *block = new;
        born(block);
    }
}

static void alloc_stream(void)
{
    struct block *block = pick_block(KIND_NONE);
    struct block new = {.kind = KIND_STREAM, .size = some_size()};
    CUdeviceptr ptr = 0;
    CUresult result;
    bool by_name = dice(2);

    world.doing = by_name ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync";
    new.pool = by_name ? (int)dice(WORLD_POOLS) : world.current[dice(WORLD_DEVICES)];
    if (!block || !world.pool[new.pool].is_open)
        return;
    new.device = world.pool[new.pool].device;
    new.stream = (int)dice(WORLD_STREAMS);
    use_device(new.device);
    arm();
    result = by_name ? cu->cuMemAllocFromPoolAsync(&ptr, new.size, world.pool[new.pool].handle,
                     world.stream[new.device][new.stream])
                     : cu->cuMemAllocAsync(&ptr, new.size, world.stream[new.device][new.stream]);
    if (was_served(result, &new, ptr)) {
        *block = new;
        born(block);
    }
}

static void alloc_handle(void)
{
    struct block *block = pick_block(KIND_NONE);
    struct block new = {.kind = KIND_HANDLE, .device = (int)dice(WORLD_DEVICES)};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = new.device}};
    CUmemGenericAllocationHandle handle = 0;
    CUresult result;

    world.doing = "cuMemCreate";
    new.size = 2 * MB *(1 + dice(8));
    if (!block)
        return;
    use_device(new.device);
    result = cu->cuMemCreate(&handle, new.size, &prop, 0);
    if (was_served(result, &new, handle)) {
        *block = new;
        born(block);
    }
}

static void touch(void)
{
    struct block *block = pick_block(dice(2) ? KIND_SYNC : KIND_STREAM);
    int stream;

    world.doing = "cuMemsetD8Async";
    if (!block || block->hinted)
        return;
    stream = block->kind == KIND_SYNC ? (int)dice(WORLD_STREAMS) : block->stream;
    if (block->kind == KIND_SYNC && block->context >= WORLD_DEVICES)
        return; /* streams are those of the primary contexts */
    use_device(block->device);
    must(cu->cuMemsetD8Async(block->ptr, 1, block->size < 4096 ? block->size : 4096,
            world.stream[block->device][stream]));
}

static void free_one(void)
{
    static const enum kind kinds[] = {KIND_SYNC, KIND_STREAM, KIND_STREAM, KIND_HANDLE};
    struct block *block = pick_block(kinds[dice(4)]);
    CUstream own, other;

    world.doing = "free";
    if (!block)
        return;
    use_device(block->device);
    if (block->kind == KIND_HANDLE) {
        must(cu->cuMemRelease(block->ptr));
    } else if (block->kind == KIND_SYNC) {
        must(cu->cuCtxSetCurrent(world.context[block->context]));
        must(cu->cuMemFree_v2(block->ptr));
    } else {
        own = world.stream[block->device][block->stream];
        other = world.stream[block->device][dice(WORLD_STREAMS)];
        if (other != own || dice(8) == 0)
            must(cu->cuStreamSynchronize(own));
        if (dice(8) == 0) {
            must(cu->cuStreamSynchronize(own));
            must(cu->cuMemFree_v2(block->ptr));
        } else {
            must(cu->cuMemFreeAsync(block->ptr, other));
        }
    }
    world_floors[FLOOR_FREES]++;
    died(block);
}

/* ── waits and trims ── */

static void wait_for(int device)
{
    for (int i = 0; i < WORLD_CONTEXTS; i++) {
        if (!world.context[i] || world.context_device[i] != device)
            continue;
        must(cu->cuCtxSetCurrent(world.context[i]));
        must(cu->cuCtxSynchronize());
    }
    use_device(device);
    must(cu->cuCtxSynchronize()); /* frees of the other contexts have passed, too */
}

/* Bytes of whole granules in which a block of the pool lives: each counted once. */
static uint64_t granules_of(const struct mempool *pool)
{
    uint64_t seen[4096];
    size_t count = 0;

    for (size_t i = 0; i < WORLD_BLOCKS; i++) {
        const struct block *block = &world.block[i];
        uint64_t at = block->ptr / world.form->granule;

        if (block->kind != KIND_STREAM || &world.pool[block->pool] != pool)
            continue;
        for (; at <= (block->ptr + rounded(block->size, 512) - 1) / world.form->granule; at++) {
            size_t n = 0;

            while (n < count && seen[n] != at)
                n++;
            if (n == count && count < sizeof seen / sizeof *seen)
                seen[count++] = at;
        }
    }
    return count * world.form->granule;
}

/* Without what the driver itself holds in its pool of this handle, which has served requests where a device was full: the
 * driver gives back pieces of 32 MiB or nothing. */
static uint64_t held_by_kedge(const struct mempool *pool)
{
    __typeof__(&cuMemPoolGetAttribute) native =
            (__typeof__(native))client_driver("cuMemPoolGetAttribute");
    cuuint64_t drivers = 0;

    must(native(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &drivers));
    return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) - drivers;
}

static bool can_bound(const struct mempool *pool)
{
    return pool->is_open && pool->is_ours && !world.form->native && !world.form->fails
            && !world.is_blurred[pool->device];
}

static void synchronise(void)
{
    int device = (int)dice(WORLD_DEVICES);

    world.doing = "cuCtxSynchronize";
    wait_for(device);
    for (int i = 0; i < WORLD_POOLS && !world.form->keeps; i++) {
        const struct mempool *pool = &world.pool[i];
        uint64_t most;

        if (!can_bound(pool) || pool->device != device)
            continue;
        most = granules_of(pool);
        if (pool->threshold > most)
            most = pool->threshold;
        CHECK_LE(held_by_kedge(pool), most);
        world_floors[FLOOR_WAITED]++;
    }
}

static void synchronise_stream(void)
{
    int device = (int)dice(WORLD_DEVICES);

    world.doing = "cuStreamSynchronize";
    use_device(device);
    must(cu->cuStreamSynchronize(world.stream[device][dice(WORLD_STREAMS)]));
}

static void trim(void)
{
    struct mempool *pool = &world.pool[dice(WORLD_POOLS)];
    uint64_t keep, before, after, held, granules;
    bool waited = dice(2);
    bool all = dice(3) == 0;

    world.doing = "cuMemPoolTrimTo";
    if (!pool->is_open)
        return;
    if (waited)
        wait_for(pool->device);
    use_device(pool->device);
    keep = all ? 0 : dice(48 * MB);
    before = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    must(cu->cuMemPoolTrimTo(pool->handle, keep));
    after = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    CHECK_LE(after, before);
    CHECK_GE(after, before < keep ? before : keep);
    if (!waited || !can_bound(pool))
        return;
    granules = granules_of(pool);
    held = held_by_kedge(pool);
    /* what is free in pieces goes as long as that is not below `keep` */
    keep += world.form->hinted ? 8 * MB : world.form->granule;
    CHECK_LE(held, granules > keep ? granules : keep);
    if (all)
        CHECK_LE(held, granules);
    world_floors[FLOOR_TRIMMED] += after < before;
}

static void set_threshold(struct mempool *pool)
{
    static const uint64_t thresholds[] = {0, 4 << 20, 32 << 20, UINT64_MAX};
    cuuint64_t value = thresholds[dice(4)];

    must(cu->cuMemPoolSetAttribute(pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
    pool->threshold = value;
    CHECK_EQ(ask(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), value);
}

static void set_attribute(void)
{
    struct mempool *pool = &world.pool[dice(WORLD_POOLS)];
    cuuint64_t value = 0;

    world.doing = "cuMemPoolSetAttribute";
    if (!pool->is_open)
        return;
    switch (dice(3)) {
    case 0:
        set_threshold(pool);
        return;
    case 1:
        must(cu->cuMemPoolSetAttribute(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
        pool->used_high = pool->used;
        CHECK_EQ(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
                ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
        return;
    default:
        must(cu->cuMemPoolSetAttribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
        pool->seen_high = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        CHECK_EQ(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), pool->seen_high);
    }
}

/* ── pools and contexts that come and go ── */

static void make_pool(void)
{
    int i = WORLD_DEVICES + (int)dice(WORLD_POOLS - WORLD_DEVICES);
    struct mempool *pool = &world.pool[i];
    bool ours = dice(4) != 0;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .handleTypes =
                    ours ? CU_MEM_HANDLE_TYPE_NONE : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)dice(WORLD_DEVICES)}};

    world.doing = "cuMemPoolCreate";
    for (size_t at = 0; at < WORLD_BLOCKS; at++)
        if (world.block[at].kind == KIND_STREAM && world.block[at].pool == i)
            return; /* the number is still in use */
    if (pool->is_open)
        return;
    *pool = (struct mempool){.is_open = true, .is_ours = ours, .device = props.location.id};
    must(cu->cuMemPoolCreate(&pool->handle, &props));
    set_threshold(pool);
}

static void set_current_pool(void)
{
    int i = (int)dice(WORLD_POOLS);

    world.doing = "cuDeviceSetMemPool";
    if (!world.pool[i].is_open)
        return;
    must(cu->cuDeviceSetMemPool(world.pool[i].device, world.pool[i].handle));
    world.current[world.pool[i].device] = i;
}

static void destroy_pool(void)
{
    int i = WORLD_DEVICES + (int)dice(WORLD_POOLS - WORLD_DEVICES);
    struct mempool *pool = &world.pool[i];

    world.doing = "cuMemPoolDestroy";
    if (!pool->is_open)
        return;
    if (!pool->is_ours && ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) > 0)
        world.is_blurred[pool->device] = true;
    world_floors[FLOOR_POOLS_ENDED] += pool->used > 0;
    must(cu->cuMemPoolDestroy(pool->handle));
    pool->is_open = false;
    if (world.current[pool->device] == i)
        world.current[pool->device] = pool->device; /* the default one again */
}

static void forget_context(int i)
{
    for (size_t at = 0; at < WORLD_BLOCKS; at++)
        if (world.block[at].kind == KIND_SYNC && world.block[at].context == i)
            died(&world.block[at]);
    world_floors[FLOOR_CONTEXTS_ENDED]++;
}

static void make_or_end_context(void)
{
    int i = WORLD_DEVICES + (int)dice(WORLD_CONTEXTS - WORLD_DEVICES);
    int device = (int)dice(WORLD_DEVICES);

    world.doing = "cuCtxCreate, cuCtxDestroy";
    if (!world.context[i]) {
        must(cu->cuCtxCreate_v2(&world.context[i], 0, device));
        world.context_device[i] = device;
        return;
    }
    wait_for(world.context_device[i]);
    must(cu->cuCtxDestroy_v2(world.context[i]));
    world.context[i] = NULL;
    forget_context(i);
}

static void make_streams(int device)
{
    use_device(device);
    for (int i = 1; i < WORLD_STREAMS; i++)
        must(cu->cuStreamCreate(&world.stream[device][i], i == 1 ? CU_STREAM_NON_BLOCKING : 0));
}

static void reset_device(void)
{
    int device = (int)dice(WORLD_DEVICES);

    world.doing = "cuDevicePrimaryCtxReset";
    if (dice(4))
        return;
    wait_for(device);
    must(cu->cuDevicePrimaryCtxReset_v2(device));
    forget_context(device);
    make_streams(device);
    for (size_t at = 0; at < WORLD_BLOCKS; at++)
        if (world.block[at].kind == KIND_STREAM && world.block[at].device == device)
            world.block[at].stream = 0; /* its own is gone */
}

static void change_phase(void)
{
    world.doing = "an anchor's edge";
    if (!world.form->hinted)
        return;
    use_device(0);
    for (size_t i = 0; i < WORLD_BLOCKS && world.in_phase; i++)
        world_floors[FLOOR_HINTED] += world.block[i].kind != KIND_NONE && world.block[i].hinted;
    if (world.in_phase)
        KEDGE_POP();
    else
        KEDGE_PUSH("PHASE_1");
    world.in_phase = !world.in_phase;
}

/* ── a program ── */

static void begin(uint64_t seed, const struct world_form *form)
{
    memset(&world, 0, sizeof world);
    world.form = form;
    world.seed = seed;
    world.state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    client_init();
    for (int device = 0; device < WORLD_DEVICES; device++) {
        struct mempool *pool = &world.pool[device];
        size_t available, total;

        must(cu->cuDevicePrimaryCtxRetain(&world.context[device], device));
        world.context_device[device] = device;
        make_streams(device);
        *pool = (struct mempool){.is_open = true, .is_ours = true, .device = device};
        must(cu->cuDeviceGetDefaultMemPool(&pool->handle, device));
        set_threshold(pool);
        world.current[device] = device;
        must(cu->cuMemGetInfo_v2(&available, &total));
        world.base[device] = available;
        world.total[device] = total;
        world.is_blurred[device] =
                total < 256 * MB; /* full sooner or later, with holes before that */
    }
}

/* All is freed: nothing is left of it. */
static void end(void)
{
    world.doing = "the end";
    if (world.in_phase)
        change_phase();
    for (size_t i = 0; i < WORLD_BLOCKS; i++) {
        struct block *block = &world.block[i];

        if (block->kind == KIND_NONE)
            continue;
        use_device(block->device);
        if (block->kind == KIND_SYNC)
            must(cu->cuCtxSetCurrent(world.context[block->context]));
        if (block->kind == KIND_STREAM)
            must(cu->cuStreamSynchronize(world.stream[block->device][block->stream]));
        must(block->kind == KIND_HANDLE ? cu->cuMemRelease(block->ptr)
                                        : cu->cuMemFree_v2(block->ptr));
        died(block);
    }
    for (int device = 0; device < WORLD_DEVICES; device++)
        wait_for(device);
    for (int i = 0; i < WORLD_POOLS; i++) {
        if (!world.pool[i].is_open)
            continue;
        use_device(world.pool[i].device);
        must(cu->cuMemPoolTrimTo(world.pool[i].handle, 0));
        CHECK_EQ(ask(&world.pool[i], CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
        CHECK_EQ(ask(&world.pool[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    }
    for (int device = 0; device < WORLD_DEVICES; device++) {
        size_t available, total;

        use_device(device);
        must(cu->cuMemGetInfo_v2(&available, &total));
        CHECK_EQ(available, world.base[device]);
    }
}

void world_run(uint64_t seed, const struct world_form *form)
{
    static void (*const calls[])(void) = {alloc_sync, alloc_sync, alloc_sync, alloc_stream,
            alloc_stream, alloc_stream, alloc_stream, alloc_handle, touch, touch, free_one,
            free_one, free_one, free_one, free_one, free_one, synchronise, synchronise_stream, trim,
            set_attribute, make_pool, set_current_pool, destroy_pool, make_or_end_context,
            reset_device, change_phase};

    begin(seed, form);
    for (world.step = 0; world.step < WORLD_STEPS && !check_state.failures; world.step++) {
        calls[dice(sizeof calls / sizeof *calls)]();
        check_all();
    }
    if (!check_state.failures)
        end();
    if (check_state.failures)
        printf("seed %llu, step %u: after %s\n", (unsigned long long)seed, world.step, world.doing);
}

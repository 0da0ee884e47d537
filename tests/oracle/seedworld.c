/* SPDX-License-Identifier: MIT */
#include "tests/oracle/seedworld.h"

#include "tests/trainers/kernels_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct seed_driver cu;
struct seed_world world = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .turn_changed = PTHREAD_COND_INITIALIZER};

#define SCRATCH_BYTES ((size_t)32 << 20)

/* ---- the driver ----------------------------------------------------------------------------- */

static bool find(void *library, const char *symbol, void *slot)
{
    void *entry = dlsym(library, symbol);

    memcpy(slot, &entry, sizeof(entry));
    if (!entry)
        (void)fprintf(stderr, "%s: not found\n", symbol);
    return entry != NULL;
}

bool world_find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool ok = library && dlsym(library, "simcuda_stats");

    if (!ok)
        return false;
#define FIND(symbol) ok &= find(library, #symbol, &cu.symbol);
    SEED_DRIVER(FIND)
#undef FIND
    ok &= find(library, "simcuda_stats", &cu.stats);
    ok &= find(library, "simcuda_calls", &cu.calls);
    ok &= find(library, "simcuda_witness_birth", &cu.born);
    ok &= find(library, "simcuda_witness_death", &cu.dies);
    ok &= find(library, "simcuda_witness_step", &cu.step);
    ok &= find(library, "simcuda_fail_next", &cu.fail_next);
    ok &= find(library, "simcuda_fail_clear", &cu.fail_clear);
    ok &= find(library, "simcuda_park_next", &cu.park_next);
    ok &= find(library, "simcuda_begin_unseen", &cu.begin_unseen);
    ok &= find(library, "simcuda_wait_parked", &cu.wait_parked);
    ok &= find(library, "simcuda_unpark", &cu.unpark);
    return ok;
}

void world_must(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "seed %llu: %s:%d: %s: (%d)\n", (unsigned long long)world.seed, file,
            line, call, (int)result);
    _Exit(3);
}

void world_say(const struct actor *actor, const char *what, const struct block *block,
        const struct lane *lane)
{
    static const char *const kinds[] = {"legacy", "blocking", "non-blocking", "thread's"};

    if (world.verbose)
        (void)fprintf(stderr, "actor %d: %s 0x%llx + %llu, %s, device %d, %s stream %p\n",
                actor->number, what, (unsigned long long)block->ptr,
                (unsigned long long)block->bytes, block->kind == BLOCK_SYNC ? "sync" : "ordered",
                block->home->device, lane ? kinds[lane->kind] : "no",
                lane ? (void *)lane->handle : NULL);
}

_Noreturn void world_stale(const char *what, uint64_t got, uint64_t want)
{
    (void)fprintf(stderr, "seed %llu: stale: %s: got %llx, wanted %llx\n",
            (unsigned long long)world.seed, what, (unsigned long long)got,
            (unsigned long long)want);
    _Exit(1);
}

/* ---- chance --------------------------------------------------------------------------------- */

uint64_t actor_random(struct actor *actor)
{
    uint64_t x = actor->random += 0x9e3779b97f4a7c15U;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

int actor_pick(struct actor *actor, int n)
{
    return (int)(actor_random(actor) % (uint64_t)n);
}

bool actor_chance(struct actor *actor, int percent)
{
    return actor_pick(actor, 100) < percent;
}

/* ---- contexts ------------------------------------------------------------------------------- */

static const char module_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry kedge_fill(.param .u64 a, .param .u64 b, "
                                  ".param .u32 c)\n{\n    ret;\n}\n"
                                  ".visible .entry kedge_fill_at(.param .u64 a, .param .u64 b)\n"
                                  "{\n    ret;\n}\n"
                                  ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, "
                                  ".param .u64 c)\n{\n    ret;\n}\n";

void home_current(const struct home *home)
{
    DO(cuCtxSetCurrent(home->handle));
}

/* Whether somebody else may yet free something. Who has taken all its steps keeps its blocks until all others have, too
 * (actor_meet), and where turns are taken nobody has one from then on but the one who acts. */
static bool others_act(void)
{
    bool act;

    (void)pthread_mutex_lock(&world.lock);
    act = world.free_running ? world.acting > 1 : world.acting == world.actors_count;
    (void)pthread_mutex_unlock(&world.lock);
    return act;
}

/* The device may be full just now, as for any other allocation (R10: during a capture of another thread nobody waits for what
 * is pending). Then the others must get on first; where none of them does, the device stays full. */
static CUresult alloc_slots(struct actor *actor, struct home *home)
{
    CUresult result = cu.cuMemAlloc_v2(&home->slots, sizeof(home->expected));

    for (int i = 0; i < 1000 && result == CUDA_ERROR_OUT_OF_MEMORY && others_act(); i++) {
        actor_turn(actor);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        result = cu.cuMemAlloc_v2(&home->slots, sizeof(home->expected));
    }
    return result;
}

/* The calling thread's current context is the home. */
static void furnish(struct actor *actor, struct home *home)
{
    CUmodule module;
    CUresult result;

    DO(cuModuleLoadData(&module, module_text));
    DO(cuModuleGetFunction(&home->fill, module, "kedge_fill"));
    DO(cuModuleGetFunction(&home->sum, module, "kedge_sum"));
    DO(cuModuleGetFunction(&home->fill_at, module, "kedge_fill_at"));
    memset(home->expected, 0, sizeof(home->expected));
    result = alloc_slots(actor, home);
    if (actor)
        actor->figures.contexts++;
    if (actor && result == CUDA_ERROR_OUT_OF_MEMORY) {
        actor->figures.full_devices++;
        actor->figures.contexts_without_sums++;
        home->slots = 0;
        atomic_store(&home->slots_used, SEED_SLOTS);
        return;
    }
    world_must(result, "the sums of a new context", __FILE__, __LINE__);
    cu.born(home->slots, sizeof(home->expected), SIMCUDA_NO_STREAM);
    atomic_store(&home->slots_used, 0);
    DO(cuMemsetD32Async(home->slots, 0, sizeof(home->expected) / 4, CU_STREAM_LEGACY));
    DO(cuStreamSynchronize(CU_STREAM_LEGACY));
}

static void make_peers(const struct home *home)
{
    CUmemAccessDesc all = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool pool;

    home_current(&world.first);
    DO(cuCtxEnablePeerAccess(home->handle, 0)); /* a reset ends it */
    home_current(home);
    DO(cuCtxEnablePeerAccess(world.first.handle, 0));
    all.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    all.location.id = 1;
    DO(cuDeviceGetDefaultMemPool(&pool, 0));
    DO(cuMemPoolSetAccess(pool, &all, 1));
    all.location.id = 0;
    DO(cuDeviceGetDefaultMemPool(&pool, 1));
    DO(cuMemPoolSetAccess(pool, &all, 1));
}

void home_open(struct actor *actor, struct home *home)
{
    if (home->primary) {
        if (!home->handle)
            DO(cuDevicePrimaryCtxRetain(&home->handle, home->device));
        home_current(home);
        if (home->device != 0)
            make_peers(home);
    } else {
        DO(cuCtxCreate_v2(&home->handle, 0, home->device));
    }
    home_current(home);
    furnish(actor, home);
}

void actor_check_slots(struct home *home)
{
    uint64_t got[SEED_SLOTS];

    home_current(home);
    DO(cuCtxSynchronize());
    if (!home->slots)
        return;
    DO(cuMemcpyDtoH_v2(got, home->slots, sizeof(got)));
    for (int i = 0; i < SEED_SLOTS; i++)
        if (got[i] != home->expected[i])
            world_stale("a sum", got[i], home->expected[i]);
}

void actor_check_copies(struct actor *actor)
{
    for (int i = 0; i < actor->checks_count; i++)
        if (*actor->checks[i].at != actor->checks[i].want)
            world_stale("a copied word", *actor->checks[i].at, actor->checks[i].want);
    actor->checks_count = 0;
}

/* Blocks of the context go with it, those in stream order stay. */
static void forget_home(struct actor *actor, struct home *home)
{
    for (int i = 0; i < SEED_BLOCKS; i++) {
        struct block *block = &actor->blocks[i];

        if (block->kind != BLOCK_SYNC || block->home != home)
            continue;
        world_say(actor, "ends with its context", block, NULL);
        cu.dies(block->ptr, SIMCUDA_NO_STREAM);
        block->kind = BLOCK_NONE;
    }
    if (home->slots)
        cu.dies(home->slots, SIMCUDA_NO_STREAM);
}

/* What other contexts do to blocks of this one must be over before the memory goes; its own work need not be. */
static void wait_for_others(struct actor *actor, const struct home *home)
{
    if (world.late) { /* blocks that were freed under such work, too */
        home_current(&world.first);
        DO(cuCtxSynchronize());
    }
    for (int i = 0; i < SEED_BLOCKS; i++) {
        struct block *block = &actor->blocks[i];

        if (block->kind != BLOCK_SYNC || block->home != home)
            continue;
        if (block->writer.home != home)
            point_wait(&block->writer);
        for (int r = 0; r < block->readers_count; r++)
            if (block->readers[r].home != home)
                point_wait(&block->readers[r]);
    }
}

void actor_end_home(struct actor *actor)
{
    struct home *home = actor->homes[actor->homes_count - 1];

    if (home->shared)
        return;
    for (int i = 0; i < SEED_EXECS; i++)
        if (actor->execs[i].handle && actor->execs[i].home == home)
            actor_drop_exec(actor, &actor->execs[i]);
    for (int i = 0; i < SEED_CALLS; i++)
        if (atomic_load(&actor->calls[i].state) == 1)
            point_wait(&actor->calls[i].done);
    actor_harvest_calls(actor);
    if (actor_chance(actor, 50))
        actor_check_slots(home); /* else the work is still pending */
    for (int i = 0; i < SEED_BLOCKS; i++)
        if (actor->blocks[i].kind == BLOCK_SYNC && actor->blocks[i].home == home
                && actor->blocks[i].graphs)
            return; /* a graph of another context names it */
    wait_for_others(actor, home);
    forget_home(actor, home);
    home->life++;
    if (home->primary) {
        DO(cuDevicePrimaryCtxReset_v2(home->device));
        actor->figures.device_resets++;
    } else {
        DO(cuCtxDestroy_v2(home->handle));
        actor->figures.contexts_ended++;
    }
    home_open(actor, home);
    for (int i = 0; i < actor->lanes_count; i++)
        if (actor->lanes[i].home == home)
            lane_open(&actor->lanes[i], home, actor->lanes[i].kind);
}

/* ---- streams -------------------------------------------------------------------------------- */

void lane_open(struct lane *lane, struct home *home, enum lane_kind kind)
{
    lane->home = home;
    lane->kind = kind;
    home_current(home);
    if (kind == LANE_LEGACY)
        lane->handle = CU_STREAM_LEGACY;
    else if (kind == LANE_THREAD)
        lane->handle = CU_STREAM_PER_THREAD;
    else
        DO(cuStreamCreate(
                &lane->handle, kind == LANE_BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

struct lane *actor_lane(struct actor *actor, int device)
{
    for (;;) {
        struct lane *lane = &actor->lanes[actor_pick(actor, actor->lanes_count)];

        if (!lane->capturing && (device < 0 || lane->home->device == device))
            return lane;
    }
}

/* A stream goes with its work pending; another takes its place, maybe with its handle. */
void actor_end_lane(struct actor *actor)
{
    struct lane *lane = actor_lane(actor, -1);

    if (lane->kind == LANE_LEGACY || lane->kind == LANE_THREAD)
        return;
    for (int i = 0; i < SEED_BLOCKS; i++)
        if (actor->blocks[i].kind != BLOCK_NONE)
            block_pin_points(&actor->blocks[i], lane);
    for (int i = 0; i < SEED_EXECS; i++)
        if (actor->execs[i].last.lane == lane) {
            struct block holder = {.writer = actor->execs[i].last};

            block_pin_points(&holder, lane);
            actor->execs[i].last = holder.writer;
        }
    DO(cuStreamDestroy_v2(lane->handle));
    lane_open(lane, lane->home, actor_chance(actor, 50) ? LANE_NONBLOCKING : LANE_BLOCKING);
    actor->figures.streams_ended++;
}

/* ---- actors --------------------------------------------------------------------------------- */

static void add_lanes(struct actor *actor, struct home *home, const char *kinds)
{
    for (; *kinds; kinds++)
        lane_open(&actor->lanes[actor->lanes_count++], home,
                *kinds == 'l'           ? LANE_LEGACY
                        : *kinds == 'b' ? LANE_BLOCKING
                        : *kinds == 't' ? LANE_THREAD
                                        : LANE_NONBLOCKING);
}

/* A pool of the program's own, as resource managers make them. */
static void open_pools(struct actor *actor)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    cuuint64_t keep = UINT64_MAX;

    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DO(cuMemPoolCreate(&actor->pools[0], &props));
    if (actor_chance(actor, 50))
        DO(cuMemPoolSetAttribute(actor->pools[0], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

void actor_open(struct actor *actor)
{
    struct home *own;

    actor->random = world.seed * 0x2545f4914f6cdd1dU + (uint64_t)actor->number * 7919;
    actor->scratch = host_tensor_new(SCRATCH_BYTES);
    actor->homes[actor->homes_count++] = &world.first;
    home_current(&world.first);
    DO(cuMemHostAlloc((void **)&actor->pinned, SEED_CHECKS * sizeof(uint32_t), 0));
    add_lanes(actor, &world.first, "lbnnt");
    if (actor->number < 2) {
        own = calloc(1, sizeof(*own));
        own->device = actor->number;
        own->primary = actor->number == 1;
        home_open(actor, own);
        actor->homes[actor->homes_count++] = own;
        add_lanes(actor, own, actor->number ? "lnbt" : "lnn");
    }
    home_current(&world.first);
    if (actor->number != 1)
        open_pools(actor);
    for (int i = 0; i < SEED_EXECS; i++)
        actor->execs[i].memory_slot = -1;
}

void actor_close(struct actor *actor)
{
    for (int i = 0; i < SEED_EXECS; i++)
        if (actor->execs[i].handle)
            actor_drop_exec(actor, &actor->execs[i]);
    for (int i = 0; i < actor->homes_count; i++) {
        home_current(actor->homes[i]);
        DO(cuCtxSynchronize());
    }
    actor_harvest_calls(actor);
    for (int i = 0; i < SEED_BLOCKS; i++)
        if (actor->blocks[i].kind != BLOCK_NONE && !actor->blocks[i].done_with)
            block_copy_check(
                    actor, &actor->blocks[i], actor_lane(actor, actor->blocks[i].home->device));
    for (int i = 0; i < SEED_BLOCKS; i++)
        if (actor->blocks[i].kind != BLOCK_NONE)
            block_free(actor, &actor->blocks[i]);
    for (int i = 0; i < actor->homes_count; i++) {
        home_current(actor->homes[i]);
        DO(cuCtxSynchronize());
        if (!actor->homes[i]->shared)
            actor_check_slots(actor->homes[i]);
    }
    actor_check_copies(actor);
    if (actor->pools[0])
        DO(cuMemPoolDestroy(actor->pools[0]));
}

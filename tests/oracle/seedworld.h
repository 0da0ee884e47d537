/* SPDX-License-Identifier: MIT */
/*
 * seedworld.h - the world of one seed: contexts, streams, actors, blocks, and what they need of each other.
 *
 * A seed makes a program that is random and legal: it orders every use of a block as CUDA demands, and not a bit more.
 *
 *     actor (a thread) ─┬─ homes (contexts): the shared primary one of device 0; its own: a second context there, device 1
 *                       ├─ lanes (streams): legacy, blocking, non-blocking, the thread's own
 *                       └─ blocks ─ points: what the next use or free must come after
 *
 * A *point* is "all that was submitted to this lane so far", or an event. Blocks, lanes and events belong to one actor;
 * blocks change hands through a letter box. The primary context of device 0 is everybody's and ends with the seed.
 *
 * Births and deaths are told to the device by this program (R91). Nothing here knows kedge.
 * Threads: one actor's things are touched by that actor's thread only, what is shared is under `world.lock`.
 */
#ifndef KEDGE_TESTS_ORACLE_SEEDWORLD_H
#define KEDGE_TESTS_ORACLE_SEEDWORLD_H

#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/sim_abi.h"
#include "tests/sim/base/simcuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define SEED_DRIVER(X)                                                                             \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset_v2) X(cuCtxCreate_v2)          \
    X(cuCtxDestroy_v2) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess)            \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchKernel_ptsz)            \
    X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) X(cuMemFreeAsync)  \
    X(cuMemFreeAsync_ptsz) X(cuMemAllocFromPoolAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy)       \
    X(cuMemPoolSetAccess) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) X(cuDeviceGetDefaultMemPool) \
    X(cuDeviceSetMemPool) X(cuMemPoolGetAttribute)                                                 \
    X(cuMemGetInfo_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyDtoHAsync_v2)                  \
    X(cuMemcpyDtoDAsync_v2) X(cuMemcpyPeerAsync) X(cuMemcpyDtoH_v2) X(cuMemsetD32Async)            \
    X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamWaitEvent)            \
    X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuLaunchHostFunc) X(cuStreamAddCallback)    \
    X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventDestroy_v2)   \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)       \
    X(cuGraphLaunch_ptsz) X(cuGraphUpload) X(cuGraphUpload_ptsz) X(cuGraphCreate) X(cuGraphClone)  \
    X(cuGraphAddMemsetNode) X(cuGraphMemsetNodeSetParams) X(cuGraphNodeFindInClone)                \
    X(cuGraphAddMemcpyNode) X(cuGraphMemcpyNodeSetParams) X(cuGraphAddNode_v2)                     \
    X(cuStreamBeginCaptureToGraph) X(cuStreamQuery) X(cuStreamQuery_ptsz)                          \
    X(cuStreamSynchronize_ptsz) X(cuStreamWaitEvent_ptsz) X(cuStreamWaitValue32_v2)                \
    X(cuStreamWaitValue32_v2_ptsz) X(cuLaunchHostFunc_ptsz) X(cuStreamAddCallback_ptsz)            \
    X(cuEventRecord_ptsz) X(cuEventRecordWithFlags) X(cuEventRecordWithFlags_ptsz)                 \
    X(cuMemAllocFromPoolAsync_ptsz) X(cuMemsetD32Async_ptsz) X(cuMemsetD2D32Async)                 \
    X(cuMemsetD2D32Async_ptsz) X(cuMemcpyDtoHAsync_v2_ptsz)                                        \
    X(cuGraphChildGraphNodeGetGraph) X(cuGraphGetNodes) X(cuMemcpyHtoDAsync_v2)
/* clang-format on */

struct seed_driver {
#define SEED_FIELD(symbol) __typeof__(&symbol) symbol;
    SEED_DRIVER(SEED_FIELD)
#undef SEED_FIELD
    __typeof__(&simcuda_stats) stats;
    __typeof__(&simcuda_calls) calls;
    __typeof__(&simcuda_witness_birth) born;
    __typeof__(&simcuda_witness_death) dies;
    __typeof__(&simcuda_witness_step) step;
    __typeof__(&simcuda_fail_next) fail_next;
    __typeof__(&simcuda_fail_clear) fail_clear;
    __typeof__(&simcuda_park_next) park_next;
    __typeof__(&simcuda_wait_parked) wait_parked;
    __typeof__(&simcuda_unpark) unpark;
    __typeof__(&simcuda_begin_unseen) begin_unseen;
};

extern struct seed_driver cu;

enum {
    SEED_ACTORS = 3,
    SEED_LANES = 12,  /* of an actor */
    SEED_HOMES = 2,   /* of an actor: the shared one, and its own */
    SEED_BLOCKS = 28, /* of an actor, at one time */
    SEED_READERS = 6,
    SEED_EXECS = 3,
    SEED_NODES = 8,
    SEED_SLOTS = 256, /* sums of a home of an actor */
    SEED_CHECKS = 256,
    SEED_CALLS = 8,
    SEED_LETTERS = 4,
    SEED_POOLS = 2,
};

/* What a run has exercised; a suite in which one of them is 0 proves too little (R92). */
/* clang-format off */
#define SEED_FIGURES(X) \
    X(sync_allocs) \
    X(stream_allocs) \
    X(pool_allocs) \
    X(mapped_allocs) \
    X(legacy_uses) \
    X(blocking_uses) \
    X(nonblocking_uses) \
    X(thread_uses) \
    X(second_context_uses) \
    X(device_1_uses) \
    X(peer_uses) \
    X(peer_copies) \
    X(frees_elsewhere) \
    X(frees_with_work_pending) \
    X(sync_frees_of_stream_blocks) \
    X(callbacks) \
    X(callback_frees) \
    X(streams_ended) \
    X(contexts_ended) \
    X(device_resets) \
    X(letters) \
    X(clusters) \
    X(frees_in_captures) \
    X(allocs_in_captures) \
    X(memory_nodes) \
    X(forked_captures) \
    X(trims) \
    X(full_devices) \
    X(contexts) \
    X(contexts_without_sums) \
    X(anchors) \
    X(data_checks) \
    X(fills_by_address) \
    X(turns) \
    X(free_running) \
    X(dense_seeds) \
    X(dense_streams) \
    X(dense_events) \
    X(dense_host_functions) \
    X(dense_fills) \
    X(dense_checks) \
    X(dense_stream_frees) \
    X(dense_sync_frees) \
    X(dense_barriers) \
    X(dense_stalls) \
    X(dense_parks) \
    X(dense_bare) \
    X(dense_churns) \
    X(dense_captures) \
    X(dense_captured) \
    X(dense_spoilt) \
    X(captures_dropped) \
    X(dense_crowds) \
    X(dense_launches) \
    X(dense_set_params) \
    X(dense_clones) \
    X(dense_children) \
    X(dense_pools) \
    X(dense_current_pools) \
    X(dense_ends_parked) \
    X(dense_peers) \
    X(dense_orphans) \
    X(dense_pool_crowds) \
    X(dense_pools_alone) \
    X(dense_rooms) \
    X(dense_impossible) \
    X(dense_gone) \
    X(dense_refused) \
    X(dense_unseen) \
    X(dense_inner) \
    X(dense_sparse) \
    X(dense_scenes) \
    X(dense_filled) \
    X(dense_many_contexts) \
    X(dense_ends)
/* clang-format on */

/* And what the device counted meanwhile. */
/* clang-format off */
#define SEED_DEVICE_FIGURES(X) \
    X(reuses) \
    X(cross_stream_reuses) \
    X(launches) \
    X(copies) \
    X(host_functions) \
    X(event_records) \
    X(context_records) \
    X(stream_waits) \
    X(synchronizes) \
    X(unmaps) \
    X(remaps) \
    X(captures) \
    X(captures_invalidated) \
    X(graph_launches) \
    X(faults)
/* clang-format on */

struct seed_figures {
#define SEED_FIELD(name) uint64_t name;
    SEED_FIGURES(SEED_FIELD)
    SEED_DEVICE_FIGURES(SEED_FIELD)
#undef SEED_FIELD
};

/* A context in use. `life` rises when it is destroyed or reset: what names an older life has passed. */
struct home {
    CUcontext handle;
    int device;
    bool primary, shared;
    unsigned life;
    CUfunction fill, sum, fill_at;
    atomic_int captures; /* running now: no waiting for the whole context */
    CUdeviceptr slots;   /* 8 bytes each, zero at first; 0: no sums, the device was full */
    uint64_t expected[SEED_SLOTS];
    atomic_int slots_used;
};

enum lane_kind {
    LANE_LEGACY,
    LANE_BLOCKING,
    LANE_NONBLOCKING,
    LANE_THREAD,
};

struct lane {
    struct home *home;
    CUstream handle;
    enum lane_kind kind;
    bool capturing;
};

/* All that was submitted to `lane` so far; or, if `lane` is NULL, `event`. No lane and no event: nothing. */
struct point {
    struct lane *lane;
    CUevent event;
    struct home *home;
    unsigned life;
};

enum block_kind {
    BLOCK_NONE,
    BLOCK_SYNC,   /* cuMemAlloc */
    BLOCK_STREAM, /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
};

struct block {
    enum block_kind kind;
    CUdeviceptr ptr;
    uint64_t bytes;
    struct home *home; /* where it was allocated */
    struct lane *birth;
    uint32_t value; /* what it is filled with */
    uint64_t sum;   /* of that; 0 = not known yet */
    bool own_pool;  /* of a pool that device 1 has no access to */
    bool away;      /* a host function has it */
    bool done_with; /* its anchor has passed: free it, nothing else */
    int graphs;     /* executable graphs that name it */
    struct point writer;
    struct point readers[SEED_READERS];
    int readers_count;
};

enum node_kind {
    NODE_FILL,
    NODE_SUM,
    NODE_COPY,
};

struct node {
    enum node_kind kind;
    struct block *block, *from;
    uint32_t value;
    int slot;
};

struct exec {
    CUgraphExec handle; /* NULL: free */
    struct home *home;
    struct node nodes[SEED_NODES];
    int nodes_count;
    uint64_t sum_of_memory; /* what a memory node's sum adds at each launch */
    int memory_slot;        /* -1 = none */
    struct point last;      /* its latest launch */
};

/* A word of a block that was copied to pinned memory, and what it must be. */
struct check {
    uint32_t *at;
    uint32_t want;
};

/* A free in a host function. */
struct call {
    struct block *block;
    CUdeviceptr ptr;
    struct point done; /* it has run by then */
    atomic_int state;  /* 0 idle, 1 under way, 2 done */
    CUresult result;
};

struct actor {
    int number;
    bool filming; /* a capture of its own runs: no calls that wait */
    uint64_t random;
    struct home *homes[SEED_HOMES];
    int homes_count;
    struct lane lanes[SEED_LANES];
    int lanes_count;
    struct block blocks[SEED_BLOCKS];
    struct exec execs[SEED_EXECS];
    struct check checks[SEED_CHECKS];
    int checks_count;
    uint32_t *pinned;
    struct call calls[SEED_CALLS];
    CUmemoryPool pools[SEED_POOLS];
    void *scratch;
    uint32_t values; /* the latest fill */
    struct seed_figures figures;
    pthread_t thread;
};

struct seed_world {
    uint64_t seed;
    int actors_count, steps;
    bool free_running; /* actors do not take turns */
    bool late;         /* also what CUDA leaves open and kedge promises: not legal natively */
    bool anchors;
    bool uncaptured;
    bool dense;        /* dense.h */
    bool hasty;        /* a hang is expected, and ends soon */
    bool verbose;      /* births and deaths are printed */
    struct home first; /* device 0's primary context */
    struct actor actors[SEED_ACTORS];
    /* guarded by lock: */
    pthread_mutex_t lock;
    pthread_cond_t turn_changed;
    int turn; /* whose */
    int acting, closed;
    struct block letters[SEED_LETTERS];
};

extern struct seed_world world;

/* ---- seedworld.c ---- */

/* The driver by dlopen and dlsym; false: no simulated device. */
bool world_find_driver(void);

/* Ends the process with status 3 unless the call succeeded; says which. */
void world_must(CUresult result, const char *call, const char *file, int line);
#define DO(call_) world_must(cu.call_, #call_, __FILE__, __LINE__)

/* With --verbose: what happens to the block. */
void world_say(const struct actor *actor, const char *what, const struct block *block,
        const struct lane *lane);

/* The program's data are wrong: status 1. */
_Noreturn void world_stale(const char *what, uint64_t got, uint64_t want);

uint64_t actor_random(struct actor *actor);
/* One of n. */
int actor_pick(struct actor *actor, int n);
bool actor_chance(struct actor *actor, int percent);

/* `actor` is NULL for the shared home, which is opened before there are actors. */
void home_open(struct actor *actor, struct home *home);
void home_current(const struct home *home);
void actor_open(struct actor *actor);
/* Everything freed and checked, nothing left on the device. */
void actor_close(struct actor *actor);
/* A lane that may be used for `device` (-1: any), not capturing. */
struct lane *actor_lane(struct actor *actor, int device);
void lane_open(struct lane *lane, struct home *home, enum lane_kind kind);
/* An actor's home that is not shared ends with work pending and blocks alive, and begins anew. */
void actor_end_home(struct actor *actor);
void actor_end_lane(struct actor *actor);
void actor_check_slots(struct home *home);
void actor_check_copies(struct actor *actor);

/* ---- seedblock.c ---- */

struct point point_of(struct lane *lane);
/* Makes `lane` wait for the point, with an event where CUDA does not order them anyway. */
void lane_after(struct lane *lane, const struct point *point);
/* The host waits for it. */
void point_wait(const struct point *point);
/* Lane is about to go, or the block to change hands: points of it become events. */
void block_pin_points(struct block *block, const struct lane *only);
void block_before_read(struct block *block, struct lane *lane);
void block_after_read(struct actor *actor, struct block *block, struct lane *lane);
void block_before_write(struct block *block, struct lane *lane);
void block_after_write(struct actor *actor, struct block *block, struct lane *lane);
void block_host_wait(struct block *block);

/* A block that may be used, or NULL. */
struct block *actor_block(struct actor *actor);
struct block *block_new(struct actor *actor, uint64_t bytes, bool on_stream);
void block_fill(struct actor *actor, struct block *block, struct lane *lane);
/* What the block's bytes add up to. */
uint64_t block_sum(struct actor *actor, struct block *block);
void block_check(struct actor *actor, struct block *block, struct lane *lane);
void block_copy_check(struct actor *actor, struct block *block, struct lane *lane);
/* Filled with 0 by a kernel that finds the address in device memory. */
void block_fill_by_address(struct actor *actor, struct block *block, struct lane *lane);
void block_copy(struct actor *actor, struct block *from, struct block *to, struct lane *lane);
/* Frees it in one of the ways that are legal for it. */
void block_free(struct actor *actor, struct block *block);
/* cuMemFree, as it is. */
void block_free_plain(struct actor *actor, struct block *block);
void block_free_in_callback(struct actor *actor, struct block *block, struct lane *lane);
void actor_harvest_calls(struct actor *actor);
/* Counts what a use of the lane exercises. */
void lane_count(struct actor *actor, const struct lane *lane, const struct block *block);
int home_slot(struct home *home);
void lane_launch_sum(struct lane *lane, int slot, CUdeviceptr from, uint64_t bytes);
void lane_launch_fill(struct lane *lane, CUdeviceptr to, uint64_t bytes, uint32_t value);

/* ---- seedgraph.c ---- */

void actor_capture(struct actor *actor);
void actor_launch(struct actor *actor);
void actor_drop_exec(struct actor *actor, struct exec *exec);

/* ---- seedacts.c ---- */

/* One random action. */
void actor_act(struct actor *actor);
/* Something that another thread does while this one captures. */
void actor_act_in_capture(struct actor *actor, bool relaxed);
/* Ends this actor's turn, and waits for the next. */
void actor_turn(struct actor *actor);
/* Waits for its first turn; ends its last one. */
void actor_enter(struct actor *actor);
void actor_leave(struct actor *actor);
/* All actors have acted; they close one after the other. */
void actor_meet(struct actor *actor);

#endif

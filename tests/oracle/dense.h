/* SPDX-License-Identifier: MIT */
/*
 * dense.h - dense worlds: few streams, few blocks, every word of the driver, and a model that knows what is ordered.
 *
 * The other random programs of this folder order every use with an event of its own. A dense one relies on whatever order
 * CUDA gives: through the default stream, through a free or an allocation, through an event that was recorded for something
 * else, through what the host has waited for. A model keeps that order as vector clocks; an action that the model does not
 * find legal is not made, and all others are. So what a library loses of CUDA's implicit order shows.
 *
 *     hand (a thread) ── the baton ──► one act at a time, decided by the seed
 *     flow (a stream) ── clock: flow → latest operation that comes before its next one
 *     known           ── the same for the host: what it has waited for
 *
 * Hands: one thread acts at a time, so that a seed repeats. A thread may stand inside a driver call (simcuda_park_next)
 * while the others act; the last hand has no current context.
 *
 * What is compared: words that copies and host functions leave in pinned memory, as soon as the host may rely on them; the
 * code of each call; that a call which natively does not wait comes back while a stream waits for the host; that no request
 * fails that fits beside what the program holds (memory_fits); that everything is there again at the end.
 *
 * The model claims less order than CUDA gives where CUDA leaves it open, so what it allows is legal.
 */
#ifndef KEDGE_TESTS_ORACLE_DENSE_H
#define KEDGE_TESTS_ORACLE_DENSE_H

#include "tests/oracle/seedworld.h"

enum {
    DENSE_FLOWS = 40,
    /* threads: the last one has no context */
    DENSE_HANDS = 3,
    /* contexts: device 0's primary one, a second one there, device 1's primary one */
    DENSE_HOMES = 3,
    DENSE_BLOCKS = 20,
    DENSE_EVENTS = 8,
    DENSE_FILMS = 3,
    DENSE_GRAPHS = 8,
    DENSE_NODES = 6,
    DENSE_POOLS = 3,
    DENSE_CROWD = 70, /* captures, or pools, at once */
    DENSE_CHECKS = 192,
    /* words in pinned memory: of checks, of each graph */
    DENSE_WORDS = DENSE_CHECKS + DENSE_GRAPHS,
    DENSE_LIMBO = 512,
    /* in the scene of one blocking stream */
    SCENE_LEGACY_BLOCKS = 2,
};

/* Flow → number of an operation on it; 0: none. */
struct dense_clock {
    uint32_t at[DENSE_FLOWS];
};

/* One operation; n = 0: none. */
struct dense_at {
    int flow;
    uint32_t n;
};

enum flow_state {
    FLOW_FREE,
    FLOW_OPEN,
    FLOW_CLOSED, /* destroyed with work pending */
};

struct flow {
    enum flow_state state;
    enum lane_kind kind;
    int home, hand; /* hand: whose per-thread stream, else -1 */
    CUstream handle;
    uint32_t count;
    struct dense_clock clock;
    bool filming; /* captures */
    bool busy;    /* another hand stands in a call that names it */
};

struct dense_home {
    CUcontext handle; /* NULL: not open */
    int device;
    bool primary;
    bool leaving; /* a hand stands in the call that ends it */
    CUfunction fill;
    int films, blocking_films;
    bool peer; /* has access to device 1 */
};

/* Worlds of few words, each about one kind of order (densescenes.c). */
enum dense_scene {
    SCENE_NONE,
    /* memory of the default stream, and one blocking stream that only kernels and copies name */
    SCENE_LEGACY,
    /* memory of the default stream, and threads' own streams, which only other calls name */
    SCENE_OWN,
    /* memory of one blocking stream, and the default stream, which only other calls name */
    SCENE_DEFAULT,
    /* an idle context ends again and again, and others use large blocks meanwhile */
    SCENE_IDLE_ENDS,
    /* one with work pending, and others ask for more than the budget has room for */
    SCENE_BUSY_ENDS,
    /* graphs that name large blocks no longer */
    SCENE_GRAPHS,
    /* 70 pools, newer than the one that has what is asked for */
    SCENE_POOLS,
};

struct dense_block {
    enum block_kind kind;
    CUdeviceptr ptr;
    uint64_t bytes;
    int home, device;
    int pool;        /* of the program's own, or -1 */
    uint32_t value;  /* what it holds; 0: unknown */
    bool hashed;     /* a kernel wrote it: its first word is known */
    bool anchored;   /* a hint would release it, did no graph name it */
    bool done;       /* freed next: none does any more */
    unsigned graphs; /* that name it, a bit each */
    struct dense_at writer;
    struct dense_clock readers;
};

struct dense_event {
    CUevent handle;
    int home;
    bool recorded;
    struct dense_clock clock;
};

/* A write of a block when the graph runs. */
struct dense_node {
    int block;
    CUdeviceptr ptr;
    uint32_t value;
};

struct dense_graph {
    bool used;
    CUgraph graph;
    CUgraphExec exec;
    int home;
    bool stale; /* not to be launched: what it names is gone, or its end is open */
    struct dense_node nodes[DENSE_NODES];
    int nodes_count;
    struct dense_at last;
    uint64_t memory; /* of its own, at most */
    bool has_copy;   /* a child that is a copy of what was made first */
    bool counts;     /* a host function of it counts its runs, in the graph's word */
    uint32_t runs;
};

struct film {
    bool on, spoilt, to_own;
    int flow, hand, graph;
    CUstreamCaptureMode mode;
    int added;
};

/* Bytes that the program has freed and that may not be there yet. */
struct limbo {
    uint64_t bytes; /* 0: free entry */
    int device;
    struct dense_at freed;
    unsigned graphs;
    bool synchronised; /* since it is known to be over: a pool gives its memory back then */
};

struct dense_check {
    bool on;
    uint32_t want;
    struct dense_at done;
    const char *what;
};

struct hand {
    int number;
    pthread_t thread;
};

struct dense_world {
    uint64_t random;
    bool barrier; /* cuMemFree is a barrier for the host (R75) */
    bool small;   /* the device is, and blocks are large */
    bool late;    /* contexts begin with few streams */
    bool sparse;  /* one blocking stream for long, and memory of the default stream */
    bool crowded; /* the second context comes behind many others */
    bool further; /* has words that worlds have only since other tests name seeds */
    bool refuses; /* events that a library records inside of a request are refused now and then */
    enum dense_scene scene;
    uint64_t memory;
    uint64_t sizes[3];
    int sizes_count;
    int acts_left;
    struct hand hands[DENSE_HANDS];
    struct flow flows[DENSE_FLOWS];
    struct dense_home homes[DENSE_HOMES];
    struct dense_block blocks[DENSE_BLOCKS];
    struct dense_event events[DENSE_EVENTS];
    struct dense_graph graphs[DENSE_GRAPHS];
    struct film films[DENSE_FILMS];
    struct dense_check checks[DENSE_WORDS];
    struct limbo limbo[DENSE_LIMBO];
    CUmemoryPool pools[DENSE_POOLS];
    int current; /* the pool of device 0 that requests without a pool's name get, or -1: its default one */
    CUmemoryPool crowd_pools[DENSE_CROWD];
    CUstream crowd_streams[DENSE_CROWD];
    int crowd_pools_count, crowd_streams_count, crowd_home;
    struct dense_clock known; /* to the host */
    uint32_t *pinned;         /* DENSE_WORDS, and the flag */
    struct dense_at stall;    /* the wait for the flag; n = 0: none */
    int stall_left;
    uint32_t stalls; /* the flag rises, so that no earlier wait begins again */
    uint32_t values;
    /* the baton, under world.lock */
    int turn;
    int away; /* the hand that stands in a call, or -1 */
    bool back;
    int away_left;
    bool waits_for_end; /* the act that is made is a request that may (memory_waits_for_end) */
    bool over;
    struct seed_figures *figures;
};

extern struct dense_world dense;

#define COUNT(figure) ((void)dense.figures->figure++)

/* ---- dense.c: the seed, hands, homes ---- */

void dense_run(struct seed_figures *figures);
int dense_pick(int n);
bool dense_chance(int percent);
/* What may not be: prints it with the seed, and ends the process with status 1. */
_Noreturn void dense_wrong(const char *what, uint64_t got, uint64_t want);
void dense_say(const char *format, ...);
void dense_home_open(int home);
void dense_home_enter(int home);
bool dense_home_is_usable(int home);
/* The hand goes into a call and stands there; the others act meanwhile. Then the call, then dense_back. */
bool dense_leave(struct hand *me, const char *call);
void dense_back(struct hand *me);
/* Ends what stands or waits. */
void dense_let_go(void);

/* ---- denseorder.c ---- */

bool order_is_known(struct dense_at at);
/* What the next operation on the flow comes behind. */
struct dense_clock order_next(const struct flow *flow);
bool order_is_before(struct dense_at at, const struct dense_clock *next);
bool order_are_before(const struct dense_clock *all, const struct dense_clock *next);
struct dense_at order_submit(struct flow *flow);
void order_join(struct dense_clock *to, const struct dense_clock *from);
/* The host has waited for that, or asked: what it may rely on now is compared. */
void order_host_waited(const struct dense_clock *clock);
/* The program synchronises: what pools have free goes back. */
void limbo_synchronised(void);
struct dense_clock order_of_home(int home);
/* Waiting for it would wait for the host's flag. */
bool order_is_stalled(const struct dense_clock *clock);
bool order_home_is_stalled(int home);
bool order_device_is_stalled(int device);

/* ---- denseflows.c ---- */

/* A flow that the hand may submit to, of a home (-1: any) or device (-1: any). NULL: none. */
struct flow *flow_pick(const struct hand *me, int home, int device);
bool flow_may(const struct hand *me, const struct flow *flow);
int flow_index(const struct flow *flow);
/* The flow's stream, and whether the _ptsz form is to be called with it. */
CUstream flow_handle(const struct flow *flow, bool *ret_ptsz);
struct flow *flow_open(int home, enum lane_kind kind, int hand);
bool act_flow_open(struct hand *me);
bool act_flow_close(struct hand *me);
bool act_churn(struct hand *me);
bool act_streams_gone(struct hand *me);
bool act_event_record(struct hand *me);
bool act_event_wait(struct hand *me);
bool act_event_renew(struct hand *me);
bool act_host_function(struct hand *me);
bool act_wait(struct hand *me);
bool act_stall(struct hand *me);
void flow_unstall(void);
/* The calls of the hand that a capture could forbid. */
bool flow_is_safe(const struct hand *me);
/* Orders the flow behind all that was submitted to the other. */
void flow_follow(struct hand *me, struct flow *flow, struct flow *after);

/* ---- denseblocks.c ---- */

bool act_alloc_stream(struct hand *me);
bool act_alloc_sync(struct hand *me);
bool act_free_stream(struct hand *me);
bool act_free_sync(struct hand *me);
bool act_fill(struct hand *me);
bool act_check(struct hand *me);
bool act_copy(struct hand *me);
bool act_memory_info(struct hand *me);
/* What the driver says of the program's own pools. */
void pools_must_say(void);
bool act_pool_current(struct hand *me);
/* A block of the device, alive; NULL: none found. */
struct dense_block *block_pick(int device);
/* A new block of the home's context; NULL: no room. */
struct dense_block *block_sync(int home, uint64_t bytes);
bool block_may_write(const struct dense_block *block, const struct flow *flow);
void block_written(struct dense_block *block, struct dense_at at, uint32_t value);
uint32_t block_value(void);
void block_dead(struct dense_block *block, struct dense_at freed);
/* Free word for a check, or -1. */
int check_slot(void);
void check_expect(int slot, uint32_t want, struct dense_at done, const char *what);
/* Bytes that the device counts. */
uint64_t memory_held(int device);
/* Nothing holds memory up but what the model knows of. */
bool memory_is_calm(void);
/* Whether a request must be served. */
bool memory_fits(int device, uint64_t bytes);
/* A request that does not fit beside what was freed lately. A context of the device is being ended, and nobody can tell before
 * it has ended whether its work is done, so a library may wait for that before it refuses the request. */
bool memory_waits_for_end(int device, uint64_t bytes);
void memory_refused(int device, uint64_t bytes, const char *call);
/* Everything freed; the devices must have their memory again. */
void memory_end(struct hand *me);
void limbo_without_graph(int graph);
/* Requests for all that must be served, one after the other. */
bool act_memory_room(struct hand *me);
/* Freed by that operation, and kept while one of the graphs is there. */
void limbo_add(int device, uint64_t bytes, struct dense_at freed, unsigned graphs);

/* ---- densegraphs.c ---- */

bool act_film_begin(struct hand *me);
bool act_film_add(struct hand *me);
bool act_film_end(struct hand *me);
bool act_film_stream_gone(struct hand *me);
bool act_graph_make(struct hand *me);
bool act_graph_launch(struct hand *me);
bool act_graph_drop(struct hand *me);
bool act_graph_anchored(struct hand *me);
bool act_graph_unseen(struct hand *me);
bool act_graph_room(struct hand *me);
bool act_crowd_begin(struct hand *me);
bool act_crowd_end(struct hand *me);
void graph_drop(int graph);
/* Captures on the hand's own stream end with it; the others with their streams. */
void film_end_own(const struct hand *me);
void film_end_all(void);
/* Whom a block that is freed now may be kept for. */
unsigned graph_films(void);

/* ---- densepools.c ---- */

bool act_pool_make(struct hand *me);
bool act_pool_destroy(struct hand *me);
bool act_pool_trim(struct hand *me);
bool act_pool_crowd(struct hand *me);
bool act_pool_alone(struct hand *me);
bool act_pool_room(struct hand *me);
bool act_impossible(struct hand *me);
bool act_home_end(struct hand *me);
/* More contexts of device 0 than a byte counts. */
void home_crowd(void);
/* Device 1's plain memory by the primary context of device 0, and the second context there that takes and gives up access. */
bool act_peer(struct hand *me);
bool home_reaches(int home, const struct dense_block *block);
bool act_bare(struct hand *me);

/* ---- densescenes.c ---- */

enum dense_scene scene_of(uint64_t seed);
/* Its contexts, streams and sizes, beside the default stream of the first context; what is undone at
 * the end. */
void scene_open(void);
void scene_close(void);
/* How often the act comes in the world's scene. */
int scene_weight(bool (*act)(struct hand *me));
bool scene_is_about_streams(void);
/* A context ends with work that memory waits for, which was freed at last. */
bool act_busy_end(struct hand *me);
/* The stream of all allocations and frees of the scene; NULL: any. */
struct flow *scene_memory(void);
/* The next stream that the host waits for; NULL: any. */
struct flow *scene_waited(void);
/* Before it captures, the only blocking stream has work pending, nothing that was freed is left, and a block was
 * not used yet. */
bool scene_may_capture(void);

/* ---- denseacts.c ---- */

void dense_weigh(void);
void dense_act(struct hand *me);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_queue.h - streams as queues of operations, and who decides when one runs.
 *
 * Nothing runs when it is submitted. An operation may run once it is the first of its queue and
 * everything that it depends on is done; whether it does is the schedule's choice:
 *
 *     eager    as soon as it may (SIMCUDA_LAG steps later, if that is set)
 *     lazy     only when a synchronising call needs it
 *     random   a random number of randomly chosen operations at every driver call
 *     timed    in the order of their virtual ends, once the host's clock has passed them (sim_time.h)
 *
 * A synchronising call *demands* a point: the operations that the point needs run then, in an
 * order that the schedule chooses. There are no worker threads, so that a seed gives one order;
 * only a host function of the program runs in a helper thread, because it may wait for the thread
 * that is in the driver now, and where it is asked for, a thread lets a host that waits for such a
 * function go on (sim_patience.h).
 *
 *     submit ─► queue ─(first, dependencies done, chosen)─► run ─► done
 *
 * Order between queues is kept twice: as the points that an operation still waits for, and as a
 * clock per queue (queue → latest operation that is ordered before what is submitted next), which
 * answers "is X ordered before Y?" without running anything. The oracle and the pools ask that.
 *
 * Threads: under the lock, which is let go while a host function runs or a thread sleeps: handles
 * must be looked up again after sim_queue_demand. Queues are never freed, so points stay valid.
 */
#ifndef KEDGE_TESTS_SIM_SIM_QUEUE_H
#define KEDGE_TESTS_SIM_SIM_QUEUE_H

#include "tests/sim/base/sim_core.h"
#include "tests/sim/stream/sim_ledger.h"

#define SIM_OP_FRAMES  14
#define SIM_QUEUE_ENDS 4096

/* Slot of a queue → number of an operation in it. A missing entry is 0: nothing. */
struct sim_clock {
    uint64_t *at;
    unsigned count;
};

/* Where the ranges of an operation lie: it touches nothing else. */
struct sim_extent {
    uint64_t addr, end;
    struct sim_op *op;
};

struct sim_queue {
    unsigned slot;
    struct CUctx_st *ctx;
    bool legacy;   /* the context's default stream */
    bool blocking; /* is ordered with the default stream */
    bool closed;   /* its stream is destroyed; the slot is free once it is empty */
    uint64_t submitted, done;
    struct sim_op *head, *tail;
    /* of those that are not done, by number modulo the room, a power of 2 */
    struct sim_extent *extents;
    uint64_t extents_room;
    struct sim_clock clock;
    uint64_t end_ns; /* of the last one submitted, in virtual time */
    uint64_t *ends;  /* of the latest SIM_QUEUE_ENDS, by number; NULL: there is no virtual time */
    uint64_t visit;  /* of a search */
};

/* What an operation keeps busy (sim_time.h). */
enum sim_engine {
    SIM_ENGINE_NONE,
    SIM_ENGINE_COMPUTE, /* kernels, sets, copies within the device */
    SIM_ENGINE_IN,      /* copies from the host */
    SIM_ENGINE_OUT,     /* copies to the host */
    SIM_ENGINE_COUNT
};

/* How well it is known that an operation touches a range. */
enum sim_certainty {
    SIM_SURE,    /* the call or the kernel says so */
    SIM_POINTER, /* a pointer parameter of a kernel that nobody knows */
    SIM_WORD /* a word within a larger parameter of such a kernel: a pointer or what the stack held before */
};

/* Bytes that an operation touches: `slices` times `rows` rows of `size` bytes. */
struct sim_range {
    uint64_t addr, size;
    uint64_t pitch, rows;   /* from row to row */
    uint64_t slice, slices; /* from slice to slice */
    bool write;
    int device; /* that touches it */
    enum sim_side side;
    enum sim_certainty certainty;
};

struct sim_dependency {
    struct sim_queue *queue;
    uint64_t number;
};

/*
 * One operation. `payload` (size - sizeof(struct sim_op) bytes) is what `run` needs; it holds no
 * pointer into itself, so that a graph can keep and copy operations.
 */
struct sim_op {
    struct sim_op *next;
    const char *name; /* the call, a literal */
    struct CUctx_st *ctx;
    size_t size;
    CUresult (*run)(struct sim_op *op);  /* under the lock */
    void (*host)(struct sim_op *op);     /* instead of run: without the lock, helper thread */
    bool (*is_ready)(struct sim_op *op); /* NULL: always */
    void (*note)(
            struct sim_op *op); /* tells sim_contents what it wrote, NULL: its ranges in full */
    void (*drop)(struct sim_op *op); /* before the operation is freed, NULL: nothing */
    bool runs_when_broken;           /* also after a sticky error */
    bool is_no_use; /* managed memory that it names stays where it is (sim_pages.h) */
    enum sim_engine engine;
    unsigned ranges_count;
    struct sim_range *ranges; /* its own */
    /* since it was submitted */
    struct sim_queue *queue;
    uint64_t number; /* in the queue */
    uint64_t order;  /* of all submissions, for messages */
    uint64_t step;
    struct sim_dependency *deps;
    unsigned deps_count;
    bool running;
    uint64_t begin_ns; /* in virtual time: not before this */
    uint64_t end_ns;
    uint64_t generation; /* of the oracle */
    void *frames[SIM_OP_FRAMES];
    int frames_count;
    _Alignas(16) unsigned char payload[];
};

struct sim_op *sim_op_new(const char *name, size_t payload);
struct sim_op *sim_op_clone(const struct sim_op *op);
void sim_op_free(struct sim_op *op);

/* Whether the range has a byte in [addr, addr + size). */
bool sim_range_touches(const struct sim_range *range, uint64_t addr, uint64_t size);

/* Declares bytes that the operation touches. */
void sim_op_add_range(struct sim_op *op, struct sim_range range);

/* The same, one row, for sure. */
void sim_op_range(struct sim_op *op, int device, enum sim_side side, uint64_t addr, uint64_t size,
        bool write);

struct sim_queue *sim_queue_open(struct CUctx_st *ctx, bool legacy, bool blocking);
void sim_queue_close(struct sim_queue *queue);

/* How many operations were submitted to all queues; the latest one's `order`. */
uint64_t sim_queue_submissions(void);

/* Puts the operation at the end of the queue, behind what CUDA's stream rules say and `after`. */
void sim_queue_submit(struct sim_queue *queue, struct sim_op *op, const struct sim_clock *after,
        const struct sim_clock *known);

/* Waits while the queue is absurdly full; to be called before anything is looked up. */
void sim_queue_make_room(struct sim_queue *queue);

/* The schedule's two places in every call. */
void sim_queue_entry(void);
void sim_queue_exit(void);

/* Runs what it takes until that operation of the queue is done. Lets the lock go. */
void sim_queue_demand(struct sim_queue *queue, uint64_t number);
void sim_queue_demand_clock(const struct sim_clock *points);
void sim_queue_demand_context(struct CUctx_st *ctx);

/* The same as far as that goes without waiting. Returns whether it is done. Lets the lock go. */
bool sim_queue_go_on(struct sim_queue *queue, uint64_t number);

/* How often it was told that an event, or a stream, is not ready, since the thread that asked last did something else than ask. Threads
 * that ask in turns count together. */
struct sim_asked {
    uint64_t thread, calls; /* number of that thread, and its calls so far */
    unsigned count;
};

/*
 * The answer would be "not ready". Time passes for a thread that only asks: when it is told so for the 16th time of the same
 * event or stream, the device does what is asked about, as far as it can. One that looks at many once does not wait for any
 * of them. Returns whether it is done now.
 */
bool sim_queue_not_ready(const struct sim_clock *points, struct sim_asked *asked);

bool sim_queue_is_done(const struct sim_queue *queue, uint64_t number);
bool sim_clock_is_done(const struct sim_clock *points);
void sim_clock_set(struct sim_clock *clock, const struct sim_queue *queue, uint64_t number);
void sim_clock_merge(struct sim_clock *clock, const struct sim_clock *other);
void sim_clock_clear(struct sim_clock *clock);
uint64_t sim_clock_at(const struct sim_clock *clock, const struct sim_queue *queue);

/* Calls `see` for every operation that is not done, in the order of queues. */
void sim_queue_each(void (*see)(struct sim_op *op, void *data), void *data);

/* The same for those that may touch a byte in [addr, addr + size). */
void sim_queue_each_at(
        uint64_t addr, uint64_t size, void (*see)(struct sim_op *op, void *data), void *data);

/* The points of all work submitted to the context so far. */
void sim_queue_context_points(
        struct CUctx_st *ctx, struct sim_clock *points, struct sim_clock *known);

/* The points of all work that waiting for this queue has to wait for. */
void sim_queue_stream_points(const struct sim_queue *queue, struct sim_clock *points);

/* What the next operation on the queue would be ordered behind. */
void sim_queue_next_clock(const struct sim_queue *queue, struct sim_clock *clock);

void sim_queue_step(void);

#endif

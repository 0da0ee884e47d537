/* SPDX-License-Identifier: MIT */
/*
 * sim_stream.h - stream handles: created ones, the default stream, one per thread and context.
 *
 * A handle stands for a queue (sim_queue.h). 0 is the default ("legacy") stream or, in a _ptsz
 * call, the calling thread's own; 1 and 2 name these two explicitly. Everything that a program
 * puts on a stream comes through sim_stream_submit, which is where a capture takes it away.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_STREAM_H
#define KEDGE_TESTS_SIM_SIM_STREAM_H

#include "tests/sim/stream/sim_queue.h"

struct CUstream_st {
    /* fixed at creation */
    struct CUctx_st *ctx;
    struct sim_queue *queue;
    unsigned flags;
    int priority;
    uint64_t id;
    uint64_t thread; /* whose per-thread default stream it is, else 0 */
    /* guarded by the lock */
    struct sim_capture *capture;
    CUstreamAttrValue attributes[11]; /* as they were set, by id */
    struct CUgraphNode_st **frontier; /* what the next captured operation comes behind */
    CUgraphEdgeData *frontier_edges;  /* and by which edges */
    unsigned frontier_count;
    struct sim_asked asked;
    struct CUstream_st *next;
};

/* The stream that the handle means in the calling thread: 0 or the code for the caller. */
int sim_stream_get(
        struct CUctx_st *ctx, CUstream handle, bool per_thread, struct CUstream_st **ret_stream);

/* As above with the thread's current context; what every call with a stream begins with. */
int sim_stream_enter(struct sim_call *call, const char *name, unsigned needs, CUstream handle,
        bool per_thread, struct CUstream_st **ret_stream);

/*
 * Puts an operation on a stream, or into the graph that the stream captures. The operation is
 * gone in any case. Returns 0 or a capture error (900 to 908).
 */
int sim_stream_submit(struct CUstream_st *stream, struct sim_op *op);
int sim_stream_submit_after(struct CUstream_st *stream, struct sim_op *op,
        const struct sim_clock *after, const struct sim_clock *known);

/* Waits until all that is on the stream now is done; the context's sticky error if it has one. */
int sim_stream_wait(struct CUstream_st *stream);

bool sim_stream_is_legacy(const struct CUstream_st *stream);

/* A host function as an operation that is not on a stream yet, and what it was made of. */
struct sim_op *sim_stream_make_host(const char *name, CUhostFn fn, void *data);
void sim_stream_host_params(const struct sim_op *op, CUDA_HOST_NODE_PARAMS *ret_params);

/* A batch of memory operations, as a node of a graph, and what it was made of (the node's own copy). Returns a code. */
int sim_stream_make_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct sim_op **ret_op);
bool sim_stream_is_batch(const struct sim_op *op);
void sim_stream_batch_params(struct sim_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret_params);

/* An operation that does nothing. */
struct sim_op *sim_stream_make_nothing(const char *name);

struct CUstream_st *sim_stream_open_legacy(struct CUctx_st *ctx);

/* One that the program asks for. 0, or a code. */
int sim_stream_create(struct CUctx_st *ctx, CUstream *ret_stream, unsigned flags, int priority);
void sim_stream_end_context(struct CUctx_st *ctx);

/* Both forms of a call whose first argument is a stream, for the many that only differ in that. */
#define SIM_STREAM_CALL(name, needs, params, body)                                    \
    CUresult name params                                                              \
    {                                                                                 \
        struct sim_call call;                                                         \
        struct CUstream_st *stream;                                                   \
        int r = sim_stream_enter(&call, #name, needs, handle, false, &stream);        \
        if (r == 0)                                                                   \
            r = body;                                                                 \
        return sim_leave(&call, r);                                                   \
    }                                                                                 \
    CUresult name##_ptsz params                                                       \
    {                                                                                 \
        struct sim_call call;                                                         \
        struct CUstream_st *stream;                                                   \
        int r = sim_stream_enter(&call, #name "_ptsz", needs, handle, true, &stream); \
        if (r == 0)                                                                   \
            r = body;                                                                 \
        return sim_leave(&call, r);                                                   \
    }

/* The same for calls on the default stream that have no stream argument (_ptds). */
#define SIM_DEFAULT_STREAM_CALL(name, needs, params, body)                          \
    CUresult name params                                                            \
    {                                                                               \
        struct sim_call call;                                                       \
        struct CUstream_st *stream;                                                 \
        int r = sim_stream_enter(&call, #name, needs, NULL, false, &stream);        \
        if (r == 0)                                                                 \
            r = body;                                                               \
        return sim_leave(&call, r);                                                 \
    }                                                                               \
    CUresult name##_ptds params                                                     \
    {                                                                               \
        struct sim_call call;                                                       \
        struct CUstream_st *stream;                                                 \
        int r = sim_stream_enter(&call, #name "_ptds", needs, NULL, true, &stream); \
        if (r == 0)                                                                 \
            r = body;                                                               \
        return sim_leave(&call, r);                                                 \
    }

#endif

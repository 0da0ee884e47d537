/* SPDX-License-Identifier: MIT */
/*
 * sim_event.h - events: the points of queues that a record stands for.
 *
 * cuEventRecord puts an operation on the stream and the event stands for it; cuCtxRecordEvent
 * puts nothing anywhere, the event stands for the last operation of every queue of the context.
 * What comes before the record of an event that other processes know runs at the record: they
 * cannot ask this device for it.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_EVENT_H
#define KEDGE_TESTS_SIM_SIM_EVENT_H

#include "tests/sim/stream/sim_stream.h"

struct CUevent_st {
    /* fixed at creation */
    struct CUctx_st *ctx;
    unsigned flags;
    /* guarded by the lock: of the last record */
    bool recorded;
    struct sim_clock points; /* what has to be done */
    struct sim_clock known;  /* what is ordered before these points */
    uint64_t record;         /* number of the record, to which the time belongs */
    uint64_t time_ns;        /* when it was done; 0: not yet */
    uint64_t capture;        /* id of the capture that it was recorded in, 0: none */
    struct CUgraphNode_st **frontier;
    CUgraphEdgeData *frontier_edges;
    unsigned frontier_count;
    struct sim_ipc_event *shared; /* with other processes (sim_ipc.h), NULL: with none */
    int shared_fd;
    uint64_t shared_number; /* of the last record here */
    struct sim_asked asked;
    struct CUevent_st *next;
};

struct CUevent_st *sim_event_open(struct CUctx_st *ctx, unsigned flags);

/* The operation that a record is, and that the event stands for it from now on: it is on `queue`. */
struct sim_op *sim_event_make_record(struct CUevent_st *event);
void sim_event_recorded(struct CUevent_st *event, const struct sim_queue *queue);

/* The same for the last record of an event that other processes know: waits for it. */
struct sim_op *sim_event_make_shared_wait(const struct CUevent_st *event);

/* What cuEventRecordWithFlags does: 0, or its code. */
int sim_event_record(struct CUstream_st *stream, struct CUevent_st *event, unsigned flags);

void sim_event_end_context(struct CUctx_st *ctx);

#endif

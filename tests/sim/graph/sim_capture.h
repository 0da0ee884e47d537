/* SPDX-License-Identifier: MIT */
/*
 * sim_capture.h - stream capture: the state machine, the three modes, the error codes.
 *
 *     none ─begin─► active ─end─► graph
 *                     │ forbidden call, legacy stream, sync, cuCtxRecordEvent
 *                     ▼
 *                 invalidated ─end─► 901, no graph
 *
 * A capture spreads to other streams through events that were recorded in it. What is put on a
 * capturing stream becomes a node behind the stream's frontier. Calls that CUDA names potentially
 * unsafe (SIM_NEED_SAFE) ask sim_capture_unsafe_call, which applies the calling thread's mode.
 *
 * Codes: 900 not allowed while capturing, 901 already invalidated, 902 two captures would merge,
 * 904 a forked stream was not joined, 905 an outside event, 906 the legacy stream, 907 an event of
 * a capture, 908 another thread. Each of these invalidates the capture, except 908 and questions.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CAPTURE_H
#define KEDGE_TESTS_SIM_SIM_CAPTURE_H

#include "tests/sim/stream/sim_stream.h"

struct CUevent_st;
struct sim_capture;

/* 0, or 900 (and the captures in the way are invalidated). */
int sim_capture_unsafe_call(void);

/* Waiting for, or asking about, a capturing stream or its context: 0 or 900. */
int sim_capture_synchronize_stream(struct CUstream_st *stream);
int sim_capture_synchronize_context(struct CUctx_st *ctx);

/* cuCtxRecordEvent and cuCtxWaitEvent: 0, or 900 if a stream of the context captures. */
int sim_capture_conflicts_with_context(struct CUctx_st *ctx);

/* Use of the legacy stream: 0, or 906 if a blocking stream of the context captures. */
int sim_capture_implicit(struct CUctx_st *ctx);

/* Makes a node of the operation, which is the graph's from now on. */
int sim_capture_add(struct CUstream_st *stream, struct sim_op *op);

/* A node made elsewhere (memory nodes) comes behind the frontier. */
int sim_capture_add_node(struct CUstream_st *stream, CUgraphNode node);
CUgraph sim_capture_graph(const struct CUstream_st *stream);
int sim_capture_status(const struct CUstream_st *stream);

/* A record or a wait that is to be a node (CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL). */
int sim_capture_add_event(
        struct CUstream_st *stream, CUgraphNodeType type, struct CUevent_st *event);

/* The next operation may begin before the kernels that it comes behind are done (programmatic launch). */
void sim_capture_begin_early(struct CUstream_st *stream);

/* The event was recorded by a launch: it stands for a port of the kernel. */
void sim_capture_event_is_early(struct CUevent_st *event, CUgraphEdgeData edge);

int sim_capture_record_event(struct CUstream_st *stream, struct CUevent_st *event);
int sim_capture_wait_event(struct CUstream_st *stream, struct CUevent_st *event);

/* Returns `code` and invalidates the capture that the stream (the event) belongs to. */
int sim_capture_refuse(struct CUstream_st *stream, int code);
int sim_capture_refuse_event(struct CUevent_st *event, int code);

void sim_capture_forget_stream(struct CUstream_st *stream);
void sim_capture_end_context(struct CUctx_st *ctx);

#endif

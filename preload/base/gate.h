/* SPDX-License-Identifier: MIT */
/*
 * gate.h - keeps stream captures apart from calls of kedge that would invalidate them.
 *
 * Recording an event in a context invalidates the captures in progress there, and no documented
 * mode prevents it. So a fence call and the begin of a capture pass one gate with two sides:
 *
 *     begin:  pending++ ── waits for fence calls in flight ── driver ── running (or pending--)
 *     fence:  enters only while nothing is pending or running ── driver ── leaves
 *
 * A begin waits for calls that take microseconds; a fence never waits, it is postponed (R67,
 * capture gate). The gate is the only thing that kedge holds across a driver call. While a capture
 * runs, kedge makes no event, wait or trim call at all (R10, no calls during captures). The one
 * exception is the event of a free, recorded inside a call of the program that is itself an
 * operation of the stream (hostwait.h).
 *
 * A call that waits for the device is not a fence call: it may wait for work that the program
 * submits only after the begin (R96, unbounded waits outside). Waiting for an event happens outside
 * of the gate; captures allow it. A drain (below driver 12.5, which has no cuCtxRecordEvent, the
 * driver is asked to wait for a whole context) beside a capture would be refused and invalidate the
 * capture. So a drain announces itself before it enters the driver; a begin gives it a moment to
 * get there, and does not wait for its return. A drain that is already inside when the capture
 * begins does no harm. (A thread that is delayed for longer than that moment between announcement
 * and driver still invalidates the capture.)
 *
 * Captures are kept by the stream that they began on (stream_capture_key). A capture ends when the
 * driver says so after cuStreamEndCapture, or when its stream or context goes away. While there is
 * one, GUARD_CAPTURING is set (guard.h). Any thread. Memory: meta.h. Captures without memory for a
 * row are only counted, and are treated as one.
 */
#ifndef KEDGE_PRELOAD_GATE_H
#define KEDGE_PRELOAD_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Before the driver is asked to begin a capture. Waits for fence calls in flight, and a moment for
 * drains.
 */
void gate_begin_enter(void);

/*
 * After the driver's answer. `began`: the capture now runs on `stream` of context generation
 * `context`, into `graph` (0 = not known).
 */
void gate_begin_leave(bool began, uint64_t stream, uint64_t context, uint64_t graph);

/*
 * The running capture on this stream records into a graph of the program's own
 * (cuStreamBeginCaptureToGraph).
 */
void gate_stays(uint64_t stream);

/* The graph of the running capture on this stream, 0 = not known. */
uint64_t gate_graph(uint64_t stream);

/* A capture that runs or has run. */
struct gate_capture {
    uint64_t number; /* unique, never reused */
    uint64_t graph;  /* the graph that it records into, 0 = not known */
    uint64_t stream; /* the stream that it began on, 0 = not known */
    bool stays;      /* the graph existed before the capture and outlives it */
};

/* Number of the captures without a row, all together. */
#define GATE_UNLISTED UINT64_MAX

/*
 * The running capture with the next greater number, 0 = there is none. gate_next(0) is the first
 * one, and gate_next(number - 1) is `number` while that capture runs. A capture that is about to
 * begin does not count: nothing has been captured yet.
 */
uint64_t gate_next(uint64_t after);

/*
 * A capture that began on this stream, if any, has ended. True if there was one; *ret_capture says
 * which. `was_one`: the driver has ended a capture, so one without a row has ended if none is
 * listed.
 */
bool gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture);

/*
 * Renames the stream of a running capture. Used around the destruction of a stream: before the
 * driver returns, its handle may already name another stream that captures.
 */
void gate_move(uint64_t from, uint64_t to);

/* A context has ended, and one of its captures with it. Call until it returns false. */
bool gate_context_gone(uint64_t context, struct gate_capture *ret_capture);

/* Around a fence call; false = not now. */
bool gate_fence_enter(void);
void gate_fence_leave(void);

/* Around a call that waits for a whole context, outside of the gate; false = not now. */
bool gate_drain_enter(void);
void gate_drain_leave(void);

/*
 * Waits until no fence call is in flight. Later fence calls see what the caller changed before. Not
 * for drains.
 */
void gate_fences_end(void);

/* Captures that run or are about to begin, in the whole process. */
unsigned gate_captures(void);

/*
 * A capture has ended whose begin kedge did not see: its entry has no hook. From now on any stream
 * may be capturing, whatever the count says, and GUARD_CAPTURING stays set. Fences cannot take such
 * captures into account.
 */
void gate_unseen(void);
extern atomic_bool gate_has_unseen;

/* Whether any stream may be capturing; only the driver says which. */
static inline bool gate_may_capture(void)
{
    return gate_captures() > 0 || atomic_load_explicit(&gate_has_unseen, memory_order_relaxed);
}

/* In the child of a fork: no captures, no calls in the gate. */
void gate_fork_child(void);

#endif

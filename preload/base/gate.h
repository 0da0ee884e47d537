/* SPDX-License-Identifier: MIT */
/*
 * gate.h - keeps stream captures apart from calls of kedge that would invalidate them.
 *
 * Recording an event in a context invalidates the captures in progress there, and no documented mode prevents it. So a
 * fence call and the begin of a capture pass one gate with two sides:
 *
 *     begin:  pending++ ── waits until no fence call is in flight ── driver ── running (or pending--)
 *     fence:  enters only while nothing is pending or running ── driver ── leaves
 *
 * A begin waits for calls that take microseconds; a fence never waits, it is put off (R67). This is the one place where
 * something is held across a driver call. While a capture runs, kedge begins no event, wait or trim call at all (R10),
 * but for the event of a free, in a call of the program's that is an operation of its stream (hostwait.h).
 *
 * A call that waits for the device is not a fence call: it may wait for work that the program submits only after the begin
 * (R96). Waiting for an event happens outside of the gate; captures allow it. A drain (below driver 12.5, which has no
 * cuCtxRecordEvent, the driver is asked to wait for a whole context) beside a capture would be refused and invalidate the
 * capture. So a drain announces itself before it enters the driver; a begin gives it a moment to get there, and does not
 * wait for its return. A drain that is already inside when the capture begins does no harm. (A thread that is delayed for
 * longer than that moment between announcement and driver still invalidates the capture.)
 *
 * Captures are kept by the stream that they began on (stream_capture_key). A capture ends when the driver says so after
 * cuStreamEndCapture, or when its stream or context goes away. While there is one, GUARD_CAPTURING is set (guard.h).
 * Any thread. Memory: meta.h; a capture that there is none for is counted, and stands for all such ones.
 */
#ifndef KEDGE_PRELOAD_GATE_H
#define KEDGE_PRELOAD_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before the driver is asked to begin a capture; waits for fence calls in flight, and a moment for drains. */
void gate_begin_enter(void);

/* After it: `began` = the capture runs now, on `stream` of context generation `context`, into `graph` (0 = not known). */
void gate_begin_leave(bool began, uint64_t stream, uint64_t context, uint64_t graph);

/* The graph of the capture that runs on this stream is the program's own (cuStreamBeginCaptureToGraph). */
void gate_stays(uint64_t stream);

/* The graph of the capture that runs on this stream, 0 = not known. */
uint64_t gate_graph(uint64_t stream);

/* A capture that runs, or has run. */
struct gate_capture {
    uint64_t number; /* never another one's */
    uint64_t graph;  /* that it records into, 0 = not known */
    uint64_t stream; /* that it began on, 0 = not known */
    bool stays;      /* the graph was there before, and is there whatever becomes of the capture */
};

/* The number of all captures that there was no memory to list. */
#define GATE_UNLISTED UINT64_MAX

/*
 * The running capture with the next greater number, 0 = there is none: gate_next(0) is the first one, and gate_next(number - 1)
 * is `number` as long as that runs. One that is about to begin does not run: nothing has been captured yet.
 */
uint64_t gate_next(uint64_t after);

/*
 * A capture that began on this stream, if any, has ended. True if there was one, and which. `was_one`: the driver has ended one,
 * so that it was one of those that are not listed, if it is not listed.
 */
bool gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture);

/*
 * A capture that runs on one stream is listed under another name from now on: around the destruction of a stream, whose handle
 * may be another's, and capture again, before the driver has come back.
 */
void gate_move(uint64_t from, uint64_t to);

/* One of a context that is gone has ended with it. Until it is false. */
bool gate_context_gone(uint64_t context, struct gate_capture *ret_capture);

/* Around a fence call; false = not now. */
bool gate_fence_enter(void);
void gate_fence_leave(void);

/* Around a call that waits for a whole context, outside of the gate; false = not now. */
bool gate_drain_enter(void);
void gate_drain_leave(void);

/* Waits until no fence call is in flight: those that begin later see what was changed before. Not for drains. */
void gate_fences_end(void);

/* Captures that run or are about to begin, in the whole process. */
unsigned gate_captures(void);

/*
 * A capture has ended of which nobody here knew: it began by an entry that has no hook. From now on any stream may be captured,
 * whatever is counted, and GUARD_CAPTURING stays set. Fences cannot know of such captures.
 */
void gate_unseen(void);
extern atomic_bool gate_has_unseen;

/* Whether a stream may be captured; which one, only the driver says. */
static inline bool gate_may_capture(void)
{
    return gate_captures() > 0 || atomic_load_explicit(&gate_has_unseen, memory_order_relaxed);
}

/* In the child of a fork: no captures, nobody inside. */
void gate_fork_child(void);

#endif

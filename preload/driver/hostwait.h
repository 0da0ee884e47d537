/* SPDX-License-Identifier: MIT */
/*
 * hostwait.h - calls after which a stream may wait for something that the device does not do by itself (alloc/serve/stall.h).
 *
 * A free is natively an operation of its stream, so who gets the memory waits for what the stream was given before it, and for nothing that
 * came later. kedge records no event for a free that only its own stream can use again soon (R71). An event that is recorded when another stream
 * asks covers what came meanwhile: a kernel, which ends by itself, or the wait for a flag that the host sets once that other stream is
 * done. So before a stream is given a call that may wait, what was freed there gets its event.
 *
 *     cuMemFreeAsync(x, S) ─ cuStreamWaitValue32(S): the event of the free, the wait ─ cuMemAllocAsync(T) gets x, and T does not wait
 *
 * Which calls these are is said by the family of their row in hooks.def, and ON_STREAM (contexts.h) does it around each hook, so that none can
 * forget it. A wait for an event is one where some stream may be waiting for the host. Beside captures the event is recorded, too,
 * unless the stream itself is captured: then the call becomes a node, and holds no stream.
 * Not seen: kernels that look at memory which the host or another device writes (NCCL's, too), what other processes do to events that
 * they share, and nodes that wait for external semaphores.
 * Threads: any. No memory of its own. Rules: R10 R71 R104.
 */
#ifndef KEDGE_PRELOAD_HOSTWAIT_H
#define KEDGE_PRELOAD_HOSTWAIT_H

#include "preload/base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum hostwait_kind {
    HOSTWAIT_NEVER,
    HOSTWAIT_OUTSIDE, /* for the host, or whoever else */
    HOSTWAIT_EVENT,   /* for an event */
    HOSTWAIT_GRAPH,   /* for what the nodes of a graph wait for */
};

/* By family. */
enum {
    HOSTWAIT_IN_ASYNC = HOSTWAIT_NEVER,
    HOSTWAIT_IN_CAPTURE = HOSTWAIT_NEVER,
    HOSTWAIT_IN_COPY = HOSTWAIT_NEVER,
    HOSTWAIT_IN_EVENT = HOSTWAIT_NEVER,
    HOSTWAIT_IN_FOLLOW = HOSTWAIT_EVENT,
    HOSTWAIT_IN_GRAPH = HOSTWAIT_NEVER,
    HOSTWAIT_IN_HOSTFN = HOSTWAIT_OUTSIDE,
    HOSTWAIT_IN_LAUNCH = HOSTWAIT_NEVER,
    HOSTWAIT_IN_RUN = HOSTWAIT_GRAPH,
    HOSTWAIT_IN_SET = HOSTWAIT_NEVER,
    HOSTWAIT_IN_STREAM = HOSTWAIT_NEVER,
    HOSTWAIT_IN_VMM = HOSTWAIT_NEVER,
    HOSTWAIT_IN_WAIT = HOSTWAIT_OUTSIDE,
};

/* By hook. */
enum {
#define STREAM_HOOK(symbol, family) HOSTWAIT_OF_##symbol = HOSTWAIT_IN_##family,
#include "preload/base/hooks.def"
};

/* The program has made a call that may wait for the host, or such a node. Most never do, and their waits for events and launches of
 * graphs pay one load. Never reset. */
extern atomic_bool hostwait_is_on;

/* A node that may wait for the host was added to a graph or captured: from now on any graph may have one. */
void hostwait_in_graph(void);

/* One call, from before the driver has it until after. */
struct hostwait {
    uint64_t stream; /* identity; 0: nothing is to be done */
    bool at_once;    /* as for pool_stall_end */
};

/* A call that is one, and a launch of a graph. */
struct hostwait hostwait_begin_slowly(enum hostwait_kind kind, CUstream stream, bool per_thread);
void hostwait_end_slowly(uint64_t stream, bool at_once);

/* A wait for an event is about to be made, by which the stream may come behind one that waits. */
void hostwait_follow(CUstream stream, bool per_thread);

/*
 * [driver] May a stream of this device be waiting for the host? What the calling thread is about to give to a stream does not count: what was
 * freed before it is fenced first.
 */
bool hostwait_goes_on(int device);

static inline bool hostwait_may_be(void)
{
    return __builtin_expect(atomic_load_explicit(&hostwait_is_on, memory_order_relaxed), 0);
}

static inline __attribute__((always_inline)) struct hostwait hostwait_begin(
        enum hostwait_kind kind, CUstream stream, bool per_thread)
{
    if (kind == HOSTWAIT_OUTSIDE || (kind == HOSTWAIT_GRAPH && hostwait_may_be()))
        return hostwait_begin_slowly(kind, stream, per_thread);
    if (kind == HOSTWAIT_EVENT && hostwait_may_be())
        hostwait_follow(stream, per_thread);
    return (struct hostwait){.stream = 0};
}

/* By value, so that nothing is left of it where there is nothing to do. */
static inline __attribute__((always_inline)) void hostwait_end(const struct hostwait *call)
{
    if (__builtin_expect(call->stream != 0, 0))
        hostwait_end_slowly(call->stream, call->at_once);
}

/* Streams have an order from now on that had none (contexts.h): what was freed on them gets its event. */
void hostwait_streams_meet(void);

#endif

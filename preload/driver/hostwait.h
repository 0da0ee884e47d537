/* SPDX-License-Identifier: MIT */
/*
 * hostwait.h - calls after which a stream may wait for something that the device does not do by
 * itself (alloc/serve/stall.h).
 *
 * A free is natively an operation of its stream: the next user of the memory waits for the stream's
 * earlier work, and for nothing later. kedge records no event for a free whose memory only its own
 * stream can soon reuse (R71, event of a free). If another stream asks for the memory, the event is
 * recorded then and covers later work, too: a kernel, which ends by itself, or a wait for a flag
 * that the host sets only once that other stream is done. So before a stream gets a call that may
 * wait, the frees on it get their event.
 *
 *     cuMemFreeAsync(x, S) ─ cuStreamWaitValue32(S): first the event of the free, then the wait ─
 *     cuMemAllocAsync(T) gets x, and T does not wait
 *
 * The family of a row in hooks.def says whether its call may wait, and ON_STREAM (contexts.h) acts
 * around each hook, so that no hook can omit it. A wait for an event counts where some stream may
 * be waiting for the host. Beside captures the event is recorded, too, unless the stream itself is
 * captured: then the call becomes a node, and holds no stream.
 * Not seen: kernels that look at memory which the host or another device writes (NCCL's, too), what
 * other processes do to events that they share, and nodes that wait for external semaphores.
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
    HOSTWAIT_OUTSIDE, /* for the host or anything else outside the device */
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

/*
 * The program has made a call, or added a node, that may wait for the host. Most programs never do,
 * and their event waits and graph launches pay one load. Never reset.
 */
extern atomic_bool hostwait_is_on;

/*
 * A node that may wait for the host was added to a graph or captured: from now on any graph may
 * contain one.
 */
void hostwait_in_graph(void);

/* One call, from before it enters the driver until it returns. */
struct hostwait {
    uint64_t stream; /* identity; 0: nothing to do */
    bool at_once;    /* as for pool_stall_end */
};

/* The slow path: for a call that may wait, and for a launch of a graph. */
struct hostwait hostwait_begin_slowly(enum hostwait_kind kind, CUstream stream, bool per_thread);
void hostwait_end_slowly(uint64_t stream, bool at_once);

/*
 * A wait for an event is about to be made, which may make the stream wait for one that is waiting.
 */
void hostwait_follow(CUstream stream, bool per_thread);

/*
 * [driver] Whether a stream of this device may be waiting for the host. The call that this thread
 * is about to make does not count: earlier frees get their event first.
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

/* By value, so that the compiler removes it where there is nothing to do. */
static inline __attribute__((always_inline)) void hostwait_end(const struct hostwait *call)
{
    if (__builtin_expect(call->stream != 0, 0))
        hostwait_end_slowly(call->stream, call->at_once);
}

/* Streams have become ordered (contexts.h): the frees on them get their event. */
void hostwait_streams_meet(void);

#endif

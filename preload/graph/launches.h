/* SPDX-License-Identifier: MIT */
/*
 * launches.h - captures, graphs and kernels as anchors.
 *
 *     begin, end of a capture ─► range `capture:N` of the thread that began it; N counts them
 *                               per process. Those from
 *                                LAUNCHES_CAPTURES_MAX on are instances of the anchor
 *                               `capture:later` (R107)
 *     graph launched ──────────► label `graph:N`, if `launches` is wanted; N counts the
 *                               instances that were made
 *     kernel launched ─────────► label with the kernel's name, if KEDGE_ANCHORS names it
 *                               (kernel=), and an event that hints may wait for
 *
 * N is the same from run to run if the program does the same; the label's instance counts the
 * launches. If a capture is ended by another thread than began it, its range stays open until the
 * first thread begins a capture again (32 captures later). Labels are recorded, but no hint can use
 * them (source.h). After LAUNCHES_LABELS_MAX of them in a process no more are recorded, which the
 * capture says.
 *
 * A captured call is not launched: it makes no label and no event, but each launch of the graph
 * does (graphkernels.h). A launch that is a label or an event is also recorded as a launch, so that
 * predictions have it (capture_call).
 *
 * Threads: any. A lock for the look-up of handles, none across a driver call.
 */
#ifndef KEDGE_PRELOAD_LAUNCHES_H
#define KEDGE_PRELOAD_LAUNCHES_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef LAUNCHES_LABELS_MAX /* smaller in a library for tests */
#    define LAUNCHES_LABELS_MAX (1u << 20)
#endif

#define LAUNCHES_CAPTURES_MAX 4096 /* captures with a name of their own */

/* Once, when life starts. */
void launches_start(void);

/*
 * After a capture began on a stream (by its stream_capture_key). Below: after it ended. Outside of
 * life_enter.
 */
void launches_capture_begins(uint64_t stream);
void launches_capture_ends(uint64_t stream);
void launches_capture_move(uint64_t from, uint64_t to); /* as gate_move */

/*
 * A capture has ended with its context: inside of life_enter. Below, outside of life_enter: leaves
 * the anchors of all such captures.
 */
void launches_capture_gone(uint64_t stream);
void launches_leave_gone(void);

/* An instance was made. Below: it has ended. Inside of life_enter. */
void launches_made(uint64_t exec);
void launches_gone(uint64_t exec);
void launches_move(uint64_t from, uint64_t to); /* as graphmem_move */

/*
 * Before an instance and its kernels are launched on a stream. Below: after it. True:
 * submit_event_end follows the launch.
 */
bool launches_graph_begins(CUgraphExec exec, CUstream stream, bool per_thread);
void launches_graph(CUgraphExec exec, CUstream stream, bool per_thread);

/*
 * Before a kernel is launched: a CUfunction, or a CUkernel in its place. Called if GUARD_LAUNCHES
 * is set or hints exist. True: submit_event_end follows the launch.
 */
bool launches_kernel(CUfunction function, CUstream stream, bool per_thread);

#endif

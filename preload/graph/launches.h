/* SPDX-License-Identifier: MIT */
/*
 * launches.h - captures, graphs and kernels as anchors.
 *
 *     begin, end of a capture ─► range `capture:N` of the thread that began it; N counts the captures of the process. Those from
 *                                LAUNCHES_CAPTURES_MAX on are instances of one anchor, `capture:later` (R107)
 *     graph launched ──────────► label `graph:N`, if `launches` is wanted; N counts the instances that were made
 *     kernel launched ─────────► label with the kernel's name, if KEDGE_ANCHORS names it (kernel=), and what hints wait for
 *
 * N is the same from run to run if the program does the same; the label's instance says which launch it is. If another thread
 * ends a capture than began it, the range stays open until the first thread begins one again (32 captures later). Labels
 * are recorded, and no hint can use them (source.h). After LAUNCHES_LABELS_MAX of them in a process no more are recorded,
 * which the capture says.
 *
 * What is captured is not launched: neither label nor event comes of it, but of each launch of the graph (graphkernels.h).
 * A launch that is a label or an event is on record as a launch, too, so that predictions have it (capture_call).
 *
 * Threads: any. A lock for the look-up of handles, none across a driver call.
 */
#ifndef KEDGE_PRELOAD_LAUNCHES_H
#define KEDGE_PRELOAD_LAUNCHES_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef LAUNCHES_LABELS_MAX /* less in a library for tests */
#    define LAUNCHES_LABELS_MAX (1u << 20)
#endif

#define LAUNCHES_CAPTURES_MAX 4096 /* with a name of their own */

/* Once, when life starts. */
void launches_start(void);

/* After a capture began on a stream (by its stream_capture_key), and after it ended. Outside of life_enter. */
void launches_capture_begins(uint64_t stream);
void launches_capture_ends(uint64_t stream);
void launches_capture_move(uint64_t from, uint64_t to); /* as gate_move */

/* It has ended with its context: inside of life_enter; and, outside of that, the anchors of all such ones are left. */
void launches_capture_gone(uint64_t stream);
void launches_leave_gone(void);

/* An instance was made, or is gone. Inside of life_enter. */
void launches_made(uint64_t exec);
void launches_gone(uint64_t exec);
void launches_move(uint64_t from, uint64_t to); /* as graphmem_move */

/* It is about to be launched on a stream, and so are its kernels; it was. True: submit_event_end follows the launch. */
bool launches_graph_begins(CUgraphExec exec, CUstream stream, bool per_thread);
void launches_graph(CUgraphExec exec, CUstream stream, bool per_thread);

/* A kernel is about to be launched: a CUfunction, or a CUkernel in its place. Where GUARD_LAUNCHES is set, or hints are there.
 * True: submit_event_end follows the launch. */
bool launches_kernel(CUfunction function, CUstream stream, bool per_thread);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * source.h - the sources of anchors: turns what the program states about itself (NVTX, marks,
 * output ...) into edges.
 *
 *     NVTX 3 (nvtx.c) ────────────┐
 *     NVTX 2 (export_nvtx.c) ─────┤
 *     kedge.h (nvtx.c) ───────────┼─► source_* ─► anchor_* ─► dispatch_edge ─► capture, hints
 *     Python (pyhost.c) ──────────┤
 *     lines (output.c) ───────────┤                └─ before CUDA is used: open ranges are kept
 *     captures, profiler, NCCL ───┘
 *     launches (graph, kernel) ───► source_label ─► anchor_mark ─► capture alone
 *
 * Inside kedge all these functions do nothing. A statement of a signal handler is lost while its
 * thread is in this module or holds a lock of kedge. Otherwise a handler may enter and leave
 * groups: these functions wait for no lock of their own thread, allocate nothing and leave driver
 * calls to the next request (dispatch_go_on). Errno is kept; cancellation is held off.
 *
 * R90: an edge is something that the program does itself; what kedge infers is not an edge. A
 * launch is the program's too, but it does not say that the host has finished with memory, and
 * there are many: it is a label, which no hint can use.
 * Threads: any. No malloc, no lock across dispatch_edge.
 */
#ifndef KEDGE_PRELOAD_SOURCE_H
#define KEDGE_PRELOAD_SOURCE_H

#include "alloc/base/types.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sources of anchors: bits of KEDGE_ANCHORS, in the order of its words. */
enum source {
    SOURCE_NVTX = 1,
    SOURCE_MARKS = 2,
    SOURCE_LOG = 4,
    SOURCE_GRAPHS = 8,
    SOURCE_PROFILER = 16,
    SOURCE_NCCL = 32,
    SOURCE_LAUNCHES = 64, /* launches of graphs */
    SOURCE_PYTHON = 128,
    SOURCE_KERNELS = 512, /* set by the key kernel= alone; no word has this bit */
};

/* Whether this source is wanted and kedge is on. */
bool source_wants(enum source source);

/*
 * Ranges of this thread, and moments in it. `domain` NULL: the default one. A name of NULL is
 * "(unnamed)".
 */
void source_push(const char *domain, const char *name);
void source_pop(const char *domain);
void source_mark(const char *domain, const char *name);

/* A moment that is recorded but that no hint can use. */
void source_label(const char *domain, const char *name);

/*
 * True if a hint may wait for an event that is no edge of an anchor (hints_run_waits). Then
 * *ret_event has this thread's position; the caller adds the rest and passes it to dispatch_event.
 */
bool source_event(enum edge_kind kind, struct edge *ret_event);

/* A range that any thread may end; 0 = none. */
uint64_t source_start(const char *domain, const char *name);
void source_end(uint64_t id);

/*
 * Ranges of this thread in a group of their own (anchor.h), one at a time: entering ends the open
 * one. The groups are the numbers of the patterns of lines, then those of captures. `name` need not
 * end in NUL; NULL: whichever is open.
 */
void source_enter_group(uint32_t group, const char *name, size_t length);
void source_leave_group(uint32_t group, const char *name, size_t length);

/*
 * Whether Python programs are watched: 0 no, 1 the phases of a training loop, 2 modules by name,
 * too.
 */
struct config;
int source_python_level(const struct config *config);

/*
 * The position of a Python program (pyloop.c), in a group of its own. A step is nested in nothing
 * (anchor.h). Leaving takes the name.
 */
void source_enter_python(const char *name);
void source_enter_step(const char *name);
void source_leave_python(const char *name);

/* NCCL states its calls through NVTX itself, so export_nccl.c need not (nvtx.c sets it). */
extern atomic_bool source_nccl_states;

#endif

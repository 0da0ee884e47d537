/* SPDX-License-Identifier: MIT */
/*
 * speech.h - what the program says of itself becomes an edge, whichever way it says it.
 *
 *     NVTX 3 (nvtx.c) ──────────┐
 *     NVTX 2 (door_nvtx.c) ─────┤
 *     kedge.h (nvtx.c) ─────────┼─► speech_* ─► anchor_* ─► conduct_edge ─► capture, and the hints that wait for it
 *     Python (door_python.c) ───┤
 *     lines (output.c) ─────────┤                  └─ before CUDA is used: open ranges are kept, nothing is written
 *     captures, profiler, NCCL ─┘
 *     launches (graph, kernel) ───► speech_label ─► anchor_mark ─► capture alone
 *
 * What happens inside kedge is no event of the program's: inside it, all of these do nothing. What a signal handler says while
 * its thread is in here, or holds a lock, is lost. Elsewhere a handler may enter and leave groups: they wait for no lock of their
 * own thread, allocate nothing and leave calls to the driver to the next request (conduct_go_on). Errno is kept; cancellation waits.
 *
 * R90: an edge is something that the program does itself, at a place of its own; what kedge infers is none. A launch is the
 * program's too, but says nothing about memory that the host has done with, and there are many: it labels and keys nothing.
 * Threads: any. No malloc, no lock across conduct_edge.
 */
#ifndef KEDGE_PRELOAD_SPEECH_H
#define KEDGE_PRELOAD_SPEECH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where anchors come from: bits of KEDGE_ANCHORS, in the order of its words. */
enum speech_source {
    SPEECH_NVTX = 1,
    SPEECH_MARKS = 2,
    SPEECH_LOG = 4,
    SPEECH_GRAPHS = 8,
    SPEECH_PROFILER = 16,
    SPEECH_NCCL = 32,
    SPEECH_LAUNCHES = 64, /* of graphs */
    SPEECH_PYTHON = 128,
    SPEECH_KERNELS = 512, /* by the key kernel= alone; no word has this bit */
};

/* Whether this source is wanted, and kedge too. */
bool speech_wants(enum speech_source source);

/* Ranges of this thread, and moments in it. `domain` NULL: the default one. A name of NULL is "(unnamed)". */
void speech_push(const char *domain, const char *name);
void speech_pop(const char *domain);
void speech_mark(const char *domain, const char *name);

/* A moment that is written down and keys nothing. */
void speech_label(const char *domain, const char *name);

/* A range that any thread may end; 0 = there is none. */
uint64_t speech_start(const char *domain, const char *name);
void speech_end(uint64_t id);

/*
 * Ranges of this thread in a group of their own (anchor.h), one at a time: entering ends what is open. The groups are the
 * numbers of the patterns of lines, and those of captures behind them. `name` need not end in NUL; NULL: whichever is open.
 */
void speech_enter_group(uint32_t group, const char *name, size_t length);
void speech_leave_group(uint32_t group, const char *name, size_t length);

/* What kedge's Python module says, in a group of its own. A step is nested in nothing (anchor.h). Leaving takes the name. */
void speech_enter_python(const char *name);
void speech_enter_step(const char *name);
void speech_leave_python(const char *name);

/* NCCL speaks of its calls itself, through NVTX: nobody else need (nvtx.c sets it, door_nccl.c asks). */
extern atomic_bool speech_nccl_speaks;

#endif

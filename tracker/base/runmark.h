/* SPDX-License-Identifier: MIT */
/*
 * runmark.h - what the processes of a run report to their `kedge run`, for the case that none of
 * them writes a capture.
 *
 * An unnamed file (memfd) of kedge, which libkedge.so maps when it is loaded (preload/base/mark.c)
 * and kedge reads after the program has ended (tools/run/runlook.c). Nothing depends on it: without
 * it kedge reports the reason as unknown.
 *
 * Counts only grow. All fields are 0 in a new file. Threads and processes: any, relaxed.
 */
#ifndef KEDGE_TRACKER_RUNMARK_H
#define KEDGE_TRACKER_RUNMARK_H

#include <stdatomic.h>
#include <stdint.h>

/* The variable with the path by which processes of the run can open the file: /proc/PID/fd/N. Not a
 * user setting. */
#define RUNMARK_VARIABLE "_KEDGE_MARK"
/* Prefix of its name, followed by the run's number (CONFIG_RUN): if that path leads to another
 * name, it is not opened. */
#define RUNMARK_NAME "kedge-run-"

#define RUNMARK_SLOTS  256u
#define RUNMARK_PROBES 16u
#define RUNMARK_GONE   UINT32_MAX

/* A process counts as loaded once, even if it executes other programs that load the library again.
 * While it lives, and for good if it does not end by itself, its number is in one of RUNMARK_PROBES
 * slots, the first of which is number % RUNMARK_SLOTS; 0 and RUNMARK_GONE are free. `lost` counts
 * processes without a slot: then `loaded` may be too high. */
struct runmark {
    _Atomic uint32_t loaded; /* processes started with libkedge.so preloaded */
    /* part of them that have ended by themselves, with libkedge.so in them */
    _Atomic uint32_t ended;
    _Atomic uint32_t lost;
    _Atomic uint32_t driven;  /* that have loaded a driver that kedge serves */
    _Atomic uint32_t apart;   /* that have loaded one in a separate namespace (dlmopen) */
    _Atomic uint32_t inited;  /* number of cuInit calls that returned CUDA_SUCCESS */
    _Atomic uint32_t refused; /* the last other result of cuInit; 0 = none */
    _Atomic uint32_t started; /* processes in which kedge acted */
    _Atomic uint32_t process[RUNMARK_SLOTS];
};

#endif

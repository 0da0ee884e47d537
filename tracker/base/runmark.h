/* SPDX-License-Identifier: MIT */
/*
 * runmark.h - what the processes of a run tell the `kedge run` that began it, for the case that
 * none of them writes a capture.
 *
 * A file without a name (memfd) of kedge's, which libkedge.so maps when it is loaded
 * (preload/base/mark.c) and kedge reads when the program has ended (tools/run/runlook.c). Nothing relies on
 * it: without it the reason is told as not known.
 *
 * Counts only grow. All fields are 0 in a new one. Threads and processes: any, relaxed.
 */
#ifndef KEDGE_TRACKER_RUNMARK_H
#define KEDGE_TRACKER_RUNMARK_H

#include <stdatomic.h>
#include <stdint.h>

/* The variable that has the file as processes of the run can open it: /proc/PID/fd/N. Not one of
 * the user's. */
#define RUNMARK_VARIABLE "_KEDGE_MARK"
/* Its name, with the run's number (CONFIG_RUN) behind it: what that path leads to, or nothing is
 * opened. */
#define RUNMARK_NAME "kedge-run-"

#define RUNMARK_SLOTS  256u
#define RUNMARK_PROBES 16u
#define RUNMARK_GONE   UINT32_MAX

/*
 * A process is loaded once, however often it becomes another program that has the library again.
 * While it lives, and for good if it ends otherwise than by itself, its number stands in one of
 * RUNMARK_PROBES slots, the first of which is number % RUNMARK_SLOTS; 0 and RUNMARK_GONE are free
 * ones. `lost` counts those that found none: `loaded` may be too many then.
 */
struct runmark {
    _Atomic uint32_t loaded; /* processes that were started with libkedge.so preloaded */
    _Atomic uint32_t ended;  /* of these: have ended by themselves, with libkedge.so in them */
    _Atomic uint32_t lost;
    _Atomic uint32_t driven;  /* have loaded a driver that kedge serves */
    _Atomic uint32_t apart;   /* have loaded one in a namespace of its own (dlmopen) */
    _Atomic uint32_t inited;  /* answers of cuInit that were CUDA_SUCCESS */
    _Atomic uint32_t refused; /* the last other answer of cuInit; 0 = none */
    _Atomic uint32_t started; /* processes that kedge acted in */
    _Atomic uint32_t process[RUNMARK_SLOTS];
};

#endif

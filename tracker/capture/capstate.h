/* SPDX-License-Identifier: MIT */
/*
 * capstate.h - the state of the capture: its phase, its header, its clock, and unreported errors.
 *
 *     new ─► opening ─► open ◄─► sealed
 *      │        ├─► late ──┘                 the file takes longer than threads wait for it
 *      └────────┴───────────────────► never  off, failed, lost, or the child of a fork
 *
 * capture.c creates the file. All writers (cap*.c, uses.c) ask here first, and do not know
 * capture.c.
 *
 * Threads: any; no kedge lock may be held where the file may be created (capstate_begin with
 * `opens`, capstate_open).
 */
#ifndef KEDGE_TRACKER_CAPSTATE_H
#define KEDGE_TRACKER_CAPSTATE_H

#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Ordered: before CAPSTATE_OPEN a file may still come. */
enum capstate_phase {
    CAPSTATE_NEW,     /* nothing tried */
    CAPSTATE_OPENING, /* one thread is opening */
    CAPSTATE_LATE,    /* still opening, and no thread waits for it any more */
    CAPSTATE_OPEN,
    CAPSTATE_SEALED, /* open, and the header has its seal, which the next writer breaks first */
    CAPSTATE_NEVER,  /* off, failed, or the child of a fork */
};

/* ---- for all writers ---- */

/* The header if there is a file to write to; creates it at the first use if `opens`. *ret_error:
 * -errno of the creation, or, once and if `opens`, -EIO for a lost file; else 0. */
struct format_header *capstate_begin(bool opens, int *ret_error);

void capstate_keep_trouble(int r); /* for capstate_degraded */

/* Keeps an error (r < 0) until the next call of capture.h returns it, on any thread, and the same
 * error only once however many parts of the file meet it. */
static inline void capstate_degraded(int r)
{
    if (__builtin_expect(r < 0, 0))
        capstate_keep_trouble(r);
}

/* The result of a call of capture.h: -errno of an unreported error, or 0. */
int capstate_trouble(void);

/* True if the mode writes events. */
extern bool capstate_logs; /* fixed by capstate_init */
static inline bool capstate_has_log(void)
{
    return capstate_logs;
}

/* Nanoseconds of a system clock. */
static inline uint64_t capstate_clock(clockid_t clock)
{
    struct timespec time = {0};

    (void)clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

extern uint64_t capstate_start_ns; /* fixed when the phase is CAPSTATE_OPEN */

/* Nanoseconds since capstate_start. Inline, since each use calls it. */
static inline uint64_t capstate_time(void)
{
    return capstate_clock(CLOCK_MONOTONIC) - capstate_start_ns;
}

/* Implements capture_state. */
void capstate_set(enum format_state state, uint32_t detail);

/* ---- for capture.c ---- */

/* Starts anew: CAPSTATE_NEW, or CAPSTATE_NEVER if not `is_on`; no error. create: makes the file;
 * called once, by the first thread that opens, not cancellable meanwhile. It calls capstate_start,
 * then capstate_show and capstate_opened, or capstate_never. 0 or -errno. No other thread may be
 * inside. */
void capstate_init(bool is_on, bool has_log, int (*create)(void));

/*
 * Creates the file: O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600 whatever the umask; if the name exists,
 * NAME.PID, then NAME.PID.2 and so on. Writes the ranges that are open now. The first caller creates
 * it, others wait at most two seconds; after that their calls are lost, and counted as dropped
 * events, until the file is there. 0 also when it is open, off, or was tried before; else -errno.
 */
int capstate_open(void);

/* The current phase; capstate_unsealed, for a writer: it breaks the seal, so the phase is not
 * CAPSTATE_SEALED. */
enum capstate_phase capstate_phase(void);
enum capstate_phase capstate_unsealed(void);

/* Sets the origin of capstate_time to now: CLOCK_MONOTONIC, in nanoseconds. */
uint64_t capstate_start(void);

/* The header exists: capstate_set finds it from now on. */
void capstate_show(struct format_header *header);

/* After capstate_show: capstate_begin returns the header from now on. */
void capstate_opened(void);

/* There is no file and never will be. */
void capstate_never(void);

/* The file cannot be written any more; the next capstate_begin that opens returns -EIO.
 * Async-signal-safe. */
void capstate_lost(void);

/* In the child of a fork: no file if there was one, or one was being made; else unchanged. */
void capstate_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * hints_run.h - the hint file of this run: found, read, judged, and turned into rules that may act.
 *
 *     KEDGE_HINTS ─► hintfile_read ─► this program? ─► same builds? ─► mode ─► receipt? ─► struct hints
 *                       │ error           │ no             │ no          │        └ live without one: shadow, one line
 *                       └ one line        └ silence        └ shadow      └ KEDGE_HINTS_MODE replaces the file's
 *
 * Refused, with one line, is also `live` where the driver cannot tell the layout of a kernel's parameters (R86).
 * A file that is not for this program is passed over in silence: child processes inherit the variable.
 * hints_run_load is called once, when life starts, and uses malloc (hintfile.h). Rules: R53 R54 R85 R86 R87 R100.
 */
#ifndef KEDGE_PRELOAD_HINTS_RUN_H
#define KEDGE_PRELOAD_HINTS_RUN_H

#include "alloc/hints/hint.h"
#include "tracker/base/config.h"

#include <stdbool.h>

struct hints_run {
    struct hints *hints; /* NULL = none */
    bool acts;           /* a rule is in poison, trap or live */
    bool lives;          /* a rule is in live */
    bool evicts;         /* a rule may take blocks out and bring them in */
    /* bits by enum edge_kind: events that rules wait for, of calls also their uses; and HINTS_RUN_WAITS_STREAM */
    unsigned waits;
};

/* Of a rule that waits for a call's stream. */
#define HINTS_RUN_WAITS_STREAM 31

extern struct hints_run
        hints_run; /* fixed by hints_run_load, and what dispatch_start makes of it */

/* Fills `hints_run`. Tells the capture what is in force. */
void hints_run_load(const struct config *config, bool serves);

/* Whether the driver is of a later CUDA than the headers that hooks.def was compared with (R100): hints stay in shadow then. */
bool hints_run_driver_is_newer(void);

/* A device is met for the first time: its name, which a receipt has to name (R108). Before the first record of it. */
void hints_run_device(int device, const char *name);

/* Whether hints have a say in requests and edges. Any thread. */
static inline bool hints_run_decides(void)
{
    return hints_run.hints != NULL;
}

/* Whether a rule waits for such events: one load. */
static inline bool hints_run_waits(unsigned kind)
{
    return __builtin_expect(hints_run.waits >> kind & 1, 0);
}

/* Whether blocks of a rule can go out and come back; -1: no. Any thread. */
bool hints_run_is_evict_rule(int rule);

/* Whether a rule waits for launches of this kernel. Any thread. */
bool hints_run_waits_for_kernel(const char *name);

/* Something happened that hints cannot cope with: they release and evict nothing more in this run, one line. What is held still waits
 * for its edge. Any thread. */
void hints_run_stop(const char *why);

/* The first instance in which a rule matched something else than it expects: one line, and the capture has it. Any thread. */
void hints_run_drifted(const struct outcome *drift, const struct edge *edge);

/* A call was stopped in live: with `fallback`, all rules that release or evict are in shadow from here on, one line. Any thread. */
void hints_run_fall_back(void);

/* One rule acts no more in this run, since the program shared a block of it: one line (R85). Any thread. */
void hints_run_rule_off(int rule, const char *call);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * hints_run.h - finds, reads and checks the hint file of this run, and makes rules of it that may
 * act.
 *
 *     KEDGE_HINTS ─► hintfile_read ─► this program? ─► same builds? ─► mode ─► receipt? ─► hints
 *                       │ error           │ no             │ no          │        └ none: shadow
 *                       └ one line        └ silence        └ shadow      └ KEDGE_HINTS_MODE first
 *
 * `live` is also refused, with one line, if the driver cannot report the layout of a kernel's
 * parameters (R86, guard of hints). A file for another program is ignored without a line: child
 * processes inherit the variable. hints_run_load is called once, when life starts, and uses malloc
 * (hintfile.h).
 * Rules: R53 R54 R85 R86 R87 R100.
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
    bool evicts;         /* a rule may evict blocks and bring them back */
    /*
     * bits by enum edge_kind: events that rules wait for (for calls, uses too); and
     * HINTS_RUN_WAITS_STREAM
     */
    unsigned waits;
};

/* Bit of a rule that waits for a call's stream. */
#define HINTS_RUN_WAITS_STREAM 31

extern struct hints_run hints_run; /* set by hints_run_load, completed by dispatch_start */

/* Fills `hints_run`, and records the hints in force in the capture. */
void hints_run_load(const struct config *config, bool serves);

/*
 * Whether the driver is of a later CUDA than the headers that hooks.def was compared with (R100,
 * versions of rows): then hints stay in shadow.
 */
bool hints_run_driver_is_newer(void);

/*
 * A device is used for the first time: its name, which a receipt must contain (R108, evidence per
 * program). Before its first record.
 */
void hints_run_device(int device, const char *name);

/* Whether hints must be asked about requests and edges. Any thread. */
static inline bool hints_run_decides(void)
{
    return hints_run.hints != NULL;
}

/* Whether a rule waits for such events: one load. */
static inline bool hints_run_waits(unsigned kind)
{
    return __builtin_expect(hints_run.waits >> kind & 1, 0);
}

/* Whether the rule's blocks can be evicted and brought back; rule -1: no. Any thread. */
bool hints_run_is_evict_rule(int rule);

/* Whether a rule waits for launches of this kernel. Any thread. */
bool hints_run_waits_for_kernel(const char *name);

/*
 * Something happened that hints cannot handle: they release and evict nothing more in this run,
 * with one line. Held blocks still wait for their edge. Any thread.
 */
void hints_run_stop(const char *why);

/*
 * The first instance in which a rule matched other blocks than it expects: one line, and a record
 * in the capture. Any thread.
 */
void hints_run_drifted(const struct outcome *drift, const struct edge *edge);

/*
 * A call was stopped in live: with `fallback`, all rules that release or evict are in shadow from
 * here on, with one line. Any thread.
 */
void hints_run_fall_back(void);

/*
 * Ends one rule for this run, since the program shared a block of it: one line (R85, fitness of
 * hints). Any thread.
 */
void hints_run_rule_off(int rule, const char *call);

#endif

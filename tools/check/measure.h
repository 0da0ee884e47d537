/* SPDX-License-Identifier: MIT */
/*
 * measure.h - measures claims (claim.h) on a capture.
 *
 *     load.h ─► model: the run and its anchors ─┐
 *     growth: call sites that grow ─────────────┼─► range ─► answer
 *     FILE ─► compare ─► against ───────────────┘
 *
 * All figures are of the whole run; if a bounded log lost events, they are the writer's own counts.
 * A claim about anchors is judged for every instance whose name (the last part of its path, or all
 * of it if GLOB has a '/') matches; the answer is that of the worst one. A run that was cut off has
 * not reached its end: its peak may have become higher, its later frees are unknown, and more
 * instances of an anchor may have followed.
 *
 * Growth is measured only on rounds that the program states, since detected steps decide nothing
 * (R90, stated steps only). What it gained in them is known of a run that was cut off, too.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_MEASURE_H
#define KEDGE_TOOLS_MEASURE_H

#include "tools/check/claim.h"
#include "tools/load/figures.h"

#define MEASURE_PAIRS 50 /* percent */

struct measure_other;

struct measure {
    const struct load *load;
    /* for claims with a FILE, set by the caller: the window (NULL = all), `pairs` of against.h */
    const char *from, *to;
    uint64_t pairs;
    struct model_figures figures;  /* of the run */
    struct model_figures *anchors; /* by instance; NULL: not computed yet */
    struct measure_other *other;   /* the run compared last */
};

struct measure_result {
    enum claim_answer answer;
    struct claim_range range;
    uint32_t anchor; /* the worst instance, TRACE_NONE: none, or a claim of the whole run */
    char *note;      /* why the answer is unknown, or what grew most; NULL = no note */
};

/* `load` stays the caller's, and must not be damaged (load_refuses). */
void measure_begin(const struct load *load, struct measure *ret_measure);
void measure_done(struct measure *measure);

/*
 * False after one line on stderr if the claim's FILE cannot be used or has no such window. The
 * caller frees the note.
 */
bool measure_claim(
        struct measure *measure, const struct claim *claim, struct measure_result *ret_result);

#endif

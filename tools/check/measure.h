/* SPDX-License-Identifier: MIT */
/*
 * measure.h - what a capture says about claims (claim.h).
 *
 *     load.h ─► model: the run and its anchors ─┐
 *     stepview: places that grow ───────────────┼─► range ─► answer
 *     FILE ─► compare ─► against ───────────────┘
 *
 * All figures are of the whole run, and where a bounded log lost events, those that the writer counted itself. A claim about
 * anchors is judged for every instance whose name (the last part of its path, or all of it if GLOB has a '/') matches; the
 * answer is that of the worst one. A run that was cut off has not come to its end: its peak may have become higher, what it
 * would have freed is not known, and more instances of an anchor may have followed.
 *
 * Growth is asked of the steps that the program states only: detected ones key nothing (R90).
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_MEASURE_H
#define KEDGE_TOOLS_MEASURE_H

#include "tools/check/claim.h"
#include "tools/load/figures.h"

#define MEASURE_PAIRS 50 /* percent */

struct measure_other;
struct stepview;

struct measure {
    const struct load *load;
    /* of claims with a FILE, for the caller to set: the window (NULL = all), `pairs` of against.h */
    const char *from, *to;
    uint64_t pairs;
    struct model_figures figures;  /* of the run */
    struct model_figures *anchors; /* by instance; NULL: nobody has asked yet */
    struct measure_other *other;   /* the run that was compared last */
};

struct measure_result {
    enum claim_answer answer;
    struct claim_range range;
    uint32_t anchor; /* the worst instance, TRACE_NONE: none, or of the whole run */
    char *note;      /* why the answer is not known, or what grew most; NULL = nothing */
};

/* `load` stays the caller's, and is not damaged (load_refuses). */
void measure_begin(const struct load *load, struct measure *ret_measure);
void measure_done(struct measure *measure);

/* What grows from one stated step of the window to the next; stepview_done in any case. */
void measure_growers(const struct load *load, struct model_window window, struct stepview *ret);

/*
 * False after one line on stderr where the claim's FILE cannot be used, or has no such window. The
 * caller frees the note.
 */
bool measure_claim(
        struct measure *measure, const struct claim *claim, struct measure_result *ret_result);

#endif

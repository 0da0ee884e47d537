/* SPDX-License-Identifier: MIT */
/*
 * peaks.h - the peaks of two runs side by side, of the process and of each device.
 *
 *     load.h ─► figures_of (the process) ─────────────────┐
 *          └──► events, or the writer's totals (a device) ─┴─► two ranges ─► equal?
 *
 * Live counts what the program asked for, with hints without what live hints released, reserved
 * what the pool held from the driver: report's figures, and so are the words. A value is a range
 * (claim.h): of a run that was cut off it is the least that the peak was, since more may have
 * followed, and it has no bound at all where the record cannot tell. Of what the driver serves
 * itself it does not say what it holds: where there is some, reserved is a least value, too.
 *
 * Prints to what is passed in. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PEAKS_H
#define KEDGE_TOOLS_PEAKS_H

#include <stdio.h>

#include "tools/base/render.h"
#include "tools/check/claim.h"
#include "tools/compare/compare.h"
#include "tools/load/load.h"

/* Bytes. */
struct peaks_figures {
    struct claim_range live, with_hints, reserved;
};

struct peaks_row {
    int device; /* -1: of the process */
    struct peaks_figures good, bad;
};

struct peaks {
    struct peaks_row all;
    struct peaks_row *devices; /* by number; none where there is one device alone */
    size_t device_count, device_room;
    bool has_hints; /* live hints lowered a peak of one of the runs */
};

/* A run, and the part of it that is compared. */
struct peaks_run {
    const struct load *load;
    struct model_window window;
    bool has_end; /* the end of the part is not where the run was cut off */
};

/* peaks_done gives the memory back. */
void peaks_find(const struct peaks_run *good, const struct peaks_run *bad, struct peaks *ret);
void peaks_done(struct peaks *peaks);

/* Are all of them equal in both runs? UNKNOWN: nobody can tell. */
enum claim_answer peaks_are_equal(const struct peaks *peaks);

/*
 * "Peak live: 2.00 GiB in bad, 1.50 GiB in good", a line for each figure, and one for each device
 * of several.
 */
void peaks_print(FILE *out, const struct peaks *peaks);

/* The key "peaks". */
void peaks_json(struct json *json, const struct peaks *peaks);

/* The same in one line, as a note about the second run. The caller frees it. */
char *peaks_note(const struct peaks *peaks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * peaks.h - the peaks of two runs side by side, of the process and of each device.
 *
 *     load.h ─► figures_of (the process) ─────────────────┐
 *          └──► events, or the writer's totals (a device) ─┴─► two ranges ─► equal?
 *
 * Live counts the bytes that the program asked for; with hints, less the bytes that live hints
 * released; reserved counts the bytes that the pool held from the driver. Figures and words are
 * those of report. A value is a range (claim.h): if a run was cut off, the recorded peak is the
 * least value, since more may have followed; without a record of it, there is no bound. The driver
 * does not report the bytes that it holds for memory it serves itself, so with such memory reserved
 * is a least value, too.
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
    struct peaks_row *devices; /* by number; none if there is only one device */
    size_t device_count, device_room;
    bool has_hints; /* live hints lowered a peak of one of the runs */
};

/* A run, and the part of it that is compared. */
struct peaks_run {
    const struct load *load;
    struct model_window window;
    bool has_end; /* the end of the part is not where the run was cut off */
};

/* peaks_done frees *ret. */
void peaks_find(const struct peaks_run *good, const struct peaks_run *bad, struct peaks *ret);
void peaks_done(struct peaks *peaks);

/* Whether all peaks are equal in both runs. UNKNOWN: cannot be decided. */
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

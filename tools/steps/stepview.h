/* SPDX-License-Identifier: MIT */
/*
 * stepview.h - a run, step by step: the bytes that each step allocated, freed and kept.
 *
 *     load.h ─┬─ stated_steps.h: the program's anchors ──┬─► rows ─► report_steps.c, growth.h
 *             └─ period.h: repetitions ──────────────────┘
 *
 * Steps that the program states come first; if it states none they are detected. Detected steps
 * label a report and decide nothing (R90, stated steps only). A row counts all blocks of device
 * memory in the trace, earlier ones included:
 *
 *     live_begin  before its first event         peak   the largest on the way
 *     live_end    behind its last one            live_end - live_begin = allocated - freed
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_STEPVIEW_H
#define KEDGE_TOOLS_STEPVIEW_H

#include "tools/load/load.h"
#include "tools/steps/period.h"
#include "tools/trace/model.h"

enum stepview_origin {
    STEPVIEW_STATED,
    STEPVIEW_DETECTED, /* steps or parts, by period.kind; or none */
};

struct stepview_row {
    uint32_t first, behind; /* event indices */
    uint64_t live_begin, live_end, peak;
    uint64_t allocated, allocated_count, freed, freed_count;
    uint32_t anchor; /* of a stated step, else TRACE_NONE */
    double likeness; /* of a detected step, period.h */
};

struct stepview {
    enum stepview_origin origin;
    char *family;         /* stated: the anchors' path with # for digits */
    struct period period; /* for detected steps; its reason is always set */
    struct stepview_row *rows;
    size_t row_count;
};

enum stepview_choice {
    STEPVIEW_ANY, /* stated, else detected */
    STEPVIEW_ONLY_STATED,
    STEPVIEW_ONLY_DETECTED,
};

/* Steps inside the window. Call stepview_done in any case. */
void stepview_find(const struct load *load, struct model_window window, enum stepview_choice choice,
        struct stepview *ret);
void stepview_done(struct stepview *view);

#endif

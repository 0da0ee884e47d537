/* SPDX-License-Identifier: MIT */
/*
 * stepview.h - a run, step by step: the bytes that each step allocated, freed and kept, and places
 * that grow from step to step.
 *
 *     load.h ─┬─ stated_steps.h: the program's anchors ──┬─► rows, growers ─► report_steps.c
 *             └─ period.h: repetitions ──────────────────┘
 *
 * Steps that the program states come first; if it states none they are detected. Detected steps
 * label a report and decide nothing (R90, stated steps only). A row counts all blocks of device
 * memory in the trace, earlier ones included:
 *
 *     live_begin  before its first event         peak   the largest on the way
 *     live_end    behind its last one            live_end - live_begin = allocated - freed
 *
 * A grower is a place (a stack; without stacks a size) whose live bytes at the ends of the steps
 * never fall and rise in at least two of three steps. A last step that the program did not finish
 * has no such end: it includes the frees at the program's exit.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_STEPVIEW_H
#define KEDGE_TOOLS_STEPVIEW_H

#include "tools/load/load.h"
#include "tools/steps/period.h"
#include "tools/trace/model.h"

#define STEPVIEW_GROW_ROWS 4 /* finished steps: with fewer, growers are not looked for */

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

struct stepview_grower {
    uint32_t stack;
    uint64_t size;        /* if there are no stacks, else 0 */
    uint64_t first, last; /* live bytes at the end of the first and of the last step */
    uint64_t rises;       /* number of steps in which it rose */
    uint32_t since;       /* the first of them, a row */
};

struct stepview {
    enum stepview_origin origin;
    char *family;         /* stated: the anchors' path with # for digits */
    struct period period; /* for detected steps; its reason is always set */
    struct stepview_row *rows;
    size_t row_count;
    struct stepview_grower *growers; /* most growth first */
    size_t grower_count, grower_room;
    size_t grower_rows; /* steps that growers were looked for in */
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

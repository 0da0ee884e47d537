/* SPDX-License-Identifier: MIT */
/*
 * stepview.h - a run, step by step: what each allocated, freed and kept, and what grows from one to the next.
 *
 *     load.h ─┬─ stated_steps.h: the program's anchors ──┬─► rows, growers ─► report_steps.c
 *             └─ period.h: what repeats ───────────┘
 *
 * Steps that the program states come first; where it states none they are detected. Detected ones label a report and key
 * nothing (R90). A row counts all blocks of the device memory that the trace has, those from before included:
 *
 *     live_begin  before its first event         peak   the largest on the way
 *     live_end    behind its last one            live_end - live_begin = allocated - freed
 *
 * A grower is a place (a stack; without stacks a size) whose live bytes at the ends of the steps never fall and rise in at
 * least two of three steps: what a program that grows with each step keeps. A last step that the program did not finish has no
 * such end: it ends with all that the program frees when it goes.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_STEPVIEW_H
#define KEDGE_TOOLS_STEPVIEW_H

#include "tools/load/load.h"
#include "tools/steps/period.h"
#include "tools/trace/model.h"

#define STEPVIEW_GROW_ROWS 4 /* finished steps: growers are not looked for in fewer */

enum stepview_origin {
    STEPVIEW_STATED,
    STEPVIEW_DETECTED, /* steps or parts, by period.kind; or none */
};

struct stepview_row {
    uint32_t first, behind; /* event indices */
    uint64_t live_begin, live_end, peak;
    uint64_t allocated, allocated_count, freed, freed_count;
    uint32_t anchor; /* of a stated step, else TRACE_NONE */
    double likeness; /* of a detected one, period.h */
};

struct stepview_grower {
    uint32_t stack;
    uint64_t size;        /* without stacks, else 0 */
    uint64_t first, last; /* live bytes at the end of the first and of the last step */
    uint64_t rises;       /* in so many steps */
    uint32_t since;       /* the first of them, a row */
};

struct stepview {
    enum stepview_origin origin;
    char *family;         /* stated: the anchors' path with # for digits */
    struct period period; /* detected; its reason is there in any case */
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

/* Steps that lie in the window. stepview_done in any case. */
void stepview_find(const struct load *load, struct model_window window, enum stepview_choice choice,
        struct stepview *ret);
void stepview_done(struct stepview *view);

#endif

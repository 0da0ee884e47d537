/* SPDX-License-Identifier: MIT */
/*
 * answer_lines.h - who held the memory at the peak or at a failure, a line of the program each.
 *
 * From the events; where a whole run lacks some, from the sums by place that the run kept itself.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_ANSWER_LINES_H
#define KEDGE_TOOLS_ANSWER_LINES_H

#include "tools/load/load.h"
#include "tools/symbols/title.h"
#include "tools/trace/model.h"

/* What a line of the program held: all stacks of one title (title_ways). */
struct answer_line {
    char *title;
    uint32_t stack; /* of the first */
    uint64_t bytes, blocks;
};

struct answer_lines {
    struct answer_line *list; /* most bytes first */
    size_t count;
    uint64_t peak;              /* bytes of all of them; UINT64_MAX: not known */
    int device;                 /* if the peak is one device's, else -1 */
    struct trace_sum *of_stack; /* what each stack of the trace held */
};

/* `figures` of the window. answer_lines_done frees what is returned. */
struct answer_lines answer_lines_find(const struct load *load, struct symbols *symbols,
        struct model_window window, const struct model_figures *figures);

/*
 * What lived when memory ran out last in the window, from the events or the record of that failure
 * (`peak`: its sum). No lines: memory did not run out, or it is not known.
 */
struct answer_lines answer_lines_at_failure(
        const struct load *load, struct symbols *symbols, struct model_window window);

void answer_lines_done(struct answer_lines *lines);

/* Rounded; 0 if `all` is 0. */
unsigned answer_lines_percent(uint64_t bytes, uint64_t all);

#endif

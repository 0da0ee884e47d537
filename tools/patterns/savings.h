/* SPDX-License-Identifier: MIT */
/*
 * savings.h - the Max that would be if some blocks were absent for a part of their lives.
 *
 * Max without some bytes is not Max minus these bytes: the maximum moves to another moment. Each
 * row (a call site, say) has stretches that are taken away together. One pass over the events
 * answers for all rows: between two moments at which a row's bytes change, its Max is the largest
 * live memory there less the bytes taken away, found in time log(events).
 *
 * Pure apart from memory (vec.h). Threads: none.
 */
#ifndef KEDGE_TOOLS_SAVINGS_H
#define KEDGE_TOOLS_SAVINGS_H

#include "tools/trace/model.h"

/* These bytes are absent from event `from` until just before event `to`. Empty if to <= from. */
struct savings_stretch {
    uint32_t from, to;
    uint32_t row;
    uint64_t bytes; /* of a block that is live there */
};

/* Too many for an array: stretch_of(context, i) returns each, and is called several times. */
struct savings_stretches {
    struct savings_stretch (*stretch_of)(const void *context, size_t i);
    const void *context;
    size_t count, row_count; /* each below UINT32_MAX */
};

struct savings;

/* Live memory of the window, event by event, of the blocks born in it. savings_free frees it. */
struct savings *savings_new(const struct trace *trace, struct model_window window);
void savings_free(struct savings *savings);

/*
 * Returns Max without any of the stretches, or Max itself if there are none. ret_left_of_row has
 * room for row_count: Max without the stretches of that row alone. Memory: 8 bytes for each
 * stretch, and one for each two events of the window.
 */
uint64_t savings_left(const struct savings *savings, const struct savings_stretches *of,
        uint64_t *ret_left_of_row);

#endif

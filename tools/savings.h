/* SPDX-License-Identifier: MIT */
/*
 * savings.h - what Max would be if some blocks were not there for a part of their lives.
 *
 * Max without some bytes is not Max minus these bytes: the maximum moves to another moment. savings_left asks for the largest live
 * memory between each two moments at which the taken away bytes change, in time log(events) each, so that each call site of a run
 * can be asked about.
 *
 * Pure apart from memory (vec.h). Threads: none.
 */
#ifndef KEDGE_TOOLS_SAVINGS_H
#define KEDGE_TOOLS_SAVINGS_H

#include "tools/model.h"

/* These bytes are not there from event `from` on until just before event `to`. Empty where to <= from. */
struct savings_stretch {
    uint32_t from, to;
    uint64_t bytes;
};

struct savings;

/* Live memory of the window, event by event, of the blocks born in it. savings_free gives it back. */
struct savings *savings_new(const struct trace *trace, struct model_window window);
void savings_free(struct savings *savings);

/* Max without these stretches, which are of blocks that live there; Max itself if there are none. */
uint64_t savings_left(
        const struct savings *savings, const struct savings_stretch *stretches, size_t count);

/* The same for so many stretches that nobody wants them in an array: stretch_of(context, i) tells each, several times. */
uint64_t savings_left_of_many(const struct savings *savings,
        struct savings_stretch (*stretch_of)(const void *context, size_t i), const void *context,
        size_t count);

#endif

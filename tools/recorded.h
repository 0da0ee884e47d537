/* SPDX-License-Identifier: MIT */
/*
 * recorded.h - a recorded step as blocks to be placed.
 *
 *     capture + window (load.h) ──────────┐
 *     csv or log of RMM (steps.h) ────────┼─► struct recorded ─► place.h
 *     csv id,lower,upper,size ────────────┘
 *
 * All blocks of one device that are live in the window are placed, also those that were live before or outlive it: all that
 * the pool had to hold at once. The device is the one with most of the bytes. Blocks that the driver served and blocks of
 * other devices are left out and counted; in a capture of mode track the blocks that the driver served are placed. Streams
 * do not matter: an allocator that keeps streams apart cannot need less than one that does not.
 * Sizes are rounded up to 512, except those of the last form, which are abstract. Its ends are exclusive.
 *
 * Prints one line on stderr when a file cannot be used. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_RECORDED_H
#define KEDGE_TOOLS_RECORDED_H

#include "tools/model.h"
#include "tools/sections.h"

#define RECORDED_QUANTUM 512

struct recorded_request {
    const char *from, *to; /* of a capture */
    uint64_t passage;      /* only the Nth time that `from` was entered, from 1; 0 = all */
};

struct recorded {
    struct span *spans; /* in the order of their births */
    uint32_t count;
    struct trace_sum native, other_device;
    /* the most bytes held from the driver in the window, on all devices; 0 = not known */
    uint64_t held;
};

/* Returns 0, or an exit code of the tool (2) after one line on stderr. */
int recorded_open(const char *path, const struct recorded_request *request, struct recorded *ret);

/* The same from a window of a trace. */
void recorded_from_trace(
        const struct trace *trace, struct model_window window, struct recorded *ret);

void recorded_done(struct recorded *recorded);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - live and reserved bytes over a run, in a bounded number of bins.
 *
 * A capture of ten million events becomes a few hundred bins of equal width. A bin has the most that was live in it and the most
 * that was held from the driver, each with what was carried in from before. Where blocks have keys (a call site, a library, a
 * class), a bin has the bytes of the largest keys too, as they were when most was live in it: they and the rest add up to `live`.
 *
 *     blocks' keys ─┐
 *     trace ────────┴─► timeline_make ─► bins · the largest keys · the two peaks, exact to the event
 *
 * Live bytes are the process's, blocks from before the window included, as `Peak live` and `Peak reserved` of model.h.
 *
 * Does not print. Threads: none. Pure apart from memory (vec.h).
 */
#ifndef KEDGE_TOOLS_TIMELINE_H
#define KEDGE_TOOLS_TIMELINE_H

#include "tools/trace/model.h"

enum timeline_axis {
    TIMELINE_BY_TIME, /* nanoseconds; by event where the window's events have no two times */
    TIMELINE_BY_EVENT,
};

struct timeline_job {
    const struct trace *trace;
    struct model_window window;
    enum timeline_axis axis;
    size_t bins; /* at most, 1 or more */
    /* per block; not below key_count: of the rest. NULL = no keys are wanted */
    const uint32_t *keys;
    size_t key_count;
    size_t top; /* that many keys at most have bytes of their own */
};

struct timeline_bin {
    uint64_t live, reserved;
    uint32_t first, behind; /* its events; equal: none, and live and reserved are carried */
    uint32_t at;            /* the event that reached `live` first; TRACE_NEVER: it is carried */
};

struct timeline_peak {
    uint64_t bytes;
    /* the event that reached it first; TRACE_NEVER: it was there before the window, or there is none */
    uint32_t at;
};

struct timeline {
    enum timeline_axis axis; /* that it has */
    /* bin i begins at begin + i * width: ns since the run's start, or events */
    uint64_t begin, width;
    struct timeline_bin *bins;
    size_t bin_count; /* 0: the window has no event */
    uint32_t *tops;   /* the keys that held most at one time, largest first */
    size_t top_count;
    uint64_t *parts; /* timeline_part */
    struct timeline_peak live, reserved;
};

/* timeline_done gives it back. */
struct timeline timeline_make(const struct timeline_job *job);
void timeline_done(struct timeline *timeline);

/* What the key tops[top] held in a bin; of top_count: what all other keys held. */
uint64_t timeline_part(const struct timeline *timeline, size_t bin, size_t top);

/* The bin that has an event of the window. */
size_t timeline_bin_of(const struct timeline *timeline, uint32_t event);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - live and reserved bytes over a run, in a bounded number of bins.
 *
 * A capture of ten million events becomes a few hundred bins of equal width. A bin has the most
 * bytes that were live in it and the most that were held from the driver, each including the bytes
 * carried in from before. If blocks have keys (a call site, a library, a class), a bin also has the
 * bytes of the largest keys at its maximum of live bytes: they and the rest add up to `live`.
 *
 *     blocks' keys ─┐
 *     trace ────────┴─► timeline_make ─► bins · the largest keys · the two exact peaks
 *
 * Live bytes are the process's, blocks from before the window included, as `Peak live` and `Peak
 * reserved` of model.h.
 *
 * Does not print. Threads: none. Pure apart from memory (vec.h).
 */
#ifndef KEDGE_TOOLS_TIMELINE_H
#define KEDGE_TOOLS_TIMELINE_H

#include "tools/trace/model.h"

enum timeline_axis {
    /* nanoseconds; by event if the window's events do not have two different times */
    TIMELINE_BY_TIME,
    TIMELINE_BY_EVENT,
};

struct timeline_job {
    const struct trace *trace;
    struct model_window window;
    enum timeline_axis axis;
    size_t bins; /* at most this many, 1 or more */
    /* per block; key_count or more: the rest. NULL = no keys are wanted */
    const uint32_t *keys;
    size_t key_count;
    size_t top; /* at most this many keys have bytes of their own */
};

struct timeline_bin {
    uint64_t live, reserved;
    uint32_t first, behind; /* its events; equal: none, and live and reserved are carried over */
    uint32_t at; /* the event that reached `live` first; TRACE_NEVER: it is carried over */
};

struct timeline_peak {
    uint64_t bytes;
    /*
     * the event that reached it first; TRACE_NEVER: it was reached before the window, or there is
     * none
     */
    uint32_t at;
};

struct timeline {
    enum timeline_axis axis; /* the axis that was used */
    /* bin i begins at begin + i * width: ns since the run's start, or events */
    uint64_t begin, width;
    struct timeline_bin *bins;
    size_t bin_count; /* 0: the window has no event */
    uint32_t *tops;   /* the keys with the largest maxima, largest first */
    size_t top_count;
    uint64_t *parts; /* see timeline_part */
    struct timeline_peak live, reserved;
};

/* timeline_done frees it. */
struct timeline timeline_make(const struct timeline_job *job);
void timeline_done(struct timeline *timeline);

/* Bytes of the key tops[top] in a bin; top == top_count: of all other keys. */
uint64_t timeline_part(const struct timeline *timeline, size_t bin, size_t top);

/* The bin that contains an event of the window. */
size_t timeline_bin_of(const struct timeline *timeline, uint32_t event);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * recorded.h - a recorded step as blocks to be placed.
 *
 *     capture + window (load.h) ──────────┐
 *     csv op,id,size,stream,time_us ──────┼─► struct recorded ─► place.h
 *     csv id,lower,upper,size ────────────┘
 *
 * A plan is for one pool and comes round with every step. So of a capture or trace only blocks belong to it that are born and
 * freed in the window, on the device, entrance and stream that most of their bytes are on; all others are left out and counted, by the first
 * reason that holds. `whole` takes every block of the device instead, as long as it lives in the window: what the window
 * would need if all of it could be placed.
 * Sizes are rounded up to 512, except those of the last form, which are abstract. Its ends are exclusive.
 *
 * Prints one line on stderr when a file cannot be used. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_RECORDED_H
#define KEDGE_TOOLS_RECORDED_H

#include "alloc/types.h"
#include "tools/model.h"
#include "tools/sections.h"

#define RECORDED_QUANTUM 512

enum recorded_form {
    RECORDED_CAPTURE,
    RECORDED_TRACE,   /* op,id,size,stream,time_us */
    RECORDED_ABSTRACT /* id,lower,upper,size */
};

enum recorded_why {
    RECORDED_BEFORE,   /* live before the window */
    RECORDED_OUTLIVES, /* the window: the next step would be put on it */
    RECORDED_NATIVE,   /* served by the driver itself */
    RECORDED_SHARED,   /* exported or registered */
    RECORDED_HINTED,   /* a hint released its storage */
    RECORDED_DEVICE,   /* on another one */
    RECORDED_ENTRANCE, /* by the other one */
    RECORDED_STREAM,   /* on another one */
    RECORDED_WHY_COUNT
};

struct recorded_left {
    uint64_t count, bytes;
};

struct recorded_request {
    const char *from, *to; /* of a capture */
    uint64_t passage;      /* only the Nth time that `from` was entered, from 1; 0 = all */
    bool whole;
};

struct recorded {
    enum recorded_form form;
    struct span *spans; /* in the order of their births */
    uint64_t *sites;
    char **names; /* as the file calls them */
    uint32_t count;
    int device;
    enum entrance entrance;
    struct recorded_left left[RECORDED_WHY_COUNT];
};

/* Returns 0, or an exit code of the tool (2) after one line on stderr. */
int recorded_open(const char *path, const struct recorded_request *request, struct recorded *ret);

/* The same from a window of a trace. */
void recorded_from_trace(
        const struct trace *trace, struct model_window window, bool whole, struct recorded *ret);

void recorded_done(struct recorded *recorded);

/* "live_before": a key of --json. */
const char *recorded_why_key(enum recorded_why why);

#endif

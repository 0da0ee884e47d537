/* SPDX-License-Identifier: MIT */
/*
 * model.h - the figures of a window of a run: allocated, freed, kept.
 *
 * One definition for report, suggest, verify and the demo. All figures count bytes that the program
 * asked for.
 *
 *   window      A's first enter ... B's last exit, releases at it included; or the whole process.
 *   Allocated   blocks born in the window.
 *   Freed       those of them that the program freed in the window.
 *   Remaining   Allocated - Freed: the bytes that the window leaves live.
 *   Max         the largest value of Remaining on the way, from zero at the window's begin.
 *
 * Frees of blocks that were born before the window change none of these and are counted apart
 * (outside_*). Peak live and peak reserved are the process's, sampled in the window, blocks from
 * before it included.
 *
 * Hints. A release counts from the edge that caused it, not from the moment when the GPU was done
 * with the storage. `hinted_*` counts storage that was really released; the second values of
 * Remaining, Max and Freed count a block as gone at its release or its free, whichever comes first.
 * `would_*` is the same with the releases that modes other than live only wrote down.
 *
 * Does not read files and does not print. Threads: none. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_MODEL_H
#define KEDGE_TOOLS_MODEL_H

#include "tools/trace/trace.h"

struct model_window {
    uint32_t first; /* the first event inside */
    uint32_t last;  /* the first event after the window */
    /* between anchors, which may have been entered before the first recorded event */
    bool is_named;
};

/* Remaining, Max and Freed if some releases counted as frees. */
struct model_second {
    uint64_t remaining, max;
    uint64_t freed, freed_count;       /* freed or released, each block once */
    uint64_t released, released_count; /* releases alone, freed later or not */
};

/* A figure that the record does not contain. */
#define MODEL_UNKNOWN UINT64_MAX

struct model_figures {
    uint64_t remaining, max;
    uint64_t allocated, allocated_count;
    uint64_t freed, freed_count;
    uint64_t outside_freed, outside_freed_count;
    uint64_t peak_live;       /* of the process, in the window */
    uint64_t peak_live_512;   /* the same with each block rounded up to 512 */
    uint64_t peak_stored_512; /* and without what hints released or the driver serves, for E */
    uint64_t peak_reserved;   /* held from the driver, in the window */
    uint32_t max_at; /* event at which Max was first reached, TRACE_NEVER: nothing was allocated */
    struct model_second hinted; /* releases that were made (live) */
    struct model_second would;  /* those and the ones that modes other than live only recorded */
};

struct model_window model_whole(const struct trace *trace);

/*
 * The window from the first enter of `from` (a whole path, or its last part, or "step (4)" or
 * "step:4": model_name_length) to the last exit of `to`; NULL = the process's begin or end. If an
 * enter of `from` is not recorded, the window begins with the record. Returns 0, or -ENOENT with
 * *ret_missing the name that no anchor has, or -ERANGE if `to` ended before `from` began.
 */
int model_find_window(const struct trace *trace, const char *from, const char *to,
        struct model_window *ret_window, const char **ret_missing);

/* `releases`: by block, an event index or TRACE_NEVER, for predictions; NULL = the trace's own. */
void model_figure(const struct trace *trace, struct model_window window, const uint32_t *releases,
        struct model_figures *ret_figures);

/* Max of the window with these releases, nothing else: what figures->hinted.max would be. */
uint64_t model_max(const struct trace *trace, struct model_window window, const uint32_t *releases);

/*
 * The figures of every anchor instance of the window, by number: its own blocks and those of the
 * instances nested in it, Freed and Max counted until its exit. The caller frees the array. Peaks
 * are of the process while the instance was open.
 */
struct model_figures *model_figure_anchors(const struct trace *trace, struct model_window window);

/* Bytes and blocks of a stack. */
struct model_live {
    uint32_t stack;
    uint64_t bytes, count;
};

/* For vec_sort: most bytes first. */
int model_by_bytes(const void *a, const void *b);

/* The blocks live on a device just before event `at`, by stack, most bytes first. Caller frees. */
struct model_live *model_live_by_stack(
        const struct trace *trace, int device, uint32_t at, size_t *ret_count);

/*
 * "step (4)", as reports print it, and "step:4" name the fourth time that step was entered: returns
 * the length without the number, and *ret_instance 3; else the whole name's length, and TRACE_NONE.
 */
size_t model_name_length(const char *name, uint32_t *ret_instance);

/*
 * Whether an anchor has this name: its whole path or, if the name has no '/', the last part of it;
 * with a number (model_name_length) that instance alone.
 */
bool model_anchor_named(const struct trace_anchor *anchor, const char *name);

#endif

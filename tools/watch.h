/* SPDX-License-Identifier: MIT */
/*
 * watch.h - a running process as its capture shows it, looked at again and again.
 *
 *     header ─► live, reserved, peak · places (area C) ─► who holds it now · newest events ─► where the program is
 *
 * A look costs as much as there are places, definitions and, where the run has hints, live blocks; of the event log it reads the newest
 * chunks (read_open_parts). Names are found once for each call site that is shown.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WATCH_H
#define KEDGE_TOOLS_WATCH_H

#include "tools/running.h"
#include "tools/sitebook.h"
#include "tools/symbols.h"
#include "tracker/read.h"

#define WATCH_HISTORY 60u

enum watch_order {
    WATCH_LIVE,
    WATCH_PEAK,
    WATCH_RATE, /* allocations since the look before */
    WATCH_ORDER_COUNT,
};

/* A call site: places of one stack and Python stack, of all anchors and devices. */
struct watch_site {
    uint32_t stack, pystack; /* as the file numbers them */
    bool is_other;           /* all that found no place of its own */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes; /* the sum of its places' */
    uint64_t allocated_bytes, allocated_count;
    uint64_t recent_count; /* allocations since the look before; 0 in the first */
};

/* What a hint's blocks are now, of those that live. */
struct watch_hint {
    const struct read_rule *rule;
    struct trace_sum matched;
    struct trace_sum released; /* or would be, in modes that only write it down */
};

/* Since the look before; nothing in the first. */
struct watch_rates {
    bool is_known;
    double seconds;
    double allocations, frees, bytes; /* a second; bytes are those allocated */
};

struct watch {
    char *path;
    struct running running;
    struct read_capture *capture; /* of the last look */
    uint64_t looked_ns;           /* CLOCK_MONOTONIC */
    struct watch_rates rates;
    struct watch_site *sites; /* by `order` */
    size_t site_count;
    struct watch_hint *hints;
    size_t hint_count;
    char *anchor; /* where the newest event was; "" = outside of all anchors, NULL = no event says it */
    uint32_t anchor_instance;
    uint64_t history[WATCH_HISTORY]; /* live bytes of the last looks, the newest last */
    size_t history_count;
    bool has_ended; /* the process has, or another run has taken the file's place */
    bool is_replaced;

    enum watch_order order;
    struct keytable counts; /* of the look before: (stack, Python stack) -> index in `count_of` */
    uint64_t *count_of;
    size_t count_room;
    struct sitebook book;
    struct symbols *symbols;
};

/* The first look. Returns 0, or an exit code of the tool after one line on stderr; watch_close in any case. */
int watch_open(const char *path, enum watch_order order, struct watch *ret_watch);

/* One look more; likewise. */
int watch_look(struct watch *watch);
void watch_close(struct watch *watch);

/* For another order of the sites. */
void watch_sort(struct watch *watch, enum watch_order order);

/* Titles of the first `count` sites, which title_done gives back. */
char **watch_titles(struct watch *watch, size_t count);

/* "still running", or how it ended; the caller frees it. */
char *watch_state(const struct watch *watch);

#endif

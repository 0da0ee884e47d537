/* SPDX-License-Identifier: MIT */
/*
 * top_watch.h - a running process, seen through repeated looks at its capture.
 *
 *     header ─► live, reserved, peak · places (area C) ─► call sites · newest events ─► anchor
 *
 * A look costs as much as there are places and definitions; of the event log it reads the newest
 * chunks (read_open_parts). Names are found once for each call site that is shown.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TOP_WATCH_H
#define KEDGE_TOOLS_TOP_WATCH_H

#include "tools/load/sitebook.h"
#include "tools/report/rowpick.h"
#include "tools/run/top_process.h"
#include "tracker/reader/read.h"

/* A call site: places of one stack and Python stack, of all anchors and devices. */
struct top_watch_site {
    uint32_t stack; /* in the book */
    bool is_other;  /* all blocks without a place of their own */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes; /* the sum of its places' peaks */
    uint64_t allocated_bytes, allocated_count;
    uint64_t before_count; /* allocated_count of the previous look */
    uint64_t recent_count; /* allocations since then; 0 in the first look */
};

/* The fields of --sort: live, peak, rate. */
extern const struct rowpick_fields top_watch_fields;

struct top_watch {
    char *path;
    struct top_process running;
    struct read_capture *capture; /* of the last look */
    uint64_t looked_ns;           /* CLOCK_MONOTONIC */
    struct format_totals before;  /* of the previous look */
    double seconds;               /* since then; 0: this is the first look */
    struct top_watch_site *rows;  /* by live bytes, or by `sort` */
    size_t site_count;            /* of `rows` and `sites` */
    char *anchor; /* of the newest event; "" = outside of all, NULL = no event has one */
    uint32_t anchor_instance; /* from 0 */
    bool has_ended;           /* the process has ended, or another run has replaced the file */
    bool is_replaced;

    const struct rowpick_field *sort;
    struct top_watch_site *sites; /* in order of appearance */
    size_t site_room;
    struct keytable index; /* (stack, Python stack) of the file -> number in `sites` */
    struct sitebook book;
    struct symbols *symbols;
};

/*
 * The first look. `sort` is a field of top_watch_fields, NULL: by live bytes. Returns 0, or an exit
 * code of the tool after one line on stderr; call top_watch_close in any case.
 */
int top_watch_open(const char *path, const struct rowpick_field *sort, struct top_watch *ret_watch);

/* One more look; results as above. */
int top_watch_look(struct top_watch *watch);
void top_watch_close(struct top_watch *watch);

/* Titles of the first `count` rows, which title_done frees. */
char **top_watch_titles(struct top_watch *watch, size_t count);

/* "running", or how it ended; the caller frees it. */
char *top_watch_state(const struct top_watch *watch);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * evictsets.h - what a capture says of eviction: the steps of each managed set, and the blocks of it that stay in.
 *
 * A managed set is what one evict hint manages on one device. Of the whole run, whatever the window.
 *
 * Prints nothing. Threads: none. Memory: vec.h; the steps are the capture's.
 */
#ifndef KEDGE_TOOLS_EVICTSETS_H
#define KEDGE_TOOLS_EVICTSETS_H

#include "tools/load/load.h"

struct evictsets_set {
    int rule, device;
    const struct read_evict *step; /* in order */
    size_t count;
    size_t warm_up; /* the first so many went without an order of use; count = all */
    size_t ended;   /* the steps behind them have not ended */
};

struct evictsets {
    struct evictsets_set *at;
    size_t count, room;
};

/* Blocks of one call site that stay in for one reason. */
struct evictsets_kept {
    uint32_t stack;
    enum format_kept_why why;
    struct trace_sum sum;
    const char *anchor; /* of the first; the capture's */
};

/* A set may have no step: the process was killed in the first. evictsets_done gives the sets back. */
struct evictsets evictsets_find(const struct read_capture *capture);
void evictsets_done(struct evictsets *sets);

/* The middle step by bytes moved, of those that went by an order of use and have ended; NULL: there is none. */
const struct format_evict *evictsets_median(const struct evictsets_set *set);

/* What all its steps moved, and how long that took; the most that was in at once. Other members are 0. */
struct format_evict evictsets_sum(const struct evictsets_set *set);

/* The least that had to be in at once; UINT64_MAX: not known, since the order of use was not. */
uint64_t evictsets_bound(const struct format_evict *what);

/* Was nothing moved, and only worked out what would be? */
bool evictsets_is_paper(const struct evictsets_set *set);

/* "unfinished", "warm-up" or "step". */
const char *evictsets_label(const struct evictsets_set *set, size_t number);

/* What stays in, most bytes first; the caller frees the array. */
struct evictsets_kept *evictsets_group_kept(
        const struct load *load, const struct evictsets_set *set, size_t *ret_count);

/* Why it stays, as part of a sentence, and as a word of JSON. */
const char *evictsets_why_text(enum format_kept_why why);
const char *evictsets_why_word(enum format_kept_why why);

/* Is it a call that was not made because the blocks of this set that it needs do not fit? */
bool evictsets_is_short(const struct read_short *what, const struct evictsets_set *set);

/* Of those calls the one that needed most, NULL: there is none; and how many there are. */
const struct read_short *evictsets_most_short(
        const struct read_capture *capture, const struct evictsets_set *set, uint64_t *ret_count);

#endif

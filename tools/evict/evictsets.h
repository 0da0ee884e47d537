/* SPDX-License-Identifier: MIT */
/*
 * evictsets.h - a capture's records of eviction: the steps of each managed set, and its blocks that
 * stay in.
 *
 * A managed set is the blocks that one evict hint manages on one device. Of the whole run, whatever
 * the window.
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
    size_t warm_up; /* number of first steps without an order of use; count = all */
    size_t ended;   /* steps after the warm-up that have ended */
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

/* A set may have no step: the process was killed in the first. evictsets_done frees the sets. */
struct evictsets evictsets_find(const struct read_capture *capture);
void evictsets_done(struct evictsets *sets);

/* The median step by moved bytes, of those that used an order and have ended; NULL: none. */
const struct format_evict *evictsets_median(const struct evictsets_set *set);

/* The bytes and time of all its steps; the most that was in at once. Other members are 0. */
struct format_evict evictsets_sum(const struct evictsets_set *set);

/* The least that had to be in at once; UINT64_MAX: unknown, since the order of use was unknown. */
uint64_t evictsets_bound(const struct format_evict *what);

/* Whether moves were only computed, not made. */
bool evictsets_is_paper(const struct evictsets_set *set);

/* "unfinished", "warm-up" or "step". */
const char *evictsets_label(const struct evictsets_set *set, size_t number);

/* Blocks that stay in, most bytes first; the caller frees the array. */
struct evictsets_kept *evictsets_group_kept(
        const struct load *load, const struct evictsets_set *set, size_t *ret_count);

/* The reason, as part of a sentence. Below: as a word of JSON. */
const char *evictsets_why_text(enum format_kept_why why);
const char *evictsets_why_word(enum format_kept_why why);

/* Whether the call was not made because its blocks of this set do not fit. */
bool evictsets_is_short(const struct read_short *what, const struct evictsets_set *set);

/* The call that needed most, NULL: there is none; and the number of such calls. */
const struct read_short *evictsets_most_short(
        const struct read_capture *capture, const struct evictsets_set *set, uint64_t *ret_count);

#endif

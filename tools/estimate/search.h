/* SPDX-License-Identifier: MIT */
/*
 * search.h - the largest number of an option with which a program fits.
 *
 * What a program needs is taken to grow with the number. Each number that is tried is a whole run,
 * so the next one is where the line through two needs meets the device's memory, then one a little
 * beyond that. If two such turns do not end it, halves do. Small numbers may all need the same,
 * since memory is taken in large pieces: then the next one is eight times as large.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_SEARCH_H
#define KEDGE_TOOLS_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/* One number that was tried. */
struct search_point {
    uint64_t number, need; /* bytes */
    bool fits;
};

struct search {
    uint64_t low, high;               /* of the range */
    uint64_t room;                    /* bytes of the device */
    struct search_point best, before; /* the largest that fits, and the one that was it before */
    struct search_point first;        /* that was tried */
    struct search_point least;        /* the smallest that does not fit */
    bool has_best, has_before, has_least;
    unsigned turns;  /* tries since there are two bounds */
    bool has_fitted; /* the last number */
    unsigned tries;
};

/* The next number to try; 0: the search is over. */
uint64_t search_next(const struct search *search);
void search_tell(struct search *search, struct search_point point);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * cuts.h - where a sequence of allocations would be cut, if what a guess says were so.
 *
 * The inner half of period.c. A guess names one allocation of each repetition (grams.h). Where around it the repetition begins is told by
 * memory: of all places, one for which least lives across the cuts, in blocks and bytes; of several, the one where the first
 * repetition begins behind what is done once, else the one where the last ends with the recording. Then each repetition is looked for on its own, since a few allocations more or less shift it, and
 * those that lack the gram are put in where there is room for them.
 *
 * Threads: none. Memory: vec.h. Time: about n for a guess.
 */
#ifndef KEDGE_TOOLS_CUTS_H
#define KEDGE_TOOLS_CUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/grams.h"
#include "tools/period.h"

struct cuts_sequence {
    const struct period_alloc *allocs;
    uint32_t *symbols; /* what counts as the same allocation has the same number */
    uint32_t count, kinds;
    /* Where lanes make a difference, else NULL: the allocations lane by lane, the one that follows each in its lane (`count`: none), */
    uint32_t *order, *next;
    /* the lane of each, 0, 1, ..., and where in `order` each lane ends. */
    uint32_t *lanes, *behind;
};

/* A guess that is being looked at. */
struct cuts {
    const struct cuts_sequence *sequence;
    const struct grams_guess *guess;
    /* [i]: bytes of a moment that live when allocation i is made; count + 1 of them */
    uint64_t *across;
    uint32_t *blocks; /* [i]: how many those are */
    /* of most repetitions, which begin so many allocations before the occurrence in them */
    uint32_t length, back;
    uint32_t least;       /* repetitions that are needed */
    uint32_t piece;       /* allocations in what is compared, alike.h */
    uint32_t peak_blocks; /* most of `blocks` */
    struct period period;
};

enum {
    CUTS_NEAR_OF = 1000, /* of the peak, one in so many, makes no difference */
};

/* Is it within a fourth of it? */
bool cuts_is_about(uint64_t distance, uint64_t length);

/* The number that so many fourths of them are below; the upper one of two. Sorts them. 0 of none. */
uint64_t cuts_quantile(uint64_t *numbers, size_t count, size_t fourths);

/* The distance of most occurrences. */
uint32_t cuts_length(const struct grams_guess *guess);

/* Bytes and blocks of a moment that are made from `from` on and freed before `until`. */
void cuts_find_across(struct cuts *cuts, uint32_t from, uint32_t until);

/* So many allocations are the same from here on and from there on, 8 at most. */
uint32_t cuts_run(const struct cuts *cuts, uint32_t here, uint32_t there);

/* Fills across, blocks, back, and in `period` peak and spans without their likeness. `length` is set and more than 1. */
void cuts_make(struct cuts *cuts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * larger.h - whether a place holds larger blocks because the program has more to do.
 *
 *     held      3 3 3 4 4 4 5 5 5     one generation of blocks, each time a larger one
 *     asked for 7 7 7 9 9 9 11 11 11  what other places allocate and give back, in the same rounds
 *
 * Texts that get longer from epoch to epoch look like a list that is copied and grows, but nothing
 * piles up. The places that do not grow tell the two apart: if at least half of them asked for more
 * in just the rounds in which this one rose, it is steady; if an eighth of them did, it is unknown
 * (TREND_LARGER).
 *
 * Threads: none. Memory: vec.h, 8 bytes per place and round in which it asks for other bytes than
 * before. Time: the number of events, and for each place that is replaced that of all such rounds;
 * none if no place is replaced.
 */
#ifndef KEDGE_TOOLS_LARGER_H
#define KEDGE_TOOLS_LARGER_H

#include "tools/base/vec.h"
#include "tools/steps/trend.h"
#include "tools/trace/trace.h"

struct larger_run {
    const struct trace *trace;
    const uint32_t *of; /* the place of each block */
    size_t places;
    const uint32_t *behind; /* the event behind each round */
    uint32_t rounds;
};

/* `changes` of all places, listed in `by_place`; `figures` of each place. */
void larger_judge(const struct larger_run *run, const struct trend_change *changes,
        const struct vec_lists *by_place, struct trend_figures *figures);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * alike.h - how much the repetitions of a sequence are alike, and how much they would be by chance.
 *
 * Each is taken for the multiset of its pieces: 2 allocations that follow one another in their lane, or 4, 8, 16 where most of
 * shorter ones would be alike by chance. So much of the order that a shuffled one is told from it, so little that an allocation
 * more or less changes few of them. One repetition stands for all: of a few, that which the others are most like. Likeness is the
 * share of the larger one's pieces that both have, 0 .. 1: half a step is not like a step.
 *
 * Threads: none. Memory: vec.h. Time: n.
 */
#ifndef KEDGE_TOOLS_ALIKE_H
#define KEDGE_TOOLS_ALIKE_H

#include "tools/cuts.h"

/*
 * Sets the likeness of each span to the one that stands for all, whose number is returned, and in the period that of a random order
 * (`chance`). Returns UINT32_MAX if no two of a few are alike.
 */
uint32_t alike_measure(struct cuts *cuts);

/* Likeness to `typical` of a span that is not one of the period's. */
double alike_of(
        const struct cuts *cuts, const struct period_span *typical, const struct period_span *span);

/*
 * Where before the allocation `until` one begins that has all that `typical` has, and maybe more. Not before `from`. UINT32_MAX:
 * nowhere.
 */
uint32_t alike_find_larger(
        const struct cuts *cuts, const struct period_span *typical, uint32_t from, uint32_t until);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * alike.h - how much the repetitions of a sequence are alike, and how much they would be by chance.
 *
 * Each is taken for the multiset of its pieces of two or four allocations: so much of the order that a shuffled one is told
 * from it, so little that a few allocations more or less change little. Likeness is the share of pieces in common, 0 .. 1.
 *
 * Threads: none. Memory: vec.h. Time: a sort.
 */
#ifndef KEDGE_TOOLS_ALIKE_H
#define KEDGE_TOOLS_ALIKE_H

#include "tools/cuts.h"

/* The mean of what each span has with its better neighbour, which is stored in `spans` (those of the cuts) if given. */
double alike_compare(const struct cuts *cuts, struct period_span *spans);

/* The mean for the same allocations in another order, which is the same each time. */
double alike_by_chance(const struct cuts *cuts);

#endif

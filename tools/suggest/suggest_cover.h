/* SPDX-License-Identifier: MIT */
/*
 * suggest_cover.h - chooses few sets that together contain all items.
 *
 * Greedy set cover: the set with most uncovered items is taken next, the more readable one of
 * equals. Then sets whose items are all in other taken sets are dropped, the last taken first. The
 * fewest is NP-hard; this is at most ln(items) + 1 times as many.
 *
 * Time: items of all sets, times the logarithm of the number of sets. Pure. Threads: none. Memory:
 * vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_COVER_H
#define KEDGE_TOOLS_SUGGEST_COVER_H

#include <stddef.h>
#include <stdint.h>

struct suggest_cover_set {
    uint32_t first, count; /* its items in `items`, without duplicates */
    /* of two sets that add equally many the lower rank is taken; of equals the first */
    uint32_t rank;
};

/* Items are below item_count. Writes the taken sets to ret_taken (room for all); their number. */
size_t suggest_cover_choose(const struct suggest_cover_set *sets, size_t count,
        const uint32_t *items, size_t item_count, uint32_t *ret_taken);

#endif

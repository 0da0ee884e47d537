/* SPDX-License-Identifier: MIT */
/*
 * suggest_cover.h - few sets that together have all that any of them has.
 *
 * Set cover, greedily: the set with most items that are in none yet is taken next, the more readable one of equals. Then the
 * sets whose items all stand in others are dropped again, those taken last first. The fewest is NP-hard; this is at most
 * ln(items) + 1 times as many.
 *
 * Time: items of all sets, times the logarithm of the number of sets. Pure. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_COVER_H
#define KEDGE_TOOLS_SUGGEST_COVER_H

#include <stddef.h>
#include <stdint.h>

struct suggest_cover_set {
    uint32_t first, count; /* its items in `items`, no item twice */
    uint32_t rank; /* of two sets that add as much the lower one is taken; of equals the first */
};

/* Items are numbers below item_count. Writes the sets taken to ret_taken, which has room for all, and returns how many. */
size_t suggest_cover_choose(const struct suggest_cover_set *sets, size_t count,
        const uint32_t *items, size_t item_count, uint32_t *ret_taken);

#endif

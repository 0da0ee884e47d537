/* SPDX-License-Identifier: MIT */
/*
 * align.h - pairs the elements of two sequences.
 *
 * Two runs of a program allocate nearly the same things in nearly the same order. A longest common
 * subsequence (Myers' O(ND) difference, divided and conquered so that it needs memory for two rows
 * only) finds the pairs that keep the order; the caller handles the rest.
 *
 *     a:  1 2 3 9 4          pairs: 1-1 2-2 3-3 4-4
 *     b:  1 2 7 3 4          left: 9 in a, 7 in b
 *
 * The search of one box is given up after so many edits that the whole costs about ALIGN_STEPS_MAX
 * steps at most, and the box is cut where the search got furthest; the pairs found then are still a
 * common subsequence, only perhaps not the longest. (Sequences of a few thousand elements are never
 * given up upon.)
 *
 * Does not know what the numbers mean. Threads: none. Memory: two rows, malloc.
 */
#ifndef KEDGE_TOOLS_ALIGN_H
#define KEDGE_TOOLS_ALIGN_H

#include <stdint.h>

#define ALIGN_STEPS_MAX (UINT64_C(1) << 26)
#define ALIGN_NONE      UINT32_MAX

/* partner[i] = the index in `b` of the partner of a[i], or ALIGN_NONE. These indices ascend. */
void align_sequences(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count,
        uint32_t *partner);

#endif

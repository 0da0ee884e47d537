/* SPDX-License-Identifier: MIT */
/*
 * reusable.h - pairs of blocks of which the second could have had the memory of the first.
 *
 *     first   born ── used ── last use ───────────── freed
 *     second            born ───────── first use ── used ── freed
 *                       └── both live: one of them is too many ──┘
 *
 * Both are of one device, and of one size after rounding to 512; the last use of the first precedes
 * the first use of the second, and for some time both live. A block is the first of at most one
 * pair, and the second of at most one. Pairs are chosen greedily, in the order of first uses: of
 * the blocks after their last use, the one that is freed last.
 *
 * Pure apart from memory (vec.h). Threads: none.
 */
#ifndef KEDGE_TOOLS_REUSABLE_H
#define KEDGE_TOOLS_REUSABLE_H

#include "tools/trace/trace.h"

struct reusable_pair {
    uint32_t first, second; /* blocks */
};

/* Pairs among these blocks, all of known uses and used; the caller frees the array. */
struct reusable_pair *reusable_find(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_count);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * reusable.h - pairs of blocks of which the second could have had the memory of the first.
 *
 *     first   born ── used ── last use ───────────── freed
 *     second            born ───────── first use ── used ── freed
 *                       └── both live: one of them is too many ──┘
 *
 * Both are of one device, and of one size after rounding to 512; the first is used for the last time before the second is
 * used at all, and for some time both live. A block is the first of at most one pair, and the second of at most one. Who takes
 * over is decided greedily, in the order of first uses: of the blocks that are done with, the one that is freed last.
 *
 * Pure apart from memory (vec.h). Threads: none.
 */
#ifndef KEDGE_TOOLS_REUSABLE_H
#define KEDGE_TOOLS_REUSABLE_H

#include "tools/trace/trace.h"

struct reusable_pair {
    uint32_t first, second; /* blocks */
};

/* Pairs of these blocks, whose uses are known and of which each was used; the caller frees the array. */
struct reusable_pair *reusable_find(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_count);

#endif

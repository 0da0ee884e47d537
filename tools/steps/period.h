/* SPDX-License-Identifier: MIT */
/*
 * period.h - finds repetitions in a sequence of allocations, and the begin of each.
 *
 * For programs that do not state their steps. Two properties distinguish a step from a layer:
 *
 *   order    words of 1 to 8 allocations that recur at even distances (period_words.h) show how
 *            often a step repeats; the allocations between
 *            must be alike, much more so than pieces of the same sequence in a random order.
 *   memory   at the end of a step its allocations are freed, or kept for good. A layer hands its
 *            result to the next one.
 *
 *     allocs   i i | p a b a b a b l c c u | p a b a b a b l c c u | p a b ...    i: set up once
 *                  └─ step ────────────────┘                                      a b: a layer
 *
 * So repetitions are STEPS if almost no blocks and bytes are live across the cuts, and PARTS if
 * some are: layers or sub-graphs of one step, or steps that hand memory on. PARTS that consist of
 * parts themselves and of other allocations, and hand on at most three quarters of their peak, are
 * STEPS too: gradients that stay until the next backward. And if almost nothing lives between PARTS
 * now and then, at even distances, a STEP begins there that consists of them. Of several
 * repetitions the finest one that rests is taken, unless a coarser one covers more allocations of
 * other kinds: a layer may happen to rest, while the step has allocations of its own.
 *
 * An evaluation between steps consists of a step's allocations and is at most half of one. A first
 * step that does more than the others counts if it contains their allocations. If several threads
 * or streams allocate, only the order within each counts.
 *
 * Three repetitions are needed, or two that are nearly the same and rest.
 *
 * The result labels reports and decides nothing (R90, stated steps only). Threads: none. Memory:
 * vec.h, 36 bytes per allocation and those of period_words.h beside what is passed in. Time: near n
 * log n; at most 288 repetitions are judged, each takes about n.
 */
#ifndef KEDGE_TOOLS_PERIOD_H
#define KEDGE_TOOLS_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

#define PERIOD_NEVER UINT32_MAX

struct period_alloc {
    uint64_t site, size; /* site 0: unknown */
    uint32_t dies;       /* number of allocations before its free; PERIOD_NEVER */
    uint32_t lane;       /* thread or stream: the order within one is the program's, else chance */
};

enum period_kind {
    PERIOD_NONE,
    PERIOD_PARTS,
    PERIOD_STEPS,
};

/* One repetition: allocations first .. behind - 1, and all frees before the allocation `behind`. */
struct period_span {
    uint32_t first, behind;
    /* to the typical one: the share of the larger one's words that both have, 0 .. 1 */
    double likeness;
};

struct period {
    enum period_kind kind;
    bool rests; /* almost nothing lives across the cuts */
    uint32_t span_count;
    uint32_t length; /* allocations in most of them */
    struct period_span *spans;
    double likeness;    /* their average */
    double chance;      /* the same for the allocations in random order */
    uint64_t handed_on; /* bytes that live across most cuts, though they are freed before the end */
    uint64_t peak;      /* most bytes of that kind within most of them */
    char reason[256];   /* a sentence, for every kind */
};

/* period_done in any case. */
void period_find(const struct period_alloc *allocs, uint32_t count, struct period *ret);
void period_done(struct period *period);

#endif

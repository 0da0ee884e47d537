/* SPDX-License-Identifier: MIT */
/*
 * period.h - does a sequence of allocations repeat, and where does each repetition begin?
 *
 * For programs that say nothing of their steps. Two things tell a step from a layer:
 *
 *   order    words of 1 to 8 allocations that recur at even distances (period_words.h) say how often a step repeats; what lies between
 *            must be alike, and much more so than pieces of the same sequence in a random order.
 *   memory   at the end of a step what it allocated is gone, or is kept for good. A layer hands its result to the next one.
 *
 *     allocs   i i | p a b a b a b l c c u | p a b a b a b l c c u | p a b ...    i: set up once
 *                  └─ step ────────────────┘                                       a b: a layer, three of them
 *
 * So what repeats is called STEPS where next to nothing, in blocks and in bytes, is live across the cuts, and PARTS where something
 * is: layers or sub-graphs of one step, or steps that hand memory on. PARTS that are made of parts themselves and of something else,
 * and hand on no more than three quarters of their peak, are STEPS too: gradients that stay until the next backward. And where next to
 * nothing lives between PARTS now and then, and at even distances, a STEP begins that is made of them. Of several repetitions the finest that rests is
 * taken, unless a coarser one has more of what is not made of the same allocations: a layer that happens to rest, and the step's own.
 *
 * An evaluation between steps is made of a step's allocations and is no more than half of one. A first step that does more than the
 * others is one if it has what they have. Where several threads or streams allocate, only the order within each counts.
 *
 * Three repetitions are needed, or two that are nearly the same and rest.
 *
 * What it finds labels reports and keys nothing (R90). Threads: none. Memory: vec.h, 36 bytes per allocation and those of period_words.h
 * beside what is passed in. Time: near n log n; at most 288 repetitions are judged, each takes about n.
 */
#ifndef KEDGE_TOOLS_PERIOD_H
#define KEDGE_TOOLS_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

#define PERIOD_NEVER UINT32_MAX

struct period_alloc {
    uint64_t site, size; /* site 0: not known */
    uint32_t dies;       /* how many allocations there were before it was freed; PERIOD_NEVER */
    /* Its thread or stream: in one the order is the program's, between them it is chance. */
    uint32_t lane;
};

enum period_kind {
    PERIOD_NONE,
    PERIOD_PARTS,
    PERIOD_STEPS,
};

/* One repetition: allocations first .. behind - 1, with all frees before the allocation `behind`. */
struct period_span {
    uint32_t first, behind;
    double likeness; /* to the one that stands for all: the share of the larger one's words that both have, 0 .. 1 */
};

struct period {
    enum period_kind kind;
    bool rests; /* next to nothing lives across the cuts */
    uint32_t span_count;
    uint32_t length; /* allocations in most of them */
    struct period_span *spans;
    double likeness;    /* of them on average */
    double chance;      /* the same of the allocations in random order */
    uint64_t handed_on; /* bytes that live across most cuts, though they are freed before the end */
    uint64_t peak;      /* most bytes of that kind within most of them */
    char reason[256];   /* a sentence, whatever the kind */
};

/* period_done in any case. */
void period_find(const struct period_alloc *allocs, uint32_t count, struct period *ret);
void period_done(struct period *period);

#endif

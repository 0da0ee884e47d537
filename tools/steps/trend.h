/* SPDX-License-Identifier: MIT */
/*
 * trend.h - whether a figure grows from round to round, by its values at the ends of the rounds.
 *
 *     grows     1 2 3 4 5     0 0 0 1 1 1 2 2 2     0 0 0 0 1 2 3     1 2 1 3 2 4 3 5 ...
 *     filled    1 2 3 3 3 3 3 3     0 4 4 4
 *     steady    3 3 3 3       1 2 1 2 1 2           1 2 3 0 1 2 3 0 1 2
 *     unknown   1 2 2       0 0 0 0 0 4           1 1 2 2 2 2 3
 *
 * After its last fall a value rises at times. It grows if it rose at least twice and has not been
 * at rest since for longer than between two earlier rises; it is filled if it has been for more
 * than twice as long. Rises prove little where a block was only replaced by another one: they are
 * believed where each adds blocks, where all add the same bytes, or from the fifth on; two of them
 * only at even distances. One rise is filled if the rounds after it outnumber those before.
 *
 * A value that has fallen before in half of the time or less comes and goes. Then it grows if all
 * of the last third lies above all of the first one, in at least TREND_NOISY rounds (chance does
 * that once in 252 times), and is steady if it ends no higher than it was before.
 *
 * Pure. Threads: none. Time: the number of changes.
 */
#ifndef KEDGE_TOOLS_TREND_H
#define KEDGE_TOOLS_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TREND_ROUNDS = 3, /* fewer tell nothing */
    TREND_NOISY = 15,
};

enum trend {
    TREND_GROWS,
    TREND_UNKNOWN,
    TREND_FILLED,
    TREND_STEADY,
    TREND_COUNT,
};

/* The bytes and blocks at the end of a round, whose bytes differ from those of the one before. */
struct trend_change {
    uint32_t round;
    uint64_t bytes, blocks;
};

struct trend_figures {
    enum trend trend;
    uint64_t first, last; /* bytes at the end of the first judged round, and of the last one */
    uint32_t rises;       /* rounds in which they rose */
    uint32_t since;       /* the first of them */
    uint32_t rest;        /* rounds after the last of them, if there is one */
    bool adds_blocks;     /* there are more blocks after each rise */
};

/*
 * Of at least TREND_ROUNDS rounds. `changes` are in their order; before the first one there are no
 * bytes.
 */
struct trend_figures trend_of(const struct trend_change *changes, size_t count, uint32_t rounds);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * trend.h - whether a figure grows from round to round, by its values at the ends of the rounds.
 *
 *     grows     1 2 3 4 5     0 0 0 1 1 1 2 2 2     0 0 0 0 1 2 3     3 9 4 3 10 5 4 11 6 5 ...
 *     filled    1 2 3 3 3 3 3 3     0 4 4 4
 *     steady    3 3 3 3       1 2 1 2 1 2           1 2 3 0 1 2 3 0 1 2
 *     unknown   1 2 2       0 0 0 0 0 4           1 1 2 2 2 2 3           0 1 3
 *
 * After its last fall a value rises at times. It grows if it rose at least twice and has not been
 * at rest since for longer than between two earlier rises; it is filled if it has been for more
 * than twice as long. Rises prove little where a block was only replaced by another one: they are
 * believed where each adds blocks, where all add the same bytes, or from the fifth on; two of them
 * only at even distances, and if neither is twice the other. One rise is filled if the rounds after
 * it outnumber those before.
 *
 * A value that has fallen before in half of the time or less comes and goes. Its trend is then that
 * at the same place of each repetition, if its gains repeat three times (gains.h). Else it grows if
 * all of the last third lies above all of the first one, in at least TREND_NOISY rounds (chance
 * does that once in 252 times), or if the number of its blocks grows by at least three rises and
 * the mean of the bytes with it. It is steady if it ends no higher than it was before.
 *
 * Pure. Threads: none. Memory: that of gains.h. Time: the number of changes and of rounds.
 */
#ifndef KEDGE_TOOLS_TREND_H
#define KEDGE_TOOLS_TREND_H

#include "tools/steps/gains.h"

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

/* Why it is not known whether a value grows. */
enum trend_why {
    TREND_KNOWN,
    TREND_ONCE,     /* it rose once, too late to tell a cache from a leak */
    TREND_RESTS,    /* it has been at rest for longer than before, but not for twice as long */
    TREND_REPLACED, /* a block was replaced by larger ones, fewer times than chance would have it */
    TREND_TWICE,    /* it rose twice, at uneven distances or by other bytes */
    TREND_FALLS,    /* it falls at times, and has not fallen since it is higher than ever */
    TREND_PASSING, /* growth.h: blocks piled up in a phase, and were freed after the last allocation */
    TREND_RESULTS, /* growth.h: likewise without steps, freed before the last allocation */
    TREND_LARGER,  /* growth.h: as blocks that were freed again became larger in the same rounds */
    TREND_WHY_COUNT,
};

struct trend_figures {
    enum trend trend;
    uint64_t first, last; /* bytes at the end of the first judged round, and of the last one */
    uint32_t rises;       /* rounds in which they rose */
    uint32_t since;       /* the first of them */
    uint32_t rest;        /* rounds after the last of them, if there is one */
    bool adds_blocks;     /* there are more blocks after each rise */
    bool falls;           /* it comes and goes; `first` is `last` without what it gained */
    uint32_t rounds;      /* that were judged */
    uint32_t beyond;      /* growth.h: rounds' time that it rested behind them; 0: was not asked */
    uint64_t first_rise, last_rise; /* if each rise is at least the one before it, else 0 */
    struct gains gains;
    enum trend_why why; /* of TREND_UNKNOWN */
};

/* "it rose once, and late" */
const char *trend_why_text(enum trend_why why);

/*
 * Of at least TREND_ROUNDS rounds. `changes` are in their order; before the first one there are no
 * bytes.
 */
struct trend_figures trend_of(const struct trend_change *changes, size_t count, uint32_t rounds);

/* Adds another figure's bytes: one leak may be of several places. */
void trend_join(struct trend_figures *figures, const struct trend_figures *more);

#endif

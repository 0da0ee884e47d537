/* SPDX-License-Identifier: MIT */
/*
 * growth.h - call sites that hold more and more from round to round of a run.
 *
 *     stated_steps.h: steps, epochs, evaluations ─┬─► bytes of each site at the ends ─► trend.h
 *     stepview.h: steps that were detected ───────┘
 *
 * Rounds are the steps and, where the program states them, what lies around the steps (epochs) and
 * beside them (evaluations, requests). The trend of a site is that at the ends of the steps. Where
 * another kind of rounds sees it grow, by blocks that are added, it grows, and is told by the kind
 * in each round of which it does. Where the steps see no growth, what was freed before the run's
 * last allocation was held in a phase only, and grows not; what was freed after it may have been
 * freed by the phase or by the program's exit, and is unknown. So is what rounds of a program
 * without steps pile up, if it was freed before the last allocation: results, or a leak.
 *
 * A job that died of memory did so within a round. What a place held then, less the most that it
 * gave back in a round before, counts as the end of one more round where the others leave it open
 * whether it grows.
 *
 * A program may go on without rounds: it replays graphs that its evaluations captured. What the
 * rounds leave open, and what holds no more behind them, is judged as if they had gone on for as
 * long as places that ask for memory equally often in each of them do.
 *
 * A site that rose once, while all sites together hold no more than before, is steady: the same
 * memory is asked for in another way.
 *
 * A site is a stack; without stacks a size. The last round that the program did not leave has no
 * end, as it includes the frees at the program's exit.
 *
 * Threads: none. Memory: vec.h, 96 bytes per call site and kind of rounds, beside those of
 * places.h. Time: the number of events for each kind.
 */
#ifndef KEDGE_TOOLS_GROWTH_H
#define KEDGE_TOOLS_GROWTH_H

#include "tools/steps/stepview.h"
#include "tools/steps/trend.h"
#include "tools/symbols/symbols.h"
#include "tools/trace/stated_steps.h"

struct growth_rounds {
    char *noun;       /* "step", "epoch": the last part of the anchors' path, without numbers */
    bool is_steps;    /* the noun says so, or they were detected */
    uint32_t *behind; /* the event behind each round */
    uint32_t *anchor; /* of each; TRACE_NONE: detected */
    uint32_t count;
    uint32_t failure; /* the request that failed in the round behind them, an event; 0: none */
    uint32_t end;     /* of the part of the record that was looked at, an event */
};

struct growth_site {
    uint32_t stack, kind; /* of rounds */
    uint64_t size;        /* if there are no stacks, else 0 */
    struct trend_figures is;
};

struct growth {
    struct growth_rounds rounds[STATED_ROUNDS]; /* [0]: the steps, if there are any */
    size_t kind_count;
    struct growth_site *sites; /* those that grow, the unknown, the filled; most bytes first */
    size_t site_count, site_room;
    uint32_t *alike; /* per stack the one that stands for all of its place; NULL: no rounds */
    size_t counts[TREND_COUNT];
    uint64_t last; /* bytes of all sites at the end of the last round of rounds[0] */
    char *why;     /* why there are no rounds; NULL: there are */
};

/*
 * In the part of the window that the record has. `view`: its detected steps are the rounds of a
 * program that states none; NULL: only stated ones count. Call growth_done in any case.
 */
void growth_find(const struct load *load, struct model_window window, const struct stepview *view,
        struct growth *ret);
void growth_done(struct growth *growth);

/*
 * Makes one of the growing sites that have one line of the program in their titles and rise in as
 * many of the same rounds: what the functions below that line allocated. Its stack is the largest.
 */
void growth_join(struct growth *growth, struct symbols *symbols);

/* The first of growth->counts[trend] sites; NULL: there are none. */
const struct growth_site *growth_first(const struct growth *growth, enum trend trend);

/* Whether two sites are one leak as far as rounds tell: both gain after as many of the same. */
bool growth_is_one(const struct growth_site *site, const struct growth_site *other);

/* What it gains as growth_text tells it: in a round, after so many rounds, or in all. */
uint64_t growth_bytes(const struct growth_site *site);

/*
 * "+97.50 MiB a step", "+4.00 MiB every 4 steps in the last 20 of 40", "+3.00 MiB in 3 of 29
 * epochs, not in the last 20"; "about" stands before a mean. The caller frees it.
 */
char *growth_text(const struct growth *growth, const struct growth_site *site);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * follow.h - where in a planned step the program is, told by its requests alone.
 *
 *     request (size, site) ─► expected block? ─► passed over a moment ago? ─► a little ahead? ─► none
 *                                                                                              │
 *                             the last four requests stand in a row somewhere in the plan ◄────┘
 *
 * A plan is mostly of one stream: what the others ask for in between is not in it. Which one that is turns out when four requests
 * in a row, all of one stream, stand in the plan; a stream that is not heard of any more is left for another.
 *
 * Programs do not repeat a step exactly: a block is asked for that the plan does not have, one of the plan's is not asked
 * for, two threads change places, the step ends early, something else is done between two steps. Each request costs a look
 * at the expected block; one that is not it costs a few dozen comparisons, whatever the length of the plan.
 * Trust rises with each expected block and falls with each that is not; without any, nothing is called planned until
 * four requests in a row say where the program is. (Else the weights of a model, which no plan of a step knows, would
 * take places for good because their sizes look familiar.) The first request of a stream counts for as many: a plan may be of
 * a whole run.
 *
 * What it says is a guess and may be wrong: nobody may rely on it. It knows no addresses, streams or blocks.
 * Memory: meta.h. Threads: the caller's lock.
 */
#ifndef KEDGE_ALLOC_FOLLOW_H
#define KEDGE_ALLOC_FOLLOW_H

#include "alloc/lookup.h"
#include "alloc/types.h"

#define FOLLOW_NONE    UINT32_MAX
#define FOLLOW_CONFIRM 4u  /* requests in a row that say where the program is */
#define FOLLOW_AHEAD   16u /* blocks that may be passed over at once */
#define FOLLOW_BEHIND  32u /* how far back they are still expected */
#define FOLLOW_TRUST   16u /* requests in a row that may be strange */
#define FOLLOW_LOOK    8u  /* places that one request is compared with */
#define FOLLOW_LANES   8u  /* streams whose last requests are remembered */
#define FOLLOW_AWAY    64u /* requests of others in a row after which the stream is not waited for */

/* The blocks of one key as a ring, in order. */
struct follow_index {
    struct lookup cell_of; /* by key: where in the ring was looked last */
    uint32_t *next;        /* of each block, the next of its key */
    uint32_t *cell;        /* of the first block of each key */
};

struct follow_counts {
    uint64_t steps;     /* the end of the plan was passed, or its beginning found again */
    uint64_t matched;   /* requests that are a planned block */
    uint64_t unmatched; /* requests that are none */
    uint64_t skipped;   /* planned blocks that were not asked for */
    uint64_t resyncs;   /* the place was found again (or first) by a row of requests */
};

struct follow_request {
    uint64_t size, site;
};

/* The last requests of a stream. */
struct follow_lane {
    uint64_t stream;
    uint64_t used;                                  /* when, in requests; 0 = never */
    uint32_t heard;                                 /* requests, as far as they are in `past` */
    struct follow_request past[FOLLOW_CONFIRM - 1]; /* the newest first */
};

struct follow {
    const struct planned *block; /* the caller's */
    uint32_t count;
    uint32_t at;     /* the expected block */
    uint32_t trust;  /* 0 = lost */
    uint64_t missed; /* bit i: block at - 1 - i was passed over */
    uint64_t stream; /* the one that is followed, if any is */
    uint64_t asked;  /* requests */
    uint32_t away;   /* those since the last one of the stream */
    bool sites;      /* every block has one */
    /* set after follow_init: the plan is of all streams together, and which one asks is nothing to it */
    bool all_streams;
    struct follow_lane lanes[FOLLOW_LANES];
    struct follow_index exact, sizes;
    struct follow_counts counts;
};

/* `block` stays the caller's; count is not 0. 0 or -ENOMEM. */
int follow_init(struct follow *follow, const struct planned *block, uint32_t count);
void follow_done(struct follow *follow);

/* The planned block that this request is, FOLLOW_NONE = none. `size` as the plan counts it; site 0 = unknown; `stream` is
 * any number that tells streams apart. */
uint32_t follow_ask(struct follow *follow, uint64_t stream, uint64_t size, uint64_t site);

static inline bool follow_is_lost(const struct follow *follow)
{
    return follow->trust == 0;
}

#endif

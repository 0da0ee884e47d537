/* SPDX-License-Identifier: MIT */
/*
 * follow.h - where in a planned step the program is, told by its requests alone.
 *
 *     request (size, site) ─► expected block? ─► passed over a moment ago? ─► a little ahead? ─► none
 *                                                                                              │
 *                           the last requests are a row that stands in the plan ◄──┘
 *
 * A plan is mostly of one stream: what the others ask for in between is not in it. Which one that is turns out when a row of
 * requests, all of one stream, stands in the plan; a stream that is not heard of any more is left for another.
 *
 * Programs do not repeat a step exactly: a block is asked for that the plan does not have, one of the plan's is not asked
 * for, two threads change places, the step ends early, something else is done between two steps. Each request costs a look
 * at the expected block; one that is not it costs a few dozen comparisons, whatever the length of the plan.
 * Trust rises with each expected block and falls with each that is not; without any, nothing is called planned until
 * a row of requests says where the program is. Else the weights of a model, which no plan of a step knows, would
 * take places for good because their sizes look familiar; and since sizes repeat from layer to layer, and layers are alike, of
 * rows that the plan has several times only the first counts. Where sites are known four requests are a row, else sixteen. Only the
 * first request of a stream begins at the plan's beginning without any: a plan may be of a whole run; until
 * a row has confirmed that, the first request that is not the expected one ends it.
 *
 * What it says is a guess and may be wrong: nobody may rely on it. It knows no addresses, streams or blocks.
 * Memory: meta.h. Threads: the caller's lock.
 */
#ifndef KEDGE_ALLOC_FOLLOW_H
#define KEDGE_ALLOC_FOLLOW_H

#include "alloc/lookup.h"
#include "alloc/types.h"

#define FOLLOW_NONE         UINT32_MAX
#define FOLLOW_ROW_OF_SITES 4u  /* requests that say where the program is, */
#define FOLLOW_ROW          16u /* and where sites are not known */
#define FOLLOW_AHEAD        16u /* blocks that may be passed over at once */
#define FOLLOW_BEHIND       32u /* how far back they are still expected */
#define FOLLOW_TRUST        16u /* requests in a row that may be strange */
#define FOLLOW_FOUND        8u  /* of which so many at once, when the place was just found */
#define FOLLOW_JUMP         2u  /* what passing over blocks counts as, */
#define FOLLOW_TAKEN        1u  /* and what a place that somebody holds */
#define FOLLOW_LANES        8u  /* streams whose last requests are remembered */
#define FOLLOW_AWAY         64u /* requests of others in a row after which the stream is not waited for */

/* The rows of a plan: by what they are made of, the block that ends each. */
struct follow_rows {
    struct lookup end_of; /* by hash */
    uint32_t *end;        /* of each block's row, and whether there are several */
    uint32_t length;
    bool by_site;
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
    uint64_t used;                              /* when, in requests; 0 = never */
    uint32_t heard;                             /* requests, as far as they are in `past` */
    struct follow_request past[FOLLOW_ROW - 1]; /* the newest first */
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
    bool guess; /* it began at the beginning, without a row */
    struct follow_rows exact, sizes;
    struct follow_counts counts;
};

/* `block` stays the caller's; count is not 0. 0 or -ENOMEM. */
int follow_init(struct follow *follow, const struct planned *block, uint32_t count);
void follow_done(struct follow *follow);

/* The planned block that this request is, FOLLOW_NONE = none. `size` as the plan counts it; site 0 = unknown; `stream` is
 * any number that tells streams apart. */
uint32_t follow_ask(struct follow *follow, uint64_t stream, uint64_t size, uint64_t site);

/* Somebody holds the place of the block that was just found: in a program that does what the plan says, nobody would. */
void follow_taken(struct follow *follow);

static inline bool follow_is_lost(const struct follow *follow)
{
    return follow->trust == 0;
}

#endif

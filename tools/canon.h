/* SPDX-License-Identifier: MIT */
/*
 * canon.h - depth-first search for offsets below a given capacity.
 *
 * After the published description of MiniMalloc, with ceilings of its own. In any placement all blocks may be let down until
 * each rests on the ground or on another; taken by offset, each then stands at its *low*, the highest top among the blocks
 * taken before it that it meets. So only such sequences are searched: at a node some block is taken at its low, and all
 * others come at that level or above. A *component* is a set of blocks that their lifetimes chain together; what falls into
 * two of them is searched apart, and if one has no solution, no choice in the other can help.
 *
 *       ceiling ┌──────────────────────┐  a block that lives in all sections of its component goes to the top: were it
 *               │   lives throughout   │  anywhere else, all above it could come down by its size. What is left has a
 *               ├────────┬───┬─────────┤  lower ceiling, and often falls apart.
 *               │        │   │         │
 *         level ├╌╌╌╌╌╌╌╌┤   ├╌╌╌╌┬────┤  A node fails if in some section the lowest low and all that is still to come
 *               │ taken  └───┘taken    │  there exceed the ceiling.
 *             0 └──────────────────────┘
 *
 * Left out, because the same or a better placement is searched elsewhere: blocks whose low is above the top that another could
 * have (that one would fit below); the second of two equal blocks; and, until another block is put below it, a block that was
 * passed over, since its own branch has failed or is searched later.
 *
 * Of blocks with equal low an order decides that stays the same during a search. A wrong choice near the root is never taken back,
 * since what is below it has no end; so searches are short and many, in several orders, and some of these put first what did not
 * fit before. The limit is in nodes (blocks taken), not in time.
 *
 * Does not choose capacities (place.h). Threads: none. Memory: vec.h. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_CANON_H
#define KEDGE_TOOLS_CANON_H

#include "tools/piles.h"
#include "tools/sections.h"

/* What comes first. Fullest: the most bytes that live at once in any section of its life. */
enum canon_order {
    CANON_FULLEST,      /* then sections */
    CANON_TIME_AREA,    /* bytes times time */
    CANON_LONGEST,      /* sections */
    CANON_FULLEST_TIME, /* then time */
    CANON_AREA,         /* bytes times sections */
    CANON_LONGEST_TIME, /* time */
    /* learnt from what failed in the searches of this canon before: how often a block was among those that did not fit, */
    CANON_BLAMED,
    CANON_BLAMED_SECTIONS, /* or how often its sections had too little room */
    CANON_ORDER_COUNT
};

enum canon_result {
    CANON_FOUND,
    CANON_NONE,    /* there is no placement below this capacity: proved */
    CANON_LIMIT,   /* not known: so many nodes did not decide it */
    CANON_STOPPED, /* keep_on said so */
};

struct canon_limits {
    uint64_t capacity;
    uint64_t nodes;
    bool (*keep_on)(void *self, uint64_t nodes); /* asked every some hundred nodes; NULL = always */
    void *self;
};

struct canon *canon_new(struct sections *sections);
void canon_free(struct canon *canon);

/*
 * From now on a block is taken only when all that `piles` has below it are (NULL: no such order), and `piles` must stay. What lives
 * all through a component goes to its top even so. Such a search decides less: CANON_NONE proves nothing.
 */
void canon_keep(struct canon *canon, const struct piles *piles);

/* With CANON_FOUND the offsets of the spans are set, else they are as they were. *ret_nodes: how many it took. */
enum canon_result canon_search(struct canon *canon, enum canon_order order,
        const struct canon_limits *limits, uint64_t *ret_nodes);

/* "fullest, longest". */
const char *canon_order_name(enum canon_order order);

#endif

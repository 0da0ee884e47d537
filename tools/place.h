/* SPDX-License-Identifier: MIT */
/*
 * place.h - offsets for blocks whose lifetimes are known, in as little memory as can be found.
 *
 *     spans ─► cut where none lives across ─► parts ─┬─► what lives all through a part: at its bottom
 *                                                    ├─► the search without a ceiling: a placement to begin with
 *                                                    ├─► search (canon.h) at max live, 1.005 of it, 1.015 ...
 *                                                    └─► search in windows of the best one that was found
 *
 * No placement is smaller than the most that lives at once (max live); that is what is tried first. Once one is found above it,
 * capacities between that and what failed are tried. The nodes that are left go to a large neighbourhood search: all blocks keep
 * their order from bottom to top (piles.h) except in a window of sections, and less is searched for. A capacity that the caller
 * gives is the only one. The limit is in search nodes, so that the same input gives the same plan everywhere. Every answer has been
 * checked by a sweep that knows nothing of how it was found (sections_check).
 *
 * Threads: none. Memory: vec.h. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_PLACE_H
#define KEDGE_TOOLS_PLACE_H

#include "tools/sections.h"

#define PLACE_HOW_MAX 64

struct place_request {
    uint64_t capacity; /* 0 = the least that is found */
    uint64_t nodes;    /* of the search, in all; 0 = as many as its blocks allow */
    /*
     * Asked now and then with what has been done; false ends the search as if the limit had been reached. NULL = never. Without a
     * capacity the first placement is made all the same, in no more nodes than there are blocks, whatever the limit is.
     */
    bool (*keep_on)(void *self, uint64_t nodes, uint64_t limit);
    void *self;
};

enum place_status {
    PLACE_FOUND,
    PLACE_IMPOSSIBLE, /* the capacity was given, and it has been proved that nothing fits */
    PLACE_UNKNOWN,    /* the capacity was given, and the limit came first */
    PLACE_BROKEN      /* the sweep found an overlap: a defect of the planner */
};

struct place_result {
    enum place_status status;
    uint64_t max_live;
    uint64_t peak;              /* what the offsets take; PLACE_FOUND only */
    uint64_t nodes, node_limit; /* the limit is no less than what was taken */
    uint32_t parts;             /* independent of each other */
    uint32_t whole;             /* blocks that live all through their part */
    bool least; /* no placement is smaller: the peak is max live, or less was proved impossible */
    char how[PLACE_HOW_MAX]; /* of the part that was the hardest: "fullest by sections first", "search, longest time first" */
};

/*
 * Sets the offset of every span (with PLACE_FOUND; they are undefined else). 0, or as sections_make: -EINVAL with *ret_bad, or
 * -EOVERFLOW.
 */
int place_solve(struct span *spans, uint32_t count, const struct place_request *request,
        struct place_result *ret_result, uint32_t *ret_bad);

#endif

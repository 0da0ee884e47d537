/* SPDX-License-Identifier: MIT */
/*
 * area.h - the addresses that a plan speaks of: a range of their own in one mapped heap, and planned blocks placed there.
 *
 *     request ─► follow.h: which planned block? ─► its place: all free for this stream ─► taken, exactly that
 *                                                             bare ─► storage is mapped there, once ─┘
 *                                                             anything else ─► the ordinary ladder
 *
 * A plan is a wish for an address and nothing more. The blocks of the area are blocks as all others: what is free, whose
 * point must pass, what is pinned or busy is decided by the same rules as in heap_take, so that a plan that is stale,
 * wrong or of another program can cost memory and never a wrong byte. A free in the area is an ordinary free.
 *
 * The range is a segment of its own, reserved when the first planned block is asked for. Its storage comes slot by slot
 * as planned blocks first reach them: all at once would be the same calls earlier, would hold a whole step's memory for a
 * plan that turns out not to be followed, and could fail as a whole. What is free in it is kept for the plan: ordinary requests
 * are served from outside, from here only where the alternative is to pass the budget or the program is lost to the plan.
 * Slots that are free are not moved elsewhere to make growth cheaper, but they do go back when memory is given back.
 *
 * One plan, for the stream entrance of one device; the heap that is asked first there is the one that it is for. The sync
 * entrance has no use for it: freed blocks wait there for an epoch, which the next block of a plan would have to
 * await in turn, and a plain segment cannot be backed in pieces.
 * Threads: any; functions marked [driver] with no lock held. Rules: R70-R72 as heap_take.
 */
#ifndef KEDGE_ALLOC_AREA_H
#define KEDGE_ALLOC_AREA_H

#include "alloc/follow.h"
#include "alloc/serve.h"

struct area {
    /* fixed by pool_set_plan */
    uint64_t size;
    int device;
    /* guarded by the pool's lock: */
    struct follow follow;
    struct heap *heap; /* whose requests are followed, NULL = not known yet */
    uint32_t segment;  /* 0 = no addresses yet */
    bool off;          /* there is no range to be had, or no mapped memory */
    uint64_t placed, fell_back;
};

/*
 * [driver] Serves the request at its planned place. True: served, *ret is filled. False: nothing has happened but that
 * the program's place in the plan is known; go the ordinary way.
 */
bool area_serve(struct pool *pool, const struct pool_request *request, struct outcome *ret);

/* The plan cannot keep what is free in the area from ordinary requests: there is none, or the program is lost to it. */
bool area_is_idle(const struct pool *pool) POOL_LOCKED;

/* Bytes of storage on a device that are free and kept for the plan: the budget counts them as if they were live. */
uint64_t area_spare(const struct pool *pool, const struct device *device) POOL_LOCKED;

void area_count(const struct pool *pool, struct pool_plan_stats *ret) POOL_LOCKED;

/* The heap goes: whoever asks next may be the plan's. */
void area_leave(struct pool *pool, const struct heap *heap) POOL_LOCKED;

#endif

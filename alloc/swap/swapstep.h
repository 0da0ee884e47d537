/* SPDX-License-Identifier: MIT */
/*
 * swapstep.h - edges of anchors: a step of a set ends and its figures are kept; what is out begins to come in.
 *
 * Does not call the driver. Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_SWAPSTEP_H
#define KEDGE_ALLOC_SWAPSTEP_H

#include "alloc/heap/swapset.h"

void swapstep_edge(struct pool *pool, const struct edge *edge) POOL_LOCKED;

/* A step of the set as it is now. */
void swapstep_fill(struct swap_set *set, struct pool_evict_step *ret);

#endif

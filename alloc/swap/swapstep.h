/* SPDX-License-Identifier: MIT */
/*
 * swapstep.h - edges of anchors: end a step of a set and keep its figures, or begin to restore
 * evicted blocks.
 *
 * Does not call the driver.
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_SWAPSTEP_H
#define KEDGE_ALLOC_SWAPSTEP_H

#include "alloc/heap/swapset.h"

void swapstep_edge(struct pool *pool, const struct edge *edge) POOL_LOCKED;

/* Fills in the current state of the set's step. */
void swapstep_fill(struct swap_set *set, struct pool_evict_step *ret);

#endif

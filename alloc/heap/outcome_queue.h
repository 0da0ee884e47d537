/* SPDX-License-Identifier: MIT */
/*
 * outcome_queue.h - what has happened behind a driver call, or to blocks that nobody asked about, until pool_poll tells it.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_OUTCOME_QUEUE_H
#define KEDGE_ALLOC_OUTCOME_QUEUE_H

#include "alloc/heap/records.h"

/* Without memory it is not told; it has happened all the same. */
void outcome_queue_tell(struct pool *pool, const struct outcome *outcome) POOL_LOCKED;

/* The oldest that was not told. False: there is none. */
bool outcome_queue_take(struct pool *pool, struct outcome *ret) POOL_LOCKED;

#endif

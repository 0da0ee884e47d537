/* SPDX-License-Identifier: MIT */
/*
 * outcome_queue.h - outcomes of finished driver calls, or of blocks without a request, until
 * pool_poll reports them.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_OUTCOME_QUEUE_H
#define KEDGE_ALLOC_OUTCOME_QUEUE_H

#include "alloc/heap/records.h"

/* Without memory the outcome is not reported; it has happened all the same. */
void outcome_queue_tell(struct pool *pool, const struct outcome *outcome) POOL_LOCKED;

/* The oldest unreported outcome. False: none. */
bool outcome_queue_take(struct pool *pool, struct outcome *ret) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * evictlog.h - what is told of blocks that go out and come in: to the capture, and the first time for each hint as one line.
 *
 *     pool_evict_next_step ─► a step has ended       pool_evict_now ─► the one that runs at the end of the run
 *     OUTCOME_KEPT, a pin ──► a block stays in       pool_short ─────► a call could not be made
 *
 * Threads: any, no lock held. Part of dispatch. Makes no driver call.
 */
#ifndef KEDGE_PRELOAD_EVICTLOG_H
#define KEDGE_PRELOAD_EVICTLOG_H

#include "alloc/pool.h"
#include "tracker/format/format.h"

/* Steps that have ended, after an edge. And: steps that run, at the end of the process. */
void evictlog_steps(void);
void evictlog_end(void);

/* A block stays on the device from here on: the pool says so; or it was pinned. */
void evictlog_kept(const struct outcome *kept);
void evictlog_pinned(const struct block_info *info, enum format_kept_why why);

/* A call was not made, since its blocks cannot all be in at once. */
void evictlog_short(const struct pool_short *lacks);

#endif

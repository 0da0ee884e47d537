/* SPDX-License-Identifier: MIT */
/*
 * evictlog.h - reports blocks that go out and come in: in the capture, and the first time for each
 * hint as one line.
 *
 *     pool_evict_next_step ─► a step has ended       pool_evict_now ─► the last step
 *     OUTCOME_KEPT, a pin ──► a block stays in       pool_short ─────► a call could not be made
 *
 * Threads: any, no lock held. Part of dispatch. Makes no driver call.
 */
#ifndef KEDGE_PRELOAD_EVICTLOG_H
#define KEDGE_PRELOAD_EVICTLOG_H

#include "alloc/pool.h"
#include "tracker/format/format.h"

/* Steps that have ended, after an edge. Below: steps that run, at the end of the process. */
void evictlog_steps(void);
void evictlog_end(void);

/*
 * A block stays on the device from now on, because the pool says so. Below: because it was pinned.
 */
void evictlog_kept(const struct outcome *kept);
void evictlog_pinned(const struct block_info *info, enum format_kept_why why);

/* A call was not made, since its blocks do not fit on the device together. */
void evictlog_short(const struct pool_short *lacks);

#endif

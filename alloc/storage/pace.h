/* SPDX-License-Identifier: MIT */
/*
 * pace.h - how readily free storage moves (remap=auto), so that moves take no more than their share
 * of the program's time.
 *
 *     ready    storage that the device has finished with moves before the driver is asked for more
 *     lazy     storage moves above commit_move_budget
 *     sparing  storage moves above commit_budget, which is higher
 *
 * The driver table tells what moving a handle takes (driver.h, move_ns: measured in this process),
 * and the time. What moves have taken is a debt, which each second of the program pays back by
 * pool_opts.move_ns. Up to half a minute's share is ready, up to a minute's lazy: a first step,
 * which moves most, may use what the rest of its minute pays. Storage that the device still uses
 * does not move by `ready`: its move is an alias, which needs an unmap of its own later (vacate.h).
 *
 * Without move_ns, or with pool_opts.move_ns 0, the pace is `ready` and nothing is counted.
 *
 * Threads: any. Rules: R36.
 */
#ifndef KEDGE_ALLOC_PACE_H
#define KEDGE_ALLOC_PACE_H

#include "alloc/heap/records.h"

/* Counts the moves since the last look and the time that has passed, and chooses the pace. `slot`:
 * bytes of a handle. With no lock held. */
void pace_look(struct pool *pool, uint64_t slot);

/* Does finished storage of the heap move before growth? With pool_opts.budget, never: whoever sets
 * a budget wants moves from there on. Nor for the sync API on mapped memory: its requests wait for
 * their places, and the worst recorded trace would hold 0.949 instead of 0.955. */
bool pace_is_ready(const struct pool *pool, const struct heap *heap) POOL_LOCKED;

#endif

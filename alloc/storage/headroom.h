/* SPDX-License-Identifier: MIT */
/*
 * headroom.h - the free memory of a device, and how it is fragmented: the answer to "why did this
 * not fit?".
 *
 *     slots of an arena  |FFFF|FFxx|FFFF|ssss|FFss|     F idle, s free but pending, x live
 *     remappable           1         1                  whole handles that can be mapped elsewhere
 *     waiting                             1    1        could be, once their work has completed
 *
 * The walks are linear in blocks: an OOM is worth one, and so is the program's own query of free
 * memory. headroom_measure changes nothing except that it settles recent blocks.
 * Threads: the caller holds the pool lock, unless it says otherwise. Rules: R22 R31 R84 R104.
 */
#ifndef KEDGE_ALLOC_HEADROOM_H
#define KEDGE_ALLOC_HEADROOM_H

#include "alloc/heap/records.h"

/* Fills in everything except ret->stats. Walks every block. */
void headroom_measure(struct pool *pool, int device, struct pool_room *ret) POOL_LOCKED;

/* The answer of pool_available. Walks the blocks of arenas and of hinted blocks, and those of plain
 * segments without a live one; changes nothing. `device`: 0 .. POOL_DEVICES_MAX - 1. */
uint64_t headroom_available(
        struct pool *pool, int device, const struct pool_memory *memory) POOL_LOCKED;

/* [driver], takes the lock: the most bytes that a request could get on the device once all pending
 * frees there have completed. 0, or the driver's code. */
int headroom_most(struct pool *pool, const struct device *device, uint64_t *ret_bytes);

#endif

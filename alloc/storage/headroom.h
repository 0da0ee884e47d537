/* SPDX-License-Identifier: MIT */
/*
 * headroom.h - what is free on a device, and in which pieces: the answer to "why did this not fit?".
 *
 *     slots of an arena   |FFFF|FFxx|FFFF|ssss|FFss|     F clean, s free behind a point of a stream, x live
 *     remappable            1         1                  whole handles that could be mapped elsewhere now
 *     waiting                              1    1        could be, once their work has passed
 *
 * The walks are linear in blocks: an OOM is worth one, and so is the program's own question for free memory. headroom_measure
 * changes nothing but where recent blocks stand. Threads: the caller holds the pool lock, unless it says otherwise. Rules: R22 R31 R84 R104.
 */
#ifndef KEDGE_ALLOC_HEADROOM_H
#define KEDGE_ALLOC_HEADROOM_H

#include "alloc/heap/records.h"

/* All but ret->stats. Walks every block. */
void headroom_measure(struct pool *pool, int device, struct pool_room *ret) POOL_LOCKED;

/* What pool_available says. Walks the blocks of arenas and of hinted blocks, and those of plain segments with no live one;
 * changes nothing. `device`: 0 .. POOL_DEVICES_MAX - 1. */
uint64_t headroom_available(
        struct pool *pool, int device, const struct pool_memory *memory) POOL_LOCKED;

/* [driver], takes the lock: the most that a request could get on the device once all that was freed there is over. 0, or what the driver
 * says. */
int headroom_most(struct pool *pool, const struct device *device, uint64_t *ret_bytes);

#endif

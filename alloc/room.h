/* SPDX-License-Identifier: MIT */
/*
 * room.h - what is free on a device, and in which pieces: the answer to "why did this not fit?".
 *
 *     slots of an arena   |FFFF|FFxx|FFFF|ssss|FFss|     F clean, s free behind a point of a stream, x live
 *     remappable            1         1                  whole handles that could be mapped elsewhere now
 *     waiting                              1    1        could be, once their work has passed
 *
 * Walks every block: only an OOM is worth it. Changes nothing but where recent blocks stand. Threads: the caller holds
 * the pool lock. Rules: R31.
 */
#ifndef KEDGE_ALLOC_ROOM_H
#define KEDGE_ALLOC_ROOM_H

#include "alloc/heap.h"

/* All but ret->stats. */
void room_measure(struct pool *pool, int device, struct pool_room *ret) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * handles.h - the handle cache: unmapped physical handles of a heap, by size.
 *
 * Shelf handles count as held. Spare handles count as returned: they go to the driver as soon as
 * another user is known to need memory of the device (trim.h); until then the next request for one
 * of that size gets it without a driver call.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HANDLES_H
#define KEDGE_ALLOC_HANDLES_H

#include "alloc/heap/records.h"

/* Number of handles of this size on the shelf. */
uint32_t handles_count(const struct heap *heap, uint64_t size);
/* Puts a handle on the shelf of its size, counted as held; or takes one, 0 = none. -ENOMEM: not
 * stored. */
int handles_put(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t handles_take(struct heap *heap, uint64_t size);
/* The same with spare handles; the caller updates `reserved`. */
int handles_put_spare(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t handles_take_spare(struct heap *heap, uint64_t size);

#endif

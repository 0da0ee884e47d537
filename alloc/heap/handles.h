/* SPDX-License-Identifier: MIT */
/*
 * handles.h - the handle cache: physical handles of a heap without a mapping, by size.
 *
 * On the shelf they count as held. Spare ones count as given back: the driver has them back as soon as anybody is known to need
 * memory of the device (trim.h), and until then the next request for one of the size gets it without a driver call.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HANDLES_H
#define KEDGE_ALLOC_HANDLES_H

#include "alloc/heap/records.h"

/* How many handles of this size are on the shelf. */
uint32_t handles_count(const struct heap *heap, uint64_t size);
/* Puts a handle on the shelf of its size, counted as held; or takes one, 0 = none. -ENOMEM: not taken in. */
int handles_put(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t handles_take(struct heap *heap, uint64_t size);
/* The same with spare ones; what `reserved` counts is the caller's business. */
int handles_put_spare(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t handles_take_spare(struct heap *heap, uint64_t size);

#endif

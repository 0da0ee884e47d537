/* SPDX-License-Identifier: MIT */
/*
 * handles.h - the handle cache: physical handles of a heap without a mapping, by size.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HANDLES_H
#define KEDGE_ALLOC_HANDLES_H

#include "alloc/records.h"

/* How many handles of this size are on the shelf. */
uint32_t handles_count(const struct heap *heap, uint64_t size);
/* Puts a handle on the shelf of its size, counted as held; or takes one, 0 = none. -ENOMEM: not taken in. */
int handles_put(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t handles_take(struct heap *heap, uint64_t size);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * census.h - the figures of the pool, and the walk over all its invariants.
 *
 * The books (struct tally) are kept as things happen; the census reads them, and census_check counts everything again
 * from the structures themselves and compares. Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_CENSUS_H
#define KEDGE_ALLOC_CENSUS_H

#include "alloc/heap/records.h"

/* One heap's part, or that of all heaps of a device (-1: of all). */
void census_heap(const struct heap *heap, struct pool_stats *ret);
void census_device(struct pool *pool, int device, struct pool_stats *ret) POOL_LOCKED;

/* What is broken, NULL = nothing. */
const char *census_check(struct pool *pool) POOL_LOCKED;

#endif

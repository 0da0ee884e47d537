/* SPDX-License-Identifier: MIT */
/*
 * census.h - the figures of the pool, and the check of all its invariants.
 *
 * Each change updates the sums (struct tally); the census reads them, and census_check counts
 * everything again from the structures and compares.
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_CENSUS_H
#define KEDGE_ALLOC_CENSUS_H

#include "alloc/heap/records.h"

/* Figures of one heap, or of all heaps of a device (-1: of all devices). */
void census_heap(const struct heap *heap, struct pool_stats *ret);
void census_device(struct pool *pool, int device, struct pool_stats *ret) POOL_LOCKED;

/* The first broken invariant, NULL = none. */
const char *census_check(struct pool *pool) POOL_LOCKED;

#endif

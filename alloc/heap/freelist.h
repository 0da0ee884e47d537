/* SPDX-License-Identifier: MIT */
/*
 * freelist.h - the indices of free blocks: one struct bestfit per class of free block in a heap.
 *
 *     small, clean   may be handed to anybody
 *     per stream     freed on that stream: its own at once, others' when the point has passed
 *     fragments         of an arena, clean or of a stream: no whole slot lies inside. Taken first, so that whole slots stay
 *                    whole and can move (remap.h). Of a large plain segment: less than a granule. Taken last, on a full
 *                    device, so that the segment can go back when the block that it was made for has died
 *     decommitted    addresses of a mapped range that have no storage
 *     idle           hinted blocks that were freed and still stand on their handle
 *     sealed         of segments that were shown to another process: in the books, never looked at
 *
 * Free neighbours of one class are one block. What is in the free cache (freecache.h) is in none of these.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_FREELIST_H
#define KEDGE_ALLOC_FREELIST_H

#include "alloc/heap/records.h"

/* Puts a block that is in no index into state FREE with class `stream` and `point`, joined with the free neighbours of
 * its class, and into its index. Returns the block that it is now part of. */
uint32_t freelist_put(
        struct pool *pool, uint32_t index, uint32_t stream, uint64_t point) POOL_LOCKED;

/* The same for DECOMMITTED; a gap at the top of its range leaves the range. */
void freelist_put_decommitted(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Takes a FREE, DECOMMITTED or IDLE block out of its index; it is BUSY then. */
void freelist_pull(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Takes [base + skip, base + skip + size) of a FREE block, BUSY; what is left over stays FREE. Needs two records. */
uint32_t freelist_cut(struct pool *pool, uint32_t index, uint64_t skip, uint64_t size) POOL_LOCKED;

/* Cuts [base + skip, base + skip + size) out of a BUSY block, which is that piece then; what is left over goes back as FREE
 * of its class. Needs two records. */
uint32_t freelist_carve(
        struct pool *pool, uint32_t index, uint64_t skip, uint64_t size) POOL_LOCKED;

#endif

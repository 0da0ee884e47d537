/* SPDX-License-Identifier: MIT */
/*
 * freelist.h - the indices of free blocks: one struct bestfit per class of free block in a heap.
 *
 *     small, clean   idle: available to every stream
 *     per stream     freed on that stream: available there at once, elsewhere when the point has
 *                    passed
 *     fragments      of an arena, idle or of a stream: contain no whole slot. Taken first, so that
 *                    whole slots stay whole and can move (remap.h). Of a large plain segment: less
 *                    than a granule. Taken last, on a full device, so that the segment can be
 *                    returned when the block that it was made for is freed
 *     decommitted    addresses of a mapped range that have no storage
 *     idle           hinted blocks that were freed and still have their handle
 *     sealed         of segments that were exported to another process: counted, never searched
 *
 * Free neighbours of one class form one block. Blocks in the free cache (freecache.h) are in none
 * of these.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_FREELIST_H
#define KEDGE_ALLOC_FREELIST_H

#include "alloc/heap/records.h"

/* Puts a block that is in no index into state FREE with class `stream` and `point`, merges it with
 * the free neighbours of its class, and indexes it. Returns the merged block. */
uint32_t freelist_put(
        struct pool *pool, uint32_t index, uint32_t stream, uint64_t point) POOL_LOCKED;

/* The same for DECOMMITTED; a gap at the top of its range is removed from the range. */
void freelist_put_decommitted(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Takes a FREE, DECOMMITTED or IDLE block out of its index; it becomes BUSY. */
void freelist_pull(struct pool *pool, uint32_t index) POOL_LOCKED;

/* The free block of a class whose point is the earliest, if it needs this point or an earlier one;
 * 0 = none does. */
uint32_t freelist_passed(
        const struct pool *pool, const struct heap_stream *class, uint64_t point) POOL_LOCKED;

/* Exchanges the indices of two classes of a heap; the caller names the streams of the blocks
 * anew. */
void freelist_swap(struct heap_stream *a, struct heap_stream *b);

/* Takes [base + skip, base + skip + size) of a FREE block, BUSY; the rest stays FREE. Needs two
 * records. */
uint32_t freelist_cut(struct pool *pool, uint32_t index, uint64_t skip, uint64_t size) POOL_LOCKED;

/* Cuts [base + skip, base + skip + size) out of a BUSY block, which becomes that piece; the rest
 * goes back as FREE of its class. Needs two records. */
uint32_t freelist_carve(
        struct pool *pool, uint32_t index, uint64_t skip, uint64_t size) POOL_LOCKED;

#endif

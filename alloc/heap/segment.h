/* SPDX-License-Identifier: MIT */
/*
 * segment.h - segments: ranges of device addresses that hold blocks; creation, extension, removal,
 * death with their context.
 *
 * Does not call the driver: the caller gets the memory and returns it. An address finds its segment
 * by granules.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_SEGMENT_H
#define KEDGE_ALLOC_SEGMENT_H

#include "alloc/heap/records.h"

#include <stddef.h>

static inline struct segment *segment_at(const struct pool *pool, uint32_t index)
{
    return (struct segment *)(void *)pool->segments.span.base + index;
}

/* The number of the segment with this place in heap.whole. */
static inline uint32_t segment_number(const struct pool *pool, const struct order_node *place)
{
    const char *at = (const char *)place - offsetof(struct segment, place);

    return (uint32_t)((size_t)(at - pool->segments.span.base) / sizeof(struct segment));
}

/* Adds memory of the driver, as one BUSY block over all of it (PLAIN), or as a range without
 * blocks. 0, -ENOMEM. */
int segment_add(struct pool *pool, struct heap *heap, const struct segment *like,
        uint32_t *ret_segment) POOL_LOCKED;

/* Takes a segment out of every structure: blocks, lookup, lists. No block of it may be LIVE or in a
 * chain. The caller returns the memory to the driver. */
void segment_remove(struct pool *pool, uint32_t number) POOL_LOCKED;

/* A segment's owner was destroyed: lookups do not find it any more, its blocks count as freed and
 * leave all chains and indices (KEPT). The records stay, for threads that are busy with them, until
 * segment_remove. */
void segment_kill(struct pool *pool, uint32_t number) POOL_LOCKED;

/* Extends the blocks of a range by `size` bytes at its top: a BUSY block. 0 = no memory or no
 * addresses left. */
uint32_t segment_extend(struct pool *pool, uint32_t number, uint64_t size) POOL_LOCKED;

#endif

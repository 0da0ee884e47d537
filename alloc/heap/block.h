/* SPDX-License-Identifier: MIT */
/*
 * block.h - pieces of a segment: made, cut, joined, looked up; the chains that freed ones wait in.
 *
 * Neighbours by address are linked, and each begins at an entry of its segment's `starts`. A block that is cut or joined is
 * in no index (freelist.h). A chain links blocks that wait for a fence or for the driver.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 * Prefixes: slots_.
 */
#ifndef KEDGE_ALLOC_BLOCK_H
#define KEDGE_ALLOC_BLOCK_H

#include "alloc/heap/records.h"
#include "alloc/heap/streams.h"

static inline struct block *block_at(const struct pool *pool, uint32_t index)
{
    /* as slab_at, with a record size that the compiler knows */
    return (struct block *)(void *)pool->blocks.span.base + index;
}

static inline struct segment *block_segment(const struct pool *pool, const struct block *block)
{
    return (struct segment *)(void *)pool->segments.span.base + block->segment;
}

/* Whole slots of a segment. */
struct slots {
    devptr_t lo, hi; /* hi == lo: none */
};

/* Those between two addresses; in a block. */
static inline struct slots slots_between(const struct segment *segment, devptr_t from, devptr_t to)
{
    devptr_t lo = round_up(from, segment->slot);

    return (struct slots){lo, max_of(lo, to & ~(segment->slot - 1))};
}

static inline struct slots slots_in(const struct segment *segment, const struct bestfit_node *node)
{
    return slots_between(segment, node->base, node->base + node->size);
}

static inline uint64_t slots_bytes(struct slots slots)
{
    return slots.hi - slots.lo;
}

/* The block that contains `ptr`, whatever its state; 0 = none. */
uint32_t block_find(const struct pool *pool, devptr_t ptr) POOL_LOCKED;

/* Makes a BUSY block of a segment behind block `after` (0 = the first). 0 = no memory. */
uint32_t block_new(struct pool *pool, uint32_t number, uint32_t after, devptr_t base,
        uint64_t size) POOL_LOCKED;

/* A block that is in no index and no chain leaves its segment; what is after it moves up in the order only. */
void block_delete(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Cuts a block that is in no index: it keeps `size` bytes, the rest becomes a new block in the same state and class,
 * whose index is returned. Needs one record (slab_prepare). */
uint32_t block_cut(struct pool *pool, uint32_t index, uint64_t size) POOL_LOCKED;

/* Joins a block with the one after it, neither in an index: sizes add up, the greater point stays. */
void block_join(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Names or un-names a stream in a block, so that a stream that is gone is forgotten when nobody names it. */
static inline void block_name_stream(struct pool *pool, struct block *block, uint32_t stream)
{
    if (block->stream == stream)
        return;
    if (block->stream)
        ((struct stream *)streams_at(pool, block->stream))->refs--;
    if (stream)
        ((struct stream *)streams_at(pool, stream))->refs++;
    block->stream = stream;
}

/* What is told of a block, as it is now, of no rule. */
static inline struct outcome block_outcome(
        const struct pool *pool, const struct block *block, enum outcome_kind kind, uint64_t seq)
{
    const struct heap *heap = block_segment(pool, block)->heap;

    return (struct outcome){
            .kind = kind,
            .heap = heap->kind,
            .ptr = block->node.base,
            .size = block->node.size - block->slack,
            .rounded = block->node.size,
            .seq = seq,
            .alloc_seq = block->seq,
            .stream = block->stream ? streams_at(pool, block->stream)->key : 0,
            .reserved = heap->device->reserved,
            .reserved_high = heap->device->reserved_high,
            .rule = -1,
            .device = heap->device->number,
    };
}

/* Appends a block to a chain; to the open one: PENDING from now on. */
static inline void block_chain(
        struct pool *pool, struct fence_chain *chain, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    uint32_t *tail = &block_at(pool, chain->tail)->chain;

    fence_chain_push(chain, index, block->node.size, &block->chain, tail);
}

/* What a freed block holds until its epoch has passed counts as pending: its storage, or managed memory wherever its pages are. */
static inline bool block_is_awaited(const struct pool *pool, const struct block *block)
{
    return !(block->flags & BLOCK_GONE) || block_segment(pool, block)->kind == SEGMENT_MANAGED;
}

/* Whose memory it is. */
static inline struct device *block_device(const struct pool *pool, const struct block *block)
{
    return block_segment(pool, block)->heap->device;
}

static inline void block_push_open(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);

    block->state = BLOCK_PENDING;
    if (block_is_awaited(pool, block))
        block_segment(pool, block)->heap->tally.pending += block->node.size;
    block_chain(pool, &block_device(pool, block)->open, index);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * block.h - blocks of a segment: creation, cut, merge, lookup; the chains of freed blocks that
 * wait.
 *
 * Neighbours by address are linked, and each block has an entry in its segment's `starts`. A block
 * must be in no index (freelist.h) when it is cut or merged. A chain links blocks that wait for a
 * fence or for the driver.
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

/* Whole slots between two addresses; slots_in: inside a block. */
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

/* Makes a BUSY block in a segment, after block `after` (0 = as the first). 0 = no memory. */
uint32_t block_new(struct pool *pool, uint32_t number, uint32_t after, devptr_t base,
        uint64_t size) POOL_LOCKED;

/* Removes a block, which is in no index and no chain, from its segment; later blocks keep their
 * addresses. */
void block_delete(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Cuts a block that is in no index: it keeps `size` bytes, the rest becomes a new block of the same
 * state and class, whose index is returned. Needs one record (slab_prepare). */
uint32_t block_cut(struct pool *pool, uint32_t index, uint64_t size) POOL_LOCKED;

/* Merges a block with the next one, neither in an index: sizes add up, the greater point
 * remains. */
void block_join(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Sets the stream of a block and counts the reference, so that a destroyed stream is forgotten when
 * no block names it. */
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

/* The outcome for the block's current state, without a rule. */
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

/* Appends a block to a chain; in the open chain it becomes PENDING. */
static inline void block_chain(
        struct pool *pool, struct fence_chain *chain, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    uint32_t *tail = &block_at(pool, chain->tail)->chain;

    fence_chain_push(chain, index, block->node.size, &block->chain, tail);
}

/* True if the freed block's memory counts as pending until its epoch has passed: its storage, or
 * managed memory wherever its pages are. */
static inline bool block_is_awaited(const struct pool *pool, const struct block *block)
{
    return !(block->flags & BLOCK_GONE) || block_segment(pool, block)->kind == SEGMENT_MANAGED;
}

/* The device of the block's memory. */
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

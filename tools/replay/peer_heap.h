/* SPDX-License-Identifier: MIT */
/*
 * peer_heap.h - the common parts of models of allocators: segments cut into blocks, sets of free
 * blocks.
 *
 * Each model itself decides how it rounds, cuts, joins and asks the driver.
 *
 *     segment   [ block ]─[ block ]─[ block ]        prev, next: by address
 *     set       (stream, pool) ─► free blocks by (size, address)
 *     line      blocks that were freed and wait for an event, oldest first
 *
 * Blocks and sets are small numbers, block 0 is none. The models do not share the pool's own index
 * (alloc/index/bestfit.h): it knows multiples of 512 bytes only, and they would share its faults.
 * Threads: none. Memory: vec.h.
 * Prefixes: peer_.
 */
#ifndef KEDGE_TOOLS_PEER_HEAP_H
#define KEDGE_TOOLS_PEER_HEAP_H

#include <stdbool.h>

#include "tools/base/keytable.h"
#include "tools/replay/peer.h"

struct peer_block {
    uint64_t size;
    devptr_t base;
    uint32_t prev, next; /* in its segment, 0 = none */
    uint32_t set;        /* the set in which it is free, or was last */
    uint32_t stream;     /* the model's */
    uint64_t fence;      /* the model's: a cut copies it, a join keeps the later one */
    bool is_free;
};

struct peer_list {
    uint32_t *items;
    size_t count, room;
};

/* A block that waits for an event. */
struct peer_waiting {
    uint64_t fence;
    uint32_t block;
};

struct peer_line {
    struct peer_waiting *items;
    size_t first, count, room; /* items[first .. count) */
};

struct peer_heap {
    const struct peer_device *device;
    struct peer_block *blocks;
    size_t block_count, block_room;
    uint32_t spare;          /* unused records, linked through `next` */
    struct peer_list *lists; /* of free blocks, per set */
    struct peer_line *lines; /* per set */
    size_t set_count, set_room, line_room;
    struct keytable sets; /* (stream, pool) */
    uint32_t *owners;     /* caller's block -> ours, 0 = not live */
    size_t owner_room;
};

void peer_heap_init(struct peer_heap *heap, const struct peer_device *device);
void peer_heap_done(struct peer_heap *heap);

/* `close` of a peer that owns only its heap; other peers' `close` ends with it. */
void peer_close(void *self);

static inline struct peer_block *peer_block(const struct peer_heap *heap, uint32_t index)
{
    return &heap->blocks[index];
}

/* The set of free blocks of a stream and pool; made if missing. */
uint32_t peer_set(struct peer_heap *heap, uint32_t stream, uint32_t pool);

/* Adds a segment of the driver's: one block, not free, without neighbours. */
uint32_t peer_segment(struct peer_heap *heap, devptr_t base, uint64_t size, uint32_t set);

/* Allocates such a segment from the driver; its block belongs to the stream. */
uint32_t peer_grow(struct peer_heap *heap, uint64_t bytes, uint32_t set, uint32_t stream);

/* Removes a block that is all of its segment and not free: the driver has it back. */
void peer_drop(struct peer_heap *heap, uint32_t index);

/* The smallest free block of at least `size` bytes, of equal ones the lowest; 0 = none. */
uint32_t peer_find(const struct peer_heap *heap, uint32_t set, uint64_t size);
/* The next free block of the set in (size, address) order; 0 = none. */
uint32_t peer_after(const struct peer_heap *heap, uint32_t index);

/*
 * Puts a block into its set, takes it out. Pointers to blocks stay valid; peer_segment and peer_cut
 * move blocks.
 */
void peer_put(struct peer_heap *heap, uint32_t index);
void peer_pull(struct peer_heap *heap, uint32_t index);

/*
 * Cuts a block that is not free: it keeps the first `size` bytes. Returns the rest: a new block,
 * not free, in the same set.
 */
uint32_t peer_cut(struct peer_heap *heap, uint32_t index, uint64_t size);

/* Joins the block after it into this one; neither is free. */
void peer_join(struct peer_heap *heap, uint32_t index);

/*
 * Inserts a block, not free, before `end`, which moves up by `size`: a growing segment ends with an
 * empty block.
 */
uint32_t peer_extend(struct peer_heap *heap, uint32_t end, uint64_t size);

/* Makes handles of `page` bytes and maps them from `at` on, `bytes` in all. */
void peer_map(struct peer_heap *heap, devptr_t at, uint64_t bytes, uint64_t page);

/*
 * For a segment that grows by handles of `page` bytes: returns a block of at least `size` bytes at
 * its end, not free: the free one there, grown by what it lacks, or a new one.
 */
uint32_t peer_stretch(struct peer_heap *heap, uint32_t end, uint64_t size, uint64_t page);

/* Puts a block into its set, joined with its neighbours that are free in that set. */
void peer_free(struct peer_heap *heap, uint32_t index);

/* Maps the caller's block to ours at its birth; peer_disown returns and removes it at its death. */
void peer_own(struct peer_heap *heap, uint32_t number, uint32_t index);
uint32_t peer_disown(struct peer_heap *heap, uint32_t number);

/* The block waits for all work submitted to the stream so far. */
void peer_wait(struct peer_heap *heap, uint32_t set, uint32_t index, uint32_t stream);
/* Takes the oldest block out of a set's line if its event, which is queried, has passed; else 0. */
uint32_t peer_passed(struct peer_heap *heap, uint32_t set);
/*
 * Frees the blocks of a set's line whose events have passed: queries each event (`all`), or from
 * the oldest on until one has not passed.
 */
void peer_free_passed(struct peer_heap *heap, uint32_t set, bool all);

#endif

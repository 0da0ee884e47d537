/* SPDX-License-Identifier: MIT */
/*
 * swapqueue.h - the decided but unfinished moves of a set, in the order in which they have to be
 * made.
 *
 * A shadow set has none: decided moves count as done. Does not call the driver.
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_SWAPQUEUE_H
#define KEDGE_ALLOC_SWAPQUEUE_H

#include "alloc/heap/swapset.h"
#include "alloc/hints/evict.h"

/* Queues all decided moves. False: no memory, and all decisions are taken back. */
bool swapqueue_push(
        struct pool *pool, struct swap_set *set, const struct evict_moves *moves) POOL_LOCKED;

/* Queues moves out so that up to `want` bytes become free. Returns the bytes queued. */
uint64_t swapqueue_make_room(struct pool *pool, struct swap_set *set, uint64_t want) POOL_LOCKED;

/* The edge has come after which a hint releases the block: queues its move out. */
void swapqueue_send(struct pool *pool, struct swap *swap) POOL_LOCKED;

/* Drops queued moves that have not begun: the states of all blocks are decided anew. */
void swapqueue_reset(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* Updates the flag that pool_evict_has_more reads: moves wait in some set. */
void swapqueue_tell_ahead(struct pool *pool) POOL_LOCKED;

#endif

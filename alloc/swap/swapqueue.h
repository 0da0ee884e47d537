/* SPDX-License-Identifier: MIT */
/*
 * swapqueue.h - the moves of a set that were decided and are not done, in the order in which they have to be done.
 *
 * A set on paper has none: what was decided counts as done. Does not call the driver. Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_SWAPQUEUE_H
#define KEDGE_ALLOC_SWAPQUEUE_H

#include "alloc/heap/swapset.h"
#include "alloc/hints/evict.h"

/* All that was decided. False: no memory, and nothing of it is decided any more. */
bool swapqueue_push(
        struct pool *pool, struct swap_set *set, const struct evict_moves *moves) POOL_LOCKED;

/* What goes out so that up to `want` bytes become free. Bytes that are queued. */
uint64_t swapqueue_make_room(struct pool *pool, struct swap_set *set, uint64_t want) POOL_LOCKED;

/* The edge has come after which a hint releases the block: it goes out. */
void swapqueue_send(struct pool *pool, struct swap *swap) POOL_LOCKED;

/* Nothing that is queued and not begun is done: where everything is is decided anew. */
void swapqueue_reset(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* Some moves wait, in any set: what pool_evict_has_more reads. */
void swapqueue_tell_ahead(struct pool *pool) POOL_LOCKED;

#endif

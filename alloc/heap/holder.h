/* SPDX-License-Identifier: MIT */
/*
 * holder.h - the state machine behind an address that a hint speaks of.
 *
 * A hinted allocation has a holder from birth until its address is quiet after the program's free. The holder knows which
 * rule, which edge, and how far the storage has gone. Shadow holders take the same path on paper only, in one go.
 *
 *            edge is due          readers ended,        fence passed,
 *                                 waits for a fence     storage or access removed
 *     LIVE ───────────────► DEAD ───────────────► LIMBO ───────────────► HUSK
 *       │                     │                     │                     │
 *       └──── program's free ─┴─────────────────────┴─────────────────────┴──► GONE
 *
 * One that holds instead goes LIVE ── program's free ──► HELD ── edge ──► LET_GO ── readers ended ──► dropped; its block is KEPT
 * meanwhile by a pin (pin.h).
 *
 * One whose block goes out and comes in stays LIVE (swapset.h); that of a hint that releases waits for its edge in the list first.
 *
 * A removal that the driver refuses ends in LIMBO: the holder is dropped, and the block is the program's as before.
 *
 * The program's free succeeds exactly once in every state (R58). In DEAD and LIMBO it is only noted: the release goes its
 * way, and GONE comes with the removal. The address is handed out again only after GONE and a fence that was recorded
 * after the free.
 *
 * Does not call the driver: reclaim.c makes the calls that a step needs. Threads: the caller holds the pool lock.
 * Rules: R57 R58 R66.
 */
#ifndef KEDGE_ALLOC_HOLDER_H
#define KEDGE_ALLOC_HOLDER_H

#include "alloc/heap/swapset.h"

/* What happens to a holder. */
enum holder_event {
    HOLDER_EVENT_DUE,   /* its edge passed */
    HOLDER_EVENT_QUIET, /* the grace period is over: a fence recorded from now on covers every use */
    HOLDER_EVENT_REMOVED, /* that fence has passed, storage or access is gone */
    HOLDER_EVENT_FREE,    /* the program's own free */
    HOLDER_EVENT_COUNT,
};

/* Moves the holder by one event: 0, or -EINVAL if the event cannot happen in this state (a second free, an edge after the
 * free, ...); the holder is unchanged then. */
int holder_step(struct holder *holder, enum holder_event event);

/* True if the program holds the address and new work must not touch it: DEAD, LIMBO or HUSK, not freed. */
bool holder_is_released(const struct holder *holder);

/* ── the records of a pool ── */

/* Does the block need storage, as far as the books go? What a hint has marked dead does not, from then on. */
static inline bool holder_is_stored(const struct pool *pool, const struct block *block)
{
    const struct holder *holder;

    if (!block->holder)
        return true;
    holder = holder_at(pool, block->holder);
    if (holder->swap)
        return swapset_is_stored(swap_at(pool, holder->swap));
    return holder->mode == HINT_SHADOW || holder->state == HOLDER_LIVE;
}

/* Holders: the list of those that wait for an edge, HELD ones included. */
void holder_expect(struct pool *pool, uint32_t index) POOL_LOCKED;
void holder_unexpect(struct pool *pool, uint32_t index) POOL_LOCKED;
/* The address is quiet, or the block unknown: the holder goes. */
void holder_drop(struct pool *pool, struct block *block) POOL_LOCKED;
/* Marks the range of a holder's block as released for pool_touch, or not any more. */
void holder_mark_released(struct pool *pool, const struct block *block, int by) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * holder.h - the state machine of a hinted block.
 *
 * A hinted block has a holder from its allocation until the device is done with its address after
 * the program's free. The holder records the rule, the edge, and how far the release of the storage
 * is. In shadow the same path is only recorded, at once.
 *
 *            edge is due          readers ended,        fence passed,
 *                                 waits for a fence     storage or access removed
 *     LIVE ───────────────► DEAD ───────────────► LIMBO ───────────────► HUSK
 *       │                     │                     │                     │
 *       └──── program's free ─┴─────────────────────┴─────────────────────┴──► GONE
 *
 * The holder of a hint that holds goes LIVE ── program's free ──► HELD ── edge ──► LET_GO ──
 * readers ended ──► dropped; meanwhile a pin keeps its block KEPT (pin.h).
 *
 * The holder of an evictable block stays LIVE (swapset.h); for a hint that releases, it first waits
 * for its edge in the list.
 *
 * A removal that the driver refuses ends in LIMBO: the holder is dropped, and the program keeps the
 * block as before.
 *
 * The program's free succeeds exactly once in every state (R58, one free succeeds). In DEAD and
 * LIMBO it is only recorded: the release goes on, and GONE follows the removal. The address is
 * reused only after GONE and a fence that was recorded after the free.
 *
 * Does not call the driver: reclaim.c makes the calls that a step needs.
 * Threads: the caller holds the pool lock.
 * Rules: R57 R58 R66.
 */
#ifndef KEDGE_ALLOC_HOLDER_H
#define KEDGE_ALLOC_HOLDER_H

#include "alloc/heap/swapset.h"

/* Events of a holder. */
enum holder_event {
    HOLDER_EVENT_DUE, /* its edge passed */
    /* the grace period is over: a fence recorded from now on covers every use */
    HOLDER_EVENT_QUIET,
    HOLDER_EVENT_REMOVED, /* that fence has passed; storage or access is removed */
    HOLDER_EVENT_FREE,    /* the program's own free */
    HOLDER_EVENT_COUNT,
};

/* Applies one event to the holder: 0, or -EINVAL if the event cannot happen in this state (a second
 * free, an edge after the free, ...); the holder is then unchanged. */
int holder_step(struct holder *holder, enum holder_event event);

/* True if the program holds the address and new work must not touch it: DEAD, LIMBO or HUSK, not
 * freed. */
bool holder_is_released(const struct holder *holder);

/* ── the records of a pool ── */

/* Does the block count as stored? A block that a hint has marked dead does not. */
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

/* The list of holders that wait for an edge, HELD ones included. */
void holder_expect(struct pool *pool, uint32_t index) POOL_LOCKED;
void holder_unexpect(struct pool *pool, uint32_t index) POOL_LOCKED;
/* Drops the holder: the device is done with the address, or the block is unknown. */
void holder_drop(struct pool *pool, struct block *block) POOL_LOCKED;
/* Marks the range of a holder's block as released for pool_touch, or unmarks it. */
void holder_mark_released(struct pool *pool, const struct block *block, int by) POOL_LOCKED;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * holder.h - the state machine behind an address that a hint speaks of.
 *
 * A hinted allocation has a holder from birth until the program's free (and its address is quiet). The holder knows
 * which rule, which edge, and how far the storage has gone. Shadow holders take the same path on paper only.
 *
 *            edge is due          readers ended,        fence passed,
 *                                 fence recorded        storage or access removed
 *     LIVE ───────────────► DEAD ───────────────► LIMBO ───────────────► HUSK
 *       │                     │                     │                     │
 *       └──── program's free ─┴─────────────────────┴─────────────────────┴──► GONE
 *
 * The program's free succeeds exactly once in every state (R58). In DEAD and LIMBO it is only noted: the release goes its
 * way, and GONE comes after HUSK. The address is handed out again only after GONE and a fence recorded after the free.
 *
 * Pure: no driver, no lock, no memory of its own; pool.c makes the calls that a step needs.
 * Threads: the caller holds the pool lock. Rules: R57 R58 R66.
 */
#ifndef KEDGE_ALLOC_HOLDER_H
#define KEDGE_ALLOC_HOLDER_H

#include "alloc/types.h"

/* What happens to a holder. */
enum holder_event {
    HOLDER_EVENT_DUE,      /* its edge passed */
    HOLDER_EVENT_FENCED,   /* the grace period is over and a fence is recorded */
    HOLDER_EVENT_UNFENCED, /* the fence could not be recorded: one step back */
    HOLDER_EVENT_REMOVED,  /* fence passed, storage or access is gone */
    HOLDER_EVENT_FREE,     /* the program's own free */
    HOLDER_EVENT_COUNT,
};

struct holder {
    devptr_t base;
    uint64_t size;      /* bytes requested */
    uint64_t alloc_seq; /* tells one tenant of an address from the next */
    uint32_t block;     /* index of the block record */
    int rule;
    uint32_t due_anchor;
    uint32_t prev, next; /* list of the rule's holders that are not due yet */
    uint32_t batch_next; /* list of a batch, or of holders whose news was not told */
    enum holder_state state;
    enum hint_mode mode;
    bool freed; /* the program's free has come */
    bool told;  /* its HUSK was reported */
};

/* Moves the holder by one event: 0, or -EINVAL if the event cannot happen in this state (a second free, an edge after the
 * free, ...); the holder is unchanged then. */
int holder_step(struct holder *holder, enum holder_event event);

/* True if the range must not be touched by new work: DEAD, LIMBO or HUSK. */
bool holder_is_released(const struct holder *holder);

#endif

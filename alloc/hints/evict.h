/* SPDX-License-Identifier: MIT */
/*
 * evict.h - decides which blocks are in device memory when not all fit: from order of use and cap
 * to moves.
 *
 * One set per hint and device. Its units are blocks, or stand for one: the engine moves storage
 * (swap.h), the tools move nothing, and both get the same decisions. Pure: no driver, no clock, no
 * lock of its own.
 *
 *     evict_add ─► out ◄──── moves ────► in
 *     evict_use (the units of one call) ─► units that must go out and come in for the call, then
 *                                          moves that may begin ahead of later calls
 *     evict_step ─► the order of the step that ends is the basis for planning the next one
 *
 * Order. Each unit that a call names is a position of its step; a call whose units have all been
 * named by the last call with positions has none. Before a complete step was seen, next uses are
 * unknown: victims are chosen in the order in which they were made, as in the system that this
 * follows (ColossalAI #878), under the cap of the warm-up. Afterwards, if a unit has been used n
 * times in a step, its next use is its position n + 1 in the order of the last step, with `cyclic`
 * its first one in the next step if there is none; ties go by the order in which units were made.
 * The time before the first step has no order, nor has a step of more than a million positions or
 * without any. The victims of lru and fifo do not depend on it, so these have no warm-up and no
 * plan.
 *
 * Plan. Decisions are kept per call. They are replayed, at a cost independent of the number of
 * units, in a step that begins with the same units in and the same order as the step in which they
 * were made; a call that the order does not have at this place, or a move that cannot be made, ends
 * the replay, and the rest of the step is decided anew. Steps may begin in turn with different
 * units in (n units used in a circle: with as many as n - 1), so the last 64 beginnings have a plan
 * each. #878 keeps its decisions per position only, and fails 214 of 732 short orders.
 *
 * A unit that is made and freed within a step replaces the one that was made as the same number in
 * the step before, if that was freed and had the same size.
 *
 * Ahead. A move of the plan may begin `prefetch` calls before its own, and one more each time
 * evict_late reports that it came late, but in the same step, in the order of the plan, never over
 * the cap, and only after the last use of the unit whose space it takes. So it adds no volume.
 *
 * Units: bytes. Errors: -ENOMEM, -ENOSPC.
 * Threads: the caller has a lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_EVICT_H
#define KEDGE_ALLOC_EVICT_H

#include "alloc/base/rule.h"

struct evict;

struct evict_opts {
    uint64_t cap; /* bytes of units that are in at once, at any time */
    /* FARTHEST: the cap while the order is unknown, unless one call needs more; 0 = cap */
    uint64_t warmup_cap;
    enum rule_victim victim;
    uint32_t prefetch; /* calls ahead */
    bool cyclic;
    /* the order of the first step, if known: numbers of units, 0 = the first one made; one call
     * each. Owned by the caller, until that step begins */
    const uint32_t *order;
    uint32_t order_count;
};

int evict_new(const struct evict_opts *opts, struct evict **ret_set);
void evict_free(struct evict *set);

/* Changes the caps; units beyond them go out with the next uses. */
void evict_set_cap(struct evict *set, uint64_t cap, uint64_t warmup_cap);

/* Adds a unit; its number is never 0. It is out until evict_use brings it in. 0, or -ENOMEM. */
int evict_add(struct evict *set, uint64_t size, uint32_t *ret_unit);
void evict_remove(struct evict *set, uint32_t index);

/* Holds a unit: it does not go out until it is let go as often. For pins and for calls in progress.
 * A use may bring it in. */
void evict_hold(struct evict *set, uint32_t index);
void evict_let_go(struct evict *set, uint32_t index);

/* A step begins. */
void evict_step(struct evict *set);

struct evict_move {
    uint32_t unit;
    bool in;
};

/* The moves of a use, in the order in which they have to be made. Valid until the next call. */
struct evict_moves {
    const struct evict_move *move;
    uint32_t count;  /* moves that the call needs */
    uint32_t ahead;  /* moves after those that may be made while later calls run */
    uint64_t needed; /* -ENOSPC: bytes that must be in at once, */
    uint64_t room;   /* and bytes available for them */
};

/* A call uses these units at once; a unit named twice counts once. They count as in from here on,
 * and those that `ret` moves out count as out. 0; -ENOSPC: they do not fit under the cap together
 * with held units, and nothing has changed; -ENOMEM: likewise. */
int evict_use(struct evict *set, const uint32_t *units, uint32_t count, struct evict_moves *ret);

/* A move was not made: the unit is in its previous state. */
void evict_undo(struct evict *set, uint32_t index);

/* The call had to wait for this unit. */
void evict_late(struct evict *set, uint32_t index);

/* Moves out at least `want` bytes, although the cap does not require it, farthest next use first:
 * another part of the device has no space. The moves are as those of evict_use; returns their
 * bytes. */
uint64_t evict_make_room(struct evict *set, uint64_t want, struct evict_moves *ret);

/* Brings in units that are out, earliest next use first, until one does not fit under the cap;
 * nothing goes out for it. As evict_make_room. */
uint64_t evict_bring(struct evict *set, struct evict_moves *ret);

bool evict_is_in(const struct evict *set, uint32_t unit);

/* The states of units, with the names of ColossalAI's manager. */
enum evict_state {
    EVICT_FREE,                /* out */
    EVICT_COMPUTE,             /* in, used by the last call */
    EVICT_HOLD,                /* in, not used in this step */
    EVICT_HOLD_AFTER_FORWARD,  /* in, used in this step, and again later in it, or unknown */
    EVICT_HOLD_AFTER_BACKWARD, /* in, used in this step for the last time */
    EVICT_STATE_COUNT,
};

/* The figures of a set. Counts of the running step begin at 0 with it. */
struct evict_figures {
    uint64_t units, bytes;        /* all of them */
    uint64_t in_bytes;            /* that are in */
    uint64_t step;                /* steps begun */
    uint64_t uses;                /* positions of this step */
    uint64_t moved_in, moved_out; /* bytes, in this step, first moves in included */
    bool is_planned;              /* the order is known */
    bool is_replayed;             /* this step has followed the plan so far */
    uint64_t looks; /* units and entries that decisions have examined since the set was made */
    uint64_t state_bytes[EVICT_STATE_COUNT];
};

void evict_figures(const struct evict *set, struct evict_figures *ret);

/* A lower bound for any order of moves, for repeated steps of the learnt order under the cap: bytes
 * in per step, if units could be cut freely and the farthest next use went first (Belady). A unit
 * that was made or freed in the step is made anew in each: its first move in does not count, and
 * after its last use it takes no space. 0 if no order is known, or without memory. Slow: it plays
 * steps until one begins like an earlier one. */
uint64_t evict_bound(const struct evict *set);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * evict.h - which blocks stand on the device, when not all of them fit: order of use and cap to moves.
 *
 * One set per hint and device. Its units are blocks, or what stands for one: the engine moves storage (swap.h), the tools
 * move nothing, and both get the same decisions. Pure: no driver, no clock, no lock of its own.
 *
 *     evict_add ─► out ◄──────── moves ───────► in          each evict_use says which units must go out and come in
 *     evict_use (the units of one call) ─► moves that the call needs, then moves that may begin ahead of later calls
 *     evict_step ─► the order of the step that ends is what the next one is planned by
 *
 * Order. Each unit that a call names is a position of its step; a call whose units have all been named by the last call that has
 * positions has none. While no step has been seen whole, nothing is known of next uses: victims go in the order in which
 * they were made, as in the system that this follows (ColossalAI #878), under the cap of the warm-up. Afterwards, if a unit
 * has been used n times in a step, its next use is its position n + 1 in the order of the last step, with `cyclic` its first
 * one in the next step if there is none; ties go by the order in which units were made. What comes before the first step has no
 * order, nor has a step of more than a million positions or without any. The victims of lru and fifo do not depend on it, so
 * these have no warm-up and no plan.
 *
 * Plan. Decisions are kept per call. They are replayed, at a cost that does not depend on the number of units, in a step
 * that begins with the same units in and the same order as the one in which they were made; a call that the order does not
 * have at this place, or a move that cannot be made, ends the replay, and the rest of the step is decided anew. Steps may begin in
 * turn with different units in (n units used in a circle: with as many as n - 1), so the last 64 beginnings have a plan each. #878
 * keeps its decisions per position alone, and fails 214 of 732 short orders.
 *
 * A unit that is made and freed within a step takes the place of the one that was made as the same number in the step before,
 * if that is gone and had the same size.
 *
 * Ahead. A move of the plan may begin so many calls before its own as `prefetch` says, and one more each time evict_late
 * tells that it came late, but in the same step, in the order of the plan, never over the cap, and only behind a call later
 * than the last use of what it takes the room of. So it costs no volume.
 *
 * Units: bytes. Errors: -ENOMEM, -ENOSPC. Threads: the caller has a lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_EVICT_H
#define KEDGE_ALLOC_EVICT_H

#include "alloc/base/rule.h"

struct evict;

struct evict_opts {
    uint64_t cap; /* bytes of units that are in at once, at any moment */
    /* FARTHEST: the same while the order is not known, but for a call that needs more; 0 = cap */
    uint64_t warmup_cap;
    enum rule_victim victim;
    uint32_t prefetch; /* calls ahead */
    bool cyclic;
    /* the order of the first step, if it is known: numbers of units, 0 = the one that was made first; one call each. The caller's,
     * until that step begins */
    const uint32_t *order;
    uint32_t order_count;
};

int evict_new(const struct evict_opts *opts, struct evict **ret_set);
void evict_free(struct evict *set);

/* Other caps from now on; what is in beyond them goes out with the next uses. */
void evict_set_cap(struct evict *set, uint64_t cap, uint64_t warmup_cap);

/* A unit is made; its number is never 0. It is out until evict_use brings it in. 0, or -ENOMEM. */
int evict_add(struct evict *set, uint64_t size, uint32_t *ret_unit);
void evict_remove(struct evict *set, uint32_t index);

/* It does not go out until it is let go as often: others rely on it, or a call that is on its way. A use may bring it in. */
void evict_hold(struct evict *set, uint32_t index);
void evict_let_go(struct evict *set, uint32_t index);

/* A step begins. */
void evict_step(struct evict *set);

struct evict_move {
    uint32_t unit;
    bool in;
};

/* What a use asks for. The moves are valid until the next call, in the order in which they have to be made. */
struct evict_moves {
    const struct evict_move *move;
    uint32_t count;  /* without which the call cannot be made */
    uint32_t ahead;  /* that follow those, and may be made while later calls run */
    uint64_t needed; /* -ENOSPC: bytes that must be in at once, */
    uint64_t room;   /* and bytes that could be had for them */
};

/*
 * A call uses these units at once; one that is named twice counts once. From here on they count as in, and what `ret` says has to
 * go as out. 0; -ENOSPC: they do not fit under the cap with what is held, and nothing has changed; -ENOMEM: as if.
 */
int evict_use(struct evict *set, const uint32_t *units, uint32_t count, struct evict_moves *ret);

/* A move was not made: the unit is where it was. */
void evict_undo(struct evict *set, uint32_t index);

/* The call had to wait for this unit. */
void evict_late(struct evict *set, uint32_t index);

/* Bytes out of `want` at least, though the cap does not ask for it, farthest next use first: another part of the device has no
 * room. The moves are as those of evict_use; their bytes. */
uint64_t evict_make_room(struct evict *set, uint64_t want, struct evict_moves *ret);

/* What is out comes in, earliest next use first, until one has no room under the cap; nothing goes out for it. As
 * evict_make_room. */
uint64_t evict_bring(struct evict *set, struct evict_moves *ret);

bool evict_is_in(const struct evict *set, uint32_t unit);

/* Where the units are, as ColossalAI's manager names it. */
enum evict_state {
    EVICT_FREE,               /* out */
    EVICT_COMPUTE,            /* in, of the last call */
    EVICT_HOLD,               /* in, not used in this step */
    EVICT_HOLD_AFTER_FORWARD, /* in, used in this step, and to be used in it again, or nobody knows */
    EVICT_HOLD_AFTER_BACKWARD, /* in, used in this step for the last time */
    EVICT_STATE_COUNT,
};

/* What the set has come to. Counts of the step that is running begin at 0 with it. */
struct evict_figures {
    uint64_t units, bytes; /* all of them */
    uint64_t in_bytes;     /* that are in */
    uint64_t step;         /* how many have begun */
    uint64_t uses;         /* positions of this step */
    uint64_t moved_in,
            moved_out; /* bytes, in this step, first comings of what was never out included */
    bool is_planned;   /* the order is known */
    bool is_replayed;  /* this step goes by the plan so far */
    uint64_t looks;    /* units and entries that decisions have looked at since the set was made */
    uint64_t state_bytes[EVICT_STATE_COUNT];
};

void evict_figures(const struct evict *set, struct evict_figures *ret);

/*
 * What no order of moves can do better than, for steps of the order that was learnt, one like the other, under the cap: bytes in per
 * step, if units could be cut at will and the farthest next use went first (Belady). A unit that was made or freed in the step is
 * made anew in each: its first coming is not counted, and after its last use it takes no room. 0 if no order is known, or no
 * memory. Takes long: it plays steps until one begins as one before.
 */
uint64_t evict_bound(const struct evict *set);

#endif

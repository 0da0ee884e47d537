/* SPDX-License-Identifier: MIT */
/*
 * evict_parts.h - the records of a set of evict.h, and the functions that its files share.
 *
 *     evict_use     units added and removed, steps, uses
 *     evict_order   which call uses which units: learnt, stated, recorded; next uses
 *     evict_turn    the units that are in, the order of victims, moves
 *     evict_plan    decisions of a step, kept and replayed
 *     evict_bound   the lower bound of moves
 *
 * Each uses those below it, except evict_bound. No other file includes this. Units: bytes. Errors:
 * -ENOMEM.
 * Threads: as evict.h.
 * Prefixes: array_, evict_.
 */
#ifndef KEDGE_ALLOC_EVICT_PARTS_H
#define KEDGE_ALLOC_EVICT_PARTS_H

#include "alloc/base/meta.h"
#include "alloc/hints/evict.h"

#include <errno.h>
#include <string.h>

enum {
    EVICT_ARRAY_FIRST = 16,
    /* a step of more positions is not learnt, and all plans together have no more */
    EVICT_ORDER_MAX = 1 << 20,
    EVICT_PLANS = 64,
};

/* Flag in an entry of an order: the last unit of its call. */
#define EVICT_CALL_END (UINT32_C(1) << 31)

struct array {
    void *at;
    uint32_t count, room;
    uint32_t record; /* bytes */
};

struct unit {
    uint64_t size;
    uint64_t ticket;       /* rises with each unit made */
    uint64_t group;        /* number of the last call with positions that named it, 0 = none */
    uint64_t came;         /* when it came in */
    uint64_t key;          /* in the heap: the largest goes out first, ties by ticket */
    uint64_t mark;         /* the use that named it last */
    uint64_t seen;         /* step in which it was made or last used */
    uint64_t born;         /* step in which it was made */
    uint32_t first, count; /* its positions in the order: a range of set->position */
    uint32_t uses;         /* in this step; only if is_used */
    uint32_t held;
    uint32_t heap;      /* index there + 1, 0 = not in it */
    uint32_t next;      /* chain of unused or removed records */
    uint32_t moved_for; /* the plan's call that it came in for + 1, 0 = no plan */
    bool is_live, is_in;
    bool is_in_gone; /* it is in the chain of removed records */
    bool is_passing; /* it was removed before the end of the step whose order is known */
    bool is_new;     /* it was made in that step */
};

/* A move of the plan. */
struct planned {
    uint32_t unit;
    uint32_t call;  /* call of the step that needs it */
    uint32_t after; /* out: number of calls of the step up to its last use before that */
    bool in;
};

struct planned_call {
    uint32_t first; /* index of its first move */
    uint32_t ahead; /* number of calls by which they may begin earlier */
};

struct move_plan {
    struct array call; /* one entry more than calls */
    struct array move;
    uint64_t start; /* hash of the units that were in at the beginning of the step */
    bool is_valid;
};

struct evict {
    struct evict_opts opts;
    struct array unit; /* the first record is unused */
    struct array heap; /* units that are in and not held */
    struct array named, move;
    struct array order, position;   /* of the last step: units, and the positions of each unit */
    struct array recorded;          /* order of this step */
    struct array made, made_before; /* units made in this step, and in the last one */
    struct move_plan plans[EVICT_PLANS]; /* plans for the known order, by the beginning of a step */
    struct move_plan *plan;              /* the replayed plan */
    struct move_plan next_plan;          /* the plan being made in this step */
    uint32_t free_head, gone_head;       /* chains of units */
    uint32_t units, in_count;
    uint64_t bytes, in_bytes, held_bytes; /* held ones that are in */
    uint64_t tickets, arrivals, marks, looks;
    uint64_t step;
    /* calls with positions, so far and up to the beginning of this step */
    uint64_t group, group_before;
    uint64_t moved_in, moved_out;
    uint64_t hash;  /* hash of the units that are in */
    uint64_t start; /* hash at the beginning of this step */
    uint32_t head;  /* the next move of the plan */
    uint32_t plans_made;
    bool is_heap; /* the heap is ordered */
    bool is_same; /* this step has followed the learnt order so far */
    bool is_lost; /* this step is too long, or memory is short, so it is not learnt */
    bool is_replayed;
    bool is_planning; /* this step was decided anew from its beginning */
};

/* ---- arrays ---- */

/* 0, or -ENOMEM. */
static inline int array_reserve(struct array *array, uint64_t count)
{
    uint32_t room = array->room ? array->room : EVICT_ARRAY_FIRST;
    void *at;

    if (count <= array->room)
        return 0;
    while (room < count && room < EVICT_CALL_END)
        room *= 2;
    at = room < count ? NULL : meta_get((size_t)room * array->record);
    if (!at)
        return -ENOMEM;
    if (array->at)
        memcpy(at, array->at, (size_t)array->count * array->record);
    meta_put(array->at, (size_t)array->room * array->record);
    array->at = at;
    array->room = room;
    return 0;
}

static inline void array_done(struct array *array)
{
    meta_put(array->at, (size_t)array->room * array->record);
}

static inline void array_swap(struct array *a, struct array *b)
{
    struct array was = *a;

    *a = *b;
    *b = was;
}

static inline uint32_t *array_numbers(const struct array *array)
{
    return array->at;
}

static inline int array_push(struct array *array, uint32_t number)
{
    int r = array_reserve(array, (uint64_t)array->count + 1);

    if (r == 0)
        array_numbers(array)[array->count++] = number;
    return r;
}

/* ---- records ---- */

static inline struct unit *evict_unit(const struct evict *set, uint32_t unit)
{
    return (struct unit *)set->unit.at + unit;
}

static inline struct planned_call *evict_call_at(const struct move_plan *plan, uint32_t call)
{
    return (struct planned_call *)plan->call.at + call;
}

static inline struct planned *evict_planned_at(const struct move_plan *plan, uint32_t move)
{
    return (struct planned *)plan->move.at + move;
}

/* ---- queries ---- */

static inline bool evict_is_planned(const struct evict *set)
{
    return set->order.count > 0;
}

static inline bool evict_is_farthest(const struct evict *set)
{
    return set->opts.victim == RULE_VICTIM_FARTHEST;
}

static inline uint64_t evict_cap(const struct evict *set)
{
    bool is_warmup = evict_is_farthest(set) && !evict_is_planned(set) && set->opts.warmup_cap;

    return is_warmup ? set->opts.warmup_cap : set->opts.cap;
}

/* The number of the running or next call in its step. */
static inline uint32_t evict_call_now(const struct evict *set)
{
    return (uint32_t)(set->group - set->group_before);
}

/* True if the unit was used in this step. */
static inline bool evict_is_used(const struct evict *set, const struct unit *unit)
{
    return unit->group > set->group_before;
}

static inline uint32_t evict_uses(const struct evict *set, const struct unit *unit)
{
    return evict_is_used(set, unit) ? unit->uses : 0;
}

/* ---- evict_order ---- */

/* The position of the next use of a unit that has been used `uses` times in this step. Positions
 * after the step are larger. */
uint64_t evict_order_next(
        const struct evict *set, const struct unit *unit, uint32_t uses, bool is_cyclic);
/* Stops learning this step, and comparing it with the known order. */
void evict_order_lose(struct evict *set);
/* Records the positions of the named call. */
void evict_order_record(struct evict *set);
/* Makes the recorded order of this step the known one; none if that is impossible. */
void evict_order_learn(struct evict *set);
/* Acts as if a step had had the stated order. Of consecutive repeats of a unit counts only the
 * first, as in a step. */
void evict_order_state(struct evict *set);

/* ---- evict_turn ---- */

/* The heap of possible victims, by unit->key: the top goes first. It is ordered only while
 * set->is_heap. */
void evict_turn_put(struct evict *set, uint32_t place, uint32_t unit);
/* Sinks the unit at this index to its place. */
void evict_turn_sink(struct evict *set, uint32_t place);
/* Moves it up or down to its place. */
void evict_turn_sift(struct evict *set, uint32_t place);
/* Moves a unit to its place for its current key; in any state. evict_add has allocated the
 * space. */
void evict_turn_place(struct evict *set, uint32_t index);
void evict_turn_remove(struct evict *set, uint32_t index);
/* Rebuilds the heap, after a time without victims, or when all keys have changed. */
void evict_turn_make(struct evict *set);
/* Fills the heap with units that are out, earliest next use on top, until evict_turn_make. */
void evict_turn_make_of_out(struct evict *set);
/* Changes the state without a move. */
void evict_turn_in(struct evict *set, uint32_t index);
void evict_turn_out(struct evict *set, uint32_t index);
/* Adds a move and counts it. The caller has reserved its space. */
void evict_turn_move(struct evict *set, uint32_t index, bool in);

/* ---- evict_plan ---- */

void evict_plan_init(struct move_plan *plan);
void evict_plan_done(struct move_plan *plan);
/* Drops the replayed plan, or the one being made: the state differs from it. */
void evict_plan_forget(struct evict *set);
void evict_plan_forget_all(struct evict *set);
/* Begins the moves of a decided call. False: no memory. */
bool evict_plan_call(struct evict *set);
/* Keeps the decisions of the ending step as a plan, if the step had the order that they assumed. */
void evict_plan_end(struct evict *set);
/* The plan of a step that begins as this one. NULL = none. */
struct move_plan *evict_plan_of_start(struct evict *set);
/* Puts the plan's moves for this call into set->move. False: the state differs from the plan; the
 * moves so far remain valid. */
bool evict_plan_replay(struct evict *set);
/* Adds moves of later calls that may begin after this call, which has been counted. A move that may
 * not begin holds up the others. */
void evict_plan_ahead(struct evict *set);
/* Adds a decided move. */
void evict_plan_move(struct evict *set, uint32_t index, bool in);

#endif

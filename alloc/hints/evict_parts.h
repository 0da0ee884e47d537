/* SPDX-License-Identifier: MIT */
/*
 * evict_parts.h - what a set of evict.h is made of, and what its files ask of each other.
 *
 *     evict_use     units that come and go, steps, uses
 *     evict_order   which call uses which units: learnt, stated, recorded; next uses
 *     evict_turn    what is in, whose turn it is to go out, moves
 *     evict_plan    decisions of a step, kept and replayed
 *     evict_bound   what no order of moves does better than
 *
 * Each uses those below it, but for evict_bound. Nobody else includes this.
 * Units: bytes. Errors: -ENOMEM. Threads: as evict.h.
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
    /* a step of more positions is not learnt, and plans have no more together */
    EVICT_ORDER_MAX = 1 << 20,
    EVICT_PLANS = 64,
};

/* In an entry of an order: the last unit of its call. */
#define EVICT_CALL_END (UINT32_C(1) << 31)

struct array {
    void *at;
    uint32_t count, room;
    uint32_t record; /* bytes */
};

struct unit {
    uint64_t size;
    uint64_t ticket;       /* rises with the order in which units were made */
    uint64_t group;        /* number of the last call with positions that named it, 0 = none */
    uint64_t came;         /* when it came in */
    uint64_t key;          /* in the heap: the largest goes out first, ties by ticket */
    uint64_t mark;         /* the use that named it last */
    uint64_t seen;         /* step in which it was made or used last */
    uint64_t born;         /* step in which it was made */
    uint32_t first, count; /* its positions in the order: a stretch of set->position */
    uint32_t uses;         /* in this step; only if is_used */
    uint32_t held;
    uint32_t heap;      /* place there + 1, 0 = not in it */
    uint32_t next;      /* chain of records that are not used, or gone */
    uint32_t moved_for; /* call of the plan that it came in for + 1, 0 = no plan */
    bool is_live, is_in;
    bool is_in_gone; /* the chain of the gone has it */
    bool is_passing; /* it was gone when the step ended whose order is known */
    bool is_new;     /* it was made in that step */
};

/* A move of the plan. */
struct planned {
    uint32_t unit;
    uint32_t call;  /* of the step, that needs it */
    uint32_t after; /* goes out: calls of the step up to its last use before that */
    bool in;
};

struct planned_call {
    uint32_t first; /* of its moves */
    uint32_t ahead; /* how many calls earlier they may begin */
};

struct move_plan {
    struct array call; /* and one more at the end */
    struct array move;
    uint64_t start; /* what was in when the step began, as a hash */
    bool is_valid;
};

struct evict {
    struct evict_opts opts;
    struct array unit; /* the first record is nobody's */
    struct array heap; /* units that are in and not held */
    struct array named, move;
    struct array order, position;        /* of the last step: units, and where each unit is in it */
    struct array recorded;               /* the order of this step */
    struct array made, made_before;      /* units made in this step, and in the last one */
    struct move_plan plans[EVICT_PLANS]; /* of the order that is known, by how a step begins */
    struct move_plan *plan;              /* what is replayed */
    struct move_plan next_plan;          /* what is decided in this step */
    uint32_t free_head, gone_head;       /* chains of units */
    uint32_t units, in_count;
    uint64_t bytes, in_bytes, held_bytes; /* held ones that are in */
    uint64_t tickets, arrivals, marks, looks;
    uint64_t step;
    uint64_t group, group_before; /* calls with positions so far, and when this step began */
    uint64_t moved_in, moved_out;
    uint64_t hash;  /* of what is in */
    uint64_t start; /* the same when this step began */
    uint32_t head;  /* the next move of the plan */
    uint32_t plans_made;
    bool is_heap; /* the heap is in order */
    bool is_same; /* this step has the learnt order so far */
    bool is_lost; /* and too much, or too little memory, to be learnt */
    bool is_replayed;
    bool is_planning; /* this step has been decided anew from its start */
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

/* ---- what is known ---- */

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

/* The number of the call that runs, or is about to, in its step. */
static inline uint32_t evict_call_now(const struct evict *set)
{
    return (uint32_t)(set->group - set->group_before);
}

/* In this step. */
static inline bool evict_is_used(const struct evict *set, const struct unit *unit)
{
    return unit->group > set->group_before;
}

static inline uint32_t evict_uses(const struct evict *set, const struct unit *unit)
{
    return evict_is_used(set, unit) ? unit->uses : 0;
}

/* ---- evict_order ---- */

/* The position of the next use of a unit that has been used so often in this step. What is after the step has larger ones. */
uint64_t evict_order_next(
        const struct evict *set, const struct unit *unit, uint32_t uses, bool is_cyclic);
/* This step is not learnt, and no longer compared with the order that is known. */
void evict_order_lose(struct evict *set);
/* The positions of the call that is named. */
void evict_order_record(struct evict *set);
/* What this step has recorded is the order from now on; none, if it cannot be. */
void evict_order_learn(struct evict *set);
/* As if a step had had the stated order. One that names the same unit twice in a row has it once, as in a step. */
void evict_order_state(struct evict *set);

/* ---- evict_turn ---- */

/* The heap of what may go out, by unit->key: the top is the first in turn. It is in order only while set->is_heap. */
void evict_turn_put(struct evict *set, uint32_t place, uint32_t unit);
/* The unit at this place goes down to where it belongs. */
void evict_turn_sink(struct evict *set, uint32_t place);
/* Up or down. */
void evict_turn_sift(struct evict *set, uint32_t place);
/* Where it belongs now, with the key that it has now; in any state. evict_add has made room. */
void evict_turn_place(struct evict *set, uint32_t index);
void evict_turn_remove(struct evict *set, uint32_t index);
/* After a time in which nobody asked for victims, or when all keys are others. */
void evict_turn_make(struct evict *set);
/* The heap has what is out, earliest next use on top, until evict_turn_make. */
void evict_turn_make_of_out(struct evict *set);
/* Nobody is told. */
void evict_turn_in(struct evict *set, uint32_t index);
void evict_turn_out(struct evict *set, uint32_t index);
/* Says it and counts it. The caller has made room for the move. */
void evict_turn_move(struct evict *set, uint32_t index, bool in);

/* ---- evict_plan ---- */

void evict_plan_init(struct move_plan *plan);
void evict_plan_done(struct move_plan *plan);
/* The one that is replayed, or in the making: something is not as it was. */
void evict_plan_forget(struct evict *set);
void evict_plan_forget_all(struct evict *set);
/* The moves of a call that has been decided begin here. False: no memory. */
bool evict_plan_call(struct evict *set);
/* What was decided in the step that ends is a plan, if it had the order that it was decided by. */
void evict_plan_end(struct evict *set);
/* Of a step that begins as this one. NULL = there is none. */
struct move_plan *evict_plan_of_start(struct evict *set);
/* Moves that the plan has for this call, in set->move. False: something is not as it was; the moves so far stay good. */
bool evict_plan_replay(struct evict *set);
/* Moves of later calls that may begin behind this one, which has been counted. One that may not holds up the others. */
void evict_plan_ahead(struct evict *set);
/* A move that has been decided. */
void evict_plan_move(struct evict *set, uint32_t index, bool in);

#endif

/* SPDX-License-Identifier: MIT */
#include "alloc/base/meta.h"
#include "alloc/hints/evict_parts.h"

#include <errno.h>
#include <string.h>

/* ---- creation and removal of units ---- */

int evict_new(const struct evict_opts *opts, struct evict **ret_set)
{
    struct evict *set = meta_get(sizeof(*set));

    if (!set)
        return -ENOMEM;
    set->opts = *opts;
    set->unit.record = sizeof(struct unit);
    set->move.record = sizeof(struct evict_move);
    evict_plan_init(&set->next_plan);
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        evict_plan_init(&set->plans[i]);
    set->heap.record = set->named.record = sizeof(uint32_t);
    set->order.record = set->position.record = set->recorded.record = sizeof(uint32_t);
    set->made.record = set->made_before.record = sizeof(uint32_t);
    set->unit.count = 1;
    if (array_reserve(&set->unit, 1) != 0) {
        meta_put(set, sizeof(*set));
        return -ENOMEM;
    }
    *ret_set = set;
    return 0;
}

void evict_free(struct evict *set)
{
    if (!set)
        return;
    array_done(&set->unit);
    array_done(&set->heap);
    array_done(&set->named);
    array_done(&set->move);
    array_done(&set->order);
    array_done(&set->position);
    array_done(&set->recorded);
    array_done(&set->made);
    array_done(&set->made_before);
    evict_plan_done(&set->next_plan);
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        evict_plan_done(&set->plans[i]);
    meta_put(set, sizeof(*set));
}

void evict_set_cap(struct evict *set, uint64_t cap, uint64_t warmup_cap)
{
    if (set->opts.cap != cap)
        evict_plan_forget_all(set);
    set->opts.cap = cap;
    set->opts.warmup_cap = warmup_cap;
}

/* The unit that was made as the same number in the last step, if this one replaces it. 0 = none. */
static uint32_t place_of_old(const struct evict *set, uint64_t size)
{
    const struct unit *unit;

    if (set->step == 0 || set->made.count >= set->made_before.count)
        return 0;
    unit = evict_unit(set, array_numbers(&set->made_before)[set->made.count]);
    return !unit->is_live && unit->size == size ? array_numbers(&set->made_before)[set->made.count]
                                                : 0;
}

/* A record for a unit that replaces no other. 0 = no memory. */
static uint32_t evict_use_new_record(struct evict *set)
{
    uint32_t index = set->free_head;

    if (index) {
        set->free_head = evict_unit(set, index)->next;
    } else {
        if (set->unit.count >= EVICT_CALL_END
                || array_reserve(&set->unit, (uint64_t)set->unit.count + 1) != 0
                || array_reserve(&set->heap, set->unit.count) != 0)
            return 0;
        index = set->unit.count++;
    }
    memset(evict_unit(set, index), 0, sizeof(struct unit));
    evict_unit(set, index)->ticket = ++set->tickets;
    return index;
}

int evict_add(struct evict *set, uint64_t size, uint32_t *ret_unit)
{
    uint32_t index = place_of_old(set, size);
    struct unit *unit;

    if (!index)
        index = evict_use_new_record(set);
    if (!index)
        return -ENOMEM;
    if (set->step > 0 && !set->is_lost
            && (set->made.count == EVICT_ORDER_MAX || array_push(&set->made, index) != 0))
        evict_order_lose(set);
    unit = evict_unit(set, index);
    unit->size = size;
    unit->is_live = true;
    unit->seen = unit->born = set->step;
    set->units++;
    set->bytes += size;
    *ret_unit = index;
    return 0;
}

static void give_record(struct evict *set, uint32_t index)
{
    evict_unit(set, index)->next = set->free_head;
    set->free_head = index;
}

/* The record stays while an order, or the list of made units, refers to it. */
void evict_remove(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    if (unit->is_in)
        evict_turn_out(set, index);
    set->units--;
    set->bytes -= unit->size;
    unit->is_live = false;
    unit->held = 0;
    unit->group = 0;
    if (unit->is_in_gone)
        return;
    if (unit->born == set->step && (set->step == 0 || set->is_lost)) {
        give_record(set, index);
        return;
    }
    unit->is_in_gone = true;
    unit->next = set->gone_head;
    set->gone_head = index;
}

void evict_hold(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    if (unit->held++ > 0)
        return;
    set->held_bytes += unit->is_in ? unit->size : 0;
    evict_turn_remove(set, index);
}

void evict_let_go(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    if (--unit->held > 0)
        return;
    set->held_bytes -= unit->is_in ? unit->size : 0;
    evict_turn_place(set, index);
}

/* ---- steps ---- */

/* Frees removed records that nothing refers to after the ending step. */
static void sweep_gone(struct evict *set)
{
    uint32_t index = set->gone_head;

    set->gone_head = 0;
    while (index) {
        struct unit *unit = evict_unit(set, index);
        uint32_t next = unit->next;

        unit->is_in_gone = !unit->is_live && unit->seen == set->step;
        if (unit->is_in_gone) {
            unit->next = set->gone_head;
            set->gone_head = index;
        } else if (!unit->is_live) {
            give_record(set, index);
        }
        index = next;
    }
}

void evict_step(struct evict *set)
{
    if (set->is_same && !set->is_lost && set->recorded.count == set->order.count) {
        evict_plan_end(set);
    } else if (set->step > 0) {
        evict_order_learn(set);
        evict_plan_forget_all(set);
    } else {
        evict_order_state(set);
    }
    array_swap(&set->made_before, &set->made);
    if (set->is_lost)
        set->made_before.count = 0;
    sweep_gone(set);
    set->recorded.count = set->made.count = set->next_plan.call.count = set->next_plan.move.count =
            0;
    set->step++;
    set->group_before = set->group;
    set->moved_in = set->moved_out = 0;
    set->start = set->hash;
    set->head = 0;
    set->is_heap = set->is_lost = false;
    set->is_same = evict_is_planned(set);
    set->plan = evict_plan_of_start(set);
    set->is_replayed = set->plan != NULL;
    set->is_planning = evict_is_planned(set) && evict_is_farthest(set) && !set->is_replayed;
}

/* ---- one use ---- */

/* Sums over the units of a call. */
struct demand {
    uint64_t bytes;      /* of all */
    uint64_t held_bytes; /* of units that are in and held */
    bool is_again;       /* the last call has named all of them */
    bool is_in;          /* all of them are in */
};

/* Lists each unit once, in set->named. */
static struct demand name_units(struct evict *set, const uint32_t *units, uint32_t count)
{
    struct demand demand = {.is_again = set->group > set->group_before, .is_in = true};

    set->marks++;
    set->named.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct unit *unit = evict_unit(set, units[i]);

        set->looks++;
        if (unit->mark == set->marks)
            continue;
        unit->mark = set->marks;
        array_numbers(&set->named)[set->named.count++] = units[i];
        demand.bytes += unit->size;
        demand.held_bytes += unit->is_in && unit->held ? unit->size : 0;
        demand.is_again = demand.is_again && unit->group == set->group;
        demand.is_in = demand.is_in && unit->is_in;
    }
    return demand;
}

static void decide_move(struct evict *set, uint32_t index, bool in)
{
    evict_plan_move(set, index, in);
    evict_unit(set, index)->moved_for = 0;
    evict_turn_move(set, index, in);
}

/* Moves out units that are in and not held, in order, until there is space for `more` bytes. */
static void decide_victims(struct evict *set, uint64_t more)
{
    while (set->heap.count > 0 && set->in_bytes + more > evict_cap(set))
        decide_move(set, array_numbers(&set->heap)[0], false);
}

/* There is space, if all possible victims go out. */
static void decide_call(struct evict *set)
{
    uint64_t more = 0;

    evict_turn_make(set);
    if (set->is_planning && !(set->is_same && evict_plan_call(set)))
        set->is_planning = false;
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = array_numbers(&set->named)[i];

        more += evict_unit(set, index)->is_in ? 0 : evict_unit(set, index)->size;
        evict_turn_remove(set, index);
    }
    decide_victims(set, more);
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = array_numbers(&set->named)[i];

        if (!evict_unit(set, index)->is_in)
            decide_move(set, index, true);
        else
            evict_turn_place(set, index);
    }
}

/* Gives the call its positions. */
static void count_call(struct evict *set)
{
    uint64_t group = set->group + 1;

    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = array_numbers(&set->named)[i];
        struct unit *unit = evict_unit(set, index);

        unit->uses = evict_uses(set, unit) + 1;
        unit->group = group;
        unit->seen = set->step;
        evict_turn_place(set, index);
    }
    set->group = group;
}

static void tell_moves(const struct evict *set, uint32_t count, struct evict_moves *ret)
{
    *ret = (struct evict_moves){
            .move = set->move.at, .count = count, .ahead = set->move.count - count};
}

int evict_use(struct evict *set, const uint32_t *units, uint32_t count, struct evict_moves *ret)
{
    struct demand demand;
    uint32_t needed;
    uint64_t room;

    if (array_reserve(&set->named, count) != 0
            || array_reserve(&set->move, (uint64_t)set->in_count + count) != 0)
        return -ENOMEM;
    demand = name_units(set, units, count);
    room = excess_of(max_of(evict_cap(set), set->opts.cap), set->held_bytes - demand.held_bytes);
    if (demand.bytes > room) {
        *ret = (struct evict_moves){.needed = demand.bytes, .room = room};
        return -ENOSPC;
    }
    set->move.count = 0;
    if (set->named.count == 0
            || (demand.is_again && demand.is_in && set->in_bytes <= evict_cap(set))) {
        tell_moves(set, 0, ret);
        return 0;
    }
    if (demand.is_again)
        evict_plan_forget(set);
    else
        evict_order_record(set);
    if (set->is_replayed && !(set->is_same && evict_plan_replay(set)))
        evict_plan_forget(set);
    if (!set->is_replayed)
        decide_call(set);
    needed = set->move.count;
    if (!demand.is_again)
        count_call(set);
    if (set->is_replayed)
        evict_plan_ahead(set);
    tell_moves(set, needed, ret);
    return 0;
}

void evict_undo(struct evict *set, uint32_t index)
{
    const struct unit *unit = evict_unit(set, index);

    if (unit->is_in) {
        evict_turn_out(set, index);
        set->moved_in -= min_of(set->moved_in, unit->size);
    } else {
        evict_turn_in(set, index);
        set->moved_out -= min_of(set->moved_out, unit->size);
    }
}

uint64_t evict_make_room(struct evict *set, uint64_t want, struct evict_moves *ret)
{
    uint64_t before = set->in_bytes;

    set->move.count = 0;
    if (array_reserve(&set->move, set->in_count) == 0) {
        evict_turn_make(set);
        while (set->heap.count > 0 && before - set->in_bytes < want)
            evict_turn_move(set, array_numbers(&set->heap)[0], false);
    }
    tell_moves(set, set->move.count, ret);
    return before - set->in_bytes;
}

uint64_t evict_bring(struct evict *set, struct evict_moves *ret)
{
    uint64_t before = set->in_bytes;

    set->move.count = 0;
    if (array_reserve(&set->move, set->units - set->in_count) == 0) {
        evict_turn_make_of_out(set);
        while (set->heap.count > 0) {
            uint32_t index = array_numbers(&set->heap)[0];

            if (evict_unit(set, index)->size > excess_of(evict_cap(set), set->in_bytes))
                break;
            evict_unit(set, index)->moved_for = 0;
            evict_turn_move(set, index, true);
            evict_turn_put(set, 0, array_numbers(&set->heap)[--set->heap.count]);
            evict_turn_sink(set, 0);
        }
    }
    tell_moves(set, set->move.count, ret);
    return set->in_bytes - before;
}

/* ---- figures ---- */

bool evict_is_in(const struct evict *set, uint32_t unit)
{
    return evict_unit(set, unit)->is_in;
}

static enum evict_state evict_use_state_of(const struct evict *set, const struct unit *unit)
{
    if (!unit->is_in)
        return EVICT_FREE;
    if (unit->group == set->group)
        return EVICT_COMPUTE;
    if (!evict_is_used(set, unit))
        return EVICT_HOLD;
    return evict_is_planned(set) && unit->uses >= unit->count ? EVICT_HOLD_AFTER_BACKWARD
                                                              : EVICT_HOLD_AFTER_FORWARD;
}

void evict_figures(const struct evict *set, struct evict_figures *ret)
{
    *ret = (struct evict_figures){.units = set->units,
            .bytes = set->bytes,
            .in_bytes = set->in_bytes,
            .step = set->step,
            .uses = set->recorded.count,
            .moved_in = set->moved_in,
            .moved_out = set->moved_out,
            .is_planned = evict_is_planned(set),
            .is_replayed = set->is_replayed,
            .looks = set->looks};
    for (uint32_t i = 1; i < set->unit.count; i++) {
        const struct unit *unit = evict_unit(set, i);

        if (unit->is_live)
            ret->state_bytes[evict_use_state_of(set, unit)] += unit->size;
    }
}

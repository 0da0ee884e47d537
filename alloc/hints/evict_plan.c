/* SPDX-License-Identifier: MIT */
#include "alloc/hints/evict_parts.h"

void evict_plan_init(struct move_plan *plan)
{
    plan->call.record = sizeof(struct planned_call);
    plan->move.record = sizeof(struct planned);
}

void evict_plan_done(struct move_plan *plan)
{
    array_done(&plan->call);
    array_done(&plan->move);
}

void evict_plan_forget(struct evict *set)
{
    if (set->is_replayed)
        set->plan->is_valid = false;
    set->is_replayed = set->is_planning = false;
}

void evict_plan_forget_all(struct evict *set)
{
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        set->plans[i].is_valid = false;
    evict_plan_forget(set);
}

bool evict_plan_call(struct evict *set)
{
    struct move_plan *plan = &set->next_plan;

    if (array_reserve(&plan->call, (uint64_t)plan->call.count + 1) != 0)
        return false;
    *evict_call_at(plan, plan->call.count++) =
            (struct planned_call){.first = plan->move.count, .ahead = set->opts.prefetch};
    return true;
}

/* The slot for a new plan: an invalid one, else the oldest. */
static struct move_plan *plan_to_replace(struct evict *set)
{
    uint64_t fit = max_of(1, min_of(EVICT_PLANS, EVICT_ORDER_MAX / set->order.count));

    for (uint32_t i = 0; i < fit; i++)
        if (!set->plans[i].is_valid)
            return &set->plans[i];
    return &set->plans[set->plans_made % fit];
}

void evict_plan_end(struct evict *set)
{
    struct move_plan *plan = plan_to_replace(set);

    if (!set->is_planning || !evict_plan_call(set))
        return;
    array_swap(&plan->call, &set->next_plan.call);
    array_swap(&plan->move, &set->next_plan.move);
    plan->start = set->start;
    plan->is_valid = true;
    set->plans_made++;
}

struct move_plan *evict_plan_of_start(struct evict *set)
{
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        if (set->plans[i].is_valid && set->plans[i].start == set->start)
            return &set->plans[i];
    return NULL;
}

/* Can the move be made in the current state? */
static bool is_possible(const struct evict *set, const struct planned *planned)
{
    const struct unit *unit = evict_unit(set, planned->unit);

    if (planned->in)
        return unit->is_live && !unit->is_in
                && unit->size <= excess_of(set->opts.cap, set->in_bytes);
    return unit->is_in && !unit->held && unit->mark != set->marks;
}

/* Replays the next move of the plan. */
static void replay_move(struct evict *set)
{
    const struct planned *planned = evict_planned_at(set->plan, set->head++);

    evict_unit(set, planned->unit)->moved_for = planned->in ? planned->call + 1 : 0;
    evict_turn_move(set, planned->unit, planned->in);
}

bool evict_plan_replay(struct evict *set)
{
    uint32_t end = evict_call_at(set->plan, evict_call_now(set) + 1)->first;

    set->is_heap = false;
    for (; set->head < end; replay_move(set)) {
        set->looks++;
        if (!is_possible(set, evict_planned_at(set->plan, set->head)))
            return false;
    }
    for (uint32_t i = 0; i < set->named.count; i++)
        if (!evict_unit(set, array_numbers(&set->named)[i])->is_in)
            return false;
    return set->in_bytes <= set->opts.cap;
}

void evict_plan_ahead(struct evict *set)
{
    uint32_t next = evict_call_now(set);

    for (; set->head < set->plan->move.count; replay_move(set)) {
        const struct planned *planned = evict_planned_at(set->plan, set->head);

        set->looks++;
        if (planned->call - next >= evict_call_at(set->plan, planned->call)->ahead
                || planned->after >= next || !is_possible(set, planned)
                || array_reserve(&set->move, (uint64_t)set->move.count + 1) != 0)
            return;
    }
}

void evict_plan_move(struct evict *set, uint32_t index, bool in)
{
    struct move_plan *plan = &set->next_plan;
    const struct unit *unit = evict_unit(set, index);

    if (!set->is_planning)
        return;
    if (array_reserve(&plan->move, (uint64_t)plan->move.count + 1) != 0) {
        set->is_planning = false;
        return;
    }
    *evict_planned_at(plan, plan->move.count++) = (struct planned){.unit = index,
            .call = evict_call_now(set),
            .in = in,
            .after = evict_is_used(set, unit) ? (uint32_t)(unit->group - set->group_before) : 0};
}

/* Earlier moves have to begin as early, since they are made in order. */
void evict_late(struct evict *set, uint32_t index)
{
    uint32_t call = evict_unit(set, index)->moved_for;
    uint32_t begin;

    if (!set->is_replayed || !call || call >= set->plan->call.count)
        return;
    call--;
    if (evict_call_at(set->plan, call)->ahead >= call)
        return;
    begin = call - ++evict_call_at(set->plan, call)->ahead;
    while (--call > begin && call - min_of(call, evict_call_at(set->plan, call)->ahead) > begin)
        evict_call_at(set->plan, call)->ahead = call - begin;
}

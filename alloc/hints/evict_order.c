/* SPDX-License-Identifier: MIT */
#include "alloc/hints/evict_parts.h"

#include <string.h>

uint64_t evict_order_next(
        const struct evict *set, const struct unit *unit, uint32_t uses, bool is_cyclic)
{
    uint64_t length = set->order.count;

    if (uses < unit->count)
        return array_numbers(&set->position)[unit->first + uses];
    if (!is_cyclic)
        return length;
    if (unit->is_passing)
        return 2 * length;
    return length + (unit->count ? array_numbers(&set->position)[unit->first] : length);
}

void evict_order_lose(struct evict *set)
{
    set->is_lost = true;
    set->is_same = false;
}

void evict_order_record(struct evict *set)
{
    uint64_t from = set->recorded.count;
    uint64_t to = from + set->named.count;

    if (set->step == 0 || set->is_lost)
        return;
    if (to > EVICT_ORDER_MAX || array_reserve(&set->recorded, to) != 0) {
        evict_order_lose(set);
        return;
    }
    set->is_same = set->is_same && to <= set->order.count;
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t entry = array_numbers(&set->named)[i];

        if (i + 1 == set->named.count)
            entry |= EVICT_CALL_END;
        set->is_same = set->is_same && array_numbers(&set->order)[from + i] == entry;
        array_numbers(&set->recorded)[from + i] = entry;
    }
    set->recorded.count = (uint32_t)to;
}

void evict_order_learn(struct evict *set)
{
    uint32_t first = 0;

    array_swap(&set->order, &set->recorded);
    if (set->is_lost || array_reserve(&set->position, set->order.count) != 0)
        set->order.count = 0;
    for (uint32_t i = 1; i < set->unit.count; i++)
        evict_unit(set, i)->count = evict_unit(set, i)->uses = 0;
    for (uint32_t at = 0; at < set->order.count; at++)
        evict_unit(set, array_numbers(&set->order)[at] & ~EVICT_CALL_END)->count++;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = evict_unit(set, i);

        unit->first = first;
        unit->is_passing = !unit->is_live;
        unit->is_new = set->step > 0 && unit->born == set->step;
        first += unit->count;
    }
    for (uint32_t at = 0; at < set->order.count; at++) {
        struct unit *unit = evict_unit(set, array_numbers(&set->order)[at] & ~EVICT_CALL_END);

        array_numbers(&set->position)[unit->first + unit->uses++] = at;
    }
}

/* Lists the units of the stated order by their numbers, in set->named; 0 = no unit of this number.
 * False: no memory. */
static bool number_units(struct evict *set)
{
    uint32_t *numbered;

    if (array_reserve(&set->named, set->tickets) != 0)
        return false;
    numbered = array_numbers(&set->named);
    memset(numbered, 0, set->tickets * sizeof(*numbered));
    for (uint32_t i = 1; i < set->unit.count; i++)
        if (evict_unit(set, i)->is_live)
            numbered[evict_unit(set, i)->ticket - 1] = i;
    return true;
}

void evict_order_state(struct evict *set)
{
    uint32_t before = 0;

    if (set->opts.order_count == 0 || set->opts.order_count > EVICT_ORDER_MAX || set->tickets == 0
            || array_reserve(&set->recorded, set->opts.order_count) != 0 || !number_units(set))
        return;
    for (uint32_t at = 0; at < set->opts.order_count; at++) {
        uint32_t number = set->opts.order[at];
        uint32_t index = number < set->tickets ? array_numbers(&set->named)[number] : 0;

        if (index == 0 || index == before)
            continue;
        array_numbers(&set->recorded)[set->recorded.count++] = index | EVICT_CALL_END;
        before = index;
    }
    evict_order_learn(set);
}

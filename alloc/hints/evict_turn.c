/* SPDX-License-Identifier: MIT */
#include "alloc/hints/evict_parts.h"

static uint64_t evict_turn_key_of(const struct evict *set, const struct unit *unit)
{
    switch (set->opts.victim) {
    case RULE_VICTIM_FARTHEST:
        return evict_is_planned(set)
                ? evict_order_next(set, unit, evict_uses(set, unit), set->opts.cyclic)
                : 0;
    case RULE_VICTIM_LRU:
        return ~unit->group;
    case RULE_VICTIM_FIFO:
        return ~unit->came;
    }
    return 0;
}

static bool goes_before(struct evict *set, uint32_t a, uint32_t b)
{
    const struct unit *left = evict_unit(set, a);
    const struct unit *right = evict_unit(set, b);

    set->looks++;
    if (left->key != right->key)
        return left->key > right->key;
    return left->ticket < right->ticket;
}

void evict_turn_put(struct evict *set, uint32_t place, uint32_t unit)
{
    array_numbers(&set->heap)[place] = unit;
    evict_unit(set, unit)->heap = place + 1;
}

void evict_turn_sink(struct evict *set, uint32_t place)
{
    const uint32_t *heap = array_numbers(&set->heap);
    uint32_t unit = heap[place];

    for (uint32_t child = 2 * place + 1; child < set->heap.count; child = 2 * place + 1) {
        if (child + 1 < set->heap.count && goes_before(set, heap[child + 1], heap[child]))
            child++;
        if (!goes_before(set, heap[child], unit))
            break;
        evict_turn_put(set, place, heap[child]);
        place = child;
    }
    evict_turn_put(set, place, unit);
}

void evict_turn_sift(struct evict *set, uint32_t place)
{
    const uint32_t *heap = array_numbers(&set->heap);
    uint32_t unit = heap[place];

    while (place > 0 && goes_before(set, unit, heap[(place - 1) / 2])) {
        evict_turn_put(set, place, heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    evict_turn_put(set, place, unit);
    evict_turn_sink(set, place);
}

void evict_turn_place(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    if (!set->is_heap || !unit->is_in || unit->held)
        return;
    unit->key = evict_turn_key_of(set, unit);
    if (!unit->heap)
        evict_turn_put(set, set->heap.count++, index);
    evict_turn_sift(set, unit->heap - 1);
}

void evict_turn_remove(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);
    uint32_t place = unit->heap - 1;

    if (!set->is_heap || !unit->heap)
        return;
    unit->heap = 0;
    if (place == --set->heap.count)
        return;
    evict_turn_put(set, place, array_numbers(&set->heap)[set->heap.count]);
    evict_turn_sift(set, place);
}

void evict_turn_make(struct evict *set)
{
    if (set->is_heap)
        return;
    set->is_heap = true;
    set->heap.count = 0;
    set->looks += set->unit.count;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = evict_unit(set, i);

        unit->heap = 0;
        unit->key = evict_turn_key_of(set, unit);
        if (unit->is_in && !unit->held)
            evict_turn_put(set, set->heap.count++, i);
    }
    for (uint32_t place = set->heap.count / 2; place-- > 0;)
        evict_turn_sink(set, place);
}

void evict_turn_make_of_out(struct evict *set)
{
    set->is_heap = false;
    set->heap.count = 0;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = evict_unit(set, i);

        if (!unit->is_live || unit->is_in)
            continue;
        unit->key = ~(evict_is_planned(set)
                        ? evict_order_next(set, unit, evict_uses(set, unit), set->opts.cyclic)
                        : 0);
        evict_turn_put(set, set->heap.count++, i);
    }
    set->looks += set->unit.count;
    for (uint32_t place = set->heap.count / 2; place-- > 0;)
        evict_turn_sink(set, place);
}

static uint64_t evict_turn_hash_of(uint32_t unit)
{
    uint64_t hash = (unit + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

void evict_turn_in(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    unit->is_in = true;
    unit->came = ++set->arrivals;
    set->in_count++;
    set->in_bytes += unit->size;
    set->held_bytes += unit->held ? unit->size : 0;
    set->hash += evict_turn_hash_of(index);
    evict_turn_place(set, index);
}

void evict_turn_out(struct evict *set, uint32_t index)
{
    struct unit *unit = evict_unit(set, index);

    evict_turn_remove(set, index);
    unit->is_in = false;
    set->in_count--;
    set->in_bytes -= unit->size;
    set->held_bytes -= unit->held ? unit->size : 0;
    set->hash -= evict_turn_hash_of(index);
}

void evict_turn_move(struct evict *set, uint32_t index, bool in)
{
    struct evict_move *move = (struct evict_move *)set->move.at + set->move.count++;

    *move = (struct evict_move){.unit = index, .in = in};
    if (in) {
        evict_turn_in(set, index);
        set->moved_in += evict_unit(set, index)->size;
    } else {
        evict_turn_out(set, index);
        set->moved_out += evict_unit(set, index)->size;
    }
}

/* SPDX-License-Identifier: MIT */
#include "alloc/hints/evict_parts.h"

#include "alloc/base/meta.h"

#include <string.h>

enum {
    /* not a power of two: the last step must not be a mark, or the mean would divide by zero */
    BOUND_PASSES = 255,
};

/* A copy of the set in which units are used whole and go out in parts. */
struct bound {
    struct evict set;
    uint64_t *in;     /* bytes of each unit that are in */
    uint64_t *before; /* the same, some steps ago */
};

/* True for a unit made anew in each step: it has no content at first and takes no space after its
 * last use. */
static bool is_brief(const struct unit *unit)
{
    return unit->is_passing || unit->is_new;
}

/* Moves out parts of units that the call does not need, farthest next use first. */
static void bound_make_room(struct bound *bound, uint64_t more)
{
    struct evict *set = &bound->set;

    while (set->heap.count > 0 && set->in_bytes + more > set->opts.cap) {
        uint32_t index = array_numbers(&set->heap)[0];
        uint64_t part = min_of(bound->in[index], set->in_bytes + more - set->opts.cap);

        bound->in[index] -= part;
        set->in_bytes -= part;
        if (bound->in[index] == 0)
            evict_turn_remove(set, index);
    }
}

static void bound_use(struct bound *bound, uint32_t index, uint64_t begin)
{
    struct evict *set = &bound->set;
    struct unit *unit = evict_unit(set, index);

    set->in_bytes += unit->size - bound->in[index];
    bound->in[index] = unit->size;
    unit->uses++;
    unit->key = begin + evict_order_next(set, unit, unit->uses, true);
    if (unit->uses == unit->count) {
        unit->uses = 0;
        if (is_brief(unit)) {
            set->in_bytes -= unit->size;
            bound->in[index] = 0;
            return;
        }
    }
    evict_turn_put(set, set->heap.count++, index);
    evict_turn_sift(set, set->heap.count - 1);
}

/* Bytes that come in with this use. */
static uint64_t bound_content(const struct bound *bound, uint32_t index)
{
    const struct unit *unit = evict_unit(&bound->set, index);

    return is_brief(unit) && unit->uses == 0 ? 0 : unit->size - bound->in[index];
}

/* Plays one step, which begins at this position of all. Returns the bytes in. */
static uint64_t bound_step(struct bound *bound, uint64_t begin)
{
    const uint32_t *order = array_numbers(&bound->set.order);
    uint64_t moved = 0;
    uint32_t end;

    for (uint32_t at = 0; at < bound->set.order.count; at = end) {
        uint64_t more = 0;

        end = at;
        do {
            uint32_t index = order[end] & ~EVICT_CALL_END;

            more += evict_unit(&bound->set, index)->size - bound->in[index];
            moved += bound_content(bound, index);
            evict_turn_remove(&bound->set, index);
        } while (!(order[end++] & EVICT_CALL_END));
        bound_make_room(bound, more);
        for (uint32_t i = at; i < end; i++)
            bound_use(bound, order[i] & ~EVICT_CALL_END, begin);
    }
    return moved;
}

/* Plays steps until one begins as an earlier one did; returns their mean. */
static uint64_t bound_mean(struct bound *bound)
{
    size_t bytes = bound->set.unit.count * sizeof(*bound->in);
    uint64_t moved = 0;
    uint32_t since = 0;

    for (uint32_t step = 1; step <= BOUND_PASSES; step++) {
        moved += bound_step(bound, (uint64_t)step * bound->set.order.count);
        if (memcmp(bound->in, bound->before, bytes) == 0)
            return moved / (step - since);
        if ((step & (step - 1)) == 0) {
            memcpy(bound->before, bound->in, bytes);
            since = step;
            moved = 0;
        }
    }
    return moved / (BOUND_PASSES - since);
}

uint64_t evict_bound(const struct evict *set)
{
    uint32_t count = set->unit.count;
    struct bound bound = {.set = *set,
            .in = meta_get(count * sizeof(*bound.in)),
            .before = meta_get(count * sizeof(*bound.before))};
    struct array *unit = &bound.set.unit;
    struct array *heap = &bound.set.heap;
    uint64_t mean = 0;

    *unit = (struct array){.record = set->unit.record};
    *heap = (struct array){.record = set->heap.record};
    bound.set.in_bytes = 0;
    bound.set.is_heap = true;
    if (evict_is_planned(set) && bound.in && bound.before && array_reserve(unit, count) == 0
            && array_reserve(heap, count) == 0 && unit->at && set->unit.at) {
        memcpy(unit->at, set->unit.at, (size_t)count * unit->record);
        unit->count = count;
        for (uint32_t i = 0; i < count; i++)
            evict_unit(&bound.set, i)->heap = evict_unit(&bound.set, i)->uses = 0;
        mean = bound_mean(&bound);
    }
    array_done(unit);
    array_done(heap);
    meta_put(bound.in, count * sizeof(*bound.in));
    meta_put(bound.before, count * sizeof(*bound.before));
    return mean;
}

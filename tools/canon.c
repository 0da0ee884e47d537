/* SPDX-License-Identifier: MIT */
#include "tools/canon.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

#define ROOT      UINT32_MAX
#define ASK_EVERY 256

/* A block. The ones not taken are a list by first section, so that a component is `count` of them in a row. */
struct unit {
    uint64_t size, low, offset;
    uint32_t first, last;
    uint32_t rank; /* in the static order */
    uint32_t previous, next;
    uint32_t span;
    uint32_t waits; /* for so many that have to be taken before */
    uint64_t tail;  /* what has to stand upon it */
};

/* What is to be placed together, between the lows of its blocks and `ceiling`. */
struct component {
    uint32_t head, count;
    /* Passed over are blocks whose (low, rank) is below these: what the node took that made this component, plus one. */
    uint32_t rank;
    uint32_t creator; /* the node, ROOT: none */
    uint64_t level, ceiling;
};

struct choice {
    struct component component;
    uint32_t trail, pending; /* how long these stacks were */
    uint64_t tried_low,
            too_high; /* the lows of what may be taken: from (tried_low, tried_rank) up to, not with, too_high */
    uint32_t tried_rank;
};

struct undo {
    uint64_t low; /* as it was; TAKEN: the unit was taken off the list */
    uint32_t unit;
};
#define TAKEN UINT64_MAX

/* An entry of the heap of fits(): least low first. */
struct reach {
    uint64_t low;
    uint32_t last;
};

struct canon {
    struct sections *sections;
    const struct piles *piles; /* NULL: no order to keep */
    uint32_t *unit_of;         /* by span */
    uint64_t capacity;
    struct unit *units; /* count + 1: the last is the list's end */
    uint64_t *total;    /* bytes not taken, by section */
    uint64_t *lifted;   /* by unit: where it can stand at the least */
    double *blame;    /* by unit: how often it was to come in a section that had too little room */
    double *short_of; /* by section: how often that was so */
    struct reach *heap;
    uint32_t count;
    struct component *pending;
    struct choice *choices;
    struct undo *trail;
    size_t pending_count, pending_room, choice_count, choice_room, trail_count, trail_room;
};

static int compare_spans(const void *a, const void *b, void *spans)
{
    uint32_t i = *(const uint32_t *)a;
    uint32_t j = *(const uint32_t *)b;
    const struct span *x = (const struct span *)spans + i;
    const struct span *y = (const struct span *)spans + j;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (i > j) - (i < j);
}

struct canon *canon_new(struct sections *sections)
{
    struct canon *canon = vec_new(1, sizeof(*canon));
    uint32_t n = sections->span_count;
    uint32_t *order = vec_new(n, sizeof(*order));

    canon->sections = sections;
    canon->count = n;
    canon->units = vec_new((size_t)n + 1, sizeof(*canon->units));
    canon->unit_of = vec_new(n, sizeof(*canon->unit_of));
    canon->total = vec_new(sections->count, sizeof(*canon->total));
    canon->lifted = vec_new(n, sizeof(*canon->lifted));
    canon->blame = vec_new(n, sizeof(*canon->blame));
    canon->short_of = vec_new(sections->count, sizeof(*canon->short_of));
    canon->heap = vec_new((size_t)n + 1, sizeof(*canon->heap));
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof(*order), compare_spans, sections->spans);
    for (uint32_t i = 0; i < n; i++) {
        const struct span *span = &sections->spans[order[i]];
        canon->units[i] = (struct unit){
                .size = span->size, .first = span->first, .last = span->last, .span = order[i]};
        canon->unit_of[order[i]] = i;
    }
    free(order);
    return canon;
}

void canon_free(struct canon *canon)
{
    if (!canon)
        return;
    free(canon->units);
    free(canon->unit_of);
    free(canon->total);
    free(canon->lifted);
    free(canon->blame);
    free(canon->short_of);
    free(canon->heap);
    free(canon->pending);
    free(canon->choices);
    free(canon->trail);
    free(canon);
}

void canon_keep(struct canon *canon, const struct piles *piles)
{
    canon->piles = piles;
    for (uint32_t i = 0; i < canon->count; i++)
        canon->units[i].tail = piles ? piles->tail[canon->units[i].span] : 0;
}

/* The ones right above wait for one more or less. */
static void let_wait(struct canon *canon, const struct unit *unit, uint32_t change)
{
    const struct piles *piles = canon->piles;

    for (uint32_t i = piles->begin[unit->span]; i < piles->begin[unit->span + 1]; i++)
        canon->units[canon->unit_of[piles->above[i]]].waits += change;
}

struct key {
    double value[3];
    uint32_t unit;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a;
    const struct key *y = b;

    for (unsigned i = 0; i < 3; i++) {
        if (x->value[i] != y->value[i])
            return x->value[i] > y->value[i] ? -1 : 1;
    }
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static double fullest(const struct sections *sections, const struct span *span)
{
    uint64_t most = 0;

    for (uint32_t s = span->first; s <= span->last; s++) {
        if (sections->live[s] > most)
            most = sections->live[s];
    }
    return (double)most;
}

static struct key make_key(
        const struct sections *sections, const struct span *span, enum canon_order order)
{
    double size = (double)span->size;
    double width = (double)(span->last - span->first) + 1;
    double time = (double)(span->end - span->begin);

    switch (order) {
    case CANON_FULLEST:
        return (struct key){.value = {fullest(sections, span), width, size}};
    case CANON_FULLEST_TIME:
        return (struct key){.value = {fullest(sections, span), time, size}};
    case CANON_TIME_AREA:
        return (struct key){.value = {size * time, time}};
    case CANON_LONGEST:
        return (struct key){.value = {width, size}};
    case CANON_AREA:
        return (struct key){.value = {size * width, width}};
    case CANON_LONGEST_TIME:
    case CANON_BLAMED:
    case CANON_BLAMED_SECTIONS:
    case CANON_ORDER_COUNT:
        break;
    }
    return (struct key){.value = {time, fullest(sections, span), size}};
}

const char *canon_order_name(enum canon_order order)
{
    static const char *const names[CANON_ORDER_COUNT] = {"fullest by sections", "area in time",
            "most sections", "fullest by time", "area in sections", "longest time",
            "most in the way", "scarcest sections"};

    return order < CANON_ORDER_COUNT ? names[order] : "?";
}

/* Before the rest of the key. Short blocks are in few sections and so seldom blamed: the square root of the length makes up for it. */
static double learnt(const struct canon *canon, uint32_t number, enum canon_order order)
{
    const struct unit *unit = &canon->units[number];
    double sum = 0;

    if (order == CANON_BLAMED)
        return canon->blame[number] * canon->blame[number]
                * ((double)(unit->last - unit->first) + 1);
    for (uint32_t s = unit->first; s <= unit->last; s++)
        sum += canon->short_of[s];
    return sum;
}

static void rank_units(struct canon *canon, enum canon_order order)
{
    struct key *keys = vec_new(canon->count, sizeof(*keys));

    for (uint32_t i = 0; i < canon->count; i++) {
        keys[i] = make_key(canon->sections, &canon->sections->spans[canon->units[i].span], order);
        if (order == CANON_BLAMED || order == CANON_BLAMED_SECTIONS) {
            keys[i].value[2] = keys[i].value[1];
            keys[i].value[1] = keys[i].value[0];
            keys[i].value[0] = learnt(canon, i, order);
        }
        keys[i].unit = i;
    }
    VEC_SORT(keys, canon->count, compare_keys);
    for (uint32_t i = 0; i < canon->count; i++)
        canon->units[keys[i].unit].rank = i;
    free(keys);
}

static void start(struct canon *canon, enum canon_order order, uint64_t capacity)
{
    uint32_t n = canon->count;

    rank_units(canon, order);
    for (uint32_t i = 0; i <= n; i++) {
        canon->units[i].low = 0;
        canon->units[i].waits = 0;
        canon->units[i].previous = i ? i - 1 : n;
        canon->units[i].next = i < n ? i + 1 : 0;
    }
    for (uint32_t i = 0; canon->piles && i < n; i++)
        let_wait(canon, &canon->units[i], 1);
    canon->capacity = capacity;
    if (canon->sections->count)
        memcpy(canon->total, canon->sections->live, canon->sections->count * sizeof(*canon->total));
    canon->choice_count = 0;
    canon->trail_count = 0;
    canon->pending_count = 0;
    VEC_PUSH(canon->pending, canon->pending_count, canon->pending_room) =
            (struct component){.count = n, .creator = ROOT, .ceiling = capacity};
}

static void take(struct canon *canon, uint32_t number, uint64_t offset)
{
    struct unit *unit = &canon->units[number];

    unit->offset = offset;
    canon->units[unit->previous].next = unit->next;
    canon->units[unit->next].previous = unit->previous;
    for (uint32_t s = unit->first; s <= unit->last; s++)
        canon->total[s] -= unit->size;
    if (canon->piles)
        let_wait(canon, unit, UINT32_MAX); /* one less */
    VEC_PUSH(canon->trail, canon->trail_count, canon->trail_room) = (struct undo){TAKEN, number};
}

static void take_back(struct canon *canon, size_t trail)
{
    while (canon->trail_count > trail) {
        struct undo undo = canon->trail[--canon->trail_count];
        struct unit *unit = &canon->units[undo.unit];
        if (undo.low != TAKEN) {
            unit->low = undo.low;
            continue;
        }
        canon->units[unit->previous].next = undo.unit;
        canon->units[unit->next].previous = undo.unit;
        for (uint32_t s = unit->first; s <= unit->last; s++)
            canon->total[s] += unit->size;
        if (canon->piles)
            let_wait(canon, unit, 1);
    }
}

static bool is_passed(const struct component *component, const struct unit *unit)
{
    return unit->low < component->level
            || (unit->low == component->level && unit->rank < component->rank);
}

/* Where this unit's top is at the least. */
static uint64_t least_top(const struct component *component, const struct unit *unit)
{
    return (unit->low < component->level ? component->level : unit->low) + unit->size;
}

static void heap_put(struct canon *canon, uint32_t *io_count, struct reach entry)
{
    uint32_t at = (*io_count)++;

    while (at > 0 && canon->heap[(at - 1) / 2].low > entry.low) {
        canon->heap[at] = canon->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    canon->heap[at] = entry;
}

static void heap_drop(struct canon *canon, uint32_t *io_count)
{
    struct reach entry = canon->heap[--*io_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= *io_count)
            break;
        if (child + 1 < *io_count && canon->heap[child + 1].low < canon->heap[child].low)
            child++;
        if (canon->heap[child].low >= entry.low)
            break;
        canon->heap[at] = canon->heap[child];
        at = child;
    }
    canon->heap[at] = entry;
}

/* A section has too little room for what is to come. */
static void note_failure(struct canon *canon, const struct component *component, uint32_t section)
{
    uint32_t at = component->head;

    canon->short_of[section]++;
    for (uint32_t i = 0; i < component->count && canon->units[at].first <= section; i++) {
        canon->blame[at] += canon->units[at].last >= section;
        at = canon->units[at].next;
    }
}

/*
 * Is there room in every section for all that is still to come there, above the lowest of it? Between a section in which a block
 * begins and the end of the lowest one nothing can get worse, so only such sections are looked at. *ret_most: the most bytes that
 * any section waits for.
 */
static bool fits(struct canon *canon, const struct component *component, uint64_t *ret_most)
{
    uint32_t heap_count = 0;
    uint32_t at = component->head;
    uint32_t left = component->count;
    uint32_t section = canon->units[at].first;
    uint64_t most = 0;

    while (left || heap_count) {
        if (!heap_count)
            section = canon->units[at].first;
        while (left && canon->units[at].first == section) {
            heap_put(canon, &heap_count, (struct reach){canon->lifted[at], canon->units[at].last});
            at = canon->units[at].next;
            left--;
        }
        while (heap_count && canon->heap[0].last < section)
            heap_drop(canon, &heap_count);
        if (!heap_count)
            continue;
        uint64_t total = canon->total[section];
        if (total > component->ceiling || canon->heap[0].low > component->ceiling - total) {
            note_failure(canon, component, section);
            return false;
        }
        if (total > most)
            most = total;
        section = canon->heap[0].last + 1;
        if (left && canon->units[at].first < section)
            section = canon->units[at].first;
    }
    *ret_most = most;
    return true;
}

/* The first `count` blocks and the others live at different times. The smaller part is looked at first. */
static void split(
        struct canon *canon, const struct component *component, uint32_t count, uint32_t head)
{
    struct component left = *component;
    struct component right = *component;

    left.count = count;
    right.head = head;
    right.count -= count;
    bool left_last = left.count < right.count;
    VEC_PUSH(canon->pending, canon->pending_count, canon->pending_room) = left_last ? right : left;
    VEC_PUSH(canon->pending, canon->pending_count, canon->pending_room) = left_last ? left : right;
}

enum opened {
    OPENED_FAILED,
    OPENED_DONE, /* placed, or put back in parts */
    OPENED_CHOICE
};

/* What can be taken first, if all bounds hold. */
static enum opened make_choice(struct canon *canon, const struct component *component)
{
    uint64_t least = UINT64_MAX; /* top, at the true low */
    uint64_t any = UINT64_MAX;   /* at the level or above */
    uint64_t most;
    uint32_t at = component->head;

    for (uint32_t i = 0; i < component->count; i++) {
        const struct unit *unit = &canon->units[at];
        uint64_t top = unit->low + unit->size;
        uint64_t high = least_top(component, unit);
        if (top > component->ceiling || top + unit->tail > canon->capacity)
            return OPENED_FAILED;
        least = top < least && !unit->waits ? top : least;
        any = high < any ? high : any;
        at = unit->next;
    }
    at = component->head;
    for (uint32_t i = 0; i < component->count; i++) {
        const struct unit *unit = &canon->units[at];
        /* What was passed over waits for another one below it. */
        canon->lifted[at] = is_passed(component, unit) ? any : unit->low;
        if (canon->lifted[at] > component->ceiling - unit->size)
            return OPENED_FAILED;
        at = unit->next;
    }
    if (!fits(canon, component, &most))
        return OPENED_FAILED;
    uint64_t too_high = component->ceiling - most + 1;
    VEC_PUSH(canon->choices, canon->choice_count, canon->choice_room) =
            (struct choice){.component = *component,
                    .trail = (uint32_t)canon->trail_count,
                    .pending = (uint32_t)canon->pending_count,
                    .tried_low = component->level,
                    .tried_rank = component->rank,
                    .too_high = least < too_high ? least : too_high};
    return OPENED_CHOICE;
}

/* Takes what needs no choice, and falls into parts or ends in one. */
static enum opened open_component(struct canon *canon, struct component component)
{
    while (component.count) {
        const struct unit *head = &canon->units[component.head];
        uint32_t last = head->last;
        uint32_t at = head->next;
        uint32_t count = 1;
        for (; count < component.count && canon->units[at].first <= last; count++) {
            if (canon->units[at].last > last)
                last = canon->units[at].last;
            at = canon->units[at].next;
        }
        if (count < component.count) {
            split(canon, &component, count, at);
            return OPENED_DONE;
        }
        /* Those that live throughout are first in the list. */
        if (head->last < last)
            return make_choice(canon, &component);
        if (component.ceiling < head->size || head->low > component.ceiling - head->size)
            return OPENED_FAILED;
        if (count == 1) {
            if (is_passed(&component, head))
                return OPENED_FAILED; /* nothing is left that could be below it */
            take(canon, component.head, head->low);
            return OPENED_DONE;
        }
        component.ceiling -= head->size;
        at = head->next;
        take(canon, component.head, component.ceiling);
        component.head = at;
        component.count--;
    }
    return OPENED_DONE;
}

static bool is_twin(const struct unit *a, const struct unit *b)
{
    return a->first == b->first && a->last == b->last && a->size == b->size;
}

/* The next block to take at this node, the list's end if there is none. */
static uint32_t next_candidate(const struct canon *canon, const struct choice *choice)
{
    const struct component *component = &choice->component;
    const struct unit *before = NULL;
    uint32_t best = canon->count;
    uint32_t at = component->head;

    for (uint32_t i = 0; i < component->count; i++) {
        const struct unit *unit = &canon->units[at];
        bool twin = before && !before->waits && is_twin(before, unit);
        bool tried = unit->low < choice->tried_low
                || (unit->low == choice->tried_low && unit->rank < choice->tried_rank);
        if (!twin && !tried && !unit->waits && unit->low < choice->too_high) {
            const struct unit *other = &canon->units[best];
            if (best == canon->count || unit->low < other->low
                    || (unit->low == other->low && unit->rank < other->rank))
                best = at;
        }
        before = unit;
        at = unit->next;
    }
    return best;
}

/* Goes back to the last node that made `creator`'s component and has something left to take. False: there is none. */
static bool go_back(struct canon *canon, uint32_t creator, uint32_t *ret_choice, uint32_t *ret_unit)
{
    while (creator != ROOT) {
        struct choice *choice = &canon->choices[creator];
        take_back(canon, choice->trail);
        canon->choice_count = (size_t)creator + 1;
        canon->pending_count = choice->pending;
        uint32_t unit = next_candidate(canon, choice);
        if (unit != canon->count) {
            *ret_choice = creator;
            *ret_unit = unit;
            return true;
        }
        canon->choice_count = creator;
        creator = choice->component.creator;
    }
    return false;
}

/* A node: takes `number` at its low. Those that it meets stand on it, the others come at its level or above. */
static void follow(struct canon *canon, uint32_t choice_number, uint32_t number)
{
    struct choice *choice = &canon->choices[choice_number];
    struct component rest = choice->component;
    const struct unit *unit = &canon->units[number];
    uint64_t top = unit->low + unit->size;
    uint32_t at = rest.head;

    choice->tried_low = unit->low;
    choice->tried_rank = unit->rank + 1;
    for (uint32_t i = 0; i < rest.count && canon->units[at].first <= unit->last; i++) {
        struct unit *other = &canon->units[at];
        if (at != number && other->last >= unit->first && other->low < top) {
            VEC_PUSH(canon->trail, canon->trail_count, canon->trail_room) =
                    (struct undo){other->low, at};
            other->low = top;
        }
        at = other->next;
    }
    rest.creator = choice_number;
    rest.level = unit->low;
    rest.rank = unit->rank + 1;
    rest.count--;
    if (rest.head == number)
        rest.head = unit->next;
    take(canon, number, unit->low);
    VEC_PUSH(canon->pending, canon->pending_count, canon->pending_room) = rest;
}

static int compare_standing(const void *a, const void *b, void *units)
{
    uint32_t i = *(const uint32_t *)a;
    uint32_t j = *(const uint32_t *)b;
    const struct unit *x = (const struct unit *)units + i;
    const struct unit *y = (const struct unit *)units + j;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (i > j) - (i < j);
}

/* Lets everything down as far as it goes, since blocks were put to the top of their components, and hands the offsets over. */
static void settle(struct canon *canon)
{
    uint32_t *list = vec_new(canon->count, sizeof(*list));
    uint64_t *floor = vec_new(canon->sections->count, sizeof(*floor));

    for (uint32_t i = 0; i < canon->count; i++)
        list[i] = i;
    qsort_r(list, canon->count, sizeof(*list), compare_standing, canon->units);
    for (uint32_t i = 0; i < canon->count; i++) {
        const struct unit *unit = &canon->units[list[i]];
        uint64_t offset = 0;
        for (uint32_t s = unit->first; s <= unit->last; s++) {
            if (floor[s] > offset)
                offset = floor[s];
        }
        for (uint32_t s = unit->first; s <= unit->last; s++)
            floor[s] = offset + unit->size;
        canon->sections->spans[unit->span].offset = offset;
    }
    free(floor);
    free(list);
}

enum canon_result canon_search(struct canon *canon, enum canon_order order,
        const struct canon_limits *limits, uint64_t *ret_nodes)
{
    *ret_nodes = 0;
    start(canon, order, limits->capacity);
    while (canon->pending_count) {
        struct component component = canon->pending[--canon->pending_count];
        enum opened opened = open_component(canon, component);
        uint32_t choice;
        uint32_t unit;
        if (opened == OPENED_DONE)
            continue;
        if (opened == OPENED_CHOICE)
            component.creator = (uint32_t)canon->choice_count - 1;
        if (!go_back(canon, component.creator, &choice, &unit))
            return CANON_NONE;
        if (*ret_nodes == limits->nodes)
            return CANON_LIMIT;
        ++*ret_nodes;
        if (*ret_nodes % ASK_EVERY == 0 && limits->keep_on
                && !limits->keep_on(limits->self, *ret_nodes))
            return CANON_STOPPED;
        follow(canon, choice, unit);
    }
    settle(canon);
    return CANON_FOUND;
}

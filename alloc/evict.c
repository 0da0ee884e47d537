/* SPDX-License-Identifier: MIT */
#include "alloc/evict.h"

#include "alloc/meta.h"

#include <errno.h>
#include <string.h>

enum {
    EVICT_ARRAY_FIRST = 16,
    EVICT_ORDER_MAX =
            1 << 20, /* a step of more positions is not learnt, and plans have no more together */
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
static int array_reserve(struct array *array, uint64_t count)
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

static void array_done(struct array *array)
{
    meta_put(array->at, (size_t)array->room * array->record);
}

static void array_swap(struct array *a, struct array *b)
{
    struct array was = *a;

    *a = *b;
    *b = was;
}

static uint32_t *numbers(const struct array *array)
{
    return array->at;
}

static int push_number(struct array *array, uint32_t number)
{
    int r = array_reserve(array, (uint64_t)array->count + 1);

    if (r == 0)
        numbers(array)[array->count++] = number;
    return r;
}

static struct unit *unit_at(const struct evict *set, uint32_t unit)
{
    return (struct unit *)set->unit.at + unit;
}

static struct planned_call *call_at(const struct move_plan *plan, uint32_t call)
{
    return (struct planned_call *)plan->call.at + call;
}

static struct planned *planned_at(const struct move_plan *plan, uint32_t move)
{
    return (struct planned *)plan->move.at + move;
}

/* ---- what is known ---- */

static bool is_planned(const struct evict *set)
{
    return set->order.count > 0;
}

static bool is_farthest(const struct evict *set)
{
    return set->opts.victim == RULE_VICTIM_FARTHEST;
}

static uint64_t cap_of(const struct evict *set)
{
    bool is_warmup = is_farthest(set) && !is_planned(set) && set->opts.warmup_cap;

    return is_warmup ? set->opts.warmup_cap : set->opts.cap;
}

/* The number of the call that runs, or is about to, in its step. */
static uint32_t call_now(const struct evict *set)
{
    return (uint32_t)(set->group - set->group_before);
}

/* In this step. */
static bool is_used(const struct evict *set, const struct unit *unit)
{
    return unit->group > set->group_before;
}

static uint32_t uses_of(const struct evict *set, const struct unit *unit)
{
    return is_used(set, unit) ? unit->uses : 0;
}

static uint64_t next_use(
        const struct evict *set, const struct unit *unit, uint32_t uses, bool is_cyclic)
{
    uint64_t length = set->order.count;

    if (uses < unit->count)
        return numbers(&set->position)[unit->first + uses];
    if (!is_cyclic)
        return length;
    if (unit->is_passing)
        return 2 * length;
    return length + (unit->count ? numbers(&set->position)[unit->first] : length);
}

static uint64_t key_of(const struct evict *set, const struct unit *unit)
{
    switch (set->opts.victim) {
    case RULE_VICTIM_FARTHEST:
        return is_planned(set) ? next_use(set, unit, uses_of(set, unit), set->opts.cyclic) : 0;
    case RULE_VICTIM_LRU:
        return ~unit->group;
    case RULE_VICTIM_FIFO:
        return ~unit->came;
    }
    return 0;
}

/* ---- the heap: whose turn it is to go out ---- */

static bool goes_before(struct evict *set, uint32_t a, uint32_t b)
{
    const struct unit *left = unit_at(set, a);
    const struct unit *right = unit_at(set, b);

    set->looks++;
    if (left->key != right->key)
        return left->key > right->key;
    return left->ticket < right->ticket;
}

static void heap_put(struct evict *set, uint32_t place, uint32_t unit)
{
    numbers(&set->heap)[place] = unit;
    unit_at(set, unit)->heap = place + 1;
}

/* The unit at this place goes down to where it belongs. */
static void heap_sink(struct evict *set, uint32_t place)
{
    const uint32_t *heap = numbers(&set->heap);
    uint32_t unit = heap[place];

    for (uint32_t child = 2 * place + 1; child < set->heap.count; child = 2 * place + 1) {
        if (child + 1 < set->heap.count && goes_before(set, heap[child + 1], heap[child]))
            child++;
        if (!goes_before(set, heap[child], unit))
            break;
        heap_put(set, place, heap[child]);
        place = child;
    }
    heap_put(set, place, unit);
}

/* Up or down. */
static void heap_sift(struct evict *set, uint32_t place)
{
    const uint32_t *heap = numbers(&set->heap);
    uint32_t unit = heap[place];

    while (place > 0 && goes_before(set, unit, heap[(place - 1) / 2])) {
        heap_put(set, place, heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(set, place, unit);
    heap_sink(set, place);
}

/* Its key has changed, or it is not there yet. evict_add has made room. */
static void heap_place(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);

    if (!set->is_heap || !unit->is_in || unit->held)
        return;
    unit->key = key_of(set, unit);
    if (!unit->heap)
        heap_put(set, set->heap.count++, index);
    heap_sift(set, unit->heap - 1);
}

static void heap_remove(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);
    uint32_t place = unit->heap - 1;

    if (!set->is_heap || !unit->heap)
        return;
    unit->heap = 0;
    if (place == --set->heap.count)
        return;
    heap_put(set, place, numbers(&set->heap)[set->heap.count]);
    heap_sift(set, place);
}

/* After a time in which nobody asked for victims, or when all keys are others. */
static void heap_make(struct evict *set)
{
    if (set->is_heap)
        return;
    set->is_heap = true;
    set->heap.count = 0;
    set->looks += set->unit.count;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = unit_at(set, i);

        unit->heap = 0;
        unit->key = key_of(set, unit);
        if (unit->is_in && !unit->held)
            heap_put(set, set->heap.count++, i);
    }
    for (uint32_t place = set->heap.count / 2; place-- > 0;)
        heap_sink(set, place);
}

/* ---- in and out ---- */

static uint64_t hash_of(uint32_t unit)
{
    uint64_t hash = (unit + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static void put_in(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);

    unit->is_in = true;
    unit->came = ++set->arrivals;
    set->in_count++;
    set->in_bytes += unit->size;
    set->held_bytes += unit->held ? unit->size : 0;
    set->hash += hash_of(index);
    heap_place(set, index);
}

static void put_out(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);

    heap_remove(set, index);
    unit->is_in = false;
    set->in_count--;
    set->in_bytes -= unit->size;
    set->held_bytes -= unit->held ? unit->size : 0;
    set->hash -= hash_of(index);
}

/* Says it and counts it. The caller has made room for the move. */
static void make_move(struct evict *set, uint32_t index, bool in)
{
    struct evict_move *move = (struct evict_move *)set->move.at + set->move.count++;

    *move = (struct evict_move){.unit = index, .in = in};
    if (in) {
        put_in(set, index);
        set->moved_in += unit_at(set, index)->size;
    } else {
        put_out(set, index);
        set->moved_out += unit_at(set, index)->size;
    }
}

/* ---- units that come and go ---- */

static void plan_init(struct move_plan *plan)
{
    plan->call.record = sizeof(struct planned_call);
    plan->move.record = sizeof(struct planned);
}

static void plan_done(struct move_plan *plan)
{
    array_done(&plan->call);
    array_done(&plan->move);
}

int evict_new(const struct evict_opts *opts, struct evict **ret_set)
{
    struct evict *set = meta_get(sizeof(*set));

    if (!set)
        return -ENOMEM;
    set->opts = *opts;
    set->unit.record = sizeof(struct unit);
    set->move.record = sizeof(struct evict_move);
    plan_init(&set->next_plan);
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        plan_init(&set->plans[i]);
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
    plan_done(&set->next_plan);
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        plan_done(&set->plans[i]);
    meta_put(set, sizeof(*set));
}

/* The one that is replayed, or in the making: something is not as it was. */
static void forget_plan(struct evict *set)
{
    if (set->is_replayed)
        set->plan->is_valid = false;
    set->is_replayed = set->is_planning = false;
}

static void forget_all_plans(struct evict *set)
{
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        set->plans[i].is_valid = false;
    forget_plan(set);
}

void evict_set_cap(struct evict *set, uint64_t cap, uint64_t warmup_cap)
{
    if (set->opts.cap != cap)
        forget_all_plans(set);
    set->opts.cap = cap;
    set->opts.warmup_cap = warmup_cap;
}

/* The one that was made as the same number in the last step, if this one is to take its place. 0 = no. */
static uint32_t place_of_old(const struct evict *set, uint64_t size)
{
    const struct unit *unit;

    if (set->step == 0 || set->made.count >= set->made_before.count)
        return 0;
    unit = unit_at(set, numbers(&set->made_before)[set->made.count]);
    return !unit->is_live && unit->size == size ? numbers(&set->made_before)[set->made.count] : 0;
}

/* This step is not learnt, and no longer compared with the order that is known. */
static void lose_step(struct evict *set)
{
    set->is_lost = true;
    set->is_same = false;
}

/* A record for a unit that takes nobody's place. 0 = no memory. */
static uint32_t new_record(struct evict *set)
{
    uint32_t index = set->free_head;

    if (index) {
        set->free_head = unit_at(set, index)->next;
    } else {
        if (set->unit.count >= EVICT_CALL_END
                || array_reserve(&set->unit, (uint64_t)set->unit.count + 1) != 0
                || array_reserve(&set->heap, set->unit.count) != 0)
            return 0;
        index = set->unit.count++;
    }
    memset(unit_at(set, index), 0, sizeof(struct unit));
    unit_at(set, index)->ticket = ++set->tickets;
    return index;
}

int evict_add(struct evict *set, uint64_t size, uint32_t *ret_unit)
{
    uint32_t index = place_of_old(set, size);
    struct unit *unit;

    if (!index)
        index = new_record(set);
    if (!index)
        return -ENOMEM;
    if (set->step > 0 && !set->is_lost
            && (set->made.count == EVICT_ORDER_MAX || push_number(&set->made, index) != 0))
        lose_step(set);
    unit = unit_at(set, index);
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
    unit_at(set, index)->next = set->free_head;
    set->free_head = index;
}

/* Its record stays while an order, or the list of what was made, has it. */
void evict_remove(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);

    if (unit->is_in)
        put_out(set, index);
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
    struct unit *unit = unit_at(set, index);

    if (unit->held++ > 0)
        return;
    set->held_bytes += unit->is_in ? unit->size : 0;
    heap_remove(set, index);
}

void evict_let_go(struct evict *set, uint32_t index)
{
    struct unit *unit = unit_at(set, index);

    if (--unit->held > 0)
        return;
    set->held_bytes -= unit->is_in ? unit->size : 0;
    heap_place(set, index);
}

/* ---- steps ---- */

/* The records of the gone that nothing refers to after the step that ends. */
static void sweep_gone(struct evict *set)
{
    uint32_t index = set->gone_head;

    set->gone_head = 0;
    while (index) {
        struct unit *unit = unit_at(set, index);
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

/* What this step has recorded is the order from now on; none, if it cannot be. */
static void learn_order(struct evict *set)
{
    uint32_t first = 0;

    array_swap(&set->order, &set->recorded);
    if (set->is_lost || array_reserve(&set->position, set->order.count) != 0)
        set->order.count = 0;
    for (uint32_t i = 1; i < set->unit.count; i++)
        unit_at(set, i)->count = unit_at(set, i)->uses = 0;
    for (uint32_t at = 0; at < set->order.count; at++)
        unit_at(set, numbers(&set->order)[at] & ~EVICT_CALL_END)->count++;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = unit_at(set, i);

        unit->first = first;
        unit->is_passing = !unit->is_live;
        first += unit->count;
    }
    for (uint32_t at = 0; at < set->order.count; at++) {
        struct unit *unit = unit_at(set, numbers(&set->order)[at] & ~EVICT_CALL_END);

        numbers(&set->position)[unit->first + unit->uses++] = at;
    }
}

/* Units of the stated order by their numbers, in set->named; 0 = there is none of this number. False: no memory. */
static bool number_units(struct evict *set)
{
    uint32_t *numbered;

    if (array_reserve(&set->named, set->tickets) != 0)
        return false;
    numbered = numbers(&set->named);
    memset(numbered, 0, set->tickets * sizeof(*numbered));
    for (uint32_t i = 1; i < set->unit.count; i++)
        if (unit_at(set, i)->is_live)
            numbered[unit_at(set, i)->ticket - 1] = i;
    return true;
}

/* As if a step had had the stated order. One that names the same unit twice in a row has it once, as in a step. */
static void state_order(struct evict *set)
{
    uint32_t before = 0;

    if (set->opts.order_count == 0 || set->opts.order_count > EVICT_ORDER_MAX || set->tickets == 0
            || array_reserve(&set->recorded, set->opts.order_count) != 0 || !number_units(set))
        return;
    for (uint32_t at = 0; at < set->opts.order_count; at++) {
        uint32_t number = set->opts.order[at];
        uint32_t index = number < set->tickets ? numbers(&set->named)[number] : 0;

        if (index == 0 || index == before)
            continue;
        numbers(&set->recorded)[set->recorded.count++] = index | EVICT_CALL_END;
        before = index;
    }
    learn_order(set);
}

/* The moves of a call that has been decided begin here. False: no memory. */
static bool plan_call(struct evict *set)
{
    struct move_plan *plan = &set->next_plan;

    if (array_reserve(&plan->call, (uint64_t)plan->call.count + 1) != 0)
        return false;
    *call_at(plan, plan->call.count++) =
            (struct planned_call){.first = plan->move.count, .ahead = set->opts.prefetch};
    return true;
}

/* For a plan that has been made: one that is no longer valid, else the oldest. */
static struct move_plan *plan_to_replace(struct evict *set)
{
    uint64_t fit = max_of(1, min_of(EVICT_PLANS, EVICT_ORDER_MAX / set->order.count));

    for (uint32_t i = 0; i < fit; i++)
        if (!set->plans[i].is_valid)
            return &set->plans[i];
    return &set->plans[set->plans_made % fit];
}

/* What was decided in the step that ends is a plan, if it had the order that it was decided by. */
static void end_plan(struct evict *set)
{
    struct move_plan *plan = plan_to_replace(set);

    if (!set->is_planning || !plan_call(set))
        return;
    array_swap(&plan->call, &set->next_plan.call);
    array_swap(&plan->move, &set->next_plan.move);
    plan->start = set->start;
    plan->is_valid = true;
    set->plans_made++;
}

/* Of a step that begins as this one. NULL = there is none. */
static struct move_plan *plan_of_start(struct evict *set)
{
    for (uint32_t i = 0; i < EVICT_PLANS; i++)
        if (set->plans[i].is_valid && set->plans[i].start == set->start)
            return &set->plans[i];
    return NULL;
}

void evict_step(struct evict *set)
{
    if (set->is_same && !set->is_lost && set->recorded.count == set->order.count) {
        end_plan(set);
    } else if (set->step > 0) {
        learn_order(set);
        forget_all_plans(set);
    } else {
        state_order(set);
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
    set->is_same = is_planned(set);
    set->plan = plan_of_start(set);
    set->is_replayed = set->plan != NULL;
    set->is_planning = is_planned(set) && is_farthest(set) && !set->is_replayed;
}

/* ---- one use ---- */

/* What is asked of a call's units together. */
struct demand {
    uint64_t bytes;      /* of all */
    uint64_t held_bytes; /* of those that are in and held */
    bool is_again;       /* the last call has named all of them */
    bool is_in;          /* all are */
};

/* Each unit once, in set->named. */
static struct demand name_units(struct evict *set, const uint32_t *units, uint32_t count)
{
    struct demand demand = {.is_again = set->group > set->group_before, .is_in = true};

    set->marks++;
    set->named.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct unit *unit = unit_at(set, units[i]);

        set->looks++;
        if (unit->mark == set->marks)
            continue;
        unit->mark = set->marks;
        numbers(&set->named)[set->named.count++] = units[i];
        demand.bytes += unit->size;
        demand.held_bytes += unit->is_in && unit->held ? unit->size : 0;
        demand.is_again = demand.is_again && unit->group == set->group;
        demand.is_in = demand.is_in && unit->is_in;
    }
    return demand;
}

/* The positions of the call that is named. */
static void record_call(struct evict *set)
{
    uint64_t from = set->recorded.count;
    uint64_t to = from + set->named.count;

    if (set->step == 0 || set->is_lost)
        return;
    if (to > EVICT_ORDER_MAX || array_reserve(&set->recorded, to) != 0) {
        lose_step(set);
        return;
    }
    set->is_same = set->is_same && to <= set->order.count;
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t entry = numbers(&set->named)[i];

        if (i + 1 == set->named.count)
            entry |= EVICT_CALL_END;
        set->is_same = set->is_same && numbers(&set->order)[from + i] == entry;
        numbers(&set->recorded)[from + i] = entry;
    }
    set->recorded.count = (uint32_t)to;
}

/* Can it be made as things are? */
static bool is_possible(const struct evict *set, const struct planned *planned)
{
    const struct unit *unit = unit_at(set, planned->unit);

    if (planned->in)
        return unit->is_live && !unit->is_in
                && unit->size <= excess_of(set->opts.cap, set->in_bytes);
    return unit->is_in && !unit->held && unit->mark != set->marks;
}

/* The next move of the plan. */
static void replay_move(struct evict *set)
{
    const struct planned *planned = planned_at(set->plan, set->head++);

    unit_at(set, planned->unit)->moved_for = planned->in ? planned->call + 1 : 0;
    make_move(set, planned->unit, planned->in);
}

/* What the plan says of this call. False: something is not as it was; the moves so far stay good. */
static bool replay_call(struct evict *set)
{
    uint32_t end = call_at(set->plan, call_now(set) + 1)->first;

    set->is_heap = false;
    for (; set->head < end; replay_move(set)) {
        set->looks++;
        if (!is_possible(set, planned_at(set->plan, set->head)))
            return false;
    }
    for (uint32_t i = 0; i < set->named.count; i++)
        if (!unit_at(set, numbers(&set->named)[i])->is_in)
            return false;
    return set->in_bytes <= set->opts.cap;
}

/* Moves of later calls that may begin behind this one, which has been counted. One that may not holds up the others. */
static void replay_ahead(struct evict *set)
{
    uint32_t next = call_now(set);

    for (; set->head < set->plan->move.count; replay_move(set)) {
        const struct planned *planned = planned_at(set->plan, set->head);

        set->looks++;
        if (planned->call - next >= call_at(set->plan, planned->call)->ahead
                || planned->after >= next || !is_possible(set, planned)
                || array_reserve(&set->move, (uint64_t)set->move.count + 1) != 0)
            return;
    }
}

/* For the plan of the next step. */
static void plan_move(struct evict *set, uint32_t index, bool in)
{
    struct move_plan *plan = &set->next_plan;
    const struct unit *unit = unit_at(set, index);

    if (!set->is_planning)
        return;
    if (array_reserve(&plan->move, (uint64_t)plan->move.count + 1) != 0) {
        set->is_planning = false;
        return;
    }
    *planned_at(plan, plan->move.count++) = (struct planned){.unit = index,
            .call = call_now(set),
            .in = in,
            .after = is_used(set, unit) ? (uint32_t)(unit->group - set->group_before) : 0};
}

static void decide_move(struct evict *set, uint32_t index, bool in)
{
    plan_move(set, index, in);
    unit_at(set, index)->moved_for = 0;
    make_move(set, index, in);
}

/* What is in and not held goes out, the first in turn first, until there is room for so much more. */
static void decide_victims(struct evict *set, uint64_t more)
{
    while (set->heap.count > 0 && set->in_bytes + more > cap_of(set))
        decide_move(set, numbers(&set->heap)[0], false);
}

/* There is room, if all goes out that can. */
static void decide_call(struct evict *set)
{
    uint64_t more = 0;

    heap_make(set);
    if (set->is_planning && !(set->is_same && plan_call(set)))
        set->is_planning = false;
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = numbers(&set->named)[i];

        more += unit_at(set, index)->is_in ? 0 : unit_at(set, index)->size;
        heap_remove(set, index);
    }
    decide_victims(set, more);
    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = numbers(&set->named)[i];

        if (!unit_at(set, index)->is_in)
            decide_move(set, index, true);
        else
            heap_place(set, index);
    }
}

/* The call has its positions. */
static void count_call(struct evict *set)
{
    uint64_t group = set->group + 1;

    for (uint32_t i = 0; i < set->named.count; i++) {
        uint32_t index = numbers(&set->named)[i];
        struct unit *unit = unit_at(set, index);

        unit->uses = uses_of(set, unit) + 1;
        unit->group = group;
        unit->seen = set->step;
        heap_place(set, index);
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
    room = excess_of(max_of(cap_of(set), set->opts.cap), set->held_bytes - demand.held_bytes);
    if (demand.bytes > room) {
        *ret = (struct evict_moves){.needed = demand.bytes, .room = room};
        return -ENOSPC;
    }
    set->move.count = 0;
    if (set->named.count == 0
            || (demand.is_again && demand.is_in && set->in_bytes <= cap_of(set))) {
        tell_moves(set, 0, ret);
        return 0;
    }
    if (demand.is_again)
        forget_plan(set);
    else
        record_call(set);
    if (set->is_replayed && !(set->is_same && replay_call(set)))
        forget_plan(set);
    if (!set->is_replayed)
        decide_call(set);
    needed = set->move.count;
    if (!demand.is_again)
        count_call(set);
    if (set->is_replayed)
        replay_ahead(set);
    tell_moves(set, needed, ret);
    return 0;
}

void evict_undo(struct evict *set, uint32_t index)
{
    const struct unit *unit = unit_at(set, index);

    if (unit->is_in) {
        put_out(set, index);
        set->moved_in -= min_of(set->moved_in, unit->size);
    } else {
        put_in(set, index);
        set->moved_out -= min_of(set->moved_out, unit->size);
    }
}

/* Moves before it have to begin as early, since they are made in their order. */
void evict_late(struct evict *set, uint32_t index)
{
    uint32_t call = unit_at(set, index)->moved_for;
    uint32_t begin;

    if (!set->is_replayed || !call || call >= set->plan->call.count)
        return;
    call--;
    if (call_at(set->plan, call)->ahead >= call)
        return;
    begin = call - ++call_at(set->plan, call)->ahead;
    while (--call > begin && call - min_of(call, call_at(set->plan, call)->ahead) > begin)
        call_at(set->plan, call)->ahead = call - begin;
}

uint64_t evict_make_room(struct evict *set, uint64_t want, struct evict_moves *ret)
{
    uint64_t before = set->in_bytes;

    set->move.count = 0;
    if (array_reserve(&set->move, set->in_count) == 0) {
        heap_make(set);
        while (set->heap.count > 0 && before - set->in_bytes < want)
            make_move(set, numbers(&set->heap)[0], false);
    }
    tell_moves(set, set->move.count, ret);
    return before - set->in_bytes;
}

/* The heap has what is out, earliest next use on top, until victims are asked for. */
static void heap_make_of_out(struct evict *set)
{
    set->is_heap = false;
    set->heap.count = 0;
    for (uint32_t i = 1; i < set->unit.count; i++) {
        struct unit *unit = unit_at(set, i);

        if (!unit->is_live || unit->is_in)
            continue;
        unit->key =
                ~(is_planned(set) ? next_use(set, unit, uses_of(set, unit), set->opts.cyclic) : 0);
        heap_put(set, set->heap.count++, i);
    }
    set->looks += set->unit.count;
    for (uint32_t place = set->heap.count / 2; place-- > 0;)
        heap_sink(set, place);
}

uint64_t evict_bring(struct evict *set, struct evict_moves *ret)
{
    uint64_t before = set->in_bytes;

    set->move.count = 0;
    if (array_reserve(&set->move, set->units - set->in_count) == 0) {
        heap_make_of_out(set);
        while (set->heap.count > 0) {
            uint32_t index = numbers(&set->heap)[0];

            if (unit_at(set, index)->size > excess_of(cap_of(set), set->in_bytes))
                break;
            unit_at(set, index)->moved_for = 0;
            make_move(set, index, true);
            heap_put(set, 0, numbers(&set->heap)[--set->heap.count]);
            heap_sink(set, 0);
        }
    }
    tell_moves(set, set->move.count, ret);
    return set->in_bytes - before;
}

/* ---- what it has come to ---- */

bool evict_is_in(const struct evict *set, uint32_t unit)
{
    return unit_at(set, unit)->is_in;
}

static enum evict_state state_of(const struct evict *set, const struct unit *unit)
{
    if (!unit->is_in)
        return EVICT_FREE;
    if (unit->group == set->group)
        return EVICT_COMPUTE;
    if (!is_used(set, unit))
        return EVICT_HOLD;
    return is_planned(set) && unit->uses >= unit->count ? EVICT_HOLD_AFTER_BACKWARD
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
            .is_planned = is_planned(set),
            .is_replayed = set->is_replayed,
            .looks = set->looks};
    for (uint32_t i = 1; i < set->unit.count; i++) {
        const struct unit *unit = unit_at(set, i);

        if (unit->is_live)
            ret->state_bytes[state_of(set, unit)] += unit->size;
    }
}

/* ---- the bound ---- */

enum {
    BOUND_PASSES = 255, /* not a power of two: something lies between the last two marks */
};

/* A copy of the set that units are used in, whole, and parts of them go out. */
struct bound {
    struct evict set;
    uint64_t *in;     /* bytes of each unit that are in */
    uint64_t *before; /* the same, a while ago */
};

/* Parts of what the call does not need go out, farthest next use first. */
static void bound_make_room(struct bound *bound, uint64_t more)
{
    struct evict *set = &bound->set;

    while (set->heap.count > 0 && set->in_bytes + more > set->opts.cap) {
        uint32_t index = numbers(&set->heap)[0];
        uint64_t part = min_of(bound->in[index], set->in_bytes + more - set->opts.cap);

        bound->in[index] -= part;
        set->in_bytes -= part;
        if (bound->in[index] == 0)
            heap_remove(set, index);
    }
}

/* What is gone in the next step takes its room with it after its last use. */
static void bound_use(struct bound *bound, uint32_t index, uint64_t begin)
{
    struct evict *set = &bound->set;
    struct unit *unit = unit_at(set, index);

    set->in_bytes += unit->size - bound->in[index];
    bound->in[index] = unit->size;
    unit->uses++;
    unit->key = begin + next_use(set, unit, unit->uses, true);
    if (unit->uses == unit->count) {
        unit->uses = 0;
        if (unit->is_passing) {
            set->in_bytes -= unit->size;
            bound->in[index] = 0;
            return;
        }
    }
    heap_put(set, set->heap.count++, index);
    heap_sift(set, set->heap.count - 1);
}

/* One step, which begins at this position of all. Bytes in. */
static uint64_t bound_step(struct bound *bound, uint64_t begin)
{
    const uint32_t *order = numbers(&bound->set.order);
    uint64_t moved = 0;
    uint32_t end;

    for (uint32_t at = 0; at < bound->set.order.count; at = end) {
        uint64_t more = 0;

        end = at;
        do {
            uint32_t index = order[end] & ~EVICT_CALL_END;

            more += unit_at(&bound->set, index)->size - bound->in[index];
            heap_remove(&bound->set, index);
        } while (!(order[end++] & EVICT_CALL_END));
        bound_make_room(bound, more);
        moved += more;
        for (uint32_t i = at; i < end; i++)
            bound_use(bound, order[i] & ~EVICT_CALL_END, begin);
    }
    return moved;
}

/* Steps until one begins as an earlier one did: their mean. */
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
    if (is_planned(set) && bound.in && bound.before && array_reserve(unit, count) == 0
            && array_reserve(heap, count) == 0 && unit->at && set->unit.at) {
        memcpy(unit->at, set->unit.at, (size_t)count * unit->record);
        unit->count = count;
        for (uint32_t i = 0; i < count; i++)
            unit_at(&bound.set, i)->heap = unit_at(&bound.set, i)->uses = 0;
        mean = bound_mean(&bound);
    }
    array_done(unit);
    array_done(heap);
    meta_put(bound.in, count * sizeof(*bound.in));
    meta_put(bound.before, count * sizeof(*bound.before));
    return mean;
}

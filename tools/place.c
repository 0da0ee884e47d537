/* SPDX-License-Identifier: MIT */
#include "tools/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/canon.h"
#include "tools/vec.h"

#define NODES_MAX      UINT64_C(4000000)
#define NODES_BY_COUNT UINT64_C(2000000000) /* nodes times blocks */
#define NODES_MIN      8                    /* for each block: some orders must come to their end */
#define ROUND_FIRST    1000                 /* nodes above what placing without one mistake takes */
#define ROUND_FACTOR   4   /* a round of the orders has so many times the nodes of the one before */
#define STEP_PARTS     200 /* the ladder of capacities: max live and 1/200 of it more each time */
#define WINDOW_FIRST   10  /* a window has at first up to this part of the sections on each side */
#define WINDOW_MORE    1.05
#define WINDOW_LESS    0.96
#define WINDOW_NODES   20 /* and one for each block, and the fifth part of that */
#define WINDOW_SLACK   5
#define BOLD_FIRST     0.25 /* of the way to max live, as a goal */
#define BOLD_LESS      0.9

/* The limit where the caller names none: less for many blocks, whose nodes take longer. */
static uint64_t limit_of(uint32_t count)
{
    uint64_t nodes = NODES_BY_COUNT / (count ? count : 1);

    if (nodes < NODES_MIN * (uint64_t)count)
        nodes = NODES_MIN * (uint64_t)count;
    return nodes < NODES_MAX ? nodes : NODES_MAX;
}

/* A part: blocks that no moment separates, without those that live all through it. */
struct part {
    struct sections sections;
    struct span *spans;
    uint32_t *numbers; /* in the caller's array */
    uint32_t count;
    uint64_t base;  /* what the ones that live throughout take, at the bottom */
    uint64_t *best; /* offsets, base not included */
    uint64_t peak;  /* of these, base included; UINT64_MAX = none yet */
    char how[PLACE_HOW_MAX];
};

struct solver {
    const struct place_request *request;
    struct place_result *result;
    struct span *spans;
    struct part *parts;
    size_t part_count, part_room;
    uint64_t goal;         /* a peak up to this is good enough */
    uint64_t impossible;   /* the highest peak that is known to be */
    uint64_t budget_end;   /* of nodes, for this goal */
    uint64_t nodes_before; /* the present call of canon_search */
    uint64_t random;
    bool stopped;
    bool broken; /* an answer of the search is wrong */
};

static void part_done(struct part *part)
{
    sections_done(&part->sections);
    free(part->spans);
    free(part->numbers);
    free(part->best);
}

static void part_keep(struct part *part, uint64_t peak)
{
    part->peak = part->base + peak;
    for (uint32_t i = 0; i < part->count; i++)
        part->best[i] = part->spans[i].offset;
}

static void part_make(
        struct solver *solver, const uint32_t *numbers, uint32_t count, struct part *ret_part)
{
    struct part part = {.peak = UINT64_MAX, .how = "nothing to choose"};
    uint32_t first = UINT32_MAX;
    uint32_t last = 0;
    uint32_t bad;

    part.spans = vec_new(count, sizeof(*part.spans));
    part.numbers = vec_new(count, sizeof(*part.numbers));
    part.best = vec_new(count, sizeof(*part.best));
    for (uint32_t i = 0; i < count; i++) {
        const struct span *span = &solver->spans[numbers[i]];
        first = span->first < first ? span->first : first;
        last = span->last > last ? span->last : last;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct span *span = &solver->spans[numbers[i]];
        if (span->first == first && span->last == last) {
            span->offset = part.base;
            part.base += span->size;
            solver->result->whole++;
        } else {
            part.spans[part.count] = *span;
            part.numbers[part.count++] = numbers[i];
        }
    }
    /* The caller has had all spans checked. */
    (void)sections_make(part.spans, part.count, &part.sections, &bad);
    if (part.count == 0)
        part.peak = part.base;
    *ret_part = part;
}

static int compare_first(const void *a, const void *b, void *spans)
{
    uint32_t i = *(const uint32_t *)a;
    uint32_t j = *(const uint32_t *)b;
    const struct span *x = (const struct span *)spans + i;
    const struct span *y = (const struct span *)spans + j;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (i > j) - (i < j);
}

/* Cuts where no block lives on from one section to the next. */
static void cut(struct solver *solver, uint32_t count)
{
    uint32_t *numbers = vec_new(count, sizeof(*numbers));
    uint32_t begin = 0;
    uint32_t last = 0;

    for (uint32_t i = 0; i < count; i++)
        numbers[i] = i;
    qsort_r(numbers, count, sizeof(*numbers), compare_first, solver->spans);
    for (uint32_t i = 0; i < count; i++) {
        const struct span *span = &solver->spans[numbers[i]];
        last = span->last > last ? span->last : last;
        if (i + 1 < count && solver->spans[numbers[i + 1]].first <= last)
            continue;
        struct part part;
        part_make(solver, numbers + begin, i + 1 - begin, &part);
        VEC_PUSH(solver->parts, solver->part_count, solver->part_room) = part;
        begin = i + 1;
    }
    solver->result->parts = (uint32_t)solver->part_count;
    free(numbers);
}

static bool keep_on(void *self, uint64_t nodes)
{
    struct solver *solver = self;
    const struct place_request *request = solver->request;
    uint64_t done = solver->nodes_before + nodes;
    uint64_t limit = solver->result->node_limit;

    return !request->keep_on || request->keep_on(request->self, done, done < limit ? limit : done);
}

/* The first placement comes to its end even so: there is no answer without it. */
static bool tell(void *self, uint64_t nodes)
{
    struct solver *solver = self;

    solver->stopped = solver->stopped || !keep_on(self, nodes);
    return true;
}

/* What the first order comes to without a ceiling: a placement to begin with, in as many nodes as there are blocks. */
static void place_anyhow(struct solver *solver, struct part *part)
{
    struct place_result *result = solver->result;
    struct canon *canon = canon_new(&part->sections);
    struct canon_limits limits = {.nodes = UINT64_MAX, .keep_on = tell, .self = solver};
    uint64_t nodes;
    uint64_t peak;

    for (uint32_t i = 0; i < part->count; i++)
        limits.capacity += part->spans[i].size;
    solver->nodes_before = result->nodes;
    if (canon_search(canon, CANON_FULLEST, &limits, &nodes) == CANON_FOUND
            && sections_check(part->spans, part->count, &peak))
        part_keep(part, peak);
    else
        solver->broken = true;
    (void)tell(solver, nodes);
    result->nodes += nodes;
    if (result->node_limit < result->nodes)
        result->node_limit = result->nodes;
    (void)snprintf(part->how, sizeof(part->how), "%s first", canon_order_name(CANON_FULLEST));
    canon_free(canon);
}

/* One search, of at most so many nodes. */
static enum canon_result search_once(struct solver *solver, struct part *part, struct canon *canon,
        enum canon_order order, uint64_t most)
{
    struct place_result *result = solver->result;
    uint64_t left = solver->budget_end - result->nodes;
    struct canon_limits limits = {.capacity = solver->goal - part->base,
            .nodes = most < left ? most : left,
            .keep_on = keep_on,
            .self = solver};
    uint64_t nodes;
    uint64_t peak;

    solver->nodes_before = result->nodes;
    enum canon_result found = canon_search(canon, order, &limits, &nodes);
    result->nodes += nodes;
    if (found != CANON_FOUND)
        return found;
    if (!sections_check(part->spans, part->count, &peak) || peak > limits.capacity) {
        solver->broken = true;
        return found;
    }
    part_keep(part, peak);
    (void)snprintf(part->how, sizeof(part->how), "search, %s first", canon_order_name(order));
    return found;
}

/*
 * The orders in turn, each time with more nodes, until one finds or disproves it or the budget is used up. One that learns
 * begins anew all the while: each of its searches is as short as the first ones, and there are more of them.
 */
static enum canon_result search_part(struct solver *solver, struct part *part)
{
    struct place_result *result = solver->result;
    struct canon *canon = canon_new(&part->sections);
    uint64_t first = 2 * (uint64_t)part->count + ROUND_FIRST;
    uint64_t round = first;
    enum canon_result found = CANON_LIMIT;

    for (unsigned i = 0; found == CANON_LIMIT && result->nodes < solver->budget_end; i++) {
        enum canon_order order = (enum canon_order)(i % CANON_ORDER_COUNT);
        bool learns = order == CANON_BLAMED || order == CANON_BLAMED_SECTIONS;
        uint64_t times = learns ? round / first : 1;
        for (uint64_t t = 0;
                t < times && found == CANON_LIMIT && result->nodes < solver->budget_end; t++)
            found = search_once(solver, part, canon, order, learns ? first : round);
        if (order == CANON_ORDER_COUNT - 1)
            round *= ROUND_FACTOR;
    }
    canon_free(canon);
    return found;
}

/* Brings every part down to solver->goal, or says which answer stood in the way. */
static enum canon_result reach_goal(struct solver *solver)
{
    for (uint32_t i = 0; i < solver->part_count; i++) {
        if (solver->parts[i].peak <= solver->goal)
            continue;
        enum canon_result found = search_part(solver, &solver->parts[i]);
        if (found != CANON_FOUND) {
            solver->stopped = solver->stopped || found == CANON_STOPPED;
            return found;
        }
    }
    return CANON_FOUND;
}

static struct part *highest(const struct solver *solver)
{
    struct part *part = NULL;

    for (uint32_t i = 0; i < solver->part_count; i++) {
        if (!part || solver->parts[i].peak > part->peak)
            part = &solver->parts[i];
    }
    return part;
}

/* What all sizes, and so all offsets and peaks of settled placements, are multiples of. */
static uint64_t grain_of(const struct span *spans, uint32_t count)
{
    uint64_t grain = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t a = spans[i].size;
        while (a) {
            uint64_t rest = grain % a;
            grain = a;
            a = rest;
        }
    }
    return grain ? grain : 1;
}

/*
 * Max live first, with half of the nodes. Then upwards in growing steps until one is found, and between it and what failed: a
 * quarter of what is left goes to each, so that a hopeless capacity does not eat up the others' chance. What is found may lie below
 * a capacity that was given up: that was too early, so that all above what is impossible is tried again.
 */
static void climb(struct solver *solver, uint64_t grain)
{
    struct place_result *result = solver->result;
    uint64_t high = highest(solver)->peak;
    uint64_t low = solver->impossible; /* given up */
    uint64_t step = result->max_live / STEP_PARTS / grain * grain;
    uint64_t by = grain;
    bool climbing = true;

    step = step ? step : grain;
    while (high - low > grain && !solver->stopped && !solver->broken
            && result->nodes < result->node_limit) {
        uint64_t part = low < result->max_live ? 2 : 4;
        solver->goal = high - low > by ? low + by : high - grain;
        solver->budget_end = result->nodes + (result->node_limit - result->nodes + part - 1) / part;
        enum canon_result found = reach_goal(solver);
        if (found == CANON_FOUND) {
            high = highest(solver)->peak;
            climbing = false;
            low = low < high ? low : solver->impossible;
        } else {
            low = solver->goal;
            if (found == CANON_NONE)
                solver->impossible = low;
        }
        by = climbing ? step : (high - low) / 2 / grain * grain;
        by = by ? by : grain;
        step *= 2;
    }
}

static uint32_t random_below(struct solver *solver, uint32_t n)
{
    solver->random = solver->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((solver->random >> 33) % n);
}

/* One of the blocks that reach above the goal; the present offsets are those of the best placement. */
static const struct span *pick_above(struct solver *solver, const struct part *part)
{
    const struct span *picked = &part->spans[0];
    uint32_t above = 0;

    for (uint32_t i = 0; i < part->count; i++) {
        const struct span *span = &part->spans[i];
        if (part->base + span->offset + span->size > solver->goal
                && random_below(solver, ++above) == 0)
            picked = span;
    }
    return picked;
}

/* For one try: placing without a mistake, and some. */
static uint64_t window_nodes(const struct part *part)
{
    return part->count + part->count / WINDOW_SLACK + WINDOW_NODES;
}

/*
 * A search that keeps the order in which the best placement stacks its blocks, except in a window: up to `width` sections on both
 * sides of one in which a block reaches above the goal. A node is counted even where none was needed, so that tries come to an end.
 */
static enum canon_result search_window(
        struct solver *solver, struct part *part, struct canon *canon, uint32_t width)
{
    bool *left_out = vec_new(part->sections.count, sizeof(*left_out));
    uint64_t nodes = solver->result->nodes;
    struct piles piles;

    for (uint32_t i = 0; i < part->count; i++)
        part->spans[i].offset = part->best[i];
    const struct span *span = pick_above(solver, part);
    uint32_t middle = span->first + random_below(solver, span->last - span->first + 1);
    uint32_t reach = 1 + random_below(solver, width + 1);
    for (uint32_t s = 0; s < part->sections.count; s++)
        left_out[s] = s + reach >= middle && s <= middle + reach;
    piles_make(&part->sections, left_out, &piles);
    canon_keep(canon, &piles);
    enum canon_result found = search_once(solver, part, canon, CANON_BLAMED, window_nodes(part));
    canon_keep(canon, NULL);
    piles_done(&piles);
    free(left_out);
    if (solver->result->nodes == nodes)
        solver->result->nodes++;
    return found;
}

/*
 * Large neighbourhood search on the highest part, until another one is, or all nodes are used up. The window grows where it
 * held no solution and shrinks where it was too much for its nodes; the goal comes nearer to what there is with each failure.
 */
static void improve(struct solver *solver, struct part *part, uint64_t grain)
{
    struct place_result *result = solver->result;
    struct canon *canon = canon_new(&part->sections);
    double most_width = part->sections.count;
    double width = most_width / WINDOW_FIRST;
    double bold = BOLD_FIRST;

    solver->budget_end = result->node_limit;
    while (part == highest(solver) && part->peak - solver->impossible > grain && !solver->stopped
            && !solver->broken && result->nodes < result->node_limit) {
        double by = (double)(part->peak - solver->impossible - grain) * bold;
        uint64_t steps = (uint64_t)by / grain;
        solver->goal = part->peak - (steps ? steps : 1) * grain;
        enum canon_result found = search_window(solver, part, canon, (uint32_t)width);
        bold = found == CANON_FOUND ? BOLD_FIRST : bold * BOLD_LESS;
        if (found == CANON_NONE)
            width = width * WINDOW_MORE < most_width ? width * WINDOW_MORE : most_width;
        else if (found == CANON_LIMIT)
            width *= WINDOW_LESS;
        solver->nodes_before = result->nodes;
        solver->stopped = solver->stopped || found == CANON_STOPPED || !keep_on(solver, 0);
    }
    canon_free(canon);
}

static void solve(struct solver *solver, uint64_t grain)
{
    const struct place_request *request = solver->request;
    struct place_result *result = solver->result;
    enum canon_result found = CANON_FOUND;

    solver->goal = request->capacity ? request->capacity : result->max_live;
    solver->impossible = result->max_live - grain;
    for (uint32_t i = 0; i < solver->part_count && !request->capacity; i++)
        if (solver->parts[i].count)
            place_anyhow(solver, &solver->parts[i]);
    if (request->capacity) {
        solver->budget_end = result->node_limit;
        found = reach_goal(solver);
    } else {
        climb(solver, grain);
        for (struct part *part = NULL; part != highest(solver);) {
            part = highest(solver);
            improve(solver, part, grain);
        }
    }
    if (solver->broken) {
        result->status = PLACE_BROKEN;
        return;
    }
    if (found != CANON_FOUND) {
        result->status = found == CANON_NONE ? PLACE_IMPOSSIBLE : PLACE_UNKNOWN;
        return;
    }
    const struct part *part = highest(solver);
    result->peak = part->peak;
    result->least = part->peak - solver->impossible <= grain;
    memcpy(result->how, part->how, sizeof(result->how));
    for (uint32_t i = 0; i < solver->part_count; i++) {
        part = &solver->parts[i];
        for (uint32_t k = 0; k < part->count; k++)
            solver->spans[part->numbers[k]].offset = part->base + part->best[k];
    }
}

int place_solve(struct span *spans, uint32_t count, const struct place_request *request,
        struct place_result *ret_result, uint32_t *ret_bad)
{
    struct place_result result = {.node_limit = request->nodes ? request->nodes : limit_of(count)};
    struct solver solver = {.request = request, .result = &result, .spans = spans};
    struct sections sections;
    uint64_t peak;
    int r = sections_make(spans, count, &sections, ret_bad);

    if (r < 0)
        return r;
    result.max_live = sections.max_live;
    if (request->capacity && request->capacity < result.max_live) {
        result.status = PLACE_IMPOSSIBLE;
    } else if (count) {
        cut(&solver, count);
        solve(&solver, grain_of(spans, count));
        if (result.status == PLACE_FOUND
                && (!sections_check(spans, count, &peak) || peak != result.peak))
            result.status = PLACE_BROKEN;
    }
    for (uint32_t i = 0; i < solver.part_count; i++)
        part_done(&solver.parts[i]);
    free(solver.parts);
    sections_done(&sections);
    *ret_result = result;
    return 0;
}

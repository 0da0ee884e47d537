/* SPDX-License-Identifier: MIT */
#include "tools/alike.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

enum {
    SAMPLES = 9, /* spans, of which one is to stand for all */
    STRANGE = 4, /* pairs, of which one at least is alike */
    DRAWN_MOST = 1 << 16,
    PIECE_LEAST = 2,
    PIECE_MOST = 16,
    PIECES_LEAST = 8, /* in a repetition, side by side: the last one reaches into what comes next */
    LACKS_OF = 10,    /* a repetition that has all that another has may lack one in so many */
};

/* ── a multiset ── */

struct cell {
    uint64_t key;
    uint32_t count;      /* 0 = empty */
    uint32_t used, turn; /* of them so many have been found in that turn */
};

struct bag {
    struct cell *cells;
    size_t mask;
    uint32_t turn, size;
};

static struct bag bag_new(uint32_t size)
{
    size_t cells = 16;

    while (cells < 2 * (size_t)size)
        cells *= 2;
    return (struct bag){vec_new(cells, sizeof(struct cell)), cells - 1, 0, size};
}

static struct cell *cell_of(const struct bag *bag, uint64_t key)
{
    size_t at = (key ^ key >> 29) & bag->mask;

    while (bag->cells[at].count && bag->cells[at].key != key)
        at = (at + 1) & bag->mask;
    return &bag->cells[at];
}

static void bag_put(struct bag *bag, uint64_t key)
{
    struct cell *cell = cell_of(bag, key);

    cell->key = key;
    cell->count++;
}

/* Is there one more of it in this turn? */
static bool bag_take(struct bag *bag, uint64_t key)
{
    struct cell *cell = cell_of(bag, key);

    if (cell->turn != bag->turn)
        cell->used = 0;
    cell->turn = bag->turn;
    if (cell->used >= cell->count)
        return false;
    cell->used++;
    return true;
}

/* ── repetitions ── */

static uint64_t join(uint64_t piece, uint32_t symbol)
{
    return (piece ^ symbol) * UINT64_C(0x9e3779b97f4a7c15);
}

/* `size` allocations that follow one another. */
static uint64_t piece_at(const struct cuts_sequence *sequence, uint32_t i, uint32_t size)
{
    uint64_t piece = 0;

    for (uint32_t k = 0; k < size && i < sequence->count; k++) {
        piece = join(piece, sequence->symbols[i] + 1);
        i = sequence->next ? sequence->next[i] : i + 1;
    }
    return piece;
}

static struct bag bag_of(const struct cuts *cuts, const struct period_span *span)
{
    struct bag bag = bag_new(span->behind - span->first);

    for (uint32_t i = span->first; i < span->behind; i++)
        bag_put(&bag, piece_at(cuts->sequence, i, cuts->piece));
    return bag;
}

static double share(uint32_t common, uint32_t one, uint32_t other)
{
    uint32_t larger = one > other ? one : other;

    return larger ? (double)common / larger : 0;
}

static double likeness(const struct cuts *cuts, struct bag *bag, const struct period_span *span)
{
    uint32_t common = 0;

    bag->turn++;
    for (uint32_t i = span->first; i < span->behind; i++)
        common += bag_take(bag, piece_at(cuts->sequence, i, cuts->piece));
    return share(common, bag->size, span->behind - span->first);
}

static uint32_t find_typical(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    uint32_t samples = period->span_count < SAMPLES ? period->span_count : SAMPLES;
    uint32_t best = 0;
    double most = -1;

    for (uint32_t i = 0; i < samples; i++) {
        uint32_t number = (uint32_t)((uint64_t)i * period->span_count / samples);
        struct bag bag = bag_of(cuts, &period->spans[number]);
        double sum = 0;
        for (uint32_t k = 0; k < samples; k++)
            sum += likeness(cuts, &bag, &period->spans[(uint64_t)k * period->span_count / samples]);
        if (sum > most) {
            most = sum;
            best = number;
        }
        free(bag.cells);
    }
    return best;
}

/* ── by chance ── */

struct shuffle {
    const struct cuts_sequence *sequence;
    uint64_t state;
};

/* The same ones each time. */
static uint32_t any_below(struct shuffle *shuffle, uint32_t n)
{
    shuffle->state = shuffle->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((shuffle->state >> 33) % n);
}

/* Any allocations of one lane. */
static uint64_t any_piece(struct shuffle *shuffle, uint32_t size)
{
    const struct cuts_sequence *sequence = shuffle->sequence;
    uint32_t first = 0;
    uint32_t count = sequence->count;
    uint64_t piece = 0;

    if (sequence->order) {
        uint32_t lane = sequence->lanes[any_below(shuffle, count)];
        first = lane ? sequence->behind[lane - 1] : 0;
        count = sequence->behind[lane] - first;
    }
    for (uint32_t k = 0; k < size; k++) {
        uint32_t i = first + any_below(shuffle, count);
        piece = join(piece, sequence->symbols[sequence->order ? sequence->order[i] : i] + 1);
    }
    return piece;
}

/* Of repetitions of allocations that are drawn at random; of long ones few are drawn. */
static double find_chance(const struct cuts *cuts)
{
    struct shuffle shuffle = {cuts->sequence, 1};
    uint32_t length = cuts->length;
    uint32_t turns = DRAWN_MOST / length;
    struct bag bag = bag_new(length);
    uint64_t common = 0;

    turns = turns < 1 ? 1 : turns > SAMPLES ? SAMPLES : turns;
    for (uint32_t i = 0; i < length; i++)
        bag_put(&bag, any_piece(&shuffle, cuts->piece));
    for (bag.turn = 1; bag.turn <= turns; bag.turn++) {
        for (uint32_t i = 0; i < length; i++)
            common += bag_take(&bag, any_piece(&shuffle, cuts->piece));
    }
    free(bag.cells);
    return (double)common / turns / length;
}

/* No two of a few are alike by half. */
static bool are_strange(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    uint32_t inner = period->span_count - 1;
    double most = 0;

    for (uint32_t i = 0; i < STRANGE && most <= 0.5; i++) {
        const struct period_span *span = &period->spans[(uint64_t)i * inner / STRANGE];
        struct bag bag = bag_of(cuts, span);
        double like = likeness(cuts, &bag, span + 1);
        most = like > most ? like : most;
        free(bag.cells);
    }
    return most <= 0.5;
}

/*
 * So long that less than half of them are alike by chance. Two repetitions have no third that bears witness; they must be the same
 * for longer, since any two parts of a sequence without much variety have most short pieces in common. Returns false if then no
 * two are alike.
 */
static bool choose_piece(struct cuts *cuts)
{
    cuts->piece = PIECE_LEAST;
    while (cuts->least < 3 && cuts->piece < PIECE_MOST && cuts->piece < cuts->length / PIECES_LEAST)
        cuts->piece *= 2;
    for (;; cuts->piece *= 2) {
        if (are_strange(cuts))
            return false;
        cuts->period.chance = find_chance(cuts);
        if (cuts->period.chance < 0.5 || cuts->piece >= PIECE_MOST)
            return true;
    }
}

uint32_t alike_measure(struct cuts *cuts)
{
    struct period *period = &cuts->period;

    if (!choose_piece(cuts))
        return UINT32_MAX;
    uint32_t typical = find_typical(cuts);
    struct bag bag = bag_of(cuts, &period->spans[typical]);
    for (uint32_t i = 0; i < period->span_count; i++)
        period->spans[i].likeness = likeness(cuts, &bag, &period->spans[i]);
    free(bag.cells);
    return typical;
}

double alike_of(
        const struct cuts *cuts, const struct period_span *typical, const struct period_span *span)
{
    struct bag bag = bag_of(cuts, typical);
    double like = likeness(cuts, &bag, span);

    free(bag.cells);
    return like;
}

uint32_t alike_find_larger(
        const struct cuts *cuts, const struct period_span *typical, uint32_t from, uint32_t until)
{
    const struct cuts_sequence *sequence = cuts->sequence;
    struct bag bag = bag_new(typical->behind - typical->first);
    uint32_t common = 0;
    uint32_t most = 0; /* of the best one */
    uint32_t longest = 0;
    uint32_t best = UINT32_MAX;

    for (uint32_t i = typical->first; i < typical->behind; i++)
        bag_put(&bag, piece_at(sequence, i, 1));
    bag.turn = 1;
    for (uint32_t i = until; i-- > from;) {
        common += bag_take(&bag, piece_at(sequence, i, 1));
        if (common < bag.size - bag.size / LACKS_OF)
            continue;
        uint32_t run = cuts_run(cuts, i, typical->first);
        if (run < longest || (run == longest && common <= most))
            continue;
        longest = run;
        most = common;
        best = i;
    }
    free(bag.cells);
    return longest ? best : UINT32_MAX;
}

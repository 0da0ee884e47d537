/* SPDX-License-Identifier: MIT */
#include "tools/grams.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tools/render.h"
#include "tools/vec.h"

enum {
    OCCURRENCES_MIN = 2,
    CLASSES = 12, /* numbers of occurrences that are looked at for each length */
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

/* ── numbering ── */

struct cell {
    uint64_t key;
    uint32_t number; /* + 1; 0 = empty */
};

/* Grows with what is in it: a sequence that repeats has few kinds. */
struct cells {
    struct cell *cells;
    size_t mask;
    uint32_t count;
};

static struct cells cells_new(void)
{
    return (struct cells){vec_new(1024, sizeof(struct cell)), 1023, 0};
}

static struct cell *cell_of(const struct cells *cells, uint64_t key)
{
    size_t at = mix(key) & cells->mask;

    while (cells->cells[at].number && cells->cells[at].key != key)
        at = (at + 1) & cells->mask;
    return &cells->cells[at];
}

static void cells_grow(struct cells *cells)
{
    struct cells fresh = {NULL, 2 * cells->mask + 1, cells->count};

    fresh.cells = vec_new(fresh.mask + 1, sizeof(*fresh.cells));
    for (size_t i = 0; i <= cells->mask; i++) {
        if (cells->cells[i].number)
            *cell_of(&fresh, cells->cells[i].key) = cells->cells[i];
    }
    free(cells->cells);
    *cells = fresh;
}

static uint32_t number_of(struct cells *cells, uint64_t key)
{
    struct cell *cell = cell_of(cells, key);

    if (cell->number)
        return cell->number - 1;
    *cell = (struct cell){key, ++cells->count};
    if (2 * (size_t)cells->count > cells->mask)
        cells_grow(cells);
    return cells->count - 1;
}

uint32_t grams_number(const uint64_t *hashes, uint32_t count, uint32_t *ret_symbols)
{
    struct cells cells = cells_new();

    for (uint32_t i = 0; i < count; i++)
        ret_symbols[i] = number_of(&cells, hashes[i]);
    free(cells.cells);
    return cells.count;
}

/* ── occurrences of the grams of one length ── */

struct gram {
    uint32_t count, first, last;
    double squares; /* of its distances */
};

/* All grams that occur equally often. */
struct class {
    uint32_t occurrences, grams;
    uint32_t best; /* the gram that is the least uneven */
    double uneven;
};

static uint32_t place_of(const uint32_t *order, uint32_t i)
{
    return order ? order[i] : i;
}

static struct gram *count_grams(
        const uint32_t *ids, const uint32_t *order, uint32_t count, uint32_t kinds)
{
    struct gram *grams = vec_new(kinds, sizeof(*grams));

    for (uint32_t i = 0; i < count; i++) {
        struct gram *gram = &grams[ids[i]];
        uint32_t place = place_of(order, i);
        double distance = (double)place - gram->last;
        if (gram->count++)
            gram->squares += distance * distance;
        else
            gram->first = place;
        gram->last = place;
    }
    return grams;
}

/* 0: it occurs at even distances from end to end. */
static double unevenness(const struct gram *gram, uint32_t count)
{
    double distances = gram->count - 1;
    double mean = (double)(gram->last - gram->first) / distances;
    double covered = mean * gram->count / count;

    return gram->squares / distances / (mean * mean) - (covered < 1 ? covered : 1);
}

static int by_occurrences(const void *a, const void *b)
{
    const struct class *x = a;
    const struct class *y = b;

    return (x->occurrences > y->occurrences) - (x->occurrences < y->occurrences);
}

static int by_weight(const void *a, const void *b)
{
    const struct class *x = a;
    const struct class *y = b;
    uint64_t one = (uint64_t)x->occurrences * x->grams;
    uint64_t other = (uint64_t)y->occurrences * y->grams;

    if (one != other)
        return one < other ? 1 : -1;
    return by_occurrences(a, b);
}

static int by_distance(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/*
 * What occurs twice has no even distances: many things do by coincidence. In two rounds of a loop most have the same distance. So
 * the distance that is the middle one stands for them, and uneven are those that have another.
 */
static void look_at_pairs(const struct gram *grams, uint32_t kinds, struct class *class)
{
    uint32_t *distances = vec_new(class->grams, sizeof(*distances));
    uint32_t count = 0;
    uint32_t others = 0;

    for (uint32_t i = 0; i < kinds; i++) {
        if (grams[i].count == 2)
            distances[count++] = grams[i].last - grams[i].first;
    }
    qsort(distances, count, sizeof(*distances), by_distance);
    uint32_t middle = distances[count / 2];
    for (uint32_t i = 0; i < count; i++)
        others += distances[i] + distances[i] / 16 < middle || middle + middle / 16 < distances[i];
    for (uint32_t i = kinds; i-- > 0;) {
        if (grams[i].count == 2 && grams[i].last - grams[i].first == middle)
            class->best = i;
    }
    class->uneven = (double)others / count;
    free(distances);
}

/* One class per number of occurrences, heaviest first. *ret_count of them. */
static struct class *classify(
        const struct gram *grams, uint32_t kinds, uint32_t length, size_t *ret_count)
{
    struct class *classes = vec_new(kinds, sizeof(*classes));
    size_t count = 0;
    size_t kept = 0;

    for (uint32_t i = 0; i < kinds; i++) {
        if (grams[i].count >= OCCURRENCES_MIN)
            classes[count++] = (struct class){grams[i].count, 1, i, unevenness(&grams[i], length)};
    }
    qsort(classes, count, sizeof(*classes), by_occurrences);
    for (size_t i = 0; i < count; i++) {
        struct class *last = kept ? &classes[kept - 1] : NULL;
        if (!last || last->occurrences != classes[i].occurrences) {
            classes[kept++] = classes[i];
            continue;
        }
        last->grams++;
        if (classes[i].uneven < last->uneven) {
            last->uneven = classes[i].uneven;
            last->best = classes[i].best;
        }
    }
    if (kept && classes[0].occurrences == 2)
        look_at_pairs(grams, kinds, &classes[0]);
    qsort(classes, kept, sizeof(*classes), by_weight);
    *ret_count = kept;
    return classes;
}

/* ── guesses ── */

static void put_guess(
        struct grams *grams, const uint32_t *ids, const uint32_t *order, const struct class *class)
{
    struct grams_guess *guess = NULL;
    uint64_t weight = (uint64_t) class->occurrences * class->grams;
    uint32_t found = 0;

    for (size_t i = 0; i < grams->count && !guess; i++) {
        if (grams->guesses[i].count == class->occurrences)
            guess = &grams->guesses[i];
    }
    if (guess && guess->uneven <= class->uneven) {
        guess->weight = weight > guess->weight ? weight : guess->weight;
        return;
    }
    if (guess) {
        weight = weight > guess->weight ? weight : guess->weight;
        free(guess->at);
    } else {
        guess = &VEC_PUSH(grams->guesses, grams->count, grams->room);
    }
    *guess = (struct grams_guess){vec_new(class->occurrences, sizeof(*guess->at)),
            class->occurrences, weight, class->uneven};
    for (uint32_t i = 0; found < class->occurrences; i++) {
        if (ids[i] == class->best)
            guess->at[found++] = place_of(order, i);
    }
}

/* Rounds of even length, from end to end, need not be many. */
static double promise(const struct grams_guess *guess)
{
    return (double)guess->weight / (1 + 8 * (guess->uneven > 0 ? guess->uneven : 0));
}

static int by_guess(const void *a, const void *b)
{
    const struct grams_guess *x = a;
    const struct grams_guess *y = b;

    if (promise(x) < promise(y) || promise(x) > promise(y))
        return promise(x) < promise(y) ? 1 : -1;
    return (x->count > y->count) - (x->count < y->count);
}

/* Grams of twice the length; returns how many kinds there are. */
static uint32_t lengthen(uint32_t *ids, uint32_t count, uint32_t length)
{
    struct cells cells = cells_new();

    for (uint32_t i = 0; i < count; i++)
        ids[i] = number_of(&cells, (uint64_t)ids[i] << 32 | ids[(size_t)i + length]);
    free(cells.cells);
    return cells.count;
}

static uint32_t kinds_of(const uint32_t *symbols, uint32_t count)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++)
        most = symbols[i] >= most ? symbols[i] + 1 : most;
    return most;
}

void grams_guess(const uint32_t *symbols, const uint32_t *order, uint32_t count, size_t most,
        struct progress *progress, struct grams *ret)
{
    struct grams grams = {0};
    uint32_t *ids = vec_new(count, sizeof(*ids));
    uint32_t kinds = kinds_of(symbols, count);
    uint32_t left = count;
    size_t classes_found = 1;

    for (uint32_t i = 0; i < count; i++)
        ids[i] = symbols[place_of(order, i)];
    for (uint32_t length = 1; left >= OCCURRENCES_MIN && classes_found > 0; length *= 2) {
        struct gram *found = count_grams(ids, order, left, kinds);
        struct class *classes = classify(found, kinds, left, &classes_found);
        for (size_t i = 0; i < classes_found && i < CLASSES; i++)
            put_guess(&grams, ids, order, &classes[i]);
        free(classes);
        free(found);
        if (left <= length)
            break;
        left -= length;
        kinds = lengthen(ids, left, length);
        if (progress)
            progress_step(progress, length < count ? length : count, count);
    }
    free(ids);
    if (grams.count)
        qsort(grams.guesses, grams.count, sizeof(*grams.guesses), by_guess);
    for (; grams.count > most; grams.count--)
        free(grams.guesses[grams.count - 1].at);
    *ret = grams;
}

void grams_done(struct grams *grams)
{
    for (size_t i = 0; i < grams->count; i++)
        free(grams->guesses[i].at);
    free(grams->guesses);
    *grams = (struct grams){0};
}

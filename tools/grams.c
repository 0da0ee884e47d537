/* SPDX-License-Identifier: MIT */
#include "tools/grams.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render.h"
#include "tools/vec.h"

enum {
    OCCURRENCES_MIN = 3,
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

static size_t cells_for(uint32_t count)
{
    size_t cells = 16;

    while (cells < 2 * (size_t)count)
        cells *= 2;
    return cells;
}

static uint32_t number_of(struct cell *cells, size_t mask, uint64_t key, uint32_t *next)
{
    size_t at = mix(key) & mask;

    while (cells[at].number && cells[at].key != key)
        at = (at + 1) & mask;
    if (!cells[at].number)
        cells[at] = (struct cell){key, ++*next};
    return cells[at].number - 1;
}

uint32_t grams_number(const uint64_t *hashes, uint32_t count, uint32_t *ret_symbols)
{
    size_t size = cells_for(count);
    struct cell *cells = vec_new(size, sizeof(*cells));
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++)
        ret_symbols[i] = number_of(cells, size - 1, hashes[i], &next);
    free(cells);
    return next;
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

static struct gram *count_grams(const uint32_t *ids, uint32_t count, uint32_t kinds)
{
    struct gram *grams = vec_new(kinds, sizeof(*grams));

    for (uint32_t i = 0; i < count; i++) {
        struct gram *gram = &grams[ids[i]];
        double distance = (double)(i - gram->last);
        if (gram->count++)
            gram->squares += distance * distance;
        else
            gram->first = i;
        gram->last = i;
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
    qsort(classes, kept, sizeof(*classes), by_weight);
    *ret_count = kept;
    return classes;
}

/* ── guesses ── */

static void put_guess(
        struct grams *grams, const uint32_t *ids, uint32_t count, const struct class *class)
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
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == class->best)
            guess->at[found++] = i;
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
    size_t size = cells_for(count);
    struct cell *cells = vec_new(size, sizeof(*cells));
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++)
        ids[i] =
                number_of(cells, size - 1, (uint64_t)ids[i] << 32 | ids[(size_t)i + length], &next);
    free(cells);
    return next;
}

static uint32_t kinds_of(const uint32_t *symbols, uint32_t count)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++)
        most = symbols[i] >= most ? symbols[i] + 1 : most;
    return most;
}

void grams_guess(const uint32_t *symbols, uint32_t count, size_t most, struct progress *progress,
        struct grams *ret)
{
    struct grams grams = {0};
    uint32_t *ids = vec_new(count, sizeof(*ids));
    uint32_t kinds = kinds_of(symbols, count);
    uint32_t left = count;
    size_t classes_found = 1;

    if (count)
        memcpy(ids, symbols, count * sizeof(*ids));
    for (uint32_t length = 1; left >= OCCURRENCES_MIN && classes_found > 0; length *= 2) {
        struct gram *found = count_grams(ids, left, kinds);
        struct class *classes = classify(found, kinds, left, &classes_found);
        for (size_t i = 0; i < classes_found && i < CLASSES; i++)
            put_guess(&grams, ids, left, &classes[i]);
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

/* SPDX-License-Identifier: MIT */
#include "tools/alike.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The number that so many fourths of them are below; the upper one of two. */ /* The pieces of each span, sorted: so much of the order that a few allocations more or less change little. */
static uint64_t *pieces_of(const struct cuts *cuts, const uint32_t *symbols)
{
    const struct period *period = &cuts->period;
    uint32_t count = cuts->sequence->count;
    uint32_t size = cuts->length < 64 ? 2 : 4;
    uint64_t *pieces = vec_new(count, sizeof(*pieces));

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < size; k++)
            pieces[i] = (pieces[i] ^ (i + k < count ? symbols[i + k] + 1 : 0))
                    * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (uint32_t i = 0; i < period->span_count; i++) {
        const struct period_span *span = &period->spans[i];
        if (span->behind > span->first)
            qsort(pieces + span->first, span->behind - span->first, sizeof(*pieces), by_number);
    }
    return pieces;
}

static double likeness(
        const uint64_t *pieces, const struct period_span *a, const struct period_span *b)
{
    uint32_t i = a->first;
    uint32_t j = b->first;
    uint64_t common = 0;

    while (i < a->behind && j < b->behind) {
        common += pieces[i] == pieces[j];
        if (pieces[i] == pieces[j])
            i++, j++;
        else if (pieces[i] < pieces[j])
            i++;
        else
            j++;
    }
    return 2.0 * (double)common / (double)(a->behind - a->first + b->behind - b->first);
}

/* The mean of what each has with its better neighbour, which is stored if `spans` is given. */
static double compare(const struct cuts *cuts, const uint32_t *symbols, struct period_span *spans)
{
    const struct period *period = &cuts->period;
    uint64_t *pieces = pieces_of(cuts, symbols);
    double before = 0;
    double sum = 0;

    for (uint32_t i = 0; i < period->span_count; i++) {
        double behind = i + 1 < period->span_count
                ? likeness(pieces, &period->spans[i], &period->spans[i + 1])
                : 0;
        double best = before > behind ? before : behind;
        sum += best;
        if (spans)
            spans[i].likeness = best;
        before = behind;
    }
    free(pieces);
    return sum / period->span_count;
}

/* The same allocations in another order: the same each time. */
double alike_by_chance(const struct cuts *cuts)
{
    uint32_t count = cuts->sequence->count;
    uint32_t *symbols = vec_new(count, sizeof(*symbols));
    uint64_t state = 1;

    memcpy(symbols, cuts->sequence->symbols, count * sizeof(*symbols));
    for (uint32_t i = count; i > 1; i--) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t other = (uint32_t)((state >> 33) % i);
        uint32_t kept = symbols[i - 1];
        symbols[i - 1] = symbols[other];
        symbols[other] = kept;
    }
    double chance = compare(cuts, symbols, NULL);
    free(symbols);
    return chance;
}

double alike_compare(const struct cuts *cuts, struct period_span *spans)
{
    return compare(cuts, cuts->sequence->symbols, spans);
}

/* SPDX-License-Identifier: MIT */
#include "tools/piles.h"

#include <stdlib.h>

#include "tools/vec.h"

#define NONE UINT32_MAX

struct pair {
    uint32_t below, above;
};

static int compare_offsets(const void *a, const void *b, void *spans)
{
    uint32_t i = *(const uint32_t *)a;
    uint32_t j = *(const uint32_t *)b;
    const struct span *x = (const struct span *)spans + i;
    const struct span *y = (const struct span *)spans + j;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (i > j) - (i < j);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;

    if (x->below != y->below)
        return x->below < y->below ? -1 : 1;
    return (x->above > y->above) - (x->above < y->above);
}

/* The neighbours in each section, some of them more than once. `order`: the spans by offset. */
static struct pair *find_pairs(const struct sections *sections, const bool *left_out,
        const uint32_t *order, size_t *ret_count)
{
    uint32_t *highest = vec_new(sections->count, sizeof(*highest));
    struct pair *pairs = NULL;
    size_t count = 0;
    size_t room = 0;

    for (uint32_t s = 0; s < sections->count; s++)
        highest[s] = NONE;
    for (uint32_t i = 0; i < sections->span_count; i++) {
        const struct span *span = &sections->spans[order[i]];
        uint32_t before = NONE; /* a pair mostly shares many sections in a row */
        for (uint32_t s = span->first; s <= span->last; s++) {
            if (left_out[s])
                continue;
            if (highest[s] != NONE && highest[s] != before) {
                before = highest[s];
                VEC_PUSH(pairs, count, room) = (struct pair){before, order[i]};
            }
            highest[s] = order[i];
        }
    }
    free(highest);
    *ret_count = count;
    return pairs;
}

void piles_make(const struct sections *sections, const bool *left_out, struct piles *ret_piles)
{
    uint32_t n = sections->span_count;
    uint32_t *order = vec_new(n, sizeof(*order));
    struct piles piles = {.begin = vec_new((size_t)n + 1, sizeof(*piles.begin)),
            .tail = vec_new(n, sizeof(*piles.tail))};
    size_t pair_count;
    uint32_t above_count = 0;

    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof(*order), compare_offsets, sections->spans);
    struct pair *pairs = find_pairs(sections, left_out, order, &pair_count);
    VEC_SORT(pairs, pair_count, compare_pairs);
    piles.above = vec_new(pair_count, sizeof(*piles.above));
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        piles.begin[i] = above_count;
        for (; at < pair_count && pairs[at].below == i; at++) {
            if (at == 0 || compare_pairs(&pairs[at], &pairs[at - 1]) != 0)
                piles.above[above_count++] = pairs[at].above;
        }
    }
    piles.begin[n] = above_count;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t below = order[i];
        for (uint32_t k = piles.begin[below]; k < piles.begin[below + 1]; k++) {
            uint64_t pile = sections->spans[piles.above[k]].size + piles.tail[piles.above[k]];
            if (pile > piles.tail[below])
                piles.tail[below] = pile;
        }
    }
    free(pairs);
    free(order);
    *ret_piles = piles;
}

void piles_done(struct piles *piles)
{
    free(piles->begin);
    free(piles->above);
    free(piles->tail);
    *piles = (struct piles){0};
}

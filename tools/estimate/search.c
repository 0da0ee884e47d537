/* SPDX-License-Identifier: MIT */
#include "tools/estimate/search.h"

#define TURNS_MOST 4 /* by a line, and beside that; then by halves */

/*
 * Where the line through the largest number that fits and the smallest that does not, or else the
 * last two that fit, meets the room; 0: there is no such line.
 */
static uint64_t search_by_line(const struct search *search)
{
    const struct search_point *a = search->has_least ? &search->best : &search->before;
    const struct search_point *b = search->has_least ? &search->least : &search->best;
    const struct search_point *best = &search->best;

    if ((!search->has_least && !search->has_before) || b->need <= a->need
            || search->room <= best->need)
        return 0;
    double slope = (double)(b->need - a->need) / (double)(b->number - a->number);
    double more = (double)(search->room - best->need) / slope;

    return more < (double)(search->high - best->number) ? best->number + (uint64_t)more
                                                        : search->high;
}

/* A little beyond the last number, on the other side of what is looked for if the line was right. */
static uint64_t beside(const struct search *search)
{
    uint64_t step = (search->least.number - search->best.number) / 16;

    step = step ? step : 1;
    return search->has_fitted ? search->best.number + step : search->least.number - step;
}

/* Where nothing is known of larger numbers. */
static uint64_t further(const struct search *search)
{
    bool is_same = search->has_before && search->best.need <= search->before.need;

    return (is_same ? 8 : 2) * search->best.number;
}

uint64_t search_next(const struct search *search)
{
    uint64_t from, to, next;

    if (!search->has_best)
        return search->has_least ? 0 : search->low;
    from = search->best.number + 1;
    to = search->has_least ? search->least.number - 1 : search->high;
    if (from > to)
        return 0;
    next = search->turns >= TURNS_MOST ? 0
            : search->turns % 2        ? beside(search)
                                       : search_by_line(search);
    if (next == 0)
        next = search->has_least ? from + (to - from) / 2 : further(search);
    return next < from ? from : next > to ? to : next;
}

void search_tell(struct search *search, struct search_point point)
{
    if (search->tries++ == 0)
        search->first = point;
    search->turns += search->has_least;
    search->has_fitted = point.fits;
    if (!point.fits) {
        search->least = point;
        search->has_least = true;
        return;
    }
    if (search->has_best) {
        search->before = search->best;
        search->has_before = true;
    }
    search->best = point;
    search->has_best = true;
}

/* SPDX-License-Identifier: MIT */
#include "tools/estimate/search.h"

#define LINES_MOST 6 /* tries by lines; then by halves */

/* Where the line through the last two numbers that fit meets the room; 0: there is no such line. */
static uint64_t search_by_line(const struct search *search)
{
    const struct search_point *a = &search->before, *b = &search->best;

    if (!search->has_before || b->need <= a->need || search->room <= b->need)
        return 0;
    double slope = (double)(b->need - a->need) / (double)(b->number - a->number);
    double more = (double)(search->room - b->need) / slope;

    return more < (double)(search->high - b->number) ? b->number + (uint64_t)more : search->high;
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
    next = search->tries < LINES_MOST ? search_by_line(search) : 0;
    if (next == 0)
        next = search->has_least ? from + (to - from) / 2 : further(search);
    return next < from ? from : next > to ? to : next;
}

void search_tell(struct search *search, struct search_point point)
{
    if (search->tries++ == 0)
        search->first = point;
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

/* SPDX-License-Identifier: MIT */
#include "tools/savings.h"

#include <stdlib.h>

#include "tools/vec.h"

/* A tree of maxima: [count + i] is live memory after event i of the window, [i] the larger one of [2i] and [2i + 1]. */
struct savings {
    uint64_t *max;
    uint32_t first, count;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct savings *savings_new(const struct trace *trace, struct model_window window)
{
    struct savings *savings = vec_new(1, sizeof(*savings));
    uint64_t live = 0;

    savings->first = window.first;
    savings->count = window.last > window.first ? window.last - window.first : 0;
    savings->max = vec_new(2 * (size_t)savings->count + 1, sizeof(*savings->max));
    for (uint32_t i = 0; i < savings->count; i++) {
        const struct trace_event *event = &trace->events[window.first + i];

        if (event->kind == TRACE_ALLOC)
            live += trace->blocks[event->block].size;
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE
                && trace->blocks[event->block].born >= window.first)
            live -= trace->blocks[event->block].size;
        savings->max[savings->count + i] = live;
    }
    for (uint32_t i = savings->count; i-- > 1;)
        savings->max[i] = larger(savings->max[2 * (size_t)i], savings->max[2 * (size_t)i + 1]);
    return savings;
}

void savings_free(struct savings *savings)
{
    free(savings->max);
    free(savings);
}

/* The largest live memory after the events from..to-1 of the window. */
static uint64_t max_between(const struct savings *savings, uint32_t from, uint32_t to)
{
    size_t low = (size_t)savings->count + from;
    size_t high = (size_t)savings->count + to;
    uint64_t max = 0;

    for (; low < high; low /= 2, high /= 2) {
        if (low & 1)
            max = larger(max, savings->max[low++]);
        if (high & 1)
            max = larger(max, savings->max[--high]);
    }
    return max;
}

/* A stretch begins or ends. */
struct turn {
    uint32_t at; /* event of the window */
    bool is_end;
    uint64_t bytes;
};

static int by_time(const void *left, const void *right)
{
    const struct turn *a = left;
    const struct turn *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (int)b->is_end - (int)a->is_end;
}

static uint32_t clip(const struct savings *savings, uint32_t at)
{
    uint32_t inside = at > savings->first ? at - savings->first : 0;

    return inside < savings->count ? inside : savings->count;
}

uint64_t savings_left(
        const struct savings *savings, const struct savings_stretch *stretches, size_t count)
{
    struct turn *turns = vec_new(2 * count + 1, sizeof(*turns));
    size_t turn_count = 0;
    uint64_t gone = 0;
    uint64_t left = 0;
    uint32_t at = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t from = clip(savings, stretches[i].from);
        uint32_t to = clip(savings, stretches[i].to);

        if (from >= to)
            continue;
        turns[turn_count++] = (struct turn){from, false, stretches[i].bytes};
        turns[turn_count++] = (struct turn){to, true, stretches[i].bytes};
    }
    VEC_SORT(turns, turn_count, by_time);
    for (size_t i = 0; i < turn_count; i++) {
        left = larger(left, excess_of(max_between(savings, at, turns[i].at), gone));
        at = turns[i].at;
        gone = turns[i].is_end ? gone - turns[i].bytes : gone + turns[i].bytes;
    }
    left = larger(left, max_between(savings, at, savings->count));
    free(turns);
    return left;
}

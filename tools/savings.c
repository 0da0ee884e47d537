/* SPDX-License-Identifier: MIT */
#include "tools/savings.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

#define BIN 16 /* events: a tree over single ones takes as much memory as they do */

/* A tree of maxima: max[bins + i] is the largest live memory after an event of bin i, max[i] the larger one of 2i and 2i + 1. */
struct savings {
    const struct trace *trace;
    uint64_t *max;
    uint64_t *before; /* live memory before each bin */
    uint32_t first, count, bins;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Live memory after an event of the window, from that before it. */
static uint64_t live_after(const struct savings *savings, uint32_t at, uint64_t live)
{
    const struct trace *trace = savings->trace;
    const struct trace_event *event = &trace->events[savings->first + at];

    if (event->kind == TRACE_ALLOC)
        return live + trace->blocks[event->block].size;
    if (event->kind == TRACE_FREE && event->block != TRACE_NONE
            && trace->blocks[event->block].born >= savings->first)
        return live - trace->blocks[event->block].size;
    return live;
}

struct savings *savings_new(const struct trace *trace, struct model_window window)
{
    struct savings *savings = vec_new(1, sizeof(*savings));
    uint64_t live = 0;

    savings->trace = trace;
    savings->first = window.first;
    savings->count = window.last > window.first ? window.last - window.first : 0;
    savings->bins = savings->count / BIN + 1;
    savings->max = vec_new(2 * (size_t)savings->bins, sizeof(*savings->max));
    savings->before = vec_new(savings->bins, sizeof(*savings->before));
    for (uint32_t i = 0; i < savings->count; i++) {
        uint64_t *max = &savings->max[savings->bins + i / BIN];

        if (i % BIN == 0)
            savings->before[i / BIN] = live;
        live = live_after(savings, i, live);
        *max = larger(*max, live);
    }
    for (uint32_t i = savings->bins; i-- > 1;)
        savings->max[i] = larger(savings->max[2 * (size_t)i], savings->max[2 * (size_t)i + 1]);
    return savings;
}

void savings_free(struct savings *savings)
{
    free(savings->max);
    free(savings->before);
    free(savings);
}

/* The largest live memory after the events from..to-1 of the window, which are of one bin. */
static uint64_t max_in_bin(const struct savings *savings, uint32_t from, uint32_t to)
{
    uint32_t at = from - from % BIN;
    uint64_t live = savings->before[from / BIN];
    uint64_t max = 0;

    for (; at < to; at++) {
        live = live_after(savings, at, live);
        max = at >= from ? larger(max, live) : max;
    }
    return max;
}

/* The same of whole bins. */
static uint64_t max_of_bins(const struct savings *savings, uint32_t from, uint32_t to)
{
    size_t low = (size_t)savings->bins + from;
    size_t high = (size_t)savings->bins + to;
    uint64_t max = 0;

    for (; low < high; low /= 2, high /= 2) {
        if (low & 1)
            max = larger(max, savings->max[low++]);
        if (high & 1)
            max = larger(max, savings->max[--high]);
    }
    return max;
}

/* The same of any events. */
static uint64_t max_between(const struct savings *savings, uint32_t from, uint32_t to)
{
    uint32_t low = (from + BIN - 1) / BIN;
    uint32_t high = to / BIN;
    uint64_t ends;

    if (from >= to)
        return 0;
    if (from / BIN == (to - 1) / BIN)
        return max_in_bin(savings, from, to);
    ends = from % BIN ? max_in_bin(savings, from, low * BIN) : 0;
    if (to % BIN)
        ends = larger(ends, max_in_bin(savings, high * BIN, to));
    return larger(ends, max_of_bins(savings, low, high));
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

#define PART ((uint32_t)1 << 20) /* events of which the changes are held at a time */

/* What is gone from each event of a part on; bytes that come back go below zero and round again. */
static void find_changes(const struct savings *savings, const struct savings_stretch *stretch,
        uint32_t part, uint64_t *changes)
{
    uint32_t from = clip(savings, stretch->from);
    uint32_t to = clip(savings, stretch->to);

    if (from >= to)
        return;
    if (from / PART == part)
        changes[from % PART] += stretch->bytes;
    if (to / PART == part)
        changes[to % PART] -= stretch->bytes;
}

uint64_t savings_left_of_many(const struct savings *savings,
        struct savings_stretch (*stretch_of)(const void *context, size_t i), const void *context,
        size_t count)
{
    uint64_t *changes = vec_new(PART, sizeof(*changes));
    uint64_t live = 0;
    uint64_t gone = 0;
    uint64_t left = 0;

    for (uint32_t i = 0; i < savings->count; i++) {
        if (i % PART == 0) {
            memset(changes, 0, PART * sizeof(*changes));
            for (size_t k = 0; k < count; k++) {
                struct savings_stretch stretch = stretch_of(context, k);
                find_changes(savings, &stretch, i / PART, changes);
            }
        }
        live = live_after(savings, i, live);
        gone += changes[i % PART];
        left = larger(left, excess_of(live, gone));
    }
    free(changes);
    return left;
}

/* SPDX-License-Identifier: MIT */
#include "tools/patterns/savings.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

#define BIN  16 /* events: a tree over single events takes as much memory as they do */
#define NONE UINT32_MAX

/* A tree of maxima: a leaf is that of live memory after the events of a bin. */
struct savings {
    const struct trace *trace;
    uint64_t *max;    /* max[i] is that of max[2i] and max[2i + 1]; leaves from max[bins] on */
    uint64_t *before; /* live memory before each bin */
    uint32_t first, count, bins;
};

/* Live memory after an event of the window, from live memory before it. */
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
        *max = max_of(*max, live);
    }
    for (uint32_t i = savings->bins; i-- > 1;)
        savings->max[i] = max_of(savings->max[2 * (size_t)i], savings->max[2 * (size_t)i + 1]);
    return savings;
}

void savings_free(struct savings *savings)
{
    free(savings->max);
    free(savings->before);
    free(savings);
}

/* The largest live memory after an event of these bins. */
static uint64_t max_of_bins(const struct savings *savings, uint32_t from, uint32_t to)
{
    size_t low = (size_t)savings->bins + from;
    size_t high = (size_t)savings->bins + to;
    uint64_t max = 0;

    for (; low < high; low /= 2, high /= 2) {
        if (low & 1)
            max = max_of(max, savings->max[low++]);
        if (high & 1)
            max = max_of(max, savings->max[--high]);
    }
    return max;
}

/* The beginning or end of a row's stretch. */
struct turn {
    uint32_t row;
    uint32_t next;  /* next turn at the same event, NONE */
    uint64_t bytes; /* bytes taken away from this event on; negative (modulo 2^64): returned */
};

/* A bin that is evaluated event by event. */
struct bin {
    uint32_t number;
    uint64_t live[BIN];
    uint64_t head[BIN + 1]; /* largest live memory before each event of the bin */
    uint64_t tail[BIN + 1]; /* largest live memory from each event on */
    uint32_t turns_at[BIN];
    struct turn *turn;
    size_t turn_count, turn_room;
};

/* The state of a row up to its last turn. */
struct row {
    uint32_t at;   /* event */
    uint64_t gone; /* bytes taken away from there on */
    uint64_t tail; /* the largest live memory from there to the end of the bin */
};

/* Lists of stretches by the bin in which they begin, or in which they end. */
struct lists {
    uint32_t *first; /* per bin, NONE */
    uint32_t *next;  /* per stretch, NONE */
};

static uint32_t clip(const struct savings *savings, uint32_t at)
{
    uint32_t inside = at > savings->first ? at - savings->first : 0;

    return inside < savings->count ? inside : savings->count;
}

static struct savings_stretch clipped(
        const struct savings *savings, const struct savings_stretches *of, size_t i)
{
    struct savings_stretch stretch = of->stretch_of(of->context, i);

    stretch.from = clip(savings, stretch.from);
    stretch.to = clip(savings, stretch.to);
    return stretch;
}

static struct lists list_stretches(
        const struct savings *savings, const struct savings_stretches *of, bool by_end)
{
    struct lists lists = {.first = vec_new(savings->bins, sizeof(*lists.first)),
            .next = vec_new(of->count + 1, sizeof(*lists.next))};

    memset(lists.first, 0xff, savings->bins * sizeof(*lists.first));
    for (size_t i = 0; i < of->count; i++) {
        struct savings_stretch stretch = clipped(savings, of, i);
        uint32_t *first = &lists.first[(by_end ? stretch.to : stretch.from) / BIN];

        if (stretch.from >= stretch.to)
            continue;
        lists.next[i] = *first;
        *first = (uint32_t)i;
    }
    return lists;
}

static void savings_free_lists(struct lists *lists)
{
    free(lists->first);
    free(lists->next);
}

/* Computes live memory event by event. */
static void open_bin(const struct savings *savings, struct bin *bin, uint32_t number)
{
    uint32_t start = number * BIN;
    uint64_t live = savings->before[number];

    bin->number = number;
    bin->turn_count = 0;
    for (uint32_t i = 0; i < BIN; i++) {
        bool is_there = start + i < savings->count;

        live = is_there ? live_after(savings, start + i, live) : 0;
        bin->live[i] = live;
        bin->head[i + 1] = max_of(bin->head[i], live);
        bin->turns_at[i] = NONE;
    }
    for (uint32_t i = BIN; i-- > 0;)
        bin->tail[i] = max_of(bin->tail[i + 1], bin->live[i]);
}

static void add_turn(struct bin *bin, uint32_t at, uint32_t row, uint64_t bytes)
{
    uint32_t *first = &bin->turns_at[at % BIN];
    struct turn turn = {row, *first, bytes};

    *first = (uint32_t)bin->turn_count;
    VEC_PUSH(bin->turn, bin->turn_count, bin->turn_room) = turn;
}

/* The largest live memory between the last turn of a row and event `at` of the bin. */
static uint64_t max_since(
        const struct savings *savings, const struct bin *bin, const struct row *row, uint32_t at)
{
    uint64_t max = 0;

    if (row->at / BIN != bin->number)
        return max_of(max_of(row->tail, bin->head[at]),
                max_of_bins(savings, row->at / BIN + 1, bin->number));
    for (uint32_t i = row->at % BIN; i < at; i++)
        max = max_of(max, bin->live[i]);
    return max;
}

struct sweep {
    const struct savings *savings;
    const struct savings_stretches *of;
    struct lists begins, ends;
    struct bin bin;
    struct row *rows;
    uint64_t gone; /* bytes taken away, of all rows */
    uint64_t left; /* Max without all rows */
};

static void take_turns(struct sweep *sweep, uint32_t at, uint64_t *left_of_row)
{
    const struct bin *bin = &sweep->bin;

    for (uint32_t i = bin->turns_at[at]; i != NONE; i = bin->turn[i].next) {
        const struct turn *turn = &bin->turn[i];
        struct row *row = &sweep->rows[turn->row];
        uint64_t *left = &left_of_row[turn->row];

        *left = max_of(*left, excess_of(max_since(sweep->savings, bin, row, at), row->gone));
        row->at = bin->number * BIN + at;
        row->tail = bin->tail[at];
        row->gone += turn->bytes;
        sweep->gone += turn->bytes;
    }
}

/* Sweeps a bin in which a stretch begins or ends. */
static void sweep_bin(struct sweep *sweep, uint32_t number, uint64_t *left_of_row)
{
    struct bin *bin = &sweep->bin;

    open_bin(sweep->savings, bin, number);
    for (uint32_t i = sweep->begins.first[number]; i != NONE; i = sweep->begins.next[i]) {
        struct savings_stretch stretch = clipped(sweep->savings, sweep->of, i);
        add_turn(bin, stretch.from, stretch.row, stretch.bytes);
    }
    for (uint32_t i = sweep->ends.first[number]; i != NONE; i = sweep->ends.next[i]) {
        struct savings_stretch stretch = clipped(sweep->savings, sweep->of, i);
        add_turn(bin, stretch.to, stretch.row, 0 - stretch.bytes);
    }
    for (uint32_t at = 0; at < BIN; at++) {
        take_turns(sweep, at, left_of_row);
        sweep->left = max_of(sweep->left, excess_of(bin->live[at], sweep->gone));
    }
}

uint64_t savings_left(const struct savings *savings, const struct savings_stretches *of,
        uint64_t *ret_left_of_row)
{
    struct sweep sweep = {.savings = savings,
            .of = of,
            .begins = list_stretches(savings, of, false),
            .ends = list_stretches(savings, of, true),
            .rows = vec_new(of->row_count + 1, sizeof(*sweep.rows))};

    for (size_t row = 0; row < of->row_count; row++) {
        sweep.rows[row].tail = savings->max[savings->bins];
        ret_left_of_row[row] = 0;
    }
    for (uint32_t i = 0; i < savings->bins; i++) {
        if (sweep.begins.first[i] == NONE && sweep.ends.first[i] == NONE)
            sweep.left = max_of(sweep.left, excess_of(savings->max[savings->bins + i], sweep.gone));
        else
            sweep_bin(&sweep, i, ret_left_of_row);
    }
    for (size_t row = 0; row < of->row_count; row++) {
        uint64_t rest = max_of(sweep.rows[row].tail,
                max_of_bins(savings, sweep.rows[row].at / BIN + 1, savings->bins));
        ret_left_of_row[row] = max_of(ret_left_of_row[row], excess_of(rest, sweep.rows[row].gone));
    }
    savings_free_lists(&sweep.begins);
    savings_free_lists(&sweep.ends);
    free(sweep.bin.turn);
    free(sweep.rows);
    return sweep.left;
}

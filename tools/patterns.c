/* SPDX-License-Identifier: MIT */
#include "tools/patterns.h"

#include <stdlib.h>

#include "tools/keytable.h"
#include "tools/vec.h"
#include "tracker/format.h"

struct work {
    const struct trace *trace;
    struct model_window window;
    uint64_t end_ns;
    uint64_t peak_ns;         /* when live memory was at its maximum */
    uint64_t *time_of;        /* per event: the latest time up to it, so that it only rises */
    uint32_t *allocs, *frees; /* per event: how many there were before it */
    struct keytable rows[PATTERNS_COUNT];
    struct patterns_figures *figures;
};

/* The latest moment that a trace knows of. */
static uint64_t find_end(const struct trace *trace)
{
    uint64_t end = 0;

    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].time_ns > end)
            end = trace->events[i].time_ns;
    for (size_t i = 0; i < trace->block_count; i++)
        if (trace->blocks[i].uses.last > end)
            end = trace->blocks[i].uses.last;
    return end;
}

/* ---- events by time ---- */

static void index_events(struct work *work)
{
    const struct trace *trace = work->trace;
    uint64_t latest = 0;

    work->time_of = vec_new(trace->event_count + 1, sizeof *work->time_of);
    work->allocs = vec_new(trace->event_count + 1, sizeof *work->allocs);
    work->frees = vec_new(trace->event_count + 1, sizeof *work->frees);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];

        latest = event->time_ns > latest ? event->time_ns : latest;
        work->time_of[i] = latest;
        work->allocs[i + 1] = work->allocs[i] + (event->kind == TRACE_ALLOC);
        work->frees[i + 1] = work->frees[i] + (event->kind == TRACE_FREE);
    }
}

/* The first event after a moment, that of a birth apart. */
static uint32_t event_after(const struct work *work, uint64_t time_ns, uint32_t born)
{
    size_t low = 0;
    size_t high = work->trace->event_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (work->time_of[middle] > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    /* An event may be later than those behind it: threads number theirs before they look at the clock. */
    return low > born ? (uint32_t)low : born + 1;
}

static bool any_between(const uint32_t *counts, uint32_t from, uint32_t to)
{
    return from < to && counts[to] > counts[from];
}

/* ---- one block ---- */

enum patterns_doubt patterns_doubt_of(const struct trace_block *block)
{
    if (!(block->uses.flags & FORMAT_USE_WATCHED) || block->born_ns == 0)
        return PATTERNS_NOT_WATCHED;
    if (block->uses.flags & FORMAT_USE_LOST)
        return PATTERNS_LOST;
    if (block->uses.flags & FORMAT_USE_SHOWN)
        return PATTERNS_SHOWN;
    return block->uses.flags & FORMAT_USE_UNSEEN ? PATTERNS_UNSEEN : PATTERNS_DOUBTS;
}

static struct patterns_row *row_of(
        struct work *work, enum patterns_kind pattern, const struct trace_block *block)
{
    struct patterns_found *found = &work->figures->of[pattern];
    uint32_t at = keytable_number(&work->rows[pattern], (struct key){block->stack, block->site, 0});

    if (at == found->count)
        VEC_PUSH(found->row, found->count, found->room) =
                (struct patterns_row){.stack = block->stack, .anchor = block->anchor};
    return &found->row[at];
}

static void add_interval(struct work *work, enum patterns_kind pattern,
        const struct trace_block *block, uint64_t from, uint64_t to)
{
    struct patterns_row *row;

    if (to <= from)
        return;
    row = row_of(work, pattern, block);
    row->count++;
    row->bytes += block->size;
    row->cost += (double)block->size * ((double)(to - from) / 1e9);
    if (from <= work->peak_ns && work->peak_ns < to)
        row->at_peak += block->size;
    if (to - from > row->longest_ns) {
        row->longest_ns = to - from;
        row->anchor = block->anchor;
    }
}

/* Its patterns; returns the event after which nobody needed it, TRACE_NEVER: it was freed then. */
static uint32_t find_patterns(struct work *work, const struct trace_block *block)
{
    const struct trace_uses *uses = &block->uses;
    uint32_t died = block->died == TRACE_NEVER ? (uint32_t)work->trace->event_count : block->died;
    uint64_t died_ns = block->died == TRACE_NEVER ? work->end_ns : block->died_ns;
    uint32_t first, last;

    if (uses->count == 0) {
        add_interval(work, PATTERNS_UNUSED, block, block->born_ns, died_ns);
        return block->born;
    }
    first = event_after(work, uses->first, block->born);
    last = event_after(work, uses->last, block->born);
    if (any_between(work->frees, block->born + 1, first))
        add_interval(work, PATTERNS_EARLY, block, block->born_ns, uses->first);
    if (any_between(work->allocs, last, died))
        add_interval(work, PATTERNS_LATE, block, uses->last, died_ns);
    add_interval(work, PATTERNS_IDLE, block, uses->gap_end - uses->gap, uses->gap_end);
    return last <= died ? last - 1 : TRACE_NEVER;
}

static int by_cost(const void *left, const void *right)
{
    const struct patterns_row *a = left;
    const struct patterns_row *b = right;

    if (a->cost < b->cost || a->cost > b->cost)
        return a->cost > b->cost ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* When the window's live memory was at its maximum. */
static void find_peak(struct work *work)
{
    struct model_figures model;

    model_figure(work->trace, work->window, NULL, &model);
    work->figures->peak = model.max;
    work->peak_ns = model.max_at == TRACE_NEVER ? 0 : work->trace->events[model.max_at].time_ns;
}

void patterns_figure(
        const struct trace *trace, struct model_window window, struct patterns_figures *ret_figures)
{
    struct work work = {
            .trace = trace, .window = window, .end_ns = find_end(trace), .figures = ret_figures};
    uint32_t *at = vec_new(trace->block_count + 1, sizeof *at);

    *ret_figures = (struct patterns_figures){.judged = 0};
    index_events(&work);
    find_peak(&work);
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        enum patterns_doubt doubt = patterns_doubt_of(block);

        at[i] = TRACE_NEVER;
        if (block->born < window.first || block->born >= window.last)
            continue;
        if (doubt != PATTERNS_DOUBTS) {
            ret_figures->doubts[doubt]++;
            ret_figures->doubtful_bytes += block->size;
            continue;
        }
        ret_figures->judged++;
        ret_figures->judged_bytes += block->size;
        at[i] = find_patterns(&work, block);
    }
    ret_figures->peak_then = model_max(trace, window, at);
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        struct patterns_found *found = &ret_figures->of[p];

        VEC_SORT(found->row, found->count, by_cost);
        keytable_done(&work.rows[p]);
    }
    free(at);
    free(work.time_of);
    free(work.allocs);
    free(work.frees);
}

void patterns_free(struct patterns_figures *figures)
{
    for (unsigned p = 0; p < PATTERNS_COUNT; p++)
        free(figures->of[p].row);
    *figures = (struct patterns_figures){.judged = 0};
}

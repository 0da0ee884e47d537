/* SPDX-License-Identifier: MIT */
#include "tools/compare/explain.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/compare/align.h"
#include "tools/compare/explain_pairs.h"

enum explain_which {
    GOOD,
    BAD,
    RUNS,
};

/* One run. */
struct explain_run {
    const struct trace *trace;
    struct model_window window;
    uint32_t at;      /* the moment that is compared: an event. TRACE_NEVER: nothing is live */
    uint32_t peak_at; /* the event that first reached the peak; TRACE_NEVER: nothing was live */
    uint64_t peak;
    uint32_t last_born; /* the last allocation of the window */
    uint64_t *python;   /* by stack */
    uint32_t *partner;  /* block -> block of the other run, ALIGN_NONE */
    uint32_t *next;     /* block -> the first one with a partner that is made after its free */
};

struct explain_work {
    struct explain_run run[RUNS];
    enum compare_groups_by by;
    struct keytable index; /* key -> row */
    struct explain *out;
};

/* Sizes are the file's: a sum may wrap. */
static void explain_add(struct explain_sum *sum, uint64_t bytes, uint64_t count)
{
    sum->bytes = (int64_t)((uint64_t)sum->bytes + bytes);
    sum->count = (int64_t)((uint64_t)sum->count + count);
}

/* ---- moments -------------------------------------------------------------------------------- */

static bool explain_is_live(const struct trace_block *block, uint32_t at)
{
    return at != TRACE_NEVER && block->born <= at && block->died > at;
}

/* Lives beyond the last allocation of its run, and beyond its anchor. */
static bool explain_is_kept(const struct explain_run *run, const struct trace_block *block)
{
    uint32_t exit = run->trace->anchors[block->anchor].exit;

    if (block->died == TRACE_NEVER)
        return true;
    return block->died > run->last_born && (block->anchor == 0 || block->died > exit);
}

/* Bytes that an event adds to what is live; wraps for a free. */
static uint64_t explain_step(const struct trace *trace, const struct trace_event *event)
{
    if (!trace_is_of_block(event))
        return 0;
    uint64_t size = trace->blocks[event->block].size;
    return event->kind == TRACE_ALLOC ? size : -size;
}

static void explain_find_peak(struct explain_run *run)
{
    uint64_t live = 0;

    run->peak_at = TRACE_NEVER;
    for (uint32_t at = 0; at < run->window.last; at++) {
        live += explain_step(run->trace, &run->trace->events[at]);
        if (at >= run->window.first && live > run->peak) {
            run->peak = live;
            run->peak_at = at;
        }
    }
}

static uint32_t explain_last_born(const struct explain_run *run)
{
    uint32_t at = run->window.last;

    while (at > 0 && run->trace->events[at - 1].kind != TRACE_ALLOC)
        at--;
    return at ? at - 1 : 0;
}

/*
 * How well a moment of one run corresponds to that of the other: less is better, by the first that
 * differs.
 */
struct explain_fit {
    int64_t births; /* pairs of which only one is made */
    int64_t bytes;  /* of pairs of which only one is live; from the same start */
    uint64_t live;  /* more is better */
};

static bool explain_fits_better(struct explain_fit a, struct explain_fit b)
{
    if (a.births != b.births)
        return a.births < b.births;
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.live > b.live;
}

static void explain_fit_event(struct explain_fit *fit, const struct explain_run *run,
        const struct trace_event *event, const struct explain_run *other)
{
    uint64_t size = explain_step(run->trace, event);

    fit->live += size;
    if (!trace_is_of_block(event) || run->partner[event->block] == ALIGN_NONE)
        return;
    const struct trace_block *partner = &other->trace->blocks[run->partner[event->block]];
    if (event->kind == TRACE_ALLOC)
        fit->births += partner->born <= other->at ? -1 : 1;
    if (explain_is_live(partner, other->at))
        size = -size;
    fit->bytes = (int64_t)((uint64_t)fit->bytes + size);
}

/* The moment of a run that corresponds to that of the other; *ret_live: what is live then. */
static uint32_t explain_find_there(
        const struct explain_run *run, const struct explain_run *other, uint64_t *ret_live)
{
    struct explain_fit fit = {0};
    struct explain_fit best = {INT64_MAX, 0, 0};
    uint32_t found = TRACE_NEVER;

    for (uint32_t at = 0; at < run->window.last; at++) {
        explain_fit_event(&fit, run, &run->trace->events[at], other);
        if (at < run->window.first || !explain_fits_better(fit, best))
            continue;
        best = fit;
        found = at;
    }
    *ret_live = best.live;
    return found;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static struct explain_row *explain_row_of(struct explain_work *work, enum explain_which which,
        const struct trace_block *block, uint64_t python)
{
    const struct trace *trace = work->run[which].trace;
    struct explain *out = work->out;
    uint32_t number =
            keytable_number(&work->index, compare_groups_key(trace, work->by, block, python));

    if (number == out->row_count)
        VEC_PUSH(out->rows, out->row_count, out->row_room) =
                (struct explain_row){.stack = block->stack, .is_good = which == GOOD};
    return &out->rows[number];
}

static struct explain_row *explain_row_of_block(
        struct explain_work *work, enum explain_which which, const struct trace_block *block)
{
    return explain_row_of(work, which, block, work->run[which].python[block->stack]);
}

/* The most that each row has live at one moment. */
static void explain_find_most(struct explain_work *work, enum explain_which which)
{
    const struct explain_run *run = &work->run[which];
    uint64_t *live = vec_new(work->out->row_count, sizeof(*live));

    for (uint32_t at = 0; at < run->window.last; at++) {
        const struct trace_event *event = &run->trace->events[at];
        if (!trace_is_of_block(event))
            continue;
        struct explain_row *row =
                explain_row_of_block(work, which, &run->trace->blocks[event->block]);
        struct explain_side *side = which == GOOD ? &row->good : &row->bad;
        uint64_t *mine = &live[row - work->out->rows];
        *mine += explain_step(run->trace, event);
        side->most = max_of(side->most, *mine);
    }
    free(live);
}

/* Whether the block is kept, and its partner in the other run is not. */
static bool explain_is_kept_alone(
        const struct explain_run *run, uint32_t number, const struct explain_run *other)
{
    uint32_t partner = run->partner[number];

    return partner != ALIGN_NONE && explain_is_kept(run, &run->trace->blocks[number])
            && !explain_is_kept(other, &other->trace->blocks[partner]);
}

/* A block's part in the peak of its run, and in what is live at the compared moment. */
static void explain_count_moments(
        struct explain_work *work, enum explain_which which, uint32_t number)
{
    const struct explain_run *run = &work->run[which];
    const struct trace_block *block = &run->trace->blocks[number];
    bool is_there = explain_is_live(block, run->at);
    bool is_at_peak = explain_is_live(block, run->peak_at);

    if (!is_there && !is_at_peak)
        return;
    struct explain_row *row = explain_row_of_block(work, which, block);
    struct explain_side *side = which == GOOD ? &row->good : &row->bad;
    if (is_there)
        trace_sum_add(&side->there, block->size);
    else if (explain_is_kept_alone(run, number, &work->run[which == GOOD ? BAD : GOOD]))
        explain_add(&row->cause[EXPLAIN_KEPT], which == GOOD ? -block->size : block->size,
                which == GOOD ? UINT64_MAX : 1);
    else
        trace_sum_add(&side->own_peak, block->size);
    if (is_there && is_at_peak)
        trace_sum_add(&side->own_peak, block->size);
    if (!is_there || run->partner[number] != ALIGN_NONE)
        return;
    trace_sum_add(&side->at_peak, block->size);
    if (explain_is_kept(run, block))
        trace_sum_add(&side->kept_at_peak, block->size);
}

/* Bad is first: rows have the stacks of bad where it has one. */
static void explain_count(struct explain_work *work, enum explain_which which)
{
    const struct explain_run *run = &work->run[which];

    for (uint32_t i = 0; i < run->trace->block_count; i++) {
        const struct trace_block *block = &run->trace->blocks[i];
        if (block->born >= run->window.last)
            continue;
        struct explain_row *row = explain_row_of_block(work, which, block);
        struct explain_side *side = which == GOOD ? &row->good : &row->bad;
        side->made++;
        side->kept += explain_is_kept(run, block);
        explain_count_moments(work, which, i);
    }
}

/* ---- causes --------------------------------------------------------------------------------- */

/* A pair of which one is live, in `run`; the numbers are of its blocks there and in `other`. */
static enum explain_cause explain_cause_of(const struct explain_run *run, uint32_t number,
        const struct explain_run *other, uint32_t partner)
{
    const struct trace_block *block = &run->trace->blocks[number];
    const struct trace_block *gone = &other->trace->blocks[partner];
    uint32_t next = other->next[partner];

    if (other->at == TRACE_NEVER || gone->born > other->at)
        return EXPLAIN_ORDER;
    if (explain_is_kept(run, block) && !explain_is_kept(other, gone))
        return EXPLAIN_KEPT;
    /* What the other run makes after the free is here made before the block itself. */
    if (next != ALIGN_NONE && run->trace->blocks[other->partner[next]].born < block->born)
        return EXPLAIN_ORDER;
    return EXPLAIN_LATE;
}

static void explain_pair(struct explain_work *work, uint32_t in_good, uint32_t in_bad)
{
    const struct explain_run *good = &work->run[GOOD];
    const struct explain_run *bad = &work->run[BAD];
    const struct trace_block *g = &good->trace->blocks[in_good];
    const struct trace_block *b = &bad->trace->blocks[in_bad];
    bool has_good = explain_is_live(g, good->at);
    bool has_bad = explain_is_live(b, bad->at);

    if (!has_good && !has_bad)
        return;
    struct explain_sum *cause = explain_row_of_block(work, BAD, b)->cause;
    if (has_good && has_bad)
        explain_add(&cause[EXPLAIN_LARGER], b->size - g->size, b->size != g->size);
    else if (has_bad)
        explain_add(&cause[explain_cause_of(bad, in_bad, good, in_good)], b->size, 1);
    else
        explain_add(&cause[explain_cause_of(good, in_good, bad, in_bad)], -g->size, UINT64_MAX);
}

/* What is left of an excess: `sum` is bytes and blocks. */
struct explain_excess {
    struct explain_row *row;
    uint64_t sign; /* 1 where bad has more, else UINT64_MAX: -1 */
    struct trace_sum sum;
};

/* Gives a cause so much of it; of blocks all where it takes all bytes. */
static void explain_give(
        struct explain_excess *excess, enum explain_cause cause, struct trace_sum part)
{
    if (part.bytes >= excess->sum.bytes)
        part = excess->sum;
    explain_add(&excess->row->cause[cause], excess->sign * part.bytes, excess->sign * part.count);
    excess->sum.bytes -= part.bytes;
    excess->sum.count -= part.count;
}

/* As many blocks of both runs. */
static void explain_give_larger(struct explain_excess *excess, uint64_t blocks)
{
    if (excess->sum.bytes)
        explain_add(&excess->row->cause[EXPLAIN_LARGER], excess->sign * excess->sum.bytes, blocks);
    excess->sum = (struct trace_sum){0};
}

/* `more` has more bytes without a partner than `less` has. */
static void explain_settle(struct explain_row *row, const struct explain_side *more,
        const struct explain_side *less, uint64_t sign)
{
    const struct trace_sum all = {UINT64_MAX, UINT64_MAX};
    struct explain_excess excess = {row, sign,
            {more->at_peak.count - less->at_peak.count, more->at_peak.bytes - less->at_peak.bytes}};
    bool is_habit = less->made > 0 && less->kept == less->made;

    if (excess.sum.bytes == 0)
        return;
    if (!is_habit && more->kept_at_peak.bytes > less->kept_at_peak.bytes)
        explain_give(&excess, EXPLAIN_KEPT,
                (struct trace_sum){more->kept_at_peak.count - less->kept_at_peak.count,
                        more->kept_at_peak.bytes - less->kept_at_peak.bytes});
    if (less->made == 0)
        explain_give(&excess, EXPLAIN_LONE, all);
    else if (more->at_peak.count == less->at_peak.count)
        explain_give_larger(&excess, more->at_peak.count);
    else if (more->made > less->made)
        explain_give(&excess, EXPLAIN_MORE, all);
    else if (more->at_peak.bytes > less->most)
        explain_give(&excess, EXPLAIN_LATE,
                (struct trace_sum){excess.sum.count, more->at_peak.bytes - less->most});
    explain_give(&excess, EXPLAIN_ORDER, all);
}

/* Wraps below 0, bytes and blocks alike. */
static struct trace_sum explain_less(struct trace_sum a, struct trace_sum b)
{
    return (struct trace_sum){a.count - b.count, a.bytes - b.bytes};
}

/*
 * What the lower run has at its own peak and not there, or the other way round, is another order,
 * except as far as it makes up for blocks without a partner: then it counts as there.
 */
static void explain_order(struct explain_row *row, const struct explain_side *high,
        struct explain_side *low, bool is_lower)
{
    struct trace_sum more = explain_less(low->own_peak, low->there);
    struct trace_sum excess = explain_less(high->at_peak, low->at_peak);
    struct trace_sum moved = {0};
    int64_t wanted = (int64_t)excess.bytes;
    int64_t there_is = (int64_t)more.bytes;

    if ((wanted > 0 && there_is > 0) || (wanted < 0 && there_is < 0))
        moved = (wanted > 0 ? there_is < wanted : there_is > wanted) ? more : excess;
    trace_sum_join(&low->at_peak, moved);
    struct trace_sum left = explain_less(moved, more);
    if (is_lower)
        left = explain_less((struct trace_sum){0}, left);
    if (left.bytes)
        explain_add(&row->cause[EXPLAIN_ORDER], left.bytes, left.count);
}

/* Adds up what the rows have, and what is left of the difference. */
static void explain_finish(struct explain *out, struct explain_peaks peaks)
{
    for (size_t i = 0; i < out->row_count; i++) {
        struct explain_row *row = &out->rows[i];
        if (out->is_lower)
            explain_order(row, &row->good, &row->bad, true);
        else
            explain_order(row, &row->bad, &row->good, false);
        if (row->bad.at_peak.bytes >= row->good.at_peak.bytes)
            explain_settle(row, &row->bad, &row->good, 1);
        else
            explain_settle(row, &row->good, &row->bad, UINT64_MAX);
        for (unsigned k = 0; k < EXPLAIN_CAUSES; k++)
            explain_add(
                    &out->cause[k], (uint64_t)row->cause[k].bytes, (uint64_t)row->cause[k].count);
    }
    out->difference = (int64_t)(peaks.bad - peaks.good);
    out->rest = out->difference;
    for (unsigned k = 0; k < EXPLAIN_CAUSES; k++)
        out->rest = (int64_t)((uint64_t)out->rest - (uint64_t)out->cause[k].bytes);
}

/* ---- by events ------------------------------------------------------------------------------ */

static struct explain_run explain_run_of(const struct compare_side *side)
{
    const struct trace *trace = side->trace;
    struct explain_run run = {.trace = trace, .window = side->window};

    run.python = vec_new(trace->stack_count, sizeof(*run.python));
    for (uint32_t i = 0; i < trace->stack_count; i++)
        run.python[i] = trace_python(trace, i);
    run.partner = vec_new(trace->block_count, sizeof(*run.partner));
    run.last_born = explain_last_born(&run);
    return run;
}

static void explain_find_next(struct explain_run *run)
{
    const struct trace *trace = run->trace;
    uint32_t next = ALIGN_NONE;

    run->next = vec_new(trace->block_count, sizeof(*run->next));
    for (size_t i = 0; i < trace->block_count; i++)
        run->next[i] = ALIGN_NONE;
    for (size_t at = trace->event_count; at > 0; at--) {
        const struct trace_event *event = &trace->events[at - 1];
        if (!trace_is_of_block(event))
            continue;
        if (event->kind == TRACE_FREE)
            run->next[event->block] = next;
        else if (run->partner[event->block] != ALIGN_NONE)
            next = event->block;
    }
}

/* The peak of the run that has the higher one, and the same place of the other. */
static void explain_moments(struct explain_work *work)
{
    struct explain *out = work->out;
    struct explain_run *runs = work->run;
    uint64_t live;

    explain_find_peak(&runs[GOOD]);
    explain_find_peak(&runs[BAD]);
    out->is_lower = runs[BAD].peak < runs[GOOD].peak;
    struct explain_run *low = &runs[out->is_lower ? BAD : GOOD];
    struct explain_run *high = &runs[out->is_lower ? GOOD : BAD];
    high->at = high->peak_at;
    low->at = explain_find_there(low, high, &live);
    out->good_at = runs[GOOD].peak_at;
    out->bad_at = runs[BAD].peak_at;
    out->there = low->at;
    out->there_bytes = live;
}

void explain_by_events(const struct compare_side *good, const struct compare_side *bad,
        const struct compare *compare, struct explain_peaks peaks, enum compare_groups_by by,
        struct explain *ret)
{
    struct explain out = {0};
    struct explain_work work = {.by = by, .out = &out};
    struct explain_run *runs = work.run;

    runs[GOOD] = explain_run_of(good);
    runs[BAD] = explain_run_of(bad);
    struct explain_pairs_side sides[RUNS];
    for (unsigned i = 0; i < RUNS; i++)
        sides[i] = (struct explain_pairs_side){
                runs[i].trace, runs[i].window, runs[i].python, runs[i].partner};
    explain_pairs(&sides[GOOD], &sides[BAD], compare);
    explain_find_next(&runs[GOOD]);
    explain_find_next(&runs[BAD]);
    explain_moments(&work);
    explain_count(&work, BAD);
    explain_count(&work, GOOD);
    explain_find_most(&work, BAD);
    explain_find_most(&work, GOOD);
    for (uint32_t i = 0; i < good->trace->block_count; i++)
        if (runs[GOOD].partner[i] != ALIGN_NONE)
            explain_pair(&work, i, runs[GOOD].partner[i]);
    explain_finish(&out, peaks);
    for (unsigned i = 0; i < RUNS; i++) {
        free(runs[i].python);
        free(runs[i].partner);
        free(runs[i].next);
    }
    keytable_done(&work.index);
    *ret = out;
}

/* ---- by places ------------------------------------------------------------------------------ */

static void explain_count_places(
        struct explain_work *work, enum explain_which which, const struct load *load)
{
    for (size_t i = 0; i < load->place_count; i++) {
        const struct read_place *place = load->places[i].what;
        const struct trace_block block = {
                .stack = load->places[i].stack, .site = read_site(load->capture, place->stack)};
        if (place->is_other)
            continue;
        struct explain_row *row =
                explain_row_of(work, which, &block, trace_python(load->trace, block.stack));
        struct explain_side *side = which == GOOD ? &row->good : &row->bad;
        side->made += place->allocated_count;
        side->kept += place->live_count;
        side->most = max_of(side->most, place->peak_bytes);
        trace_sum_join(&side->at_peak, (struct trace_sum){place->high_count, place->high_bytes});
        trace_sum_join(&side->kept_at_peak,
                (struct trace_sum){min_of(place->high_count, place->live_count),
                        min_of(place->high_bytes, place->live_bytes)});
        side->most = max_of(side->most, side->at_peak.bytes);
    }
}

void explain_by_places(const struct load *good, const struct load *bad, struct explain_peaks peaks,
        enum compare_groups_by by, struct explain *ret)
{
    struct explain out = {.good_at = TRACE_NEVER, .bad_at = TRACE_NEVER, .there = TRACE_NEVER};
    struct explain_work work = {.by = by, .out = &out};

    work.run[GOOD].trace = good->trace;
    work.run[BAD].trace = bad->trace;
    explain_count_places(&work, BAD, bad);
    explain_count_places(&work, GOOD, good);
    explain_finish(&out, peaks);
    keytable_done(&work.index);
    *ret = out;
}

void explain_done(struct explain *explain)
{
    free(explain->rows);
    *explain = (struct explain){0};
}

/* SPDX-License-Identifier: MIT */
#include "tools/patterns/patterns.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/patterns/reusable.h"
#include "tools/patterns/savings.h"
#include "tracker/format/format.h"

#define TIMES 16 /* events that share one latest time */

/* The events of a kind as bits, with the count before each 64. */
struct marks {
    uint64_t *bits;
    uint32_t *before;
};

/* A block that shows a pattern, and the events between which it was not needed. */
struct mend {
    uint32_t row, block;
    uint32_t from, to; /* events */
};

struct mends {
    struct mend *at;
    size_t count, room;
};

struct work {
    const struct trace *trace;
    struct model_window window;
    uint64_t end_ns;  /* latest moment of the trace */
    uint32_t peak_at; /* the event that raised live memory to its maximum */
    uint64_t *latest; /* per TIMES events: the latest time up to their end */
    struct marks allocs, frees;
    struct keytable rows[PATTERNS_COUNT];
    struct mends mends[PATTERNS_COUNT];
    uint32_t *used; /* judged blocks that were used */
    size_t used_count;
    struct patterns_figures *figures;
};

/* ---- events by time ---- */

static struct marks mark_events(const struct trace *trace, enum trace_kind kind)
{
    size_t count = trace->event_count / 64 + 1;
    struct marks marks = {.bits = vec_new(count, sizeof *marks.bits),
            .before = vec_new(count, sizeof *marks.before)};

    for (size_t i = 0; i < trace->event_count; i++)
        marks.bits[i / 64] |= (uint64_t)(trace->events[i].kind == kind) << i % 64;
    for (size_t i = 1; i < count; i++)
        marks.before[i] = marks.before[i - 1] + (uint32_t)__builtin_popcountll(marks.bits[i - 1]);
    return marks;
}

/* The number of marked events before an event. */
static uint32_t count_before(const struct marks *marks, uint32_t at)
{
    uint64_t below = (UINT64_C(1) << at % 64) - 1;

    return marks->before[at / 64] + (uint32_t)__builtin_popcountll(marks->bits[at / 64] & below);
}

static void index_events(struct work *work)
{
    const struct trace *trace = work->trace;
    uint64_t latest = 0;

    work->latest = vec_new(trace->event_count / TIMES + 1, sizeof *work->latest);
    work->allocs = mark_events(trace, TRACE_ALLOC);
    work->frees = mark_events(trace, TRACE_FREE);
    for (size_t i = 0; i < trace->event_count; i++)
        work->latest[i / TIMES] = latest = max_of(latest, trace->events[i].time_ns);
    work->end_ns = max_of(latest, trace->latest_use_ns);
}

/* The first event later than a moment; event_count if there is none. */
static size_t patterns_first_later(const struct work *work, uint64_t time_ns)
{
    const struct trace *trace = work->trace;
    size_t low = 0;
    size_t high = trace->event_count / TIMES + 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (work->latest[middle] > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    for (low *= TIMES; low < trace->event_count && trace->events[low].time_ns <= time_ns;)
        low++;
    return low < trace->event_count ? low : trace->event_count;
}

/* The first event after a moment, but always after the block's birth. */
static uint32_t event_after(const struct work *work, uint64_t time_ns, uint32_t born)
{
    size_t at = patterns_first_later(work, time_ns);

    /* events after it may have an earlier time: threads number theirs before they read the clock */
    return at > born ? (uint32_t)at : born + 1;
}

static bool any_between(const struct marks *marks, uint32_t from, uint32_t to)
{
    return from < to && count_before(marks, to) > count_before(marks, from);
}

/* ---- one block ---- */

enum patterns_doubt patterns_doubt_of(const struct trace_block *block)
{
    if (!(block->use_flags & FORMAT_USE_WATCHED) || block->born_ns == 0)
        return PATTERNS_NOT_WATCHED;
    if (block->use_flags & FORMAT_USE_LOST)
        return PATTERNS_LOST;
    if (block->use_flags & FORMAT_USE_SHOWN)
        return PATTERNS_SHOWN;
    return block->use_flags & FORMAT_USE_UNSEEN ? PATTERNS_UNSEEN : PATTERNS_DOUBTS;
}

static uint32_t patterns_row_of(struct work *work, enum patterns_kind pattern,
        const struct trace_block *block, const struct trace_block *other)
{
    struct patterns_found *found = &work->figures->of[pattern];
    struct key key = {block->stack, block->site, other ? (uint64_t)other->stack + 1 : 0};
    uint32_t at = keytable_number(&work->rows[pattern], key);

    if (at == found->count)
        VEC_PUSH(found->row, found->count, found->room) = (struct patterns_row){.pattern = pattern,
                .stack = block->stack,
                .other = other ? other->stack : TRACE_NONE,
                .anchor = block->anchor};
    return at;
}

/* Moments, and the events between which the block could have been missing. */
struct interval {
    uint64_t from_ns, to_ns;
    uint32_t from, to;
};

static void patterns_add_block(struct work *work, enum patterns_kind pattern,
        const struct trace_block *block, const struct trace_block *other, struct interval when)
{
    struct mends *mends = &work->mends[pattern];
    struct mend mend = {.row = patterns_row_of(work, pattern, block, other),
            .block = (uint32_t)(block - work->trace->blocks),
            .from = when.from,
            .to = when.to};
    struct patterns_row *row = &work->figures->of[pattern].row[mend.row];
    uint64_t time = excess_of(when.to_ns, when.from_ns);

    row->count++;
    row->bytes += block->size;
    row->cost += (double)block->size * ((double)time / 1e9);
    if (when.from <= work->peak_at && work->peak_at < when.to)
        row->at_max += block->size;
    if (time > row->longest_ns) {
        row->longest_ns = time;
        row->anchor = block->anchor;
    }
    if (when.from < when.to)
        VEC_PUSH(mends->at, mends->count, mends->room) = mend;
}

/* The event that ends the block's life; event_count if it is never freed. */
static uint32_t patterns_end_of(const struct work *work, const struct trace_block *block)
{
    return block->died == TRACE_NEVER ? (uint32_t)work->trace->event_count : block->died;
}

static uint64_t end_ns_of(const struct work *work, const struct trace_block *block)
{
    return block->died == TRACE_NEVER ? work->end_ns : block->died_ns;
}

static void find_after_last_use(struct work *work, const struct trace_block *block,
        const struct trace_uses *uses, uint32_t last)
{
    struct interval after = {
            uses->last, end_ns_of(work, block), last, patterns_end_of(work, block)};

    if (block->died == TRACE_NEVER)
        patterns_add_block(work, PATTERNS_LEAK, block, NULL, after);
    else if (after.to_ns > after.from_ns && any_between(&work->allocs, last, after.to))
        patterns_add_block(work, PATTERNS_LATE, block, NULL, after);
}

/* Intervals that end at a use: the event right after a moment finds the block there. */
static void find_before_uses(
        struct work *work, const struct trace_block *block, const struct trace_uses *uses)
{
    uint32_t first = event_after(work, uses->first, block->born);
    uint32_t gap = event_after(work, uses->gap_end - uses->gap, block->born);
    uint32_t gap_end = event_after(work, uses->gap_end, block->born);

    if (uses->first > block->born_ns && any_between(&work->frees, block->born + 1, first))
        patterns_add_block(work, PATTERNS_EARLY, block, NULL,
                (struct interval){block->born_ns, uses->first, block->born, first - 1});
    if (uses->gap > 0 && any_between(&work->allocs, gap, gap_end))
        patterns_add_block(work, PATTERNS_IDLE, block, NULL,
                (struct interval){uses->gap_end - uses->gap, uses->gap_end, gap, gap_end - 1});
}

/* Finds the block's patterns; the event after which nothing needs it, TRACE_NEVER: its free. */
static uint32_t find_patterns(
        struct work *work, const struct trace_block *block, const struct trace_uses *uses)
{
    struct interval life = {
            block->born_ns, end_ns_of(work, block), block->born, patterns_end_of(work, block)};
    uint32_t last;

    if (uses->count == 0) {
        patterns_add_block(work, PATTERNS_UNUSED, block, NULL, life);
        return block->born;
    }
    last = event_after(work, uses->last, block->born);
    find_before_uses(work, block, uses);
    find_after_last_use(work, block, uses, last);
    if (block->use_flags & FORMAT_USE_DEAD_WRITE)
        patterns_add_block(work, PATTERNS_DEAD_WRITE, block, NULL, (struct interval){0});
    return last <= life.to ? last - 1 : TRACE_NEVER;
}

static void find_redundant(struct work *work)
{
    size_t count;
    struct reusable_pair *pairs = reusable_find(work->trace, work->used, work->used_count, &count);

    for (size_t i = 0; i < count; i++) {
        const struct trace_block *first = &work->trace->blocks[pairs[i].first];
        const struct trace_block *second = &work->trace->blocks[pairs[i].second];
        struct interval both = {.from = first->born, .to = patterns_end_of(work, first)};

        both.from_ns = first->born_ns;
        both.to_ns = end_ns_of(work, first);
        if (second->born > first->born) {
            both.from = second->born;
            both.from_ns = second->born_ns;
        }
        if (patterns_end_of(work, second) < both.to) {
            both.to = patterns_end_of(work, second);
            both.to_ns = end_ns_of(work, second);
        }
        patterns_add_block(work, PATTERNS_REDUNDANT, second, first, both);
    }
    free(pairs);
}

/* ---- savings ---- */

/* The mends of a pattern, for savings_left. */
struct all_mends {
    const struct trace *trace;
    const struct mend *at;
};

static struct savings_stretch stretch_of(const void *context, size_t i)
{
    const struct all_mends *mends = context;
    const struct mend *mend = &mends->at[i];

    return (struct savings_stretch){
            mend->from, mend->to, mend->row, mends->trace->blocks[mend->block].size};
}

static void find_savings(
        struct work *work, const struct savings *savings, enum patterns_kind pattern)
{
    const struct mends *mends = &work->mends[pattern];
    struct patterns_found *found = &work->figures->of[pattern];
    struct savings_stretches stretches = {.stretch_of = stretch_of,
            .context = &(struct all_mends){work->trace, mends->at},
            .count = mends->count,
            .row_count = found->count};
    uint64_t *left;

    if (mends->count == 0)
        return;
    left = vec_new(found->count, sizeof(*left));
    found->saves = excess_of(work->figures->peak, savings_left(savings, &stretches, left));
    for (size_t i = 0; i < found->count; i++)
        found->row[i].saves = excess_of(work->figures->peak, left[i]);
    free(left);
}

int patterns_by_saving(const void *left, const void *right)
{
    const struct patterns_row *a = left;
    const struct patterns_row *b = right;

    int order = vec_order(a->stack, b->stack, vec_order(a->pattern, b->pattern, 0));

    order = vec_order(b->bytes, a->bytes, order);
    if (a->cost < b->cost || a->cost > b->cost)
        order = a->cost > b->cost ? -1 : 1;
    return vec_order(b->saves, a->saves, order);
}

static void find_peak(struct work *work)
{
    struct model_figures model;

    model_figure(work->trace, work->window, NULL, &model);
    work->figures->peak = model.max;
    work->peak_at = model.max_at;
}

/* Judges the blocks of the window; for each the event after which it is no longer needed. */
static uint32_t *judge_blocks(struct work *work)
{
    const struct trace *trace = work->trace;
    struct patterns_figures *figures = work->figures;
    uint32_t *at = vec_new(trace->block_count + 1, sizeof *at);

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        enum patterns_doubt doubt = patterns_doubt_of(block);

        at[i] = TRACE_NEVER;
        if (block->born < work->window.first || block->born >= work->window.last)
            continue;
        if (doubt != PATTERNS_DOUBTS) {
            figures->doubts[doubt]++;
            figures->doubtful_bytes += block->size;
            continue;
        }
        figures->judged++;
        figures->judged_bytes += block->size;
        const struct trace_uses uses = trace_uses(trace, block);
        if (uses.count != 0)
            work->used[work->used_count++] = (uint32_t)i;
        at[i] = find_patterns(work, block, &uses);
    }
    return at;
}

/* Gives back the unused room of an array that grew by doubling. */
static void patterns_trim(struct mends *mends)
{
    struct mend *smaller =
            mends->count ? reallocarray(mends->at, mends->count, sizeof(*mends->at)) : NULL;

    if (!smaller)
        return;
    mends->at = smaller;
    mends->room = mends->count;
}

/* Frees what only judging needs: it is large after a long run. */
static void drop_index(struct work *work)
{
    for (unsigned p = 0; p < PATTERNS_COUNT; p++)
        patterns_trim(&work->mends[p]);
    free(work->latest);
    free(work->allocs.bits);
    free(work->allocs.before);
    free(work->frees.bits);
    free(work->frees.before);
}

void patterns_figure(
        const struct trace *trace, struct model_window window, struct patterns_figures *ret_figures)
{
    struct work work = {.trace = trace,
            .window = window,
            .used = vec_new(trace->block_count + 1, sizeof *work.used),
            .figures = ret_figures};

    *ret_figures = (struct patterns_figures){.judged = 0};
    index_events(&work);
    find_peak(&work);
    uint32_t *needed_until = judge_blocks(&work);
    drop_index(&work);
    find_redundant(&work);
    free(work.used);
    struct savings *savings = savings_new(trace, window);
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        find_savings(&work, savings, (enum patterns_kind)p);
        VEC_SORT(ret_figures->of[p].row, ret_figures->of[p].count, patterns_by_saving);
        keytable_done(&work.rows[p]);
        free(work.mends[p].at);
    }
    savings_free(savings);
    ret_figures->peak_then = model_max(trace, window, needed_until);
    free(needed_until);
}

void patterns_free(struct patterns_figures *figures)
{
    for (unsigned p = 0; p < PATTERNS_COUNT; p++)
        free(figures->of[p].row);
    *figures = (struct patterns_figures){.judged = 0};
}

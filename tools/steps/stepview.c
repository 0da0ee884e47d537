/* SPDX-License-Identifier: MIT */
#include "tools/steps/stepview.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/trace/stated_steps.h"

/* ── steps that are detected ── */

struct sequence {
    struct period_alloc *allocs;
    uint32_t *events; /* the event of each */
    uint32_t count;
};

static bool has_threads(const struct trace *trace)
{
    for (size_t i = 0; i < trace->block_count; i++) {
        if (trace->blocks[i].thread != trace->blocks[0].thread)
            return true;
    }
    return false;
}

/* Its thread; if there is one thread, its stream: the order of streams may be chance, too. */
static uint32_t lane_of(const struct trace *trace, const struct trace_event *event, bool by_thread)
{
    uint64_t lane = by_thread ? event->thread : trace_stream(trace, event);

    return (uint32_t)(lane ^ lane >> 32);
}

static struct sequence sequence_of(const struct load *load, struct model_window window)
{
    const struct trace *trace = load->trace;
    uint32_t from = (uint32_t)max_of(load->complete_from, window.first);
    uint32_t *numbers = vec_new(trace->block_count, sizeof(*numbers)); /* + 1; 0 = not in it */
    bool by_thread = has_threads(trace);
    struct sequence sequence = {.allocs = vec_new(trace->block_count, sizeof(*sequence.allocs)),
            .events = vec_new(trace->block_count, sizeof(*sequence.events))};

    for (uint32_t i = from; i < window.last; i++) {
        const struct trace_event *event = &trace->events[i];
        if (!trace_is_of_block(event))
            continue;
        if (event->kind == TRACE_FREE) {
            if (numbers[event->block])
                sequence.allocs[numbers[event->block] - 1].dies = sequence.count;
            continue;
        }
        const struct trace_block *block = &trace->blocks[event->block];
        sequence.allocs[sequence.count] = (struct period_alloc){
                block->site, block->size, PERIOD_NEVER, lane_of(trace, event, by_thread)};
        sequence.events[sequence.count++] = i;
        numbers[event->block] = sequence.count;
    }
    free(numbers);
    return sequence;
}

/* After the last allocation: includes the step's frees of its own blocks. */
static uint32_t own_end(const struct load *load, const struct sequence *sequence,
        const struct period_span *span, struct model_window window)
{
    uint32_t end = sequence->events[span->behind - 1] + 1;

    for (uint32_t i = span->first; i < span->behind; i++) {
        const struct trace_event *event = &load->trace->events[sequence->events[i]];
        uint32_t died = load->trace->blocks[event->block].died;
        if (died != TRACE_NEVER && died < window.last && died >= end)
            end = died + 1;
    }
    return end;
}

/* The first event after the last allocation or free of a step. */
static uint32_t stepview_end_of(const struct load *load, const struct sequence *sequence,
        const struct period_span *span, struct model_window window)
{
    const struct trace_event *events = load->trace->events;

    if (span->behind >= sequence->count)
        return own_end(load, sequence, span, window);
    uint32_t behind = sequence->events[span->behind];
    while (events[behind - 1].kind != TRACE_ALLOC && events[behind - 1].kind != TRACE_FREE)
        behind--;
    return behind;
}

static void detect(const struct load *load, struct model_window window, struct stepview *view)
{
    struct sequence sequence = sequence_of(load, window);

    progress_begin("looking for steps");
    period_find(sequence.allocs, sequence.count, &view->period);
    progress_end();
    view->rows = vec_new(view->period.span_count, sizeof(*view->rows));
    for (uint32_t i = 0; i < view->period.span_count; i++) {
        const struct period_span *span = &view->period.spans[i];
        view->rows[view->row_count++] = (struct stepview_row){.first = sequence.events[span->first],
                .behind = stepview_end_of(load, &sequence, span, window),
                .anchor = TRACE_NONE,
                .likeness = span->likeness};
    }
    free(sequence.allocs);
    free(sequence.events);
}

/* ── steps that are stated ── */

static void take_stated(
        struct stated_steps *stated, struct model_window window, struct stepview *view)
{
    view->origin = STEPVIEW_STATED;
    view->rows = vec_new(stated->count, sizeof(*view->rows));
    for (size_t i = 0; i < stated->count; i++) {
        const struct stated_steps_span *span = &stated->spans[i];
        if (span->first < window.first || span->behind > window.last)
            continue;
        view->rows[view->row_count++] = (struct stepview_row){
                .first = span->first, .behind = span->behind, .anchor = span->anchor};
    }
    view->family = stated->family;
    stated->family = NULL;
}

/* ── figures ── */

static void stepview_count_event(const struct trace *trace, const struct trace_event *event,
        uint64_t *live, struct stepview_row *row)
{
    bool is_alloc = event->kind == TRACE_ALLOC;

    if (!trace_is_of_block(event))
        return;
    uint64_t size = trace->blocks[event->block].size;
    *live += is_alloc ? size : 0 - size;
    if (!row)
        return;
    row->peak = *live > row->peak ? *live : row->peak;
    *(is_alloc ? &row->allocated : &row->freed) += size;
    (*(is_alloc ? &row->allocated_count : &row->freed_count))++;
}

static void count_rows(const struct load *load, struct stepview *view)
{
    const struct trace *trace = load->trace;
    uint64_t live = 0;
    uint32_t event = 0;

    for (size_t i = 0; i < view->row_count; i++) {
        struct stepview_row *row = &view->rows[i];
        for (; event < row->first; event++)
            stepview_count_event(trace, &trace->events[event], &live, NULL);
        row->live_begin = row->peak = live;
        for (; event < row->behind; event++)
            stepview_count_event(trace, &trace->events[event], &live, row);
        row->live_end = live;
    }
}

/* ── all of it ── */

void stepview_find(const struct load *load, struct model_window window, enum stepview_choice choice,
        struct stepview *ret)
{
    struct stated_steps stated = {0};

    *ret = (struct stepview){.origin = STEPVIEW_DETECTED};
    if (choice != STEPVIEW_ONLY_DETECTED)
        stated_steps_find(load->trace, &stated);
    if (stated.family)
        take_stated(&stated, window, ret);
    else if (choice == STEPVIEW_ONLY_STATED)
        (void)snprintf(ret->period.reason, sizeof(ret->period.reason),
                "no anchors that are steps: of one name but for digits, one after another");
    else
        detect(load, window, ret);
    stated_steps_done(&stated);
    count_rows(load, ret);
}

void stepview_done(struct stepview *view)
{
    period_done(&view->period);
    free(view->family);
    free(view->rows);
    *view = (struct stepview){0};
}

/* SPDX-License-Identifier: MIT */
#include "tools/predict.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/hint.h"
#include "tools/model.h"
#include "tools/playback.h"
#include "tools/sitekey.h"
#include "tools/vec.h"

static void make_tag(const struct trace *trace, const struct sitekey_named *named,
        const struct trace_block *block, struct tag *ret_tag)
{
    const struct trace_anchor *anchor = &trace->anchors[block->anchor];

    *ret_tag = (struct tag){
            .site = block->site,
            .pysites = named->of_stack ? named->of_stack[block->stack] : NULL,
            .stack = block->stack,
            .anchor = block->anchor,
            .nth = block->nth,
            .size = block->size,
            .path = anchor->path,
            .instance = anchor->instance,
            .device = block->device,
    };
}

static struct edge make_edge(const struct trace *trace, const struct trace_event *event)
{
    const struct trace_anchor *anchor = &trace->anchors[event->anchor];
    enum edge_kind kind = event->kind == TRACE_ENTER ? EDGE_ENTER
            : event->kind == TRACE_EXIT              ? EDGE_EXIT
                                                     : EDGE_MARK;

    return (struct edge){.kind = kind,
            .anchor = event->anchor,
            .instance = anchor->instance,
            .path = anchor->path};
}

static bool is_edge(const struct trace_event *event)
{
    return event->kind == TRACE_ENTER || event->kind == TRACE_EXIT || event->kind == TRACE_MARK;
}

/* The edges of a trace in order, so that looking for the next one does not walk over all events. */
struct edges {
    uint32_t *at;
    size_t count, room;
};

static struct edges list_edges(const struct trace *trace)
{
    struct edges edges = {0};

    for (size_t i = 0; i < trace->event_count; i++) {
        if (is_edge(&trace->events[i]))
            VEC_PUSH(edges.at, edges.count, edges.room) = (uint32_t)i;
    }
    return edges;
}

static uint32_t first_due(const struct trace *trace, const struct edges *edges,
        const struct hints *hints, const struct plan *plan, uint32_t after)
{
    size_t lo = 0;
    size_t hi = edges->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (edges->at[mid] <= after)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < edges->count; lo++) {
        struct edge edge = make_edge(trace, &trace->events[edges->at[lo]]);
        if (hint_is_due(hints, plan, &edge))
            return edges->at[lo];
    }
    return TRACE_NEVER;
}

/* The edge of the very instance that the plan names; no search, since most plans name one. */
static uint32_t due_at(const struct trace *trace, const struct edges *edges,
        const struct hints *hints, const struct plan *plan, const struct trace_block *block)
{
    const struct rule *rule = hint_rule(hints, plan->rule);

    if (plan->due_anchor && rule->when.kind == EDGE_EXIT) {
        uint32_t exit = trace->anchors[plan->due_anchor].exit;
        return exit != TRACE_NEVER && exit > block->born ? exit : TRACE_NEVER;
    }
    return first_due(trace, edges, hints, plan, block->born);
}

int predict_matches(const struct trace *trace, const struct rule *rules, size_t count,
        struct predict_match *ret_matches)
{
    struct hints *hints;
    int r = hint_new(rules, count, &hints);

    if (r < 0)
        return r;
    struct edges edges = list_edges(trace);
    struct sitekey_named named = sitekey_name(trace, hints);
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct predict_match match = {.rule = TRACE_NONE, .at = TRACE_NEVER};
        struct plan plan;
        struct tag tag;

        make_tag(trace, &named, block, &tag);
        hint_plan(hints, &tag, &plan);
        if (plan.rule >= 0) {
            match.rule = (uint32_t)plan.rule;
            match.small = plan.small;
            if (rule_waits(&rules[plan.rule]) && !plan.small && !block->native)
                match.at = due_at(trace, &edges, hints, &plan, block);
        }
        ret_matches[i] = match;
    }
    free(edges.at);
    sitekey_named_done(&named);
    hint_free(hints);
    return 0;
}

int predict_max(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes)
{
    struct predict_match *matches = vec_new(trace->block_count, sizeof(*matches));
    uint32_t *releases = vec_new(trace->block_count, sizeof(*releases));
    int r = predict_matches(trace, rules, count, matches);

    for (size_t i = 0; i < trace->block_count; i++)
        releases[i] = matches[i].at;
    if (r == 0)
        *ret_bytes = model_max(trace, model_whole(trace), releases);
    free(matches);
    free(releases);
    return r;
}

/* A run being replayed through the pool. */
struct replay {
    const struct trace *trace;
    struct hints *hints;
    struct sitekey_named named;
    struct playback playback;
};

/* One stream for all: the prediction is of a device that is never late. */
#define REPLAY_STREAM 1

static int replay_alloc(struct replay *replay, const struct trace_event *event)
{
    const struct trace_block *block = &replay->trace->blocks[event->block];
    struct plan plan;
    struct tag tag;

    if (block->native || block->size == 0)
        return 0;
    make_tag(replay->trace, &replay->named, block, &tag);
    hint_plan(replay->hints, &tag, &plan);
    struct playback_ask ask = {.size = block->size,
            .stream = block->stream ? REPLAY_STREAM : 0,
            .plan = &plan,
            .device = block->device};
    return playback_take(&replay->playback, event->block, &ask);
}

static int replay_free(struct replay *replay, const struct trace_event *event)
{
    if (event->block == TRACE_NONE)
        return 0;
    bool stream = replay->trace->blocks[event->block].stream;
    return playback_give(&replay->playback, event->block, stream ? REPLAY_STREAM : 0);
}

static int replay_edge(struct replay *replay, const struct trace_event *event)
{
    struct edge edge = make_edge(replay->trace, event);
    struct outcome outcomes[64];
    size_t count;
    int r;

    do {
        r = pool_edge(replay->playback.pool, &edge, outcomes, 64, &count);
    } while (r == 0 && count == 64);
    do {
        if (r == 0)
            r = pool_poll(replay->playback.pool, true, outcomes, 64, &count);
    } while (r == 0 && count == 64);
    return r;
}

static int replay_all(struct replay *replay)
{
    int r = 0;

    for (size_t i = 0; i < replay->trace->event_count && r == 0; i++) {
        const struct trace_event *event = &replay->trace->events[i];
        if (event->kind == TRACE_ALLOC)
            r = replay_alloc(replay, event);
        else if (event->kind == TRACE_FREE)
            r = replay_free(replay, event);
        else if (is_edge(event))
            r = replay_edge(replay, event);
    }
    return r;
}

int predict_reserved(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes)
{
    struct replay replay = {.trace = trace};
    struct rule *live = vec_new(count, sizeof(*live));
    struct counting counting;
    struct pool_opts opts;

    for (size_t i = 0; i < count; i++) {
        live[i] = rules[i];
        live[i].mode = HINT_LIVE;
    }
    int r = hint_new(live, count, &replay.hints);
    if (r < 0)
        goto free_rules;
    replay.named = sitekey_name(trace, replay.hints);
    pool_opts_init(&opts);
    r = playback_open(&replay.playback, &counting, &opts, replay.hints, trace->block_count);
    if (r == 0)
        r = replay_all(&replay);
    if (r == 0)
        *ret_bytes = counting.reserved_high;
    playback_close(&replay.playback);
    counting_done(&counting);
    sitekey_named_done(&replay.named);
    hint_free(replay.hints);
free_rules:
    free(live);
    return r;
}

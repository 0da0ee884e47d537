/* SPDX-License-Identifier: MIT */
#include "tools/predict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/hint.h"
#include "alloc/pool.h"
#include "tools/counting.h"
#include "tools/grow.h"

static void make_tag(
        const struct trace *trace, const struct trace_block *block, struct tag *ret_tag)
{
    const struct trace_anchor *anchor = &trace->anchors[block->anchor];

    *ret_tag = (struct tag){
            .site = block->site,
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
            GROW_PUSH(edges.at, edges.count, edges.room) = (uint32_t)i;
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
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct predict_match match = {.rule = TRACE_NONE, .at = TRACE_NEVER};
        struct plan plan;
        struct tag tag;

        make_tag(trace, block, &tag);
        hint_plan(hints, &tag, &plan);
        if (plan.rule >= 0) {
            match.rule = (uint32_t)plan.rule;
            match.small = plan.small;
            if (!plan.small && !block->native)
                match.at = due_at(trace, &edges, hints, &plan, block);
        }
        ret_matches[i] = match;
    }
    free(edges.at);
    hint_free(hints);
    return 0;
}

/* A run being replayed through the pool. */
struct replay {
    const struct trace *trace;
    struct pool *pool;
    struct hints *hints;
    devptr_t *places; /* per block, 0 = not from the pool */
};

/* All programs have one context and one stream here: which one does not change what is held. */
#define REPLAY_OWNER  1
#define REPLAY_STREAM 1

static int replay_alloc(struct replay *replay, const struct trace_event *event)
{
    const struct trace_block *block = &replay->trace->blocks[event->block];
    struct outcome outcome;
    struct plan plan;
    struct tag tag;

    if (block->native || block->size == 0)
        return 0;
    make_tag(replay->trace, block, &tag);
    hint_plan(replay->hints, &tag, &plan);
    struct pool_request request = {
            .size = block->size,
            .owner = REPLAY_OWNER,
            .context = REPLAY_OWNER,
            .stream = block->stream ? REPLAY_STREAM : 0,
            .plan = &plan,
            .entrance = block->stream ? ENTRANCE_STREAM : ENTRANCE_SYNC,
            .device = block->device < 0 ? 0 : block->device,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
    int r = pool_alloc(replay->pool, &request, &outcome);
    if (r != 0)
        return r > 0 ? -ENOMEM : r;
    replay->places[event->block] = outcome.ptr;
    return 0;
}

static int replay_free(struct replay *replay, const struct trace_event *event)
{
    struct outcome outcome;

    if (event->block == TRACE_NONE || replay->places[event->block] == 0)
        return 0;
    bool stream = replay->trace->blocks[event->block].stream;
    struct pool_free_request request = {
            .entrance = stream ? ENTRANCE_STREAM : ENTRANCE_SYNC,
            .stream = stream ? REPLAY_STREAM : 0,
            .may_fence = true,
    };
    return pool_free(replay->pool, replay->places[event->block], &request, &outcome);
}

static int replay_edge(struct replay *replay, const struct trace_event *event)
{
    struct edge edge = make_edge(replay->trace, event);
    struct outcome outcomes[64];
    size_t count;
    int r;

    do {
        r = pool_edge(replay->pool, &edge, outcomes, 64, &count);
    } while (r == 0 && count == 64);
    do {
        if (r == 0)
            r = pool_poll(replay->pool, true, outcomes, 64, &count);
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
    struct counting counting;
    struct driver driver = counting_driver(&counting);
    struct rule *live = grow_array(count, sizeof(*live));
    struct pool_opts opts;
    struct pool_stats stats;

    for (size_t i = 0; i < count; i++) {
        live[i] = rules[i];
        live[i].mode = HINT_LIVE;
    }
    int r = hint_new(live, count, &replay.hints);
    if (r < 0)
        goto free_rules;
    pool_opts_init(&opts);
    r = pool_new(&driver, &opts, &replay.pool);
    if (r < 0)
        goto free_hints;
    replay.places = grow_array(trace->block_count, sizeof(*replay.places));
    r = pool_set_hints(replay.pool, replay.hints);
    if (r == 0)
        r = replay_all(&replay);
    if (r == 0) {
        pool_stats(replay.pool, -1, &stats);
        *ret_bytes = stats.reserved_high;
    }
    pool_free_all(replay.pool);
    free(replay.places);
free_hints:
    hint_free(replay.hints);
free_rules:
    free(live);
    return r;
}

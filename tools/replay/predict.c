/* SPDX-License-Identifier: MIT */
#include "tools/replay/predict.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/hints/hint.h"
#include "tools/base/vec.h"
#include "tools/replay/playback.h"
#include "tools/symbols/sitekey.h"
#include "tools/trace/model.h"

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
            .stream = block->stream_number,
            .is_main = block->is_main,
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

static struct edge make_call(const struct trace *trace, uint64_t number)
{
    const struct trace_call *call = &trace->calls[number];
    const struct trace_anchor *anchor = &trace->anchors[call->anchor];

    return (struct edge){.kind = EDGE_CALL,
            .anchor = call->anchor,
            .instance = anchor->instance,
            .path = anchor->path,
            .call = call->number};
}

static struct edge make_launch(const struct trace *trace, const struct trace_event *event)
{
    const struct trace_anchor *anchor = &trace->anchors[event->anchor];

    return (struct edge){.kind = EDGE_LAUNCH,
            .anchor = event->anchor,
            .instance = anchor->instance,
            .path = anchor->path,
            .name = trace->launches[event->number]};
}

/* ---- when a block is due ---- */

/* Events that can be the `when` or the `else` of a rule, in order, with running counts of each. */
struct moments {
    struct moment {
        uint32_t at;
        struct hint_counts counts;
    } * list;
    size_t count, room;
    bool is_listed;
};

/* A use of a block by a call. */
struct use {
    uint32_t block, call, arg;
};

struct waits {
    const struct trace *trace;
    const struct hints *hints;
    const struct predict_match *matches; /* whose free is an event; NULL = none */
    struct moments *of;                  /* per rule, listed when a block first needs it */
    struct use *uses;                    /* by block, then in order */
    size_t use_count, use_room;
};

static int by_block(const void *a, const void *b)
{
    const struct use *x = a;
    const struct use *y = b;

    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return (x->arg > y->arg) - (x->arg < y->arg);
}

static struct waits waits_begin(const struct trace *trace, const struct hints *hints)
{
    struct waits waits = {
            .trace = trace, .hints = hints, .of = vec_new(hint_count(hints), sizeof(*waits.of))};

    for (uint32_t i = 0; i < trace->call_count; i++)
        for (uint32_t k = 0; k < FORMAT_CALL_BUFFERS; k++)
            if (trace->calls[i].buffer[k].block != TRACE_NONE)
                VEC_PUSH(waits.uses, waits.use_count, waits.use_room) =
                        (struct use){trace->calls[i].buffer[k].block, i, k};
    VEC_SORT(waits.uses, waits.use_count, by_block);
    return waits;
}

static void waits_end(struct waits *waits)
{
    for (size_t i = 0; i < hint_count(waits->hints); i++)
        free(waits->of[i].list);
    free(waits->of);
    free(waits->uses);
}

/* Is the event the free of a block that a hint matched? */
static bool is_free_of(
        const struct waits *waits, const struct trace_event *event, struct edge *ret_edge)
{
    const struct predict_match *match = &waits->matches[event->block];

    *ret_edge = (struct edge){.kind = EDGE_FREE, .path = "", .rule = (int)match->rule};
    return match->rule != TRACE_NONE && !match->small && !waits->trace->blocks[event->block].native;
}

bool predict_edge(const struct trace *trace, uint32_t at, struct edge *ret_edge)
{
    const struct trace_event *event = &trace->events[at];

    if (event->kind == TRACE_CALL)
        *ret_edge = make_call(trace, event->number);
    else if (event->kind == TRACE_LAUNCH)
        *ret_edge = make_launch(trace, event);
    else if (is_edge(event))
        *ret_edge = make_edge(trace, event);
    else
        return false;
    return true;
}

/* True if hints get an edge for this event. */
static bool edge_at(const struct waits *waits, uint32_t at, struct edge *ret_edge)
{
    const struct trace_event *event = &waits->trace->events[at];

    if (event->kind == TRACE_FREE)
        return waits->matches && event->block != TRACE_NONE && is_free_of(waits, event, ret_edge);
    return predict_edge(waits->trace, at, ret_edge);
}

static const struct moments *moments_of(struct waits *waits, int rule)
{
    struct moments *moments = &waits->of[rule];
    struct hint_counts counts = {0};
    struct edge edge;

    for (uint32_t i = 0; i < waits->trace->event_count && !moments->is_listed; i++)
        if (edge_at(waits, i, &edge)
                && hint_count_edge(hint_rule(waits->hints, rule), &edge, &counts))
            VEC_PUSH(moments->list, moments->count, moments->room) = (struct moment){i, counts};
    moments->is_listed = true;
    return moments;
}

/* Index of the first moment after an event. */
static size_t first_behind(const struct moments *moments, uint32_t event)
{
    size_t lo = 0;
    size_t hi = moments->count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (moments->list[mid].at <= event)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct hint_counts counts_before(const struct moments *moments, size_t number)
{
    return number ? moments->list[number - 1].counts : (struct hint_counts){0, 0};
}

/* The first use of a block; *ret_end: after its last. */
static const struct use *predict_uses_of(
        const struct waits *waits, uint32_t block, const struct use **ret_end)
{
    size_t lo = 0;
    size_t hi = waits->use_count;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (waits->uses[mid].block < block)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < waits->use_count && waits->uses[hi].block == block;)
        hi++;
    *ret_end = waits->uses ? waits->uses + hi : NULL;
    return waits->uses ? waits->uses + lo : NULL;
}

/* The first moment at which the block is due: each use makes it wait again. */
static uint32_t first_due(struct waits *waits, const struct plan *plan, uint32_t id)
{
    const struct trace *trace = waits->trace;
    const struct rule *rule = hint_rule(waits->hints, plan->rule);
    const struct moments *moments = moments_of(waits, plan->rule);
    size_t next = first_behind(moments, trace->blocks[id].born);
    struct hint_counts now = counts_before(moments, next);
    const struct use *end;
    const struct use *use = predict_uses_of(waits, id, &end);
    struct hint_wait wait;

    hint_wait_begin(rule, plan, &now, &wait);
    for (;;) {
        bool is_used = use < end; /* at or after this moment */
        uint32_t used_at = is_used ? trace->calls[use->call].at : TRACE_NEVER;

        if (wait.unused && is_used) {
            next = first_behind(moments, used_at - 1);
            now = counts_before(moments, next);
        } else if (wait.unused || next == moments->count) {
            return TRACE_NEVER;
        }
        if (is_used && (next == moments->count || used_at <= moments->list[next].at)) {
            struct edge edge = make_call(trace, use->call);
            (void)hint_wait_use(rule, &edge, use++->arg, &now, &wait);
            continue;
        }
        struct edge edge;
        (void)edge_at(waits, moments->list[next].at, &edge);
        now = moments->list[next].counts;
        if (hint_wait_is_due(rule, &wait, &now, &edge))
            return moments->list[next].at;
        next++;
    }
}

/*
 * The event of the edge that the plan names; without a search, since most plans name an instance.
 */
static uint32_t predict_due_at(struct waits *waits, const struct plan *plan, uint32_t id)
{
    const struct rule *rule = hint_rule(waits->hints, plan->rule);

    if (plan->due_anchor && rule->when.kind == EDGE_EXIT && !rule_counts(rule)) {
        uint32_t exit = waits->trace->anchors[plan->due_anchor].exit;
        return exit != TRACE_NEVER && exit > waits->trace->blocks[id].born ? exit : TRACE_NEVER;
    }
    return first_due(waits, plan, id);
}

/* Asks the hints about a block; *ret_match: without the moment. */
static void match_block(const struct hints *hints, const struct trace *trace,
        const struct sitekey_named *named, uint32_t id, struct plan *ret_plan,
        struct predict_match *ret_match)
{
    struct tag tag;

    make_tag(trace, named, &trace->blocks[id], &tag);
    hint_plan(hints, &tag, ret_plan);
    *ret_match = (struct predict_match){.rule = TRACE_NONE, .at = TRACE_NEVER};
    if (ret_plan->rule < 0)
        return;
    ret_match->rule = (uint32_t)ret_plan->rule;
    ret_match->small = ret_plan->small;
}

static bool is_any_free(const struct rule *rules, size_t count)
{
    bool is_free = false;

    for (size_t i = 0; i < count; i++)
        is_free |= rules[i].when.kind == EDGE_FREE || rules[i].otherwise.kind == EDGE_FREE;
    return is_free;
}

static bool is_here(const struct trace *trace, const struct rule *rule)
{
    return rule->mode != HINT_OFF && hint_is_for(rule, trace->rank ? trace->rank : "");
}

/* The rules as this process has them: rules for other ranks are off. */
static struct rule *rules_here(const struct trace *trace, const struct rule *rules, size_t count)
{
    struct rule *here = vec_new(count, sizeof(*here));

    for (size_t i = 0; i < count; i++) {
        here[i] = rules[i];
        if (!is_here(trace, &rules[i]))
            here[i].mode = HINT_OFF;
    }
    return here;
}

/*
 * Sets rules that release to live. The replay moves no evicted block, so it leaves rules of
 * eviction as they are.
 */
static void make_live(struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].action == ACTION_EVICT)
            rules[i].action = ACTION_IGNORE;
        if (rules[i].mode != HINT_LIVE)
            rules[i].canary = 0;
        if (rules[i].mode != HINT_OFF)
            rules[i].mode = HINT_LIVE;
    }
}

/* Does the canary of a live hint leave this block in shadow? Call it once per block, in order. */
static bool is_left_out(struct hints *hints, struct plan *io_plan)
{
    enum hint_mode mode = io_plan->mode;

    hint_canary(hints, io_plan);
    return io_plan->mode != mode;
}

int predict_matches(const struct trace *trace, const struct rule *rules, size_t count,
        struct predict_match *ret_matches)
{
    struct rule *here = rules_here(trace, rules, count);
    struct hints *hints;
    struct plan plan;
    int r = hint_new(here, count, &hints);

    if (r < 0) {
        free(here);
        return r;
    }
    struct waits waits = waits_begin(trace, hints);
    struct sitekey_named named = sitekey_name(trace, hints);
    if (is_any_free(rules, count)) {
        waits.matches = ret_matches;
        for (uint32_t i = 0; i < trace->block_count; i++)
            match_block(hints, trace, &named, i, &plan, &ret_matches[i]);
    }
    for (uint32_t i = 0; i < trace->block_count; i++) {
        struct predict_match *match = &ret_matches[i];

        match_block(hints, trace, &named, i, &plan, match);
        if (trace->blocks[i].native || is_left_out(hints, &plan))
            continue;
        if (plan.rule >= 0 && action_releases(plan.action) && !plan.small)
            match->at = predict_due_at(&waits, &plan, i);
    }
    waits_end(&waits);
    sitekey_named_done(&named);
    hint_free(hints);
    free(here);
    return 0;
}

static bool has_launch(const struct trace *trace, const struct rule_when *when)
{
    bool has = when->kind != EDGE_LAUNCH || !rule_is_set(when);

    for (size_t i = 0; i < trace->launch_count && !has; i++)
        has = hint_edge_matches(
                when, &(struct edge){.kind = EDGE_LAUNCH, .name = trace->launches[i]});
    return has;
}

int predict_lacks_launch(const struct trace *trace, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_here(trace, &rules[i])
                && (!has_launch(trace, &rules[i].when) || !has_launch(trace, &rules[i].otherwise)))
            return (int)i;
    return -1;
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

/* The replay of a run through the pool. */
struct replay {
    const struct trace *trace;
    const struct predict_beside *beside;
    struct predict_held held;
    uint64_t native; /* live bytes that the driver serves itself */
    struct hints *hints;
    struct sitekey_named named;
    struct playback playback;
    bool tells_frees; /* a hint waits for frees */
};

/* One stream for all: the prediction assumes a device that never lags. */
#define REPLAY_STREAM 1

/* Does the replay leave the block out? */
static bool is_beside(const struct replay *replay, uint32_t id)
{
    const struct predict_beside *beside = replay->beside;
    int device = replay->trace->blocks[id].device;

    return (beside->rule_of && beside->rule_of[id] != TRACE_NONE)
            || (beside->device >= 0 && device >= 0 && beside->device != device);
}

static int replay_alloc(struct replay *replay, const struct trace_event *event)
{
    const struct trace_block *block = &replay->trace->blocks[event->block];
    struct plan plan;
    struct tag tag;

    if (is_beside(replay, event->block))
        return 0;
    if (block->native)
        replay->native += block->size;
    if (block->native || block->size == 0)
        return 0;
    make_tag(replay->trace, &replay->named, block, &tag);
    hint_plan(replay->hints, &tag, &plan);
    hint_canary(replay->hints, &plan);
    struct playback_ask ask = {.size = block->size,
            .stream = block->stream ? REPLAY_STREAM : 0,
            .plan = &plan,
            .device = block->device};
    return playback_take(&replay->playback, event->block, &ask);
}

static int replay_edge(struct replay *replay, struct edge edge)
{
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

static int replay_free(struct replay *replay, const struct trace_event *event)
{
    struct edge edge = {.kind = EDGE_FREE, .path = ""};
    struct predict_match match;
    struct plan plan;
    int r;

    if (event->block == TRACE_NONE || is_beside(replay, event->block))
        return 0;
    if (replay->trace->blocks[event->block].native)
        replay->native -= replay->trace->blocks[event->block].size;
    bool stream = replay->trace->blocks[event->block].stream;
    r = playback_give(&replay->playback, event->block, stream ? REPLAY_STREAM : 0);
    if (r != 0 || !replay->tells_frees)
        return r;
    match_block(replay->hints, replay->trace, &replay->named, event->block, &plan, &match);
    edge.rule = (int)match.rule;
    return match.rule == TRACE_NONE || match.small ? 0 : replay_edge(replay, edge);
}

static int replay_call(struct replay *replay, uint64_t number)
{
    const struct trace_call *call = &replay->trace->calls[number];
    struct edge edge = make_call(replay->trace, number);
    struct outcome picked; /* unused: the recorded run has reported it */

    for (uint32_t i = 0; i < FORMAT_CALL_BUFFERS; i++)
        if (call->buffer[i].block != TRACE_NONE && replay->playback.places[call->buffer[i].block])
            (void)pool_use(replay->playback.pool, replay->playback.places[call->buffer[i].block],
                    &edge, i, &picked);
    return replay_edge(replay, edge);
}

static int replay_event(struct replay *replay, uint32_t at)
{
    const struct trace_event *event = &replay->trace->events[at];

    if (event->kind == TRACE_ALLOC)
        return replay_alloc(replay, event);
    if (event->kind == TRACE_FREE)
        return replay_free(replay, event);
    if (event->kind == TRACE_CALL)
        return replay_call(replay, event->number);
    if (event->kind == TRACE_LAUNCH)
        return replay_edge(replay, make_launch(replay->trace, event));
    return is_edge(event) ? replay_edge(replay, make_edge(replay->trace, event)) : 0;
}

static int predict_replay_all(struct replay *replay)
{
    struct counting *counting = replay->playback.counting;
    const uint64_t *in_most = replay->beside->in_most;
    struct predict_held *held = &replay->held;
    int r = 0;

    for (uint32_t i = 0; i < replay->trace->event_count && r == 0; i++) {
        uint64_t native = replay->native;

        counting->reserved_high = counting->reserved;
        r = replay_event(replay, i);
        held->other = max_of(held->other, counting->reserved_high + max_of(native, replay->native));
        held->reserved =
                max_of(held->reserved, counting->reserved_high + (in_most ? in_most[i] : 0));
    }
    return r;
}

int predict_held(const struct trace *trace, const struct rule *rules, size_t count,
        const struct predict_beside *beside, struct predict_held *ret_held)
{
    struct replay replay = {
            .trace = trace, .beside = beside, .tells_frees = is_any_free(rules, count)};
    struct rule *live = rules_here(trace, rules, count);
    struct counting counting;
    struct pool_opts opts;

    make_live(live, count);
    int r = hint_new(live, count, &replay.hints);
    if (r < 0)
        goto free_rules;
    replay.named = sitekey_name(trace, replay.hints);
    pool_opts_init(&opts);
    r = playback_open(&replay.playback, &counting, &opts, replay.hints, trace->block_count);
    if (r == 0)
        r = predict_replay_all(&replay);
    *ret_held = replay.held;
    playback_close(&replay.playback);
    counting_done(&counting);
    sitekey_named_done(&replay.named);
    hint_free(replay.hints);
free_rules:
    free(live);
    return r;
}

int predict_reserved(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes)
{
    struct predict_beside beside = {.device = -1};
    struct predict_held held;
    int r = predict_held(trace, rules, count, &beside, &held);

    if (r == 0)
        *ret_bytes = held.reserved;
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "tools/predict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/hint.h"
#include "alloc/pool.h"
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

/*
 * A driver that has all the memory and all the time in the world: addresses are handed out once, everything that was
 * submitted has passed.
 */
struct counting {
    devptr_t next;
    uint64_t next_handle;
};

#define COUNTING_GRANULE ((uint64_t)2 << 20)
#define COUNTING_TOTAL   ((uint64_t)1 << 46)

static devptr_t take_range(struct counting *counting, uint64_t size, uint64_t align)
{
    devptr_t at = (counting->next + align - 1) & ~(align - 1);

    counting->next = at + size;
    return at;
}

static int counting_mem_alloc(
        void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    (void)context;
    (void)device;
    *ret_ptr = take_range(self, size, COUNTING_GRANULE);
    return 0;
}

static int counting_mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    (void)ptr;
    return 0;
}

static int counting_granularity(void *self, int device, uint64_t *ret_size)
{
    (void)self;
    (void)device;
    *ret_size = COUNTING_GRANULE;
    return 0;
}

static int counting_memory(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)device;
    *ret_total = COUNTING_TOTAL;
    *ret_free = COUNTING_TOTAL;
    return 0;
}

static int counting_reserve(
        void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)device;
    *ret_ptr = take_range(self, size, align ? align : COUNTING_GRANULE);
    return 0;
}

static int counting_range(void *self, devptr_t ptr, uint64_t size)
{
    (void)self;
    (void)ptr;
    (void)size;
    return 0;
}

static int counting_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    struct counting *counting = self;

    (void)device;
    (void)size;
    *ret_handle = ++counting->next_handle;
    return 0;
}

static int counting_release(void *self, uint64_t handle)
{
    (void)self;
    (void)handle;
    return 0;
}

static int counting_map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)self;
    (void)ptr;
    (void)size;
    (void)handle;
    return 0;
}

static int counting_access(void *self, enum heap_kind heap, uint64_t owner, int device,
        devptr_t ptr, uint64_t size, enum driver_access access)
{
    (void)self;
    (void)heap;
    (void)owner;
    (void)device;
    (void)ptr;
    (void)size;
    (void)access;
    return 0;
}

static int counting_fence(void *self, uint64_t *ret_fence)
{
    struct counting *counting = self;

    *ret_fence = ++counting->next_handle;
    return 0;
}

static int counting_stream_fence(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return counting_fence(self, ret_fence);
}

static int counting_passed(void *self, uint64_t fence)
{
    (void)self;
    (void)fence;
    return 0;
}

static int counting_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)timeout_ms;
    return counting_passed(self, fence);
}

static int counting_stream_wait(void *self, uint64_t stream, uint64_t fence)
{
    (void)stream;
    return counting_passed(self, fence);
}

static void counting_put(void *self, uint64_t fence)
{
    (void)counting_passed(self, fence);
}

static uint64_t counting_readers(void *self)
{
    (void)self;
    return 1;
}

static struct driver counting_driver(struct counting *counting)
{
    return (struct driver){
            .self = counting,
            .mem_alloc = counting_mem_alloc,
            .mem_free = counting_mem_free,
            .granularity = counting_granularity,
            .memory = counting_memory,
            .address_reserve = counting_reserve,
            .address_free = counting_range,
            .handle_create = counting_create,
            .handle_release = counting_release,
            .map = counting_map,
            .unmap = counting_range,
            .set_access = counting_access,
            .fence_record = counting_fence,
            .stream_record = counting_stream_fence,
            .fence_query = counting_passed,
            .fence_wait = counting_wait,
            .stream_wait_fence = counting_stream_wait,
            .fence_put = counting_put,
            .readers_snapshot = counting_readers,
            .readers_passed = counting_passed,
    };
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
    struct counting counting = {.next = (devptr_t)1 << 40};
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

/* SPDX-License-Identifier: MIT */
#include "tools/page/page_leaves.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* ---- where leaves begin ---- */

static bool page_leaves_counts(const struct trace_event *event)
{
    return trace_is_of_block(event) || event->kind == TRACE_RESERVED;
}

static size_t page_leaves_events(const struct page *page, uint32_t first, uint32_t behind)
{
    const struct trace_event *events = page->report->load.trace->events;
    size_t count = 0;

    for (uint32_t at = first; at < behind; at++)
        count += page_leaves_counts(&events[at]);
    return count;
}

/* How much of a leaf an event is. */
struct page_leaves_shares {
    double any, detailed;   /* beside and in the step of the peak */
    uint32_t first, behind; /* that step */
};

static struct page_leaves_shares page_leaves_shares_of(
        const struct page *page, struct model_window window, uint32_t peak)
{
    struct page_leaves_shares shares = {1, 1, 0, 0};
    size_t count = page_leaves_events(page, window.first, window.last);
    uint64_t step = peak == TRACE_NEVER ? UINT64_MAX : page_step_of(page, peak);

    if (count <= PAGE_LEAVES)
        return shares;
    if (step == UINT64_MAX) {
        shares.any = PAGE_LEAVES / (double)count;
        return shares;
    }
    shares.first = page->report->stated.rows[step].first;
    shares.behind = page->report->stated.rows[step].behind;
    size_t inside = page_leaves_events(page, shares.first, shares.behind);
    shares.any = PAGE_LEAVES / 2.0 / (double)count;
    shares.detailed = shares.any + PAGE_LEAVES / 2.0 / (double)(inside ? inside : 1);
    return shares;
}

/* ---- filling them ---- */

struct page_leaves_state {
    const struct page *page;
    struct page_leaves *leaves;
    uint64_t live, reserved;
};

static void page_leaves_begin(struct page_leaves_state *state, uint32_t at)
{
    struct page_leaves *leaves = state->leaves;
    uint64_t position = page_leaves_position(state->page, leaves, at);
    bool is_first = leaves->count == 0;
    uint64_t before = is_first ? leaves->whole.begin : leaves->list[leaves->count - 1].position;

    VEC_PUSH(leaves->list, leaves->count, leaves->room) = (struct page_leaf){.first = at,
            .behind = at,
            .moment = at,
            .position = max_of(position, before), /* neighbours' times may be out of order */
            .live = is_first ? state->live : 0,
            .reserved = state->reserved};
}

static void page_leaves_apply(struct page_leaves_state *state, uint32_t at)
{
    const struct trace *trace = state->page->report->load.trace;
    const struct trace_event *event = &trace->events[at];

    if (event->kind == TRACE_RESERVED)
        state->reserved = trace_value(trace, event);
    else if (trace_is_of_block(event))
        state->live += event->kind == TRACE_ALLOC ? trace_value(trace, event)
                                                  : 0 - trace_value(trace, event);
}

static void page_leaves_take(struct page_leaves_state *state, uint32_t at)
{
    const struct trace *trace = state->page->report->load.trace;
    const struct trace_event *event = &trace->events[at];

    if (state->leaves->count == 0)
        return;
    struct page_leaf *leaf = &state->leaves->list[state->leaves->count - 1];
    bool is_new = leaf->behind == leaf->first && state->leaves->count > 1;
    page_leaves_apply(state, at);
    leaf->behind = at + 1;
    leaf->reserved = max_of(leaf->reserved, state->reserved);
    if (trace_is_of_block(event))
        trace_sum_add(event->kind == TRACE_ALLOC ? &leaf->allocated : &leaf->freed,
                trace_value(trace, event));
    if (!is_new && state->live <= leaf->live)
        return;
    leaf->live = state->live;
    leaf->moment = at + 1;
}

static void page_leaves_fill(struct page_leaves_state *state, struct model_window window,
        const struct page_leaves_shares *shares)
{
    const struct trace_event *events = state->page->report->load.trace->events;
    const struct stepview *steps = &state->page->report->stated;
    size_t step = 0;
    double full = 1;

    for (uint32_t at = window.first; at < window.last; at++) {
        while (step < steps->row_count && step < PAGE_STEPS && steps->rows[step].first < at)
            step++;
        bool is_step =
                step < steps->row_count && step < PAGE_STEPS && steps->rows[step].first == at;
        if (is_step || state->leaves->count == 0
                || (full >= 1 && events[at].kind != TRACE_RESERVED)) {
            page_leaves_begin(state, at);
            full = 0;
        }
        page_leaves_take(state, at);
        if (page_leaves_counts(&events[at]))
            full += at >= shares->first && at < shares->behind ? shares->detailed : shares->any;
    }
}

struct page_leaves page_leaves_find(const struct page *page)
{
    const struct load *load = &page->report->load;
    struct model_window window = page->report->window;
    struct page_leaves leaves = {0};
    struct page_leaves_state state = {.page = page, .leaves = &leaves};

    /* the live blocks before that are unknown */
    if (window.first < load->complete_from)
        window.first = load->complete_from < window.last ? load->complete_from : window.last;
    leaves.whole = timeline_make(&(struct timeline_job){
            .trace = load->trace, .window = window, .axis = TIMELINE_BY_TIME, .bins = 1});
    struct page_leaves_shares shares = page_leaves_shares_of(page, window, leaves.whole.live.at);
    for (uint32_t at = 0; at < window.first; at++)
        page_leaves_apply(&state, at);
    page_leaves_fill(&state, window, &shares);
    for (size_t i = 0; i < leaves.count; i++)
        leaves.list[i].live = trace_live(load->trace, leaves.list[i].live);
    return leaves;
}

void page_leaves_done(struct page_leaves *leaves)
{
    timeline_done(&leaves->whole);
    free(leaves->list);
}

/* ---- looking them up ---- */

size_t page_leaves_behind(const struct page_leaves *leaves, uint32_t event)
{
    size_t low = 0;
    size_t high = leaves->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (leaves->list[mid].moment > event)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

size_t page_leaves_from(const struct page_leaves *leaves, uint32_t event)
{
    size_t low = 0;
    size_t high = leaves->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (leaves->list[mid].first >= event)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

uint64_t page_leaves_position(
        const struct page *page, const struct page_leaves *leaves, uint32_t event)
{
    const struct timeline *whole = &leaves->whole;
    uint64_t end = whole->begin + whole->width * whole->bin_count;
    uint64_t position;

    if (event >= page->report->window.last)
        return end;
    position = whole->axis == TIMELINE_BY_EVENT ? event
                                                : page->report->load.trace->events[event].time_ns;
    if (position < whole->begin)
        return whole->begin;
    return position < end ? position : end;
}

/* ---- columns ---- */

struct page_columns_key {
    uint64_t now, told; /* bytes: in the state, and in the column so far */
    size_t leaf;        /* of the last number in the column */
    bool is_touched;
};

struct page_columns_state {
    struct page_columns *columns;
    struct page_columns_key *keys;
    uint32_t *touched; /* keys that changed since the last moment */
    size_t touched_count, touched_room;
};

static void page_columns_apply(
        struct page_columns_state *state, const struct trace *trace, uint32_t at, uint32_t number)
{
    const struct trace_event *event = &trace->events[at];
    struct page_columns_key *key = &state->keys[number];
    uint64_t size = trace_value(trace, event);

    key->now += event->kind == TRACE_ALLOC ? size : 0 - size;
    if (key->is_touched)
        return;
    key->is_touched = true;
    VEC_PUSH(state->touched, state->touched_count, state->touched_room) = number;
}

static void page_columns_tell(struct page_columns_state *state, size_t leaf)
{
    for (size_t i = 0; i < state->touched_count; i++) {
        struct page_columns_key *key = &state->keys[state->touched[i]];
        struct page_column *column = &state->columns->list[state->touched[i]];

        key->is_touched = false;
        if (key->now == key->told)
            continue;
        page_pack_uint(&column->pack, leaf - key->leaf);
        page_pack_difference(&column->pack, key->now, key->told);
        column->most = max_of(column->most, key->now);
        key->told = key->now;
        key->leaf = leaf;
    }
    state->touched_count = 0;
}

struct page_columns page_columns_find(const struct page *page, const struct page_leaves *leaves,
        const uint32_t *keys, size_t count)
{
    const struct trace *trace = page->report->load.trace;
    struct page_columns columns = {vec_new(count, sizeof(*columns.list)), count};
    struct page_columns_state state = {
            .columns = &columns, .keys = vec_new(count, sizeof(*state.keys))};
    uint32_t at = 0;

    for (size_t leaf = 0; leaf < leaves->count; leaf++) {
        for (; at < leaves->list[leaf].moment; at++)
            if (trace_is_of_block(&trace->events[at]) && keys[trace->events[at].block] < count)
                page_columns_apply(&state, trace, at, keys[trace->events[at].block]);
        page_columns_tell(&state, leaf);
    }
    free(state.keys);
    free(state.touched);
    return columns;
}

void page_columns_done(struct page_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        page_pack_done(&columns->list[i].pack);
    free(columns->list);
}

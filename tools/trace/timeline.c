/* SPDX-License-Identifier: MIT */
#include "tools/trace/timeline.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* Live and reserved bytes between two events. */
struct level {
    const struct timeline_job *job;
    uint64_t live, reserved;
    uint64_t *of_key; /* NULL: no keys are wanted */
};

static struct level level_begin(const struct timeline_job *job)
{
    return (struct level){
            .job = job, .of_key = job->keys ? vec_new(job->key_count, sizeof(uint64_t)) : NULL};
}

static void level_apply(struct level *level, uint32_t at)
{
    const struct trace_event *event = &level->job->trace->events[at];
    bool is_birth = event->kind == TRACE_ALLOC;
    bool is_death = event->kind == TRACE_FREE && event->block != TRACE_NONE;

    if (event->kind == TRACE_RESERVED)
        level->reserved = trace_value(level->job->trace, event);
    if (!is_birth && !is_death)
        return;
    uint64_t size = trace_value(level->job->trace, event);
    uint64_t change = is_birth ? size : 0 - size;
    level->live += change;
    if (level->of_key && level->job->keys[event->block] < level->job->key_count)
        level->of_key[level->job->keys[event->block]] += change;
}

/* ---- which keys are the largest ---- */

struct held {
    uint64_t most;
    uint32_t key;
};

static const struct vec_key by_most[] = {VEC_DOWN(struct held, most), VEC_UP(struct held, key)};

/* Only an allocation makes a key larger; at the window's begin any of them may be the largest. */
static void raise_most(struct held *held, const struct level *level, uint32_t at)
{
    const struct trace_event *event = &level->job->trace->events[at];

    if (event->kind != TRACE_ALLOC || level->job->keys[event->block] >= level->job->key_count)
        return;
    uint32_t key = level->job->keys[event->block];
    held[key].most = max_of(held[key].most, level->of_key[key]);
}

static void find_tops(const struct timeline_job *job, struct timeline *timeline)
{
    struct level level = level_begin(job);
    struct held *held = vec_new(job->key_count, sizeof(*held));

    for (uint32_t at = 0; at < job->window.first; at++)
        level_apply(&level, at);
    for (size_t i = 0; i < job->key_count; i++)
        held[i] = (struct held){level.of_key[i], (uint32_t)i};
    for (uint32_t at = job->window.first; at < job->window.last; at++) {
        level_apply(&level, at);
        raise_most(held, &level, at);
    }
    VEC_SORT_BY(held, job->key_count, by_most);
    timeline->tops = vec_new(job->top, sizeof(*timeline->tops));
    while (timeline->top_count < job->top && timeline->top_count < job->key_count
            && held[timeline->top_count].most > 0) {
        timeline->tops[timeline->top_count] = held[timeline->top_count].key;
        timeline->top_count++;
    }
    free(held);
    free(level.of_key);
}

/* ---- the axis ---- */

/*
 * The first and the last time of an event in the window. Times of neighbours may be slightly out of
 * order.
 */
static void find_times(const struct timeline_job *job, uint64_t *ret_first, uint64_t *ret_last)
{
    *ret_first = 0;
    *ret_last = 0;
    for (uint32_t at = job->window.first; at < job->window.last; at++) {
        uint64_t time = job->trace->events[at].time_ns;

        if (time && (!*ret_first || time < *ret_first))
            *ret_first = time;
        *ret_last = max_of(*ret_last, time);
    }
}

/* Bins of equal width, at most the wanted number. */
static void lay_axis(const struct timeline_job *job, struct timeline *timeline)
{
    uint64_t first;
    uint64_t last;

    find_times(job, &first, &last);
    timeline->axis = job->axis;
    if (first == last)
        timeline->axis = TIMELINE_BY_EVENT;
    if (timeline->axis == TIMELINE_BY_EVENT) {
        first = job->window.first;
        last = job->window.last - 1;
    }
    timeline->begin = first;
    timeline->width = (last - first) / job->bins + 1;
    timeline->bin_count = (size_t)((last - first) / timeline->width) + 1;
    timeline->bins = vec_new(timeline->bin_count, sizeof(*timeline->bins));
    timeline->parts =
            vec_new(timeline->bin_count * (timeline->top_count + 1), sizeof(*timeline->parts));
}

/* ---- the bins ---- */

static void keep_parts(struct timeline *timeline, size_t bin, const struct level *level)
{
    uint64_t *parts = &timeline->parts[bin * (timeline->top_count + 1)];
    uint64_t rest = level->live;

    for (size_t i = 0; i < timeline->top_count; i++) {
        parts[i] = level->of_key[timeline->tops[i]];
        rest -= parts[i];
    }
    parts[timeline->top_count] = rest;
}

static void begin_bin(
        struct timeline *timeline, size_t bin, const struct level *level, uint32_t first)
{
    timeline->bins[bin] = (struct timeline_bin){.live = level->live,
            .reserved = level->reserved,
            .first = first,
            .behind = first,
            .at = TRACE_NEVER};
    keep_parts(timeline, bin, level);
}

static void raise_bin(struct timeline *timeline, size_t bin, const struct level *level, uint32_t at)
{
    struct timeline_bin *of = &timeline->bins[bin];

    of->behind = at + 1;
    of->reserved = max_of(of->reserved, level->reserved);
    if (level->live <= of->live)
        return;
    of->live = level->live;
    of->at = at;
    keep_parts(timeline, bin, level);
}

static void bound_bin(const struct timeline_job *job, struct timeline *timeline, size_t bin)
{
    struct timeline_bin *of = &timeline->bins[bin];
    uint64_t most = trace_live(job->trace, of->live);
    uint64_t *rest = &timeline->parts[bin * (timeline->top_count + 1) + timeline->top_count];

    *rest -= *rest < of->live - most ? *rest : of->live - most;
    of->live = most;
}

static void raise_peak(struct timeline_peak *peak, uint64_t bytes, uint32_t at)
{
    if (bytes > peak->bytes)
        *peak = (struct timeline_peak){bytes, at};
}

/* An event without a time has the place of the event before it. */
static size_t bin_at(
        const struct timeline *timeline, const struct trace_event *event, uint32_t at, size_t bin)
{
    uint64_t position = timeline->axis == TIMELINE_BY_EVENT ? at : event->time_ns;

    if (position < timeline->begin)
        return bin;
    size_t found = (size_t)((position - timeline->begin) / timeline->width);
    return found > bin ? found : bin;
}

static void timeline_fill(const struct timeline_job *job, struct timeline *timeline)
{
    struct level level = level_begin(job);
    size_t bin = 0;

    for (uint32_t at = 0; at < job->window.first; at++)
        level_apply(&level, at);
    timeline->live = (struct timeline_peak){level.live, TRACE_NEVER};
    timeline->reserved = (struct timeline_peak){level.reserved, TRACE_NEVER};
    begin_bin(timeline, 0, &level, job->window.first);
    for (uint32_t at = job->window.first; at < job->window.last; at++) {
        size_t next = bin_at(timeline, &job->trace->events[at], at, bin);

        while (bin < next)
            begin_bin(timeline, ++bin, &level, at);
        level_apply(&level, at);
        raise_bin(timeline, bin, &level, at);
        raise_peak(&timeline->live, level.live, at);
        raise_peak(&timeline->reserved, level.reserved, at);
    }
    while (++bin < timeline->bin_count)
        begin_bin(timeline, bin, &level, job->window.last);
    for (bin = 0; bin < timeline->bin_count; bin++)
        bound_bin(job, timeline, bin);
    timeline->live.bytes = trace_live(job->trace, timeline->live.bytes);
    free(level.of_key);
}

struct timeline timeline_make(const struct timeline_job *job)
{
    struct timeline timeline = {.axis = TIMELINE_BY_EVENT};

    if (job->window.first >= job->window.last)
        return timeline;
    if (job->keys)
        find_tops(job, &timeline);
    lay_axis(job, &timeline);
    timeline_fill(job, &timeline);
    return timeline;
}

void timeline_done(struct timeline *timeline)
{
    free(timeline->bins);
    free(timeline->tops);
    free(timeline->parts);
    *timeline = (struct timeline){0};
}

uint64_t timeline_part(const struct timeline *timeline, size_t bin, size_t top)
{
    return timeline->parts[bin * (timeline->top_count + 1) + top];
}

size_t timeline_bin_of(const struct timeline *timeline, uint32_t event)
{
    size_t low = 0, high = timeline->bin_count;

    while (low + 1 < high) {
        size_t mid = low + (high - low) / 2;
        if (timeline->bins[mid].first <= event)
            low = mid;
        else
            high = mid;
    }
    return low;
}

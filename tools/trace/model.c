/* SPDX-License-Identifier: MIT */
#include "tools/trace/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

struct model_window model_whole(const struct trace *trace)
{
    return (struct model_window){.last = (uint32_t)trace->event_count};
}

size_t model_name_length(const char *name, uint32_t *ret_instance)
{
    const char *open = strrchr(name, '(');
    const char *colon = strrchr(name, ':');
    bool in_brackets = open && open >= name + 2 && open[-1] == ' ';
    const char *first = in_brackets ? open + 1 : colon && colon > name ? colon + 1 : "";
    uint64_t number = 0;

    *ret_instance = TRACE_NONE;
    if (*first < '1' || *first > '9')
        return strlen(name);
    for (const char *c = first; in_brackets ? *c != ')' || c[1] : *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || number >= TRACE_NONE / 10)
            return strlen(name);
        number = 10 * number + (uint64_t)(*c - '0');
    }
    *ret_instance = (uint32_t)number - 1;
    return (size_t)((in_brackets ? open : first) - 1 - name);
}

static bool model_has_path(const struct trace_anchor *anchor, const char *name, size_t length)
{
    const char *last = strrchr(anchor->path, '/');

    if (strlen(anchor->path) == length && memcmp(anchor->path, name, length) == 0)
        return length > 0;
    return last && !memchr(name, '/', length) && strlen(last + 1) == length
            && memcmp(last + 1, name, length) == 0;
}

bool model_anchor_named(const struct trace_anchor *anchor, const char *name)
{
    uint32_t instance;
    size_t length = model_name_length(name, &instance);

    if (model_has_path(anchor, name, strlen(name)))
        return true;
    return anchor->instance == instance && model_has_path(anchor, name, length);
}

/* From the first enter of anchors of this name to their last exit; false: there are none. */
static bool model_find_named(
        const struct trace *trace, const char *name, struct model_window *ret_window)
{
    uint32_t end = (uint32_t)trace->event_count;
    struct model_window window = {.first = TRACE_NEVER};
    struct keytable paths = {0};
    size_t begun = 0; /* paths whose first instance is recorded, or the instance that is named */
    uint32_t instance;
    (void)model_name_length(name, &instance);

    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];
        if (!model_anchor_named(anchor, name))
            continue;
        /* Still open: the process ended inside it. */
        uint32_t behind = anchor->exit == TRACE_NEVER ? end : anchor->exit + 1;
        (void)keytable_at(&paths, keytable_text(anchor->path), 0);
        begun += (anchor->instance == 0 || instance != TRACE_NONE) && anchor->enter != TRACE_NEVER;
        window.first = anchor->enter < window.first ? anchor->enter : window.first;
        window.last = behind > window.last ? behind : window.last;
    }
    size_t found = keytable_count(&paths);
    if (begun < found)
        window.first = 0;
    keytable_done(&paths);
    *ret_window = window;
    return found > 0;
}

int model_find_window(const struct trace *trace, const char *from, const char *to,
        struct model_window *ret_window, const char **ret_missing)
{
    struct model_window begin = model_whole(trace);
    struct model_window end = begin;
    bool has_from = !from || model_find_named(trace, from, &begin);

    if (!has_from || (to && !model_find_named(trace, to, &end))) {
        *ret_missing = has_from ? to : from;
        return -ENOENT;
    }
    if (from && to && end.last <= begin.first)
        return -ERANGE;
    *ret_window = (struct model_window){begin.first, end.last, from || to};
    return 0;
}

static void raise_to(uint64_t *value, uint64_t candidate)
{
    if (candidate > *value)
        *value = candidate;
}

static bool model_is_in(struct model_window window, uint32_t at)
{
    return at >= window.first && at < window.last;
}

/* One way to count: the releases that count as frees, and the sums so far. */
struct count {
    const uint32_t *releases; /* NULL: the trace's own */
    bool live_only;
    struct model_second sums;
};

static uint32_t released_at(const struct count *count, const struct trace *trace, uint32_t id)
{
    const struct trace_block *block = &trace->blocks[id];

    if (count->releases)
        return count->releases[id];
    if (count->live_only && block->mode != HINT_LIVE)
        return TRACE_NEVER;
    return block->released;
}

static void second_born(struct model_second *sums, uint64_t size)
{
    sums->remaining += size;
    raise_to(&sums->max, sums->remaining);
}

static void second_gone(struct model_second *sums, const struct trace_block *block, bool released)
{
    sums->freed += block->size;
    sums->freed_count++;
    sums->remaining -= block->size;
    if (released) {
        sums->released += block->size;
        sums->released_count++;
    }
}

/* A block of the window; in the order of releases, the walk over the events meets each in time. */
struct release {
    uint32_t at, block;
};

static int compare_releases(const void *a, const void *b)
{
    const struct release *x = a;
    const struct release *y = b;

    return vec_order(x->at, y->at, vec_order(x->block, y->block, 0));
}

static struct release *sort_releases(const struct trace *trace, struct model_window window,
        const struct count *count, size_t *ret_count)
{
    struct release *list = NULL;
    size_t n = 0;
    size_t room = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        uint32_t at = released_at(count, trace, (uint32_t)i);
        const struct trace_block *block = &trace->blocks[i];
        /* A free before the release leaves nothing to release. */
        if (at == TRACE_NEVER || at >= block->died || !model_is_in(window, at)
                || !model_is_in(window, block->born))
            continue;
        VEC_PUSH(list, n, room) = (struct release){at, (uint32_t)i};
    }
    VEC_SORT(list, n, compare_releases);
    *ret_count = n;
    return list;
}

/* The sums of one way to count over the window. */
static struct model_second count_window(
        const struct trace *trace, struct model_window window, struct count count)
{
    size_t release_count;
    struct release *releases = sort_releases(trace, window, &count, &release_count);
    size_t next = 0;

    for (uint32_t at = window.first; at < window.last; at++) {
        const struct trace_event *event = &trace->events[at];
        if (event->kind == TRACE_ALLOC)
            second_born(&count.sums, trace->blocks[event->block].size);
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE) {
            const struct trace_block *block = &trace->blocks[event->block];
            if (model_is_in(window, block->born) && released_at(&count, trace, event->block) > at)
                second_gone(&count.sums, block, false);
        }
        for (; next < release_count && releases[next].at == at; next++)
            second_gone(&count.sums, &trace->blocks[releases[next].block], true);
    }
    free(releases);
    return count.sums;
}

static void figures_born(struct model_figures *f, uint64_t size, uint32_t at)
{
    f->allocated += size;
    f->allocated_count++;
    f->remaining += size;
    if (f->remaining > f->max) {
        f->max = f->remaining;
        f->max_at = at;
    }
}

/* Figures that ignore hints; every event adds to them. */
struct plain {
    struct model_figures *figures;
    uint64_t live, live_512, stored_512, reserved; /* of the process */
};

static uint64_t round_512(uint64_t size)
{
    return (size + 511) & ~(uint64_t)511;
}

/* The bytes of a block that count as stored: the driver's own blocks do not. */
static uint64_t model_stored(const struct trace_block *block)
{
    return block->native ? 0 : round_512(block->size);
}

static void plain_event(
        struct plain *plain, const struct trace *trace, struct model_window window, uint32_t at)
{
    const struct trace_event *event = &trace->events[at];
    struct model_figures *f = plain->figures;
    bool inside = at >= window.first;

    if (event->kind == TRACE_RESERVED)
        plain->reserved = trace_value(trace, event);
    /* A block is released once, and never after its free: from then on it is only an address. */
    if (event->kind == TRACE_RELEASE && event->block != TRACE_NONE
            && trace_value(trace, event) == HINT_LIVE)
        plain->stored_512 -= model_stored(&trace->blocks[event->block]);
    if (event->kind == TRACE_ALLOC) {
        plain->live += trace_value(trace, event);
        plain->live_512 += round_512(trace_value(trace, event));
        plain->stored_512 += model_stored(&trace->blocks[event->block]);
        if (inside)
            figures_born(f, trace_value(trace, event), at);
    }
    if (event->kind == TRACE_FREE && event->block != TRACE_NONE) {
        plain->live -= trace_value(trace, event);
        plain->live_512 -= round_512(trace_value(trace, event));
        if (trace->blocks[event->block].mode != HINT_LIVE)
            plain->stored_512 -= model_stored(&trace->blocks[event->block]);
        if (inside && trace->blocks[event->block].born >= window.first) {
            f->freed += trace_value(trace, event);
            f->freed_count++;
            f->remaining -= trace_value(trace, event);
        } else if (inside) {
            f->outside_freed += trace_value(trace, event);
            f->outside_freed_count++;
        }
    }
    if (inside) {
        raise_to(&f->peak_live, plain->live);
        raise_to(&f->peak_live_512, plain->live_512);
        raise_to(&f->peak_stored_512, plain->stored_512);
        raise_to(&f->peak_reserved, plain->reserved);
    }
}

static void bound_by_run(const struct trace *trace, struct model_figures *f)
{
    f->max = trace_live(trace, f->max);
    f->peak_live = trace_live(trace, f->peak_live);
    f->hinted.max = trace_live(trace, f->hinted.max);
    f->would.max = trace_live(trace, f->would.max);
}

void model_figure(const struct trace *trace, struct model_window window, const uint32_t *releases,
        struct model_figures *ret_figures)
{
    struct model_figures figures = {.max_at = TRACE_NEVER};
    struct plain plain = {.figures = &figures};

    for (uint32_t at = 0; at < window.last; at++)
        plain_event(&plain, trace, window, at);
    figures.hinted =
            count_window(trace, window, (struct count){.releases = releases, .live_only = true});
    figures.would = count_window(trace, window, (struct count){.releases = releases});
    bound_by_run(trace, &figures);
    *ret_figures = figures;
}

uint64_t model_max(const struct trace *trace, struct model_window window, const uint32_t *releases)
{
    return count_window(trace, window, (struct count){.releases = releases}).max;
}

struct anchor_walk {
    const struct trace *trace;
    struct model_window window;
    struct model_figures *figures;
};

static void anchor_birth(struct anchor_walk *walk, uint32_t id, uint32_t at)
{
    const struct trace_block *block = &walk->trace->blocks[id];

    for (uint32_t a = block->anchor; a != TRACE_NONE; a = walk->trace->anchors[a].parent) {
        struct model_figures *f = &walk->figures[a];
        figures_born(f, block->size, at);
        second_born(&f->hinted, block->size);
        second_born(&f->would, block->size);
    }
}

/* Freed by the program, or released by a hint. */
static void anchor_gone(struct anchor_walk *walk, uint32_t id, uint32_t at, bool released)
{
    const struct trace_block *block = &walk->trace->blocks[id];
    bool would = released || block->released > at;
    bool is_live = block->mode == HINT_LIVE;

    if (!model_is_in(walk->window, block->born))
        return;
    for (uint32_t a = block->anchor; a != TRACE_NONE; a = walk->trace->anchors[a].parent) {
        struct model_figures *f = &walk->figures[a];
        if (at < walk->trace->anchors[a].enter || at > walk->trace->anchors[a].exit)
            continue;
        if (!released) {
            f->freed += block->size;
            f->freed_count++;
            f->remaining -= block->size;
        }
        if (would)
            second_gone(&f->would, block, released);
        if (released ? is_live : would || !is_live)
            second_gone(&f->hinted, block, released);
    }
}

/*
 * A value over time, to query its maximum since a moment: a value that a later one exceeds is never
 * an answer. So the kept values fall from begin to end, and each event enters and leaves once.
 */
struct course {
    struct step {
        uint64_t value;
        uint32_t at;
    } * steps;
    size_t count, room;
};

static void course_add(struct course *course, uint32_t at, uint64_t value)
{
    while (course->count > 0 && course->steps[course->count - 1].value <= value)
        course->count--;
    VEC_PUSH(course->steps, course->count, course->room) = (struct step){value, at};
}

static uint64_t course_max(const struct course *course, uint32_t since)
{
    size_t low = 0, high = course->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (course->steps[mid].at < since)
            low = mid + 1;
        else
            high = mid;
    }
    return low < course->count ? course->steps[low].value : 0;
}

static void peaks_since_enter(const struct anchor_walk *walk, uint32_t anchor,
        const struct course *live, const struct course *reserved)
{
    uint32_t enter = walk->trace->anchors[anchor].enter;

    if (enter == TRACE_NEVER || walk->trace->events[enter].kind != TRACE_ENTER)
        return;
    walk->figures[anchor].peak_live = course_max(live, enter);
    walk->figures[anchor].peak_reserved = course_max(reserved, enter);
}

/* Peaks of the process while each instance was open, in the window; the root is always open. */
static void anchor_peaks(const struct anchor_walk *walk)
{
    const struct trace *trace = walk->trace;
    struct course live = {0}, reserved = {0};
    uint64_t live_now = 0, reserved_now = 0;

    for (uint32_t at = 0; at < walk->window.last; at++) {
        const struct trace_event *event = &trace->events[at];
        if (event->kind == TRACE_ALLOC)
            live_now += trace_value(trace, event);
        if (event->kind == TRACE_FREE)
            live_now -= trace_value(trace, event);
        if (event->kind == TRACE_RESERVED)
            reserved_now = trace_value(trace, event);
        if (at < walk->window.first)
            continue;
        course_add(&live, at, live_now);
        course_add(&reserved, at, reserved_now);
        if (event->kind == TRACE_EXIT && trace->anchors[event->anchor].exit == at)
            peaks_since_enter(walk, event->anchor, &live, &reserved);
    }
    for (uint32_t i = 1; i < trace->anchor_count; i++)
        if (trace->anchors[i].exit >= walk->window.last)
            peaks_since_enter(walk, i, &live, &reserved);
    walk->figures[0].peak_live = course_max(&live, 0);
    walk->figures[0].peak_reserved = course_max(&reserved, 0);
    free(live.steps);
    free(reserved.steps);
}

/*
 * Frees, while an instance is open, of blocks born before it: all frees of blocks born before its
 * enter, as counted at its exit, less those before its enter. The sums over blocks that were born
 * before a given one are in a binary indexed tree.
 */
struct outside {
    struct trace_sum *tree;   /* by block, from 1 */
    struct trace_sum *before; /* by anchor: frees up to its enter */
    uint32_t *born;           /* by anchor: blocks born up to its enter */
    struct trace_sum freed;
    size_t count; /* of blocks */
};

static void outside_free(struct outside *outside, uint32_t block, uint64_t size)
{
    trace_sum_add(&outside->freed, size);
    for (size_t i = (size_t)block + 1; i <= outside->count; i += i & (0 - i))
        trace_sum_add(&outside->tree[i], size);
}

static void outside_settle(
        const struct outside *outside, const struct anchor_walk *walk, uint32_t anchor)
{
    struct model_figures *f = &walk->figures[anchor];

    for (size_t i = outside->born[anchor]; i > 0; i -= i & (0 - i)) {
        f->outside_freed += outside->tree[i].bytes;
        f->outside_freed_count += outside->tree[i].count;
    }
    f->outside_freed -= outside->before[anchor].bytes;
    f->outside_freed_count -= outside->before[anchor].count;
}

static void anchor_outside(const struct anchor_walk *walk)
{
    const struct trace *trace = walk->trace;
    struct outside outside = {.tree = vec_new(trace->block_count + 1, sizeof(struct trace_sum)),
            .before = vec_new(trace->anchor_count, sizeof(struct trace_sum)),
            .born = vec_new(trace->anchor_count, sizeof(uint32_t)),
            .count = trace->block_count};
    uint32_t born = 0;

    for (uint32_t at = 0; at < walk->window.last; at++) {
        const struct trace_event *event = &trace->events[at];
        const struct trace_anchor *anchor = &trace->anchors[event->anchor];

        if (event->kind == TRACE_ALLOC)
            born = event->block + 1;
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE && at >= walk->window.first)
            outside_free(&outside, event->block, trace->blocks[event->block].size);
        if (event->kind == TRACE_ENTER && anchor->enter == at) {
            outside.before[event->anchor] = outside.freed;
            outside.born[event->anchor] = born;
        }
        if (event->kind == TRACE_EXIT && anchor->exit == at)
            outside_settle(&outside, walk, event->anchor);
    }
    for (uint32_t i = 1; i < trace->anchor_count; i++)
        if (trace->anchors[i].exit >= walk->window.last
                && trace->anchors[i].enter < walk->window.last)
            outside_settle(&outside, walk, i);
    free(outside.tree);
    free(outside.before);
    free(outside.born);
}

struct model_figures *model_figure_anchors(const struct trace *trace, struct model_window window)
{
    struct count all = {0};
    struct anchor_walk walk = {.trace = trace, .window = window};
    size_t release_count;
    struct release *releases = sort_releases(trace, window, &all, &release_count);
    size_t next = 0;

    walk.figures = vec_new(trace->anchor_count, sizeof(*walk.figures));
    for (size_t i = 0; i < trace->anchor_count; i++)
        walk.figures[i].max_at = TRACE_NEVER;
    for (uint32_t at = window.first; at < window.last; at++) {
        const struct trace_event *event = &trace->events[at];
        if (event->kind == TRACE_ALLOC)
            anchor_birth(&walk, event->block, at);
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE)
            anchor_gone(&walk, event->block, at, false);
        for (; next < release_count && releases[next].at == at; next++)
            anchor_gone(&walk, releases[next].block, at, true);
    }
    anchor_peaks(&walk);
    anchor_outside(&walk);
    for (size_t i = 0; i < trace->anchor_count; i++)
        bound_by_run(trace, &walk.figures[i]);
    free(releases);
    return walk.figures;
}

int model_by_bytes(const void *a, const void *b)
{
    const struct model_live *x = a;
    const struct model_live *y = b;

    return vec_order(y->bytes, x->bytes, vec_order(x->stack, y->stack, 0));
}

struct model_live *model_live_by_stack(
        const struct trace *trace, int device, uint32_t at, size_t *ret_count)
{
    struct model_live *rows = vec_new(trace->stack_count, sizeof(*rows));
    size_t count = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->device != device || block->born >= at || block->died < at)
            continue;
        struct model_live *row = &rows[block->stack];
        row->bytes += block->size;
        row->count++;
    }
    for (size_t i = 0; i < trace->stack_count; i++) {
        if (rows[i].count == 0)
            continue;
        rows[count] = rows[i];
        rows[count++].stack = (uint32_t)i;
    }
    VEC_SORT(rows, count, model_by_bytes);
    *ret_count = count;
    return rows;
}

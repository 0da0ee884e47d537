/* SPDX-License-Identifier: MIT */
#include "tools/page_parts.h"

#include <stdlib.h>

#include "tools/evictsets.h"
#include "tracker/hintfile.h"

static void json_moved(struct json *json, const struct format_evict *what)
{
    page_json_sum(json, "in", (struct trace_sum){.bytes = what->moved_in, .count = what->count_in});
    page_json_sum(
            json, "out", (struct trace_sum){.bytes = what->moved_out, .count = what->count_out});
    json_uint(json, "dropped_bytes", what->dropped);
    json_uint(json, "in_at_most_bytes", what->in_bytes_high);
    json_uint(json, "wait_count", what->late);
    json_uint(json, "layout_ns", what->layout_ns);
    json_uint(json, "evict_ns", what->evict_ns);
    json_uint(json, "stall_ns", what->stall_ns);
}

static void json_move(struct json *json, const struct evictsets_set *set, size_t at)
{
    const struct format_evict *what = &set->step[at].what;

    json_begin(json, NULL, '{');
    json_uint(json, "step", what->step);
    json_text(json, "label", evictsets_label(set, at));
    json_moved(json, what);
    json_known(json, "in_at_least_bytes", evictsets_bound(what));
    page_json_sum(json, "blocks", (struct trace_sum){.bytes = what->bytes, .count = what->units});
    json_known(json, "cap_bytes", what->cap ? what->cap : UINT64_MAX);
    json_end(json, '}');
}

/* As many of the first as of the last ones. */
static void json_moves(struct json *json, const struct evictsets_set *set)
{
    size_t half = PAGE_MOVES / 2;

    json_uint(json, "step_count", set->count);
    json_begin(json, "steps", '[');
    for (size_t i = 0; i < set->count; i++)
        if (set->count <= PAGE_MOVES || i < half || i >= set->count - half)
            json_move(json, set, i);
    json_end(json, ']');
}

static void json_kept(struct page *page, const struct evictsets_set *set)
{
    size_t count;
    struct evictsets_kept *kept = evictsets_group_kept(&page->report->load, set, &count);
    size_t shown = count < PAGE_KEEPERS ? count : PAGE_KEEPERS;
    char **titles = title_rows(page->report->symbols, TITLE_STACKS(kept), shown);
    struct json *json = &page->json;

    json_uint(json, "kept_count", count);
    json_begin(json, "kept", '[');
    for (size_t i = 0; i < shown; i++) {
        json_begin(json, NULL, '{');
        page_json_name(json, "name", titles[i]);
        page_json_stack(page, "stack", kept[i].stack);
        json_text(json, "why", evictsets_why_text(kept[i].why));
        page_json_sum(json, "blocks", kept[i].sum);
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, shown);
    free(kept);
}

/* Calls that were not made: how many, and the one that needed most. */
static void json_shorts(struct page *page, const struct evictsets_set *set)
{
    const struct read_capture *capture = page->report->load.capture;
    uint64_t count;
    const struct read_short *most = evictsets_most_short(capture, set, &count);
    struct json *json = &page->json;

    json_uint(json, "not_made_count", count);
    if (!most)
        return;
    json_begin(json, "not_made", '{');
    json_uint(json, "needed_bytes", most->needed);
    json_uint(json, "room_bytes", most->room);
    page_json_name(json, "anchor", *most->path ? most->path : NULL);
    json_uint(json, "instance", most->instance);
    json_end(json, '}');
}

static void json_set(struct page *page, const struct evictsets_set *set)
{
    const struct load_hint *hint = &page->report->load.hints[set->rule];
    const struct format_evict *median = evictsets_median(set);
    const struct format_evict sum = evictsets_sum(set);
    struct json *json = &page->json;

    json_begin(json, NULL, '{');
    page_json_name(json, "id", hint->id);
    json_text(json, "mode", hintwords_mode(hint->mode));
    json_int(json, "device", set->device);
    json_bool(json, "on_paper", evictsets_is_paper(set));
    json_known(json, "median_step", median ? median->step : UINT64_MAX);
    json_begin(json, "total", '{');
    json_moved(json, &sum);
    json_end(json, '}');
    json_moves(json, set);
    json_kept(page, set);
    json_shorts(page, set);
    json_end(json, '}');
}

void page_evict_json(struct page *page)
{
    struct evictsets sets = evictsets_find(page->report->load.capture);

    json_uint(&page->json, "eviction_count", sets.count);
    json_begin(&page->json, "eviction", '[');
    for (size_t i = 0; i < sets.count && i < PAGE_SETS; i++)
        json_set(page, &sets.at[i]);
    json_end(&page->json, ']');
    evictsets_done(&sets);
}

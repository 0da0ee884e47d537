/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/trace/timeline.h"

/* A criterion by which the bytes of a bin are split. */
struct grouping {
    const char *by;
    uint32_t *keys;     /* per block */
    const char **names; /* per key */
    size_t count;
    bool is_site;
};

static void grouping_done(struct grouping *grouping)
{
    free(grouping->keys);
    free((void *)grouping->names);
}

static struct grouping page_timeline_by_site(const struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    struct grouping grouping = {.by = "site",
            .keys = vec_new(trace->block_count, sizeof(uint32_t)),
            .names = (const char **)vec_new(page->sites.count, sizeof(char *)),
            .count = page->sites.count - 1, /* the last one stands for all others */
            .is_site = true};

    for (size_t i = 0; i < grouping.count; i++)
        grouping.names[i] = page->sites.list[i].name;
    for (size_t i = 0; i < trace->block_count; i++)
        grouping.keys[i] = page->sites.of_stack[trace->blocks[i].stack];
    return grouping;
}

static struct grouping by_library(const struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    struct grouping grouping = {
            .by = "library", .keys = vec_new(trace->block_count, sizeof(uint32_t))};
    uint32_t *of_stack = vec_new(trace->stack_count, sizeof(*of_stack));
    struct keytable index = {0};
    size_t room = 0;

    for (size_t i = 0; i < trace->stack_count; i++)
        of_stack[i] = TRACE_NONE;
    for (size_t i = 0; i < trace->block_count; i++) {
        uint32_t *library = &of_stack[trace->blocks[i].stack];

        if (*library == TRACE_NONE) {
            const char *name = sources_library_of(page->report->symbols, trace->blocks[i].stack);

            *library = keytable_number(&index, keytable_text(name));
            if (*library == grouping.count)
                VEC_PUSH(grouping.names, grouping.count, room) = name;
        }
        grouping.keys[i] = *library;
    }
    keytable_done(&index);
    free(of_stack);
    return grouping;
}

static struct grouping by_class(const struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    struct grouping grouping = {.by = "class",
            .keys = vec_new(trace->block_count, sizeof(uint32_t)),
            .names = (const char **)vec_new(MEMCLASS_COUNT, sizeof(char *)),
            .count = MEMCLASS_COUNT};

    for (unsigned i = 0; i < MEMCLASS_COUNT; i++)
        grouping.names[i] = sources_class_name((enum memclass)i);
    for (size_t i = 0; i < trace->block_count; i++) {
        unsigned memclass = (unsigned)trace->blocks[i].memclass;

        grouping.keys[i] = memclass < MEMCLASS_COUNT ? memclass : 0;
    }
    return grouping;
}

/* ---- JSON ---- */

static struct timeline bins_of(const struct page *page, const struct grouping *grouping)
{
    const struct load *load = &page->report->load;
    struct model_window window = page->report->window;

    /* the live blocks before that are unknown */
    if (window.first < load->complete_from)
        window.first = load->complete_from < window.last ? load->complete_from : window.last;
    return timeline_make(&(struct timeline_job){.trace = load->trace,
            .window = window,
            .axis = TIMELINE_BY_TIME,
            .bins = PAGE_BINS,
            .keys = grouping ? grouping->keys : NULL,
            .key_count = grouping ? grouping->count : 0,
            .top = PAGE_TOP});
}

static void json_parts(struct json *json, const struct timeline *timeline, size_t top)
{
    json_begin(json, NULL, '[');
    for (size_t bin = 0; bin < timeline->bin_count; bin++)
        json_uint(json, NULL, timeline_part(timeline, bin, top));
    json_end(json, ']');
}

/* The names of the largest keys with their bytes in each bin, then the bytes of all other keys. */
static void json_grouping(struct page *page, const struct grouping *grouping)
{
    struct json *json = &page->json;
    struct timeline timeline = bins_of(page, grouping);

    json_begin(json, NULL, '{');
    json_text(json, "by", grouping->by);
    json_begin(json, "names", '[');
    for (size_t i = 0; grouping->names && i < timeline.top_count; i++)
        json_text(json, NULL, grouping->names[timeline.tops[i]]);
    json_end(json, ']');
    if (grouping->is_site) {
        json_begin(json, "sites", '[');
        for (size_t i = 0; i < timeline.top_count; i++)
            json_uint(json, NULL, timeline.tops[i]);
        json_end(json, ']');
    }
    json_begin(json, "parts", '[');
    for (size_t i = 0; timeline.bin_count && i <= timeline.top_count; i++)
        json_parts(json, &timeline, i);
    json_end(json, ']');
    json_end(json, '}');
    timeline_done(&timeline);
}

/* The position of an event on the axis; an event that never occurs is at its end. */
static uint64_t position_of(
        const struct page *page, const struct timeline *timeline, uint32_t event)
{
    const struct trace *trace = page->report->load.trace;
    uint64_t end = timeline->begin + timeline->width * timeline->bin_count;
    uint64_t position;

    if (event >= page->report->window.last)
        return end;
    position = timeline->axis == TIMELINE_BY_EVENT ? event : trace->events[event].time_ns;
    if (position < timeline->begin)
        return timeline->begin;
    return position < end ? position : end;
}

static void json_steps(struct page *page, const struct timeline *timeline)
{
    const struct stepview *steps = &page->report->stated;

    json_begin(&page->json, "steps", '[');
    for (size_t i = 0; i < steps->row_count && i < PAGE_STEPS; i++) {
        const struct stepview_row *row = &steps->rows[i];

        json_begin(&page->json, NULL, '[');
        json_uint(&page->json, NULL, position_of(page, timeline, row->first));
        json_uint(&page->json, NULL, position_of(page, timeline, row->behind - 1));
        json_end(&page->json, ']');
    }
    json_end(&page->json, ']');
}

/* An anchor's bar on the axis. */
struct bar {
    uint64_t begin, end;
    uint32_t anchor;
    unsigned depth;
};

static int longest_first(const void *a, const void *b)
{
    const struct bar *x = a;
    const struct bar *y = b;

    if (x->end - x->begin != y->end - y->begin)
        return x->end - x->begin < y->end - y->begin ? 1 : -1;
    return (x->anchor > y->anchor) - (x->anchor < y->anchor);
}

static unsigned depth_of(const struct trace *trace, uint32_t anchor)
{
    unsigned depth = 0;

    while (depth <= PAGE_TOP && trace->anchors[anchor].parent != 0
            && trace->anchors[anchor].parent != TRACE_NONE) {
        anchor = trace->anchors[anchor].parent;
        depth++;
    }
    return depth;
}

static void json_bars(struct page *page, const struct timeline *timeline)
{
    const struct trace *trace = page->report->load.trace;
    struct json *json = &page->json;
    struct bar *bars = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];

        if (report_has_anchor(page->report, i))
            VEC_PUSH(bars, count, room) = (struct bar){position_of(page, timeline, anchor->enter),
                    position_of(page, timeline, anchor->exit), (uint32_t)i,
                    depth_of(trace, (uint32_t)i)};
    }
    VEC_SORT(bars, count, longest_first);
    json_begin(json, "bars", '[');
    for (size_t i = 0; i < count && i < PAGE_BARS; i++) {
        char *name = figures_anchor_text(&trace->anchors[bars[i].anchor]);

        json_begin(json, NULL, '[');
        json_uint(json, NULL, bars[i].begin);
        json_uint(json, NULL, bars[i].end < bars[i].begin ? bars[i].begin : bars[i].end);
        json_uint(json, NULL, bars[i].depth);
        json_text(json, NULL, name);
        json_end(json, ']');
        free(name);
    }
    json_end(json, ']');
    json_uint(json, "bars_left_out", count > PAGE_BARS ? count - PAGE_BARS : 0);
    free(bars);
}

/* `most`: of the run, since the record may have lost the highest moment. */
static void json_peak(struct page *page, const struct timeline *timeline, const char *key,
        const struct timeline_peak *peak, uint64_t most)
{
    struct json *json = &page->json;

    json_begin(json, key, '{');
    json_known(json, "bytes",
            report_lacks_events(page->report) && peak->bytes != most ? UINT64_MAX : peak->bytes);
    json_uint(json, "at",
            peak->at == TRACE_NEVER ? timeline->begin : position_of(page, timeline, peak->at));
    json_end(json, '}');
}

static void json_failures_at(struct page *page, const struct timeline *timeline)
{
    const struct load *load = &page->report->load;

    json_begin(&page->json, "failures", '[');
    for (size_t i = 0; i < load->oom_count && i < PAGE_FAILURES; i++)
        if (load->ooms[i].at != TRACE_NEVER && load->ooms[i].at >= page->report->window.first
                && load->ooms[i].at < page->report->window.last)
            json_uint(&page->json, NULL, position_of(page, timeline, load->ooms[i].at));
    json_end(&page->json, ']');
}

/*
 * The anchor of the block that brought a bin to its live bytes; 0: none, or they are carried over.
 */
static uint32_t page_timeline_anchor_of(const struct page *page, const struct timeline_bin *bin)
{
    const struct trace *trace = page->report->load.trace;
    uint32_t block = bin->at == TRACE_NEVER ? TRACE_NONE : trace->events[bin->at].block;

    return block == TRACE_NONE ? 0 : trace->blocks[block].anchor;
}

/* The moment of a bin's live bytes: position, anchor (its index in the list of names), step. */
static void json_reached(struct page *page, const struct timeline *timeline)
{
    struct json *json = &page->json;
    struct keytable index = {0};
    uint32_t *names = vec_new(timeline->bin_count, sizeof(*names));
    size_t count = 0;

    json_begin(json, "reached", '[');
    for (size_t i = 0; i < timeline->bin_count; i++) {
        const struct timeline_bin *bin = &timeline->bins[i];
        uint32_t anchor = page_timeline_anchor_of(page, bin);
        uint32_t name = anchor ? keytable_number(&index, (struct key){anchor, 0, 0}) : TRACE_NONE;

        if (anchor && name == count)
            names[count++] = anchor;
        json_begin(json, NULL, '[');
        if (bin->at != TRACE_NEVER) {
            json_uint(json, NULL, position_of(page, timeline, bin->at));
            json_known(json, NULL, anchor ? name : UINT64_MAX);
            json_known(json, NULL, page_step_of(page, bin->at));
        }
        json_end(json, ']');
    }
    json_end(json, ']');
    json_begin(json, "anchors", '[');
    for (size_t i = 0; i < count; i++)
        page_json_anchor(page, NULL, names[i]);
    json_end(json, ']');
    keytable_done(&index);
    free(names);
}

static void page_timeline_json_totals(struct page *page, const struct timeline *timeline)
{
    struct json *json = &page->json;

    json_begin(json, "live", '[');
    for (size_t i = 0; i < timeline->bin_count; i++)
        json_uint(json, NULL, timeline->bins[i].live);
    json_end(json, ']');
    json_begin(json, "reserved", '[');
    for (size_t i = 0; i < timeline->bin_count; i++)
        json_uint(json, NULL, timeline->bins[i].reserved);
    json_end(json, ']');
}

void page_timeline_json(struct page *page)
{
    struct timeline timeline = bins_of(page, NULL);
    struct grouping groupings[] = {page_timeline_by_site(page), by_library(page), by_class(page)};
    struct json *json = &page->json;

    json_begin(json, "timeline", '{');
    json_text(json, "axis", timeline.axis == TIMELINE_BY_TIME ? "time" : "event");
    json_uint(json, "begin", timeline.begin);
    json_uint(json, "width", timeline.width);
    page_timeline_json_totals(page, &timeline);
    json_reached(page, &timeline);
    json_peak(page, &timeline, "peak_live", &timeline.live, page->report->figures.peak_live);
    json_peak(page, &timeline, "peak_reserved", &timeline.reserved,
            page->report->figures.peak_reserved);
    json_failures_at(page, &timeline);
    json_steps(page, &timeline);
    json_bars(page, &timeline);
    json_begin(json, "groupings", '[');
    for (size_t i = 0; i < sizeof(groupings) / sizeof(*groupings); i++) {
        json_grouping(page, &groupings[i]);
        grouping_done(&groupings[i]);
    }
    json_end(json, ']');
    json_end(json, '}');
    timeline_done(&timeline);
}

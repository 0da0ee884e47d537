/* SPDX-License-Identifier: MIT */
#include "tools/page/page_blocks.h"
#include "tools/page/page_groupings.h"
#include "tools/page/page_leaves.h"

#include <stdlib.h>

#include "tools/base/vec.h"

#define PAGE_ANCHOR_NAMES 2000u
#define DEEPEST_BAR       7u

/* Lists of numbers, one for each step. */
enum step_list {
    STEP_BEGIN,  /* position, since the begin of the step before */
    STEP_LENGTH, /* to its last event */
    STEP_FIRST,  /* leaf, likewise */
    STEP_LEAVES, /* how many */
    STEP_LISTS,
};

static void json_steps(struct page *page, const struct page_leaves *leaves)
{
    static const char *const keys[STEP_LISTS] = {"begin", "length", "first", "leaves"};
    const struct stepview *steps = &page->report->stated;
    size_t count = steps->row_count < PAGE_STEPS ? steps->row_count : PAGE_STEPS;
    struct page_pack lists[STEP_LISTS] = {0};
    uint64_t begin = leaves->whole.begin;
    size_t first = 0;

    for (size_t i = 0; i < count; i++) {
        const struct stepview_row *row = &steps->rows[i];
        uint64_t next = page_leaves_position(page, leaves, row->first);
        uint64_t last = page_leaves_position(page, leaves, row->behind - 1);
        size_t leaf = page_leaves_from(leaves, row->first);

        page_pack_difference(&lists[STEP_BEGIN], next, begin);
        page_pack_uint(&lists[STEP_LENGTH], last > next ? last - next : 0);
        page_pack_difference(&lists[STEP_FIRST], leaf, first);
        page_pack_uint(&lists[STEP_LEAVES], page_leaves_from(leaves, row->behind) - leaf);
        begin = next;
        first = leaf;
    }
    json_begin(&page->json, "steps", '{');
    json_uint(&page->json, "count", count);
    for (unsigned i = 0; i < STEP_LISTS; i++) {
        page_pack_json(&page->json, keys[i], &lists[i]);
        page_pack_done(&lists[i]);
    }
    json_end(&page->json, '}');
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

    while (depth <= DEEPEST_BAR && trace->anchors[anchor].parent != 0
            && trace->anchors[anchor].parent != TRACE_NONE) {
        anchor = trace->anchors[anchor].parent;
        depth++;
    }
    return depth;
}

static void json_bars(struct page *page, const struct page_leaves *leaves)
{
    const struct trace *trace = page->report->load.trace;
    struct json *json = &page->json;
    struct bar *bars = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];

        if (report_has_anchor(page->report, i))
            VEC_PUSH(bars, count, room) =
                    (struct bar){page_leaves_position(page, leaves, anchor->enter),
                            page_leaves_position(page, leaves, anchor->exit), (uint32_t)i,
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
static void json_peak(struct page *page, const struct page_leaves *leaves, const char *key,
        const struct timeline_peak *peak, uint64_t most)
{
    struct json *json = &page->json;

    json_begin(json, key, '{');
    json_known(json, "bytes",
            report_lacks_events(page->report) && peak->bytes != most ? UINT64_MAX : peak->bytes);
    json_uint(json, "at",
            peak->at == TRACE_NEVER ? leaves->whole.begin
                                    : page_leaves_position(page, leaves, peak->at));
    json_end(json, '}');
}

static void json_failures_at(struct page *page, const struct page_leaves *leaves)
{
    const struct load *load = &page->report->load;

    json_begin(&page->json, "failures", '[');
    for (size_t i = 0; i < load->oom_count && i < PAGE_FAILURES; i++)
        if (load->ooms[i].at != TRACE_NEVER && load->ooms[i].at >= page->report->window.first
                && load->ooms[i].at < page->report->window.last)
            json_uint(&page->json, NULL, page_leaves_position(page, leaves, load->ooms[i].at));
    json_end(&page->json, ']');
}

/* Anchors with a name in the list `anchors`. */
struct anchor_names {
    struct keytable index;
    uint32_t list[PAGE_ANCHOR_NAMES];
    size_t count;
};

/* From 1; 0: the list is full. */
static uint32_t anchor_number(void *context, uint32_t anchor)
{
    struct anchor_names *names = context;
    uint32_t number = keytable_number(&names->index, (struct key){anchor, 0, 0});

    if (number >= PAGE_ANCHOR_NAMES)
        return 0;
    if (number == names->count)
        names->list[names->count++] = anchor;
    return number + 1;
}

/* The anchor of the allocation that brought a leaf to its live bytes; 0: none did. */
static uint32_t page_timeline_anchor_of(const struct page *page, const struct page_leaf *leaf)
{
    const struct trace *trace = page->report->load.trace;

    if (leaf->moment == leaf->first || trace->events[leaf->moment - 1].kind != TRACE_ALLOC)
        return 0;
    return trace->blocks[trace->events[leaf->moment - 1].block].anchor;
}

/* Lists of numbers, one for each leaf. */
enum leaf_list {
    LEAF_POSITION, /* since that of the leaf before */
    LEAF_AT,       /* of its moment, since its own */
    LEAF_LIVE,     /* as a difference to the leaf before */
    LEAF_RESERVED, /* likewise */
    LEAF_ALLOCATED,
    LEAF_ALLOCATED_COUNT,
    LEAF_FREED,
    LEAF_FREED_COUNT,
    LEAF_ANCHOR, /* of its moment: its number in `anchors`, from 1 */
    LEAF_LISTS,
};

static void pack_leaf(struct page *page, const struct page_leaves *leaves, size_t at,
        struct anchor_names *names, struct page_pack lists[LEAF_LISTS])
{
    const struct page_leaf *leaf = &leaves->list[at];
    struct page_leaf none = {.position = leaves->whole.begin};
    const struct page_leaf *before = at > 0 ? leaf - 1 : &none;
    uint32_t anchor = page_timeline_anchor_of(page, leaf);
    uint64_t moment = leaf->moment > leaf->first
            ? page_leaves_position(page, leaves, leaf->moment - 1)
            : leaf->position;

    page_pack_uint(&lists[LEAF_POSITION], leaf->position - before->position);
    page_pack_uint(&lists[LEAF_AT], moment > leaf->position ? moment - leaf->position : 0);
    page_pack_difference(&lists[LEAF_LIVE], leaf->live, before->live);
    page_pack_difference(&lists[LEAF_RESERVED], leaf->reserved, before->reserved);
    page_pack_uint(&lists[LEAF_ALLOCATED], leaf->allocated.bytes);
    page_pack_uint(&lists[LEAF_ALLOCATED_COUNT], leaf->allocated.count);
    page_pack_uint(&lists[LEAF_FREED], leaf->freed.bytes);
    page_pack_uint(&lists[LEAF_FREED_COUNT], leaf->freed.count);
    page_pack_uint(&lists[LEAF_ANCHOR], anchor ? anchor_number(names, anchor) : 0);
}

static void json_leaves(
        struct page *page, const struct page_leaves *leaves, struct anchor_names *names)
{
    static const char *const keys[LEAF_LISTS] = {"position", "at", "live", "reserved", "allocated",
            "allocated_count", "freed", "freed_count", "anchor"};
    struct page_pack lists[LEAF_LISTS] = {0};
    size_t highest = 0;

    for (size_t i = 0; i < leaves->count; i++)
        if (leaves->list[i].live > leaves->list[highest].live)
            highest = i;
    uint32_t anchor = leaves->count ? page_timeline_anchor_of(page, &leaves->list[highest]) : 0;
    if (anchor) /* the peak's has a name in any case */
        (void)anchor_number(names, anchor);
    for (size_t i = 0; i < leaves->count; i++)
        pack_leaf(page, leaves, i, names, lists);
    json_begin(&page->json, "leaves", '{');
    json_uint(&page->json, "count", leaves->count);
    for (unsigned i = 0; i < LEAF_LISTS; i++) {
        page_pack_json(&page->json, keys[i], &lists[i]);
        page_pack_done(&lists[i]);
    }
    json_end(&page->json, '}');
}

static void json_names(struct page *page, struct anchor_names *names)
{
    json_begin(&page->json, "anchors", '[');
    for (size_t i = 0; i < names->count; i++)
        page_json_anchor(page, NULL, names->list[i]);
    json_end(&page->json, ']');
    keytable_done(&names->index);
}

void page_timeline_json(struct page *page)
{
    struct page_leaves leaves = page_leaves_find(page);
    struct page_blocks blocks = page_blocks_find(page, &leaves);
    const struct timeline *whole = &leaves.whole;
    struct anchor_names names = {0};
    struct json *json = &page->json;

    json_begin(json, "timeline", '{');
    json_text(json, "axis", whole->axis == TIMELINE_BY_TIME ? "time" : "event");
    json_uint(json, "begin", whole->begin);
    json_uint(json, "end", whole->begin + whole->width * whole->bin_count);
    json_leaves(page, &leaves, &names);
    json_peak(page, &leaves, "peak_live", &whole->live, page->report->figures.peak_live);
    json_peak(
            page, &leaves, "peak_reserved", &whole->reserved, page->report->figures.peak_reserved);
    json_failures_at(page, &leaves);
    json_steps(page, &leaves);
    json_bars(page, &leaves);
    page_groupings_json(page, &leaves, &blocks);
    page_blocks_json(page, &leaves, &blocks, anchor_number, &names);
    json_names(page, &names);
    json_end(json, '}');
    page_blocks_done(&blocks);
    page_leaves_done(&leaves);
}

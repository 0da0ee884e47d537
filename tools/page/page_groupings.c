/* SPDX-License-Identifier: MIT */
#include "tools/page/page_groupings.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* Most bytes of all columns of a grouping, in base64: the columns with most come first. */
#define PAGE_SITE_COLUMNS  (1u << 20)
#define PAGE_OTHER_COLUMNS (1u << 18)

/* A criterion by which the bytes of a moment are split. */
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

static struct grouping page_groupings_by_site(const struct page *page)
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

/* What the blocks are to the program; of no use where nothing of it was looked at. */
static struct grouping page_groupings_by_kind(const struct page *page)
{
    const struct report *report = page->report;
    size_t count = report->load.trace->block_count;
    struct grouping grouping = {.by = "kind",
            .keys = vec_new(count, sizeof(uint32_t)),
            .names = (const char **)vec_new(DATAKIND_COUNT, sizeof(char *)),
            .count = DATAKIND_COUNT};

    for (unsigned i = 0; i < DATAKIND_COUNT; i++)
        grouping.names[i] = datakind_name((enum datakind)i);
    for (size_t i = 0; i < count; i++)
        grouping.keys[i] = report->kinds.of[i];
    return grouping;
}

/* By the anchor that was open when a block was allocated, all instances together. */
static struct grouping by_module(const struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    struct grouping grouping = {.by = "module",
            .keys = vec_new(trace->block_count, sizeof(uint32_t)),
            .names = (const char **)vec_new(trace->anchor_count, sizeof(char *))};
    uint32_t *of_anchor = vec_new(trace->anchor_count, sizeof(*of_anchor));
    struct keytable index = {0};

    for (size_t i = 0; i < trace->anchor_count; i++) {
        const char *path = trace->anchors[i].path;

        of_anchor[i] = keytable_number(&index, keytable_text(path));
        if (of_anchor[i] == grouping.count)
            grouping.names[grouping.count++] = *path ? path : "(outside of all anchors)";
    }
    for (size_t i = 0; i < trace->block_count; i++)
        grouping.keys[i] = of_anchor[trace->blocks[i].anchor];
    keytable_done(&index);
    free(of_anchor);
    return grouping;
}

/* ---- JSON: groupings ---- */

struct ranked_column {
    uint64_t most;
    uint32_t key;
};

static const struct vec_key highest_first[] = {
        VEC_DOWN(struct ranked_column, most), VEC_UP(struct ranked_column, key)};

/* The columns with most bytes, as many as there is room for; the caller frees the array. */
static struct ranked_column *choose_columns(
        const struct grouping *grouping, const struct page_columns *columns, size_t *ret_count)
{
    struct ranked_column *ranked = vec_new(columns->count, sizeof(*ranked));
    size_t room = grouping->is_site ? PAGE_SITE_COLUMNS : PAGE_OTHER_COLUMNS;
    size_t count = 0;

    for (size_t i = 0; i < columns->count; i++)
        ranked[i] = (struct ranked_column){columns->list[i].most, (uint32_t)i};
    VEC_SORT_BY(ranked, columns->count, highest_first);
    while (count < columns->count && ranked[count].most > 0) {
        size_t length = columns->list[ranked[count].key].pack.count * 4 / 3 + 8;

        if (length > room)
            break;
        room -= length;
        count++;
    }
    *ret_count = count;
    return ranked;
}

/* Per drawn block: the number of its column, from 1; 0: it is among all others. */
static void json_columns_of_blocks(struct json *json, const struct grouping *grouping,
        const struct page_blocks *blocks, const struct ranked_column *ranked, size_t count)
{
    uint32_t *places = vec_new(grouping->count, sizeof(*places));
    struct page_pack pack = {0};

    for (size_t i = 0; i < count; i++)
        places[ranked[i].key] = (uint32_t)i + 1;
    for (size_t i = 0; i < blocks->count; i++) {
        uint32_t key = grouping->keys[blocks->list[i].block];

        page_pack_uint(&pack, key < grouping->count ? places[key] : 0);
    }
    page_pack_json(json, "of_block", &pack);
    page_pack_done(&pack);
    free(places);
}

/* The keys with most bytes at one moment: their names, or numbers of call sites, and columns. */
static void json_grouping(struct page *page, const struct page_leaves *leaves,
        const struct page_blocks *blocks, const struct grouping *grouping)
{
    struct json *json = &page->json;
    struct page_columns columns = page_columns_find(page, leaves, grouping->keys, grouping->count);
    size_t count;
    struct ranked_column *ranked = choose_columns(grouping, &columns, &count);

    json_begin(json, NULL, '{');
    json_text(json, "by", grouping->by);
    json_begin(json, grouping->is_site ? "sites" : "names", '[');
    for (size_t i = 0; i < count; i++) {
        if (grouping->is_site || !grouping->names)
            json_uint(json, NULL, ranked[i].key);
        else
            json_text(json, NULL, grouping->names[ranked[i].key]);
    }
    json_end(json, ']');
    json_begin(json, "columns", '[');
    for (size_t i = 0; i < count; i++)
        page_pack_json(json, NULL, &columns.list[ranked[i].key].pack);
    json_end(json, ']');
    json_columns_of_blocks(json, grouping, blocks, ranked, count);
    json_end(json, '}');
    free(ranked);
    page_columns_done(&columns);
}

void page_groupings_json(
        struct page *page, const struct page_leaves *leaves, const struct page_blocks *blocks)
{
    static struct grouping (*const groupings[])(const struct page *page) = {
            page_groupings_by_site, page_groupings_by_kind, by_module, by_library, by_class};

    json_begin(&page->json, "groupings", '[');
    for (size_t i = 0; i < sizeof(groupings) / sizeof(*groupings); i++) {
        struct grouping grouping;

        if (groupings[i] == page_groupings_by_kind && !page->report->kinds.of)
            continue;
        grouping = groupings[i](page);
        json_grouping(page, leaves, blocks, &grouping);
        grouping_done(&grouping);
    }
    json_end(&page->json, ']');
}

/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/load/heldnames.h"

#define PAGE_HELD 300u

/* What a call site's blocks with the same holders have, at the failure or at the end. */
struct page_held_row {
    uint64_t bytes, count;
    const char *text; /* of struct read_held */
    uint32_t site;
    enum page_moment moment;
};

static const struct vec_key page_held_order[] = {VEC_DOWN(struct page_held_row, bytes)};

/* The last walk for this reason; 0: there was none. */
static uint32_t page_held_walk(const struct read_capture *capture, enum format_walk_why why)
{
    uint32_t walk = 0;

    for (size_t i = 0; i < capture->walk_count; i++)
        if (capture->walk[i].why == (uint32_t)why)
            walk = capture->walk[i].def.id;
    return walk;
}

static struct page_held_row *page_held_rows(const struct page *page, size_t *ret_count)
{
    const struct load *load = &page->report->load;
    const struct read_capture *capture = load->capture;
    const uint32_t walks[PAGE_MOMENTS] = {[PAGE_FAILURE] = page_held_walk(capture, FORMAT_WALK_OOM),
            [PAGE_END] = page_held_walk(capture, FORMAT_WALK_END)};
    struct page_held_row *rows = vec_new(capture->held_count, sizeof(*rows));
    struct keytable index = {0};
    size_t count = 0;

    heldnames_fill(load, page->report->symbols);
    for (size_t i = 0; i < capture->held_count; i++) {
        const struct read_held *held = &capture->held[i];
        enum page_moment moment = held->walk == walks[PAGE_END] ? PAGE_END : PAGE_FAILURE;
        uint32_t site = page->sites.of_stack[load->held_stacks[i]];
        struct key key = keytable_text(held->text);

        if (held->walk != walks[moment])
            continue;
        key.c ^= (uint64_t)site << 32 | (uint64_t)moment << 24;
        uint32_t at = keytable_number(&index, key);
        if (at == count)
            rows[count++] =
                    (struct page_held_row){.text = held->text, .site = site, .moment = moment};
        rows[at].bytes += held->bytes;
        rows[at].count += held->count;
    }
    keytable_done(&index);
    VEC_SORT_BY(rows, count, page_held_order);
    *ret_count = count;
    return rows;
}

/* A text's first line is what the memory is, the others are its holders. */
static void page_held_json_lines(struct json *json, const char *text)
{
    for (bool is_first = true;; is_first = false) {
        const char *end = strchrnul(text, '\n');
        char *line = vec_format("%.*s", (int)(end - text), text);

        json_text(json, is_first ? "kind" : NULL, line);
        free(line);
        if (is_first)
            json_begin(json, "held_by", '[');
        if (!*end)
            break;
        text = end + 1;
    }
    json_end(json, ']');
}

void page_held_json(struct page *page)
{
    struct json *json = &page->json;
    size_t count;
    struct page_held_row *rows = page_held_rows(page, &count);
    size_t shown = json_begin_rows(json, "held_by_site", count, PAGE_HELD);

    for (size_t i = 0; i < shown; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "moment", page_moment_key(rows[i].moment));
        json_uint(json, "site", rows[i].site);
        json_uint(json, "bytes", rows[i].bytes);
        json_uint(json, "count", rows[i].count);
        page_held_json_lines(json, rows[i].text);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

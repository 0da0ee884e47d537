/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/load/heldnames.h"

#define PAGE_HELD 300u

/* What a call site's blocks with the same holders have, as a walk found them. */
struct page_held_row {
    uint64_t bytes, count;
    const char *text; /* of struct read_held */
    uint32_t site;
    const struct format_def_walk *walk;
};

static const char *const page_held_words[FORMAT_WALK_COUNT] = {[FORMAT_WALK_OOM] = "failure",
        [FORMAT_WALK_END] = "end",
        [FORMAT_WALK_ASKED] = "asked",
        [FORMAT_WALK_STEP] = "step",
        [FORMAT_WALK_GROWN] = "grown"};

static const struct vec_key page_held_order[] = {VEC_DOWN(struct page_held_row, bytes)};

/* The walk with this id, if it is one of the last for each reason; else NULL. */
static const struct format_def_walk *page_held_walk(
        const struct format_def_walk *const *last, uint32_t id)
{
    for (unsigned why = 0; why < FORMAT_WALK_COUNT; why++)
        if (last[why] && last[why]->def.id == id)
            return last[why];
    return NULL;
}

static struct page_held_row *page_held_rows(const struct page *page, size_t *ret_count)
{
    const struct load *load = &page->report->load;
    const struct read_capture *capture = load->capture;
    const struct format_def_walk *last[FORMAT_WALK_COUNT] = {NULL};
    struct page_held_row *rows = vec_new(capture->held_count, sizeof(*rows));
    struct keytable index = {0};
    size_t count = 0;

    for (size_t i = 0; i < capture->walk_count; i++)
        last[capture->walk[i].why] = &capture->walk[i];
    heldnames_fill(load, page->report->symbols);
    for (size_t i = 0; i < capture->held_count; i++) {
        const struct read_held *held = &capture->held[i];
        const struct format_def_walk *walk = page_held_walk(last, held->walk);
        uint32_t site = page->sites.of_stack[load->held_stacks[i]];
        struct key key = keytable_text(held->text);

        if (!walk)
            continue;
        key.c ^= (uint64_t)site << 32 | (uint64_t)walk->why << 24;
        uint32_t at = keytable_number(&index, key);
        if (at == count)
            rows[count++] = (struct page_held_row){.text = held->text, .site = site, .walk = walk};
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
        json_text(json, "moment", page_held_words[rows[i].walk->why]);
        json_uint(json, "time_ns", rows[i].walk->time_ns);
        json_uint(json, "site", rows[i].site);
        json_uint(json, "bytes", rows[i].bytes);
        json_uint(json, "count", rows[i].count);
        page_held_json_lines(json, rows[i].text);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

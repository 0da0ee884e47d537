/* SPDX-License-Identifier: MIT */
#include "tools/page_parts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

const char *page_moment_key(enum page_moment moment)
{
    static const char *const keys[PAGE_MOMENTS] = {
            [PAGE_PEAK] = "peak", [PAGE_FAILURE] = "failure", [PAGE_END] = "end"};

    return keys[moment];
}

bool page_has(const struct page *page, enum page_moment moment)
{
    return page->moment[moment] != TRACE_NEVER || (page->by_places && moment != PAGE_FAILURE);
}

void page_json_sum(struct json *json, const char *key, struct trace_sum sum)
{
    json_begin(json, key, '[');
    json_known(json, NULL, sum.bytes);
    json_known(json, NULL, sum.count);
    json_end(json, ']');
}

void page_draft_begin(struct page_draft *draft)
{
    *draft = (struct page_draft){0};
    draft->out = open_memstream(&draft->text, &draft->length);
    if (!draft->out)
        vec_out_of_memory();
}

void page_draft_end(struct page_draft *draft)
{
    if (fclose(draft->out) != 0)
        vec_out_of_memory();
}

/* Cut behind the last whole character that there is room for. */
static void cut_name(char *name)
{
    size_t length = PAGE_TEXT;

    if (strlen(name) <= PAGE_TEXT)
        return;
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    name[length] = '\0';
}

void page_json_name(struct json *json, const char *key, const char *name)
{
    struct page_draft draft;

    if (!name) {
        json_text(json, key, NULL);
        return;
    }
    page_draft_begin(&draft);
    render_text(draft.out, name);
    page_draft_end(&draft);
    cut_name(draft.text);
    json_text(json, key, draft.text);
    free(draft.text);
}

void page_json_anchor(struct page *page, const char *key, uint32_t anchor)
{
    const struct trace *trace = page->report->load.trace;
    char *name = anchor ? figures_anchor_text(&trace->anchors[anchor]) : NULL;

    page_json_name(&page->json, key, name);
    free(name);
}

uint64_t page_step_of(const struct page *page, uint32_t event)
{
    const struct stepview *steps = &page->report->stated;

    for (size_t i = 0; i < steps->row_count; i++)
        if (event >= steps->rows[i].first && event < steps->rows[i].behind)
            return i;
    return UINT64_MAX;
}

/* ---- frames ---- */

enum frame_kind {
    FRAME_NATIVE,
    FRAME_PYTHON,
    FRAME_BELOW,   /* CUDA's, kedge's, the C library's */
    FRAME_AMBIENT, /* Python of another thread */
};

static enum frame_kind frame_kind(const struct symbols_line *line)
{
    if (line->is_python)
        return line->is_ambient ? FRAME_AMBIENT : FRAME_PYTHON;
    return line->is_ours ? FRAME_NATIVE : FRAME_BELOW;
}

/* Where the file is not known, the library. */
static const char *frame_file(const struct symbols_line *line)
{
    return line->file ? line->file : line->module;
}

uint32_t page_frame(struct page *page, const struct symbols_line *line)
{
    struct key key = keytable_text(line->function);
    struct key file = keytable_text(frame_file(line));

    key.a ^= file.a * 3;
    key.b ^= file.b * 5;
    key.c ^= (uint64_t)line->line << 16 ^ (uint64_t)frame_kind(line) << 60 ^ file.c << 8;
    uint32_t at = keytable_number(&page->frames, key);
    if (at == page->frame_count)
        VEC_PUSH(page->frame, page->frame_count, page->frame_room) = (struct page_frame_line){line};
    return at;
}

void page_json_frames(struct page *page)
{
    struct json *json = &page->json;

    json_begin(json, "frames", '[');
    for (size_t i = 0; i < page->frame_count; i++) {
        const struct symbols_line *line = page->frame[i].line;

        json_begin(json, NULL, '[');
        page_json_name(json, NULL, line->function);
        page_json_name(json, NULL, frame_file(line));
        json_uint(json, NULL, line->line);
        json_uint(json, NULL, frame_kind(line));
        json_end(json, ']');
    }
    json_end(json, ']');
}

void page_json_stack(struct page *page, const char *key, uint32_t stack)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(page->report->symbols, stack, &count);

    json_begin(&page->json, key, '[');
    for (size_t i = 0; i < count; i++)
        json_uint(&page->json, NULL, page_frame(page, &lines[i]));
    json_end(&page->json, ']');
}

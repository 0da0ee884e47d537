/* SPDX-License-Identifier: MIT */
#include "tools/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/outfile.h"
#include "tools/page_parts.h"
#include "tools/page_text.h"
#include "tools/vec.h"

/* ---- what the parts share ---- */

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

/* Text that is written piece by piece. */
struct draft {
    FILE *out;
    char *text;
    size_t length;
};

static void draft_begin(struct draft *draft)
{
    *draft = (struct draft){0};
    draft->out = open_memstream(&draft->text, &draft->length);
    if (!draft->out)
        vec_out_of_memory();
}

/* The text is the caller's from then on. */
static void draft_end(struct draft *draft)
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
    struct draft draft;

    if (!name) {
        json_text(json, key, NULL);
        return;
    }
    draft_begin(&draft);
    render_text(draft.out, name);
    draft_end(&draft);
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

/* ---- the page ---- */

static bool is_in_window(const struct report *report, const struct load_oom *oom)
{
    return report_oom_is_told(report, oom) && oom->at >= report->window.first
            && oom->at < report->window.last;
}

static void find_moments(struct page *page)
{
    const struct report *report = page->report;
    const struct load *load = &report->load;
    const struct load_oom *last = load->oom_count ? &load->ooms[load->oom_count - 1] : NULL;

    page->by_places = figures_by_totals(load, report->window);
    page->moment[PAGE_PEAK] = page->by_places ? TRACE_NEVER : report_peak(report);
    page->moment[PAGE_FAILURE] = TRACE_NEVER;
    if (last && !page->by_places && is_in_window(report, last)) {
        page->moment[PAGE_FAILURE] = last->at;
        page->failed_device = last->device;
    }
    page->moment[PAGE_END] = report->window.last;
}

/* The object of the page; the caller frees it. */
static char *make_data(const struct report *report, size_t *ret_length)
{
    struct page page = {.report = report};
    struct draft draft;

    draft_begin(&draft);
    page.json = json_open(draft.out);
    find_moments(&page);
    page_sites_find(&page);
    page_data_json(&page);
    page_sites_done(&page);
    keytable_done(&page.frames);
    free(page.frame);
    draft_end(&draft);
    *ret_length = draft.length;
    return draft.text;
}

/* Without blanks between the values, and no "<" in a string: nothing in it ends the element that it stands in. */
static void write_data(FILE *out, const char *data, size_t length)
{
    bool is_inside = false;

    for (size_t i = 0; i < length; i++) {
        char c = data[i];

        if (is_inside && c == '\\') {
            (void)fputc(c, out);
            c = data[++i];
        } else if (c == '"') {
            is_inside = !is_inside;
        }
        if (c == '<')
            (void)fputs("\\u003c", out);
        else if (is_inside || (c != ' ' && c != '\n'))
            (void)fputc(c, out);
    }
}

/*
 * With steps to be looked for, the report of ten million events takes 1.5 GiB of memory instead of 1 GiB. A reader who wants a page
 * does not ask for that: in a run of more events that states no steps they are looked for with --steps detected only.
 */
#define DETECT_EVENTS 1000000u

static void find_steps(struct report *report)
{
    bool is_long = report->load.trace->event_count > DETECT_EVENTS;
    enum stepview_choice choice =
            report->steps == STEPVIEW_ANY && is_long ? STEPVIEW_ONLY_STATED : report->steps;

    stepview_find(&report->load, report->window, choice, &report->stated);
    if (report->stated.origin == STEPVIEW_DETECTED && report->stated.period.kind != PERIOD_STEPS)
        report->stated.row_count = 0; /* layers and the like say nothing on a page */
}

int page_write(const struct report *report, const char *path)
{
    struct report whole = *report;
    struct draft draft;
    size_t length;

    find_steps(&whole);
    char *data = make_data(&whole, &length);
    stepview_done(&whole.stated);
    draft_begin(&draft);
    (void)fwrite(page_text_head, 1, page_text_head_length, draft.out);
    write_data(draft.out, data, length);
    (void)fwrite(page_text_tail, 1, page_text_tail_length, draft.out);
    draft_end(&draft);
    int r = outfile_write("kedge report", path, OUTFILE_PRIVATE, draft.text, draft.length);
    free(draft.text);
    free(data);
    return r < 0 ? 2 : 0;
}

/* SPDX-License-Identifier: MIT */
#include "tools/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/outfile.h"
#include "tools/page_parts.h"
#include "tools/page_text.h"
#include "tools/vec.h"

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
    struct page_draft draft;

    page_draft_begin(&draft);
    page.json = json_open(draft.out);
    find_moments(&page);
    page_sites_find(&page);
    page_data_json(&page);
    page_sites_done(&page);
    keytable_done(&page.frames);
    free(page.frame);
    page_draft_end(&draft);
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
    struct page_draft draft;
    size_t length;

    find_steps(&whole);
    char *data = make_data(&whole, &length);
    stepview_done(&whole.stated);
    page_draft_begin(&draft);
    (void)fwrite(page_text_head, 1, page_text_head_length, draft.out);
    write_data(draft.out, data, length);
    (void)fwrite(page_text_tail, 1, page_text_tail_length, draft.out);
    page_draft_end(&draft);
    int r = outfile_write("kedge report", path, OUTFILE_PRIVATE, draft.text, draft.length);
    free(draft.text);
    free(data);
    return r < 0 ? 2 : 0;
}

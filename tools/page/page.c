/* SPDX-License-Identifier: MIT */
#include "tools/page/page.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/output/outfile.h"
#include "tools/page/page_parts.h"
#include "tools/page/page_text.h"

static bool page_is_in_window(const struct report *report, const struct load_oom *oom)
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
    if (last && !page->by_places && page_is_in_window(report, last)) {
        page->moment[PAGE_FAILURE] = last->at;
        page->failed_device = last->device;
    }
    page->moment[PAGE_END] = report->window.last;
}

/* ---- missing data ---- */

struct notes {
    struct json *json;
    unsigned count;
};

static void page_json_note(void *context, const char *word, const char *text)
{
    struct notes *notes = context;

    if (notes->count++ >= PAGE_NOTES)
        return;
    json_begin(notes->json, NULL, '[');
    json_text(notes->json, NULL, word);
    json_text(notes->json, NULL, text);
    json_end(notes->json, ']');
}

static void page_json_notes(struct page *page)
{
    const struct symbols *symbols = page->report->symbols;
    struct notes notes = {.json = &page->json};
    const char *line;

    json_begin(&page->json, "notes", '[');
    report_notes_tell(page->report, page_json_note, &notes);
    for (size_t i = 0; (line = symbols_trouble(symbols, i)) != NULL; i++)
        page_json_note(&notes, "note", line);
    json_end(&page->json, ']');
}

/* Time and place of Max. */
static void page_json_max(struct page *page)
{
    const struct report *report = page->report;
    const struct trace *trace = report->load.trace;
    uint32_t at = report->figures.max_at;
    struct json *json = &page->json;

    json_begin(json, "max", '{');
    if (at != TRACE_NEVER && !page->by_places) {
        const struct trace_event *event = &trace->events[at];

        json_known(json, "time_ns", event->time_ns ? event->time_ns : UINT64_MAX);
        page_json_anchor(page, "anchor", trace->blocks[event->block].anchor);
        json_known(json, "step", page_step_of(page, at));
    }
    json_end(json, '}');
}

/* ---- the page ---- */

/* Columns for lists with many rows: those that the scripts of tools/page/ show. */
static const struct json_columns columns[] = {
        {"hints",
                " id do mode matched_count released_bytes would_bytes held_bytes skipped_count "
                "refused_count late_touches violations late_writes drift "},
        {"steps",
                " step ended block_bytes cap_bytes moved_in_bytes moved_out_bytes dropped_bytes "
                "wait_count in_at_most_bytes in_at_least_bytes layout_ms evict_ms stall_ms "},
        {"kept", " reason title count bytes stack "},
        {"live_at_oom", " title bytes count stack "},
        {"sources",
                " library allocated_bytes allocated_count live_bytes live_count own_peak_bytes "
                "at_max_bytes "},
        {"findings",
                " pattern title anchor instance saves_bytes max_left_bytes bytes count "
                "at_max_bytes longest_ns memory_of advice stack "},
        {"anchors",
                " name instance max_bytes remaining_bytes allocated_bytes allocated_count "
                "freed_bytes freed_count peak_live_bytes "},
        {"rows",
                " name instance likeness live_begin_bytes live_end_bytes peak_live_bytes "
                "allocated_bytes allocated_count " /* of steps; of holders, and causes: */
                " bytes count kind held_by title place_count run stack "},
        {"growers", " title round rounds first_bytes last_bytes rises stack "},
        {"kinds", " kind bytes "},
        {"kinds_at_max", " kind bytes "},
        {"kinds_at_end", " kind bytes "},
        {NULL, NULL},
};

/* The walks through a program's objects beside that at a failure; none is of a window. */
static void page_json_walks(struct page *page)
{
    const struct report *report = page->report;

    if (report->from || report->to)
        return;
    report_held_json(&page->json, report, FORMAT_WALK_STEP, UINT64_MAX, "held_after_step");
    report_held_json(&page->json, report, FORMAT_WALK_GROWN, UINT64_MAX, "held_when_grown");
    report_held_json(&page->json, report, FORMAT_WALK_ASKED, UINT64_MAX, "held_as_asked");
    report_held_json(&page->json, report, FORMAT_WALK_END, UINT64_MAX, "held_at_end");
}

/* How much of a run a page has. */
enum page_part {
    PAGE_PART_SITES,    /* segments, beside their tensors: no timeline */
    PAGE_PART_TIMELINE, /* one of several runs: no flame graph, no map */
    PAGE_PART_ALL,
};

/* The keys of --json, and those of the page. */
static void page_json_run(struct page *page, enum page_part part)
{
    struct json *json = &page->json;

    report_json(json, page->report);
    report_steps_json_view(json, page->report, &page->report->stated);
    page_json_walks(page);
    json_bool(json, "by_places", page->by_places);
    page_json_notes(page);
    page_json_max(page);
    page_sites_json(page);
    page_held_json(page);
    if (part >= PAGE_PART_TIMELINE)
        page_timeline_json(page);
    if (part < PAGE_PART_ALL)
        return;
    page_flame_json(page);
    page_map_json(page);
}

/*
 * Detecting steps in a report of ten million events takes 1.5 GiB of memory instead of 1 GiB, which
 * a reader of a page does not expect: in a run of more events without stated steps they are
 * detected only with --steps detected.
 */
#define DETECT_EVENTS 1000000u

static void page_find_steps(struct report *report)
{
    bool is_long = report->load.trace->event_count > DETECT_EVENTS;
    enum stepview_choice choice =
            report->steps == STEPVIEW_ANY && is_long ? STEPVIEW_ONLY_STATED : report->steps;

    stepview_find(&report->load, report->window, choice, &report->stated);
    if (report->stated.origin == STEPVIEW_DETECTED && report->stated.period.kind != PERIOD_STEPS)
        report->stated.row_count = 0; /* parts such as layers are of no use on a page */
}

static void page_write_run(struct page *page, enum page_part part)
{
    find_moments(page);
    page_sites_find(page);
    page_json_run(page, part);
    page_sites_done(page);
}

/* As part of a page, in the open object; the frames of all its runs are in one table. */
static void page_print_run(
        struct json *json, struct frames *frames, const struct report *report, enum page_part part)
{
    struct report whole = *report;
    struct page page = {.report = &whole, .json = *json, .frames = *frames};
    struct json_page form = *json->page;

    form.frames = &page.frames;
    page.json.page = &form;
    figures_of(&whole.load, whole.window, &whole.figures, &whole.partial);
    sources_figure(&whole.load, whole.window, whole.symbols, &whole.sources);
    whole.kinds = datakind_find(&whole.load);
    page_find_steps(&whole);
    page_write_run(&page, part);
    stepview_done(&whole.stated);
    datakind_done(&whole.kinds);
    sources_done(&whole.sources);
    *frames = page.frames;
    page.json.page = json->page;
    *json = page.json;
}

static void page_print_lead(struct json *json, struct frames *frames, const struct page_lead *lead)
{
    json_text(json, "kedge", KEDGE_VERSION);
    if (!lead->key)
        return;
    json_begin(json, lead->key, '{');
    lead->keys(lead->context, json);
    json_end(json, '}');
    frames_keep(frames);
}

/*
 * The object that the scripts read. Of a run under PyTorch's own allocator the tensors are a run of
 * their own in it.
 */
static void page_print(FILE *out, const struct report *report, const struct page_lead *lead)
{
    struct page page = {.report = report, .json = json_open_line(out)};
    const struct json_page form = {PAGE_TEXT, columns, &page.frames};
    struct json *json = &page.json;

    json->page = &form;
    page_print_lead(json, &page.frames, lead);
    page_write_run(&page, report->tensors ? PAGE_PART_SITES : PAGE_PART_ALL);
    frames_keep(&page.frames);
    if (report->tensors) {
        json_begin(json, "inside", '{');
        page_print_run(json, &page.frames, report->tensors, PAGE_PART_ALL);
        json_end(json, '}');
        frames_keep(&page.frames);
    }
    frames_json(json, &page.frames);
    json_end(json, '}');
    frames_done(&page.frames);
}

/* ---- the page of several runs ---- */

static int page_print_runs(FILE *out, const struct page_runs *runs)
{
    struct json json = json_open_line(out);
    struct frames frames = {0};
    const struct json_page form = {PAGE_TEXT, columns, &frames};
    int r = 0;

    json.page = &form;
    page_print_lead(&json, &frames, &runs->lead);
    json_begin(&json, "runs", '[');
    for (size_t i = 0; i < runs->count && r == 0; i++) {
        struct report report;

        r = runs->open(runs->lead.context, i, &report);
        if (r != 0)
            break;
        json_begin(&json, NULL, '{');
        page_print_run(&json, &frames, &report, PAGE_PART_TIMELINE);
        json_end(&json, '}');
        frames_keep(&frames);
        runs->close(runs->lead.context, &report);
    }
    json_end(&json, ']');
    frames_json(&json, &frames);
    json_end(&json, '}');
    frames_done(&frames);
    return r;
}

/* What is written between head and tail. */
struct page_out {
    FILE *file;
    char *text;
    size_t length;
};

static void page_out_begin(struct page_out *out)
{
    out->file = open_memstream(&out->text, &out->length);
    if (!out->file)
        vec_out_of_memory();
    (void)fwrite(page_text_head, 1, page_text_head_length, out->file);
}

static int page_out_end(struct page_out *out, const char *who, const char *path)
{
    (void)fwrite(page_text_tail, 1, page_text_tail_length, out->file);
    if (fclose(out->file) != 0)
        vec_out_of_memory();
    int r = outfile_write(who, path, OUTFILE_PRIVATE, out->text, out->length);
    free(out->text);
    return r < 0 ? 2 : 0;
}

int page_write(const struct report *report, const struct page_lead *lead, const char *path)
{
    struct report whole = *report;
    struct page_out out;

    page_out_begin(&out);
    page_find_steps(&whole);
    page_print(out.file, &whole, lead);
    stepview_done(&whole.stated);
    return page_out_end(&out, lead->who, path);
}

int page_write_runs(const struct page_runs *runs, const char *path)
{
    struct page_out out;

    page_out_begin(&out);
    int r = page_print_runs(out.file, runs);
    if (r == 0)
        return page_out_end(&out, runs->lead.who, path);
    (void)fclose(out.file);
    free(out.text);
    return r;
}

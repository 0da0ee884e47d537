/* SPDX-License-Identifier: MIT */
#include "tools/page_parts.h"

#include <stdlib.h>

#include "tools/vec.h"
#include "tracker/hintfile.h"

/* ---- the run ---- */

static char *command_line(const struct read_capture *capture)
{
    char *line = vec_text(capture->argc ? "" : capture->exe);

    for (size_t i = 0; i < capture->argc; i++) {
        char *longer = vec_format("%s%s%s", line, i ? " " : "", capture->argv[i]);
        free(line);
        line = longer;
    }
    return line;
}

/* Did it end in the wake of a failed allocation, as far as the file can know? */
static bool has_failed(const struct read_capture *capture)
{
    bool is_well = capture->state == FORMAT_STATE_CLEAN
            && (capture->state_detail & FORMAT_EXIT_KNOWN) && (capture->state_detail & 0xffu) == 0;

    return capture->oom_count > 0 && !is_well;
}

static void json_devices(struct json *json, const struct read_capture *capture)
{
    json_begin(json, "devices", '[');
    for (size_t i = 0; i < capture->device_count && i < FORMAT_DEVICES_MAX; i++) {
        json_begin(json, NULL, '{');
        json_int(json, "device", capture->device[i].device);
        page_json_name(json, "name", capture->device[i].name);
        json_uint(json, "total_bytes", capture->device[i].total_bytes);
        json_uint(json, "driver_version", capture->device[i].driver_version);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_run(struct json *json, const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    char *command = command_line(capture);
    char *end = report_end_text(capture);

    json_text(json, "kedge", KEDGE_VERSION);
    page_json_name(json, "capture", report->path);
    json_begin(json, "program", '{');
    page_json_name(json, "command", command);
    json_uint(json, "pid", capture->pid);
    page_json_name(json, "host", capture->host);
    page_json_name(json, "rank", capture->rank);
    page_json_name(json, "mode", report_setting(capture, "mode"));
    page_json_name(json, "hints", capture->hints_hash ? capture->hints_path : NULL);
    json_text(json, "hints_mode", capture->hints_hash ? hintwords_mode(capture->hints_mode) : NULL);
    json_text(json, "ended", end);
    json_bool(json, "failed", has_failed(capture));
    json_uint(json, "started_ms", capture->start_real_ns / 1000000u);
    json_devices(json, capture);
    json_end(json, '}');
    json_begin(json, "window", '{');
    page_json_name(json, "from", report->from);
    page_json_name(json, "to", report->to);
    json_end(json, '}');
    free(command);
    free(end);
}

/* ---- what is not known ---- */

struct notes {
    struct json *json;
    unsigned count;
};

static void json_note(void *context, const char *word, const char *text)
{
    struct notes *notes = context;

    if (notes->count++ >= PAGE_NOTES)
        return;
    json_begin(notes->json, NULL, '[');
    json_text(notes->json, NULL, word);
    page_json_name(notes->json, NULL, text);
    json_end(notes->json, ']');
}

static void json_notes(struct page *page)
{
    const struct symbols *symbols = page->report->symbols;
    struct notes notes = {.json = &page->json};
    const char *line;

    json_bool(&page->json, "complete", !report_lacks_events(page->report));
    json_bool(&page->json, "by_places", page->by_places);
    json_begin(&page->json, "notes", '[');
    report_notes_tell(page->report, json_note, &notes);
    for (size_t i = 0; (line = symbols_trouble(symbols, i)) != NULL; i++)
        json_note(&notes, "note", line);
    json_end(&page->json, ']');
    json_uint(
            &page->json, "notes_left_out", notes.count > PAGE_NOTES ? notes.count - PAGE_NOTES : 0);
}

/* ---- the figures ---- */

static void json_figures_of(struct json *json, const struct model_figures *figures)
{
    double utilisation;

    json_begin(json, "figures", '{');
    figures_json(json, figures);
    json_known(json, "peak_live_512_bytes", figures->peak_live_512);
    if (figures_utilisation(figures, &utilisation))
        json_real(json, "e", utilisation);
    json_end(json, '}');
}

/* When and where Max was reached. */
static void json_max(struct page *page)
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

/* ---- failures ---- */

static void json_pool(struct json *json, const struct format_oom *what)
{
    const struct format_oom_heaps *heaps = &what->heaps;

    json_begin(json, "pool", '{');
    json_uint(json, "held", heaps->held);
    json_uint(json, "live", heaps->live);
    json_uint(json, "free", heaps->free);
    json_uint(json, "largest_free", heaps->largest_free);
    json_uint(json, "free_elsewhere", what->free_elsewhere);
    json_uint(json, "remappable", heaps->remappable);
    json_uint(json, "waiting", heaps->waiting);
    json_uint(json, "kept", heaps->kept);
    json_uint(json, "released_by_hints", heaps->husk);
    json_end(json, '}');
}

static void json_owners(struct page *page, const struct load_oom *oom)
{
    struct report_owners owners = report_oom_owners(page->report, oom);
    struct json *json = &page->json;

    json_begin(json, "live_at_oom", '[');
    for (size_t i = 0; i < owners.count; i++) {
        json_begin(json, NULL, '{');
        page_json_name(json, "name", owners.list[i].way);
        json_uint(json, "bytes", owners.list[i].bytes);
        json_uint(json, "count", owners.list[i].count);
        page_json_stack(page, "stack", owners.list[i].stack);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_uint(json, "other_bytes", owners.other_bytes);
    report_oom_owners_done(&owners);
}

static void json_why(struct page *page, const struct load_oom *oom)
{
    static const char *const lacks[] = {
            [REPORT_LACK_ALL] = "all", [REPORT_LACK_HERE] = "here", [REPORT_LACK_WHOLE] = "whole"};
    const struct format_oom *what = &oom->why->what;
    struct json *json = &page->json;

    page_json_name(json, "call", oom->why->call);
    json_bool(json, "native", (what->flags & FORMAT_OOM_NATIVE) != 0);
    json_bool(json, "capturing", (what->flags & FORMAT_OOM_CAPTURE) != 0);
    json_known(json, "total_bytes", what->total_bytes);
    json_uint(json, "native_bytes", what->native_bytes);
    json_text(json, "lack", lacks[report_oom_lack(what)]);
    if (what->flags & FORMAT_OOM_HEAPS)
        json_pool(json, what);
    if (oom->at == TRACE_NEVER || oom->at != page->moment[PAGE_FAILURE])
        json_owners(page, oom); /* else the call sites have it */
}

static void json_failure(struct page *page, const struct load_oom *oom, const char *way)
{
    struct json *json = &page->json;

    json_begin(json, NULL, '{');
    json_uint(json, "number", oom->number);
    json_uint(json, "requested_bytes", oom->requested);
    json_int(json, "device", oom->device);
    json_known(json, "live_bytes", oom->live);
    json_known(json, "free_bytes", oom->free_bytes);
    json_known(json, "largest_free_bytes", oom->largest_free);
    page_json_anchor(page, "anchor", oom->anchor);
    page_json_name(json, "asked_by", way);
    page_json_stack(page, "stack", oom->stack);
    if (oom->why)
        json_why(page, oom);
    json_end(json, '}');
}

/* The newest ones, the last one last. */
static void json_failures(struct page *page)
{
    const struct load *load = &page->report->load;
    size_t first = load->oom_count > PAGE_FAILURES ? load->oom_count - PAGE_FAILURES : 0;
    const struct load_oom *ooms = load->ooms ? &load->ooms[first] : NULL;
    size_t count = load->oom_count - first;
    char **ways = title_ways(page->report->symbols, TITLE_STACKS(ooms), count);

    json_uint(&page->json, "failure_count",
            load->capture->oom_count > load->oom_count ? load->capture->oom_count
                                                       : load->oom_count);
    json_begin(&page->json, "failures", '[');
    for (size_t i = 0; ooms && i < count; i++)
        json_failure(page, &ooms[i], ways[i]);
    json_end(&page->json, ']');
    title_done(ways, count);
}

/* ---- tables ---- */

static void json_hint(struct page *page, const struct load_hint *hint)
{
    const struct load *load = &page->report->load;
    struct json *json = &page->json;
    char drift[512];

    json_begin(json, NULL, '{');
    page_json_name(json, "id", hint->id);
    json_text(json, "do", hintwords_action(hint->action));
    json_text(json, "mode", hintwords_mode(hint->mode));
    page_json_sum(json, "matched", load_sum(load, hint, FORMAT_HINT_PLANNED));
    page_json_sum(json, "released", load_released(load, hint));
    page_json_sum(json, "would", load_would(load, hint));
    page_json_sum(json, "held", load_sum(load, hint, FORMAT_HINT_HELD));
    page_json_sum(json, "skipped", load_sum(load, hint, FORMAT_HINT_SKIPPED));
    page_json_sum(json, "refused", load_sum(load, hint, FORMAT_HINT_REFUSED));
    json_known(json, "late", load_late(load, hint));
    if (hint->drift)
        hintwords_tell_drift(hint->drift, drift, sizeof(drift));
    page_json_name(json, "drift", hint->drift ? drift : NULL);
    json_end(json, '}');
}

static void json_hints_of(struct page *page)
{
    const struct load *load = &page->report->load;

    json_uint(&page->json, "hint_count", load->hint_count);
    json_begin(&page->json, "hints", '[');
    for (size_t i = 0; i < load->hint_count && i < PAGE_HINTS; i++)
        json_hint(page, &load->hints[i]);
    json_end(&page->json, ']');
}

/* An anchor instance of the window. */
struct visit {
    uint64_t max;
    uint32_t anchor;
};

static int largest_max_first(const void *a, const void *b)
{
    const struct visit *x = a;
    const struct visit *y = b;

    if (x->max != y->max)
        return x->max < y->max ? 1 : -1;
    return (x->anchor > y->anchor) - (x->anchor < y->anchor);
}

static int in_order(const void *a, const void *b)
{
    const struct visit *x = a;
    const struct visit *y = b;

    return (x->anchor > y->anchor) - (x->anchor < y->anchor);
}

/* Those that the page lists, in the order of the run; the caller frees the array. */
static struct visit *list_visits(
        const struct report *report, const struct model_figures *figures, size_t *ret_all)
{
    struct visit *visits = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 1; i < report->load.trace->anchor_count; i++)
        if (report_has_anchor(report, i))
            VEC_PUSH(visits, count, room) = (struct visit){figures[i].max, (uint32_t)i};
    VEC_SORT(visits, count, largest_max_first);
    VEC_SORT(visits, count < PAGE_ANCHORS ? count : PAGE_ANCHORS, in_order);
    *ret_all = count;
    return visits;
}

static void json_visit(
        struct json *json, const struct trace_anchor *anchor, const struct model_figures *figures)
{
    json_begin(json, NULL, '{');
    page_json_name(json, "name", anchor->path);
    json_uint(json, "instance", anchor->instance);
    json_known(json, "max_bytes", figures->max);
    json_known(json, "remaining_bytes", figures->remaining);
    json_known(json, "allocated_bytes", figures->allocated);
    json_known(json, "allocated_count", figures->allocated_count);
    json_known(json, "freed_bytes", figures->freed);
    json_known(json, "freed_count", figures->freed_count);
    json_known(json, "peak_live_bytes", figures->peak_live);
    json_end(json, '}');
}

static void json_visits(struct page *page)
{
    const struct report *report = page->report;
    struct model_figures *figures = model_figure_anchors(report->load.trace, report->window);
    size_t count;
    struct visit *visits = list_visits(report, figures, &count);

    json_uint(&page->json, "anchor_count", count);
    json_begin(&page->json, "anchors", '[');
    for (size_t i = 0; i < count && i < PAGE_ANCHORS; i++) {
        const struct trace_anchor *anchor = &report->load.trace->anchors[visits[i].anchor];

        if (anchor->enter < report->load.complete_from)
            figures[visits[i].anchor] = figures_unknown();
        json_visit(&page->json, anchor, &figures[visits[i].anchor]);
    }
    json_end(&page->json, ']');
    free(visits);
    free(figures);
}

static void json_step(struct page *page, const struct stepview_row *row)
{
    struct json *json = &page->json;

    json_begin(json, NULL, '{');
    page_json_anchor(page, "anchor", row->anchor == TRACE_NONE ? 0 : row->anchor);
    json_uint(json, "live_begin_bytes", row->live_begin);
    json_uint(json, "live_end_bytes", row->live_end);
    json_real(json, "likeness", row->anchor == TRACE_NONE ? row->likeness : 1);
    json_uint(json, "peak_live_bytes", row->peak);
    json_uint(json, "allocated_bytes", row->allocated);
    json_uint(json, "allocated_count", row->allocated_count);
    json_end(json, '}');
}

static void json_growers(struct page *page)
{
    const struct stepview *steps = &page->report->stated;
    size_t count = steps->grower_count < PAGE_KEEPERS ? steps->grower_count : PAGE_KEEPERS;
    char **titles = title_rows(page->report->symbols, TITLE_STACKS(steps->growers), count);
    struct json *json = &page->json;

    json_begin(json, "growers", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        page_json_name(json, "name", titles[i]);
        page_json_stack(page, "stack", steps->growers[i].stack);
        json_uint(json, "first_bytes", steps->growers[i].first);
        json_uint(json, "last_bytes", steps->growers[i].last);
        json_uint(json, "rises", steps->growers[i].rises);
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, count);
}

static void json_steps_of(struct page *page)
{
    const struct stepview *steps = &page->report->stated;

    json_text(&page->json, "detected_by",
            steps->origin == STEPVIEW_DETECTED && steps->row_count ? steps->period.reason : NULL);
    json_uint(&page->json, "step_count", steps->row_count);
    json_begin(&page->json, "steps", '[');
    for (size_t i = 0; i < steps->row_count && i < PAGE_STEPS; i++)
        json_step(page, &steps->rows[i]);
    json_end(&page->json, ']');
    json_growers(page);
}

static void json_source(
        struct json *json, const char *name, const struct sources_figures *figures, bool is_device)
{
    json_begin(json, NULL, '{');
    page_json_name(json, "name", name);
    report_json_figures(json, figures);
    json_known(json, "own_peak_bytes", figures->peak);
    json_known(json, "at_max_bytes", figures->at_max);
    json_bool(json, "device_memory", is_device);
    json_end(json, '}');
}

static void json_sources(struct page *page)
{
    const struct sources *sources = &page->report->sources;
    struct json *json = &page->json;

    json_uint(json, "library_count", sources->library_count);
    json_begin(json, "libraries", '[');
    for (size_t i = 0; i < sources->library_count && i < PAGE_LIBRARIES; i++)
        json_source(json, sources->libraries[i].name, &sources->libraries[i].figures, true);
    json_end(json, ']');
    json_begin(json, "classes", '[');
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++)
        if (sources->classes[i].allocated_count)
            json_source(json, sources_class_name((enum memclass)i), &sources->classes[i],
                    i < MEMCLASS_DEVICE_END);
    json_end(json, ']');
}

void page_data_json(struct page *page)
{
    struct json *json = &page->json;

    json_run(json, page->report);
    json_notes(page);
    json_figures_of(json, &page->report->figures);
    json_max(page);
    json_failures(page);
    page_sites_json(page);
    page_timeline_json(page);
    page_flame_json(page);
    page_map_json(page);
    page_waterfall_json(page);
    page_patterns_json(page);
    page_evict_json(page);
    json_hints_of(page);
    json_visits(page);
    json_steps_of(page);
    json_sources(page);
    page_json_frames(page);
    json_end(json, '}');
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/steps/growth.h"

/* Limit for a page. */
#define REPORT_STEPS_ROWS    1000u
#define REPORT_STEPS_GROWERS 50u

#define STACK_LINES  6
#define WIDE_COLUMNS 170

/* ── text ── */

/* Time of an event, since the first event with a time. */
static double report_steps_ms_of(const struct report *report, const struct trace_event *event)
{
    const struct trace *trace = report->load.trace;
    uint64_t began = 0;

    for (size_t i = 0; report->load.capture && i < trace->event_count && began == 0; i++)
        began = trace->events[i].time_ns;
    return event->time_ns > began ? (double)(event->time_ns - began) / 1e6 : 0;
}

/* With room for all columns; else the most useful ones, and --json has all. */
static bool report_steps_is_wide(void)
{
    return render_columns(stdout) >= WIDE_COLUMNS;
}

static void report_steps_print_row(
        const struct report *report, const struct stepview *view, size_t number)
{
    const struct stepview_row *row = &view->rows[number];
    const struct trace_event *events = report->load.trace->events;
    bool grew = row->live_end >= row->live_begin;
    uint64_t change = grew ? row->live_end - row->live_begin : row->live_begin - row->live_end;

    if (report_steps_is_wide()) {
        printf("%6zu %10" PRIu64 " %10" PRIu64 " %10.3f %10.3f %11s", number + 1,
                events[row->first].seq, events[row->behind - 1].seq,
                report_steps_ms_of(report, &events[row->first]),
                report_steps_ms_of(report, &events[row->behind - 1]),
                render_bytes(row->live_begin).text);
        printf(" %11s %c%11s %11s %11s %7" PRIu64 " %11s %7" PRIu64 "  ",
                render_bytes(row->live_end).text, grew ? '+' : '-', render_bytes(change).text,
                render_bytes(row->peak).text, render_bytes(row->allocated).text,
                row->allocated_count, render_bytes(row->freed).text, row->freed_count);
    } else {
        printf("%6zu %11s %c%11s %11s %11s %7" PRIu64 "  ", number + 1,
                render_bytes(row->live_end).text, grew ? '+' : '-', render_bytes(change).text,
                render_bytes(row->peak).text, render_bytes(row->allocated).text,
                row->allocated_count);
    }
    if (row->anchor != TRACE_NONE)
        report_anchor_print(
                &report->load.trace->anchors[row->anchor], report_steps_is_wide() ? 149 : 65);
    else if (row->likeness < 0.7)
        printf("unlike (%.0f %%)\n", 100 * row->likeness);
    else
        putchar('\n');
}

/* The same number of rows at the beginning and at the end. */
static void report_steps_print_rows(const struct report *report, const struct stepview *view)
{
    size_t top = (size_t)report->top;

    if (report_steps_is_wide())
        printf("%6s %10s %10s %10s %10s %11s %11s %12s %11s %11s %7s %11s %7s\n", "step",
                "first seq", "last seq", "begin ms", "end ms", "live before", "after", "change",
                "peak live", "allocated", "count", "freed", "count");
    else
        printf("%6s %11s %12s %11s %11s %7s\n", "step", "live after", "change", "peak live",
                "allocated", "count");
    for (size_t i = 0; i < view->row_count; i++) {
        if (i == top && view->row_count > 2 * top) {
            printf("   ... %zu more (--top, --json)\n", view->row_count - 2 * top);
            i = view->row_count - top;
        }
        report_steps_print_row(report, view, i);
    }
}

static void report_steps_print_sites(const struct report *report, const struct growth *growth,
        enum trend trend, unsigned stack_lines)
{
    static const char *const heads[] = {
            "Grows", "Rose, and may grow", "Filled, and stays", "Comes and goes"};
    size_t count = growth->counts[trend];
    const struct growth_site *sites = growth_first(growth, trend);
    size_t shown = count < report->top ? count : (size_t)report->top;

    if (!sites)
        return;
    printf("\n%s%s%s\n", report->ink.bold, heads[trend], report->ink.off);
    char **titles = title_rows(report->symbols, TITLE_STACKS(sites), shown);
    for (size_t i = 0; i < shown; i++) {
        char *text = growth_text(growth, &sites[i]);
        char *size = vec_format(", in blocks of %" PRIu64 " bytes", sites[i].size);
        fputs("  ", stdout);
        render_label_of(stdout, 2, 4, "%s, now %s%s", text, render_bytes(sites[i].is.last).text,
                sites[i].size ? size : "");
        free(size);
        if (sites[i].stack) {
            fputs("    ", stdout);
            render_label(stdout, titles[i], 4, 4);
        }
        if (sites[i].stack && stack_lines)
            report_stack_print(report, sites[i].stack, "      ", stack_lines);
        free(text);
    }
    title_done(titles, shown);
    figures_print_more(count, report->top, "call site");
}

/* Prints the sites of the first `trends` of them. */
static void report_steps_print_growth(const struct report *report, const struct stepview *view,
        enum trend trends, unsigned stack_lines)
{
    struct growth growth;

    growth_find(&report->load, report->window, view, &growth);
    growth_join(&growth, report->symbols);
    for (enum trend trend = TREND_GROWS; trend < trends; trend++)
        report_steps_print_sites(report, &growth, trend, trend == TREND_GROWS ? stack_lines : 0);
    if (growth.why && trends > TREND_UNKNOWN) {
        putchar('\n');
        render_label_of(stdout, 0, 2, "Growth: not known: %s", growth.why);
    }
    growth_done(&growth);
}

static const char *kind_name(const struct stepview *view)
{
    if (view->origin == STEPVIEW_STATED || view->period.kind == PERIOD_STEPS)
        return "steps";
    return view->period.kind == PERIOD_PARTS ? "parts" : "none";
}

void report_steps_print(const struct report *report)
{
    struct stepview view;

    stepview_find(&report->load, report->window, report->steps, &view);
    if (view.origin == STEPVIEW_STATED) {
        render_print(
                stdout, "Steps: %zu, stated by the program: %s\n", view.row_count, view.family);
    } else if (view.period.kind == PERIOD_STEPS) {
        printf("Steps: %zu, detected: %s\n", view.row_count, view.period.reason);
        if (!view.period.rests)
            puts("  (what lives across the cuts is not a layer's result: a step is made of parts "
                 "that repeat in turn)");
    } else if (view.period.kind == PERIOD_PARTS) {
        printf("Steps: none. Parts that repeat: %s\n  (layers or sub-graphs hand memory on like "
               "that; one step of them would be all that was recorded)\n",
                view.period.reason);
    } else {
        printf("Steps: none: %s\n", view.period.reason);
    }
    if (view.row_count)
        report_steps_print_rows(report, &view);
    report_steps_print_growth(report, &view, TREND_STEADY, STACK_LINES);
    stepview_done(&view);
}

void report_stated_find(struct report *report)
{
    stepview_find(&report->load, report->window, STEPVIEW_ONLY_STATED, &report->stated);
}

void report_growth_print(const struct report *report)
{
    report_steps_print_growth(
            report, NULL, report->view == VIEW_ALL ? TREND_UNKNOWN : TREND_STEADY, 0);
}

/* ── JSON ── */

static void report_steps_json_row(
        struct json *json, const struct report *report, const struct stepview_row *row)
{
    const struct trace_event *begin = &report->load.trace->events[row->first];
    const struct trace_event *end = &report->load.trace->events[row->behind - 1];

    json_begin(json, NULL, '{');
    if (row->anchor != TRACE_NONE) {
        json_text(json, "name", report->load.trace->anchors[row->anchor].path);
        json_uint(json, "instance", report->load.trace->anchors[row->anchor].instance);
    } else {
        json_real(json, "likeness", row->likeness);
    }
    json_uint(json, "first_event", row->first);
    json_uint(json, "first_seq", begin->seq);
    json_uint(json, "last_seq", end->seq);
    json_real(json, "begin_ms", report_steps_ms_of(report, begin));
    json_real(json, "end_ms", report_steps_ms_of(report, end));
    json_uint(json, "live_begin_bytes", row->live_begin);
    json_uint(json, "live_end_bytes", row->live_end);
    json_int(json, "delta_live_bytes", (int64_t)(row->live_end - row->live_begin));
    json_uint(json, "peak_live_bytes", row->peak);
    json_uint(json, "allocated_bytes", row->allocated);
    json_uint(json, "allocated_count", row->allocated_count);
    json_uint(json, "freed_bytes", row->freed);
    json_uint(json, "freed_count", row->freed_count);
    json_end(json, '}');
}

static void report_steps_json_site(struct json *json, const struct report *report,
        const struct growth *growth, const struct growth_site *site, const char *title)
{
    json_begin(json, NULL, '{');
    json_text(json, "round", growth->rounds[site->kind].noun);
    json_uint(json, "rounds", growth->rounds[site->kind].count);
    json_uint(json, "rises", site->is.rises);
    json_uint(json, "first_bytes", site->is.first);
    json_uint(json, "last_bytes", site->is.last);
    if (site->size)
        json_uint(json, "block_bytes", site->size);
    if (site->stack) {
        json_text(json, "title", title);
        json_text(json, "site", symbols_site(report->symbols, site->stack));
        figures_json_stack(json, report->symbols, site->stack, "stack");
    }
    json_end(json, '}');
}

static void report_steps_json_sites(struct json *json, const char *key, const struct report *report,
        const struct growth *growth, enum trend trend)
{
    const struct growth_site *sites = growth_first(growth, trend);
    size_t shown = json_begin_rows(json, key, growth->counts[trend], REPORT_STEPS_GROWERS);
    char **titles = title_rows(report->symbols, TITLE_STACKS(sites), shown);

    for (size_t i = 0; i < shown; i++)
        report_steps_json_site(json, report, growth, &sites[i], titles[i]);
    json_end(json, ']');
    title_done(titles, shown);
}

/* A page has not what was filled. */
static void report_steps_json_growth(
        struct json *json, const struct report *report, const struct stepview *view)
{
    struct growth growth;

    growth_find(&report->load, report->window, view, &growth);
    growth_join(&growth, report->symbols);
    report_steps_json_sites(json, "growers", report, &growth, TREND_GROWS);
    report_steps_json_sites(json, "may_grow", report, &growth, TREND_UNKNOWN);
    if (!json->page)
        report_steps_json_sites(json, "filled", report, &growth, TREND_FILLED);
    json_text(json, "growth_unknown", growth.why);
    growth_done(&growth);
}

void report_steps_json_view(
        struct json *json, const struct report *report, const struct stepview *view)
{
    json_begin(json, "steps", '{');
    json_text(json, "kind", kind_name(view));
    json_text(json, "origin", view->origin == STEPVIEW_STATED ? "stated" : "detected");
    json_text(json, "anchor", view->family);
    if (view->origin == STEPVIEW_DETECTED) {
        json_text(json, "reason", view->period.reason);
        json_bool(json, "rests", view->period.rests);
        json_uint(json, "length", view->period.length);
        json_real(json, "likeness", view->period.likeness);
        json_real(json, "chance", view->period.chance);
        json_uint(json, "handed_on_bytes", view->period.handed_on);
    }
    json_uint(json, "count", view->row_count);
    size_t shown = json_begin_rows(json, "rows", view->row_count, REPORT_STEPS_ROWS);
    for (size_t i = 0; i < shown; i++)
        report_steps_json_row(json, report, &view->rows[i]);
    json_end(json, ']');
    report_steps_json_growth(json, report, view);
    json_end(json, '}');
}

void report_steps_json(struct json *json, const struct report *report)
{
    struct stepview view;

    stepview_find(&report->load, report->window, report->steps, &view);
    report_steps_json_view(json, report, &view);
    stepview_done(&view);
}

/* For a csv this is the whole report. */
void report_steps_json_only(const struct report *report)
{
    struct json json = json_open(stdout);

    json_text(&json, "trace", report->load.path);
    report_steps_json(&json, report);
    json_end(&json, '}');
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/report/sources.h"

#define SITES_SHOWN            3
#define REPORT_SOURCES_ON_PAGE 100u

static const struct rowpick_field fields[] = {
        ROWPICK_UINT("at_max", struct report_library, figures.at_max),
        ROWPICK_UINT("live", struct report_library, figures.live),
        ROWPICK_UINT("live_count", struct report_library, figures.live_count),
        ROWPICK_UINT("allocated", struct report_library, figures.allocated),
        ROWPICK_UINT("allocated_count", struct report_library, figures.allocated_count)};
const struct rowpick_fields report_libraries_fields = ROWPICK_FIELDS(fields);

/* By its name, or by a place that asked through it. */
static bool report_sources_is_kept(const struct report *report, enum view of, uint32_t library)
{
    const struct sources *sources = &report->sources;
    bool is = report_keeps_text(report, of, sources->libraries[library].name);

    for (size_t i = 0; i < sources->site_count && !is; i++)
        is = sources->sites[i].library == library
                && report_keeps(report, of, sources->sites[i].stack, NULL);
    return is;
}

struct report_library *report_libraries(
        const struct report *report, enum view of, size_t *ret_count)
{
    const struct sources *sources = &report->sources;
    struct report_library *rows = vec_new(sources->library_count + 1, sizeof(*rows));
    size_t count = 0;

    for (uint32_t i = 0; i < sources->library_count; i++) {
        const struct sources_figures *figures = &sources->libraries[i].figures;

        if ((of != VIEW_LIBRARIES || figures->allocated_count)
                && report_sources_is_kept(report, of, i))
            rows[count++] = (struct report_library){*figures, i};
    }
    report_sort(report, of, &report_libraries_fields, rows, count, sizeof(*rows));
    *ret_count = count;
    return rows;
}

/* ---- text ---- */

static void report_sources_print_figures(const struct sources_figures *figures)
{
    printf(" %11s", render_bytes(figures->at_max).text);
    printf(" %11s", figures->peak == UINT64_MAX ? "?" : render_bytes(figures->peak).text);
    printf(" %11s", render_bytes(figures->live).text);
    printf(" %11s %8" PRIu64 "  ", render_bytes(figures->allocated).text, figures->allocated_count);
}

static void report_sources_print_sites(
        const struct report *report, const struct sources *sources, uint32_t library)
{
    uint64_t top = report->top;
    uint64_t shown = 0;
    uint64_t all = 0;

    for (size_t i = 0; i < sources->site_count; i++) {
        const struct sources_site *site = &sources->sites[i];
        if (site->library != library)
            continue;
        all++;
        if (shown == top || shown == SITES_SHOWN)
            continue;
        shown++;
        report_sources_print_figures(&site->figures);
        char *line = title_line(report->symbols, site->stack);
        render_label_of(stdout, 60, 8, "by %s", line);
        free(line);
    }
    if (all > shown)
        printf("%60s... %" PRIu64 " more place%s\n", "", all - shown, render_s(all - shown));
}

static void print_library(const struct report *report, const struct sources *sources, uint32_t at)
{
    const struct sources_library *library = &sources->libraries[at];

    printf("%s", report->ink.bold);
    render_label(stdout, library->name, 0, 0);
    printf("%s", report->ink.off);
    report_sources_print_figures(&library->figures);
    puts("all");
    for (size_t i = 0; i < sources->row_count; i++) {
        const struct sources_row *row = &sources->rows[i];
        if (row->library != at)
            continue;
        report_sources_print_figures(&row->figures);
        printf("  %s%s\n", sources_class_name(row->memclass),
                row->memclass >= MEMCLASS_DEVICE_END ? "\n      (not device memory)" : "");
    }
    report_sources_print_sites(report, sources, at);
}

static void print_stack_notes(const struct report *report, const struct sources *sources)
{
    const struct read_capture *capture = report->load.capture;
    const char *stacks = report_setting(capture, "KEDGE_STACKS");

    if (sources->without_stack == 0)
        return;
    report_field(report, report->ink.yellow, "note",
            "%" PRIu64 " of %" PRIu64
            " allocations have no stack%s%s%s: nobody can tell which library asked",
            sources->without_stack, sources->count, *stacks ? " (KEDGE_STACKS=" : "", stacks,
            *stacks ? ")" : "");
}

void report_sources_print(const struct report *report)
{
    const struct sources *sources = &report->sources;

    printf("\n%sWho asked for memory%s\n", report->ink.bold, report->ink.off);
    if (!report_has_sums(report)) {
        puts("  not known");
        return;
    }
    if (sources->count == 0)
        puts("  nobody");
    else
        printf(" %11s %11s %11s %11s %8s\n", "at the max", "own peak", "live at end", "allocated",
                "count");
    size_t count;
    struct report_library *rows = report_libraries(report, VIEW_SOURCES, &count);
    for (size_t i = 0; i < count; i++)
        print_library(report, sources, rows[i].at);
    free(rows);
    print_stack_notes(report, sources);
    if (sources->by_places)
        report_field(report, report->ink.yellow, "note",
                "%s: sums by place as the run kept them; by kind: --view classes",
                load_lacks(report->load.capture));
    else if (report->partial)
        report_field(report, report->ink.yellow, "note", "%s: figures are incomplete",
                load_lacks(report->load.capture));
}

/* ---- JSON ---- */

bool report_json_has_sums(const struct json *json, const struct report *report)
{
    return json->page || report_has_sums(report);
}

void report_json_figures(struct json *json, const struct sources_figures *figures)
{
    json_uint(json, "allocated_bytes", figures->allocated);
    json_uint(json, "allocated_count", figures->allocated_count);
    json_uint(json, "live_bytes", figures->live);
    json_uint(json, "live_count", figures->live_count);
}

static void json_figures(struct json *json, const struct sources_figures *figures)
{
    report_json_figures(json, figures);
    json_known(json, "own_peak_bytes", figures->peak);
    json_uint(json, "at_max_bytes", figures->at_max);
}

static void json_library(
        struct json *json, const struct report *report, const struct sources *sources, uint32_t at)
{
    uint64_t shown = 0;

    json_begin(json, NULL, '{');
    json_text(json, "library", sources->libraries[at].name);
    json_figures(json, &sources->libraries[at].figures);
    json_begin(json, "classes", '[');
    for (size_t i = 0; i < sources->row_count; i++) {
        const struct sources_row *row = &sources->rows[i];
        if (row->library != at)
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "name", sources_class_name(row->memclass));
        json_bool(json, "device_memory", row->memclass < MEMCLASS_DEVICE_END);
        json_figures(json, &row->figures);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_begin(json, "sites", '[');
    for (size_t i = 0; i < sources->site_count && shown < report->top; i++) {
        const struct sources_site *site = &sources->sites[i];
        if (site->library != at)
            continue;
        shown++;
        json_begin(json, NULL, '{');
        json_text(json, "site", site->site);
        json_text(json, "python_site", site->pysite);
        json_figures(json, &site->figures);
        figures_json_stack(json, report->symbols, site->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

void report_sources_json(struct json *json, const struct report *report)
{
    const struct sources *sources = &report->sources;
    size_t count;
    struct report_library *rows;

    if (!report_json_has_sums(json, report)) {
        json_text(json, "sources", NULL);
        json_text(json, "allocations_without_stack", NULL);
        return;
    }
    rows = report_libraries(report, VIEW_SOURCES, &count);
    size_t shown = json_begin_rows(json, "sources", count, REPORT_SOURCES_ON_PAGE);
    for (size_t i = 0; i < shown; i++)
        json_library(json, report, sources, rows[i].at);
    free(rows);
    json_end(json, ']');
    json_uint(json, "allocations_without_stack", sources->without_stack);
}

/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

#include <inttypes.h>

#include "tools/patterns.h"

#define STACK_LINES 6

static const struct {
    const char *key, *title;
} patterns[PATTERNS_COUNT] = {
        {"unused", "Never used"},
        {"late", "Freed late (after the last use, while others were allocated)"},
        {"early", "Allocated early (before the first use, while others were freed)"},
        {"idle", "Idle (longest time between two uses)"},
};

static const struct {
    const char *key, *why;
} doubts[PATTERNS_DOUBTS] = {
        {"not_watched", "their uses were not recorded (KEDGE_TRACE=uses=on)"},
        {"lost", "their uses could not be recorded"},
        {"shown", "they were shown to what uses them unseen"},
        {"unseen", "they lived while a call was made whose arguments are not known"},
};

/* ---- text ---- */

static void print_doubts(const struct patterns_figures *figures)
{
    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++)
        if (figures->doubts[i])
            printf("  not judged: %" PRIu64 " block%s: %s\n", figures->doubts[i],
                    render_s(figures->doubts[i]), doubts[i].why);
    if (figures->doubtful_bytes)
        printf("  not judged: %s in all\n", render_bytes(figures->doubtful_bytes).text);
}

static void print_place(
        const struct report *report, const struct patterns_row *row, const char *title)
{
    const struct trace_anchor *anchor = &report->load.trace->anchors[row->anchor];

    fputs("\n      ", stdout);
    render_label(stdout, title, 6, 6);
    if (row->anchor != 0) {
        fputs("      in ", stdout);
        report_anchor_print(anchor, 9);
    }
}

static void print_pattern(
        const struct report *report, enum patterns_kind pattern, const struct patterns_found *found)
{
    printf("\n%s%s%s\n", report->ink.bold, patterns[pattern].title, report->ink.off);
    if (found->count == 0) {
        puts("  none");
        return;
    }
    printf("  %12s %12s %8s %12s %10s\n", "bytes x s", "bytes", "blocks", "at the peak", "ms");
    size_t shown = found->count < report->top ? found->count : (size_t)report->top;
    char **rows = title_rows(report->symbols, TITLE_STACKS(found->row), shown);
    for (size_t i = 0; i < shown; i++) {
        const struct patterns_row *row = &found->row[i];

        printf("  %12.4g %12s %8" PRIu64 " %12s %10.3f", row->cost, render_bytes(row->bytes).text,
                row->count, render_bytes(row->at_peak).text, (double)row->longest_ns / 1e6);
        print_place(report, row, rows[i]);
        figures_print_stack(stdout, report->symbols, row->stack, "              ", STACK_LINES);
    }
    title_done(rows, shown);
    figures_print_more(found->count, report->top, "stack");
}

void report_uses_print(const struct report *report)
{
    const struct format_unseen *unseen = &report->load.capture->unseen;
    struct patterns_figures figures;

    patterns_figure(report->load.trace, report->window, &figures);
    printf("\n%sUses%s of %" PRIu64 " block%s, %s\n", report->ink.bold, report->ink.off,
            figures.judged, render_s(figures.judged), render_bytes(figures.judged_bytes).text);
    if (unseen->count)
        printf("  %" PRIu64 " call%s whose arguments are not known\n", unseen->count,
                render_s(unseen->count));
    print_doubts(&figures);
    if (figures.judged) {
        printf("  Max %s, with each of them freed after its last use %s\n",
                render_bytes(figures.peak).text, render_bytes(figures.peak_then).text);
        for (unsigned p = 0; p < PATTERNS_COUNT; p++)
            print_pattern(report, (enum patterns_kind)p, &figures.of[p]);
    }
    patterns_free(&figures);
}

/* ---- JSON ---- */

static void json_row(struct json *json, const struct report *report, const struct patterns_row *row,
        const char *title)
{
    const struct trace_anchor *anchor = &report->load.trace->anchors[row->anchor];

    json_begin(json, NULL, '{');
    json_text(json, "title", title);
    json_text(json, "site", symbols_site(report->symbols, row->stack));
    json_text(json, "anchor", row->anchor ? anchor->path : NULL);
    json_uint(json, "instance", row->anchor ? anchor->instance : 0);
    json_real(json, "byte_seconds", row->cost);
    json_uint(json, "bytes", row->bytes);
    json_uint(json, "count", row->count);
    json_uint(json, "at_peak_bytes", row->at_peak);
    json_uint(json, "longest_ns", row->longest_ns);
    figures_json_stack(json, report->symbols, row->stack, "stack");
    json_end(json, '}');
}

void report_uses_json(struct json *json, const struct report *report)
{
    struct patterns_figures figures;

    patterns_figure(report->load.trace, report->window, &figures);
    json_begin(json, "uses", '{');
    json_bool(json, "recorded", report->load.capture->unseen.is_on != 0);
    json_uint(json, "unseen_calls", report->load.capture->unseen.count);
    json_uint(json, "judged_count", figures.judged);
    json_uint(json, "judged_bytes", figures.judged_bytes);
    json_begin(json, "not_judged", '{');
    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++)
        json_uint(json, doubts[i].key, figures.doubts[i]);
    json_end(json, '}');
    json_uint(json, "max_bytes", figures.peak);
    json_uint(json, "max_freed_after_last_use_bytes", figures.peak_then);
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        const struct patterns_found *found = &figures.of[p];

        json_begin(json, patterns[p].key, '[');
        size_t shown = found->count < report->top ? found->count : (size_t)report->top;
        char **rows = title_rows(report->symbols, TITLE_STACKS(found->row), shown);
        for (size_t i = 0; i < shown; i++)
            json_row(json, report, &found->row[i], rows[i]);
        title_done(rows, shown);
        json_end(json, ']');
    }
    json_end(json, '}');
    patterns_free(&figures);
}

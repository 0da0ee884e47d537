/* SPDX-License-Identifier: MIT */
#include "tools/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/vec.h"

/* An anchor instance of the window. */
struct row {
    const struct trace_anchor *anchor;
    struct model_figures figures;
};

static const struct rowpick_field fields[] = {
        ROWPICK_UINT("remaining", struct row, figures.remaining),
        ROWPICK_UINT("max", struct row, figures.max),
        ROWPICK_UINT("allocated", struct row, figures.allocated),
        ROWPICK_UINT("allocated_count", struct row, figures.allocated_count),
        ROWPICK_UINT("freed", struct row, figures.freed),
        ROWPICK_UINT("freed_count", struct row, figures.freed_count),
        ROWPICK_UINT("peak_live", struct row, figures.peak_live),
        ROWPICK_UINT("peak_reserved", struct row, figures.peak_reserved)};
const struct rowpick_fields report_anchors_fields = ROWPICK_FIELDS(fields);

/* In the order in which they were entered, or as --sort says; the caller frees the array. */
static struct row *collect(const struct report *report, size_t *ret_count)
{
    const struct trace *trace = report->load.trace;
    struct model_figures *figures = model_figure_anchors(trace, report->window);
    struct row *rows = vec_new(trace->anchor_count, sizeof(*rows));
    size_t count = 0;

    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];

        if (report_has_anchor(report, i) && report_keeps_text(report, VIEW_ANCHORS, anchor->path))
            rows[count++] = (struct row){anchor,
                    anchor->enter >= report->load.complete_from ? figures[i] : figures_unknown()};
    }
    free(figures);
    report_sort(report, VIEW_ANCHORS, &report_anchors_fields, rows, count, sizeof(*rows));
    *ret_count = count;
    return rows;
}

void report_anchors_print(const struct report *report)
{
    size_t count;
    struct row *rows = collect(report, &count);

    printf("\n%11s %11s %11s %7s %11s %7s  %s\n", "Remaining", "Max", "Allocated", "count", "Freed",
            "count", "anchor");
    for (size_t i = 0; i < count; i++) {
        const struct model_figures *f = &rows[i].figures;

        if (f->allocated == MODEL_UNKNOWN)
            printf("%11s %11s %11s %7s %11s %7s  ", "?", "?", "?", "?", "?", "?");
        else
            printf("%11s %11s %11s %7" PRIu64 " %11s %7" PRIu64 "  ",
                    render_bytes(f->remaining).text, render_bytes(f->max).text,
                    render_bytes(f->allocated).text, f->allocated_count,
                    render_bytes(f->freed).text, f->freed_count);
        report_anchor_print(rows[i].anchor, 65);
    }
    free(rows);
}

void report_anchors_json(struct json *json, const struct report *report)
{
    size_t count;
    struct row *rows = collect(report, &count);

    json_begin(json, "anchors", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "name", rows[i].anchor->path);
        json_uint(json, "instance", rows[i].anchor->instance);
        figures_json(json, &rows[i].figures);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

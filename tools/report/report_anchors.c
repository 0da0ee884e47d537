/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"

#define REPORT_ANCHORS_ON_PAGE 400u /* the anchors with the highest Max */

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

/* In the order in which they were entered, or by --sort; the caller frees the array. */
static struct row *report_anchors_collect(const struct report *report, size_t *ret_count)
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
    struct row *rows = report_anchors_collect(report, &count);

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

static int report_anchors_in_order(const void *a, const void *b)
{
    const struct trace_anchor *x = ((const struct row *)a)->anchor;
    const struct trace_anchor *y = ((const struct row *)b)->anchor;

    return (x > y) - (x < y);
}

/* Unknown values come last: they are the largest number, plus 1. */
static int report_anchors_by_max(const void *a, const void *b)
{
    uint64_t x = ((const struct row *)a)->figures.max + 1;
    uint64_t y = ((const struct row *)b)->figures.max + 1;

    return x != y ? (x < y) - (x > y) : report_anchors_in_order(a, b);
}

void report_anchors_json(struct json *json, const struct report *report)
{
    size_t count;
    struct row *rows = report_anchors_collect(report, &count);
    size_t shown = json_begin_rows(json, "anchors", count, REPORT_ANCHORS_ON_PAGE);

    if (shown < count) {
        VEC_SORT(rows, count, report_anchors_by_max);
        VEC_SORT(rows, shown, report_anchors_in_order);
    }
    for (size_t i = 0; i < shown; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "name", rows[i].anchor->path);
        json_uint(json, "instance", rows[i].anchor->instance);
        figures_json(json, &rows[i].figures);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

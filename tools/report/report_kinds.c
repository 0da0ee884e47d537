/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

#define NAMES_SHOWN 3u
#define NAMES_JSON  1000u /* of a kind */

/* Blocks of one kind that are live at one moment. */
struct kind_row {
    enum datakind kind;
    uint64_t bytes, count;
    struct trace_sum *blocks; /* that have names: `count` is the block's number */
    size_t named, room;
};

struct kind_rows {
    struct kind_row row[DATAKIND_COUNT]; /* by kind */
    uint64_t bytes;
};

static const struct vec_key report_kinds_largest[] = {
        VEC_DOWN(struct trace_sum, bytes), VEC_UP(struct trace_sum, count)};

/* Those live just before event `at` that were made in the window. `device` -1: on all. */
static struct kind_rows report_kinds_rows(const struct report *report, uint32_t at, int device)
{
    const struct trace *trace = report->load.trace;
    struct kind_rows rows = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct kind_row *row = &rows.row[report->kinds.of[i]];

        if (!report_is_made(report, block) || block->born >= at || block->died < at
                || (device >= 0 && block->device != device))
            continue;
        row->bytes += block->size;
        row->count++;
        rows.bytes += block->size;
        if (report->kinds.name[i] != TRACE_NONE)
            VEC_PUSH(row->blocks, row->named, row->room) =
                    (struct trace_sum){.count = i, .bytes = block->size};
    }
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++) {
        rows.row[kind].kind = (enum datakind)kind;
        VEC_SORT_BY(rows.row[kind].blocks, rows.row[kind].named, report_kinds_largest);
    }
    return rows;
}

static void report_kinds_done(struct kind_rows *rows)
{
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++)
        free(rows->row[kind].blocks);
}

static uint32_t report_kinds_moment(const struct report *report, enum view of)
{
    return of == VIEW_HWM ? report_peak(report) : report->window.last;
}

static bool report_kinds_are_told(const struct report *report, enum view of)
{
    return report->kinds.of
            && (of == VIEW_HWM ? !report_lacks_events(report) : report_has_sums(report));
}

/* ---- text ---- */

/* "parameters 2.47 MiB, gradients 2.47 MiB"; the caller frees it. */
static char *report_kinds_line(const struct kind_rows *rows)
{
    char *line = vec_text("");

    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++) {
        char *longer;

        if (rows->row[kind].count == 0)
            continue;
        longer = vec_format("%s%s%s %s", line, *line ? ", " : "",
                datakind_name((enum datakind)kind), render_bytes(rows->row[kind].bytes).text);
        free(line);
        line = longer;
    }
    return line;
}

static void report_kinds_print_row(const struct report *report, const struct kind_row *row)
{
    size_t shown = row->named < NAMES_SHOWN ? row->named : NAMES_SHOWN;

    printf("  %11s  %6" PRIu64 " block%-3s %s\n", render_bytes(row->bytes).text, row->count,
            render_s(row->count), datakind_name(row->kind));
    for (size_t i = 0; i < shown; i++) {
        char *name = datakind_new_text(&report->kinds, (uint32_t)row->blocks[i].count);

        printf("  %11s  %20s", render_bytes(row->blocks[i].bytes).text, "");
        render_label(stdout, name, 33, 6);
        free(name);
    }
    if (row->named > shown)
        printf("  %11s  %20sand %zu more with names\n", "", "", row->named - shown);
}

void report_kinds_print(const struct report *report, enum view of)
{
    struct kind_rows rows;

    printf("\n%sLive at the %s, by kind%s\n", report->ink.bold, of == VIEW_HWM ? "maximum" : "end",
            report->ink.off);
    if (!report_kinds_are_told(report, of)) {
        puts("  not known");
        return;
    }
    rows = report_kinds_rows(report, report_kinds_moment(report, of), -1);
    if (rows.bytes == 0)
        puts("  nothing");
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++)
        if (rows.row[kind].count)
            report_kinds_print_row(report, &rows.row[kind]);
    report_kinds_done(&rows);
}

void report_kinds_print_limits(const struct report *report)
{
    if (report->kinds.is_cut)
        report_field(report, report->ink.yellow, "note",
                "not all objects were looked at, or the record had no room for their names");
    if (report->kinds.is_busy)
        report_field(report, report->ink.yellow, "note",
                "a backward pass ran when kedge looked: some gradients have no name");
}

void report_kinds_print_short(const struct report *report)
{
    struct kind_rows rows;
    char *line;

    if (!report_kinds_are_told(report, VIEW_HWM))
        return;
    rows = report_kinds_rows(report, report_peak(report), -1);
    line = report_kinds_line(&rows);
    if (rows.bytes) {
        printf("\n%sBy kind:%s ", report->ink.bold, report->ink.off);
        render_label(stdout, line, 9, 2);
    }
    free(line);
    report_kinds_done(&rows);
}

void report_kinds_print_oom(const struct report *report, const struct load_oom *oom)
{
    struct kind_rows rows;

    if (!report->kinds.of || !report_oom_is_told(report, oom))
        return;
    rows = report_kinds_rows(report, oom->at, oom->device);
    if (rows.bytes)
        puts("  live then, by kind:");
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++)
        if (rows.row[kind].count)
            printf("    %12s %8" PRIu64 "  %s\n", render_bytes(rows.row[kind].bytes).text,
                    rows.row[kind].count, datakind_name((enum datakind)kind));
    report_kinds_done(&rows);
}

/* ---- JSON ---- */

static void report_kinds_json_names(
        struct json *json, const struct report *report, const struct kind_row *row)
{
    size_t shown = row->named < NAMES_JSON ? row->named : NAMES_JSON;

    json_begin(json, "names", '[');
    for (size_t i = 0; i < shown; i++) {
        char *name = datakind_new_text(&report->kinds, (uint32_t)row->blocks[i].count);

        json_begin(json, NULL, '{');
        json_text(json, "name", name);
        json_uint(json, "bytes", row->blocks[i].bytes);
        json_end(json, '}');
        free(name);
    }
    json_end(json, ']');
}

static void report_kinds_json_rows(struct json *json, const struct report *report,
        const struct kind_rows *rows, const char *key)
{
    json_begin(json, key, '[');
    for (unsigned kind = 0; kind < DATAKIND_COUNT; kind++) {
        const struct kind_row *row = &rows->row[kind];

        if (row->count == 0)
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "kind", datakind_name((enum datakind)kind));
        json_uint(json, "bytes", row->bytes);
        json_uint(json, "count", row->count);
        report_kinds_json_names(json, report, row);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void report_kinds_json_view(
        struct json *json, const struct report *report, enum view of, const char *key)
{
    struct kind_rows rows;

    if (!report_kinds_are_told(report, of)) {
        json_text(json, key, NULL);
        return;
    }
    rows = report_kinds_rows(report, report_kinds_moment(report, of), -1);
    report_kinds_json_rows(json, report, &rows, key);
    report_kinds_done(&rows);
}

void report_kinds_json(struct json *json, const struct report *report)
{
    if (!report->kinds.of)
        return;
    report_kinds_json_view(json, report, VIEW_HWM, "kinds_at_max");
    report_kinds_json_view(json, report, VIEW_LIVE, "kinds_at_end");
}

void report_kinds_json_oom(
        struct json *json, const struct report *report, const struct load_oom *oom)
{
    struct kind_rows rows;

    if (!report->kinds.of || !report_oom_is_told(report, oom))
        return;
    rows = report_kinds_rows(report, oom->at, oom->device);
    report_kinds_json_rows(json, report, &rows, "kinds");
    report_kinds_done(&rows);
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

#define STACK_LINES 6

/* Live blocks of a stack, or of a --by group. */
struct row {
    uint32_t stack;   /* of the first block */
    const char *name; /* NULL: named by its stack */
    uint64_t bytes, count;
};

static const struct rowpick_field fields[] = {
        ROWPICK_UINT("bytes", struct row, bytes), ROWPICK_UINT("count", struct row, count)};
const struct rowpick_fields report_live_fields = ROWPICK_FIELDS(fields);

struct rows {
    struct row *at; /* most bytes first, or by --sort */
    size_t count, room;
    size_t shown;
    char **titles; /* of the rows that are shown */
};

static const struct vec_key report_live_most_first[] = {
        VEC_DOWN(struct row, bytes), VEC_UP(struct row, stack)};

static void report_live_add_block(const struct report *report, enum view of,
        const struct trace_block *block, struct keytable *index, struct rows *rows)
{
    const char *path = report->load.trace->anchors[block->anchor].path;
    const struct report_group group = {.stack = block->stack,
            .anchor = path,
            .memclass = block->memclass,
            .device = block->device,
            .block = (uint32_t)(block - report->load.trace->blocks)};
    const char *name = report->view == of ? report_group_name(report, &group) : NULL;
    struct key key = name ? keytable_text(name) : (struct key){block->stack, 0, 0};
    uint32_t at;

    if (!report_keeps(report, of, block->stack, path)
            && !report_keeps_text(report, of, sources_class_name(block->memclass)))
        return;
    at = keytable_number(index, key);
    if (at == rows->count)
        VEC_PUSH(rows->at, rows->count, rows->room) =
                (struct row){.stack = block->stack, .name = name};
    rows->at[at].bytes += block->size;
    rows->at[at].count++;
}

/* The blocks live just before event `at` that were born in the window. */
static struct rows report_live_collect(const struct report *report, enum view of, uint32_t at)
{
    const struct trace *trace = report->load.trace;
    struct keytable index = {0};
    struct rows rows = {0};

    rows.at = vec_grow(NULL, 1, sizeof(*rows.at), &rows.room);
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (report_is_made(report, block) && block->born < at && block->died >= at)
            report_live_add_block(report, of, block, &index, &rows);
    }
    keytable_done(&index);
    VEC_SORT_BY(rows.at, rows.count, report_live_most_first);
    report_sort(report, of, &report_live_fields, rows.at, rows.count, sizeof(*rows.at));
    rows.shown = rows.count < report->top ? rows.count : (size_t)report->top;
    rows.titles = title_rows(report->symbols, TITLE_STACKS(rows.at), rows.shown);
    return rows;
}

static void rows_done(struct rows *rows)
{
    title_done(rows->titles, rows->shown);
    free(rows->at);
}

static uint32_t moment_of(const struct report *report, enum view of)
{
    return of == VIEW_HWM ? report_peak(report) : report->window.last;
}

static bool report_live_is_known(const struct report *report, enum view of)
{
    return of == VIEW_HWM ? !report_lacks_events(report) : report_has_sums(report);
}

/*
 * Blocks that were not recorded, freed or not: without a slot a block is in no event either if the
 * disk was full.
 */
static uint64_t count_lacking(const struct report *report, enum view of)
{
    return of == VIEW_LIVE ? report->load.capture->lost.live_dropped : 0;
}

void report_live_print(const struct report *report, enum view of)
{
    struct rows rows = {0};
    uint64_t lacks = count_lacking(report, of);
    const char *by = report->view == of ? report_by_word(report->by) : "stack";

    if (report_live_is_known(report, of))
        rows = report_live_collect(report, of, moment_of(report, of));
    printf("\n%sLive at the %s, by %s%s\n", report->ink.bold, of == VIEW_HWM ? "maximum" : "end",
            by, report->ink.off);
    if (rows.count == 0)
        puts(!report_live_is_known(report, of) || lacks ? "  not known" : "  nothing");
    else if (lacks)
        printf("  and %" PRIu64 " more that the live table had no room for, at most\n", lacks);
    for (size_t i = 0; i < rows.shown; i++) {
        const struct row *row = &rows.at[i];

        printf("  %11s  %6" PRIu64 " block%-3s", render_bytes(row->bytes).text, row->count,
                render_s(row->count));
        render_label(stdout, row->name ? row->name : rows.titles[i], 33, 6);
        if (!row->name)
            report_stack_print(report, row->stack, "              ", STACK_LINES);
    }
    figures_print_more(
            rows.count, report->top, report_by_noun(report->view == of ? report->by : 0));
    rows_done(&rows);
}

void report_live_json(struct json *json, const struct report *report, enum view of, const char *key)
{
    struct rows rows = {0};

    if (report_live_is_known(report, of))
        rows = report_live_collect(report, of, moment_of(report, of));
    if (!report_live_is_known(report, of) || (rows.count == 0 && count_lacking(report, of))) {
        json_text(json, key, NULL);
        rows_done(&rows);
        return;
    }
    json_begin(json, key, '[');
    for (size_t i = 0; i < rows.shown; i++) {
        const struct row *row = &rows.at[i];

        json_begin(json, NULL, '{');
        json_text(json, "title", row->name ? row->name : rows.titles[i]);
        json_uint(json, "count", row->count);
        json_uint(json, "bytes", row->bytes);
        if (!row->name) {
            json_text(json, "site", symbols_site(report->symbols, row->stack));
            json_text(json, "python_site", symbols_pysite(report->symbols, row->stack));
            figures_json_stack(json, report->symbols, row->stack, "stack");
        }
        json_end(json, '}');
    }
    json_end(json, ']');
    rows_done(&rows);
}

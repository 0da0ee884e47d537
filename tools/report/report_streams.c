/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

/* Requests of one call site on one stream. */
struct row {
    struct trace_sum sum;
    uint32_t stack;
    int device;
    uint16_t stream; /* as tag.stream */
};

struct rows {
    struct row *at;
    size_t count, room;
};

static int by_stream(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->sum.bytes != b->sum.bytes)
        return a->sum.bytes < b->sum.bytes ? 1 : -1;
    return (a->stack > b->stack) - (a->stack < b->stack);
}

static struct rows find_rows(const struct report *report)
{
    const struct trace *trace = report->load.trace;
    struct keytable known = {0};
    struct rows rows = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        uint64_t place = (uint64_t)block->device << 32 | block->stack;

        if (block->born < report->window.first || block->born >= report->window.last)
            continue;
        uint32_t number = keytable_number(&known, (struct key){place, block->stream_number, 0});
        if (number == rows.count)
            VEC_PUSH(rows.at, rows.count, rows.room) = (struct row){
                    .stack = block->stack, .device = block->device, .stream = block->stream_number};
        trace_sum_add(&rows.at[number].sum, block->size);
    }
    keytable_done(&known);
    VEC_SORT(rows.at, rows.count, by_stream);
    return rows;
}

/* The number of rows from here on for the same stream, and their sum. */
static size_t report_streams_count_of(
        const struct rows *rows, size_t first, struct trace_sum *ret_sum)
{
    size_t i = first;

    *ret_sum = (struct trace_sum){0, 0};
    for (; i < rows->count && rows->at[i].device == rows->at[first].device
            && rows->at[i].stream == rows->at[first].stream;
            i++)
        trace_sum_join(ret_sum, rows->at[i].sum);
    return i - first;
}

static void print_stream(const struct report *report, const struct row *row, size_t count,
        const struct trace_sum *sum)
{
    size_t shown = count < report->top ? count : (size_t)report->top;
    char **titles = title_rows(report->symbols, TITLE_STACKS(row), shown);

    printf("\n%s", report->ink.bold);
    if (row->stream)
        printf("Stream %u", row->stream - 1u);
    else
        printf("No stream, or an unknown one,");
    printf(" of device %d%s: %s in %" PRIu64 " block%s\n", row->device, report->ink.off,
            render_bytes(sum->bytes).text, sum->count, render_s(sum->count));
    for (size_t i = 0; i < shown; i++) {
        printf("  %12s %8" PRIu64 "  ", render_bytes(row[i].sum.bytes).text, row[i].sum.count);
        render_label(stdout, titles[i], 25, 6);
    }
    title_done(titles, shown);
    figures_print_more(count, report->top, "stack");
}

void report_streams_print(const struct report *report)
{
    struct rows rows = find_rows(report);
    struct trace_sum sum;
    size_t count;

    for (size_t i = 0; i < rows.count; i += count) {
        count = report_streams_count_of(&rows, i, &sum);
        print_stream(report, &rows.at[i], count, &sum);
    }
    free(rows.at);
}

void report_streams_json(struct json *json, const struct report *report)
{
    struct rows rows;
    struct trace_sum sum;
    size_t count;

    if (report_lacks_events(report)) {
        json_text(json, "streams", NULL);
        return;
    }
    rows = find_rows(report);
    json_begin(json, "streams", '[');
    for (size_t i = 0; i < rows.count; i += count) {
        count = report_streams_count_of(&rows, i, &sum);
        json_begin(json, NULL, '{');
        json_int(json, "device", rows.at[i].device);
        json_known(json, "stream", rows.at[i].stream ? rows.at[i].stream - 1u : UINT64_MAX);
        json_uint(json, "allocated_bytes", sum.bytes);
        json_uint(json, "allocated_count", sum.count);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows.at);
}

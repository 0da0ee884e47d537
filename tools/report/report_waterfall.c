/* SPDX-License-Identifier: MIT */
#include "tools/base/filename.h"
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/load/waterfall.h"

#define REPORT_WATERFALL_ON_PAGE 30u /* libraries */

/* ---- text ---- */

static char *report_waterfall_text(const struct report *report, const struct waterfall_row *row)
{
    static const char *const texts[WATERFALL_PARTS] = {
            [WATERFALL_LIBRARY] = "past kedge's pool, by whom is not told apart",
            [WATERFALL_GRAPHS] = "held by the driver for graphs",
            [WATERFALL_POOL] = "kedge's pool: what is live and free in it is not told apart",
            [WATERFALL_REQUESTED] = "kedge's pool, live: as the program asked",
            [WATERFALL_ROUNDING] = "kedge's pool, live: what rounding to 512 bytes adds",
            [WATERFALL_POOL_FREE] = "kedge's pool, free",
            [WATERFALL_FREE] = "free on the device",
    };
    bool has_managed = report->sources.classes[MEMCLASS_MANAGED].allocated_count != 0;

    if (row->part == WATERFALL_OUTSIDE)
        return vec_format("contexts, modules, the driver's own,%s other processes (not told apart)",
                has_managed ? " managed memory," : "");
    if (row->part == WATERFALL_LIBRARY && row->name)
        return vec_format("past kedge's pool, by %s", filename_of(row->name));
    if (row->part == WATERFALL_FRAMEWORK)
        return vec_format(
                "%s's own pool: what is live and free in it is not told apart", row->name);
    return vec_text(texts[row->part]);
}

static void print_parts(const struct report *report, const struct waterfall *waterfall)
{
    for (size_t i = 0; i < waterfall->count; i++) {
        char *text = report_waterfall_text(report, &waterfall->rows[i]);

        printf("  %11s  ", render_bytes(waterfall->rows[i].bytes).text);
        render_label(stdout, text, 15, 15);
        free(text);
    }
    if (waterfall->is_short)
        puts("  More is counted than the device has in use: not all of it is backed yet.");
}

void report_waterfall_print(const struct report *report)
{
    struct waterfall waterfall;

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        if (!waterfall_of_look(&report->load, report->symbols, i, &waterfall))
            continue;
        printf("\n%sDevice %u, all of its %s%s, when kedge looked last", report->ink.bold, i,
                render_bytes(waterfall.total).text, report->ink.off);
        if (waterfall.time_ns)
            printf(" (at %.3f s)", (double)waterfall.time_ns / 1e9);
        putchar('\n');
        print_parts(report, &waterfall);
        if (report->load.capture->look[i].graph_high)
            printf("  the driver held at most %s for graphs\n",
                    render_bytes(report->load.capture->look[i].graph_high).text);
        waterfall_done(&waterfall);
    }
}

void report_waterfall_print_oom(const struct report *report, const struct load_oom *oom)
{
    struct waterfall waterfall;

    if (!waterfall_of_oom(&report->load, report->symbols, oom, &waterfall))
        return;
    printf("  all of the device's %s:\n", render_bytes(waterfall.total).text);
    print_parts(report, &waterfall);
    waterfall_done(&waterfall);
}

/* ---- JSON ---- */

static void report_waterfall_json_part(
        struct json *json, const struct report *report, const struct waterfall_row *row)
{
    char *title = report_waterfall_text(report, row);

    json_begin(json, NULL, '{');
    json_text(json, "part", waterfall_word(row->part));
    json_text(json, "name", row->name);
    json_text(json, "title", title);
    json_uint(json, "bytes", row->bytes);
    json_bool(json, "told_apart", waterfall_is_told_apart(row));
    json_end(json, '}');
    free(title);
}

static void json_rows(
        struct json *json, const struct report *report, const struct waterfall *waterfall)
{
    struct trace_sum others = {0};
    unsigned libraries = 0;

    json_int(json, "device", waterfall->device);
    json_uint(json, "total_bytes", waterfall->total);
    json_real(json, "at_ms", (double)waterfall->time_ns / 1e6);
    json_bool(json, "short", waterfall->is_short);
    json_begin(json, "parts", '[');
    for (size_t i = 0; i < waterfall->count; i++) {
        const struct waterfall_row *row = &waterfall->rows[i];

        if (json->page && row->part == WATERFALL_LIBRARY && ++libraries > REPORT_WATERFALL_ON_PAGE)
            trace_sum_add(&others, row->bytes);
        else
            report_waterfall_json_part(json, report, row);
    }
    json_end(json, ']');
    if (others.count)
        figures_json_sum(json, "other_libraries", &others);
}

void report_waterfall_json(struct json *json, const struct report *report)
{
    struct waterfall waterfall;

    json_begin(json, "waterfall", '[');
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        if (!waterfall_of_look(&report->load, report->symbols, i, &waterfall))
            continue;
        json_begin(json, NULL, '{');
        json_rows(json, report, &waterfall);
        json_end(json, '}');
        waterfall_done(&waterfall);
    }
    json_end(json, ']');
}

void report_waterfall_json_oom(
        struct json *json, const struct report *report, const struct load_oom *oom)
{
    struct waterfall waterfall;

    if (!waterfall_of_oom(&report->load, report->symbols, oom, &waterfall))
        return;
    json_begin(json, "waterfall", '{');
    json_rows(json, report, &waterfall);
    json_end(json, '}');
    waterfall_done(&waterfall);
}

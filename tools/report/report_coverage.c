/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tools/import/import_capture.h"

/*
 * Routes by their names in the capture; hooks that were handed out by look-up have their calls
 * under "called".
 */
static const char route_called[] = "called";
static const char route_symbol[] = "symbol";
static const char route_unhooked[] = "unhooked";
static const char pool_setting[] = "framework-pool.";

enum {
    NAMES_SHOWN = 8,
};

static bool is_route(const struct read_coverage *row, const char *route)
{
    return strcmp(row->route, route) == 0;
}

/* The framework of a setting that reports a pool of its own; NULL for any other setting. */
static const char *report_coverage_pool_of(const struct read_capture *capture, size_t setting)
{
    const char *name = capture->setting[setting].name;
    size_t length = sizeof(pool_setting) - 1;

    return strncmp(name, pool_setting, length) == 0 ? name + length : NULL;
}

static void print_hooks(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    uint64_t calls = 0;
    uint64_t look_ups = 0;
    size_t called = 0;
    size_t by_symbol = 0;

    for (size_t i = 0; i < capture->coverage_count; i++) {
        const struct read_coverage *row = &capture->coverage[i];
        if (is_route(row, route_called)) {
            called++;
            calls += row->count;
        } else if (is_route(row, route_symbol)) {
            by_symbol++;
        } else if (!is_route(row, route_unhooked)) {
            look_ups++;
        }
    }
    report_field(report, "", "coverage",
            "%zu hook%s called, %" PRIu64 " call%s; %" PRIu64
            " found by look-up, %zu linked (--json lists them)",
            called, render_s(called), calls, render_s(calls), look_ups, by_symbol);
}

/*
 * A query or advice: it neither creates nor ends memory, nor changes its content. Runtimes look all
 * of them up.
 */
static bool report_is_harmless(const char *name)
{
    static const char *const beginnings[] = {
            "cuMemAdvise", "cuMemPrefetch", "cuMemRangeGetAttribute"};

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static void print_unhooked(const struct report *report)
{
    static const char unhooked[] = ": looked up or linked by the program, no hook of kedge's";
    const struct read_capture *capture = report->load.capture;
    char *names = vec_text("");
    size_t count = 0;

    for (size_t i = 0; i < capture->coverage_count; i++) {
        if (!is_route(&capture->coverage[i], route_unhooked)
                || report_is_harmless(capture->coverage[i].hook) || count++ >= NAMES_SHOWN)
            continue;
        char *longer = vec_format("%s%s%s", names, *names ? ", " : "", capture->coverage[i].hook);
        free(names);
        names = longer;
    }
    if (count > NAMES_SHOWN)
        report_field(report, report->ink.yellow, "unhooked", "%s and %zu more%s", names,
                count - NAMES_SHOWN, unhooked);
    else if (count)
        report_field(report, report->ink.yellow, "unhooked", "%s%s", names, unhooked);
    free(names);
}

void report_coverage_print(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;

    if (report->is_whole && capture->coverage_count)
        print_hooks(report);
    if (report->is_whole)
        print_unhooked(report);
    if (capture->unseen.count)
        report_field(report, report->ink.yellow, "unseen",
                "%" PRIu64
                " call%s with arguments that nobody tells: what lived then is not judged",
                capture->unseen.count, render_s(capture->unseen.count));
    for (size_t i = 0; i < capture->setting_count; i++) {
        if (report_coverage_pool_of(capture, i))
            report_field(report, report->ink.yellow, "framework",
                    "%s keeps a pool of its own: the figures are its segments, not tensors; set %s",
                    report_coverage_pool_of(capture, i), capture->setting[i].value);
    }
}

void report_coverage_json(struct json *json, const struct report *report)
{
    const struct read_capture *capture = report->load.capture;

    json_begin(json, "coverage", '[');
    for (size_t i = 0; i < capture->coverage_count; i++) {
        if (is_route(&capture->coverage[i], route_unhooked))
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "hook", capture->coverage[i].hook);
        json_text(json, "route", capture->coverage[i].route);
        json_uint(json, "count", capture->coverage[i].count);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_begin(json, "unhooked", '[');
    for (size_t i = 0; i < capture->coverage_count; i++) {
        if (is_route(&capture->coverage[i], route_unhooked))
            json_text(json, NULL, capture->coverage[i].hook);
    }
    json_end(json, ']');
    json_uint(json, "unseen_calls", capture->unseen.count);
    json_begin(json, "framework_pools", '[');
    for (size_t i = 0; i < capture->setting_count; i++) {
        if (!report_coverage_pool_of(capture, i))
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "framework", report_coverage_pool_of(capture, i));
        json_text(json, "set", capture->setting[i].value);
        json_end(json, '}');
    }
    json_end(json, ']');
}

/* ---- tensors in a framework's segments ------------------------------------------------------- */

bool report_tensors_are_there(const struct report *report)
{
    const struct read_capture *capture = report->load.capture; /* NULL: of a csv */

    return capture && capture->record.bytes;
}

static int report_tensors_load(const char *who, const struct load *load, struct load *ret_load)
{
    struct read_capture *tensors;

    if (!load->capture->record.bytes) {
        render_print(stderr,
                "%s: %s: no record of tensors is in it; runs under PyTorch's own allocator have "
                "one (kedge run --api framework)\n",
                who, load->path);
        return CMD_BAD;
    }
    tensors = import_capture_tensors(load->path, load->capture, load->trace);
    if (!tensors)
        return CMD_BAD;
    load_capture(load->path, tensors, ret_load);
    return CMD_DONE;
}

int report_tensors_only(const char *who, struct load *io_load)
{
    struct load tensors;
    int r = report_tensors_load(who, io_load, &tensors);

    if (r != CMD_DONE)
        return r;
    load_close(io_load);
    *io_load = tensors;
    return CMD_DONE;
}

void report_tensors_find(struct report *report)
{
    struct report *tensors;

    if (!report_tensors_are_there(report) || report->from || report->to || report->made_to)
        return;
    tensors = vec_new(1, sizeof *tensors);
    if (report_tensors_load("kedge report", &report->load, &tensors->load) != CMD_DONE) {
        free(tensors);
        return;
    }
    tensors->path = report->path;
    tensors->top = report->top;
    tensors->rows = report->rows;
    tensors->window = model_whole(tensors->load.trace);
    tensors->symbols = symbols_new(tensors->load.trace);
    figures_of(&tensors->load, tensors->window, &tensors->figures, &tensors->partial);
    report_stated_find(tensors);
    report->tensors = tensors;
}

void report_tensors_done(struct report *report)
{
    struct report *tensors = report->tensors;

    if (!tensors)
        return;
    stepview_done(&tensors->stated);
    symbols_free(tensors->symbols);
    load_close(&tensors->load);
    free(tensors);
    report->tensors = NULL;
}

/* Bytes that the allocator held when tensors had most; UINT64_MAX: not known. */
static uint64_t report_tensors_segments(const struct report *tensors)
{
    const struct trace *trace = tensors->load.trace;
    uint64_t held = UINT64_MAX;

    for (size_t i = 0; i < trace->event_count && i <= tensors->figures.max_at; i++)
        if (trace->events[i].kind == TRACE_RESERVED)
            held = trace_reserved_of(trace, &trace->events[i])->all;
    return held;
}

/* The most bytes of tensors by PyTorch's own count, of all devices. */
static uint64_t report_tensors_counted(const struct report *report)
{
    const struct format_record *record = &report->load.capture->record.what;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        bytes += record->peak[i];
    return bytes;
}

void report_tensors_print(const struct report *report)
{
    const struct report *tensors = report->tensors;
    const struct format_record *record = &report->load.capture->record.what;
    uint64_t held, counted;

    if (!tensors)
        return;
    held = report_tensors_segments(tensors);
    counted = report_tensors_counted(report);
    printf("\nSegments %s, of which tensors %s at the peak, cached %s; figures above are of "
           "segments, those below of tensors\n",
            render_bytes(held).text, render_bytes(tensors->figures.max).text,
            render_bytes(held == UINT64_MAX ? held : excess_of(held, tensors->figures.max)).text);
    if (record->flags & FORMAT_RECORD_OWN)
        puts("(by the history that the program itself let PyTorch record)");
    if (counted > tensors->figures.max && record->flags & (FORMAT_RECORD_CUT | FORMAT_RECORD_OWN))
        printf("The peak, %s by PyTorch's count, was before its record begins "
               "(KEDGE_TENSORS=events=N keeps more)\n",
                render_bytes(counted).text);
    report_timeline_print(tensors);
}

void report_tensors_note(const struct report *report)
{
    if (report_tensors_are_there(report))
        report_field(report, report->ink.yellow, "note",
                "these are segments of PyTorch's own allocator: --tensors shows the tensors in "
                "them");
}

void report_tensors_json(struct json *json, const struct report *report)
{
    const struct report *tensors = report->tensors;
    struct answer_lines lines;
    uint64_t held;

    if (!tensors)
        return;
    lines = answer_lines_find(&tensors->load, tensors->symbols, tensors->window, &tensors->figures);
    held = report_tensors_segments(tensors);
    json_begin(json, "tensors", '{');
    json_known(json, "segments_bytes", held);
    json_uint(json, "max_bytes", tensors->figures.max);
    json_known(json, "cached_bytes",
            held == UINT64_MAX ? held : excess_of(held, tensors->figures.max));
    json_uint(json, "framework_max_bytes", report_tensors_counted(report));
    json_uint(json, "allocated_count", tensors->figures.allocated_count);
    json_bool(json, "complete",
            (report->load.capture->record.what.flags & (FORMAT_RECORD_CUT | FORMAT_RECORD_OWN))
                    == 0);
    json_begin(json, "rows", '[');
    for (size_t i = 0; i < lines.count; i++) {
        const struct answer_line *line = &lines.list[i];

        json_begin(json, NULL, '{');
        json_text(json, "title", line->title);
        json_uint(json, "bytes", line->bytes);
        json_uint(json, "count", line->blocks);
        figures_json_stack(json, tensors->symbols, line->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
    answer_lines_done(&lines);
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

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

/* PyTorch's tensors may be on record; no other framework's are. */
static void print_pool(const struct report *report, const char *framework, const char *setting)
{
    bool has_tensors = report_tensors_are_there(report) && strcmp(framework, "PyTorch") == 0;
    char *without = vec_format("not tensors; set %s", setting);

    report_field(report, has_tensors ? "" : report->ink.yellow, "framework",
            "%s keeps a pool of its own: the figures are its segments%s %s", framework,
            has_tensors ? ";" : ",",
            has_tensors ? "the tensors in them were recorded (--tensors)" : without);
    free(without);
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
    for (size_t i = 0; i < capture->setting_count; i++)
        if (report_coverage_pool_of(capture, i))
            print_pool(report, report_coverage_pool_of(capture, i), capture->setting[i].value);
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

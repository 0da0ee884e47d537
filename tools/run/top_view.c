/* SPDX-License-Identifier: MIT */
#include "tools/run/top_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/base/filename.h"
#include "tools/base/render.h"
#include "tools/symbols/title.h"

#define SITE_COLUMN 47

/* Whether a device has totals, or its memory was looked at. */
static bool has_device(const struct read_capture *capture, unsigned device)
{
    return capture->device_total[device].allocated_count || capture->look[device].looks
            || capture->device_total[device].peak_reserved_bytes;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Seconds since the capture was begun, 0 if clocks differ. */
static uint64_t age(const struct read_capture *capture)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return now > capture->start_real_ns ? (now - capture->start_real_ns) / 1000000000u : 0;
}

static void top_view_print_head(
        FILE *out, const struct top_watch *watch, const struct top_view *view)
{
    const struct read_capture *capture = watch->capture;
    char *state = top_watch_state(watch);
    uint64_t seconds = age(capture);

    render_print(
            out, "program     %s", capture->argc ? filename_of(capture->argv[0]) : capture->exe);
    for (size_t i = 1; i < capture->argc; i++)
        render_print(out, " %s", capture->argv[i]);
    (void)fprintf(out, "\nprocess     pid %" PRIu32, capture->pid);
    render_print(out, "%s%s, %s", *capture->rank ? ", rank " : "", capture->rank, state);
    if (!watch->has_ended)
        (void)fprintf(out, " for %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
                seconds / 60 % 60, seconds % 60);
    (void)fputs(view->is_screen ? "   (q quits)\n" : "\n", out);
    free(state);
}

static void top_view_print_figures(FILE *out, const struct format_totals *total)
{
    (void)fprintf(out, "live %10s  peak %10s  reserved %10s", render_bytes(total->live_bytes).text,
            render_bytes(total->peak_bytes).text, render_bytes(total->reserved_bytes).text);
}

static void top_view_print_devices(FILE *out, const struct read_capture *capture)
{
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        if (!has_device(capture, i))
            continue;
        (void)fprintf(out, "device %-4u ", i);
        top_view_print_figures(out, &capture->device_total[i]);
        if (capture->look[i].looks)
            (void)fprintf(out, "  of %s", render_bytes(capture->look[i].total_bytes).text);
        (void)fputc('\n', out);
    }
}

static void top_view_print_anchor(FILE *out, const struct top_watch *watch)
{
    const char *anchor = watch->anchor ? watch->anchor : "not recorded";

    render_print(out, "anchor      %s", *anchor ? anchor : "outside of all anchors");
    if (watch->anchor_instance)
        (void)fprintf(out, " (%" PRIu64 ")", (uint64_t)watch->anchor_instance + 1);
    (void)fputc('\n', out);
}

/* Per second, since the previous look. */
static double top_view_rate(const struct top_watch *watch, uint64_t before, uint64_t now)
{
    return (double)excess_of(now, before) / watch->seconds;
}

static void print_rates(FILE *out, const struct top_watch *watch)
{
    const struct format_totals *before = &watch->before;
    const struct format_totals *now = &watch->capture->total;

    (void)fputs("per second  ", out);
    if (watch->seconds > 0)
        (void)fprintf(out, "%.0f allocations, %.0f frees, %s allocated\n",
                top_view_rate(watch, before->allocated_count, now->allocated_count),
                top_view_rate(watch, before->freed_count, now->freed_count),
                render_bytes((uint64_t)top_view_rate(
                                     watch, before->allocated_bytes, now->allocated_bytes))
                        .text);
    else
        (void)fputs("not known from one look\n", out);
}

static void print_failures(FILE *out, const struct read_capture *capture)
{
    (void)fprintf(out, "failed      %" PRIu64 " allocation%s", capture->oom_count,
            render_s(capture->oom_count));
    if (capture->oom_record_count)
        (void)fprintf(out, ", the last of %s",
                render_bytes(capture->oom[capture->oom_record_count - 1].what.requested).text);
    (void)fputc('\n', out);
}

/* A screen cuts its lines. */
static void print_title(FILE *out, const struct top_view *view, const char *title)
{
    if (view->is_screen)
        render_print(out, "%s\n", title);
    else
        render_label(out, title, SITE_COLUMN, 8);
}

static void top_view_print_sites(FILE *out, struct top_watch *watch, const struct top_view *view)
{
    size_t shown = watch->site_count < view->top ? watch->site_count : (size_t)view->top;
    char **titles = top_watch_titles(watch, shown);

    (void)fprintf(out, "\n  %11s  %11s %8s %9s  call site (by %s)\n", "live", "own peak", "blocks",
            "allocs/s", watch->sort ? watch->sort->name : "live");
    for (size_t i = 0; i < shown; i++) {
        const struct top_watch_site *site = &watch->rows[i];
        (void)fprintf(out, "  %11s  %11s %8" PRIu64, render_bytes(site->live_bytes).text,
                render_bytes(site->peak_bytes).text, site->live_count);
        if (watch->seconds > 0)
            (void)fprintf(out, " %9.0f  ", (double)site->recent_count / watch->seconds);
        else
            (void)fprintf(out, " %9s  ", "-");
        print_title(out, view, titles[i]);
    }
    if (watch->site_count > shown)
        (void)fprintf(out, "  ... %zu more call site%s\n", watch->site_count - shown,
                render_s(watch->site_count - shown));
    title_done(titles, shown);
}

void top_view_print(FILE *out, struct top_watch *watch, const struct top_view *view)
{
    top_view_print_head(out, watch, view);
    top_view_print_devices(out, watch->capture);
    top_view_print_anchor(out, watch);
    print_rates(out, watch);
    print_failures(out, watch->capture);
    top_view_print_sites(out, watch, view);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void top_view_json_totals(struct json *json, const struct format_totals *total)
{
    json_uint(json, "live_bytes", total->live_bytes);
    json_uint(json, "peak_live_bytes", total->peak_bytes);
    json_uint(json, "reserved_bytes", total->reserved_bytes);
    json_uint(json, "peak_reserved_bytes", total->peak_reserved_bytes);
    json_uint(json, "allocated_bytes", total->allocated_bytes);
    json_uint(json, "allocated_count", total->allocated_count);
    json_uint(json, "freed_bytes", total->freed_bytes);
    json_uint(json, "freed_count", total->freed_count);
}

static void json_devices(struct json *json, const struct read_capture *capture)
{
    json_begin(json, "devices", '[');
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        const struct format_look *look = &capture->look[i];
        if (!has_device(capture, i))
            continue;
        json_begin(json, NULL, '{');
        json_uint(json, "device", i);
        top_view_json_totals(json, &capture->device_total[i]);
        json_known(json, "device_bytes", look->looks ? look->total_bytes : UINT64_MAX);
        json_known(json, "free_bytes", look->looks ? look->free_bytes : UINT64_MAX);
        json_end(json, '}');
    }
    json_end(json, ']');
}

/* The increase since the previous look, per second; null in the first look. */
static void json_rate(struct json *json, const char *key, const struct top_watch *watch,
        uint64_t before, uint64_t now)
{
    if (watch->seconds > 0)
        json_real(json, key, top_view_rate(watch, before, now));
    else
        json_text(json, key, NULL);
}

static void top_view_json_sites(
        struct json *json, struct top_watch *watch, const struct top_view *view)
{
    size_t shown = watch->site_count < view->top ? watch->site_count : (size_t)view->top;
    char **titles = top_watch_titles(watch, shown);

    json_uint(json, "site_count", watch->site_count);
    json_begin(json, "sites", '[');
    for (size_t i = 0; i < shown; i++) {
        const struct top_watch_site *site = &watch->rows[i];
        json_begin(json, NULL, '{');
        json_text(json, "title", titles[i]);
        json_uint(json, "live_bytes", site->live_bytes);
        json_uint(json, "live_count", site->live_count);
        json_uint(json, "own_peak_bytes", site->peak_bytes);
        json_uint(json, "allocated_bytes", site->allocated_bytes);
        json_uint(json, "allocated_count", site->allocated_count);
        json_rate(json, "allocations_per_second", watch, 0, site->recent_count);
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, shown);
}

void top_view_json(FILE *out, struct top_watch *watch, const struct top_view *view)
{
    const struct read_capture *capture = watch->capture;
    const struct format_totals *before = &watch->before;
    const struct format_totals *now = &capture->total;
    struct json json = json_open_line(out);
    char *state = top_watch_state(watch);

    json_text(&json, "capture", watch->path);
    json_uint(&json, "pid", capture->pid);
    json_text(&json, "rank", *capture->rank ? capture->rank : NULL);
    json_bool(&json, "running", !watch->has_ended);
    json_text(&json, "state", state);
    top_view_json_totals(&json, now);
    json_devices(&json, capture);
    json_text(&json, "anchor", watch->anchor);
    json_uint(&json, "anchor_instance", watch->anchor_instance);
    if (watch->seconds > 0)
        json_real(&json, "seconds", watch->seconds);
    else
        json_text(&json, "seconds", NULL);
    json_rate(
            &json, "allocations_per_second", watch, before->allocated_count, now->allocated_count);
    json_rate(&json, "frees_per_second", watch, before->freed_count, now->freed_count);
    json_rate(&json, "allocated_bytes_per_second", watch, before->allocated_bytes,
            now->allocated_bytes);
    json_uint(&json, "oom_count", capture->oom_count);
    top_view_json_sites(&json, watch, view);
    json_end(&json, '}');
    free(state);
}

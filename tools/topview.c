/* SPDX-License-Identifier: MIT */
#include "tools/topview.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "tools/figures.h"
#include "tools/filename.h"
#include "tools/title.h"

#define HINTS_SHOWN 3
#define SITE_COLUMN 47

bool topview_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !(value && *value); i++)
        value = getenv(names[i]);
    return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

/* Its totals count, or its memory was looked at. */
static bool has_device(const struct read_capture *capture, unsigned device)
{
    return capture->device_total[device].allocated_count || capture->look[device].looks
            || capture->device_total[device].peak_reserved_bytes;
}

static unsigned count_devices(const struct read_capture *capture)
{
    unsigned count = 0;

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        count += has_device(capture, i);
    return count;
}

unsigned topview_lines(const struct watch *watch, const struct topview *view)
{
    size_t hints = watch->hint_count < HINTS_SHOWN ? watch->hint_count : HINTS_SHOWN;

    /* program, process, timeline, anchor, rates, failures, an empty line, the table's head, and how many more sites there are */
    return 9 + count_devices(watch->capture) + (unsigned)hints + (watch->hint_count > HINTS_SHOWN)
            + 2 * view->has_keys;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_name(FILE *out, const struct topview *view, const char *name)
{
    (void)fprintf(out, "%s%-11s%s ", view->ink.bold, name, view->ink.off);
}

/* Seconds since the capture was begun, 0 where clocks differ. */
static uint64_t age(const struct read_capture *capture)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return now > capture->start_real_ns ? (now - capture->start_real_ns) / 1000000000u : 0;
}

static void print_head(FILE *out, const struct watch *watch, const struct topview *view)
{
    const struct read_capture *capture = watch->capture;
    char *state = watch_state(watch);
    uint64_t seconds = age(capture);

    print_name(out, view, "program");
    render_text(out, capture->argc ? filename_of(capture->argv[0]) : capture->exe);
    for (size_t i = 1; i < capture->argc; i++) {
        (void)fputc(' ', out);
        render_text(out, capture->argv[i]);
    }
    (void)fprintf(out, "\n%s%-11s%s pid %" PRIu32, view->ink.bold, "process", view->ink.off,
            capture->pid);
    if (*capture->rank) {
        (void)fputs(", rank ", out);
        render_text(out, capture->rank);
    }
    (void)fprintf(out, ", %s%s%s", watch->has_ended ? view->ink.yellow : view->ink.green, state,
            view->ink.off);
    if (!watch->has_ended)
        (void)fprintf(out, " for %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
                seconds / 60 % 60, seconds % 60);
    (void)fprintf(out, "%s\n", view->is_paused ? ", view paused" : "");
    free(state);
}

static void print_figures(FILE *out, const struct format_totals *total)
{
    (void)fprintf(out, "live %10s", render_bytes(total->live_bytes).text);
    (void)fprintf(out, "  peak %10s", render_bytes(total->peak_bytes).text);
    (void)fprintf(out, "  reserved %10s", render_bytes(total->reserved_bytes).text);
}

static void print_devices(FILE *out, const struct watch *watch, const struct topview *view)
{
    const struct read_capture *capture = watch->capture;

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        char name[24];
        if (!has_device(capture, i))
            continue;
        (void)snprintf(name, sizeof(name), "device %u", i);
        print_name(out, view, name);
        print_figures(out, &capture->device_total[i]);
        if (capture->look[i].looks)
            (void)fprintf(out, "  of %s", render_bytes(capture->look[i].total_bytes).text);
        (void)fputc('\n', out);
    }
}

/* Of eight heights, 0 is none. */
static unsigned height(uint64_t bytes, uint64_t most)
{
    return most ? (unsigned)((double)bytes / (double)most * 7.999) + (bytes > 0) : 0;
}

static void print_timeline(FILE *out, const struct watch *watch, const struct topview *view)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
    uint64_t most = 0;

    for (size_t i = 0; i < watch->history_count; i++)
        if (watch->history[i] > most)
            most = watch->history[i];
    print_name(out, view, "timeline");
    for (size_t i = 0; i < watch->history_count; i++) {
        unsigned at = height(watch->history[i], most);
        at = at < 8 ? at : 8;
        (void)fputs(view->is_utf8 ? blocks[at] : letters[at], out);
    }
    (void)fprintf(out, "  0 to %s\n", render_bytes(most).text);
}

static void print_anchor(FILE *out, const struct watch *watch, const struct topview *view)
{
    print_name(out, view, "anchor");
    if (!watch->anchor) {
        (void)fputs("not recorded\n", out);
        return;
    }
    if (!*watch->anchor)
        (void)fputs("outside of all anchors", out);
    render_text(out, watch->anchor);
    if (watch->anchor_instance)
        (void)fprintf(out, " (%" PRIu64 ")", (uint64_t)watch->anchor_instance + 1);
    (void)fputc('\n', out);
}

static void print_rates(FILE *out, const struct watch *watch, const struct topview *view)
{
    const struct watch_rates *rates = &watch->rates;

    print_name(out, view, "per second");
    if (rates->is_known)
        (void)fprintf(out, "%.0f allocations, %.0f frees, %s allocated\n", rates->allocations,
                rates->frees, render_bytes((uint64_t)rates->bytes).text);
    else
        (void)fputs("not known from one look\n", out);
}

static void print_hints(FILE *out, const struct watch *watch, const struct topview *view)
{
    for (size_t i = 0; i < watch->hint_count && i < HINTS_SHOWN; i++) {
        const struct watch_hint *hint = &watch->hints[i];
        print_name(out, view, i ? "" : "hints");
        render_text(out, hint->rule->id);
        (void)fprintf(out, " (%s): %" PRIu64 " block%s, %s", hintwords_mode(hint->rule->mode),
                hint->matched.count, render_s(hint->matched.count),
                render_bytes(hint->matched.bytes).text);
        if (hint->released.count)
            (void)fprintf(out, "; %s%s", render_bytes(hint->released.bytes).text,
                    hint->rule->mode == HINT_LIVE ? " released" : " would be released");
        (void)fputc('\n', out);
    }
    if (watch->hint_count > HINTS_SHOWN) {
        print_name(out, view, "");
        (void)fprintf(out, "... %zu more hints\n", watch->hint_count - HINTS_SHOWN);
    }
}

static void print_failures(FILE *out, const struct watch *watch, const struct topview *view)
{
    const struct read_capture *capture = watch->capture;

    print_name(out, view, "failed");
    (void)fprintf(out, "%s%" PRIu64 " allocation%s%s", capture->oom_count ? view->ink.red : "",
            capture->oom_count, render_s(capture->oom_count), view->ink.off);
    if (capture->oom_record_count)
        (void)fprintf(out, ", the last of %s",
                render_bytes(capture->oom[capture->oom_record_count - 1].what.requested).text);
    (void)fputc('\n', out);
}

static const char *const orders[WATCH_ORDER_COUNT] = {
        [WATCH_LIVE] = "live", [WATCH_PEAK] = "peak", [WATCH_RATE] = "allocs/s"};

/* A screen cuts its lines. */
static void print_title(FILE *out, const struct topview *view, const char *title)
{
    if (!view->has_keys) {
        render_label(out, title, SITE_COLUMN, 8);
        return;
    }
    render_text(out, title);
    (void)fputc('\n', out);
}

static void print_sites(FILE *out, struct watch *watch, const struct topview *view)
{
    size_t shown = watch->site_count < view->top ? watch->site_count : (size_t)view->top;
    char **titles = watch_titles(watch, shown);

    (void)fprintf(out, "\n%s  %11s  %11s %8s %9s  call site (by %s)%s\n", view->ink.bold, "live",
            "own peak", "blocks", "allocs/s", orders[watch->order], view->ink.off);
    for (size_t i = 0; i < shown; i++) {
        const struct watch_site *site = &watch->sites[i];
        (void)fprintf(out, "  %11s", render_bytes(site->live_bytes).text);
        (void)fprintf(
                out, "  %11s %8" PRIu64, render_bytes(site->peak_bytes).text, site->live_count);
        if (watch->rates.is_known)
            (void)fprintf(out, " %9.0f  ", (double)site->recent_count / watch->rates.seconds);
        else
            (void)fprintf(out, " %9s  ", "-");
        print_title(out, view, titles[i]);
    }
    if (watch->site_count > shown)
        (void)fprintf(out, "  ... %zu more call site%s\n", watch->site_count - shown,
                render_s(watch->site_count - shown));
    title_done(titles, shown);
}

void topview_print(FILE *out, struct watch *watch, const struct topview *view)
{
    print_head(out, watch, view);
    print_devices(out, watch, view);
    print_timeline(out, watch, view);
    print_anchor(out, watch, view);
    print_rates(out, watch, view);
    print_hints(out, watch, view);
    print_failures(out, watch, view);
    print_sites(out, watch, view);
    if (view->has_keys)
        (void)fputs("\nq quit   s sort   p pause\n", out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_totals(struct json *json, const struct format_totals *total)
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
        json_totals(json, &capture->device_total[i]);
        json_known(json, "device_bytes", look->looks ? look->total_bytes : UINT64_MAX);
        json_known(json, "free_bytes", look->looks ? look->free_bytes : UINT64_MAX);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_rate(struct json *json, const char *key, bool is_known, double value)
{
    if (is_known)
        json_real(json, key, value);
    else
        json_text(json, key, NULL);
}

static void json_hints(struct json *json, const struct watch *watch)
{
    json_begin(json, "hints", '[');
    for (size_t i = 0; i < watch->hint_count; i++) {
        const struct watch_hint *hint = &watch->hints[i];
        bool is_live = hint->rule->mode == HINT_LIVE;
        json_begin(json, NULL, '{');
        json_text(json, "id", hint->rule->id);
        json_text(json, "mode", hintwords_mode(hint->rule->mode));
        json_uint(json, "live_count", hint->matched.count);
        json_uint(json, "live_bytes", hint->matched.bytes);
        json_uint(json, "released_count", is_live ? hint->released.count : 0);
        json_uint(json, "released_bytes", is_live ? hint->released.bytes : 0);
        json_uint(json, "would_count", is_live ? 0 : hint->released.count);
        json_uint(json, "would_bytes", is_live ? 0 : hint->released.bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_sites(struct json *json, struct watch *watch, const struct topview *view)
{
    size_t shown = watch->site_count < view->top ? watch->site_count : (size_t)view->top;
    char **titles = watch_titles(watch, shown);

    json_uint(json, "site_count", watch->site_count);
    json_begin(json, "sites", '[');
    for (size_t i = 0; i < shown; i++) {
        const struct watch_site *site = &watch->sites[i];
        json_begin(json, NULL, '{');
        json_text(json, "title", titles[i]);
        json_uint(json, "live_bytes", site->live_bytes);
        json_uint(json, "live_count", site->live_count);
        json_uint(json, "own_peak_bytes", site->peak_bytes);
        json_uint(json, "allocated_bytes", site->allocated_bytes);
        json_uint(json, "allocated_count", site->allocated_count);
        json_rate(json, "allocations_per_second", watch->rates.is_known,
                (double)site->recent_count / watch->rates.seconds);
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, shown);
}

void topview_json(FILE *out, struct watch *watch, const struct topview *view)
{
    const struct read_capture *capture = watch->capture;
    const struct watch_rates *rates = &watch->rates;
    struct json json = json_open_line(out);
    char *state = watch_state(watch);

    json_text(&json, "capture", watch->path);
    json_uint(&json, "pid", capture->pid);
    json_text(&json, "rank", *capture->rank ? capture->rank : NULL);
    json_bool(&json, "running", !watch->has_ended);
    json_text(&json, "state", state);
    json_totals(&json, &capture->total);
    json_devices(&json, capture);
    json_text(&json, "anchor", watch->anchor);
    json_uint(&json, "anchor_instance", watch->anchor_instance);
    json_rate(&json, "seconds", rates->is_known, rates->seconds);
    json_rate(&json, "allocations_per_second", rates->is_known, rates->allocations);
    json_rate(&json, "frees_per_second", rates->is_known, rates->frees);
    json_rate(&json, "allocated_bytes_per_second", rates->is_known, rates->bytes);
    json_uint(&json, "oom_count", capture->oom_count);
    json_hints(&json, watch);
    json_sites(&json, watch, view);
    json_end(&json, '}');
    free(state);
}

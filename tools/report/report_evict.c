/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/evict/evictsets.h"
#include "tracker/hints/hintfile.h"

#define STACK_LINES   6
#define WARM_UP_SHOWN 3
#define WIDE_COLUMNS  112

/*
 * Limits for a page: sets, steps of each (half of them the last ones), call sites whose blocks
 * stay.
 */
#define REPORT_EVICT_SETS  16u
#define REPORT_EVICT_STEPS 200u
#define REPORT_EVICT_KEPT  50u

static double report_evict_ms_of(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- blocks that stay ---- */

static void print_kept(const struct report *report, const struct evictsets_set *set)
{
    size_t count;
    struct evictsets_kept *groups = evictsets_group_kept(&report->load, set, &count);
    size_t shown = count < report->top ? count : (size_t)report->top;
    char **titles = title_rows(report->symbols, TITLE_STACKS(groups), shown);

    if (count)
        puts("  blocks that stay in:");
    for (size_t i = 0; i < shown; i++) {
        printf("    %11s %6" PRIu64 " block%-3s", render_bytes(groups[i].sum.bytes).text,
                groups[i].sum.count, render_s(groups[i].sum.count));
        render_label_of(stdout, 32, 6, "%s: %s", evictsets_why_text(groups[i].why), titles[i]);
        if (report->view == VIEW_EVICTION)
            report_stack_print(report, groups[i].stack, "              ", STACK_LINES);
    }
    figures_print_more(count, report->top, "call site");
    title_done(titles, shown);
    free(groups);
}

/* ---- calls that were not made ---- */

static char *anchor_text(const struct read_short *what)
{
    if (!*what->path)
        return vec_text("outside of all anchors");
    return what->instance ? vec_format("in %s (%" PRIu32 ")", what->path, what->instance + 1)
                          : vec_format("in %s", what->path);
}

static void print_shorts(const struct report *report, const struct evictsets_set *set)
{
    uint64_t count;
    const struct read_short *most = evictsets_most_short(report->load.capture, set, &count);

    if (!most)
        return;
    char *anchor = anchor_text(most);
    printf("  %s%" PRIu64 " call%s %s: out of memory under the cap%s\n    ", report->ink.red, count,
            render_s(count), evictsets_is_paper(set) ? "would have failed" : "failed",
            report->ink.off);
    render_label_of(stdout, 4, 4, "the largest needed %s at once and %s could be had: %s",
            render_bytes(most->needed).text, render_bytes(most->room).text, anchor);
    free(anchor);
}

/* ---- text ---- */

static bool report_evict_is_wide(void)
{
    return render_columns(stdout) >= WIDE_COLUMNS;
}

static void report_evict_print_head(void)
{
    printf("  %-13s %11s %11s %11s %11s", "", "moved in", "moved out", "dropped", "in at least");
    if (report_evict_is_wide())
        printf(" %11s %5s %10s %10s %10s\n", "in at most", "waits", "layout ms", "evict ms",
                "stall ms");
    else
        printf(" %5s %9s\n", "waits", "stall ms");
}

/* "median, 3"; a sum has neither a number nor a bound. */
static void print_step(const char *label, bool is_step, const struct format_evict *what)
{
    char name[40];

    if (is_step)
        (void)snprintf(name, sizeof(name), "%s %" PRIu64, label, what->step);
    printf("  %-13s %11s %11s %11s %11s", is_step ? name : label, render_bytes(what->moved_in).text,
            render_bytes(what->moved_out).text, render_bytes(what->dropped).text,
            is_step ? render_bytes(evictsets_bound(what)).text : "");
    if (report_evict_is_wide())
        printf(" %11s %5" PRIu64 " %10.3f %10.3f %10.3f\n", render_bytes(what->in_bytes_high).text,
                what->late, report_evict_ms_of(what->layout_ns), report_evict_ms_of(what->evict_ns),
                report_evict_ms_of(what->stall_ns));
    else
        printf(" %5" PRIu64 " %9.3f\n", what->late, report_evict_ms_of(what->stall_ns));
}

static void print_some(const struct evictsets_set *set, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        print_step(evictsets_label(set, i), true, &set->step[i].what);
}

/* The same number of rows at the beginning and at the end. */
static void print_all_rows(const struct report *report, const struct evictsets_set *set)
{
    size_t top = (size_t)report->top;

    if (set->count <= 2 * top) {
        print_some(set, 0, set->count);
        return;
    }
    print_some(set, 0, top);
    printf("   ... %zu more (--top, --json)\n", set->count - 2 * top);
    print_some(set, set->count - top, set->count);
}

/* The first step, and the usual one. */
static void print_few_rows(const struct evictsets_set *set)
{
    const struct format_evict *median = evictsets_median(set);
    size_t begun = median ? set->warm_up : set->ended;
    size_t shown = begun < WARM_UP_SHOWN ? begun : WARM_UP_SHOWN;

    print_some(set, 0, shown);
    if (shown < begun)
        printf("   ... %zu more (--view eviction)\n", begun - shown);
    if (median)
        print_step("median,", true, median);
    if (median && median != &set->step[set->ended - 1].what)
        print_step("last,", true, &set->step[set->ended - 1].what);
    print_some(set, set->ended, set->count);
}

static void print_times(const char *where, const struct format_evict *what)
{
    printf("  layout time %.3f ms, evict time %.3f ms, stall time %.3f ms %s\n",
            report_evict_ms_of(what->layout_ns), report_evict_ms_of(what->evict_ns),
            report_evict_ms_of(what->stall_ns), where);
}

static void print_states(const struct evictsets_set *set)
{
    const struct format_evict *what = &set->step[set->count - 1].what;
    const uint64_t *bytes = what->state_bytes;

    fputs("  ", stdout);
    render_label_of(stdout, 2, 4,
            "%s step %" PRIu64 ": free %s, compute %s, hold %s, hold after forward "
            "%s, hold after backward %s",
            set->count > set->ended ? "at the end, in" : "at the end of", what->step,
            render_bytes(bytes[0]).text, render_bytes(bytes[1]).text, render_bytes(bytes[2]).text,
            render_bytes(bytes[3]).text, render_bytes(bytes[4]).text);
}

/* The cap, and how close some of the steps came to it. */
static void print_cap(const struct evictsets_set *set, size_t first, size_t end, const char *when)
{
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    uint64_t in = 0;

    for (size_t i = first; i < end; i++) {
        const struct format_evict *what = &set->step[i].what;

        low = min_of(low, what->cap);
        high = max_of(high, what->cap);
        in = max_of(in, what->in_bytes_high);
    }
    if (first == end)
        return;
    if (high == 0 || high == UINT64_MAX)
        printf("  %sno cap", when);
    else
        printf("  %scap %s", when, render_bytes(low).text);
    if (low < high)
        printf(" to %s", render_bytes(high).text);
    printf("; the most that was in at once: %s\n", render_bytes(in).text);
}

/* The step at whose end most was managed: at the end of the program all of it is freed. */
static const struct format_evict *step_of_most(const struct evictsets_set *set)
{
    const struct format_evict *most = &set->step[0].what;

    for (size_t i = 1; i < set->count; i++)
        if (set->step[i].what.bytes > most->bytes)
            most = &set->step[i].what;
    return most;
}

static void print_set_head(const struct report *report, const struct evictsets_set *set)
{
    const struct load_hint *hint = &report->load.hints[set->rule];
    char *steps = set->ended ? vec_format("%zu step%s", set->ended, render_s(set->ended))
                             : vec_text("no step has ended");
    size_t steady = set->warm_up < set->count ? set->warm_up : 0;

    fputs("  ", stdout);
    render_label_of(stdout, 2, 4, "hint %s (%s) on device %d: %s", hint->id,
            hintwords_mode(hint->mode), set->device, steps);
    free(steps);
    if (set->count) {
        const struct format_evict *most = step_of_most(set);

        printf("  %" PRIu64 " block%s, %s\n", most->units, render_s(most->units),
                render_bytes(most->bytes).text);
    }
    if (evictsets_is_paper(set))
        puts("  on paper only: nothing was moved, and no call waited");
    print_cap(set, 0, steady, "warm-up: ");
    print_cap(set, steady, set->count, steady ? "then: " : "");
}

static void print_steps(const struct report *report, const struct evictsets_set *set)
{
    const struct format_evict *median = evictsets_median(set);
    const struct format_evict sum = evictsets_sum(set);
    char where[40];

    report_evict_print_head();
    if (set->ended && report->view == VIEW_EVICTION)
        print_all_rows(report, set);
    else if (set->ended)
        print_few_rows(set);
    if (set->count > 1 || set->ended == 0)
        print_step("all", false, &sum);
    if (set->step[set->count - 1].what.step >= FORMAT_EVICT_STEPS_ALL)
        puts("  (of a long run the capture has only some of the steps; the sums are of those)");
    if (median) {
        (void)snprintf(where, sizeof(where), "in step %" PRIu64, median->step);
        print_times(where, median);
    }
    print_times("in all", &sum);
    print_states(set);
}

void report_evict_print(const struct report *report)
{
    struct evictsets sets = evictsets_find(report->load.capture);

    if (sets.count == 0 && report->view == VIEW_EVICTION)
        puts("no block was evicted, or was to be, in this run");
    if (sets.count)
        printf("\n%sEviction%s\n", report->ink.bold, report->ink.off);
    for (size_t i = 0; i < sets.count; i++) {
        print_set_head(report, &sets.at[i]);
        if (sets.at[i].count)
            print_steps(report, &sets.at[i]);
        print_shorts(report, &sets.at[i]);
        print_kept(report, &sets.at[i]);
    }
    evictsets_done(&sets);
}

/* ---- JSON ---- */

static void json_moved(struct json *json, const struct format_evict *what)
{
    json_uint(json, "moved_in_bytes", what->moved_in);
    json_uint(json, "moved_in_count", what->count_in);
    json_uint(json, "moved_out_bytes", what->moved_out);
    json_uint(json, "moved_out_count", what->count_out);
    json_uint(json, "dropped_bytes", what->dropped);
    json_uint(json, "wait_count", what->late);
    json_uint(json, "in_at_most_bytes", what->in_bytes_high);
    json_real(json, "layout_ms", report_evict_ms_of(what->layout_ns));
    json_real(json, "evict_ms", report_evict_ms_of(what->evict_ns));
    json_real(json, "stall_ms", report_evict_ms_of(what->stall_ns));
}

static void report_evict_json_step(struct json *json, const struct read_evict *step)
{
    static const char *const states[FORMAT_EVICT_STATES] = {"state_free_bytes",
            "state_compute_bytes", "state_hold_bytes", "state_hold_after_forward_bytes",
            "state_hold_after_backward_bytes"};
    const struct format_evict *what = &step->what;

    json_begin(json, NULL, '{');
    json_uint(json, "step", what->step);
    json_bool(json, "planned", what->flags & FORMAT_EVICT_PLANNED);
    json_bool(json, "replayed", what->flags & FORMAT_EVICT_REPLAYED);
    json_bool(json, "ended", !(what->flags & FORMAT_EVICT_RUNNING));
    json_real(json, "told_ms", report_evict_ms_of(step->time_ns));
    json_uint(json, "block_count", what->units);
    json_uint(json, "block_bytes", what->bytes);
    json_uint(json, "cap_bytes", what->cap);
    json_moved(json, what);
    json_known(json, "in_at_least_bytes", evictsets_bound(what));
    json_uint(json, "use_count", what->uses);
    json_uint(json, "look_count", what->looks);
    for (unsigned i = 0; i < FORMAT_EVICT_STATES; i++)
        json_uint(json, states[i], what->state_bytes[i]);
    json_end(json, '}');
}

static void json_kept(
        struct json *json, const struct report *report, const struct evictsets_set *set)
{
    size_t count;
    struct evictsets_kept *groups = evictsets_group_kept(&report->load, set, &count);
    size_t shown = json_begin_rows(json, "kept", count, REPORT_EVICT_KEPT);
    char **titles = title_rows(report->symbols, TITLE_STACKS(groups), shown);

    for (size_t i = 0; i < shown; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "why", evictsets_why_word(groups[i].why));
        json_text(json, "reason", evictsets_why_text(groups[i].why));
        json_text(json, "title", titles[i]);
        json_text(json, "site", symbols_site(report->symbols, groups[i].stack));
        json_text(json, "python_site", symbols_pysite(report->symbols, groups[i].stack));
        json_text(json, "anchor", groups[i].anchor);
        json_uint(json, "count", groups[i].sum.count);
        json_uint(json, "bytes", groups[i].sum.bytes);
        figures_json_stack(json, report->symbols, groups[i].stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, shown);
    free(groups);
}

/* For a page the one that needed most. */
static void json_shorts(
        struct json *json, const struct read_capture *capture, const struct evictsets_set *set)
{
    uint64_t count;
    const struct read_short *most = evictsets_most_short(capture, set, &count);

    (void)json_begin_rows(json, "not_made", count, 1);
    for (size_t i = 0; i < capture->short_count; i++) {
        const struct read_short *what = &capture->shorts[i];

        if (!evictsets_is_short(what, set) || (json->page && what != most))
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "anchor", what->path);
        json_uint(json, "instance", what->instance);
        json_real(json, "told_ms", report_evict_ms_of(what->time_ns));
        json_uint(json, "needed_bytes", what->needed);
        json_uint(json, "room_bytes", what->room);
        json_uint(json, "cap_bytes", what->cap);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_set(
        struct json *json, const struct report *report, const struct evictsets_set *set)
{
    const struct load_hint *hint = &report->load.hints[set->rule];
    const struct format_evict *median = evictsets_median(set);
    const struct format_evict sum = evictsets_sum(set);

    json_begin(json, NULL, '{');
    json_text(json, "id", hint->id);
    json_text(json, "mode", hintwords_mode(hint->mode));
    json_int(json, "device", set->device);
    json_bool(json, "on_paper", evictsets_is_paper(set));
    json_uint(json, "warm_up_count", set->warm_up);
    json_known(json, "median_step", median ? median->step : UINT64_MAX);
    json_begin(json, "total", '{');
    json_moved(json, &sum);
    json_end(json, '}');
    size_t shown = json_begin_rows(json, "steps", set->count, REPORT_EVICT_STEPS);
    for (size_t i = 0; i < set->count; i++)
        if (i < shown - shown / 2 || i >= set->count - shown / 2)
            report_evict_json_step(json, &set->step[i]);
    json_end(json, ']');
    json_kept(json, report, set);
    json_shorts(json, report->load.capture, set);
    json_end(json, '}');
}

void report_evict_json(struct json *json, const struct report *report)
{
    struct evictsets sets = evictsets_find(report->load.capture);

    size_t shown = json_begin_rows(json, "eviction", sets.count, REPORT_EVICT_SETS);
    for (size_t i = 0; i < shown; i++)
        json_set(json, report, &sets.at[i]);
    json_end(json, ']');
    evictsets_done(&sets);
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/suggest/suggest_candidates.h"

static bool has_places(enum view view)
{
    return view == VIEW_HWM || view == VIEW_LEAKS || view == VIEW_TEMPORARY;
}

/* Of the blocks that the view is about. */
static struct trace_sum report_places_sum_of(const struct read_place *place, enum view of)
{
    if (of == VIEW_HWM)
        return (struct trace_sum){place->high_count, place->high_bytes};
    if (of == VIEW_LEAKS)
        return (struct trace_sum){place->live_count, place->live_bytes};
    return (struct trace_sum){place->temporary_count, place->temporary_bytes};
}

/* By blocks for brief ones, else by bytes; 0 = not in the view. */
static uint64_t weight_of(struct trace_sum sum, enum view of)
{
    return of == VIEW_TEMPORARY ? sum.count : sum.bytes;
}

/*
 * Places of one stack whose anchors differ only in digits (the steps of a loop are one row), or a
 * --by group of places; then `name` is the group's, NULL for a stack.
 */
struct row {
    struct trace_sum sum;
    uint64_t weight, allocated_count;
    const struct load_place *place; /* the first place, which has most of it */
    uint32_t stack;                 /* that place's stack */
    uint64_t places;
    const char *name;
};

static const struct rowpick_field fields[] = {ROWPICK_UINT("bytes", struct row, sum.bytes),
        ROWPICK_UINT("count", struct row, sum.count),
        ROWPICK_UINT("allocated_count", struct row, allocated_count)};
const struct rowpick_fields report_places_fields = ROWPICK_FIELDS(fields);

static int heaviest_first(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;

    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* The --by name of the place's group, NULL = a stack, or no grouping. */
static const char *report_places_group_of(
        const struct report *report, const struct load_place *place, enum view of)
{
    const struct report_group group = {
            .stack = place->stack, .anchor = place->what->path, .device = place->what->device};

    if (report->view != of)
        return NULL;
    return place->what->is_other ? "(places beyond the bound of the table)"
                                 : report_group_name(report, &group);
}

static struct key report_places_key_of(
        const struct report *report, const struct load_place *place, enum view of)
{
    const char *name = report_places_group_of(report, place, of);
    char folded[RULE_GLOB_MAX];
    struct key key;

    if (report->view == of && report->by != REPORT_BY_ITSELF)
        return name ? keytable_text(name) : (struct key){place->stack, place->what->is_other, 0};
    suggest_candidates_fold(place->what->path, SUGGEST_CANDIDATES_FOLD_RUNS, folded);
    key = keytable_text(folded);
    key.c ^= ((uint64_t)place->stack << 16) ^ ((uint64_t)place->what->is_other << 63);
    return key;
}

static void add_to_row(struct row *row, const struct load_place *place, enum view of)
{
    struct trace_sum sum = report_places_sum_of(place->what, of);
    uint64_t weight = weight_of(sum, of);

    row->allocated_count += place->what->allocated_count;
    if (!weight)
        return;
    trace_sum_join(&row->sum, sum);
    row->weight += weight;
    row->places++;
    if (!row->place || weight > weight_of(report_places_sum_of(row->place->what, of), of)) {
        row->place = place;
        row->stack = place->stack;
    }
}

/* The rows of a view for a device (-1 = all), largest first; the caller frees the array. */
static struct row *rows_of(const struct report *report, int device, enum view of, size_t *ret_count)
{
    const struct load *load = &report->load;
    struct row *rows = vec_new(load->place_count, sizeof(*rows));
    struct keytable index = {0};
    size_t count = 0;

    for (size_t i = 0; i < load->place_count; i++) {
        const struct load_place *place = &load->places[i];

        if ((device >= 0 && place->what->device != device)
                || !report_keeps(report, of, place->stack, place->what->path))
            continue;
        struct row *row = &rows[keytable_number(&index, report_places_key_of(report, place, of))];
        row->name = report_places_group_of(report, place, of);
        add_to_row(row, place, of);
    }
    size_t all = keytable_count(&index);
    keytable_done(&index);
    for (size_t i = 0; i < all; i++)
        if (rows[i].places)
            rows[count++] = rows[i];
    VEC_SORT(rows, count, heaviest_first);
    report_sort(report, of, &report_places_fields, rows, count, sizeof(*rows));
    *ret_count = count;
    return rows;
}

static void print_where(
        const struct report *report, const struct row *row, const char *title, unsigned used)
{
    const struct load_place *place = row->place;

    if (row->name) {
        render_label(stdout, row->name, used, 6);
        return;
    }
    if (place->what->is_other) {
        puts("(places beyond the bound of the table)");
        return;
    }
    render_label(stdout, title, used, 6);
    if (place->what->path[0] && report->by == REPORT_BY_ITSELF) {
        char folded[RULE_GLOB_MAX];
        suggest_candidates_fold(place->what->path, SUGGEST_CANDIDATES_FOLD_RUNS, folded);
        if (row->places == 1)
            render_print(stdout, "              in %s\n", place->what->path);
        else
            render_print(stdout, "              in %s (%" PRIu64 " places, most in %s)\n", folded,
                    row->places, place->what->path);
    }
    report_stack_print(report, place->stack, "              ", 6);
}

static void report_places_print_row(
        const struct report *report, const struct row *row, enum view of, const char *title)
{
    if (of == VIEW_TEMPORARY)
        printf("  %8" PRIu64 " of %8" PRIu64 " blocks, %11s  ", row->sum.count,
                row->allocated_count, render_bytes(row->sum.bytes).text);
    else
        printf("  %11s  %6" PRIu64 " block%-3s", render_bytes(row->sum.bytes).text, row->sum.count,
                render_s(row->sum.count));
    print_where(report, row, title, of == VIEW_TEMPORARY ? 44 : 33);
}

static void report_places_print_rows(const struct report *report, int device, enum view of)
{
    size_t count;
    struct row *rows = rows_of(report, device, of, &count);

    if (count == 0)
        puts("  nothing");
    size_t shown = count < report->top ? count : (size_t)report->top;
    char **titles = title_rows(report->symbols, TITLE_STACKS(rows), shown);
    for (size_t i = 0; i < shown; i++)
        report_places_print_row(report, &rows[i], of, titles[i]);
    title_done(titles, shown);
    figures_print_more(count, report->top,
            report->by == REPORT_BY_ITSELF ? "place" : report_by_noun(report->by));
    free(rows);
}

static const char *by_word(const struct report *report)
{
    return report->by == REPORT_BY_ITSELF ? "place" : report_by_word(report->by);
}

void report_high_print(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    bool any = false;

    for (int i = 0; i < (int)FORMAT_DEVICES_MAX; i++) {
        if (!capture->high[i].bytes)
            continue;
        any = true;
        printf("\n%sLive at the maximum of device %d, %s, by %s%s\n", report->ink.bold, i,
                render_bytes(capture->high[i].bytes).text, by_word(report), report->ink.off);
        report_places_print_rows(report, i, VIEW_HWM);
    }
    if (!any)
        puts("nothing was allocated");
}

void report_leaks_print(const struct report *report)
{
    printf("\n%s%s, by %s%s\n", report->ink.bold,
            load_has_ended(&report->load) ? "Live at the end"
                                          : "Live now (still running, or killed)",
            by_word(report), report->ink.off);
    report_places_print_rows(report, -1, VIEW_LEAKS);
}

void report_temporary_print(const struct report *report)
{
    printf("\n%sTemporary blocks (freed by their thread before it allocated two others)%s\n",
            report->ink.bold, report->ink.off);
    report_places_print_rows(report, -1, VIEW_TEMPORARY);
}

static void json_place(struct json *json, const struct report *report,
        const struct load_place *place, const char *title)
{
    const struct read_place *what = place->what;

    json_begin(json, NULL, '{');
    json_text(json, "title", what->is_other ? "(other)" : title);
    json_text(
            json, "site", what->is_other ? "(other)" : symbols_site(report->symbols, place->stack));
    json_text(json, "python_site",
            what->is_other ? NULL : symbols_pysite(report->symbols, place->stack));
    json_text(json, "anchor", what->path);
    if (what->device >= 0)
        json_uint(json, "device", (uint64_t)what->device);
    json_uint(json, "at_peak_bytes", what->high_bytes);
    json_uint(json, "at_peak_count", what->high_count);
    json_uint(json, "live_bytes", what->live_bytes);
    json_uint(json, "live_count", what->live_count);
    json_uint(json, "own_peak_bytes", what->peak_bytes);
    json_uint(json, "own_peak_count", what->peak_count);
    json_uint(json, "allocated_bytes", what->allocated_bytes);
    json_uint(json, "allocated_count", what->allocated_count);
    json_uint(json, "temporary_bytes", what->temporary_bytes);
    json_uint(json, "temporary_count", what->temporary_count);
    figures_json_stack(json, report->symbols, place->stack, "stack");
    json_end(json, '}');
}

/*
 * The places of the view, ungrouped: in the reader's order, or by --sort. The caller frees the
 * array.
 */
static struct row *single_rows(const struct report *report, size_t *ret_count)
{
    const struct load *load = &report->load;
    struct row *rows = vec_new(load->place_count + 1, sizeof(*rows));
    bool has_view = has_places(report->view);
    enum view of = has_view ? report->view : VIEW_HWM;
    size_t count = 0;

    for (size_t i = 0; i < load->place_count; i++) {
        const struct load_place *place = &load->places[i];

        if (has_view && !report_keeps(report, report->view, place->stack, place->what->path))
            continue;
        rows[count++] = (struct row){.sum = report_places_sum_of(place->what, of),
                .allocated_count = place->what->allocated_count,
                .place = place,
                .stack = place->stack};
    }
    report_sort(report, of, &report_places_fields, rows, count, sizeof(*rows));
    *ret_count = count;
    return rows;
}

/* The --by groups of the places, for all devices. */
static void report_places_json_groups(struct json *json, const struct report *report)
{
    enum view of = report->view;
    size_t count;

    if (report->by == REPORT_BY_ITSELF || !has_places(of))
        return;
    struct row *rows = rows_of(report, -1, of, &count);
    size_t shown = count < report->top ? count : (size_t)report->top;
    char **titles = title_rows(report->symbols, TITLE_STACKS(rows), shown);
    json_begin(json, "groups", '[');
    for (size_t i = 0; i < shown; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "title", rows[i].name ? rows[i].name : titles[i]);
        json_uint(json, "bytes", rows[i].sum.bytes);
        json_uint(json, "count", rows[i].sum.count);
        json_uint(json, "allocated_count", rows[i].allocated_count);
        json_end(json, '}');
    }
    json_end(json, ']');
    title_done(titles, shown);
    free(rows);
}

void report_places_json(struct json *json, const struct report *report)
{
    const struct load *load = &report->load;

    json_begin(json, "device_peaks", '[');
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        if (!load->capture->high[i].bytes)
            continue;
        json_begin(json, NULL, '{');
        json_uint(json, "device", i);
        json_uint(json, "peak_live_bytes", load->capture->high[i].bytes);
        json_real(json, "at_ms", (double)load->capture->high[i].time_ns / 1e6);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_uint(json, "place_count", load->place_count);
    json_uint(json, "places_lost", load->capture->places_lost);
    /* the reader orders them by their share in the high-water mark */
    size_t count;
    struct row *rows = single_rows(report, &count);
    json_begin(json, "places", '[');
    size_t shown = count < report->top ? count : (size_t)report->top;
    char **titles = title_rows(report->symbols, TITLE_STACKS(rows), shown);
    for (size_t i = 0; i < shown; i++)
        json_place(json, report, rows[i].place, titles[i]);
    title_done(titles, shown);
    json_end(json, ']');
    free(rows);
    report_places_json_groups(json, report);
}

/* SPDX-License-Identifier: MIT */
#include "tools/check/peaks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/load/figures.h"

static const struct claim_range unknown = {0, UINT64_MAX};

/* ---- finding the peaks ----------------------------------------------------------------------- */

static struct claim_range peaks_range(uint64_t value, bool is_final)
{
    if (value == MODEL_UNKNOWN)
        return unknown;
    return (struct claim_range){value, is_final ? value : UINT64_MAX};
}

/* Whether the driver served memory directly, for which it does not report the bytes held. */
static bool peaks_has_native(const struct load *load)
{
    return !load_is_imported(load->capture) && load_native_peak(load->capture->class_total) > 0;
}

static struct peaks_figures peaks_ranges(
        const struct peaks_run *run, uint64_t live, uint64_t with_hints, uint64_t reserved)
{
    bool is_told = !load_lacks_reserved(run->load);

    return (struct peaks_figures){
            .live = peaks_range(live, run->has_end),
            .with_hints = peaks_range(with_hints, run->has_end),
            .reserved = peaks_range(is_told ? reserved : MODEL_UNKNOWN,
                    run->has_end && !peaks_has_native(run->load)),
    };
}

static struct peaks_figures peaks_of_run(const struct peaks_run *run, bool *io_has_hints)
{
    struct model_figures f;
    bool is_partial;

    figures_of(run->load, run->window, &f, &is_partial);
    if (read_is_damaged(run->load->capture))
        f = figures_unknown();
    /*
     * The second value of Max starts from zero at the window's begin, so it is a peak only for the
     * whole run.
     */
    bool has_hints = !run->window.is_named && f.hinted.released_count > 0
            && f.hinted.released_count != MODEL_UNKNOWN && f.hinted.max < f.peak_live;
    *io_has_hints = *io_has_hints || has_hints;
    return peaks_ranges(run, f.peak_live, has_hints ? f.hinted.max : f.peak_live, f.peak_reserved);
}

/* ---- of each device -------------------------------------------------------------------------- */

struct peaks_walk {
    uint64_t live, hinted, reserved; /* now */
    uint64_t most_live, most_hinted, most_reserved;
};

/* A release by a hint takes storage from a block once: its later free takes nothing more. */
static void peaks_step(struct peaks_walk *walk, const struct trace *trace,
        const struct trace_event *event, int device)
{
    const struct trace_block *block =
            event->block == TRACE_NONE ? NULL : &trace->blocks[event->block];
    bool is_here = block && block->device == device;

    if (event->kind == TRACE_RESERVED && trace_reserved_of(trace, event)->device == device)
        walk->reserved = trace_reserved_of(trace, event)->on_device;
    if (event->kind == TRACE_ALLOC && is_here) {
        walk->live += block->size;
        walk->hinted += block->size;
    }
    if (event->kind == TRACE_RELEASE && is_here && trace_value(trace, event) == HINT_LIVE)
        walk->hinted -= block->size;
    if (event->kind == TRACE_FREE && is_here) {
        walk->live -= block->size;
        walk->hinted -= block->mode == HINT_LIVE ? 0 : block->size;
    }
}

static struct peaks_figures peaks_by_events(const struct peaks_run *run, int device)
{
    const struct trace *trace = run->load->trace;
    struct peaks_walk walk = {0};

    for (uint32_t at = 0; at < run->window.last; at++) {
        peaks_step(&walk, trace, &trace->events[at], device);
        if (at < run->window.first)
            continue;
        walk.most_live = max_of(walk.most_live, walk.live);
        walk.most_hinted = max_of(walk.most_hinted, walk.hinted);
        walk.most_reserved = max_of(walk.most_reserved, walk.reserved);
    }
    return peaks_ranges(run, walk.most_live,
            run->window.is_named ? walk.most_live : walk.most_hinted, walk.most_reserved);
}

static struct peaks_figures peaks_on(const struct peaks_run *run, int device)
{
    const struct read_capture *capture = run->load->capture;
    bool has_totals = (unsigned)device < FORMAT_DEVICES_MAX;

    if (run->load->complete_from <= run->window.first && !read_is_damaged(capture))
        return peaks_by_events(run, device);
    if (!figures_by_totals(run->load, run->window) || !has_totals || read_is_damaged(capture))
        return (struct peaks_figures){unknown, unknown, unknown};
    const struct format_totals *total = &capture->device_total[device];
    return peaks_ranges(
            run, total->peak_bytes, total->peak_hinted_bytes, total->peak_reserved_bytes);
}

static void peaks_note_devices(const struct load *load, bool *io_is_used)
{
    for (size_t i = 0; i < load->trace->block_count; i++)
        if (load->trace->blocks[i].device >= 0)
            io_is_used[load->trace->blocks[i].device] = true;
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        if (load->capture->device_total[i].peak_bytes > 0
                || load->capture->device_total[i].peak_reserved_bytes > 0)
            io_is_used[i] = true;
}

void peaks_find(const struct peaks_run *good, const struct peaks_run *bad, struct peaks *ret)
{
    bool *is_used = vec_new(INT16_MAX + 1u, sizeof(*is_used));
    struct peaks peaks = {.all = {.device = -1}};

    peaks.all.good = peaks_of_run(good, &peaks.has_hints);
    peaks.all.bad = peaks_of_run(bad, &peaks.has_hints);
    peaks_note_devices(good->load, is_used);
    peaks_note_devices(bad->load, is_used);
    for (int device = 0; device <= INT16_MAX; device++)
        if (is_used[device])
            VEC_PUSH(peaks.devices, peaks.device_count, peaks.device_room) =
                    (struct peaks_row){device, peaks_on(good, device), peaks_on(bad, device)};
    if (peaks.device_count == 1)
        peaks.device_count = 0; /* the one device has the same peaks as the process */
    free(is_used);
    *ret = peaks;
}

void peaks_done(struct peaks *peaks)
{
    free(peaks->devices);
    *peaks = (struct peaks){0};
}

/* ---- comparing ------------------------------------------------------------------------------ */

static enum claim_answer peaks_same(struct claim_range a, struct claim_range b)
{
    if (a.high < b.low || b.high < a.low)
        return CLAIM_NO;
    return a.low == a.high && b.low == b.high ? CLAIM_YES : CLAIM_UNKNOWN;
}

static enum claim_answer peaks_row_equal(const struct peaks_row *row)
{
    enum claim_answer answer = peaks_same(row->good.live, row->bad.live);

    answer = claim_both(answer, peaks_same(row->good.with_hints, row->bad.with_hints));
    return claim_both(answer, peaks_same(row->good.reserved, row->bad.reserved));
}

enum claim_answer peaks_are_equal(const struct peaks *peaks)
{
    enum claim_answer answer = peaks_row_equal(&peaks->all);

    for (size_t i = 0; i < peaks->device_count; i++)
        answer = claim_both(answer, peaks_row_equal(&peaks->devices[i]));
    return answer;
}

/* ---- printing ------------------------------------------------------------------------------- */

/* "2.00 GiB", "at least 2.00 GiB", "not known"; the caller frees it. */
static char *peaks_text(struct claim_range range)
{
    if (range.low == 0 && range.high == UINT64_MAX)
        return vec_text("not known");
    return vec_format(
            "%s%s", range.low == range.high ? "" : "at least ", render_bytes(range.low).text);
}

/* Names of the runs. */
struct peaks_words {
    const char *bad, *good;
};

static const struct peaks_words peaks_sides = {"bad", "good"};

/*
 * "2.00 GiB in bad, 1.50 GiB in good", in bytes if different values would print alike; the caller
 * frees it.
 */
static char *peaks_pair(
        struct claim_range good, struct claim_range bad, const struct peaks_words *words)
{
    char *ours = peaks_text(bad);
    char *theirs = peaks_text(good);

    if (good.low != bad.low && strcmp(ours, theirs) == 0) {
        free(ours);
        free(theirs);
        ours = vec_format("%" PRIu64 " B", bad.low);
        theirs = vec_format("%" PRIu64 " B", good.low);
    }
    char *text = vec_format("%s in %s, %s in %s", ours, words->bad, theirs, words->good);
    free(ours);
    free(theirs);
    return text;
}

/* "live ...; with hints ...; reserved ..."; the caller frees it. */
static char *peaks_line(
        const struct peaks *peaks, const struct peaks_row *row, const struct peaks_words *words)
{
    char *live = peaks_pair(row->good.live, row->bad.live, words);
    char *hints = peaks_pair(row->good.with_hints, row->bad.with_hints, words);
    char *reserved = peaks_pair(row->good.reserved, row->bad.reserved, words);
    char *text =
            vec_format("live %s; %s%s%sreserved %s", live, peaks->has_hints ? "with hints " : "",
                    peaks->has_hints ? hints : "", peaks->has_hints ? "; " : "", reserved);

    free(live);
    free(hints);
    free(reserved);
    return text;
}

static void peaks_print_pair(
        FILE *out, const char *name, struct claim_range good, struct claim_range bad)
{
    char *text = peaks_pair(good, bad, &peaks_sides);

    (void)fprintf(out, "%s: %s\n", name, text);
    free(text);
}

void peaks_print(FILE *out, const struct peaks *peaks)
{
    const struct peaks_row *all = &peaks->all;

    peaks_print_pair(out, "Peak live", all->good.live, all->bad.live);
    if (peaks->has_hints)
        peaks_print_pair(out, "Peak live with hints", all->good.with_hints, all->bad.with_hints);
    peaks_print_pair(out, "Peak reserved", all->good.reserved, all->bad.reserved);
    for (size_t i = 0; i < peaks->device_count; i++) {
        char *text = peaks_line(peaks, &peaks->devices[i], &peaks_sides);

        int used = fprintf(out, "  device %d: ", peaks->devices[i].device);
        render_label(out, text, used > 0 ? (unsigned)used : 0, 4);
        free(text);
    }
}

static void peaks_json_value(struct json *json, const char *key, struct claim_range range)
{
    json_known(json, key, range.low == 0 && range.high == UINT64_MAX ? UINT64_MAX : range.low);
}

static void peaks_json_side(struct json *json, const char *key, const struct peaks_figures *f)
{
    json_begin(json, key, '{');
    peaks_json_value(json, "peak_live_bytes", f->live);
    peaks_json_value(json, "max_with_hints_bytes", f->with_hints);
    peaks_json_value(json, "peak_reserved_bytes", f->reserved);
    json_bool(json, "live_is_exact", f->live.low == f->live.high);
    json_bool(json, "reserved_is_exact", f->reserved.low == f->reserved.high);
    json_end(json, '}');
}

void peaks_json(struct json *json, const struct peaks *peaks)
{
    json_begin(json, "figures", '{');
    json_text(json, "equal", claim_answer_text(peaks_are_equal(peaks)));
    peaks_json_side(json, "good", &peaks->all.good);
    peaks_json_side(json, "bad", &peaks->all.bad);
    json_begin(json, "devices", '[');
    for (size_t i = 0; i < peaks->device_count; i++) {
        json_begin(json, NULL, '{');
        json_int(json, "device", peaks->devices[i].device);
        peaks_json_side(json, "good", &peaks->devices[i].good);
        peaks_json_side(json, "bad", &peaks->devices[i].bad);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

char *peaks_note(const struct peaks *peaks)
{
    static const struct peaks_words words = {"this run", "the other"};
    char *line = peaks_line(peaks, &peaks->all, &words);
    char *note = vec_format("peak %s", line);

    free(line);
    for (size_t i = 0; i < peaks->device_count; i++) {
        char *one = peaks_line(peaks, &peaks->devices[i], &words);
        char *longer = vec_format("%s; device %d: %s", note, peaks->devices[i].device, one);

        free(one);
        free(note);
        note = longer;
    }
    return note;
}

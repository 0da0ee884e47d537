/* SPDX-License-Identifier: MIT */
#include "tools/check/measure.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/wildcard.h"
#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/check/against.h"
#include "tools/check/hinted_growth.h"
#include "tools/check/peaks.h"
#include "tools/symbols/title.h"

#define CUT_OFF     "not known: the run was cut off before its end"
#define DRIVER_HELD "not known: the driver served some of the memory itself"
#define NOT_SAID    "not known: the record that was imported does not say"

static const struct claim_range unknown = {0, UINT64_MAX};

/* The other run of a claim with a FILE, and the comparison with it. */
struct measure_other {
    struct load load;
    struct compare compare;
    struct peaks peaks;
    struct against against;
};

void measure_begin(const struct load *load, struct measure *ret_measure)
{
    struct model_window all = model_whole(load->trace);
    struct measure measure = {.load = load, .pairs = MEASURE_PAIRS};
    bool is_partial;

    figures_of(load, all, &measure.figures, &is_partial);
    *ret_measure = measure;
}

static void forget_other(struct measure *measure)
{
    if (!measure->other)
        return;
    compare_done(&measure->other->compare);
    peaks_done(&measure->other->peaks);
    load_close(&measure->other->load);
    free(measure->other);
    measure->other = NULL;
}

void measure_done(struct measure *measure)
{
    forget_other(measure);
    free(measure->anchors);
    *measure = (struct measure){0};
}

/* The range of a value that was `value` at the end of the record. */
static struct claim_range measure_range_of(enum claim_figure figure, uint64_t value, bool has_ended)
{
    if (value == MODEL_UNKNOWN)
        return unknown;
    if (has_ended)
        return (struct claim_range){value, value};
    return claim_row(figure)->is_final ? unknown : (struct claim_range){value, UINT64_MAX};
}

static uint64_t value_in(const struct model_figures *f, enum claim_figure figure)
{
    const uint64_t values[CLAIM_FIGURE_COUNT] = {
            [CLAIM_PEAK] = f->peak_live,
            [CLAIM_PEAK_WITH_HINTS] = f->hinted.max,
            [CLAIM_PEAK_IF_LIVE] = f->would.max,
            [CLAIM_RESERVED] = f->peak_reserved,
            [CLAIM_ALLOCATED] = f->allocated,
            [CLAIM_ALLOCATIONS] = f->allocated_count,
            [CLAIM_FREED] = f->freed,
            [CLAIM_FREES] = f->freed_count,
            [CLAIM_REMAINING] = f->remaining,
            [CLAIM_REMAINING_WITH_HINTS] = f->hinted.remaining,
            [CLAIM_LEAKS] = f->allocated_count - f->freed_count,
            [CLAIM_HINT_RELEASES] = f->hinted.released_count,
    };

    return values[figure];
}

/* ---- the whole run -------------------------------------------------------------------------- */

static uint64_t drifted_hints(const struct load *load)
{
    uint64_t count = 0;

    for (size_t i = 0; i < load->hint_count; i++)
        count += load_drifts(&load->hints[i]) > 0;
    return count;
}

/* From the recorded steps: of a long run the capture has some. */
static struct claim_range measure_moved(const struct load *load, enum claim_figure figure)
{
    const struct read_capture *capture = load->capture;
    uint64_t bytes = 0;
    bool is_all = true;

    for (size_t i = 0; i < capture->evict_count; i++) {
        const struct format_evict *what = &capture->evict[i].what;

        bytes += figure == CLAIM_MOVED_IN ? what->moved_in : what->moved_out;
        is_all = is_all && what->step < FORMAT_EVICT_STEPS_ALL;
    }
    return measure_range_of(figure, bytes, is_all && load_has_ended(load));
}

static void measure_run(
        const struct measure *measure, const struct claim *claim, struct measure_result *result)
{
    bool has_ended = load_has_ended(measure->load);
    uint64_t value = claim->figure == CLAIM_DRIFTED_HINTS
            ? drifted_hints(measure->load)
            : value_in(&measure->figures, claim->figure);

    result->range = measure_range_of(claim->figure, value, has_ended);
    if (claim->figure == CLAIM_MOVED_IN || claim->figure == CLAIM_MOVED_OUT)
        result->range = measure_moved(measure->load, claim->figure);
    const struct model_second *hinted = &measure->figures.hinted;
    if (claim->figure == CLAIM_PEAK && hinted->released_count > 0 && hinted->max < value
            && value != MODEL_UNKNOWN)
        result->note = vec_format("%s with hints (peak_with_hints), %s saved",
                render_bytes(hinted->max).text, render_bytes(value - hinted->max).text);
    /* The writer does not add up the releases that shadow only records. */
    if (claim->figure == CLAIM_PEAK_IF_LIVE && value == MODEL_UNKNOWN)
        result->note = vec_text(load_lacks(measure->load->capture));
}

/* "evaluate train.py:41: +97.50 MiB a step" */
static char *site_text(
        struct symbols *symbols, const struct growth *growth, const struct growth_site *site)
{
    const struct growth_site *rows = growth_first(growth, site->is.trend);
    size_t count = growth->counts[site->is.trend];
    char **titles = title_rows(symbols, TITLE_STACKS(rows), count);
    char *size = vec_format("blocks of %s", render_bytes(site->size).text);
    char *trend = growth_text(growth, site);
    char *text = vec_format("%s: %s", site->stack ? titles[site - rows] : size, trend);

    free(trend);
    free(size);
    title_done(titles, count);
    return text;
}

/* Why it is not known whether more grows than the sites that do; NULL: it is known. */
static char *growth_doubt(
        const struct load *load, struct symbols *symbols, const struct growth *growth)
{
    const struct growth_site *unsure = growth_first(growth, TREND_UNKNOWN);
    uint64_t held = hinted_growth_held(load, growth);

    if (held)
        return vec_format("not known: hints hold %s more at the end than before, of blocks that "
                          "the program freed",
                render_bytes(held).text);
    if (unsure) {
        char *site = site_text(symbols, growth, unsure);
        char *doubt = vec_format("not known: %s; %s", site, trend_why_text(unsure->is.why));
        free(site);
        return doubt;
    }
    return NULL;
}

/* What grows most, else what was filled most, if that is a hundredth of all; NULL: nothing. */
static char *growth_note(struct symbols *symbols, const struct growth *growth)
{
    bool grows = growth->counts[TREND_GROWS] > 0;
    enum trend trend = grows ? TREND_GROWS : TREND_FILLED;
    const struct growth_site *most = growth_first(growth, trend);

    if (!most || (!grows && most->is.last - most->is.first < growth->last / 100))
        return NULL;
    char *site = site_text(symbols, growth, most);
    size_t more = growth->counts[trend] - 1;
    char *others = more ? vec_format("; %zu more call site%s %s", more, render_s(more),
                           !grows              ? "filled"
                                   : more == 1 ? "grows"
                                               : "grow")
                        : vec_text("");
    char *note = vec_format("%s%s, %s after the last%s", grows ? "" : "filled, and stays: ", site,
            render_bytes(most->is.last).text, others);
    free(others);
    free(site);
    return note;
}

/*
 * Judges both the program's frees and the stored bytes: hints may have released blocks that grow,
 * or hold blocks that are freed. What a run that was cut off would have kept in the end is unknown,
 * but not what it gained in its rounds.
 */
static void measure_rounds(const struct load *load, const struct claim *claim,
        struct growth *growth, struct measure_result *result)
{
    uint64_t gained = 0, stored = hinted_growth_stored(load, growth);
    bool has_ended = load_has_ended(load);
    struct symbols *symbols = symbols_new(load->trace);

    growth_join(growth, symbols);
    char *doubt = growth_doubt(load, symbols, growth);
    for (size_t i = 0; i < growth->counts[TREND_GROWS]; i++)
        gained += growth->sites[i].is.last - growth->sites[i].is.first;
    result->range = (struct claim_range){stored, doubt || !has_ended ? UINT64_MAX : gained};
    if (claim_holds(result->range, claim->op, claim->limit) != CLAIM_UNKNOWN)
        result->note = growth_note(symbols, growth);
    else if (doubt)
        result->note = vec_text(doubt);
    else if (stored != gained)
        result->note = vec_format("not known: call sites gained %s by what the program freed, and "
                                  "%s by what hints have not released",
                render_bytes(gained).text, render_bytes(stored).text);
    free(doubt);
    symbols_free(symbols);
}

static void measure_growth(
        const struct load *load, const struct claim *claim, struct measure_result *result)
{
    struct growth growth;

    growth_find(load, model_whole(load->trace), NULL, &growth);
    if (load->complete_from > 0)
        result->note = vec_text(load_lacks(load->capture));
    else if (growth.why)
        result->note = vec_format("not known: %s", growth.why);
    if (result->note)
        result->range = unknown;
    else
        measure_rounds(load, claim, &growth, result);
    growth_done(&growth);
}

/* ---- another run ---------------------------------------------------------------------------- */

/* False: the capture has no such window, and a line says so. */
static bool measure_find_side(
        const struct measure *measure, const struct load *load, struct compare_side *ret_side)
{
    *ret_side = (struct compare_side){.trace = load->trace, .ended = load_has_ended(load)};
    return figures_window(load, measure->from, measure->to, &ret_side->window) == 0;
}

static bool measure_lacks_in(const struct load *load, const struct compare_side *side)
{
    return load->complete_from > side->window.first;
}

static void measure_compare_sides(const struct measure *measure, const struct compare_side *good,
        const struct compare_side *bad)
{
    struct measure_other *other = measure->other;
    const struct load *lacking = measure_lacks_in(&other->load, good) ? &other->load
            : measure_lacks_in(measure->load, bad)                    ? measure->load
                                                                      : NULL;

    other->against =
            (struct against){&other->compare, lacking ? load_lacks(lacking->capture) : NULL,
                    compare_has_end(good), compare_has_end(bad), measure->pairs};
    compare_runs(good, bad, &other->compare);
    peaks_find(&(struct peaks_run){&other->load, good->window, other->against.good_ended},
            &(struct peaks_run){measure->load, bad->window, other->against.bad_ended},
            &other->peaks);
}

/* False: the capture cannot be used, and a line says so. */
static bool compare_with(struct measure *measure, const char *path)
{
    struct measure_other *other = measure->other;
    struct compare_side good, bad;

    if (other && strcmp(other->load.path, path) == 0)
        return true;
    forget_other(measure);
    other = measure->other = vec_new(1, sizeof(*other));
    if (load_open(path, &other->load) != 0 || load_refuses("kedge check", &other->load)
            || !measure_find_side(measure, &other->load, &good)
            || !measure_find_side(measure, measure->load, &bad)) {
        forget_other(measure);
        return false;
    }
    measure_compare_sides(measure, &good, &bad);
    return true;
}

static void measure_other(
        const struct measure *measure, const struct claim *claim, struct measure_result *result)
{
    char *why;
    char *peaks = peaks_note(&measure->other->peaks);

    result->range = against_range(&measure->other->against, claim->figure, &why);
    result->note = vec_format("%s%s%s", why ? why : "", why ? "; " : "", peaks);
    free(why);
    free(peaks);
}

/* ---- anchors -------------------------------------------------------------------------------- */

/* A mark is named like an anchor but holds nothing. */
static bool measure_is_mark(const struct trace *trace, const struct trace_anchor *anchor)
{
    return anchor->enter != TRACE_NEVER && trace->events[anchor->enter].kind != TRACE_ENTER;
}

static bool measure_is_named(const struct trace_anchor *anchor, const char *glob)
{
    const char *name = strchr(glob, '/') ? anchor->path : filename_of(anchor->path);
    uint32_t instance;
    size_t length = model_name_length(glob, &instance);
    bool is_one = false;

    if (anchor->instance == instance) {
        char *base = vec_format("%.*s", (int)length, glob);
        is_one = wildcard_match(base, name);
        free(base);
    }
    /* a name matches itself */
    return is_one || wildcard_match(glob, name) || strcmp(glob, name) == 0;
}

/*
 * The distance of a value from the limit on the wrong side, or its closeness on the right one:
 * larger is worse.
 */
static uint64_t badness(const struct claim *claim, uint64_t value)
{
    uint64_t distance = value > claim->limit ? value - claim->limit : claim->limit - value;

    switch (claim->op) {
    case CLAIM_LESS:
    case CLAIM_LESS_EQUAL:
        return value;
    case CLAIM_GREATER:
    case CLAIM_GREATER_EQUAL:
        return UINT64_MAX - value;
    case CLAIM_NOT_EQUAL:
        return UINT64_MAX - distance;
    case CLAIM_EQUAL:
    case CLAIM_OP_COUNT:
        break;
    }
    return distance;
}

static bool is_worse(const struct claim *claim, enum claim_answer answer, struct claim_range range,
        const struct measure_result *than)
{
    if (than->anchor == TRACE_NONE)
        return true;
    if (answer != than->answer)
        return claim_both(answer, than->answer) == answer;
    return badness(claim, range.low) > badness(claim, than->range.low);
}

static char *nobody_note(const struct trace *trace, const char *glob)
{
    const char *near = figures_nearest_anchor(trace, glob);

    return near ? vec_format("no anchor is called '%s'; did you mean '%s'?", glob, near)
                : vec_format("no anchor is called '%s'", glob);
}

static void measure_anchors(
        struct measure *measure, const struct claim *claim, struct measure_result *result)
{
    const struct trace *trace = measure->load->trace;
    bool has_ended = load_has_ended(measure->load);

    if (!measure->anchors)
        measure->anchors = model_figure_anchors(trace, model_whole(trace));
    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];
        if (!measure_is_named(anchor, claim->anchor) || measure_is_mark(trace, anchor))
            continue;
        struct claim_range range =
                measure_range_of(claim->figure, value_in(&measure->anchors[i], claim->figure),
                        has_ended || anchor->exit != TRACE_NEVER);
        enum claim_answer answer = claim_holds(range, claim->op, claim->limit);
        if (!is_worse(claim, answer, range, result))
            continue;
        result->anchor = (uint32_t)i;
        result->answer = answer;
        result->range = range;
    }
    if (result->anchor == TRACE_NONE) {
        result->range = unknown;
        result->note = nobody_note(trace, claim->anchor);
    } else if (measure->load->complete_from > 0) {
        result->range = unknown;
        result->note = vec_text(load_lacks(measure->load->capture));
    } else if (!has_ended && result->answer == CLAIM_YES) {
        result->range = unknown; /* more instances may have followed */
    }
}

/* ---- any claim ------------------------------------------------------------------------------ */

bool measure_claim(
        struct measure *measure, const struct claim *claim, struct measure_result *ret_result)
{
    struct measure_result result = {.anchor = TRACE_NONE};

    if (claim->file && !compare_with(measure, claim->file))
        return false;
    if (claim->figure == CLAIM_RESERVED && load_lacks_reserved(measure->load)) {
        result.range = unknown;
        result.note = vec_text(NOT_SAID);
    } else if (claim->anchor)
        measure_anchors(measure, claim, &result);
    else if (claim->file)
        measure_other(measure, claim, &result);
    else if (claim->figure == CLAIM_GROWTH)
        measure_growth(measure->load, claim, &result);
    else
        measure_run(measure, claim, &result);
    if (claim->figure == CLAIM_RESERVED && !result.note
            && load_native_peak(measure->load->capture->class_total) > 0) {
        result.range.high = UINT64_MAX; /* only the pool's bytes are known, and more was held */
        result.note = vec_text(DRIVER_HELD);
    }
    result.answer = claim_holds(result.range, claim->op, claim->limit);
    if (result.answer == CLAIM_UNKNOWN && !result.note)
        result.note = vec_text(CUT_OFF);
    *ret_result = result;
    return true;
}

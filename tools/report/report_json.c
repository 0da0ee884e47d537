/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <stdlib.h>

#include "tracker/hints/hintfile.h"

/* Limit for a page. */
#define REPORT_JSON_ARGUMENTS 64u
#define REPORT_JSON_HINTS     300u

/* Whether the process ended after a failed allocation, as far as the file records it. */
static bool report_json_failed(const struct read_capture *capture)
{
    bool is_well = capture->state == FORMAT_STATE_CLEAN
            && (capture->state_detail & FORMAT_EXIT_KNOWN) && (capture->state_detail & 0xffu) == 0;

    return capture->oom_count > 0 && !is_well;
}

static void json_program(struct json *json, const struct read_capture *capture)
{
    char *end = report_end_text(capture);

    json_begin(json, "program", '{');
    json_text(json, "exe", capture->exe);
    size_t shown = json_begin_rows(json, "argv", capture->argc, REPORT_JSON_ARGUMENTS);
    for (size_t i = 0; i < shown; i++)
        json_text(json, NULL, capture->argv[i]);
    json_end(json, ']');
    json_text(json, "identity", capture->program);
    json_uint(json, "pid", capture->pid);
    json_text(json, "hostname", capture->host);
    json_text(json, "rank", capture->rank);
    json_text(json, "ended", end);
    json_bool(json, "clean", capture->state == FORMAT_STATE_CLEAN && !read_is_damaged(capture));
    json_bool(json, "failed", report_json_failed(capture));
    json_known(json, "started_ms",
            capture->start_real_ns ? capture->start_real_ns / 1000000u : UINT64_MAX);
    json_text(json, "hints_file", capture->hints_hash ? capture->hints_path : NULL);
    json_text(json, "hints_mode", capture->hints_hash ? hintwords_mode(capture->hints_mode) : NULL);
    json_end(json, '}');
    free(end);
    json_begin(json, "settings", '{');
    for (size_t i = 0; i < capture->setting_count; i++)
        json_text(json, capture->setting[i].name, capture->setting[i].value);
    json_end(json, '}');
    json_begin(json, "devices", '[');
    for (size_t i = 0; i < capture->device_count; i++) {
        json_begin(json, NULL, '{');
        json_int(json, "device", capture->device[i].device);
        json_text(json, "name", capture->device[i].name);
        json_uint(json, "total_bytes", capture->device[i].total_bytes);
        json_uint(json, "driver_version", capture->device[i].driver_version);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_quality(struct json *json, const struct report *report)
{
    const struct read_capture *capture = report->load.capture;

    report_coverage_json(json, report);
    json_begin(json, "notes", '[');
    for (size_t i = 0; i < capture->note_count; i++)
        json_text(json, NULL, capture->note[i].text);
    json_end(json, ']');
    json_begin(json, "lost", '{');
    json_uint(json, "events_recycled", capture->lost.events_recycled);
    json_uint(json, "events_dropped", capture->lost.events_dropped);
    json_uint(json, "live_dropped", capture->lost.live_dropped);
    json_uint(json, "defs_dropped", capture->lost.defs_dropped);
    json_uint(json, "unknown_frees", capture->lost.unknown_frees);
    json_uint(json, "implied_frees", capture->lost.implied_frees);
    json_uint(json, "bad_records", capture->bad_records);
    json_uint(json, "torn_totals", capture->torn);
    json_end(json, '}');
    json_begin(json, "damaged", '[');
    for (unsigned area = 0; area < READ_AREA_COUNT; area++) {
        if (capture->damaged[area] == 0)
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "area", read_area_name(area));
        json_uint(json, "count", capture->damaged[area]);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_sum_of(struct json *json, const char *name, struct trace_sum sum)
{
    char key[64];

    (void)snprintf(key, sizeof(key), "%s_count", name);
    json_known(json, key, sum.count);
    (void)snprintf(key, sizeof(key), "%s_bytes", name);
    json_known(json, key, sum.bytes);
}

static void report_json_hints(struct json *json, const struct report *report)
{
    static const struct {
        const char *key;
        enum format_hint_what what;
    } counts[] = {{"unmapped_count", FORMAT_HINT_UNMAPPED}, {"skipped_count", FORMAT_HINT_SKIPPED},
            {"refused_count", FORMAT_HINT_REFUSED}, {"late_touches", FORMAT_HINT_LATE_TOUCH},
            {"violations", FORMAT_HINT_VIOLATION}, {"carried", FORMAT_HINT_CARRIED},
            {"unchanged_count", FORMAT_HINT_CLEAN}, {"late_writes", FORMAT_HINT_LATE_WRITE}};
    const struct load *load = &report->load;

    size_t shown = json_begin_rows(json, "hints", load->hint_count, REPORT_JSON_HINTS);
    for (size_t i = 0; i < shown; i++) {
        const struct load_hint *hint = &load->hints[i];
        char drift[512];

        json_begin(json, NULL, '{');
        json_text(json, "id", hint->id);
        json_text(json, "do", hintwords_action(hint->action));
        json_text(json, "mode", hintwords_mode(hint->mode));
        json_sum_of(json, "matched", load_sum(load, hint, FORMAT_HINT_PLANNED));
        json_sum_of(json, "released", load_released(load, hint));
        json_sum_of(json, "would", load_would(load, hint));
        json_sum_of(json, "would_hold", load_sum(load, hint, FORMAT_HINT_WOULD_HOLD));
        json_sum_of(json, "held", load_sum(load, hint, FORMAT_HINT_HELD));
        json_sum_of(json, "let_go", load_sum(load, hint, FORMAT_HINT_LET_GO));
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
            json_known(json, counts[k].key, load_sum(load, hint, counts[k].what).count);
        json_real(json, "limbo_max_ms", (double)hint->limbo_max_ns / 1e6);
        json_uint(json, "drift_count", load_drifts(hint));
        if (hint->drift)
            hintwords_tell_drift(hint->drift, drift, sizeof(drift));
        json_text(json, "drift", hint->drift ? drift : NULL);
        if (hint->written_block != TRACE_NONE) {
            json_uint(json, "first_changed_byte", hint->written_at);
            figures_json_stack(json, report->symbols,
                    report->load.trace->blocks[hint->written_block].stack, "written_in");
        }
        if (load_touches(hint))
            figures_json_touch(json, report->symbols, load->trace, hint);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_libraries(struct json *json, const struct report *report)
{
    size_t count;
    struct report_library *rows;

    if (!report_has_sums(report)) {
        json_text(json, "libraries", NULL);
        return;
    }
    rows = report_libraries(report, VIEW_LIBRARIES, &count);

    json_begin(json, "libraries", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "path", report->sources.libraries[rows[i].at].name);
        report_json_figures(json, &rows[i].figures);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

static void json_classes(struct json *json, const struct report *report)
{
    const struct sources *sources = &report->sources;

    if (!report_json_has_sums(json, report)) {
        json_text(json, "classes", NULL);
        return;
    }
    json_begin(json, "classes", '[');
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++) {
        if (!sources->classes[i].allocated_count)
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "name", sources_class_name((enum memclass)i));
        json_bool(json, "device_memory", i < MEMCLASS_DEVICE_END);
        report_json_figures(json, &sources->classes[i]);
        json_known(json, "own_peak_bytes", sources->classes[i].peak);
        json_known(json, "at_max_bytes", sources->classes[i].at_max);
        json_end(json, '}');
    }
    json_end(json, ']');
}

/* Figures of the last look; the remainder belongs to contexts and other processes. */
static void json_looks(struct json *json, const struct read_capture *capture)
{
    json_begin(json, "device_memory", '[');
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        const struct format_look *look = &capture->look[i];
        struct sources_overhead overhead = sources_overhead(look);
        if (!overhead.is_known)
            continue;
        json_begin(json, NULL, '{');
        json_uint(json, "device", i);
        json_uint(json, "looks", look->looks);
        json_uint(json, "total_bytes", look->total_bytes);
        json_uint(json, "free_bytes", look->free_bytes);
        json_uint(json, "reserved_bytes", look->held_bytes);
        json_uint(json, "driver_bytes", look->native_bytes);
        json_uint(json, "graph_reserved_bytes", look->graph_reserved);
        json_uint(json, "graph_peak_reserved_bytes", look->graph_high);
        json_uint(json, "overhead_bytes", overhead.bytes);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void report_json_figures_of(struct json *json, const struct report *report)
{
    double utilisation;

    figures_json(json, &report->figures);
    json_known(json, "peak_live_512_bytes", report->figures.peak_live_512);
    if (figures_utilisation(&report->figures, &utilisation))
        json_real(json, "e", utilisation);
    json_uint(json, "driver_peak_bytes", load_native_peak(report->load.capture->class_total));
    report_pool_json(json, report);
}

/* A page has notes as text, and call sites instead of places. */
static void report_json_no_page(struct json *json, const struct report *report)
{
    json_quality(json, report);
    report_live_json(json, report, VIEW_LIVE, "live");
    if (!report->from && !report->to) {
        report_held_json(json, report, FORMAT_WALK_STEP, UINT64_MAX, "held_after_step");
        report_held_json(json, report, FORMAT_WALK_GROWN, UINT64_MAX, "held_when_grown");
        report_held_json(json, report, FORMAT_WALK_ASKED, UINT64_MAX, "held_as_asked");
        report_held_json(json, report, FORMAT_WALK_END, UINT64_MAX, "held_at_end");
    }
    report_live_json(json, report, VIEW_HWM, "live_at_max");
    report_places_json(json, report);
    json_libraries(json, report);
    json_looks(json, report->load.capture);
    report_streams_json(json, report);
    figures_json_trouble(json, report->symbols);
    if (report->view == VIEW_FRAGMENTS)
        report_fragments_json(json, report);
    if (report->view == VIEW_STEPS)
        report_steps_json(json, report);
}

static void report_json_summary(struct json *json, const struct report *report)
{
    const struct report *inner = report->tensors ? report->tensors : report;
    struct answer answer = answer_find(
            &inner->load, inner->symbols, inner->window, &inner->figures, &inner->stated);

    answer_json(json, "summary", &answer);
    answer_done(&answer);
}

void report_json(struct json *json, const struct report *report)
{
    json_text(json, "capture", report->load.path);
    json_program(json, report->load.capture);
    json_bool(json, "complete", !report_lacks_events(report));
    json_begin(json, "window", '{');
    json_text(json, "from", report->from);
    json_text(json, "to", report->to);
    json_end(json, '}');
    report_json_summary(json, report);
    if (report->made_to)
        report_between_json(json, report);
    report_json_figures_of(json, report);
    report_json_hints(json, report);
    report_evict_json(json, report);
    report_oom_json(json, report);
    json_classes(json, report);
    report_sources_json(json, report);
    report_waterfall_json(json, report);
    report_patterns_json(json, report);
    report_anchors_json(json, report);
    report_tensors_json(json, report);
    report_kinds_json(json, report);
    if (!json->page)
        report_json_no_page(json, report);
}

void report_json_print(const struct report *report)
{
    struct json json = json_open(stdout);

    report_json(&json, report);
    json_end(&json, '}');
}

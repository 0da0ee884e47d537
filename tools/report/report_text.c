/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tracker/hints/hintfile.h"

static void print_field(const char *name, const char *value)
{
    render_print(stdout, "%-9s %s\n", name, value);
}

static void print_import(const struct read_capture *capture)
{
    render_print(stdout, "imported  %s %s%s%s\n", report_setting(capture, "imported_from"),
            report_setting(capture, "imported_file"), *capture->rank ? ", rank " : "",
            capture->rank);
}

static void print_program(const struct read_capture *capture)
{
    printf("%-9s ", "program");
    if (capture->argc == 0)
        render_text(stdout, capture->exe);
    for (size_t i = 0; i < capture->argc; i++)
        render_print(stdout, "%s%s", i ? " " : "", capture->argv[i]);
    render_print(stdout, " (pid %" PRIu32 " on %s%s%s)\n", capture->pid,
            *capture->host ? capture->host : "?", *capture->rank ? ", rank " : "", capture->rank);
}

static void report_text_print_devices(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->device_count; i++) {
        const struct read_device *device = &capture->device[i];
        render_print(stdout, "device    %d: %s, %s, driver %" PRIu32 ".%" PRIu32 "\n",
                device->device, device->name, render_bytes(device->total_bytes).text,
                device->driver_version / 1000, device->driver_version % 1000 / 10);
    }
}

/* The receiver of notes about data that the capture lacks. */
struct teller {
    void (*tell)(void *context, const char *word, const char *text);
    void *context;
};

static void tell_about(const struct teller *teller, const char *word, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static void tell_about(const struct teller *teller, const char *word, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = vec_vformat(format, args);
    va_end(args);
    teller->tell(teller->context, word, text);
    free(text);
}

/* Counts of unknown calls and lost records of the run (preload/caller/coverage.c). */
static void report_text_tell_bounds(const struct report *report, const struct teller *teller)
{
    static const struct {
        const char *name;
        const char *what;
    } bounds[] = {
            {"stacks_cut", "stacks end at the depth (KEDGE_STACKS=depth=N looks further)"},
            {"stacks_lost", "requests have no stack although one was wanted"},
            {"nth_lost",
                    "requests were not counted at their place: no hint with a number is for them"},
            {"anchors_lost", "ranges are no anchors: too deep, or too many"},
            {"names_lost", "names, modules or stacks were one too many"},
    };

    for (size_t i = 0; i < CMD_COUNT(bounds); i++) {
        const char *count = report_setting(report->load.capture, bounds[i].name);

        if (*count)
            tell_about(teller, "note", "%s %s", count, bounds[i].what);
    }
}

/* Data that the capture lacks, each with its reason. */
static void report_text_tell_losses(const struct report *report, const struct teller *teller)
{
    const struct read_capture *capture = report->load.capture;
    const struct format_lost *lost = &capture->lost;
    bool is_imported = load_is_imported(capture);
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
            {lost->events_recycled,
                    is_imported ? "blocks lived before the record begins"
                            : capture->trace == FORMAT_TRACE_FULL
                            ? "older events overwritten"
                            : "older events overwritten (KEDGE_TRACE=full keeps all)"},
            {lost->events_dropped,
                    is_imported ? "pieces of the record that make no sense"
                                : "events without room"},
            {lost->live_dropped, "allocations without a slot in the live table"},
            {lost->defs_dropped, "names or stacks without room"},
            {lost->unknown_frees, "frees of memory that was never seen allocated"},
            {lost->implied_frees, "addresses handed out again without a free on record"},
            {capture->places_lost, "allocations beyond the bound of places"},
            {capture->bad_records, "records that make no sense"},
            {capture->torn, "totals that differ from the records by what was under way"},
            {capture->unseen.count,
                    "calls whose arguments are not known: who was used is not known"},
    };

    for (unsigned area = 0; area < READ_AREA_COUNT; area++)
        if (capture->damaged[area])
            tell_about(teller, "damaged", "%" PRIu64 " in %s", capture->damaged[area],
                    read_area_name(area));
    for (size_t i = 0; i < CMD_COUNT(rows); i++)
        if (rows[i].count)
            tell_about(teller, "lost", "%" PRIu64 " %s", rows[i].count, rows[i].what);
}

void report_notes_tell(const struct report *report,
        void (*tell)(void *context, const char *word, const char *text), void *context)
{
    const struct read_capture *capture = report->load.capture;
    const struct teller teller = {tell, context};

    for (size_t i = 0; i < capture->note_count; i++)
        tell_about(&teller, capture->note[i].severity ? "warning" : "note", "%s",
                capture->note[i].text);
    report_text_tell_losses(report, &teller);
    report_text_tell_bounds(report, &teller);
    if (report->partial)
        tell_about(&teller, "note", "%s: figures are incomplete", load_lacks(capture));
}

static void report_text_print_note(void *context, const char *word, const char *text)
{
    const struct report *report = *(const struct report *const *)context;
    bool is_damage = strcmp(word, "damaged") == 0;

    report_field(report, is_damage ? report->ink.red : report->ink.yellow, word, "%s", text);
}

#define NOTES_SHOWN 3 /* on one screen */

/* Damage, losses and warnings come before notes. */
struct short_note {
    unsigned rank, number;
    char *word, *text;
};

struct short_notes {
    struct short_note *list;
    size_t count, room;
};

static const struct vec_key graver_first[] = {
        VEC_UP(struct short_note, rank), VEC_UP(struct short_note, number)};

static void keep_note(void *context, const char *word, const char *text)
{
    struct short_notes *notes = context;
    unsigned number = (unsigned)notes->count;

    VEC_PUSH(notes->list, notes->count, notes->room) =
            (struct short_note){strcmp(word, "note") == 0, number, vec_text(word), vec_text(text)};
}

static void print_gravest_notes(const struct report *report)
{
    struct short_notes notes = {0};

    report_notes_tell(report, keep_note, &notes);
    VEC_SORT_BY(notes.list, notes.count, graver_first);
    for (size_t i = 0; i < notes.count; i++) {
        if (i < NOTES_SHOWN)
            report_text_print_note(&report, notes.list[i].word, notes.list[i].text);
        free(notes.list[i].word);
        free(notes.list[i].text);
    }
    if (notes.count > NOTES_SHOWN)
        report_field(report, report->ink.yellow, "note", "%zu more of these (--all)",
                notes.count - NOTES_SHOWN);
    free(notes.list);
}

/* A capture that lost its names has no settings either. */
static const char *report_text_known(const char *setting)
{
    return *setting ? setting : "not known";
}

static void print_header(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    char *end = report_end_text(capture);

    print_field("capture", report->load.path);
    if (load_is_imported(capture))
        print_import(capture);
    else
        print_program(capture);
    report_text_print_devices(capture);
    if (!load_is_imported(capture))
        print_field("mode", report_text_known(report_setting(capture, "mode")));
    if (capture->hints_hash)
        render_print(stdout, "hints     %s (%s)\n", capture->hints_path,
                hintwords_mode(capture->hints_mode));
    print_field("ended", end);
    free(end);
    report_coverage_print(report);
    report_notes_tell(report, report_text_print_note, &report);
    putchar('\n');
}

static void print_peaks(const struct report *report)
{
    const struct model_figures *f = &report->figures;
    uint64_t native = load_native_peak(report->load.capture->class_total);
    double utilisation;

    printf("\nPeak live: %s", render_bytes(f->peak_live).text);
    if (!report->window.is_named && f->hinted.released_count && f->hinted.max != f->peak_live)
        printf(" (%s with hints)", render_bytes(f->hinted.max).text);
    printf("   Peak reserved: %s",
            render_bytes(load_lacks_reserved(&report->load) ? UINT64_MAX : f->peak_reserved).text);
    if (figures_utilisation(f, &utilisation))
        printf("   Utilisation: %.3f", utilisation);
    putchar('\n');
    if (native > 0 && !load_is_imported(report->load.capture))
        printf("Reserved and utilisation are of kedge's pool; the driver itself served up to %s.\n",
                render_bytes(native).text);
    report_pool_print(report);
    if (f->outside_freed_count && f->outside_freed_count != MODEL_UNKNOWN)
        printf("Freed from before the window: %" PRIu64 " block%s, %s (not counted above)\n",
                f->outside_freed_count, render_s(f->outside_freed_count),
                render_bytes(f->outside_freed).text);
}

static void print_hint_touch(const struct report *report, const struct load_hint *hint)
{
    printf("  %s", report->ink.red);
    render_print(stdout, "hint %s: ", hint->id);
    printf("%s%s\n",
            hint->sums[FORMAT_HINT_VIOLATION].count
                    ? "a call that touches a released range was stopped"
                    : "a range was used after its release was due",
            report->ink.off);
    figures_print_touch(stdout, report->symbols, report->load.trace, hint);
}

/* Poisoned blocks that were not checked: never freed, freed at once, or kept for others. */
static void print_hint_unlooked(const struct load_hint *hint)
{
    uint64_t count = load_unlooked(hint);

    if (count == 0)
        return;
    render_print(stdout,
            "  hint %s: %" PRIu64 " of %" PRIu64 " blocks were not checked for late writes\n",
            hint->id, count, hint->sums[FORMAT_HINT_DEAD].count);
}

static void print_hint_drift(const struct report *report, const struct load_hint *hint)
{
    uint64_t count = load_drifts(hint);
    char text[512] = "";

    hintwords_tell_drift(hint->drift, text, sizeof(text));
    printf("  %s", report->ink.red);
    render_print(stdout,
            "hint %s drifted in %" PRIu64 " instance%s of its anchor, and released nothing of "
            "them: %s",
            hint->id, count, render_s(count), text);
    puts(report->ink.off);
}

static void print_hint_carried(const struct load_hint *hint)
{
    uint64_t places = hint->sums[FORMAT_HINT_CARRIED].count;

    render_print(stdout, "  hint %s: launches carried its address at %" PRIu64 " place%s%s\n",
            hint->id, places, render_s(places),
            hint->action == ACTION_RELEASE
                    ? " inside a larger parameter; `kedge verify` makes it keep-meta"
                    : ", which keep-meta allows");
}

/*
 * Only a log without gaps shows whether held blocks were released, and only a run that ended by
 * itself that they never would be.
 */
static void print_hint_held(const struct load *load, const struct load_hint *hint, const char *how,
        const struct trace_sum *held, const struct trace_sum *gone)
{
    bool is_whole = load->complete_from == 0;

    if (held->count == 0)
        return;
    render_print(stdout, "  hint %s %s %" PRIu64 " block%s, %s, after the free", hint->id, how,
            held->count, render_s(held->count), render_bytes(held->bytes).text);
    if (is_whole && held->count > gone->count)
        printf("; %" PRIu64 " of them, %s, to the end%s", held->count - gone->count,
                render_bytes(excess_of(held->bytes, gone->bytes)).text,
                load_has_ended(load) ? ": what they waited for never came" : "");
    putchar('\n');
}

/* For a narrow column. */
static struct render_bytes number_or_mark(uint64_t count)
{
    return count == UINT64_MAX ? (struct render_bytes){"?"} : render_count(count);
}

static void print_hint_row(
        const struct load *load, const struct load_hint *hint, const char *id, const char *mode)
{
    printf("  ");
    render_label(stdout, id, 2, 2);
    printf("    %-7s %8s %11s %11s %8s %8s %7s", mode,
            number_or_mark(load_sum(load, hint, FORMAT_HINT_PLANNED).count).text,
            render_bytes(load_released(load, hint).bytes).text,
            render_bytes(load_would(load, hint).bytes).text,
            number_or_mark(load_sum(load, hint, FORMAT_HINT_SKIPPED).count).text,
            number_or_mark(load_sum(load, hint, FORMAT_HINT_REFUSED).count).text,
            number_or_mark(load_late(load, hint)).text);
    if (load->complete_from == 0)
        printf(" %9.3f\n", (double)hint->limbo_max_ns / 1e6);
    else
        printf(" %9s\n", "?");
}

static void add_to_sum(struct load_hint *sum, const struct load_hint *hint)
{
    sum->mode = hint->mode;
    for (unsigned i = 0; i < FORMAT_HINT_COUNT; i++)
        trace_sum_join(&sum->sums[i], hint->sums[i]);
    sum->limbo_max_ns = max_of(sum->limbo_max_ns, hint->limbo_max_ns);
}

static void print_hints(const struct report *report)
{
    const struct load *load = &report->load;
    struct load_hint sum = {0};

    if (load->hint_count == 0) {
        if (report->view)
            puts("no hints in this run");
        return;
    }
    printf("\n%sHints%s\n", report->ink.bold, report->ink.off);
    printf("    %-7s %8s %11s %11s %8s %8s %7s %9s\n", "mode", "matched", "released", "would save",
            "skipped", "refused", "touched", "limbo ms");
    for (size_t i = 0; i < load->hint_count; i++) {
        const struct load_hint *hint = &load->hints[i];
        add_to_sum(&sum, hint);
        if (i < report->top)
            print_hint_row(load, hint, hint->id, hintwords_mode(hint->mode));
    }
    figures_print_more(load->hint_count, report->top, "hint");
    if (load->hint_count > 1)
        print_hint_row(load, &sum, "all", "");
    for (size_t i = 0; i < load->hint_count; i++) {
        if (load->hints[i].drift)
            print_hint_drift(report, &load->hints[i]);
        print_hint_held(load, &load->hints[i], "held", &load->hints[i].sums[FORMAT_HINT_HELD],
                &load->hints[i].sums[FORMAT_HINT_LET_GO]);
        print_hint_held(load, &load->hints[i], "would have held",
                &load->hints[i].sums[FORMAT_HINT_WOULD_HOLD],
                &load->hints[i].sums[FORMAT_HINT_WOULD_HOLD]);
        if (load->hints[i].sums[FORMAT_HINT_CARRIED].count)
            print_hint_carried(&load->hints[i]);
        if (load_touches(&load->hints[i]))
            print_hint_touch(report, &load->hints[i]);
        if (load->hints[i].sums[FORMAT_HINT_LATE_WRITE].count)
            figures_print_written(stdout, "  ", report->symbols, load->trace, &load->hints[i]);
        print_hint_unlooked(&load->hints[i]);
    }
}

/* "Hints: 6 live; released 751 blocks, 3.71 GiB", and whether anything is wrong with them. */
static void print_hints_in_short(const struct report *report)
{
    const struct load *load = &report->load;
    struct trace_sum released = {0};
    struct trace_sum would = {0};
    uint64_t touched = 0;
    uint64_t wrong = 0;

    for (size_t i = 0; i < load->hint_count; i++) {
        const struct load_hint *hint = &load->hints[i];

        trace_sum_join(&released, load_released(load, hint));
        trace_sum_join(&would, load_would(load, hint));
        touched += load_touches(hint) != 0 || hint->sums[FORMAT_HINT_LATE_WRITE].count != 0;
        wrong += hint->drift != 0;
    }
    if (load->hint_count == 0)
        return;
    printf("\nHints: %zu in %s; released %s, would save %s\n", load->hint_count,
            hintwords_mode(report->load.capture->hints_mode), render_bytes(released.bytes).text,
            render_bytes(would.bytes).text);
    if (touched + wrong)
        printf("  %s%" PRIu64 " used after the release was due, %" PRIu64 " with drift%s\n",
                report->ink.red, touched, wrong, report->ink.off);
}

static void print_libraries(const struct report *report)
{
    size_t count;
    struct report_library *rows = report_libraries(report, VIEW_LIBRARIES, &count);

    printf("\n%sBy library%s\n", report->ink.bold, report->ink.off);
    if (!report_has_sums(report)) {
        puts("  not known");
        free(rows);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sources_figures *figures = &rows[i].figures;

        printf("  %11s live in %6" PRIu64 " blocks, %11s in %6" PRIu64 " allocated  ",
                render_bytes(figures->live).text, figures->live_count,
                render_bytes(figures->allocated).text, figures->allocated_count);
        render_label(stdout, report->sources.libraries[rows[i].at].name, 70, 6);
    }
    if (count == 0)
        puts("  nothing");
    free(rows);
}

static void print_classes(const struct report *report)
{
    const struct sources_figures *rows = report->sources.classes;
    bool any = false;

    if (!report_has_sums(report)) {
        printf("\n%sBy class%s\n  not known\n", report->ink.bold, report->ink.off);
        return;
    }
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++) {
        if (!rows[i].allocated_count)
            continue;
        if (!any)
            printf("\n%sBy class%s\n  %-16s %12s %12s %8s\n", report->ink.bold, report->ink.off, "",
                    "live", "own peak", "count");
        any = true;
        printf("  %-16s %12s %12s %8" PRIu64 "%s\n", sources_class_name((enum memclass)i),
                render_bytes(rows[i].live).text, render_bytes(rows[i].peak).text,
                rows[i].allocated_count, i >= MEMCLASS_DEVICE_END ? "  (not device memory)" : "");
    }
    if (!any && report->view)
        puts("nothing was allocated");
}

/* For views that can only count recorded events; the whole report says in its head what is lost. */
static void print_record_note(const struct report *report)
{
    enum view view = report->view;
    bool counts_blocks = view == VIEW_ANCHORS || view == VIEW_PATTERNS || view == VIEW_STEPS
            || view == VIEW_STREAMS || (view == VIEW_LIBRARIES && !report_has_high(report))
            || (view == VIEW_ALL && report->by == REPORT_BY_ANCHOR);

    if (counts_blocks && report_lacks_events(report))
        report_field(report, report->ink.yellow, "note", "%s: this is of what is on record",
                load_lacks(report->load.capture));
}

/* Why memory was short, the call sites of the peak, and the remaining memory. */
static void print_held(const struct report *report, enum view view)
{
    if (view == VIEW_ALL || view == VIEW_HINTS)
        print_hints(report);
    if (view == VIEW_EVICTION || (view == VIEW_ALL && !report->from && !report->to))
        report_evict_print(report);
    if (view == VIEW_ALL || view == VIEW_OOM)
        report_oom_print(report);
    if (view == VIEW_ANCHORS || (view == VIEW_ALL && report->by == REPORT_BY_ANCHOR))
        report_anchors_print(report);
    if ((view == VIEW_ALL || view == VIEW_HWM) && report_has_high(report))
        report_high_print(report);
    else if (view == VIEW_ALL || view == VIEW_HWM)
        report_live_print(report, VIEW_HWM);
    if (view == VIEW_ALL && report->kinds.of)
        report_kinds_print(report, VIEW_HWM);
    if (view == VIEW_ALL || view == VIEW_LIVE) {
        report_live_print(report, VIEW_LIVE);
        if (!report->from && !report->to) {
            report_held_print(report, FORMAT_WALK_STEP, UINT64_MAX);
            report_held_print(report, FORMAT_WALK_GROWN, UINT64_MAX);
            report_held_print(report, FORMAT_WALK_ASKED, UINT64_MAX);
            report_held_print(report, FORMAT_WALK_END, UINT64_MAX);
        }
    }
}

/* What a reader needs first, with the commands for the rest. */
static void print_screen(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    const struct report *inner = report->tensors ? report->tensors : report;
    struct answer answer = answer_find(
            &inner->load, inner->symbols, inner->window, &inner->figures, &inner->stated);
    char *end = report_end_text(capture);

    report_answer_print(inner, &answer);
    if (load_is_imported(capture))
        print_import(capture);
    else
        print_program(capture);
    print_field("ended", end);
    report_coverage_print(report);
    print_gravest_notes(report);
    putchar('\n');
    figures_print(stdout, &report->figures);
    print_peaks(report);
    report_timeline_print(report);
    report_tensors_print(report);
    print_hints_in_short(report);
    report_lines_print(inner, &answer.lines);
    report_kinds_print_short(inner);
    report_views_print(report);
    answer_done(&answer);
    free(end);
}

static void print_kinds(const struct report *report)
{
    report_kinds_print_limits(report);
    if (report->view != VIEW_LIVE)
        report_kinds_print(report, VIEW_HWM);
    if (report->view != VIEW_HWM)
        report_kinds_print(report, VIEW_LIVE);
    print_record_note(report);
}

static void print_views(const struct report *report, enum view view)
{
    print_held(report, view);
    if (view == VIEW_LEAKS)
        report_leaks_print(report);
    if (view == VIEW_TEMPORARY)
        report_temporary_print(report);
    if (view == VIEW_ALL || view == VIEW_LEAKS)
        report_growth_print(report);
    if (view == VIEW_ALL || view == VIEW_LIBRARIES)
        print_libraries(report);
    if (view == VIEW_ALL || view == VIEW_CLASSES)
        print_classes(report);
    if (view == VIEW_SOURCES)
        report_sources_print(report);
    if (view == VIEW_ALL || view == VIEW_CLASSES || view == VIEW_SOURCES)
        report_waterfall_print(report);
    if (view == VIEW_PATTERNS)
        report_patterns_print(report);
    if (view == VIEW_STREAMS)
        report_streams_print(report);
    if (view == VIEW_FRAGMENTS)
        report_fragments_print(report);
    if (view == VIEW_STEPS)
        report_steps_print(report);
    if (view == VIEW_ALL)
        report_views_print(report);
}

void report_text_print(const struct report *report)
{
    struct report inked = *report;
    enum view view = report->view;

    inked.ink = render_ink(stdout);
    report = &inked;
    if (view == VIEW_ALL)
        report_stated_find(&inked);
    if (report->tensors)
        report->tensors->ink = report->ink;
    if (view == VIEW_ALL && !report->is_whole) {
        print_screen(report);
        figures_print_trouble(stdout, report->symbols);
        stepview_done(&inked.stated);
        return;
    }
    if (report->by == REPORT_BY_KIND) {
        print_kinds(report);
        stepview_done(&inked.stated);
        return;
    }
    if (view == VIEW_ALL) {
        print_header(report);
        figures_print(stdout, &report->figures);
        print_peaks(report);
        report_timeline_print(report);
        report_tensors_print(report);
    }
    report_tensors_note(report);
    if (report->filter_text)
        report_field(report, "", "filter", "only rows with '%s' in a name or in their stack",
                report->filter_text);
    if (report->made_to)
        report_between_print(report);
    print_views(report, view);
    print_record_note(report);
    figures_print_trouble(stdout, report->symbols);
    if (view == VIEW_ALL)
        stepview_done(&inked.stated);
}

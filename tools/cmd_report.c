/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/figures.h"
#include "tools/grow.h"
#include "tools/keymap.h"

struct fields {
    const char *from, *to, *by, *view;
    uint64_t top;
    bool json;
};

static const struct args_option options[] = {
        {"from", "ANCHOR", "begin at the first enter of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, from)},
        {"to", "ANCHOR", "end after the last exit of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, to)},
        {"by", "anchor", "the figures of each anchor, in a table", ARGS_TEXT,
                offsetof(struct fields, by)},
        {"view", "NAME", "only this: live, hwm, libraries, hints, oom or anchors", ARGS_TEXT,
                offsetof(struct fields, view)},
        {"top", "N", "how many stacks to list (default 10)", ARGS_UINT,
                offsetof(struct fields, top)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

struct report {
    const struct fields *fields;
    struct load load;
    struct symbols *symbols;
    struct model_window window;
    struct model_figures figures;
    bool partial; /* the figures of the window miss lost events */
    uint64_t top;
    struct render_ink ink;
};

enum view {
    VIEW_ALL,
    VIEW_LIVE,
    VIEW_HWM,
    VIEW_LIBRARIES,
    VIEW_HINTS,
    VIEW_OOM,
    VIEW_ANCHORS,
    VIEW_COUNT,
};

static const char *const view_names[VIEW_COUNT] = {
        "all", "live", "hwm", "libraries", "hints", "oom", "anchors"};

static const char *mode_name(enum hint_mode mode)
{
    static const char *const names[HINT_MODE_COUNT] = {"off", "shadow", "trap", "live"};
    return (unsigned)mode < HINT_MODE_COUNT ? names[mode] : "?";
}

/* How the process ended, as far as the file can know. */
static char *end_text(const struct read_capture *capture)
{
    switch (capture->state) {
    case FORMAT_STATE_CLEAN:
        return grow_text(
                capture->oom_count ? "by itself, after running out of memory" : "by itself");
    case FORMAT_STATE_OOM:
        return grow_text("out of memory (still running, or ended without a word)");
    case FORMAT_STATE_SIGNAL:
        return grow_format("signal %u", capture->state_detail);
    case FORMAT_STATE_OPEN:
        break;
    }
    return grow_text("not ended by itself: still running, or killed");
}

static const char *setting(const struct read_capture *capture, const char *name)
{
    const char *value = "";

    for (size_t i = 0; i < capture->setting_count; i++) {
        if (strcmp(capture->setting[i].name, name) == 0)
            value = capture->setting[i].value;
    }
    return value;
}

static uint64_t lost_events(const struct read_capture *capture)
{
    return capture->lost.events_recycled + capture->lost.events_dropped;
}

static void print_field(const char *name, const char *value)
{
    printf("%-9s ", name);
    render_text(stdout, value);
    putchar('\n');
}

static void print_program(const struct read_capture *capture)
{
    printf("%-9s ", "program");
    if (capture->argc == 0)
        render_text(stdout, capture->exe);
    for (size_t i = 0; i < capture->argc; i++) {
        if (i)
            putchar(' ');
        render_text(stdout, capture->argv[i]);
    }
    printf(" (pid %" PRIu32 " on ", capture->pid);
    render_text(stdout, *capture->host ? capture->host : "?");
    if (*capture->rank) {
        printf(", rank ");
        render_text(stdout, capture->rank);
    }
    puts(")");
}

static void print_devices(const struct read_capture *capture)
{
    char text[RENDER_BYTES_MAX];

    for (size_t i = 0; i < capture->device_count; i++) {
        const struct read_device *device = &capture->device[i];
        printf("%-9s %d: ", "device", device->device);
        render_text(stdout, device->name);
        printf(", %s, driver %" PRIu32 ".%" PRIu32 "\n", render_bytes(text, device->total_bytes),
                device->driver_version / 1000, device->driver_version % 1000 / 10);
    }
}

/* What the capture does not hold, each with its reason. */
static void print_losses(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    const struct format_lost *lost = &capture->lost;
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
            {lost->events_recycled, "older events overwritten (KEDGE_TRACE=full keeps all)"},
            {lost->events_dropped, "events without room"},
            {lost->live_dropped, "allocations without a slot in the live table"},
            {lost->defs_dropped, "names or stacks without room"},
            {lost->unknown_frees, "frees of memory that was never seen allocated"},
            {lost->implied_frees, "addresses handed out again without a free on record"},
            {capture->bad_records, "records that make no sense"},
    };

    for (size_t i = 0; i < CMD_COUNT(rows); i++) {
        if (rows[i].count)
            printf("%slost%s      %" PRIu64 " %s\n", report->ink.yellow, report->ink.off,
                    rows[i].count, rows[i].what);
    }
    if (report->partial)
        printf("%snote%s      events are missing in this window: its figures are incomplete\n",
                report->ink.yellow, report->ink.off);
}

static void print_header(const struct report *report)
{
    const struct read_capture *capture = report->load.capture;
    char *end = end_text(capture);

    print_field("capture", report->load.path);
    print_program(capture);
    print_devices(capture);
    print_field("mode", setting(capture, "KEDGE_MODE"));
    if (capture->hints_hash) {
        printf("%-9s ", "hints");
        render_text(stdout, capture->hints_path);
        printf(" (%s)\n", mode_name(capture->hints_mode));
    }
    print_field("ended", end);
    free(end);
    if (capture->coverage_count) {
        uint64_t calls = 0;
        for (size_t i = 0; i < capture->coverage_count; i++)
            calls += capture->coverage[i].count;
        printf("%-9s %zu hooks in use, %" PRIu64 " calls or look-ups (--json lists them)\n",
                "coverage", capture->coverage_count, calls);
    }
    for (size_t i = 0; i < capture->note_count; i++)
        print_field(capture->note[i].severity ? "warning" : "note", capture->note[i].text);
    print_losses(report);
    putchar('\n');
}

static void print_peaks(const struct report *report)
{
    char live[RENDER_BYTES_MAX];
    char reserved[RENDER_BYTES_MAX];
    const struct model_figures *f = &report->figures;

    printf("\nPeak live: %s   Peak reserved: %s", render_bytes(live, f->peak_live),
            render_bytes(reserved, f->peak_reserved));
    if (f->peak_reserved && f->peak_live_512)
        printf("   E %.3f", (double)f->peak_live_512 / (double)f->peak_reserved);
    putchar('\n');
    if (f->outside_freed_count)
        printf("Freed from before the window: %" PRIu64 " blocks, %s (not counted above)\n",
                f->outside_freed_count, render_bytes(live, f->outside_freed));
}

static void print_hint_touch(const struct report *report, const struct load_hint *hint)
{
    const struct trace *trace = report->load.trace;
    char text[RENDER_BYTES_MAX];

    printf("  %shint %s: %s%s\n", report->ink.red, hint->id,
            hint->violations ? "a call that touches a released range was stopped"
                             : "a range was used after its release was due",
            report->ink.off);
    puts("    used by:");
    figures_print_stack(stdout, report->symbols, hint->touch_stack, "      ", 8);
    if (hint->touch_block == TRACE_NONE)
        return;
    const struct trace_block *block = &trace->blocks[hint->touch_block];
    printf("    %s allocated by:\n", render_bytes(text, block->size));
    figures_print_stack(stdout, report->symbols, block->stack, "      ", 8);
}

static void print_hints(const struct report *report)
{
    const struct load *load = &report->load;
    char text[RENDER_BYTES_MAX];

    if (load->hint_count == 0) {
        if (report->fields->view)
            puts("no hints in this run");
        return;
    }
    printf("\n%sHints%s\n", report->ink.bold, report->ink.off);
    printf("  %-28s %-7s %8s %10s %10s %8s %8s %6s %10s\n", "id", "mode", "matched", "released",
            "would save", "skipped", "refused", "late", "limbo ms");
    for (size_t i = 0; i < load->hint_count; i++) {
        const struct load_hint *hint = &load->hints[i];
        printf("  %-28s %-7s %8" PRIu64, hint->id, mode_name(hint->mode), hint->planned);
        printf(" %10s", render_bytes(text, hint->mode == HINT_LIVE ? hint->released_bytes : 0));
        printf(" %10s",
                render_bytes(text,
                        hint->would_bytes + (hint->mode == HINT_LIVE ? 0 : hint->released_bytes)));
        printf(" %8" PRIu64 " %8" PRIu64 " %6" PRIu64 " %10.3f\n", hint->skipped, hint->refused,
                hint->late_touches + hint->violations, (double)hint->limbo_max_ns / 1e6);
    }
    for (size_t i = 0; i < load->hint_count; i++) {
        if (load->hints[i].late_touches + load->hints[i].violations)
            print_hint_touch(report, &load->hints[i]);
    }
}

static void print_or_unknown(const char *word, uint64_t bytes)
{
    char text[RENDER_BYTES_MAX];

    printf("  %-28s %s\n", word, bytes == UINT64_MAX ? "not known" : render_bytes(text, bytes));
}

static void print_oom(const struct report *report)
{
    const struct load *load = &report->load;

    if (load->oom_count == 0) {
        if (report->fields->view)
            puts("this run did not run out of memory");
        return;
    }
    const struct load_oom *oom = &load->ooms[load->oom_count - 1];
    printf("\n%sOut of memory%s (%zu times; the last one)\n", report->ink.red, report->ink.off,
            load->oom_count);
    print_or_unknown("requested", oom->requested);
    print_or_unknown("live then", oom->live);
    print_or_unknown("free on the device", oom->free_bytes);
    print_or_unknown("largest free block of the pool", oom->largest_free);
    printf("  %-28s ", "anchor");
    render_text(stdout, oom->anchor ? load->trace->anchors[oom->anchor].path : "(none)");
    puts("\n  requested by:");
    figures_print_stack(stdout, report->symbols, oom->stack, "    ", 8);
}

static void print_live(const struct report *report, uint32_t at, const char *title)
{
    size_t count;
    struct model_live *rows = model_live_by_stack(report->load.trace, report->window, at, &count);
    char text[RENDER_BYTES_MAX];

    printf("\n%s%s%s\n", report->ink.bold, title, report->ink.off);
    if (count == 0)
        puts("  nothing");
    for (size_t i = 0; i < count && i < report->top; i++) {
        printf("  %10s  %6" PRIu64 " blocks  ", render_bytes(text, rows[i].bytes), rows[i].count);
        render_text(stdout, symbols_site(report->symbols, rows[i].stack));
        putchar('\n');
        figures_print_stack(stdout, report->symbols, rows[i].stack, "              ", 6);
    }
    if (count > report->top)
        printf("  ... %zu more stacks (--top)\n", count - (size_t)report->top);
    free(rows);
}

/* Sums per library or program that asked. */
struct owner {
    const char *name;
    uint64_t allocated, allocated_count, live, live_count;
};

static int compare_owners(const void *a, const void *b)
{
    const struct owner *x = a;
    const struct owner *y = b;

    if (x->live != y->live)
        return x->live < y->live ? 1 : -1;
    if (x->allocated != y->allocated)
        return x->allocated < y->allocated ? 1 : -1;
    return strcmp(x->name, y->name);
}

static struct owner *sum_owners(const struct report *report, size_t *ret_count)
{
    const struct trace *trace = report->load.trace;
    struct keymap index = {0};
    struct owner *owners = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < report->window.first || block->born >= report->window.last)
            continue;
        const char *name = symbols_owner(report->symbols, block->stack);
        uint32_t *at = keymap_at(&index, keymap_text(name), TRACE_NONE);
        if (*at == TRACE_NONE) {
            *at = (uint32_t)count;
            GROW_PUSH(owners, count, room) = (struct owner){.name = *name ? name : "(unknown)"};
        }
        struct owner *owner = &owners[*at];
        owner->allocated += block->size;
        owner->allocated_count++;
        if (block->died >= report->window.last) {
            owner->live += block->size;
            owner->live_count++;
        }
    }
    keymap_done(&index);
    if (count)
        qsort(owners, count, sizeof(*owners), compare_owners);
    *ret_count = count;
    return owners;
}

static void print_libraries(const struct report *report)
{
    size_t count;
    struct owner *owners = sum_owners(report, &count);
    char live[RENDER_BYTES_MAX];
    char all[RENDER_BYTES_MAX];

    printf("\n%sBy library%s\n", report->ink.bold, report->ink.off);
    for (size_t i = 0; i < count; i++) {
        printf("  %10s live in %6" PRIu64 " blocks, %10s in %6" PRIu64 " allocated  ",
                render_bytes(live, owners[i].live), owners[i].live_count,
                render_bytes(all, owners[i].allocated), owners[i].allocated_count);
        render_text(stdout, owners[i].name);
        putchar('\n');
    }
    if (count == 0)
        puts("  nothing");
    free(owners);
}

static bool is_listed(const struct report *report, size_t anchor)
{
    uint32_t enter = report->load.trace->anchors[anchor].enter;

    return enter != TRACE_NEVER && enter >= report->window.first && enter < report->window.last;
}

static void print_anchors(const struct report *report)
{
    const struct trace *trace = report->load.trace;
    struct model_figures *figures = model_figure_anchors(trace, report->window);
    char text[4][RENDER_BYTES_MAX];

    printf("\n%12s %12s %12s %8s %12s %8s  %s\n", "Remaining", "Max", "Allocated", "count", "Freed",
            "count", "anchor");
    for (size_t i = 1; i < trace->anchor_count; i++) {
        const struct model_figures *f = &figures[i];
        if (!is_listed(report, i))
            continue;
        printf("%12s %12s %12s %8" PRIu64 " %12s %8" PRIu64 "  ",
                render_bytes(text[0], f->remaining), render_bytes(text[1], f->max),
                render_bytes(text[2], f->allocated), f->allocated_count,
                render_bytes(text[3], f->freed), f->freed_count);
        render_text(stdout, trace->anchors[i].path);
        if (trace->anchors[i].instance)
            printf(" (%" PRIu32 ")", trace->anchors[i].instance + 1);
        putchar('\n');
    }
    free(figures);
}

static void print_text(const struct report *report, enum view view)
{
    uint32_t peak = report->figures.max_at == TRACE_NEVER ? report->window.last
                                                          : report->figures.max_at + 1;

    if (view == VIEW_ALL) {
        print_header(report);
        figures_print(stdout, &report->figures);
        print_peaks(report);
    }
    if (view == VIEW_ALL || view == VIEW_HINTS)
        print_hints(report);
    if (view == VIEW_ALL || view == VIEW_OOM)
        print_oom(report);
    if (view == VIEW_ANCHORS || (view == VIEW_ALL && report->fields->by))
        print_anchors(report);
    if (view == VIEW_ALL || view == VIEW_LIVE)
        print_live(report, report->window.last, "Live at the end, by stack");
    if (view == VIEW_HWM)
        print_live(report, peak, "Live at the maximum, by stack");
    if (view == VIEW_ALL || view == VIEW_LIBRARIES)
        print_libraries(report);
    figures_print_trouble(stdout, report->symbols);
}

static void json_program(struct json *json, const struct read_capture *capture)
{
    char *end = end_text(capture);

    json_begin(json, "program", '{');
    json_text(json, "exe", capture->exe);
    json_begin(json, "argv", '[');
    for (size_t i = 0; i < capture->argc; i++)
        json_text(json, NULL, capture->argv[i]);
    json_end(json, ']');
    json_text(json, "identity", capture->program);
    json_uint(json, "pid", capture->pid);
    json_text(json, "host", capture->host);
    json_text(json, "rank", capture->rank);
    json_text(json, "ended", end);
    json_bool(json, "clean", capture->state == FORMAT_STATE_CLEAN);
    json_end(json, '}');
    free(end);
    json_begin(json, "settings", '{');
    for (size_t i = 0; i < capture->setting_count; i++)
        json_text(json, capture->setting[i].name, capture->setting[i].value);
    json_end(json, '}');
    json_begin(json, "devices", '[');
    for (size_t i = 0; i < capture->device_count; i++) {
        json_begin(json, NULL, '{');
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

    json_begin(json, "coverage", '[');
    for (size_t i = 0; i < capture->coverage_count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "hook", capture->coverage[i].hook);
        json_text(json, "route", capture->coverage[i].route);
        json_uint(json, "count", capture->coverage[i].count);
        json_end(json, '}');
    }
    json_end(json, ']');
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
    json_end(json, '}');
    json_bool(json, "complete", !report->partial && lost_events(capture) == 0);
    json_begin(json, "window", '{');
    json_text(json, "from", report->fields->from);
    json_text(json, "to", report->fields->to);
    json_end(json, '}');
}

static void json_hints(struct json *json, const struct report *report)
{
    const struct load *load = &report->load;

    json_begin(json, "hints", '[');
    for (size_t i = 0; i < load->hint_count; i++) {
        const struct load_hint *hint = &load->hints[i];
        json_begin(json, NULL, '{');
        json_text(json, "id", hint->id);
        json_text(json, "mode", mode_name(hint->mode));
        json_uint(json, "matched_count", hint->planned);
        json_uint(json, "matched_bytes", hint->planned_bytes);
        json_uint(json, "released_count", hint->released);
        json_uint(json, "released_bytes", hint->released_bytes);
        json_uint(json, "would_count", hint->would);
        json_uint(json, "would_bytes", hint->would_bytes);
        json_uint(json, "unmapped_count", hint->unmapped);
        json_uint(json, "skipped_count", hint->skipped);
        json_uint(json, "refused_count", hint->refused);
        json_uint(json, "late_touches", hint->late_touches);
        json_uint(json, "violations", hint->violations);
        json_real(json, "limbo_max_ms", (double)hint->limbo_max_ns / 1e6);
        if (hint->late_touches + hint->violations) {
            figures_json_stack(json, report->symbols, hint->touch_stack, "used_by");
            if (hint->touch_block != TRACE_NONE)
                figures_json_stack(json, report->symbols,
                        load->trace->blocks[hint->touch_block].stack, "allocated_by");
        }
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_known(struct json *json, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        json_text(json, key, NULL);
    else
        json_uint(json, key, value);
}

static void json_ooms(struct json *json, const struct report *report)
{
    const struct load *load = &report->load;

    json_begin(json, "oom", '[');
    for (size_t i = 0; i < load->oom_count; i++) {
        const struct load_oom *oom = &load->ooms[i];
        json_begin(json, NULL, '{');
        json_known(json, "requested_bytes", oom->requested);
        json_known(json, "live_bytes", oom->live);
        json_known(json, "free_bytes", oom->free_bytes);
        json_known(json, "largest_free_bytes", oom->largest_free);
        json_text(json, "anchor", load->trace->anchors[oom->anchor].path);
        figures_json_stack(json, report->symbols, oom->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_live(struct json *json, const struct report *report)
{
    size_t count;
    struct model_live *rows =
            model_live_by_stack(report->load.trace, report->window, report->window.last, &count);

    json_begin(json, "live", '[');
    for (size_t i = 0; i < count && i < report->top; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "site", symbols_site(report->symbols, rows[i].stack));
        json_uint(json, "count", rows[i].count);
        json_uint(json, "bytes", rows[i].bytes);
        figures_json_stack(json, report->symbols, rows[i].stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    free(rows);
}

static void json_libraries(struct json *json, const struct report *report)
{
    size_t count;
    struct owner *owners = sum_owners(report, &count);

    json_begin(json, "libraries", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "path", owners[i].name);
        json_uint(json, "allocated_bytes", owners[i].allocated);
        json_uint(json, "allocated_count", owners[i].allocated_count);
        json_uint(json, "live_bytes", owners[i].live);
        json_uint(json, "live_count", owners[i].live_count);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(owners);
}

static void json_anchors(struct json *json, const struct report *report)
{
    const struct trace *trace = report->load.trace;
    struct model_figures *figures = model_figure_anchors(trace, report->window);

    json_begin(json, "anchors", '[');
    for (size_t i = 1; i < trace->anchor_count; i++) {
        if (!is_listed(report, i))
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "name", trace->anchors[i].path);
        json_uint(json, "instance", trace->anchors[i].instance);
        figures_json(json, &figures[i]);
        json_end(json, '}');
    }
    json_end(json, ']');
    free(figures);
}

static void print_json(const struct report *report)
{
    struct json json = {.out = stdout};

    json_begin(&json, NULL, '{');
    json_text(&json, "capture", report->load.path);
    json_program(&json, report->load.capture);
    json_quality(&json, report);
    figures_json(&json, &report->figures);
    json_uint(&json, "peak_live_512_bytes", report->figures.peak_live_512);
    json_hints(&json, report);
    json_ooms(&json, report);
    json_live(&json, report);
    json_libraries(&json, report);
    json_anchors(&json, report);
    json_end(&json, '}');
}

static int find_view(const struct fields *fields, enum view *ret_view)
{
    if (fields->by && strcmp(fields->by, "anchor") != 0) {
        (void)fprintf(stderr, "kedge report: --by %s: only --by anchor exists\n", fields->by);
        return CMD_BAD;
    }
    *ret_view = VIEW_ALL;
    if (!fields->view)
        return CMD_DONE;
    for (unsigned i = 0; i < VIEW_COUNT; i++) {
        if (strcmp(fields->view, view_names[i]) == 0) {
            *ret_view = (enum view)i;
            return CMD_DONE;
        }
    }
    (void)fprintf(stderr,
            "kedge report: --view %s is not in this version (live, hwm, libraries, "
            "hints, oom, anchors are)\n",
            fields->view);
    return CMD_BAD;
}

static int run(const void *parsed, char **words, int count)
{
    struct report report = {.fields = parsed};
    enum view view;
    int r = find_view(report.fields, &view);

    (void)count;
    if (r != CMD_DONE)
        return r;
    r = load_open(words[0], &report.load);
    if (r)
        return r;
    r = figures_window(&report.load, report.fields->from, report.fields->to, &report.window);
    if (r == 0) {
        report.symbols = symbols_new(report.load.trace);
        report.top = report.fields->top ? report.fields->top : 10;
        report.ink = render_ink(stdout);
        figures_of(&report.load, report.window, &report.figures, &report.partial);
        if (report.fields->json)
            print_json(&report);
        else
            print_text(&report, view);
        symbols_free(report.symbols);
    }
    load_close(&report.load);
    return r;
}

const struct cmd cmd_report = {
        .name = "report",
        .usage = "report CAPTURE [options]",
        .summary = "What a run allocated, freed and kept, whole or between two anchors.",
        .options = options,
        .option_count = CMD_COUNT(options),
        .fields_size = sizeof(struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = run,
};

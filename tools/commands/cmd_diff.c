/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <inttypes.h>
#include <string.h>

#include "tools/check/peaks.h"
#include "tools/compare/compare.h"
#include "tools/compare/compare_coverage.h"
#include "tools/compare/compare_groups.h"
#include "tools/compare/explain_print.h"
#include "tools/load/figures.h"
#include "tools/page/page.h"
#include "tools/symbols/builds.h"

struct fields {
    const char *from, *to, *by, *html;
    uint64_t top;
    bool json;
};

static const struct args_option options[] = {
        {"from", "ANCHOR", "compare from the first enter of ANCHOR", CMD_TEXT(from)},
        {"to", "ANCHOR", "compare up to the last exit of ANCHOR", CMD_TEXT(to)},
        {"by", "WHO", "group by site or by python stack (default python where there is one)",
                CMD_TEXT(by)},
        {"top", "N", "how many groups to list (default 20)", CMD_UINT(top)},
        {"html", "FILE", "write the comparison as one HTML page to FILE (- = standard output)",
                CMD_OUTPUT(html)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

#define STACK_LINES  8
#define STACKS_SHOWN 4 /* of one group; --json has all of them */
/* Limits for a page. */
#define GROUPS_ON_PAGE 100u
#define PARTS_ON_PAGE  20u /* of a group: sizes, anchors, Python stacks */

struct diff {
    const struct fields *fields;
    enum compare_groups_by by;
    /* why events are missing, so that more frees may be late (load_lacks); NULL: none are */
    const char *lacks;
    struct load good, bad;
    struct compare_side good_side, bad_side;
    struct compare compare;
    struct peaks peaks;
    struct explain explain;
    struct explain_print print;
    struct symbols *symbols; /* of the bad run */
    struct symbols *good_symbols;
    struct compare_groups late, never, extra;
    uint64_t top;
    struct render_ink ink;
};

static void group_late(struct compare_groups *groups, const struct compare_late *late, size_t count)
{
    for (size_t i = 0; i < count; i++)
        compare_groups_add(groups, late[i].bad);
    compare_groups_finish(groups);
}

static void group_extra(struct diff *diff)
{
    for (size_t i = 0; i < diff->compare.extra_count; i++)
        compare_groups_add(&diff->extra, diff->compare.extra[i]);
    compare_groups_finish(&diff->extra);
}

static void print_anchor_range(const struct diff *diff, const struct group *group)
{
    const struct trace *trace = diff->bad.trace;
    const struct trace_anchor *first = &trace->anchors[group->anchors[0]];
    const struct trace_anchor *last = &trace->anchors[group->anchors[group->anchor_count - 1]];

    render_print(stdout, "    in %s", *first->path ? first->path : "no anchor");
    if (group->anchor_count > 1)
        render_print(stdout, " ... %s (%zu anchors)", last->path, group->anchor_count);
    putchar('\n');
}

static void print_sizes(const struct group *group)
{
    printf("    sizes ");
    for (size_t i = 0; i < group->size_count && i < 4; i++)
        printf("%s%" PRIu64, i ? ", " : "", group->sizes[i]);
    if (group->size_count > 4)
        printf(", ... %" PRIu64 " (%zu sizes)", group->sizes[group->size_count - 1],
                group->size_count);
    if (group->size_count == 1)
        printf(" (%s each)", render_bytes(group->sizes[0]).text);
    putchar('\n');
}

/* Prints the Python stacks of a group: several lines of Python may share one call site. */
static void print_stacks(const struct diff *diff, const struct group *group)
{
    for (size_t i = 0; i < group->stack_count && i < STACKS_SHOWN; i++) {
        const struct model_live *stack = &group->stacks[i];
        printf("    %" PRIu64 " of them, %s:\n", stack->count, render_bytes(stack->bytes).text);
        figures_print_stack(stdout, diff->symbols, stack->stack, "      ", STACK_LINES);
    }
    if (group->stack_count > STACKS_SHOWN)
        printf("    ... %zu more Python stack%s (--by python)\n", group->stack_count - STACKS_SHOWN,
                render_s(group->stack_count - STACKS_SHOWN));
}

static void print_groups(const struct diff *diff, const struct compare_groups *groups)
{
    for (size_t i = 0; i < groups->count && i < diff->top; i++) {
        const struct group *group = &groups->rows[i];
        printf("  %6" PRIu64 "  %11s  %s", group->count, render_bytes(group->bytes).text,
                diff->ink.bold);
        render_label(stdout, group->title, 23, 6);
        printf("%s", diff->ink.off);
        print_sizes(group);
        print_anchor_range(diff, group);
        if (group->stack_count == 1)
            figures_print_stack(stdout, diff->symbols, group->stack, "      ", STACK_LINES);
        else
            print_stacks(diff, group);
    }
    figures_print_more(groups->count, diff->top, "group");
}

static const char *more_perhaps(const struct diff *diff)
{
    if (diff->lacks)
        return ", and more perhaps: events are missing";
    return compare_coverage_is_little(&diff->compare) ? ", and more perhaps" : "";
}

/*
 * Blocks that one run alone allocates and frees in the same anchor do no harm if the peaks are
 * equal. Otherwise they may be what the peaks differ by.
 */
static void diff_print_freed(const struct diff *diff)
{
    static const char *const heads[] = {[CLAIM_YES] = "Harmless: ",
            [CLAIM_NO] = "Freed in its anchor again, but the peaks differ:\n  ",
            [CLAIM_UNKNOWN] =
                    "Freed in its anchor again; whether the peaks are equal is not known:\n  "};
    const struct compare *c = &diff->compare;
    enum claim_answer equal = peaks_are_equal(&diff->peaks);

    printf("\n%s%" PRIu64 " allocation%s only in bad (%s) and %" PRIu64 " only in good (%s)%s\n",
            heads[equal], c->freed_bad.count, render_s(c->freed_bad.count),
            render_bytes(c->freed_bad.bytes).text, c->freed_good.count,
            render_bytes(c->freed_good.bytes).text,
            equal == CLAIM_YES ? ",\n  each freed in its anchor again; the peaks are equal" : "");
}

static void diff_print_text(const struct diff *diff)
{
    const struct compare *c = &diff->compare;

    render_print(stdout, "good %s\n", diff->good.path);
    render_print(stdout, "bad  %s\n", diff->bad.path);
    putchar('\n');
    peaks_print(stdout, &diff->peaks);
    explain_print_text(stdout, &diff->print);
    putchar('\n');
    bool is_fine = !diff->lacks && !compare_coverage_is_little(c)
            && peaks_are_equal(&diff->peaks) == CLAIM_YES;
    const char *ink = is_fine ? diff->ink.green : diff->ink.yellow;

    if (c->looked.count == 0 && c->all.count)
        printf("%sLate frees: not known%s%s\n", diff->ink.yellow, diff->ink.off,
                diff->lacks ? ": events are missing" : "");
    else
        printf("%sLate frees: %zu, %s%s%s\n", c->late_count ? diff->ink.red : ink, c->late_count,
                render_bytes(c->late_bytes).text, diff->ink.off, more_perhaps(diff));
    if (!diff->lacks)
        compare_coverage_print(stdout, c, diff->good.trace, diff->bad.trace);
    puts(c->late_count ? "  freed before the anchor's exit in good, later or never in bad:" : "");
    print_groups(diff, &diff->late);
    if (c->never_count) {
        printf("\nNever freed: %zu, %s (good frees them outside of all anchors)\n", c->never_count,
                render_bytes(c->never_bytes).text);
        print_groups(diff, &diff->never);
    }
    if (c->extra_count) {
        printf("\nOnly bad allocates and keeps: %zu, %s (live at the end: %" PRIu64 ", %s)\n",
                c->extra_count, render_bytes(c->extra_bytes).text, c->extra_remaining.count,
                render_bytes(c->extra_remaining.bytes).text);
        print_groups(diff, &diff->extra);
    }
    diff_print_freed(diff);
    if (c->missing.count)
        printf("Only good allocates and keeps: %" PRIu64 ", %s\n", c->missing.count,
                render_bytes(c->missing.bytes).text);
    printf("Remaining at the end: %s in bad, %s in good\n", render_bytes(c->remaining.bytes).text,
            render_bytes(c->remaining_good.bytes).text);
    printf("Paired: %" PRIu64 " allocation%s in %" PRIu64 " anchor%s", c->paired.count,
            render_s(c->paired.count), c->anchors_paired - 1, render_s(c->anchors_paired - 1));
    if (c->anchors_lone_good || c->anchors_lone_bad)
        printf("; anchors only in good: %" PRIu64 ", only in bad: %" PRIu64, c->anchors_lone_good,
                c->anchors_lone_bad);
    putchar('\n');
    builds_print(stdout, diff->good.trace, diff->bad.trace);
    figures_print_trouble(stdout, diff->symbols);
}

static void json_stacks(struct json *json, const struct diff *diff, const struct group *group)
{
    size_t shown = json_begin_rows(json, "python_stacks", group->stack_count, PARTS_ON_PAGE);

    for (size_t i = 0; i < shown; i++) {
        const struct model_live *stack = &group->stacks[i];
        if (!symbols_pysite(diff->symbols, stack->stack))
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "python_site", symbols_pysite(diff->symbols, stack->stack));
        json_uint(json, "count", stack->count);
        json_uint(json, "bytes", stack->bytes);
        figures_json_stack(json, diff->symbols, stack->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void cmd_diff_json_groups(struct json *json, const struct diff *diff, const char *key,
        const struct compare_groups *groups)
{
    size_t shown = json_begin_rows(json, key, groups->count, GROUPS_ON_PAGE);

    for (size_t i = 0; i < shown; i++) {
        const struct group *group = &groups->rows[i];
        json_begin(json, NULL, '{');
        json_text(json, "title", group->title);
        json_text(json, "site", group->site);
        json_text(json, "python_site",
                group->stack_count == 1 ? symbols_pysite(diff->symbols, group->stack) : NULL);
        json_uint(json, "count", group->count);
        json_uint(json, "bytes", group->bytes);
        size_t count = json_begin_rows(json, "sizes", group->size_count, PARTS_ON_PAGE);
        for (size_t k = 0; k < count; k++)
            json_uint(json, NULL, group->sizes[k]);
        json_end(json, ']');
        count = json_begin_rows(json, "anchors", group->anchor_count, PARTS_ON_PAGE);
        for (size_t k = 0; k < count; k++)
            json_text(json, NULL, diff->bad.trace->anchors[group->anchors[k]].path);
        json_end(json, ']');
        figures_json_stack(json, diff->symbols, group->stack, "stack");
        json_stacks(json, diff, group);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_sum(struct json *json, const char *count_key, const char *bytes_key,
        const struct trace_sum *sum)
{
    json_uint(json, count_key, sum->count);
    json_uint(json, bytes_key, sum->bytes);
}

static void diff_json_keys(void *context, struct json *json)
{
    const struct diff *diff = context;
    const struct compare *c = &diff->compare;

    json_text(json, "good", diff->good.path);
    json_text(json, "bad", diff->bad.path);
    json_bool(json, "complete", !diff->lacks);
    peaks_json(json, &diff->peaks);
    explain_print_json(json, &diff->print);
    json_uint(json, "late_frees", c->late_count);
    json_uint(json, "late_bytes", c->late_bytes);
    cmd_diff_json_groups(json, diff, "groups", &diff->late);
    json_uint(json, "never_freed", c->never_count);
    json_uint(json, "never_freed_bytes", c->never_bytes);
    cmd_diff_json_groups(json, diff, "never_freed_groups", &diff->never);
    json_uint(json, "extra", c->extra_count);
    json_uint(json, "extra_bytes", c->extra_bytes);
    json_sum(json, "extra_remaining", "extra_remaining_bytes", &c->extra_remaining);
    cmd_diff_json_groups(json, diff, "extra_groups", &diff->extra);
    json_sum(json, "remaining", "remaining_bytes", &c->remaining);
    json_sum(json, "remaining_good", "remaining_good_bytes", &c->remaining_good);
    json_sum(json, "freed_in_anchor", "freed_in_anchor_bytes", &c->freed_bad);
    json_sum(json, "freed_in_anchor_good", "freed_in_anchor_good_bytes", &c->freed_good);
    json_sum(json, "missing", "missing_bytes", &c->missing);
    json_sum(json, "paired", "paired_bytes", &c->paired);
    compare_coverage_json(json, c, diff->good.trace, diff->bad.trace);
    json_uint(json, "anchors_paired", c->anchors_paired - 1);
    json_uint(json, "anchors_only_good", c->anchors_lone_good);
    json_uint(json, "anchors_only_bad", c->anchors_lone_bad);
    builds_json(json, diff->good.trace, diff->bad.trace);
    figures_json_trouble(json, diff->symbols);
}

static void diff_print_json(struct diff *diff)
{
    struct json json = json_open(stdout);

    diff_json_keys(diff, &json);
    json_end(&json, '}');
}

/* ---- the page ---- */

/* Good, then bad: their load, symbols and window are known. */
static int diff_open_run(void *context, size_t at, struct report *ret)
{
    struct diff *diff = context;

    *ret = (struct report){.from = diff->fields->from,
            .to = diff->fields->to,
            .path = at == 0 ? diff->good.path : diff->bad.path,
            .top = diff->top,
            .load = at == 0 ? diff->good : diff->bad,
            .symbols = at == 0 ? diff->good_symbols : diff->symbols,
            .window = at == 0 ? diff->good_side.window : diff->bad_side.window};
    return CMD_DONE;
}

/* The runs are the comparison's own. */
static void diff_close_run(void *context, struct report *report)
{
    (void)context;
    (void)report;
}

static int diff_write_page(struct diff *diff)
{
    const char *path = diff->fields->html;
    const struct page_runs runs = {.lead = {"kedge diff", "diff", diff, diff_json_keys},
            .count = 2,
            .open = diff_open_run,
            .close = diff_close_run};
    int r = page_write_runs(&runs, path);

    if (r == CMD_DONE && strcmp(path, "-") != 0)
        render_print(stdout, "written to %s\n", path);
    return r;
}

static int find_windows(struct diff *diff)
{
    const struct fields *fields = diff->fields;
    int r = figures_window(&diff->good, fields->from, fields->to, &diff->good_side.window);

    if (r == 0)
        r = figures_window(&diff->bad, fields->from, fields->to, &diff->bad_side.window);
    return r;
}

static bool cmd_diff_lacks_events(const struct load *load, struct model_window window)
{
    if (load->complete_from <= window.first)
        return false;
    if (read_is_damaged(load->capture)) /* load_open has reported it */
        return true;
    (void)fprintf(stderr, "kedge: %s: %s\n", load->path, load_lacks(load->capture));
    return true;
}

/* Recorded peaks: of a run that was cut off, the least that they can be. */
static bool cmd_diff_is_known(struct claim_range range)
{
    return range.low > 0 || range.high < UINT64_MAX;
}

/* The writer's figures replace those of events that are missing: so do its places. */
static void cmd_diff_explain(struct diff *diff)
{
    const struct peaks_figures *good = &diff->peaks.all.good;
    const struct peaks_figures *bad = &diff->peaks.all.bad;
    struct explain_peaks peaks = {good->live.low, bad->live.low};

    diff->print = (struct explain_print){
            .good = diff->good.trace,
            .bad = diff->bad.trace,
            .good_symbols = diff->good_symbols,
            .bad_symbols = diff->symbols,
            .good_peak = good->live.low,
            .is_exact = good->live.low == good->live.high && bad->live.low == bad->live.high,
            .lacks = diff->lacks,
            .has_reserved = cmd_diff_is_known(good->reserved) && cmd_diff_is_known(bad->reserved),
            .reserved = (int64_t)(bad->reserved.low - good->reserved.low),
            .top = diff->fields->top,
    };
    if (!cmd_diff_is_known(good->live) || !cmd_diff_is_known(bad->live))
        return;
    if (diff->lacks)
        explain_by_places(&diff->good, &diff->bad, peaks, diff->by, &diff->explain);
    else
        explain_by_events(
                &diff->good_side, &diff->bad_side, &diff->compare, peaks, diff->by, &diff->explain);
    diff->print.explain = &diff->explain;
}

static int cmd_diff_compare_and_print(struct diff *diff)
{
    int r = CMD_DONE;

    diff->good_side.trace = diff->good.trace;
    diff->good_side.ended = load_has_ended(&diff->good);
    diff->bad_side.trace = diff->bad.trace;
    diff->bad_side.ended = load_has_ended(&diff->bad);
    if (cmd_diff_lacks_events(&diff->good, diff->good_side.window))
        diff->lacks = load_lacks(diff->good.capture);
    if (cmd_diff_lacks_events(&diff->bad, diff->bad_side.window))
        diff->lacks = load_lacks(diff->bad.capture);
    progress_begin("comparing");
    compare_runs(&diff->good_side, &diff->bad_side, &diff->compare);
    const struct peaks_run good = {
            &diff->good, diff->good_side.window, compare_has_end(&diff->good_side)};
    const struct peaks_run bad = {
            &diff->bad, diff->bad_side.window, compare_has_end(&diff->bad_side)};
    peaks_find(&good, &bad, &diff->peaks);
    diff->symbols = symbols_new(diff->bad.trace);
    diff->good_symbols = symbols_new(diff->good.trace);
    cmd_diff_explain(diff);
    diff->late = diff->never = diff->extra = (struct compare_groups){
            .trace = diff->bad.trace, .symbols = diff->symbols, .by = diff->by};
    group_late(&diff->late, diff->compare.late, diff->compare.late_count);
    group_late(&diff->never, diff->compare.never, diff->compare.never_count);
    group_extra(diff);
    progress_end();
    if (diff->fields->html)
        r = diff_write_page(diff);
    else if (diff->fields->json)
        diff_print_json(diff);
    else
        diff_print_text(diff);
    compare_groups_done(&diff->late);
    compare_groups_done(&diff->never);
    compare_groups_done(&diff->extra);
    explain_done(&diff->explain);
    symbols_free(diff->symbols);
    symbols_free(diff->good_symbols);
    return r;
}

static int diff_command(const void *parsed, char **captures)
{
    static const char *const words[] = {
            [COMPARE_GROUPS_SITE] = "site", [COMPARE_GROUPS_PYTHON] = "python", NULL};
    struct diff diff = {.fields = parsed, .by = COMPARE_GROUPS_PYTHON};
    int by = args_choose("kedge diff", "by", diff.fields->by, words);

    if (by < 0)
        return CMD_BAD;
    if (diff.fields->by)
        diff.by = (enum compare_groups_by)by;
    diff.top = diff.fields->top ? diff.fields->top : 20;
    diff.ink = render_ink(stdout);
    if (diff.fields->html && diff.fields->json) {
        (void)fputs("kedge diff: --html has everything on one page: not with --json\n", stderr);
        return CMD_BAD;
    }
    int r = load_open(captures[0], &diff.good);
    if (r == 0)
        r = load_open(captures[1], &diff.bad);
    if (r == 0)
        r = find_windows(&diff);
    if (r == 0) {
        r = cmd_diff_compare_and_print(&diff);
        compare_done(&diff.compare);
        peaks_done(&diff.peaks);
    }
    load_close(&diff.good);
    load_close(&diff.bad);
    return r;
}

const struct cmd cmd_diff = {
        .name = "diff",
        .usage = "diff GOOD BAD [options]",
        .summary = "Why the peaks of GOOD and BAD differ, by cause and call site; what BAD frees "
                   "later "
                   "than GOOD, or never.",
        CMD_OPTIONS(options, struct fields),
        .gone = "--fail-on",
        .instead = "kedge check BAD 'late(GOOD)==0' 'extra(GOOD)==0' 'more_remaining(GOOD)==0'",
        .writes = OUTFILE_PRIVATE,
        .pages = true,
        .words_min = 2,
        .words_max = 2,
        .run = diff_command,
};

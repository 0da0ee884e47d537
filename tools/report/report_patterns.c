/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/patterns/patterns.h"

#define STACK_LINES             6
#define REPORT_PATTERNS_ON_PAGE 200u /* findings */

/* A pattern's key in JSON, its name in a table, and its advice. */
struct report_pattern {
    const char *key, *name, *advice;
};

/* A reason why blocks are not judged: the key in JSON, and the end of "12 blocks: they ...". */
struct report_doubt {
    const char *key, *why;
};

/* The findings of all patterns, the largest saving first, unless the report has --sort. */
struct report_findings {
    struct patterns_figures figures;
    struct trace_sum sum[PATTERNS_COUNT]; /* of the blocks that show a pattern */
    struct patterns_row *row;             /* those that --filter keeps */
    size_t count;
    char **titles; /* call sites of the first `shown` */
    char **others; /* likewise, for a redundant one: the call site whose memory it could use */
    size_t shown;
};

static const struct report_pattern patterns[PATTERNS_COUNT] = {
        [PATTERNS_UNUSED] = {"unused", "unused",
                "No call uses it: leave the allocation out, or make it when the memory is needed."},
        [PATTERNS_LEAK] = {"leak", "leak", "Free it after its last use. The run never frees it."},
        [PATTERNS_LATE] = {"late_free", "late free",
                "Free it right after its last use, or let `kedge suggest` write a hint that does."},
        [PATTERNS_EARLY] = {"early_allocation", "early allocation",
                "Allocate it right before its first use."},
        [PATTERNS_IDLE] = {"idle", "idle",
                "Free it between the two uses and make it again, or let kedge move it to the host "
                "meanwhile: `kedge suggest --cap`."},
        [PATTERNS_REDUNDANT] = {"redundant", "redundant",
                "Use memory of the same size again that nothing uses any more:"},
        [PATTERNS_DEAD_WRITE] = {"dead_write", "dead write",
                "Leave out the first of two copies or sets: the second replaces all of it, and "
                "nothing uses it in between."},
};

static const struct report_doubt doubts[PATTERNS_DOUBTS] = {
        {"not_watched", "their uses were not recorded"},
        {"lost", "their uses could not be recorded"},
        {"shown", "they were shown to what uses them unseen"},
        {"unseen", "they lived while a call was made whose arguments are not known"},
};

static const struct rowpick_field fields[] = {ROWPICK_UINT("saves", struct patterns_row, saves),
        ROWPICK_UINT("bytes", struct patterns_row, bytes),
        ROWPICK_UINT("count", struct patterns_row, count),
        ROWPICK_UINT("at_max", struct patterns_row, at_max),
        ROWPICK_UINT("longest", struct patterns_row, longest_ns),
        ROWPICK_REAL("cost", struct patterns_row, cost)};
const struct rowpick_fields report_patterns_fields = ROWPICK_FIELDS(fields);

static bool report_patterns_is_kept(const struct report *report, const struct patterns_row *row)
{
    const char *path = report->load.trace->anchors[row->anchor].path;

    return report_keeps(report, VIEW_PATTERNS, row->stack, path)
            || report_keeps_text(report, VIEW_PATTERNS, patterns[row->pattern].name)
            || report_keeps_text(report, VIEW_PATTERNS, patterns[row->pattern].key);
}

static void name_findings(const struct report *report, struct report_findings *all)
{
    uint32_t *others = vec_new(all->shown + 1, sizeof(*others));

    for (size_t i = 0; i < all->shown; i++)
        others[i] = all->row[i].other == TRACE_NONE ? 0 : all->row[i].other;
    all->titles = title_rows(report->symbols, TITLE_STACKS(all->row), all->shown);
    all->others = title_ways(report->symbols, others, sizeof(*others), 0, all->shown);
    free(others);
}

static struct trace_sum report_patterns_sum_of(const struct patterns_found *found)
{
    struct trace_sum sum = {0};

    for (size_t i = 0; i < found->count; i++) {
        sum.count += found->row[i].count;
        sum.bytes += found->row[i].bytes;
    }
    return sum;
}

/* With titles of `most` rows; report_findings_done frees everything. */
static void report_findings_find(
        const struct report *report, uint64_t most, struct report_findings *ret_findings)
{
    struct report_findings all = {0};

    patterns_figure(report->load.trace, report->window, &all.figures);
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        all.sum[p] = report_patterns_sum_of(&all.figures.of[p]);
        all.count += all.figures.of[p].count;
    }
    all.row = vec_new(all.count + 1, sizeof(*all.row));
    all.count = 0;
    for (unsigned p = 0; p < PATTERNS_COUNT; p++)
        for (size_t i = 0; i < all.figures.of[p].count; i++)
            if (report_patterns_is_kept(report, &all.figures.of[p].row[i]))
                all.row[all.count++] = all.figures.of[p].row[i];
    VEC_SORT(all.row, all.count, patterns_by_saving);
    report_sort(
            report, VIEW_PATTERNS, &report_patterns_fields, all.row, all.count, sizeof(*all.row));
    all.shown = all.count < most ? all.count : (size_t)most;
    name_findings(report, &all);
    *ret_findings = all;
}

static void report_findings_done(struct report_findings *findings)
{
    title_done(findings->titles, findings->shown);
    title_done(findings->others, findings->shown);
    free(findings->row);
    patterns_free(&findings->figures);
}

/* Advice for one of the first `shown`, naming the other call site; the caller frees it. */
static char *report_findings_advice(const struct report_findings *findings, size_t at)
{
    const struct patterns_row *row = &findings->row[at];
    const char *advice = patterns[row->pattern].advice;

    return row->other == TRACE_NONE ? vec_text(advice)
                                    : vec_format("%s that of %s.", advice, findings->others[at]);
}

/* Whether the capture shows if blocks have this pattern. */
static bool report_tells_pattern(const struct report *report, enum patterns_kind pattern)
{
    return pattern != PATTERNS_DEAD_WRITE
            || strcmp(report_setting(report->load.capture, "dead_writes"), "on") == 0;
}

/* ---- text ---- */

static void print_doubts(const struct report *report, const struct patterns_figures *figures)
{
    bool is_imported = load_is_imported(report->load.capture);

    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++)
        if (figures->doubts[i])
            printf("  not judged: %" PRIu64 " block%s: %s%s\n", figures->doubts[i],
                    render_s(figures->doubts[i]), doubts[i].why,
                    i == PATTERNS_NOT_WATCHED && !is_imported ? " (KEDGE_TRACE=uses=on)" : "");
    if (figures->doubtful_bytes)
        printf("  not judged: %s in all\n", render_bytes(figures->doubtful_bytes).text);
}

static void print_sums(const struct report *report, const struct report_findings *findings)
{
    const struct patterns_figures *figures = &findings->figures;

    printf("\n  %-16s %12s %8s %12s  %s\n", "pattern", "saves", "blocks", "bytes", "call sites");
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        const struct patterns_found *found = &figures->of[p];
        struct trace_sum sum = findings->sum[p];

        if (!report_tells_pattern(report, (enum patterns_kind)p)) {
            printf("  %-16s %12s\n", patterns[p].name, "not recorded");
            continue;
        }
        printf("  %-16s %12s %8" PRIu64 " %12s  %zu\n", patterns[p].name,
                render_bytes(found->saves).text, sum.count, render_bytes(sum.bytes).text,
                found->count);
    }
    if (figures->of[PATTERNS_LEAK].count && !load_has_ended(&report->load))
        puts("  The run did not end by itself: what is never freed may only be not freed yet.");
}

static void print_finding(
        const struct report *report, const struct report_findings *findings, size_t at)
{
    const struct patterns_row *row = &findings->row[at];
    const struct trace_anchor *anchor = &report->load.trace->anchors[row->anchor];
    char *advice = report_findings_advice(findings, at);

    printf("  %12s  %-16s %8" PRIu64 " %12s", render_bytes(row->saves).text,
            patterns[row->pattern].name, row->count, render_bytes(row->bytes).text);
    if (row->longest_ns)
        printf(" %12.3f", (double)row->longest_ns / 1e6);
    fputs("\n      ", stdout);
    render_label(stdout, findings->titles[at], 6, 6);
    if (row->anchor != 0) {
        fputs("      in ", stdout);
        report_anchor_print(anchor, 9);
    }
    fputs("      ", stdout);
    render_label(stdout, advice, 6, 6);
    free(advice);
    report_stack_print(report, row->stack, "              ", STACK_LINES);
}

static void print_findings(const struct report *report, const struct report_findings *findings)
{
    printf("\n%sFindings%s, %s first (the savings do not add up)\n", report->ink.bold,
            report->ink.off, report->sort ? report->sort : "what saves most at the maximum");
    if (findings->count == 0) {
        puts("  none");
        return;
    }
    printf("  %12s  %-16s %8s %12s %12s\n", "saves", "pattern", "blocks", "bytes", "longest ms");
    for (size_t i = 0; i < findings->shown; i++)
        print_finding(report, findings, i);
    figures_print_more(findings->count, report->top, "finding");
}

void report_patterns_print(const struct report *report)
{
    const struct format_unseen *unseen = &report->load.capture->unseen;
    struct report_findings findings;
    const struct patterns_figures *figures = &findings.figures;

    report_findings_find(report, report->top, &findings);
    printf("\n%sPatterns%s in the uses of %" PRIu64 " block%s, %s\n", report->ink.bold,
            report->ink.off, figures->judged, render_s(figures->judged),
            render_bytes(figures->judged_bytes).text);
    if (unseen->count)
        printf("  %" PRIu64 " call%s whose arguments are not known\n", unseen->count,
                render_s(unseen->count));
    print_doubts(report, figures);
    if (figures->judged) {
        printf("  Max%s %s, with each of them freed after its last use %s\n",
                report_lacks_events(report) ? " of what is on record" : "",
                render_bytes(figures->peak).text, render_bytes(figures->peak_then).text);
        print_sums(report, &findings);
        print_findings(report, &findings);
    }
    report_findings_done(&findings);
}

/* ---- JSON ---- */

static void json_finding(struct json *json, const struct report *report,
        const struct report_findings *findings, size_t at)
{
    const struct patterns_row *row = &findings->row[at];
    const struct trace_anchor *anchor = &report->load.trace->anchors[row->anchor];

    json_begin(json, NULL, '{');
    json_text(json, "pattern", patterns[row->pattern].key);
    json_text(json, "title", findings->titles[at]);
    json_text(json, "site", symbols_site(report->symbols, row->stack));
    json_text(json, "anchor", row->anchor ? anchor->path : NULL);
    json_uint(json, "instance", row->anchor ? anchor->instance : 0);
    json_uint(json, "saves_bytes", row->saves);
    json_known(json, "max_left_bytes",
            report_lacks_events(report) ? UINT64_MAX
                                        : excess_of(findings->figures.peak, row->saves));
    json_uint(json, "bytes", row->bytes);
    json_uint(json, "count", row->count);
    json_uint(json, "at_max_bytes", row->at_max);
    json_uint(json, "longest_ns", row->longest_ns);
    json_real(json, "byte_seconds", row->cost);
    json_text(json, "memory_of", row->other == TRACE_NONE ? NULL : findings->others[at]);
    json_text(json, "advice", patterns[row->pattern].advice);
    figures_json_stack(json, report->symbols, row->stack, "stack");
    json_end(json, '}');
}

/* Of all blocks: unknown if events are missing. A page has the recorded blocks, and says so. */
static void report_patterns_json_sum(
        struct json *json, const struct report *report, const char *key, uint64_t value)
{
    json_known(json, key, report_lacks_events(report) && !json->page ? UINT64_MAX : value);
}

static void json_sums(
        struct json *json, const struct report *report, const struct report_findings *findings)
{
    json_begin(json, "by_pattern", '[');
    for (unsigned p = 0; p < PATTERNS_COUNT; p++) {
        const struct patterns_found *found = &findings->figures.of[p];
        struct trace_sum sum = findings->sum[p];

        json_begin(json, NULL, '{');
        json_text(json, "pattern", patterns[p].key);
        json_bool(json, "recorded", report_tells_pattern(report, (enum patterns_kind)p));
        json_uint(json, "findings", found->count);
        report_patterns_json_sum(json, report, "count", sum.count);
        report_patterns_json_sum(json, report, "bytes", sum.bytes);
        report_patterns_json_sum(json, report, "saves_bytes", found->saves);
        json_end(json, '}');
    }
    json_end(json, ']');
}

void report_patterns_json(struct json *json, const struct report *report)
{
    struct report_findings findings;
    const struct patterns_figures *figures = &findings.figures;
    bool lacks = report_lacks_events(report);

    report_findings_find(report, json->page ? REPORT_PATTERNS_ON_PAGE : report->top, &findings);
    json_begin(json, "patterns", '{');
    json_bool(json, "recorded", report->load.capture->unseen.is_on != 0);
    json_uint(json, "unseen_calls", report->load.capture->unseen.count);
    report_patterns_json_sum(json, report, "judged_count", figures->judged);
    report_patterns_json_sum(json, report, "judged_bytes", figures->judged_bytes);
    json_begin(json, "not_judged", '{');
    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++)
        report_patterns_json_sum(json, report, doubts[i].key, figures->doubts[i]);
    json_end(json, '}');
    json_known(json, "max_bytes", lacks ? UINT64_MAX : figures->peak);
    json_known(json, "max_freed_after_last_use_bytes", lacks ? UINT64_MAX : figures->peak_then);
    json_sums(json, report, &findings);
    (void)json_begin_rows(json, "findings", findings.count, REPORT_PATTERNS_ON_PAGE);
    for (size_t i = 0; i < findings.shown; i++)
        json_finding(json, report, &findings, i);
    json_end(json, ']');
    json_end(json, '}');
    report_findings_done(&findings);
}

/* SPDX-License-Identifier: MIT */
#include "tools/page_parts.h"

#include <stdlib.h>

static void json_doubts(struct json *json, const struct patterns_figures *figures)
{
    json_begin(json, "not_judged", '[');
    for (unsigned i = 0; i < PATTERNS_DOUBTS; i++) {
        if (figures->doubts[i] == 0)
            continue;
        json_begin(json, NULL, '{');
        json_text(json, "key", report_doubt((enum patterns_doubt)i)->key);
        json_text(json, "why", report_doubt((enum patterns_doubt)i)->why);
        json_uint(json, "count", figures->doubts[i]);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_uint(json, "not_judged_bytes", figures->doubtful_bytes);
}

static void json_sums(
        struct json *json, const struct report *report, const struct report_findings *findings)
{
    json_begin(json, "by_pattern", '[');
    for (unsigned i = 0; i < PATTERNS_COUNT; i++) {
        const struct report_pattern *pattern = report_pattern((enum patterns_kind)i);

        json_begin(json, NULL, '{');
        json_text(json, "pattern", pattern->key);
        json_text(json, "name", pattern->name);
        json_bool(json, "recorded", report_tells_pattern(report, (enum patterns_kind)i));
        json_uint(json, "findings", findings->figures.of[i].count);
        page_json_sum(json, "blocks", findings->sum[i]);
        json_uint(json, "saves_bytes", findings->figures.of[i].saves);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void json_finding(struct page *page, const struct report_findings *findings, size_t at)
{
    const struct patterns_row *row = &findings->row[at];
    const struct trace_anchor *anchor = &page->report->load.trace->anchors[row->anchor];
    struct json *json = &page->json;
    char *advice = report_findings_advice(findings, at);
    char *name = row->anchor ? figures_anchor_text(anchor) : NULL;

    json_begin(json, NULL, '{');
    json_text(json, "pattern", report_pattern(row->pattern)->key);
    page_json_name(json, "name", findings->titles[at]);
    page_json_stack(page, "stack", row->stack);
    page_json_name(json, "anchor", name);
    json_uint(json, "saves_bytes", row->saves);
    json_known(json, "max_left_bytes",
            report_lacks_events(page->report) ? UINT64_MAX
                                              : excess_of(findings->figures.peak, row->saves));
    page_json_sum(json, "blocks", (struct trace_sum){.bytes = row->bytes, .count = row->count});
    json_uint(json, "at_max_bytes", row->at_max);
    json_uint(json, "longest_ns", row->longest_ns);
    page_json_name(json, "advice", advice);
    json_end(json, '}');
    free(advice);
    free(name);
}

/* Nothing where the run recorded no uses. */
void page_patterns_json(struct page *page)
{
    const struct format_unseen *unseen = &page->report->load.capture->unseen;
    struct report_findings findings;
    const struct patterns_figures *figures = &findings.figures;
    struct json *json = &page->json;
    bool lacks = report_lacks_events(page->report);

    if (!unseen->is_on)
        return;
    report_findings_find(page->report, PAGE_FINDINGS, &findings);
    json_begin(json, "patterns", '{');
    json_uint(json, "judged_count", figures->judged);
    json_uint(json, "judged_bytes", figures->judged_bytes);
    json_uint(json, "unseen_calls", unseen->count);
    json_doubts(json, figures);
    json_known(json, "max_bytes", lacks ? UINT64_MAX : figures->peak);
    json_known(json, "max_freed_after_last_use_bytes", lacks ? UINT64_MAX : figures->peak_then);
    json_bool(json, "ended", load_has_ended(&page->report->load));
    json_sums(json, page->report, &findings);
    json_uint(json, "finding_count", findings.count);
    json_begin(json, "findings", '[');
    for (size_t i = 0; i < findings.shown; i++)
        json_finding(page, &findings, i);
    json_end(json, ']');
    json_end(json, '}');
    report_findings_done(&findings);
}

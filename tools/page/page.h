/* SPDX-License-Identifier: MIT */
/*
 * page.h - a report as one HTML file, which needs nothing else: `kedge report F --html FILE`.
 *
 *     report ─┬─► report_json: figures, hints, failures, patterns, anchors ... ─┐
 *             └─► page_sites ─┬─► page_timeline ────────────────────────────────┤
 *                             ├─► page_flame ───────────────────────────────────┼─► one JSON object
 *                             └─► page_map ─────────────────────────────────────┘
 *     head · the object · tail ─► FILE; head and tail are page/: HTML, CSS and JavaScript
 *
 * The object is that of --json (report_json.c), in the form of struct json_page (render.h), and
 * more: call sites, the timeline, the flame graph and the map, which --json lacks, and the frames
 * of stacks.
 *
 * Sums are computed when the page is written, so that its size does not grow with the run: at most
 * so many leaves of the timeline (page_leaves.h), blocks that it draws (page_blocks.h) and bytes of
 * its columns (page_groupings.c), the largest rows of each table and a sum of the others. Other
 * limits are in page_parts.h, and in report_*.c at the calls of json_begin_rows.
 *
 * Names come from the program that was watched. In a page's JSON they have no control characters
 * and no "<"; the page's scripts put them into the document as text, and its policy lets no other
 * script run.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_PAGE_H
#define KEDGE_TOOLS_PAGE_H

#include "tools/report/report.h"

/*
 * Writes the page of a report with its figures and sources (outfile.h). 0, or exit code 2 after one
 * line on stderr.
 */
int page_write(const struct report *report, const char *path);

/* Two runs beside each other: `kedge diff GOOD BAD --html FILE`. */
struct page_diff {
    const struct report *good, *bad;
    /* adds the keys of `kedge diff --json` to the open object */
    void (*keys)(void *context, struct json *json);
    void *context;
};

int page_write_diff(const struct page_diff *diff, const char *path);

#endif

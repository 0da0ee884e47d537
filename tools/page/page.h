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

/* What a page has beside its runs. */
struct page_lead {
    const char *who, *key; /* "kedge diff", "diff": the object that `keys` fills; NULL = none */
    void *context;
    void (*keys)(void *context, struct json *json);
};

/*
 * Writes the page of a report with its figures and sources (outfile.h). 0, or exit code 2 after one
 * line on stderr.
 */
int page_write(const struct report *report, const struct page_lead *lead, const char *path);

/* Several runs on one page: kedge diff and kedge ranks. One of them is open at a time. */
struct page_runs {
    struct page_lead lead;
    size_t count;
    /*
     * a report with its load, symbols and window; `close` frees what `open` made of it. Their
     * context is that of `lead`
     */
    int (*open)(void *context, size_t at, struct report *ret);
    void (*close)(void *context, struct report *report);
};

/* The same: 0, or exit code 2 after one line on stderr, also of a run that cannot be opened. */
int page_write_runs(const struct page_runs *runs, const char *path);

#endif

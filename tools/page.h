/* SPDX-License-Identifier: MIT */
/*
 * page.h - a report as one HTML file, which needs nothing else: `kedge report F --html FILE`.
 *
 *     report ─┬─► page_sites ─┬─► page_timeline ─┐
 *             │               ├─► page_flame ────┼─► one JSON object ─► page.c ─► head · data · tail ─► FILE
 *             │               ├─► page_map ──────┤                               └─ page/: HTML, CSS and JavaScript
 *             │               └─► page_data ─────┤
 *             └─► page_waterfall, _patterns, _evict ┘
 *
 * Everything is added up when the page is written, so that its size does not grow with the run: a fixed number of bins, the
 * largest rows of each table and a sum of the others (limits: page_parts.h). Figures are those of report.h.
 *
 * Names come from the program that was watched. render_text has them without control characters, and within the page no name has
 * a "<"; the page's scripts put them into the document as text, and its policy lets no other script run.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_PAGE_H
#define KEDGE_TOOLS_PAGE_H

#include "tools/report.h"

/* Writes the page of a report whose figures and sources are there (outfile.h). 0, or exit code 2 after one line on stderr. */
int page_write(const struct report *report, const char *path);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * top_view.h - prints one look of `kedge top`, as lines of text and as JSON.
 *
 * Control characters of the program's names are shown as '?'. Threads: none.
 */
#ifndef KEDGE_TOOLS_TOP_VIEW_H
#define KEDGE_TOOLS_TOP_VIEW_H

#include <stdio.h>

#include "tools/run/top_watch.h"

struct top_view {
    uint64_t top;   /* call sites */
    bool is_screen; /* a screen cuts its lines, and has a key */
};

void top_view_print(FILE *out, struct top_watch *watch, const struct top_view *view);

/* One object in one line. */
void top_view_json(FILE *out, struct top_watch *watch, const struct top_view *view);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * topview.h - what `kedge top` shows of one look, as lines of text and as JSON.
 *
 * Control characters of the program's names are shown as '?'. Threads: none.
 */
#ifndef KEDGE_TOOLS_TOPVIEW_H
#define KEDGE_TOOLS_TOPVIEW_H

#include <stdio.h>

#include "tools/run/watch.h"

struct topview {
    uint64_t top;   /* call sites */
    bool is_screen; /* which cuts its lines, and has a key */
};

void topview_print(FILE *out, struct watch *watch, const struct topview *view);

/* One object in one line. */
void topview_json(FILE *out, struct watch *watch, const struct topview *view);

#endif

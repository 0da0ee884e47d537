/* SPDX-License-Identifier: MIT */
/*
 * topview.h - what `kedge top` shows of one look, as lines of text and as JSON.
 *
 * Control characters of the program's names are shown as '?'. Threads: none.
 */
#ifndef KEDGE_TOOLS_TOPVIEW_H
#define KEDGE_TOOLS_TOPVIEW_H

#include "tools/render.h"
#include "tools/watch.h"

struct topview {
    struct render_ink ink;
    uint64_t top;  /* call sites */
    bool is_utf8;  /* the timeline is drawn with blocks */
    bool has_keys; /* the last line names them */
    bool is_paused;
};

/* Is the text of this process's locale UTF-8, by its environment? */
bool topview_is_utf8(void);

/* Lines that are printed beside those of the call sites, so that a screen knows how many of these fit. */
unsigned topview_lines(const struct watch *watch, const struct topview *view);

void topview_print(FILE *out, struct watch *watch, const struct topview *view);

/* One object in one line. */
void topview_json(FILE *out, struct watch *watch, const struct topview *view);

#endif

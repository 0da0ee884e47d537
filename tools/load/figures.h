/* SPDX-License-Identifier: MIT */
/*
 * figures.h - the parts of a report that more than one command prints.
 *
 * The six lines ("Remaining memory: ..."), the JSON keys, stacks with names, a window from --from
 * and --to. model.h defines the figures; this module prints them.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_FIGURES_H
#define KEDGE_TOOLS_FIGURES_H

#include <stdio.h>

#include "tools/base/render.h"
#include "tools/load/load.h"
#include "tools/symbols/symbols.h"
#include "tools/trace/model.h"

/* The window of --from and --to (NULL = open end): 0, or an exit code after one line on stderr. */
int figures_window(
        const struct load *load, const char *from, const char *to, struct model_window *ret_window);

/* The nearest name to `name` among paths of anchors and their last parts; NULL = none is near. */
const char *figures_nearest_anchor(const struct trace *trace, const char *name);

/* "SOT_CALL_0 (2)" for the second instance; the caller frees it. */
char *figures_anchor_text(const struct trace_anchor *anchor);

/* Whether the window is the whole run and lacks events: the writer's own counts are used. */
bool figures_by_totals(const struct load *load, struct model_window window);

/*
 * The figures of a window. For the whole run of a capture that lost events, the writer's own totals
 * replace those that the events lack. Another window with missing events is MODEL_UNKNOWN; then,
 * and for a damaged capture, *ret_partial is true.
 */
void figures_of(const struct load *load, struct model_window window,
        struct model_figures *ret_figures, bool *ret_partial);

/* Figures that are all unknown, because events are missing. */
struct model_figures figures_unknown(void);

/* Peak of stored bytes, in blocks of 512 B, by peak reserved; false: none, or unknown. */
bool figures_utilisation(const struct model_figures *figures, double *ret);

/* "Remaining memory: 6.75 MiB" and the other five, with a second value if hints change one. */
void figures_print(FILE *out, const struct model_figures *figures);

/* The same figures as JSON keys, into the open object. */
void figures_json(struct json *json, const struct model_figures *figures);

/* "key": {count, bytes}. */
void figures_json_sum(struct json *json, const char *key, const struct trace_sum *sum);
/* The blocks that a hint expects in an instance of its anchor; a most of 0: none in particular. */
void figures_json_expect(struct json *json, const struct rule *rule);

/* " ... 3 more stacks (--top)", if there are more than `top`. */
void figures_print_more(uint64_t count, uint64_t top, const char *noun);

/*
 * A stack, one line per call: `limit` of the program's own at most, and a count of all others
 * (stackfold.h). FIGURES_ALL_FRAMES: each frame, of whoever it is.
 */
#define FIGURES_ALL_FRAMES UINT32_MAX
void figures_print_stack(
        FILE *out, struct symbols *symbols, uint32_t stack, const char *indent, unsigned limit);

/* "stack": [{function, file, line}]; for a page, numbers of frames (frames.h). */
void figures_json_stack(
        struct json *json, struct symbols *symbols, uint32_t stack, const char *key);

/* Writes that poison found after the release was due, with `before` ahead: count, first block. */
void figures_print_written(FILE *out, const char *before, struct symbols *symbols,
        const struct trace *trace, const struct load_hint *hint);

/*
 * The call that used storage released by a hint, and the one that had allocated it: for each the
 * way (title.h, Python first), then the stack. As JSON "used_by_title", "used_by",
 * "allocated_by_title", "allocated_by"; without the last two if the block is unknown.
 */
void figures_print_touch(FILE *out, struct symbols *symbols, const struct trace *trace,
        const struct load_hint *hint);
void figures_json_touch(struct json *json, struct symbols *symbols, const struct trace *trace,
        const struct load_hint *hint);

/* "symbol_notes": the lines of figures_print_trouble. After all keys with names. */
void figures_json_trouble(struct json *json, const struct symbols *symbols);

/* One line for each module whose names are missing. */
void figures_print_trouble(FILE *out, const struct symbols *symbols);

#endif

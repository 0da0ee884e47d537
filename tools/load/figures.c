/* SPDX-License-Identifier: MIT */
#include "tools/load/figures.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/args.h"
#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/load/frames.h"
#include "tools/symbols/stackfold.h"
#include "tools/symbols/title.h"

#define FIGURES_ANCHORS_TOLD 6

/* By whole paths and by their last parts, as in --from and --to. */
const char *figures_nearest_anchor(const struct trace *trace, const char *name)
{
    const char **names = vec_new(2 * trace->anchor_count, sizeof(*names));
    size_t count = 0;

    for (size_t i = 1; i < trace->anchor_count && count < 8192; i++) {
        const char *path = trace->anchors[i].path;
        names[count++] = path;
        names[count++] = filename_of(path);
    }
    const char *near = args_nearest(ARGS_WORDS(names, count), name);
    free((void *)names);
    return near;
}

char *figures_anchor_text(const struct trace_anchor *anchor)
{
    return anchor->instance ? vec_format("%s (%" PRIu32 ")", anchor->path, anchor->instance + 1)
                            : vec_text(anchor->path);
}

/* "step (9)" for the name of an anchor that was entered less often: prints how often. */
static bool figures_tell_instances(const struct trace *trace, const char *name)
{
    uint32_t instance;
    size_t length = model_name_length(name, &instance);
    uint64_t count = 0;

    if (instance == TRACE_NONE)
        return false;
    char *base = vec_format("%.*s", (int)length, name);
    for (size_t i = 1; i < trace->anchor_count; i++)
        count += model_anchor_named(&trace->anchors[i], base);
    if (count > 0) {
        (void)fputs(" ('", stderr);
        render_text(stderr, base);
        (void)fprintf(
                stderr, "' was entered %" PRIu64 " time%s on record)", count, render_s(count));
    }
    free(base);
    return count > 0;
}

/* " (the anchors are step, step/forward, ...)" */
static void figures_tell_anchors(const struct trace *trace)
{
    struct vec_texts names = {0};

    for (size_t i = 1; i < trace->anchor_count && names.count <= FIGURES_ANCHORS_TOLD; i++)
        (void)vec_add_once(&names, vec_text(trace->anchors[i].path));
    for (size_t i = 0; i < names.count; i++)
        render_print(stderr, "%s%s", i == 0 ? " (the anchors are " : ", ",
                i < FIGURES_ANCHORS_TOLD ? names.at[i] : "...");
    (void)fputs(names.count ? ")" : " (the capture has no anchors at all)", stderr);
    vec_free_texts(&names);
}

int figures_window(
        const struct load *load, const char *from, const char *to, struct model_window *ret_window)
{
    const char *missing = NULL;
    int r = model_find_window(load->trace, from, to, ret_window, &missing);

    if (r == 0)
        return 0;
    if (r == -ENOENT) {
        const char *near = figures_nearest_anchor(load->trace, missing);
        (void)fprintf(stderr, "kedge: %s: no anchor '", load->path);
        render_text(stderr, missing);
        (void)fputc('\'', stderr);
        if (figures_tell_instances(load->trace, missing)) {
            ; /* the reason is printed above */
        } else if (near) {
            (void)fputs(" (did you mean ", stderr);
            render_text(stderr, near);
            (void)fputs("?)", stderr);
        } else {
            figures_tell_anchors(load->trace);
        }
        (void)fputc('\n', stderr);
    } else {
        (void)fprintf(stderr, "kedge: %s: '%s' ends before '%s' begins\n", load->path, to, from);
    }
    return 2;
}

bool figures_by_totals(const struct load *load, struct model_window window)
{
    return !window.is_named && window.first == 0 && window.last == load->trace->event_count
            && load->complete_from > window.first;
}

/* All bits are set in MODEL_UNKNOWN, and in TRACE_NEVER, the moment of an unknown Max. */
struct model_figures figures_unknown(void)
{
    struct model_figures unknown;

    memset(&unknown, 0xff, sizeof(unknown));
    return unknown;
}

/* In live a hint's releases were made; those of other modes are only in the events. */
static bool would_is_hinted(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->rule_count; i++)
        if (capture->rule[i].mode != HINT_LIVE)
            return false;
    return true;
}

/* Uses the writer's own counts, exact even if events were lost. */
static void take_totals(const struct read_capture *capture, struct model_figures *f)
{
    const struct format_totals *total = &capture->total;
    bool has_releases = total->hinted_freed_count > 0;

    if (f->peak_live != total->peak_bytes) /* it was reached before the events that are left */
        f->max_at = TRACE_NEVER;
    f->remaining = total->live_bytes;
    f->max = f->peak_live = total->peak_bytes;
    f->allocated = total->allocated_bytes;
    f->allocated_count = total->allocated_count;
    f->freed = total->freed_bytes;
    f->freed_count = total->freed_count;
    f->outside_freed = f->outside_freed_count = 0;
    f->peak_live_512 = MODEL_UNKNOWN;
    f->peak_stored_512 = capture->peak_stored_512;
    f->peak_reserved = total->peak_reserved_bytes;
    f->hinted.released = total->hinted_freed_bytes;
    f->hinted.released_count = total->hinted_freed_count;
    f->hinted.remaining = total->live_hinted_bytes;
    f->hinted.max = total->peak_hinted_bytes;
    f->hinted.freed = total->allocated_bytes - total->live_hinted_bytes;
    f->hinted.freed_count = has_releases ? MODEL_UNKNOWN : f->freed_count;
    f->would = would_is_hinted(capture) ? f->hinted : figures_unknown().would;
}

void figures_of(const struct load *load, struct model_window window,
        struct model_figures *ret_figures, bool *ret_partial)
{
    bool by_totals = figures_by_totals(load, window);

    bool lacks_events = load->complete_from > window.first && !by_totals;

    model_figure(load->trace, window, NULL, ret_figures);
    if (by_totals)
        take_totals(load->capture, ret_figures);
    if (lacks_events)
        *ret_figures = figures_unknown();
    *ret_partial = lacks_events || read_is_damaged(load->capture);
}

bool figures_utilisation(const struct model_figures *f, double *ret)
{
    if (!f->peak_reserved || f->peak_reserved == MODEL_UNKNOWN || !f->peak_stored_512
            || f->peak_stored_512 == MODEL_UNKNOWN)
        return false;
    *ret = (double)f->peak_stored_512 / (double)f->peak_reserved;
    return true;
}

void figures_print(FILE *out, const struct model_figures *f)
{
    const struct {
        const char *word;
        struct render_bytes (*text)(uint64_t);
        uint64_t value, hinted, would;
    } rows[] = {
            {"Remaining memory", render_bytes, f->remaining, f->hinted.remaining,
                    f->would.remaining},
            {"Max memory", render_bytes, f->max, f->hinted.max, f->would.max},
            {"Allocated memory", render_bytes, f->allocated, f->allocated, f->allocated},
            {"Allocated count", render_count, f->allocated_count, f->allocated_count,
                    f->allocated_count},
            {"Freed memory", render_bytes, f->freed, f->hinted.freed, f->would.freed},
            {"Freed count", render_count, f->freed_count, f->hinted.freed_count,
                    f->would.freed_count},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        (void)fprintf(out, "%s: %s", rows[i].word, rows[i].text(rows[i].value).text);
        if (rows[i].hinted != rows[i].value)
            (void)fprintf(out, "   with hints %s", rows[i].text(rows[i].hinted).text);
        if (rows[i].would != rows[i].hinted)
            (void)fprintf(out, "   hints would make it %s", rows[i].text(rows[i].would).text);
        (void)fputc('\n', out);
    }
}

void figures_json(struct json *json, const struct model_figures *f)
{
    json_known(json, "remaining_bytes", f->remaining);
    json_known(json, "max_bytes", f->max);
    json_known(json, "allocated_bytes", f->allocated);
    json_known(json, "allocated_count", f->allocated_count);
    json_known(json, "freed_bytes", f->freed);
    json_known(json, "freed_count", f->freed_count);
    json_known(json, "outside_freed_bytes", f->outside_freed);
    json_known(json, "outside_freed_count", f->outside_freed_count);
    json_known(json, "peak_live_bytes", f->peak_live);
    json_known(json, "peak_reserved_bytes", f->peak_reserved);
    json_known(json, "hinted_freed_bytes", f->hinted.released);
    json_known(json, "hinted_freed_count", f->hinted.released_count);
    json_known(json, "freed_with_hints_bytes", f->hinted.freed);
    json_known(json, "freed_with_hints_count", f->hinted.freed_count);
    json_known(json, "max_with_hints_bytes", f->hinted.max);
    json_known(json, "remaining_with_hints_bytes", f->hinted.remaining);
    json_known(json, "would_freed_bytes", f->would.released);
    json_known(json, "would_freed_count", f->would.released_count);
    json_known(json, "max_would_bytes", f->would.max);
    json_known(json, "remaining_would_bytes", f->would.remaining);
}

void figures_json_sum(struct json *json, const char *key, const struct trace_sum *sum)
{
    json_begin(json, key, '{');
    json_uint(json, "count", sum->count);
    json_uint(json, "bytes", sum->bytes);
    json_end(json, '}');
}

void figures_json_expect(struct json *json, const struct rule *rule)
{
    json_uint(json, "expect_count_min", rule->expect.count.lo);
    json_uint(json, "expect_count_max", rule->expect.count.hi);
    json_uint(json, "expect_bytes_min", rule->expect.bytes.lo);
    json_uint(json, "expect_bytes_max", rule->expect.bytes.hi);
}

void figures_print_more(uint64_t count, uint64_t top, const char *noun)
{
    if (count > top)
        printf("  ... %" PRIu64 " more %s%s (--top)\n", count - top, noun, render_s(count - top));
}

static void figures_print_line(
        FILE *out, const struct symbols_line *line, bool is_introduced, const char *indent)
{
    if (line->is_ambient && !is_introduced)
        (void)fprintf(out, "%s(no Python in this thread; another was in)\n", indent);
    (void)fputs(indent, out);
    render_text(out, line->function);
    if (line->file || *line->module)
        (void)fputc(' ', out);
    render_text(out, line->file ? line->file : filename_of(line->module));
    if (line->file && (line->line || line->is_python))
        (void)fprintf(out, ":%u", line->line);
    (void)fputc('\n', out);
}

void figures_print_stack(
        FILE *out, struct symbols *symbols, uint32_t stack, const char *indent, unsigned limit)
{
    struct stackfold fold = stackfold_of(symbols, stack, limit == FIGURES_ALL_FRAMES);

    if (fold.count == 0)
        (void)fprintf(out, "%s(no stack was recorded)\n", indent);
    for (size_t i = 0; i < fold.count && i < limit; i++)
        figures_print_line(out, fold.kept[i], i > 0 && fold.kept[i - 1]->is_ambient, indent);
    if (fold.count > limit)
        (void)fprintf(out, "%s... %zu more\n", indent, fold.count - limit);
    if (fold.others)
        render_print(out, "%s%s\n", indent, fold.others);
    stackfold_done(&fold);
}

/* The stacks of a touch, the toucher's first, and the way to each, Python first; their number. */
static size_t touch_stacks(const struct trace *trace, const struct load_hint *hint,
        struct symbols *symbols, uint32_t ret_stacks[2], char ***ret_ways)
{
    size_t count = hint->touched_block == TRACE_NONE ? 1 : 2;

    ret_stacks[0] = hint->touch_stack;
    ret_stacks[1] = count == 2 ? trace->blocks[hint->touched_block].stack : 0;
    *ret_ways = title_ways(symbols, ret_stacks, sizeof(*ret_stacks), 0, count);
    return count;
}

void figures_print_touch(
        FILE *out, struct symbols *symbols, const struct trace *trace, const struct load_hint *hint)
{
    uint32_t stacks[2];
    char **ways;
    size_t count = touch_stacks(trace, hint, symbols, stacks, &ways);

    for (size_t i = 0; i < count; i++) {
        if (i == 0)
            (void)fputs("    used by: ", out);
        else
            (void)fprintf(out, "    %s allocated by: ",
                    render_bytes(trace->blocks[hint->touched_block].size).text);
        render_text(out, ways[i]);
        (void)fputc('\n', out);
        figures_print_stack(out, symbols, stacks[i], "      ", 8);
    }
    title_done(ways, count);
}

void figures_print_written(FILE *out, const char *before, struct symbols *symbols,
        const struct trace *trace, const struct load_hint *hint)
{
    struct render_ink ink = render_ink(out);
    uint64_t count = hint->sums[FORMAT_HINT_LATE_WRITE].count;

    (void)fprintf(out, "%s%shint ", before, ink.red);
    render_text(out, hint->id);
    (void)fprintf(out, ": %" PRIu64 " block%s written after the release was due%s\n", count,
            count == 1 ? " was" : "s were", ink.off);
    if (hint->written_block == TRACE_NONE)
        return;
    const struct trace_block *block = &trace->blocks[hint->written_block];
    (void)fprintf(out, "    first changed byte %" PRIu64 " of %s allocated by:\n", hint->written_at,
            render_bytes(block->size).text);
    figures_print_stack(out, symbols, block->stack, "      ", 8);
}

void figures_json_touch(struct json *json, struct symbols *symbols, const struct trace *trace,
        const struct load_hint *hint)
{
    uint32_t stacks[2];
    char **ways;
    size_t count = touch_stacks(trace, hint, symbols, stacks, &ways);

    for (size_t i = 0; i < count; i++) {
        json_text(json, i == 0 ? "used_by_title" : "allocated_by_title", ways[i]);
        figures_json_stack(json, symbols, stacks[i], i == 0 ? "used_by" : "allocated_by");
    }
    title_done(ways, count);
}

static void figures_json_line(struct json *json, const struct symbols_line *line)
{
    json_begin(json, NULL, '{');
    json_text(json, "function", line->function);
    json_text(json, "file", line->file);
    json_uint(json, "line", line->line);
    json_text(json, "module", line->module);
    if (line->is_python)
        json_bool(json, "python", true);
    if (line->is_ambient)
        json_bool(json, "ambient", true);
    json_end(json, '}');
}

void figures_json_stack(struct json *json, struct symbols *symbols, uint32_t stack, const char *key)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    json_begin(json, key, '[');
    for (size_t i = 0; i < count; i++)
        if (json->page)
            frames_json_number(json, &lines[i]);
        else
            figures_json_line(json, &lines[i]);
    json_end(json, ']');
}

void figures_json_trouble(struct json *json, const struct symbols *symbols)
{
    const char *line;

    json_begin(json, "symbol_notes", '[');
    for (size_t i = 0; (line = symbols_trouble(symbols, i)) != NULL; i++)
        json_text(json, NULL, line);
    json_end(json, ']');
}

void figures_print_trouble(FILE *out, const struct symbols *symbols)
{
    const char *line;

    for (size_t i = 0; (line = symbols_trouble(symbols, i)) != NULL; i++) {
        (void)fputs("note: ", out);
        render_text(out, line);
        (void)fputc('\n', out);
    }
}

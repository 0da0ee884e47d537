/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"

/* The steps of the whole run, found when they are first asked for. */
struct numbered_steps {
    struct stepview view;
    bool is_found;
};

static const struct stepview *steps_of(const struct report *report, struct numbered_steps *steps)
{
    if (!steps->is_found)
        stepview_find(&report->load, model_whole(report->load.trace), report->steps, &steps->view);
    steps->is_found = true;
    return &steps->view;
}

/* "step:4" or "step (4)" where no anchor is called step: the number, else 0. */
static uint32_t report_window_step(const struct report *report, const char *name)
{
    const struct trace *trace = report->load.trace;
    uint32_t instance = TRACE_NONE;

    if (!name || model_name_length(name, &instance) != 4 || strncmp(name, "step", 4) != 0)
        return 0;
    for (size_t i = 1; i < trace->anchor_count && instance != TRACE_NONE; i++)
        if (model_anchor_named(&trace->anchors[i], "step"))
            return 0;
    return instance == TRACE_NONE ? 0 : instance + 1;
}

/* The row of a step, by the number that --view steps gives it; NULL after one line on stderr. */
static const struct stepview_row *numbered_row(
        const struct report *report, struct numbered_steps *steps, uint64_t number)
{
    const struct stepview *view = steps_of(report, steps);

    if (number >= 1 && number <= view->row_count)
        return &view->rows[number - 1];
    (void)fprintf(stderr, "kedge report: %s: no step %" PRIu64, report->load.path, number);
    if (view->row_count)
        (void)fprintf(stderr, ": --view steps has 1 to %zu\n", view->row_count);
    else
        (void)fprintf(stderr, ": no steps were found: %s\n", view->period.reason);
    return NULL;
}

/* The events of an anchor, or of a step by its number. */
static int moment_of_name(const struct report *report, struct numbered_steps *steps,
        const char *name, struct model_window *ret)
{
    uint32_t number = report_window_step(report, name);

    if (number == 0)
        return figures_window(&report->load, name, name, ret);
    const struct stepview_row *row = numbered_row(report, steps, number);
    if (row)
        *ret = (struct model_window){row->first, row->behind, true};
    return row ? CMD_DONE : CMD_BAD;
}

/* As figures_window, where a name may be a step. */
static int find_between(struct report *report, struct numbered_steps *steps, const char *from,
        const char *to, struct model_window *ret)
{
    struct model_window begin = model_whole(report->load.trace);
    struct model_window end = begin;
    int r = CMD_DONE;

    if (!report_window_step(report, from) && !report_window_step(report, to))
        return figures_window(&report->load, from, to, ret);
    if (from)
        r = moment_of_name(report, steps, from, &begin);
    if (r == CMD_DONE && to)
        r = moment_of_name(report, steps, to, &end);
    if (r == CMD_DONE && from && to && end.last <= begin.first) {
        render_print(
                stderr, "kedge: %s: '%s' ends before '%s' begins\n", report->load.path, to, from);
        return CMD_BAD;
    }
    *ret = (struct model_window){begin.first, end.last, true};
    return r;
}

/* The name of a step of its own: "train/step (4)"; "step:4" of one that was detected. */
static char *step_name(const struct report *report, const struct stepview_row *row, uint64_t number)
{
    const struct trace *trace = report->load.trace;

    if (row->anchor == TRACE_NONE)
        return vec_format("step:%" PRIu64, number);
    const struct trace_anchor *anchor = &trace->anchors[row->anchor];
    for (size_t i = 1; i < trace->anchor_count; i++)
        if (i != row->anchor && strcmp(trace->anchors[i].path, anchor->path) == 0)
            return vec_format("%s (%" PRIu32 ")", anchor->path, anchor->instance + 1);
    return vec_text(anchor->path);
}

int report_window_find(struct report *report, uint64_t step, const char *const between[2])
{
    struct numbered_steps steps = {0};
    struct model_window made;
    int r = CMD_DONE;

    if (step) {
        const struct stepview_row *row = numbered_row(report, &steps, step);
        if (row)
            report->from = report->to = report->step_name = step_name(report, row, step);
        r = row ? CMD_DONE : CMD_BAD;
    }
    if (r == CMD_DONE && between[0]) {
        report->from = between[0];
        report->made_to = between[1];
        r = find_between(report, &steps, between[0], between[1], &made);
        report->made_behind = made.last;
    }
    if (r == CMD_DONE)
        r = find_between(report, &steps, report->from, report->to, &report->window);
    if (r == CMD_DONE && between[0] && report->window.last < report->made_behind) {
        render_print(stderr, "kedge: %s: '%s' ends before '%s' does\n", report->load.path,
                report->to, between[1]);
        r = CMD_BAD;
    }
    if (steps.is_found)
        stepview_done(&steps.view);
    return r;
}

bool report_is_made(const struct report *report, const struct trace_block *block)
{
    return block->born >= report->window.first
            && (!report->made_to || block->born < report->made_behind);
}

struct report_made {
    struct trace_sum all, then, now;
};

static void made_add(struct trace_sum *sum, const struct trace_block *block)
{
    sum->bytes += block->size;
    sum->count++;
}

static struct report_made made_of(const struct report *report)
{
    const struct trace *trace = report->load.trace;
    struct report_made made = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (!report_is_made(report, block) || block->born >= report->window.last)
            continue;
        made_add(&made.all, block);
        if (block->died >= report->made_behind)
            made_add(&made.then, block);
        if (block->died >= report->window.last)
            made_add(&made.now, block);
    }
    return made;
}

static void made_print_sum(const char *what, const struct trace_sum *sum)
{
    char *text = vec_format("%s in %" PRIu64 " block%s  %s", render_bytes(sum->bytes).text,
            sum->count, render_s(sum->count), what);

    fputs("  ", stdout);
    render_label(stdout, text, 2, 6);
    free(text);
}

void report_between_print(const struct report *report)
{
    const struct report_made made = made_of(report);
    char *then = vec_format("still there at the end of %s", report->made_to);
    char *now = vec_format("still there at the end of %s", report->to ? report->to : "the run");

    printf("\n%s", report->ink.bold);
    render_print(stdout, "Made between %s and %s", report->from, report->made_to);
    printf("%s\n", report->ink.off);
    if (report_lacks_events(report)) {
        printf("  not known: %s\n", load_lacks(report->load.capture));
    } else {
        made_print_sum("made", &made.all);
        made_print_sum(then, &made.then);
        made_print_sum(now, &made.now);
    }
    free(then);
    free(now);
}

void report_between_json(struct json *json, const struct report *report)
{
    const struct report_made made = made_of(report);
    bool is_known = !report_lacks_events(report);

    json_begin(json, "between", '{');
    json_text(json, "from", report->from);
    json_text(json, "to", report->made_to);
    json_known(json, "allocated_bytes", is_known ? made.all.bytes : UINT64_MAX);
    json_known(json, "allocated_count", is_known ? made.all.count : UINT64_MAX);
    json_known(json, "remaining_bytes", is_known ? made.then.bytes : UINT64_MAX);
    json_known(json, "remaining_count", is_known ? made.then.count : UINT64_MAX);
    json_known(json, "live_bytes", is_known ? made.now.bytes : UINT64_MAX);
    json_known(json, "live_count", is_known ? made.now.count : UINT64_MAX);
    json_end(json, '}');
}

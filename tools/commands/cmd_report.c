/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/output/pager.h"
#include "tools/page/page.h"

#define REPORT_SCREEN_ROWS 7u /* without --top */

struct fields {
    const char *from, *to, *by, *sort, *filter, *view, *steps, *html;
    const char *between[2];
    const char *step;
    uint64_t top;
    bool all, native, tensors, json;
};

static const struct args_option options[] = {
        {"from", "ANCHOR", "begin at the first enter of ANCHOR", CMD_TEXT(from)},
        {"to", "ANCHOR", "end after the last exit of ANCHOR", CMD_TEXT(to)},
        {"step", "N", "only step N, as --view steps counts them", CMD_TEXT(step)},
        {"between", "A B",
                "what was made from A's first enter to B's last exit, and is live at the end",
                CMD_PAIR(between)},
        {"by", "WHAT",
                "rows by stack, site, library, class, anchor, device or kind (views live, hwm, "
                "leaks, temporary); --by anchor alone: the figures of each anchor; --by kind "
                "alone: what the memory is",
                CMD_TEXT(by)},
        {"sort", "FIELD", "the view's rows by this figure, largest first; a wrong FIELD lists them",
                CMD_TEXT(sort)},
        {"filter", "TEXT", "only rows with TEXT in their stack, library, anchor or kind",
                CMD_TEXT(filter)},
        {"view", "NAME", "only this view (below)", CMD_TEXT(view)},
        {"steps", "WHICH",
                "of --view steps and --html: stated or detected (default: stated, else detected)",
                CMD_TEXT(steps)},
        {"top", "N", "how many stacks and hints to list (default 10)", CMD_UINT(top)},
        {"all", NULL, "the whole report instead of its first screen", CMD_FLAG(all)},
        {"native", NULL, "stacks with all frames, the framework's and native ones too",
                CMD_FLAG(native)},
        {"tensors", NULL,
                "of a run under PyTorch's own allocator the tensors in its segments, by PyTorch's "
                "record",
                CMD_FLAG(tensors)},
        {"html", "FILE", "write the report as one HTML page to FILE (- = standard output)",
                CMD_OUTPUT(html)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

static int find_view(const struct fields *fields, enum view *ret_view)
{
    *ret_view = VIEW_ALL;
    if (fields->all && fields->view) {
        (void)fputs("kedge report: --all is the whole report: not with --view\n", stderr);
        return CMD_BAD;
    }
    if (!fields->view)
        return CMD_DONE;
    *ret_view = report_view_named(fields->view);
    if (*ret_view != VIEW_COUNT)
        return CMD_DONE;
    const char *near = report_view_nearest(fields->view);
    render_print(stderr,
            "kedge report: --view %s is not in this version%s%s%s; kedge report --help lists the "
            "views\n",
            fields->view, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return CMD_BAD;
}

static int cmd_report_find_steps(const struct fields *fields, enum stepview_choice *ret_choice)
{
    static const char *const words[] = {"stated", "detected", NULL};
    int which = args_choose("kedge report", "steps", fields->steps, words);

    *ret_choice = !fields->steps ? STEPVIEW_ANY
            : which == 0         ? STEPVIEW_ONLY_STATED
                                 : STEPVIEW_ONLY_DETECTED;
    return which < 0 ? CMD_BAD : CMD_DONE;
}

/* 0: none was asked for, or it is no number. */
static uint64_t step_number(const struct fields *fields)
{
    bool is_number = fields->step && strspn(fields->step, "0123456789") == strlen(fields->step)
            && strlen(fields->step) < 10;

    return is_number ? strtoull(fields->step, NULL, 10) : 0;
}

/* --step and --between say where the window begins. */
static int check_beginning(const struct fields *fields, enum view *io_view)
{
    if (fields->step && (fields->from || fields->to || fields->between[0])) {
        (void)fputs(
                "kedge report: --step is a window: not with --from, --to or --between\n", stderr);
        return CMD_BAD;
    }
    if (fields->step && step_number(fields) == 0) {
        (void)fprintf(stderr, "kedge report: --step %s: a number, from 1\n", fields->step);
        return CMD_BAD;
    }
    if (!fields->between[0])
        return CMD_DONE;
    if (fields->from || fields->html || fields->all || (fields->view && *io_view != VIEW_LIVE)) {
        (void)fputs("kedge report: --between is a list of what is live: not with --from, --html, "
                    "--all or another view than live\n",
                stderr);
        return CMD_BAD;
    }
    *io_view = VIEW_LIVE;
    return CMD_DONE;
}

/* Checks --html: a page has all views and is not JSON. */
static int check_html(const struct fields *fields)
{
    const char *other = fields->view ? "--view"
            : fields->by             ? "--by"
            : fields->sort           ? "--sort"
            : fields->filter         ? "--filter"
            : fields->json           ? "--json"
                                     : NULL;

    if (!fields->html || !other)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge report: --html has everything on one page: not with %s\n", other);
    return CMD_BAD;
}

/* Writes a csv: it has the allocations only. */
static int report_csv(struct report *report, const char *path, const struct fields *fields)
{
    if (report->view != VIEW_STEPS || fields->from || fields->to || fields->by || fields->html
            || fields->step) {
        (void)fprintf(stderr, "kedge report: %s: of a csv there is --view steps only\n", path);
        return CMD_BAD;
    }
    int r = load_csv(path, &report->load);
    if (r != CMD_DONE)
        return r;
    report->window = model_whole(report->load.trace);
    report->symbols = symbols_new(report->load.trace);
    if (fields->json)
        report_steps_json_only(report);
    else
        report_text_print(report);
    symbols_free(report->symbols);
    load_close(&report->load);
    return CMD_DONE;
}

/* Area C and the records of eviction cover the whole run only. */
static int check_window(const struct fields *fields, enum view view)
{
    bool is_whole = view == VIEW_LEAKS || view == VIEW_TEMPORARY || view == VIEW_EVICTION;

    if (!is_whole || !(fields->from || fields->to || fields->step))
        return CMD_DONE;
    (void)fprintf(stderr,
            "kedge report: --view %s is of the whole run: not with --from, --to or --step\n",
            fields->view);
    return CMD_BAD;
}

/* Checks --by: area C has no classes of memory. */
static int check_groups(const struct report *report)
{
    if (report->by == REPORT_BY_KIND && !report->kinds.of) {
        (void)fputs("kedge report: --by kind: not known: no module or optimizer was "
                    "looked at\n",
                stderr);
        return CMD_BAD;
    }
    if (report->by != REPORT_BY_CLASS || report->view != VIEW_HWM || !report_has_high(report))
        return CMD_DONE;
    (void)fprintf(stderr,
            "kedge report: --by class: %s: without them the kinds of memory at the maximum are not "
            "known\n",
            load_lacks(report->load.capture));
    return CMD_BAD;
}

static int print_as_asked(const struct report *report, const struct fields *fields)
{
    if (fields->html) {
        const struct page_lead lead = {.who = "kedge report"};
        int r = page_write(report, &lead, fields->html);
        if (r == CMD_DONE && strcmp(fields->html, "-") != 0)
            render_print(stdout, "written to %s\n", fields->html);
        return r;
    }
    if (fields->json)
        report_json_print(report);
    else
        report_text_print(report);
    return CMD_DONE;
}

/* Of a capture that is loaded, and a window that is known. */
static int print_report(struct report *report, const struct fields *fields)
{
    int r;

    report->symbols = symbols_new(report->load.trace);
    if (report->filter_text)
        report->filter =
                rowpick_new(report->filter_text, report->symbols, report->load.trace->stack_count);
    progress_begin("adding up");
    figures_of(&report->load, report->window, &report->figures, &report->partial);
    sources_figure(&report->load, report->window, report->symbols, &report->sources);
    if (fields->json || report->view == VIEW_ALL)
        report_pool_find(report);
    if (fields->json || report->view == VIEW_ALL)
        report_tensors_find(report);
    progress_end();
    if (fields->html || pager_is_on()
            || !isatty(STDOUT_FILENO)) /* on a terminal the report prints as it is computed */
        progress_begin("reporting");
    r = print_as_asked(report, fields);
    progress_end();
    report_tensors_done(report);
    rowpick_done(report->filter);
    sources_done(&report->sources);
    symbols_free(report->symbols);
    return r;
}

/* It has the tensors beside their segments, and says which is which. */
static bool is_whole_page(const struct fields *fields)
{
    return fields->html && !fields->from && !fields->to && !fields->step;
}

static int report_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct report report = {.from = fields->from,
            .to = fields->to,
            .path = words[0],
            .is_native = fields->native,
            .is_whole = fields->all || fields->by || fields->view,
            .rows = fields->top ? (size_t)fields->top : REPORT_SCREEN_ROWS,
            .top = fields->top ? fields->top : 10};
    int r = find_view(fields, &report.view);

    if (r == CMD_DONE)
        r = cmd_report_find_steps(fields, &report.steps);
    if (r == CMD_DONE)
        r = check_html(fields);
    if (r == CMD_DONE)
        r = check_beginning(fields, &report.view);
    if (r == CMD_DONE)
        r = report_select_find(
                &report, report_view_fields(report.view), fields->by, fields->sort, fields->filter);
    if (r != CMD_DONE)
        return r;
    if (load_is_csv(words[0]))
        return report_csv(&report, words[0], fields);
    r = load_open(words[0], &report.load);
    if (r)
        return r;
    if (fields->tensors && !is_whole_page(fields))
        r = report_tensors_only("kedge report", &report.load);
    report.kinds = datakind_find(&report.load);
    if (r == CMD_DONE)
        r = check_window(fields, report.view);
    if (r == CMD_DONE)
        r = report_window_find(&report, step_number(fields), fields->between);
    if (r == CMD_DONE)
        r = check_groups(&report);
    if (r == CMD_DONE)
        r = print_report(&report, fields);
    free(report.step_name);
    datakind_done(&report.kinds);
    load_close(&report.load);
    return r;
}

const struct cmd cmd_report = {
        .name = "report",
        .usage = "report CAPTURE [options]",
        .summary = "What a run allocated, freed and kept, whole or between two anchors.",
        .explain = report_views_explain,
        CMD_OPTIONS(options, struct fields),
        .writes = OUTFILE_PRIVATE,
        .pages = true,
        .words_min = 1,
        .words_max = 1,
        .run = report_command,
};

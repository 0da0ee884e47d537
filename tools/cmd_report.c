/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <stdio.h>
#include <string.h>

#include "tools/report.h"

struct fields {
    const char *from, *to, *by, *view;
    uint64_t top;
    bool json;
};

static const struct args_option options[] = {
        {"from", "ANCHOR", "begin at the first enter of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, from)},
        {"to", "ANCHOR", "end after the last exit of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, to)},
        {"by", "anchor", "the figures of each anchor, in a table", ARGS_TEXT,
                offsetof(struct fields, by)},
        {"view", "NAME", "only this: live, hwm, libraries, hints, oom, anchors or classes",
                ARGS_TEXT, offsetof(struct fields, view)},
        {"top", "N", "how many stacks and hints to list (default 10)", ARGS_UINT,
                offsetof(struct fields, top)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

static const char *const view_names[VIEW_COUNT] = {
        "all", "live", "hwm", "libraries", "hints", "oom", "anchors", "classes"};

static int find_view(const struct fields *fields, enum view *ret_view)
{
    if (fields->by && strcmp(fields->by, "anchor") != 0) {
        (void)fprintf(stderr, "kedge report: --by %s: only --by anchor exists\n", fields->by);
        return CMD_BAD;
    }
    *ret_view = VIEW_ALL;
    if (!fields->view)
        return CMD_DONE;
    for (unsigned i = 0; i < VIEW_COUNT; i++) {
        if (strcmp(fields->view, view_names[i]) == 0) {
            *ret_view = (enum view)i;
            return CMD_DONE;
        }
    }
    (void)fprintf(stderr,
            "kedge report: --view %s is not in this version (live, hwm, libraries, "
            "hints, oom, anchors, classes are)\n",
            fields->view);
    return CMD_BAD;
}

static int run(const void *parsed, char **words, int count)
{
    const struct fields *fields = parsed;
    struct report report = {.from = fields->from,
            .to = fields->to,
            .by_anchor = fields->by != NULL,
            .top = fields->top ? fields->top : 10};
    int r = find_view(fields, &report.view);

    (void)count;
    if (r != CMD_DONE)
        return r;
    r = load_open(words[0], &report.load);
    if (r)
        return r;
    r = figures_window(&report.load, fields->from, fields->to, &report.window);
    if (r == 0) {
        report.symbols = symbols_new(report.load.trace);
        figures_of(&report.load, report.window, &report.figures, &report.partial);
        if (fields->json)
            report_json_print(&report);
        else
            report_text_print(&report);
        symbols_free(report.symbols);
    }
    load_close(&report.load);
    return r;
}

const struct cmd cmd_report = {
        .name = "report",
        .usage = "report CAPTURE [options]",
        .summary = "What a run allocated, freed and kept, whole or between two anchors.",
        .options = options,
        .option_count = CMD_COUNT(options),
        .fields_size = sizeof(struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = run,
};

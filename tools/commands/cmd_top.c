/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/run/top_screen.h"
#include "tools/run/top_view.h"

#define INTERVAL_MIN 0.1 /* seconds */
#define INTERVAL_MAX 3600.0

struct fields {
    const char *interval, *sort;
    uint64_t top;
    bool once, json;
};

static const struct args_option options[] = {
        {"interval", "SECONDS", "time between two looks, 0.1 to 3600 (default 1)",
                CMD_TEXT(interval)},
        {"sort", "KEY", "call sites by live (default), peak or rate", CMD_TEXT(sort)},
        {"top", "N", "how many call sites (default 10; on a screen as many as fit)", CMD_UINT(top)},
        {"once", NULL, "one look", CMD_FLAG(once)},
        {"json", NULL, "one JSON object in a line for each look, until the process ends",
                CMD_FLAG(json)},
};

struct top {
    const struct fields *fields;
    struct top_watch watch;
    struct top_view view;
    int interval_ms;
    bool is_once;
};

/* ---- parsing -------------------------------------------------------------------------------- */

static int parse_interval(const char *text, int *ret_ms)
{
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : 1;

    *ret_ms = 1000;
    if (text
            && (end == text || *end != '\0' || !(seconds >= INTERVAL_MIN)
                    || seconds > INTERVAL_MAX)) {
        (void)fprintf(stderr, "kedge top: --interval %s: seconds, from 0.1 to 3600\n", text);
        return CMD_BAD;
    }
    *ret_ms = (int)(seconds * 1000 + 0.5);
    return CMD_DONE;
}

static int parse_sort(const char *text, const struct rowpick_field **ret_sort)
{
    *ret_sort = text ? rowpick_find(&top_watch_fields, text) : NULL;
    if (!text || *ret_sort)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge top: --sort %s: live, peak or rate\n", text);
    return CMD_BAD;
}

/* ---- looks ---------------------------------------------------------------------------------- */

static void print_look(struct top *top)
{
    if (top->fields->json)
        top_view_json(stdout, &top->watch, &top->view);
    else
        top_view_print(stdout, &top->watch, &top->view);
    (void)fflush(stdout);
}

/* Draws as many call sites as fit on the screen. */
static void top_draw_look(struct top *top)
{
    uint64_t rows = top_screen_rows();
    char *lines = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&lines, &size);

    if (!out)
        vec_out_of_memory();
    top->view.top = top->fields->top && top->fields->top < rows ? top->fields->top : rows;
    top_view_print(out, &top->watch, &top->view);
    (void)fclose(out);
    top_screen_show(lines);
    free(lines);
}

/* Draws until the process ends or the user quits. */
static int top_run_looks(struct top *top)
{
    int r = CMD_DONE;

    while (r == CMD_DONE) {
        if (top->view.is_screen)
            top_draw_look(top);
        else
            print_look(top);
        if (top->is_once || top->watch.has_ended
                || !top_screen_wait(top->watch.running.fd, top->interval_ms))
            break;
        r = top_watch_look(&top->watch);
    }
    return r;
}

static int show_screen(struct top *top)
{
    struct top_view view = top->view;
    int r = top_screen_open();

    if (r < 0) {
        (void)fprintf(stderr, "kedge top: the terminal: %s\n", strerror(-r));
        return CMD_CANNOT;
    }
    top->view.is_screen = true;
    r = top_run_looks(top);
    top_screen_close();
    top->view = view;
    if (top->watch.has_ended) /* prints the last look, and how the process ended */
        print_look(top);
    return r;
}

static int top_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct top top = {.fields = fields, .view = {.top = fields->top ? fields->top : 10}};
    const struct rowpick_field *sort = NULL;
    bool is_text = !fields->once && !fields->json;
    char *path = NULL;
    int r = parse_interval(fields->interval, &top.interval_ms);

    if (r == CMD_DONE)
        r = parse_sort(fields->sort, &sort);
    if (r == CMD_DONE)
        r = top_process_find("kedge top", words[0], &path);
    if (r != CMD_DONE)
        return r;
    r = top_watch_open(path, sort, &top.watch);
    top.is_once = fields->once || (is_text && !top_screen_is_possible());
    if (r == CMD_DONE && is_text && !top.is_once && !top.watch.has_ended)
        r = show_screen(&top);
    else if (r == CMD_DONE)
        r = top_run_looks(&top);
    top_watch_close(&top.watch);
    free(path);
    return r;
}

const struct cmd cmd_top = {
        .name = "top",
        .usage = "top PID|CAPTURE [options]",
        .summary = "What a running program holds now, refreshed every second.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = top_command,
};

/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/screen.h"
#include "tools/topview.h"
#include "tools/vec.h"

#define INTERVAL_MIN 0.1 /* seconds */
#define INTERVAL_MAX 3600.0

struct fields {
    const char *interval, *sort;
    uint64_t count, top;
    bool once, json;
};

static const struct args_option options[] = {
        {"interval", "SECONDS", "time between two looks, 0.1 to 3600 (default 1)", ARGS_TEXT,
                offsetof(struct fields, interval)},
        {"sort", "KEY", "call sites by live (default), peak or rate", ARGS_TEXT,
                offsetof(struct fields, sort)},
        {"top", "N", "how many call sites (default 10; on a screen as many as fit)", ARGS_UINT,
                offsetof(struct fields, top)},
        {"once", NULL, "one look, as text", ARGS_FLAG, offsetof(struct fields, once)},
        {"count", "N", "N looks, as text", ARGS_UINT, offsetof(struct fields, count)},
        {"json", NULL, "one JSON object in a line for each look, until the process ends", ARGS_FLAG,
                offsetof(struct fields, json)},
};

struct top {
    const struct fields *fields;
    struct watch watch;
    struct topview view;
    int interval_ms;
};

/* ---- words ---------------------------------------------------------------------------------- */

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

static int parse_sort(const char *text, enum watch_order *ret_order)
{
    static const char *const words[WATCH_ORDER_COUNT] = {
            [WATCH_LIVE] = "live", [WATCH_PEAK] = "peak", [WATCH_RATE] = "rate"};

    *ret_order = WATCH_LIVE;
    for (int i = 0; text && i < WATCH_ORDER_COUNT; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_order = (enum watch_order)i;
            return CMD_DONE;
        }
    }
    if (!text)
        return CMD_DONE;
    (void)fprintf(stderr, "kedge top: --sort %s: live, peak or rate\n", text);
    return CMD_BAD;
}

/* A number is a process; ./7 is a file. */
static int find_capture(const char *word, char **ret_path)
{
    unsigned long pid = strtoul(word, NULL, 10);

    if (word[strspn(word, "0123456789")] != '\0') {
        *ret_path = vec_text(word);
        return CMD_DONE;
    }
    if (pid > 0 && pid <= INT_MAX)
        return running_find((pid_t)pid, ret_path);
    (void)fprintf(stderr, "kedge top: no process %s\n", word);
    return CMD_BAD;
}

/* ---- one look after the other --------------------------------------------------------------- */

static void print_look(struct top *top)
{
    if (top->fields->json)
        topview_json(stdout, &top->watch, &top->view);
    else
        topview_print(stdout, &top->watch, &top->view);
    (void)fflush(stdout);
}

/* For the time of one interval, or until the process ends. */
static void wait_for_next(const struct top *top)
{
    struct pollfd end = {.fd = top->watch.running.fd, .events = POLLIN};

    (void)poll(&end, 1, top->interval_ms);
}

static int print_looks(struct top *top)
{
    uint64_t count = top->fields->once ? 1 : top->fields->count;
    int r = CMD_DONE;

    if (count == 0 && !top->fields->json)
        count = 1; /* no terminal */
    for (uint64_t i = 1; r == CMD_DONE; i++) {
        print_look(top);
        if (top->watch.has_ended || i == count)
            break;
        wait_for_next(top);
        if (i > 0 && !top->fields->json)
            putchar('\n');
        r = watch_look(&top->watch);
    }
    return r;
}

/* ---- the screen ----------------------------------------------------------------------------- */

static void draw(struct top *top)
{
    unsigned rows, columns;
    char *lines = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&lines, &size);

    if (!out)
        vec_out_of_memory();
    screen_size(&rows, &columns);
    unsigned others = topview_lines(&top->watch, &top->view);
    uint64_t room = rows > others ? rows - others : 0;
    top->view.top = top->fields->top && top->fields->top < room ? top->fields->top : room;
    topview_print(out, &top->watch, &top->view);
    (void)fclose(out);
    screen_show(lines);
    free(lines);
}

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* False: quit. */
static bool take_key(struct top *top, char key)
{
    if (key == 's')
        watch_sort(&top->watch, (enum watch_order)((top->watch.order + 1) % WATCH_ORDER_COUNT));
    if (key == 'p')
        top->view.is_paused = !top->view.is_paused;
    return key != 'q' && key != 'Q';
}

/* Until somebody quits or the process ends; what an event changes is drawn at once. */
static int run_screen(struct top *top)
{
    int64_t next = now_ms() + top->interval_ms;
    int r = CMD_DONE;

    while (r == CMD_DONE && !top->watch.has_ended) {
        char key = '\0';

        draw(top);
        int64_t left = next - now_ms();
        enum screen_event event =
                screen_wait(top->watch.running.fd, left > 0 ? (int)left : 0, &key);
        if (event == SCREEN_CLOSED || (event == SCREEN_KEY && !take_key(top, key)))
            break;
        if (event != SCREEN_FD && event != SCREEN_TIMEOUT)
            continue;
        next = now_ms() + top->interval_ms;
        if (!top->view.is_paused || event == SCREEN_FD)
            r = watch_look(&top->watch);
    }
    return r;
}

static int show_screen(struct top *top)
{
    int r = screen_open();

    if (r < 0) {
        (void)fprintf(stderr, "kedge top: the terminal: %s\n", strerror(-r));
        return CMD_CANNOT;
    }
    top->view.has_keys = true;
    r = run_screen(top);
    screen_close();
    top->view.has_keys = top->view.is_paused = false;
    top->view.top = top->fields->top ? top->fields->top : 10;
    if (top->watch.has_ended) /* what was there last, and how it ended */
        print_look(top);
    return r;
}

static int top_command(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    struct top top = {.fields = fields,
            .view = {.ink = render_ink(stdout),
                    .top = fields->top ? fields->top : 10,
                    .is_utf8 = topview_is_utf8()}};
    enum watch_order order = WATCH_LIVE;
    char *path = NULL;
    int r = parse_interval(fields->interval, &top.interval_ms);

    if (r == CMD_DONE)
        r = parse_sort(fields->sort, &order);
    if (r == CMD_DONE)
        r = find_capture(words[0], &path);
    if (r != CMD_DONE)
        return r;
    r = watch_open(path, order, &top.watch);
    bool is_screen = !fields->once && !fields->json && !fields->count && screen_is_possible();
    if (r == CMD_DONE && is_screen && !top.watch.has_ended)
        r = show_screen(&top);
    else if (r == CMD_DONE)
        r = print_looks(&top);
    watch_close(&top.watch);
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

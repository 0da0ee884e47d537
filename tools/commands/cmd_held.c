/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <stdlib.h>

#include "tools/report/report.h"
#include "tools/run/ask.h"
#include "tools/run/top_process.h"

#define WAIT_MIN     0.1 /* seconds */
#define WAIT_MAX     3600.0
#define WAIT_DEFAULT 20.0

struct fields {
    const char *wait;
    uint64_t top;
    bool json;
};

static const struct args_option options[] = {
        {"wait", "SECONDS", "how long to wait for the answer, 0.1 to 3600 (default 20)",
                CMD_TEXT(wait)},
        {"top", "N", "how many rows to list (default 10)", CMD_UINT(top)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

static int cmd_held_wait(const char *text, int *ret_ms)
{
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : WAIT_DEFAULT;

    *ret_ms = 0;
    if (text && (end == text || *end != '\0' || !(seconds >= WAIT_MIN) || seconds > WAIT_MAX)) {
        (void)fprintf(stderr, "kedge held: --wait %s: seconds, from 0.1 to 3600\n", text);
        return CMD_BAD;
    }
    *ret_ms = (int)(seconds * 1000 + 0.5);
    return CMD_DONE;
}

static int cmd_held_print(const char *path, uint32_t walk, const struct fields *fields)
{
    struct report report = {.path = path, .top = fields->top ? fields->top : 10};
    int r = load_open(path, &report.load);

    if (r != CMD_DONE)
        return r;
    report.symbols = symbols_new(report.load.trace);
    if (!report_held_only(&report, walk, fields->json)) {
        (void)fprintf(stderr, "kedge held: the answer is not on record: the capture lost it\n");
        r = CMD_NO;
    }
    symbols_free(report.symbols);
    load_close(&report.load);
    return r;
}

static int cmd_held_run(const void *parsed, char **words)
{
    const struct fields *fields = parsed;
    char *path = NULL;
    uint32_t walk = 0;
    int ms;
    int r = cmd_held_wait(fields->wait, &ms);

    if (r == CMD_DONE)
        r = top_process_find("kedge held", words[0], &path);
    if (r == CMD_DONE)
        r = ask_for_walk(path, ms, &walk);
    if (r == CMD_DONE)
        r = cmd_held_print(path, walk, fields);
    free(path);
    return r;
}

const struct cmd cmd_held = {
        .name = "held",
        .usage = "held PID|CAPTURE [options]",
        .summary = "Which objects of a running Python program hold its device memory.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = cmd_held_run,
};

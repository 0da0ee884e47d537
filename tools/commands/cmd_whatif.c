/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/load/load.h"
#include "tools/replay/whatif.h"
#include "tools/steps/stepview.h"
#include "tracker/base/config.h"

struct fields {
    const char *policy, *budget, *lag, *api, *from, *to;
    const char *steps, *backed, *waits, *move_us, *event_us;
    uint64_t threshold;
    uint64_t passes;
    bool ordered, json;
};

static const struct args_option options[] = {
        {"policy", "NAMES", "one or several of the policies below, with commas; or all (default)",
                CMD_TEXT(policy)},
        {"passes", "N", "play the requests N times (default 1)", CMD_UINT(passes)},
        {"budget", "X",
                "bytes that kedge tries to stay within: a size, or 1.05x for so many times the "
                "peak live bytes (default: kedge's own rule)",
                CMD_TEXT(budget)},
        {"lag", "STEPS", "how many steps the device is behind (default 0)", CMD_TEXT(lag)},
        {"ordered", NULL,
                "the program orders its streams with events: each waits for the one that "
                "requests came from before (default: nothing is known)",
                CMD_FLAG(ordered)},
        {"steps", "N",
                "how many steps of the program are in the file (default 1), or auto: as many as "
                "it states or kedge detects",
                CMD_TEXT(steps)},
        {"waits", "WHERE",
                "where the program waits for the device: none (default), or behind each pass or "
                "step",
                CMD_TEXT(waits)},
        {"threshold", "SIZE",
                "what memory pools keep at such a wait (default 0, as CUDA has it; needs --waits)",
                CMD_SIZE(threshold)},
        {"backed", "WHICH",
                "count what the device gives, in whole 2 MiB: yes (default), or no: what policies "
                "ask for",
                CMD_TEXT(backed)},
        {"move-us", "N",
                "what it takes to move 2 MiB, in microseconds: kedge then moves less, so that "
                "moves "
                "take half a percent of the time (default 0: it moves as readily as it can)",
                CMD_TEXT(move_us)},
        {"event-us", "N",
                "microseconds from one request or free to the next (default: as recorded)",
                CMD_TEXT(event_us)},
        {"api", "WHICH", "how the program of a csv allocates: stream (default) or sync",
                CMD_TEXT(api)},
        {"from", "ANCHOR", "only from the first enter of ANCHOR on (captures)", CMD_TEXT(from)},
        {"to", "ANCHOR", "only to the last exit of ANCHOR (captures)", CMD_TEXT(to)},
        {"json", NULL, "machine-readable output", CMD_FLAG(json)},
};

struct query {
    const struct fields *fields;
    struct workload workload;
    struct whatif_job job;
    uint64_t steps; /* of the program in a pass */
    bool *wanted;   /* per policy */
    struct whatif *answers;
    size_t answer_count;
};

/* ── parsing ── */

static int bad_value(const char *option, const char *value, const char *form)
{
    (void)fprintf(stderr, "kedge whatif: --%s %s: %s\n", option, value, form);
    return CMD_BAD;
}

static int pick_policy(struct query *query, const char *name)
{
    bool found = false;

    for (size_t i = 0; i < whatif_policy_count; i++)
        if (strcmp(name, "all") == 0 || strcmp(name, whatif_policies[i].name) == 0)
            found = query->wanted[i] = true;
    if (found)
        return CMD_DONE;
    const char *near = args_nearest(ARGS_NAMES(whatif_policies, name, whatif_policy_count), name);
    (void)fprintf(stderr, "kedge whatif: --policy: there is no '%s'%s%s%s\n", name,
            near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return CMD_BAD;
}

static int pick_policies(struct query *query)
{
    char *list = vec_text(query->fields->policy ? query->fields->policy : "all");
    char *rest = list;
    char *name;
    int r = CMD_DONE;

    query->wanted = vec_new(whatif_policy_count, sizeof(*query->wanted));
    while (r == CMD_DONE && (name = strsep(&rest, ",")) != NULL)
        r = pick_policy(query, name);
    free(list);
    return r;
}

static bool read_real(const char *text, const char *suffix, double *ret)
{
    char *end;

    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    *ret = strtod(text, &end);
    return end != text && strcmp(end, suffix) == 0 && *ret < 1e6;
}

static int pick_budget(struct query *query)
{
    const char *text = query->fields->budget;
    double factor;

    if (!text)
        return CMD_DONE;
    if (read_real(text, "x", &factor))
        query->job.budget = (uint64_t)(factor * (double)query->workload.peak_live_512);
    else if (config_size(text, &query->job.budget) < 0)
        return bad_value("budget", text, "a size such as 24G, or a multiple such as 1.05x");
    if (query->job.budget == 0)
        return bad_value("budget", text, "more than nothing");
    return CMD_DONE;
}

/* The number of steps that `kedge report --view steps` shows; 0: none, after one line on stderr. */
static uint64_t count_steps(const struct load *load, struct model_window window)
{
    struct stepview view;
    uint64_t count = 0;

    stepview_find(load, window, STEPVIEW_ANY, &view);
    if (view.origin == STEPVIEW_STATED || view.period.kind == PERIOD_STEPS)
        count = view.row_count;
    else
        (void)fprintf(stderr, "kedge whatif: --steps auto: %s: no steps: %s\n", load->path,
                view.period.reason);
    stepview_done(&view);
    return count;
}

static bool is_auto(const struct fields *fields)
{
    return fields->steps && strcmp(fields->steps, "auto") == 0;
}

static int pick_steps(struct query *query)
{
    const char *text = query->fields->steps;
    char *end;

    if (is_auto(query->fields)) /* read_input has counted them */
        return CMD_DONE;
    query->steps = 1;
    if (!text)
        return CMD_DONE;
    errno = 0;
    query->steps = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || query->steps == 0)
        return bad_value("steps", text, "a number, or auto");
    return CMD_DONE;
}

static int pick_backed(struct query *query)
{
    static const char *const words[] = {"yes", "no", NULL};
    int word = args_choose("kedge whatif", "backed", query->fields->backed, words);

    query->job.backed = word == 0;
    return word < 0 ? CMD_BAD : CMD_DONE;
}

static int pick_waits(struct query *query)
{
    static const char *const words[] = {[WHATIF_WAITS_NONE] = "none",
            [WHATIF_WAITS_PASS] = "pass",
            [WHATIF_WAITS_STEP] = "step",
            NULL};

    if (query->fields->threshold && !query->fields->waits) {
        (void)fputs("kedge whatif: --threshold needs --waits\n", stderr);
        return CMD_BAD;
    }
    int word = args_choose("kedge whatif", "waits", query->fields->waits, words);
    query->job.waits = (enum whatif_waits)word;
    query->job.threshold = query->fields->threshold;
    return word < 0 ? CMD_BAD : CMD_DONE;
}

static int pick_numbers(struct query *query)
{
    const char *lag = query->fields->lag;

    query->job.passes = query->fields->passes ? query->fields->passes : 1;
    if (query->job.passes > 1000000)
        return bad_value("passes", "N", "at most 1000000");
    if (lag && !read_real(lag, "", &query->job.lag))
        return bad_value("lag", lag, "a number of steps such as 0.5");
    if (pick_steps(query) != CMD_DONE || pick_backed(query) != CMD_DONE
            || pick_waits(query) != CMD_DONE)
        return CMD_BAD;
    query->job.lag /= (double)query->steps;
    query->job.steps = query->steps;
    query->job.is_ordered = query->fields->ordered;
    return pick_budget(query);
}

/* Microseconds as ns; without the option nothing changes. */
static int pick_time(const char *option, const char *text, uint64_t *ret_ns)
{
    double us;

    if (!text)
        return CMD_DONE;
    if (!read_real(text, "", &us))
        return bad_value(option, text, "a number of microseconds such as 63 or 0.5");
    *ret_ns = (uint64_t)(us * 1000);
    return CMD_DONE;
}

static int pick_times(struct query *query)
{
    query->job.event_ns = query->workload.span_ns / query->workload.event_count;
    return pick_time("move-us", query->fields->move_us, &query->job.move_ns) != CMD_DONE
                    || pick_time("event-us", query->fields->event_us, &query->job.event_ns)
                            != CMD_DONE
            ? CMD_BAD
            : CMD_DONE;
}

/* ── input ── */

static int check_words(const struct fields *fields, bool is_capture)
{
    static const char *const words[] = {"stream", "sync", NULL};

    if (!is_capture && (fields->from || fields->to)) {
        (void)fputs("kedge whatif: --from and --to: only a capture has anchors\n", stderr);
        return CMD_BAD;
    }
    if (is_capture && fields->api) {
        (void)fputs("kedge whatif: --api is for a csv; a capture says it itself\n", stderr);
        return CMD_BAD;
    }
    return args_choose("kedge whatif", "api", fields->api, words) < 0 ? CMD_BAD : CMD_DONE;
}

static int read_input(struct query *query, const char *path)
{
    const struct fields *fields = query->fields;
    bool is_capture = !load_is_csv(path);
    struct model_window window;
    struct load load;

    if (check_words(fields, is_capture) != CMD_DONE
            || (is_capture ? load_open(path, &load) : load_csv(path, &load)) != CMD_DONE)
        return CMD_BAD;
    query->job.sync = fields->api && strcmp(fields->api, "sync") == 0;
    int r = figures_window(&load, fields->from, fields->to, &window);
    if (r == CMD_DONE && is_capture && load.complete_from > window.first)
        (void)fprintf(
                stderr, "kedge whatif: %s: the beginning is made up\n", load_lacks(load.capture));
    if (r == CMD_DONE && is_auto(fields)) {
        query->steps = count_steps(&load, window);
        r = query->steps ? CMD_DONE : CMD_BAD;
    }
    if (r == CMD_DONE) {
        workload_from_trace(load.trace, window.first, window.last, &query->workload);
        query->workload.skipped_count += load.failed_count;
    }
    load_close(&load);
    if (r == CMD_DONE && query->workload.block_count == 0) {
        (void)fprintf(
                stderr, "kedge whatif: %s: no allocations that an allocator could serve\n", path);
        r = CMD_BAD;
    }
    if (r == CMD_DONE && query->workload.peak_live > WHATIF_LIVE_MAX) {
        (void)fprintf(stderr, "kedge whatif: %s: %s live at once: no device has that\n", path,
                render_bytes(query->workload.peak_live).text);
        r = CMD_BAD;
    }
    return r;
}

/* ── output ── */

/*
 * Prints the bytes that a policy holds beyond the peak of live bytes, and the calls of its first
 * and last pass.
 */
static void print_answer(const struct query *query, const struct whatif *answer, bool is_best)
{
    const struct whatif_pass *last = &answer->passes[answer->pass_count - 1];
    struct render_ink ink = render_ink(stdout);
    uint64_t live = query->workload.peak_live_512;
    uint64_t lost = answer->peak_reserved > live ? answer->peak_reserved - live : 0;

    printf("%s%-16s %11s %6.4f %11s %8" PRIu64, is_best ? ink.green : "", answer->policy->name,
            render_bytes(answer->peak_reserved).text, answer->e, render_bytes(lost).text,
            answer->passes[0].driver_calls);
    if (answer->pass_count > 1)
        printf(" %8" PRIu64, last->driver_calls);
    printf(" %7" PRIu64 " %5" PRIu64 "%s", last->granules_moved, last->waits,
            is_best ? ink.off : "");
    if (query->fields->budget && answer->peak_reserved > query->job.budget)
        printf("  %s%s over budget%s", ink.red,
                render_bytes(answer->peak_reserved - query->job.budget).text, ink.off);
    putchar('\n');
}

static void print_input(const struct query *query)
{
    const struct workload *workload = &query->workload;

    printf("%zu allocation%s, %zu freed, on %" PRIu32 " stream%s;\nat most %s live",
            workload->block_count, render_s(workload->block_count),
            workload->block_count - workload->left_count, workload->stream_count,
            render_s(workload->stream_count), render_bytes(workload->peak_live).text);
    printf(" (%s in blocks of 512 B)\n", render_bytes(workload->peak_live_512).text);
    if (workload->skipped_count)
        printf("%zu left out: no allocator could have served them\n", workload->skipped_count);
    if (query->job.sync)
        puts("the program uses cudaMalloc: kedge is not told of streams");
    if (query->job.is_ordered)
        puts("the program orders its streams with events");
    if (query->fields->budget)
        printf("budget %s\n", render_bytes(query->job.budget).text);
    if (query->job.waits != WHATIF_WAITS_NONE)
        printf("the program waits for the device behind each %s; pools keep %s\n",
                query->fields->waits, render_bytes(query->job.threshold).text);
    if (query->fields->lag)
        printf("the device is %s steps behind; a step is taken to be %" PRIu64
               " requests and frees\n",
                query->fields->lag, (workload->event_count + workload->left_count) / query->steps);
}

static void whatif_print_text(const struct query *query)
{
    struct render_ink ink = render_ink(stdout);
    bool is_repeated = query->job.passes > 1;
    double best = 0;

    print_input(query);
    printf("\n%s%-16s %11s %6s %11s %8s", ink.bold, "policy", "reserved", "util.", "wasted",
            is_repeated ? "in first" : "calls");
    if (is_repeated)
        printf(" %8s", "in last");
    printf(" %7s %5s%s\n", "moved", "waits", ink.off);
    for (size_t i = 0; i < query->answer_count; i++)
        best = query->answers[i].e > best ? query->answers[i].e : best;
    for (size_t i = 0; i < query->answer_count; i++) {
        const struct whatif *answer = &query->answers[i];
        print_answer(query, answer, query->answer_count > 1 && answer->e >= best);
    }
    printf("\nreserved: %s.\nutil.: utilisation, peak live / peak reserved.\n",
            query->job.backed ? "as the device gives it, cudaMalloc in whole 2 MiB"
                              : "as it was asked for");
    printf("%s: calls of the driver%s.\nmoved: granules that were mapped anew, waits: of the "
           "host%s.\n",
            is_repeated ? "first, last" : "calls", is_repeated ? " in that pass" : "",
            is_repeated ? ", in the last pass" : "");
}

static void json_calls(struct json *json, const struct whatif_pass *pass)
{
    static const char *const names[COUNTING_KIND_COUNT] = {
            [COUNTING_SEGMENT] = "segments",
            [COUNTING_HANDLE] = "handles",
            [COUNTING_MAPPING] = "mappings",
            [COUNTING_EVENT] = "events",
            [COUNTING_QUERY] = "queries",
            [COUNTING_BEHIND] = "stream_waits",
            [COUNTING_WAIT] = "host_waits",
            [COUNTING_OTHER] = "others",
    };

    json_begin(json, "calls", '{');
    for (int i = 0; i < COUNTING_KIND_COUNT; i++)
        json_uint(json, names[i], pass->calls[i]);
    json_end(json, '}');
}

static void json_storage(struct json *json, const struct counting_storage *storage)
{
    json_begin(json, "storage", '{');
    json_uint(json, "creates", storage->creates);
    json_uint(json, "releases", storage->releases);
    json_uint(json, "maps", storage->maps);
    json_uint(json, "unmaps", storage->unmaps);
    json_uint(json, "unmapped_bytes", storage->unmapped_bytes);
    json_uint(json, "accesses", storage->accesses);
    json_uint(json, "accessed_bytes", storage->accessed_bytes);
    json_end(json, '}');
}

static void json_paces(struct json *json, const struct whatif_pass *pass)
{
    json_begin(json, "paces", '{');
    json_uint(json, "ready", pass->paces[POOL_PACE_READY]);
    json_uint(json, "lazy", pass->paces[POOL_PACE_LAZY]);
    json_uint(json, "sparing", pass->paces[POOL_PACE_SPARING]);
    json_end(json, '}');
}

static void json_answer(struct json *json, const struct query *query, const struct whatif *answer)
{
    json_text(json, "policy", answer->policy->name);
    json_real(json, "e", answer->e);
    json_uint(json, "peak_live_bytes", query->workload.peak_live);
    json_uint(json, "peak_live_512_bytes", query->workload.peak_live_512);
    json_uint(json, "peak_reserved_bytes", answer->peak_reserved);
    json_bool(json, "backed", query->job.backed);
    if (query->fields->budget)
        json_uint(json, "budget_bytes", query->job.budget);
    json_begin(json, "passes", '[');
    for (size_t i = 0; i < answer->pass_count; i++) {
        const struct whatif_pass *pass = &answer->passes[i];
        json_begin(json, NULL, '{');
        json_uint(json, "driver_calls", pass->driver_calls);
        json_uint(json, "granules_moved", pass->granules_moved);
        json_uint(json, "waits", pass->waits);
        json_uint(json, "peak_reserved_bytes", pass->peak_reserved);
        json_calls(json, pass);
        json_storage(json, &pass->storage);
        if (query->job.move_ns)
            json_paces(json, pass);
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void whatif_print_json(const struct query *query)
{
    struct json json = json_open(stdout);

    if (query->answer_count == 1)
        json_answer(&json, query, &query->answers[0]);
    json_begin(&json, "policies", '[');
    for (size_t i = 0; i < query->answer_count; i++) {
        json_begin(&json, NULL, '{');
        json_answer(&json, query, &query->answers[i]);
        json_end(&json, '}');
    }
    json_end(&json, ']');
    json_end(&json, '}');
}

/* ── the command ── */

static int ask_all(struct query *query)
{
    int r = 0;

    query->answers = vec_new(whatif_policy_count, sizeof(*query->answers));
    query->job.workload = &query->workload;
    for (size_t i = 0; i < whatif_policy_count; i++)
        query->job.total += query->wanted[i] ? query->job.passes * query->workload.event_count : 0;
    progress_begin("playing");
    for (size_t i = 0; i < whatif_policy_count && r == 0; i++) {
        if (!query->wanted[i])
            continue;
        r = whatif_run(&whatif_policies[i], &query->job, &query->answers[query->answer_count]);
        query->answer_count++;
    }
    progress_end();
    if (r < 0)
        (void)fprintf(stderr, "kedge whatif: %s: %s\n",
                query->answers[query->answer_count - 1].policy->name, strerror(-r));
    return r < 0 ? CMD_BAD : CMD_DONE;
}

static void explain_policies(void)
{
    puts("\npolicies:");
    for (size_t i = 0; i < whatif_policy_count; i++)
        printf("  %-16s %s\n", whatif_policies[i].name, whatif_policies[i].summary);
}

static int whatif_command(const void *parsed, char **words)
{
    struct query query = {.fields = parsed};
    int r = pick_policies(&query);

    if (r == CMD_DONE)
        r = read_input(&query, words[0]);
    if (r == CMD_DONE)
        r = pick_numbers(&query);
    if (r == CMD_DONE)
        r = pick_times(&query);
    if (r == CMD_DONE)
        r = ask_all(&query);
    if (r == CMD_DONE && query.fields->json)
        whatif_print_json(&query);
    else if (r == CMD_DONE)
        whatif_print_text(&query);
    for (size_t i = 0; i < query.answer_count; i++)
        whatif_done(&query.answers[i]);
    free(query.answers);
    free(query.wanted);
    workload_done(&query.workload);
    return r;
}

const struct cmd cmd_whatif = {
        .name = "whatif",
        .usage = "whatif FILE [options]",
        .summary =
                "Compares what kedge's pool and other allocators would hold for the same requests.",
        .explain = explain_policies,
        CMD_OPTIONS(options, struct fields),
        .gone = "--entrance",
        .instead = "--api",
        .pages = true,
        .words_min = 1,
        .words_max = 1,
        .run = whatif_command,
};

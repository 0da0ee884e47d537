/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/figures.h"
#include "tools/place.h"
#include "tools/recorded.h"
#include "tools/render.h"

struct fields {
    const char *from, *to;
    uint64_t capacity, nodes, seconds, passage;
    bool json;
};

static const struct args_option options[] = {
        {"capacity", "SIZE", "take the first placement within SIZE (default: look for the least)",
                ARGS_SIZE, offsetof(struct fields, capacity)},
        {"nodes", "N", "search at most N nodes (default: 4000000, less for many blocks)", ARGS_UINT,
                offsetof(struct fields, nodes)},
        {"seconds", "N", "search at most N seconds (default: no such limit)", ARGS_UINT,
                offsetof(struct fields, seconds)},
        {"from", "ANCHOR", "the step begins at the first enter of ANCHOR (captures)", ARGS_TEXT,
                offsetof(struct fields, from)},
        {"to", "ANCHOR", "the step ends after the last exit of ANCHOR (captures)", ARGS_TEXT,
                offsetof(struct fields, to)},
        {"passage", "N", "the step is the Nth passage through --from, counted from 1 (captures)",
                ARGS_UINT, offsetof(struct fields, passage)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

struct planning {
    const struct fields *fields;
    const char *path;
    struct recorded recorded;
    struct place_result result;
    time_t began;
    bool out_of_time;
};

static bool keep_on(void *self, uint64_t nodes, uint64_t limit)
{
    struct planning *planning = self;
    struct timespec now;

    progress_step(nodes, limit);
    if (!planning->fields->seconds)
        return true;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    planning->out_of_time = (uint64_t)(now.tv_sec - planning->began) >= planning->fields->seconds;
    return !planning->out_of_time;
}

static int place(struct planning *planning)
{
    const struct fields *fields = planning->fields;
    struct recorded *recorded = &planning->recorded;
    struct place_request request = {.capacity = fields->capacity,
            .nodes = fields->nodes,
            .keep_on = keep_on,
            .self = planning};
    struct timespec now;
    uint32_t bad;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    planning->began = now.tv_sec;
    progress_begin("searching");
    int r = place_solve(recorded->spans, recorded->count, &request, &planning->result, &bad);
    progress_end();
    if (planning->result.least) /* it was over, but nothing was left to search */
        planning->out_of_time = false;
    if (r < 0) {
        (void)fprintf(stderr, "kedge plan: %s: %s\n", planning->path,
                r == -EOVERFLOW ? "sizes add up to more than 63 bits hold" : strerror(-r));
        return CMD_BAD;
    }
    if (planning->result.status == PLACE_BROKEN) {
        (void)fprintf(stderr,
                "kedge plan: %s: the placement that was found has an overlap, which is a defect of "
                "kedge\n",
                planning->path);
        return CMD_BAD;
    }
    return planning->result.status == PLACE_FOUND ? CMD_DONE : CMD_NO;
}

/* ── what is said about it ── */

static const char *status_text(const struct planning *planning)
{
    if (planning->result.status == PLACE_FOUND)
        return planning->result.least ? "least" : "found";
    return planning->result.status == PLACE_IMPOSSIBLE ? "impossible" : "unknown";
}

static double ratio_of(const struct place_result *result, uint64_t bytes)
{
    return result->max_live ? (double)bytes / (double)result->max_live : 1;
}

static void print_bytes(const char *label, uint64_t bytes, const struct place_result *result)
{
    printf("%-14s %s (%" PRIu64 " bytes), %.4f x max live\n", label, render_bytes(bytes).text,
            bytes, ratio_of(result, bytes));
}

static void print_left(const struct trace_sum *left, const char *where)
{
    if (left->count)
        printf("Left out:      %" PRIu64 " (%s) %s\n", left->count, render_bytes(left->bytes).text,
                where);
}

/* What the pool held, as far as that is of the blocks that were placed: it is known of all devices together. */
static uint64_t held_by(const struct recorded *recorded)
{
    return recorded->other_device.count ? 0 : recorded->held;
}

static void plan_print_text(const struct planning *planning)
{
    const struct place_result *result = &planning->result;
    const struct recorded *recorded = &planning->recorded;

    printf("Blocks:        %" PRIu32 " in %" PRIu32 " independent part%s, %" PRIu32
           " all through one\n",
            recorded->count, result->parts, render_s(result->parts), result->whole);
    print_left(&recorded->native, "served by the driver");
    print_left(&recorded->other_device, "on another device");
    printf("Max live:      %s (%" PRIu64 " bytes)\n", render_bytes(result->max_live).text,
            result->max_live);
    if (result->status == PLACE_FOUND) {
        print_bytes("Planned peak:", result->peak, result);
        printf("Found by:      %s%s\n", result->how, result->least ? ", the least there is" : "");
    }
    if (held_by(recorded))
        print_bytes("Held:", recorded->held, result);
    printf("Search:        %" PRIu64 " node%s of at most %" PRIu64 "%s\n", result->nodes,
            render_s(result->nodes), result->node_limit,
            planning->out_of_time ? ", ended by --seconds" : "");
    if (result->status != PLACE_FOUND)
        printf("No placement within %s (%" PRIu64 " bytes) %s.\n",
                render_bytes(planning->fields->capacity).text, planning->fields->capacity,
                result->status == PLACE_IMPOSSIBLE ? "exists" : "was found; there may be one");
}

static void plan_print_json(const struct planning *planning)
{
    const struct place_result *result = &planning->result;
    const struct recorded *recorded = &planning->recorded;
    struct json json = json_open(stdout);

    json_text(&json, "status", status_text(planning));
    json_uint(&json, "blocks", recorded->count);
    json_uint(&json, "max_live_bytes", result->max_live);
    if (result->status == PLACE_FOUND) {
        json_uint(&json, "planned_peak_bytes", result->peak);
        json_real(&json, "ratio", ratio_of(result, result->peak));
        json_text(&json, "found_by", result->how);
    }
    if (held_by(recorded))
        json_uint(&json, "held_bytes", recorded->held);
    else
        json_text(&json, "held_bytes", NULL);
    if (planning->fields->capacity)
        json_uint(&json, "capacity_bytes", planning->fields->capacity);
    json_bool(&json, "least", result->least);
    json_uint(&json, "nodes", result->nodes);
    json_uint(&json, "node_limit", result->node_limit);
    json_bool(&json, "out_of_time", planning->out_of_time);
    json_uint(&json, "parts", result->parts);
    json_uint(&json, "whole_run_blocks", result->whole);
    json_begin(&json, "left_out", '{');
    figures_json_sum(&json, "native", &recorded->native);
    figures_json_sum(&json, "other_device", &recorded->other_device);
    json_end(&json, '}');
    json_end(&json, '}');
}

static int plan_command(const void *parsed, char **words)
{
    struct planning planning = {.fields = parsed, .path = words[0]};
    const struct fields *fields = planning.fields;
    struct recorded_request request = {
            .from = fields->from, .to = fields->to, .passage = fields->passage};
    int r = recorded_open(words[0], &request, &planning.recorded);

    if (r)
        return r;
    r = place(&planning);
    if (r != CMD_BAD && fields->json)
        plan_print_json(&planning);
    else if (r != CMD_BAD)
        plan_print_text(&planning);
    recorded_done(&planning.recorded);
    return r;
}

const struct cmd cmd_plan = {
        .name = "plan",
        .usage = "plan FILE [options]",
        .summary = "Finds the least memory that a recorded step could live in, and compares it "
                   "with what was held.",
        CMD_OPTIONS(options, struct fields),
        .pages = true,
        .words_min = 1,
        .words_max = 1,
        .run = plan_command,
};

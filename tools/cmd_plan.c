/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/outfile.h"
#include "tools/place.h"
#include "tools/recorded.h"
#include "tools/render.h"
#include "tools/vec.h"
#include "tracker/planfile.h"

struct fields {
    const char *output, *from, *to;
    uint64_t capacity, nodes, seconds, passage;
    bool whole, json;
};

static const struct args_option options[] = {
        {"output|o", "FILE", "where the plan goes (- is standard output)", ARGS_TEXT,
                offsetof(struct fields, output)},
        {"capacity", "SIZE",
                "find a placement within SIZE, the first that does (default: the least)", ARGS_SIZE,
                offsetof(struct fields, capacity)},
        {"nodes", "N", "search no more than N nodes (default: 4000000, less for many blocks)",
                ARGS_UINT, offsetof(struct fields, nodes)},
        {"seconds", "N", "nor longer than N seconds (default: no such limit)", ARGS_UINT,
                offsetof(struct fields, seconds)},
        {"from", "ANCHOR", "of a capture: the step begins at the first enter of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, from)},
        {"to", "ANCHOR", "of a capture: it ends after the last exit of ANCHOR", ARGS_TEXT,
                offsetof(struct fields, to)},
        {"passage", "N", "of a capture: only the Nth passage through --from, counted from 1",
                ARGS_UINT, offsetof(struct fields, passage)},
        {"whole", NULL, "place what was live before or outlives the step too; no plan for a run",
                ARGS_FLAG, offsetof(struct fields, whole)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

struct planning {
    const struct fields *fields;
    const char *path;
    struct recorded recorded;
    struct place_result result;
    struct progress progress;
    time_t began;
    bool out_of_time;
};

static bool keep_on(void *self, uint64_t nodes, uint64_t limit)
{
    struct planning *planning = self;
    struct timespec now;

    progress_step(&planning->progress, nodes, limit);
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
    progress_begin(&planning->progress, "searching");
    int r = place_solve(recorded->spans, recorded->count, &request, &planning->result, &bad);
    progress_end(&planning->progress);
    if (r < 0) {
        (void)fprintf(stderr, "kedge plan: %s: %s\n", planning->path,
                r == -EOVERFLOW ? "sizes add up to more than 63 bits hold" : strerror(-r));
        return CMD_BAD;
    }
    if (planning->result.status == PLACE_BROKEN) {
        (void)fprintf(stderr,
                "kedge plan: %s: the placement that was found has an overlap, which is a defect of "
                "kedge: nothing is written\n",
                planning->path);
        return CMD_BAD;
    }
    return planning->result.status == PLACE_FOUND ? CMD_DONE : CMD_NO;
}

/* ── the file ── */

/* How many blocks are born before this time: the number of the first that is not. */
static uint32_t count_born(const struct recorded *recorded, uint64_t time)
{
    uint32_t low = 0;
    uint32_t high = recorded->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (recorded->spans[middle].begin < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int make_plan(struct planning *planning, char **ret_text, size_t *ret_length)
{
    const struct recorded *recorded = &planning->recorded;
    struct planfile file = {.device = recorded->device,
            .entrance = recorded->entrance,
            .quantum = RECORDED_QUANTUM,
            .area = planning->result.peak,
            .live = planning->result.max_live,
            .count = recorded->count};
    struct planfile_error error = {.text = ""};
    char *note = vec_format("by kedge plan " KEDGE_VERSION " of %s%s%s%s%s", planning->path,
            planning->fields->from ? " from " : "",
            planning->fields->from ? planning->fields->from : "",
            planning->fields->to ? " to " : "", planning->fields->to ? planning->fields->to : "");

    file.block = vec_new(file.count, sizeof(*file.block));
    for (uint32_t i = 0; i < file.count; i++) {
        const struct span *span = &recorded->spans[i];
        file.block[i] = (struct planned){.size = span->size,
                .offset = span->offset,
                .site = recorded->sites[i],
                .until = count_born(recorded, span->end)};
    }
    int r = planfile_write(&file, note, ret_text, ret_length, &error);
    if (r < 0)
        (void)fprintf(stderr, "kedge plan: %s: %s\n", planning->fields->output,
                error.text[0] ? error.text : strerror(-r));
    free(file.block);
    free(note);
    return r;
}

/* The form of the abstract instances, with the answer as a fifth column. */
static int make_table(struct planning *planning, char **ret_text, size_t *ret_length)
{
    const struct recorded *recorded = &planning->recorded;
    FILE *out = open_memstream(ret_text, ret_length);

    if (!out)
        vec_out_of_memory();
    (void)fputs("id,lower,upper,size,offset\n", out);
    for (uint32_t i = 0; i < recorded->count; i++) {
        const struct span *span = &recorded->spans[i];
        (void)fprintf(out, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                recorded->names[i], span->begin, span->end, span->size, span->offset);
    }
    if (fclose(out) != 0)
        vec_out_of_memory();
    return 0;
}

static int save(struct planning *planning)
{
    bool is_plan = planning->recorded.form != RECORDED_ABSTRACT && !planning->fields->whole;
    char *text = NULL;
    size_t length;
    int r;

    if (!planning->fields->output)
        return CMD_DONE;
    r = is_plan ? make_plan(planning, &text, &length) : make_table(planning, &text, &length);
    if (r == 0)
        r = outfile_write("kedge plan", planning->fields->output, OUTFILE_FOR_RUNS, text, length);
    free(text);
    return r < 0 ? CMD_BAD : CMD_DONE;
}

/* ── what is said about it ── */

static const char *status_text(const struct planning *planning)
{
    switch (planning->result.status) {
    case PLACE_FOUND:
        return planning->result.least ? "least" : "found";
    case PLACE_IMPOSSIBLE:
        return "impossible";
    case PLACE_UNKNOWN:
    case PLACE_BROKEN:
        break;
    }
    return "unknown";
}

static double ratio_of(const struct place_result *result)
{
    return result->max_live ? (double)result->peak / (double)result->max_live : 1;
}

static void print_left(const struct recorded *recorded)
{
    static const char *const words[RECORDED_WHY_COUNT] = {"live before the step",
            "outlive the step", "served by the driver", "exported or registered",
            "released by a hint", "on another device", "by the other allocation API",
            "on another stream"};
    char bytes[RENDER_BYTES_MAX];

    for (unsigned i = 0; i < RECORDED_WHY_COUNT; i++) {
        if (recorded->left[i].count)
            printf("Left out:      %" PRIu64 " (%s) %s\n", recorded->left[i].count,
                    render_bytes(bytes, recorded->left[i].bytes), words[i]);
    }
}

static void print_text(const struct planning *planning)
{
    const struct place_result *result = &planning->result;
    const struct recorded *recorded = &planning->recorded;
    char bytes[RENDER_BYTES_MAX];
    char capacity[RENDER_BYTES_MAX];

    printf("Blocks:        %" PRIu32 " in %" PRIu32 " independent part%s, %" PRIu32
           " all through one\n",
            recorded->count, result->parts, render_s(result->parts), result->whole);
    print_left(recorded);
    printf("Max live:      %s (%" PRIu64 " bytes)\n", render_bytes(bytes, result->max_live),
            result->max_live);
    if (result->status == PLACE_FOUND) {
        printf("Planned peak:  %s (%" PRIu64 " bytes), %.4f x max live%s\n",
                render_bytes(bytes, result->peak), result->peak, ratio_of(result),
                result->least ? ", the least there is" : "");
        printf("Found by:      %s\n", result->how);
    }
    printf("Search:        %" PRIu64 " node%s of at most %" PRIu64 "%s\n", result->nodes,
            render_s(result->nodes), result->node_limit,
            planning->out_of_time ? ", ended by --seconds" : "");
    if (result->status == PLACE_IMPOSSIBLE)
        printf("No placement within %s (%" PRIu64 " bytes) exists.\n",
                render_bytes(capacity, planning->fields->capacity), planning->fields->capacity);
    if (result->status == PLACE_UNKNOWN)
        printf("No placement within %s (%" PRIu64 " bytes) was found; there may be one.\n",
                render_bytes(capacity, planning->fields->capacity), planning->fields->capacity);
}

static void print_json(const struct planning *planning)
{
    const struct place_result *result = &planning->result;
    const struct recorded *recorded = &planning->recorded;
    struct json json = {.out = stdout};

    json_begin(&json, NULL, '{');
    json_text(&json, "status", status_text(planning));
    json_uint(&json, "blocks", recorded->count);
    json_uint(&json, "max_live_bytes", result->max_live);
    if (result->status == PLACE_FOUND) {
        json_uint(&json, "planned_peak_bytes", result->peak);
        json_real(&json, "ratio", ratio_of(result));
        json_text(&json, "found_by", result->how);
    }
    if (planning->fields->capacity)
        json_uint(&json, "capacity_bytes", planning->fields->capacity);
    json_bool(&json, "least", result->least);
    json_uint(&json, "nodes", result->nodes);
    json_uint(&json, "node_limit", result->node_limit);
    json_bool(&json, "out_of_time", planning->out_of_time);
    json_uint(&json, "parts", result->parts);
    json_uint(&json, "whole_run_blocks", result->whole);
    json_begin(&json, "left_out", '{');
    for (unsigned i = 0; i < RECORDED_WHY_COUNT; i++) {
        json_begin(&json, recorded_why_key((enum recorded_why)i), '{');
        json_uint(&json, "count", recorded->left[i].count);
        json_uint(&json, "bytes", recorded->left[i].bytes);
        json_end(&json, '}');
    }
    json_end(&json, '}');
    json_end(&json, '}');
}

static int run(const void *parsed, char **words, int count)
{
    struct planning planning = {.fields = parsed, .path = words[0]};
    const struct fields *fields = planning.fields;
    struct recorded_request request = {.from = fields->from,
            .to = fields->to,
            .passage = fields->passage,
            .whole = fields->whole};
    int r = recorded_open(words[0], &request, &planning.recorded);

    (void)count;
    if (r)
        return r;
    r = place(&planning);
    if (r == CMD_DONE && planning.recorded.count == 0 && fields->output) {
        (void)fprintf(stderr,
                "kedge plan: %s: no block is born and freed in this step: nothing is written\n",
                words[0]);
        r = CMD_NO;
    } else if (r == CMD_DONE) {
        r = save(&planning);
    }
    if (r != CMD_BAD && fields->json)
        print_json(&planning);
    else if (r != CMD_BAD)
        print_text(&planning);
    recorded_done(&planning.recorded);
    return r;
}

const struct cmd cmd_plan = {
        .name = "plan",
        .usage = "plan FILE [options]",
        .summary = "Places every block of a recorded step, in as little memory as can be found.",
        .options = options,
        .option_count = CMD_COUNT(options),
        .fields_size = sizeof(struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = run,
};

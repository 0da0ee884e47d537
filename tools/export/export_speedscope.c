/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <stdlib.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/export/export_names.h"

/* Source: speedscope's file-format-spec, a "sampled" profile: stacks as indices of frames, outermost first, and a weight each. */

struct scope {
    struct export_job *job;
    struct json json;
    struct export_names names;
    struct symbols_line *frames; /* by number */
    size_t frame_count, frame_room;
};

static void export_speedscope_write_sample(struct scope *scope, const struct export_row *row)
{
    size_t count;
    const struct symbols_line *lines = export_moment_lines(scope->job, row, &count);

    json_begin(&scope->json, NULL, '[');
    for (size_t k = count; k > 0; k--) {
        bool is_new;
        uint32_t number = export_names_call(&scope->names, &lines[k - 1], &is_new);

        if (is_new)
            VEC_PUSH(scope->frames, scope->frame_count, scope->frame_room) = lines[k - 1];
        json_uint(&scope->json, NULL, number);
    }
    json_end(&scope->json, ']');
}

static void write_profile(struct scope *scope)
{
    const struct export_moment *moment = &scope->job->moment;
    struct json *json = &scope->json;
    struct trace_sum sum;

    json_begin(json, NULL, '{');
    json_text(json, "type", "sampled");
    json_text(json, "name", moment->title);
    json_text(json, "unit", "bytes");
    json_uint(json, "startValue", 0);
    json_uint(json, "endValue", moment->sum.bytes);
    json_begin(json, "samples", '[');
    for (size_t i = 0; i < moment->row_count; i += export_moment_stack(moment, i, &sum))
        export_speedscope_write_sample(scope, &moment->rows[i]);
    json_end(json, ']');
    json_begin(json, "weights", '[');
    for (size_t i = 0; i < moment->row_count;) {
        i += export_moment_stack(moment, i, &sum);
        json_uint(json, NULL, sum.bytes);
    }
    json_end(json, ']');
    json_end(json, '}');
}

static void write_frames(struct scope *scope)
{
    struct json *json = &scope->json;

    json_begin(json, "shared", '{');
    json_begin(json, "frames", '[');
    json->dense_from = 4;
    for (size_t i = 0; i < scope->frame_count; i++) {
        const struct symbols_line *line = &scope->frames[i];

        json_begin(json, NULL, '{');
        json_text(json, "name", line->function);
        if (*export_names_file(line))
            json_text(json, "file", export_names_file(line));
        if (line->line)
            json_uint(json, "line", line->line);
        json_end(json, '}');
    }
    json->dense_from = 0;
    json_end(json, ']');
    json_end(json, '}');
}

int export_speedscope(struct export_job *job)
{
    struct scope scope = {.job = job, .json = {.out = job->out, .dense_from = 5}};
    struct json *json = &scope.json;

    json_begin(json, NULL, '{');
    json_text(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_text(json, "exporter", "kedge " KEDGE_VERSION);
    json_text(json, "name", job->load->path);
    json_bool(json, "kedge_complete", !job->moment.is_partial);
    json_uint(json, "activeProfileIndex", 0);
    json_begin(json, "profiles", '[');
    write_profile(&scope);
    json_end(json, ']');
    write_frames(&scope);
    json_end(json, '}');
    export_names_done(&scope.names);
    free(scope.frames);
    return CMD_DONE;
}

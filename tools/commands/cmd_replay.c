/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/captures.h"
#include "tools/run/spawn.h"

struct fields {
    struct spawn_options spawn;
    const char *steps;
    uint64_t passes;
    bool streams, json;
};

static const struct args_option options[] = {
        SPAWN_OPTIONS,
        {"api|entrance", "WHICH", "stream (cudaMallocAsync, the default) or sync (cudaMalloc)",
                ARGS_TEXT, offsetof(struct fields, spawn.api)},
        {"passes", "N", "replay the trace N times", ARGS_UINT, offsetof(struct fields, passes)},
        {"streams", NULL, "one stream for each that the trace names", ARGS_FLAG,
                offsetof(struct fields, streams)},
        {"steps", "WHICH", "say START step and END step around each pass, or each N rows",
                ARGS_TEXT, offsetof(struct fields, steps)},
        {"json", NULL, "machine-readable output", ARGS_FLAG, offsetof(struct fields, json)},
};

/* A capture has more than allocations; what is replayed is a list of them. */
static bool replay_is_capture(const char *path)
{
    struct format_header header;

    if (!captures_read_header(path, &header))
        return false;
    char *word = render_word(path);
    (void)fprintf(stderr,
            "kedge replay: %s is a capture, and a csv is replayed: kedge export %s --to csv -o "
            "TRACE.csv writes one\n",
            word, word);
    free(word);
    return true;
}

static int replay_command(const void *parsed, char **words)
{
    struct fields fields = *(const struct fields *)parsed;
    if (replay_is_capture(words[0]))
        return CMD_BAD;
    char *program = spawn_beside("kedge-replay");
    char *passes = vec_format("%" PRIu64, fields.passes ? fields.passes : 1);
    const char *api = fields.spawn.api ? fields.spawn.api : "stream";
    char *command[12] = {
            program, words[0], vec_text("--api"), vec_text(api), vec_text("--passes"), passes};
    struct spawn_old old = {0};
    struct launch launch;
    char run[24];
    size_t n = 6;
    int r = CMD_CANNOT;

    if (fields.streams)
        command[n++] = vec_text("--streams");
    if (fields.steps) {
        command[n++] = vec_text("--steps");
        command[n++] = vec_text(fields.steps);
    }
    if (fields.json)
        command[n++] = vec_text("--json");
    /* kedge-replay is no framework: nothing is to be switched in one. */
    fields.spawn.api = "framework";
    spawn_new_run(run, sizeof(run));
    fields.spawn.run = run;
    if (!program)
        (void)fputs("kedge replay: kedge-replay is not beside kedge\n", stderr);
    else
        r = spawn_prepare("kedge replay", &fields.spawn, command, &launch);
    if (r == 0) {
        r = spawn_look_for_old("kedge replay", fields.spawn.capture, &old);
        if (r == CMD_DONE)
            r = spawn_become("kedge replay", &launch);
        launch_done(&launch);
    }
    free(old.file);
    free(program);
    for (size_t i = 2; i < n; i++)
        free(command[i]);
    return r;
}

const struct cmd cmd_replay = {
        .name = "replay",
        .usage = "replay [options] TRACE.csv",
        .summary = "Replays the allocations of a recorded program through the CUDA runtime, under "
                   "kedge.",
        CMD_OPTIONS(options, struct fields),
        .words_min = 1,
        .words_max = 1,
        .run = replay_command,
};

/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <stdio.h>

#include "tools/spawn.h"

struct fields {
    struct spawn_options spawn;
};

static const struct args_option options[] = {
        {"sim", NULL, "run on the simulated device", ARGS_FLAG, offsetof(struct fields, spawn.sim)},
        {"capture", "FILE", "where the capture goes (an old FILE is removed)", ARGS_TEXT,
                offsetof(struct fields, spawn.capture)},
        {"hints", "FILE", "liveness hints, or off", ARGS_TEXT,
                offsetof(struct fields, spawn.hints)},
        {"hints-mode", "MODE", "off, shadow, trap or live, instead of the file's", ARGS_TEXT,
                offsetof(struct fields, spawn.hints_mode)},
        {"plan", "FILE", "a plan of a step (kedge plan): blocks stand where it says", ARGS_TEXT,
                offsetof(struct fields, spawn.plan)},
        {"mode", "MODE", "pool, track or off", ARGS_TEXT, offsetof(struct fields, spawn.mode)},
        {"trace", "KIND", "ring, full, agg or off: which events are kept", ARGS_TEXT,
                offsetof(struct fields, spawn.trace)},
        {"entrance", "WHICH", "stream, sync or framework: how frameworks allocate", ARGS_TEXT,
                offsetof(struct fields, spawn.entrance)},
};

static int run(const void *parsed, char **words, int count)
{
    const struct fields *fields = parsed;
    struct launch launch;
    int r = spawn_check("kedge run", words[0]);

    (void)count;
    if (r == 0)
        r = spawn_prepare("kedge run", &fields->spawn, words, &launch);
    if (r)
        return r;
    r = spawn_remove_old("kedge run", fields->spawn.capture);
    if (r == CMD_DONE)
        r = spawn_become("kedge run", &launch);
    launch_done(&launch);
    return r;
}

const struct cmd cmd_run = {
        .name = "run",
        .usage = "run [options] -- PROGRAM [ARGUMENT...]",
        .summary = "Starts a program with kedge in it. Exit status and signals are the program's.",
        .options = options,
        .option_count = CMD_COUNT(options),
        .fields_size = sizeof(struct fields),
        .words_min = 1,
        .words_max = -1,
        .tail = true,
        .run = run,
};

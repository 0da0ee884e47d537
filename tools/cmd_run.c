/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/captures.h"
#include "tools/relay.h"
#include "tools/render.h"
#include "tools/spawn.h"
#include "tools/vec.h"
#include "tracker/config.h"

struct fields {
    struct spawn_options spawn;
    bool quiet;
};

static const struct args_option options[] = {
        {"sim", NULL, "run on the simulated device", ARGS_FLAG, offsetof(struct fields, spawn.sim)},
        {"capture", "FILE", "where the capture goes (an old FILE is removed)", ARGS_TEXT,
                offsetof(struct fields, spawn.capture)},
        {"hints", "FILE", "liveness hints, or off", ARGS_TEXT,
                offsetof(struct fields, spawn.hints)},
        {"hints-mode", "MODE", "off, shadow, trap or live, instead of the file's", ARGS_TEXT,
                offsetof(struct fields, spawn.hints_mode)},
        {"mode", "MODE", "pool, track or off", ARGS_TEXT, offsetof(struct fields, spawn.mode)},
        {"trace", "KIND", "ring, full, agg or off: which events are kept", ARGS_TEXT,
                offsetof(struct fields, spawn.trace)},
        {"api", "WHICH", "allocation API of frameworks: stream, sync or framework", ARGS_TEXT,
                offsetof(struct fields, spawn.entrance)},
        {"entrance", "WHICH", "the same as --api", ARGS_TEXT,
                offsetof(struct fields, spawn.entrance)},
        {"quiet|q", NULL, "say nothing at the end", ARGS_FLAG, offsetof(struct fields, quiet)},
};

static const char *default_name(void)
{
    static const struct {
        const char *variable, *initial;
    } rows[] = {
#define OPTION(id_, name_, kind_, def_, form_, help_) {name_, def_},
#include "tracker/options.def"
    };

    for (size_t i = 0; i < CMD_COUNT(rows); i++)
        if (strcmp(rows[i].variable, "KEDGE_CAPTURE") == 0)
            return rows[i].initial;
    return "";
}

/* A path as the user would type it here. */
static const char *from_here(const char *path, const char *directory)
{
    size_t length = directory ? strlen(directory) : 0;

    return length && strncmp(path, directory, length) == 0 && path[length] == '/'
            ? path + length + 1
            : path;
}

/* The first word of a setting: "off" of "off,mb=16". */
static bool is_off(const char *value)
{
    return value && strncmp(value, "off", 3) == 0 && (value[3] == '\0' || value[3] == ',');
}

/* Why no file can be made there, NULL if one can. What the library met was at the time; this is now. */
static const char *why_not(const char *name)
{
    const char *slash = strrchr(name, '/');
    char *probe = vec_format("%.*s.kedge-%d", slash ? (int)(slash - name + 1) : 0, name, getpid());
    int fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, 4096);

    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(probe);
    }
    free(probe);
    return error ? strerror(error) : NULL;
}

static void say_none(const struct launch *launch, const char *name)
{
    const char *off = is_off(launch_value(launch, "KEDGE_MODE")) ? "KEDGE_MODE=off"
            : is_off(launch_value(launch, "KEDGE_TRACE"))        ? "KEDGE_TRACE=off"
                                                                 : NULL;

    const char *why = off ? NULL : why_not(name);

    if (off)
        (void)fprintf(stderr, "kedge run: no capture: %s\n", off);
    else if (why)
        (void)fprintf(stderr, "kedge run: no capture: %s: %s\n", name, why);
    else
        (void)fprintf(stderr,
                "kedge run: no capture: no process used CUDA, or none could write %s\n", name);
}

/* Three lines: what was held at most, where the capture is and what to do with it. */
static void say_end(const struct launch *launch, uint64_t since, pid_t child)
{
    const char *value = launch_value(launch, "KEDGE_CAPTURE");
    const char *name = value && *value ? value : default_name();
    char *directory = getcwd(NULL, 0);
    char text[RENDER_BYTES_MAX];
    struct captures captures;

    captures_find(name, config_rank(environ), since, &captures);
    const struct captures_file *file = captures_main(&captures, (uint32_t)child);
    if (file) {
        const char *path = from_here(file->path, directory);
        (void)fprintf(stderr, "kedge run: peak live %s\n", render_bytes(text, file->peak_live));
        (void)fprintf(
                stderr, "kedge run: peak reserved %s\n", render_bytes(text, file->peak_reserved));
        (void)fprintf(stderr, "kedge run: capture %s", path);
        if (captures.count > 1)
            (void)fprintf(stderr, ", one of %zu", captures.count);
        (void)fprintf(stderr, "; next: kedge report %s\n", path);
    } else {
        say_none(launch, from_here(name, directory));
    }
    captures_done(&captures);
    free(directory);
}

static int follow(const struct launch *launch)
{
    struct timespec now;
    pid_t child;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    int status = relay_run("kedge run", launch, &child);
    if (status < 0)
        return CMD_BAD;
    say_end(launch, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, child);
    return relay_end(status);
}

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
        r = fields->quiet ? spawn_become("kedge run", &launch) : follow(&launch);
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

/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/answer/answer.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/captures.h"
#include "tools/load/inorder.h"
#include "tools/run/relay.h"
#include "tools/run/runlook.h"
#include "tools/run/spawn.h"
#include "tracker/base/config.h"
#include "tracker/base/runmark.h"

#define ANSWER_FILE_MAX (INT64_C(128) << 20)

struct fields {
    struct spawn_options spawn;
    bool quiet;
};

static const struct args_option options[] = {
        SPAWN_OPTIONS,
        {"trace", "KIND", "ring, full, agg or off: which events are kept", CMD_TEXT(spawn.trace)},
        {"api", "WHICH",
                "how frameworks allocate: stream (default), sync, or framework (as they are)",
                CMD_TEXT(spawn.api)},
        {"quiet|q", NULL, "print no lines at the end", CMD_FLAG(quiet)},
};

/* The path as the user would type it in `directory`. */
static const char *from_here(const char *path, const char *directory)
{
    size_t length = directory ? strlen(directory) : 0;

    return length && strncmp(path, directory, length) == 0 && path[length] == '/'
            ? path + length + 1
            : path;
}

/*
 * Why no file can be created at this path now, NULL if one can. The library may have met another
 * error during the run.
 */
static const char *why_not(const char *name)
{
    const char *rest;
    char *folder = captures_folder(name, &rest);
    char *probe = vec_format("%s.kedge-%d", folder, getpid());
    bool is_known = strchr(rest, '/') == NULL; /* a pattern names another folder for each process */
    int fd = is_known ? open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    int error = fd >= 0 ? posix_fallocate(fd, 0, 4096) : is_known ? errno : 0;

    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(probe);
    }
    free(probe);
    free(folder);
    return error ? strerror(error) : NULL;
}

/* A run that has ended. */
struct past {
    const char *program, *run;
    pid_t child;
    int status; /* as waitpid returns it */
    struct runlook look;
};

static void cmd_run_say_none(const struct config *config, const char *name, const struct past *past)
{
    bool is_off = strcmp(config_text(config, CONFIG_MODE), "off") == 0;
    bool is_untraced = strcmp(config_text(config, CONFIG_TRACE), "off") == 0;
    const char *why = is_off || is_untraced ? NULL : why_not(name);
    struct format_header header;

    if (is_off || is_untraced)
        (void)fprintf(stderr, "kedge run: no capture: %s=off\n",
                config_name(is_off ? CONFIG_MODE : CONFIG_TRACE));
    else if (why)
        (void)fprintf(stderr, "kedge run: no capture: %s: %s\n", name, why);
    else {
        char *reason = runlook_why(&past->look, past->program, past->run,
                WIFSIGNALED(past->status) ? WTERMSIG(past->status) : 0);
        (void)fprintf(stderr, "kedge run: no capture: %s\n", reason);
        free(reason);
    }
    if (captures_read_header(name, &header))
        (void)fprintf(stderr, "kedge run: %s is an earlier run's\n", name);
}

/* The command that shows most about this run; the caller frees it. */
static char *next_command(
        const struct captures *captures, const struct captures_file *file, const char *directory)
{
    char *word = render_word(from_here(file->path, directory));
    char *command = NULL;
    size_t ranks = 0;

    for (size_t i = 0; i < captures->count; i++)
        ranks += captures->file[i].rank[0] && strcmp(captures->file[i].rank, file->rank) != 0;
    if (file->oom_count)
        command = vec_format("kedge report %s --view oom", word);
    else if (ranks == 0)
        command = vec_format("kedge report %s", word);
    for (size_t i = 0; i < captures->count && ranks && !file->oom_count; i++) {
        char *one = render_word(from_here(captures->file[i].path, directory));
        char *longer = vec_format("%s %s", command ? command : "kedge ranks", one);
        free(one);
        free(command);
        command = longer;
    }
    free(word);
    return command;
}

/* Sets the peaks to those that every view of the capture shows (inorder.h). */
static void settle_peaks(struct captures_file *file)
{
    struct read_capture *capture = file->is_late ? inorder_totals(file->path) : NULL;

    if (!capture)
        return;
    const struct format_totals *total = &capture->total;
    file->peak_live = total->peak_bytes;
    file->peak_reserved = total->peak_reserved_bytes;
    file->peak_with_hints =
            total->hinted_freed_count ? total->peak_hinted_bytes : total->peak_bytes;
    file->native_peak = load_native_peak(capture->class_total);
    read_close(capture);
}

/*
 * Records what only the parent knows: the signal that ended the program, if it has no handler for
 * it, and that no process writes the captures any more.
 */
static void tell_end(const struct captures *captures, const struct past *past)
{
    for (size_t i = 0; i < captures->count; i++) {
        if (WIFSIGNALED(past->status))
            captures_ended_by(
                    captures->file[i].path, (uint32_t)past->child, WTERMSIG(past->status));
        captures_seal(captures->file[i].path);
    }
}

/* One write: other ranks print their lines at the same time. */
static void print_at_once(const char *sentence)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        vec_out_of_memory();
    render_print(out, "kedge run: %s\n", sentence);
    if (fclose(out) != 0)
        vec_out_of_memory();
    (void)fputs(text, stderr);
    free(text);
}

/*
 * Prints what the run comes down to. To read a large capture takes longer than who started a
 * program wants to wait behind its end: kedge report reads that when it is asked to.
 */
static void cmd_run_print_answer(const char *path)
{
    struct load load = {0};
    struct stat status;

    if (stat(path, &status) != 0 || status.st_size > ANSWER_FILE_MAX || load_open(path, &load))
        return;
    struct symbols *symbols = symbols_new(load.trace);
    struct answer answer = answer_of_run(&load, symbols);
    for (size_t i = answer.has_saved; i < answer.count; i++) /* the peaks say what was saved */
        print_at_once(answer.sentence[i]);
    answer_done(&answer);
    symbols_free(symbols);
    load_close(&load);
}

/* Ends the captures; prints the peaks, the answer, the path of the capture and the next command. */
static void cmd_run_finish(const struct launch *launch, const struct past *past)
{
    char *directory = getcwd(NULL, 0);
    char of[32], more[96];
    struct captures captures;
    struct config config;

    config_read(&config, launch->env, NULL, NULL);
    const char *name = config_text(&config, CONFIG_CAPTURE);
    captures_find(name, past->run, &captures);
    tell_end(&captures, past);
    struct captures_file *file = captures_main(&captures, (uint32_t)past->child);
    if (file) {
        settle_peaks(file);
        const char *path = from_here(file->path, directory);
        char *next = next_command(&captures, file, directory);
        (void)snprintf(
                more, sizeof(more), ", %s without hints", render_bytes(file->peak_live).text);
        (void)fprintf(stderr, "kedge run: peak live %s%s\n",
                render_bytes(file->peak_with_hints).text,
                file->peak_with_hints == file->peak_live ? "" : more);
        (void)snprintf(more, sizeof(more), " by kedge's pool; the driver itself served up to %s",
                render_bytes(file->native_peak).text);
        (void)fprintf(stderr, "kedge run: peak reserved %s%s\n",
                render_bytes(file->peak_reserved).text, file->native_peak ? more : "");
        cmd_run_print_answer(file->path);
        (void)snprintf(of, sizeof(of), ", one of %zu", captures.count);
        /* One write per line: other ranks print theirs at the same time. */
        (void)fprintf(stderr, "kedge run: capture %s%s; next: %s\n", path,
                captures.count > 1 ? of : "", next);
        free(next);
    } else {
        cmd_run_say_none(&config, from_here(name, directory), past);
    }
    captures_done(&captures);
    free(directory);
}

static int cmd_run_follow(
        struct launch *launch, struct spawn_old *old, const char *program, const char *run)
{
    struct past past = {.program = program, .run = run};
    char *mark;

    runlook_begin(&past.look, run, &mark);
    if (mark)
        launch_add(launch, RUNMARK_VARIABLE, mark);
    free(mark);
    past.status = relay_run("kedge run", launch, &past.child);
    runlook_close(&past.look); /* the steps below may need the descriptor */
    spawn_clear_old(old, run);
    if (past.status >= 0)
        cmd_run_finish(launch, &past);
    runlook_done(&past.look);
    return past.status < 0 ? CMD_BAD : relay_end(past.status);
}

static int cmd_run_command(const void *parsed, char **words)
{
    struct fields fields = *(const struct fields *)parsed;
    struct spawn_old old;
    struct launch launch;
    char run[24];
    int r = spawn_check("kedge run", words[0]);

    spawn_new_run(run, sizeof(run));
    fields.spawn.run = run;
    if (r == 0)
        r = spawn_prepare("kedge run", &fields.spawn, words, &launch);
    if (r)
        return r;
    r = spawn_look_for_old("kedge run", fields.spawn.capture, &old);
    if (r == CMD_DONE)
        r = fields.quiet ? spawn_become("kedge run", &launch)
                         : cmd_run_follow(&launch, &old, words[0], run);
    free(old.file);
    launch_done(&launch);
    return r;
}

const struct cmd cmd_run = {
        .name = "run",
        .usage = "run [options] -- PROGRAM [ARGUMENT...]",
        .summary = "Starts a program with kedge in it. Exit status and signals are the program's.",
        CMD_OPTIONS(options, struct fields),
        .gone = "--entrance",
        .instead = "--api",
        .words_min = 1,
        .words_max = -1,
        .tail = true,
        .run = cmd_run_command,
};

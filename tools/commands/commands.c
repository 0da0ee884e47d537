/* SPDX-License-Identifier: MIT */
#include "tools/commands/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/commands/completion.h"
#include "tools/output/outfile.h"
#include "tools/output/pager.h"
#include "tracker/format/format.h"
#include "tracker/hints/hintfile.h"

static const struct cmd *const commands[] = {&cmd_run, &cmd_estimate, &cmd_report, &cmd_diff,
        &cmd_suggest, &cmd_verify, &cmd_check, &cmd_ranks, &cmd_top, &cmd_held, &cmd_whatif,
        &cmd_bundle, &cmd_export, &cmd_import, &cmd_hints, &cmd_env};

static void print_commands(FILE *out)
{
    (void)fputs("usage: kedge COMMAND [options]\n\ncommands:\n", out);
    for (size_t i = 0; i < CMD_COUNT(commands); i++)
        (void)fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    (void)fputs(
            "\n`kedge COMMAND --help` says more; `kedge --version` prints its versions.\n", out);
}

static void print_version(void)
{
    printf("kedge %s\ncapture format %u\nhint format %d\n", KEDGE_VERSION, FORMAT_VERSION,
            HINTFILE_VERSION);
}

/* The fields of the options of cmd_option. */
struct more_fields {
    bool force, no_pager;
};

/* Joins the command's own options with those of cmd_option, whose fields follow the command's. */
static struct args_option *options_of(const struct cmd *cmd, size_t *ret_count)
{
    struct args_option *options = vec_new(cmd->option_count + 2, sizeof(*options));
    const struct args_option *more;

    for (size_t i = 0; i < cmd->option_count; i++)
        options[i] = cmd->options[i];
    *ret_count = cmd->option_count;
    for (size_t i = 0; (more = cmd_option(cmd, i)) != NULL; i++) {
        options[*ret_count] = *more;
        options[(*ret_count)++].offset = cmd->fields_size
                + (more == &pager_option ? offsetof(struct more_fields, no_pager)
                                         : offsetof(struct more_fields, force));
    }
    return options;
}

static void print_help(
        const struct cmd *cmd, const struct args_option *options, size_t option_count)
{
    printf("usage: kedge %s\n\n", cmd->usage);
    render_label(stdout, cmd->summary, 0, 0);
    putchar('\n');
    args_print_options(stdout, options, option_count);
    if (cmd->explain)
        cmd->explain();
}

/*
 * Checks the files: an input is not replaced, and the check comes before the command has an output
 * to write (outfile.h).
 */
static int look_at_files(
        const struct cmd *cmd, const char *name, const void *fields, char *const *words)
{
    int r = 0;

    for (size_t i = 0; words[i] && !cmd->tail; i++)
        outfile_reads(words[i]);
    for (size_t i = 0; i < cmd->option_count; i++) {
        const struct args_option *option = &cmd->options[i];
        const char *value = option->kind == ARGS_TEXT || option->kind == ARGS_OUTPUT
                ? *(const char *const *)(const void *)((const char *)fields + option->offset)
                : NULL;

        if (value && option->kind == ARGS_TEXT && args_takes_file(option))
            outfile_reads(value);
        else if (value && option->kind == ARGS_OUTPUT && r == 0)
            r = outfile_look(name, value, cmd->writes);
    }
    return r < 0 ? CMD_BAD : CMD_DONE;
}

/* Names the first word in capitals of the usage that was not given: "BAD". */
static void print_missing(const struct cmd *cmd, const char *name, int given)
{
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *at = cmd->usage + strlen(cmd->name);

    for (at += strcspn(at, capitals); given > 0; given--) {
        at += strspn(at, capitals);
        at += strcspn(at, capitals);
    }
    if (cmd->subcommands)
        (void)fprintf(stderr, "%s: %s, or another word is missing\n", name, cmd->subcommands[0]);
    else
        (void)fprintf(stderr, "%s: %.*s is missing\n", name,
                (int)(strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ|.csv")), at);
}

/* Does the command take this number of words? If not, prints why, and the usage. */
static bool are_enough(const struct cmd *cmd, const char *name, char *const *words, int count)
{
    bool is_more = cmd->words_max >= 0 && count > cmd->words_max;

    if (is_more)
        render_print(stderr, "%s: one word too many: %s\n", name, words[cmd->words_max]);
    else if (count < cmd->words_min)
        print_missing(cmd, name, count);
    else
        return true;
    (void)fprintf(stderr, "usage: kedge %s\n", cmd->usage);
    return false;
}

static int commands_run_command(const struct cmd *cmd, int argc, char **argv)
{
    char name[32];
    int count = 0;
    size_t option_count;
    struct args_option *options = options_of(cmd, &option_count);

    (void)snprintf(name, sizeof(name), "kedge %s", cmd->name);
    struct args_spec spec = {.command = name,
            .options = options,
            .option_count = option_count,
            .tail = cmd->tail,
            .gone = cmd->gone,
            .instead = cmd->instead};
    char *fields = vec_new(1, cmd->fields_size + sizeof(struct more_fields));
    const struct more_fields *more = (const struct more_fields *)(fields + cmd->fields_size);
    char **words = vec_new((size_t)argc + 1, sizeof(*words));
    int r = CMD_BAD;

    switch (args_parse(&spec, argc, argv, fields, words, &count)) {
    case ARGS_HELP:
        print_help(cmd, options, option_count);
        r = CMD_DONE;
        break;
    case ARGS_BAD:
        break;
    case ARGS_OK:
        outfile_force(more->force);
        if (!are_enough(cmd, name, words, count)
                || look_at_files(cmd, name, fields, words) != CMD_DONE)
            break;
        if (cmd->pages && !more->no_pager)
            pager_begin();
        r = cmd->run(fields, words);
        pager_end();
        break;
    }
    free(options);
    free(fields);
    free((void *)words);
    return r;
}

/* For the build and for packagers; --help does not list it. */
static int print_completion(const char *shell)
{
    if (completion_print(stdout, shell, commands, CMD_COUNT(commands)))
        return CMD_DONE;
    (void)fputs("usage: kedge --completion bash|zsh|fish\n", stderr);
    return CMD_BAD;
}

static int unknown_command(const char *word)
{
    const char *names[CMD_COUNT(commands)];

    for (size_t i = 0; i < CMD_COUNT(commands); i++)
        names[i] = commands[i]->name;
    const char *near = args_nearest(ARGS_WORDS(names, CMD_COUNT(commands)), word);
    render_print(stderr, "kedge: no command '%s'%s%s%s; see kedge --help\n", word,
            near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return CMD_BAD;
}

int cmd_main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (!word) {
        print_commands(stderr);
        return CMD_BAD;
    }
    bool is_help = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (is_help && argc < 3)) {
        print_commands(stdout);
        return CMD_DONE;
    }
    if (strcmp(word, "--version") == 0) {
        print_version();
        return CMD_DONE;
    }
    if (strcmp(word, "--completion") == 0)
        return print_completion(argc > 2 ? argv[2] : NULL);
    char help[] = "--help";
    char *one[] = {help, NULL};
    word = is_help ? argv[2] : word;
    for (size_t i = 0; i < CMD_COUNT(commands); i++) {
        if (strcmp(word, commands[i]->name) == 0)
            return is_help ? commands_run_command(commands[i], 1, one)
                           : commands_run_command(commands[i], argc - 2, argv + 2);
    }
    return unknown_command(word);
}

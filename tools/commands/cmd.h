/* SPDX-License-Identifier: MIT */
/*
 * cmd.h - one command of `kedge` as data.
 *
 * commands.c holds the table; each cmd_<name>.c defines its row. A row has the command's name, its
 * options and its function, so that parsing, --help and the checks of man pages need no code of the
 * command's own.
 */
#ifndef KEDGE_TOOLS_CMD_H
#define KEDGE_TOOLS_CMD_H

#include <stddef.h>

#include "tools/base/args.h"
#include "tools/base/cmdexit.h"
#include "tools/output/outfile.h"

struct cmd {
    const char *name;
    const char *usage;     /* "report F [options]" */
    const char *summary;   /* one line */
    void (*explain)(void); /* prints the end of --help, after the options; NULL = nothing */
    const struct args_option *options;
    size_t option_count;
    const char *gone, *instead; /* args.h */
    size_t fields_size;         /* of the struct that `options` fills, zeroed before */
    int words_min, words_max;
    const char *const *subcommands; /* allowed first words, then NULL; NULL = any word */
    bool pages;                     /* it prints a report, through a pager (pager.h) */
    /* the kind of file that its ARGS_OUTPUT option names, or that it names itself */
    enum outfile_kind writes;
    bool tail; /* words are a command line: options end at the first word */
    int (*run)(const void *fields, char **words); /* words end with NULL */
};

extern const struct cmd cmd_run, cmd_report, cmd_diff, cmd_suggest, cmd_verify, cmd_check,
        cmd_whatif, cmd_bundle, cmd_export, cmd_import, cmd_hints, cmd_env, cmd_ranks, cmd_top,
        cmd_held, cmd_estimate;

/* Parses argv[1..] and runs the command; returns the exit code of main(). */
int cmd_main(int argc, char **argv);

/*
 * Option `i` of those that a command has besides its own, because it prints reports or writes a
 * file; NULL after the last.
 */
const struct args_option *cmd_option(const struct cmd *cmd, size_t i);

/* The end of an option's row: its kind, and its field in the command's `struct fields`. */
#define CMD_FLAG(field_)   ARGS_FLAG, offsetof(struct fields, field_)
#define CMD_TEXT(field_)   ARGS_TEXT, offsetof(struct fields, field_)
#define CMD_PAIR(field_)   ARGS_PAIR, offsetof(struct fields, field_)
#define CMD_OUTPUT(field_) ARGS_OUTPUT, offsetof(struct fields, field_)
#define CMD_UINT(field_)   ARGS_UINT, offsetof(struct fields, field_)
#define CMD_SIZE(field_)   ARGS_SIZE, offsetof(struct fields, field_)

/* Sets a command's options, and the size of the struct that they fill. */
#define CMD_OPTIONS(options_, fields_) \
    .options = (options_), .option_count = CMD_COUNT(options_), .fields_size = sizeof(fields_)

#endif

/* SPDX-License-Identifier: MIT */
/*
 * completion.h - completion scripts for shells, made from the commands and their options.
 *
 * A script is made from the rows that parsing and --help read, so that no second list of options is
 * maintained. The build writes one file for each shell; `kedge --completion SHELL` prints the same.
 *
 * Values that are files, and words that are no options, complete to names of files; the program
 * word (run, verify) completes to names of commands. Other values have no completion.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_COMPLETION_H
#define KEDGE_TOOLS_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/commands/cmd.h"

/*
 * Writes the script for "bash", "zsh" or "fish"; false, without output, if `shell` is another or
 * NULL.
 */
bool completion_print(
        FILE *out, const char *shell, const struct cmd *const *commands, size_t count);

#endif

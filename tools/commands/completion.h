/* SPDX-License-Identifier: MIT */
/*
 * completion.h - the commands and their options as completion scripts for shells.
 *
 * A script is made from the rows that parsing and --help read, so that no second list of options is kept by hand. The build
 * writes one file for each shell; `kedge --completion SHELL` prints the same.
 *
 * Values that are files, and words that are no options, are completed with names of files; what stands for a program (run,
 * verify) with names of commands. Other values are left to the user.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_COMPLETION_H
#define KEDGE_TOOLS_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/commands/cmd.h"

/* Writes the script for "bash", "zsh" or "fish"; false, and nothing is written, if `shell` (NULL too) is none of them. */
bool completion_print(
        FILE *out, const char *shell, const struct cmd *const *commands, size_t count);

#endif

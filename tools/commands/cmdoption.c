/* SPDX-License-Identifier: MIT */
/* The options that a command has besides its own, because it writes a file or prints a report. */
#include "tools/commands/cmd.h"
#include "tools/output/pager.h"

const struct args_option *cmd_option(const struct cmd *cmd, size_t i)
{
    const struct args_option *const options[] = {
            cmd->writes ? &outfile_option : NULL, cmd->pages ? &pager_option : NULL};

    for (size_t at = 0; at < CMD_COUNT(options); at++)
        if (options[at] && i-- == 0)
            return options[at];
    return NULL;
}

/* SPDX-License-Identifier: MIT */
#include "tools/base/render.h"
#include "tools/commands/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    render_guard_messages();
    int r = cmd_main(argc, argv);

    /* A full disk or a closed pipe must not look like success. An earlier write may have failed, and the last one not. */
    if ((fflush(stdout) == 0 && !ferror(stdout)) || r != CMD_DONE)
        return r;
    if (errno != EPIPE) /* else who read it has seen enough */
        (void)fprintf(stderr, "kedge: the output is not whole: %s\n", strerror(errno));
    return CMD_BAD;
}

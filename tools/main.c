/* SPDX-License-Identifier: MIT */
#include "tools/base/render.h"
#include "tools/commands/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * 0, or why the output is not whole. If an earlier write failed, its errno is gone: one more byte
 * meets the same obstacle, and an output that is not whole has nothing to lose by it.
 */
static int output_error(void)
{
    errno = 0;
    if (fflush(stdout) != 0)
        return errno;
    if (!ferror(stdout))
        return 0;
    clearerr(stdout);
    (void)putchar('\n');
    return fflush(stdout) != 0 ? errno : EIO;
}

int main(int argc, char **argv)
{
    render_guard_messages();
    int r = cmd_main(argc, argv);
    int error = output_error();

    /* A full disk or a closed pipe must not look like success. */
    if (!error || r != CMD_DONE)
        return r;
    if (error != EPIPE) /* else who read it has seen enough */
        (void)fprintf(stderr, "kedge: the output is not whole: %s\n", strerror(error));
    return CMD_BAD;
}

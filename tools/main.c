/* SPDX-License-Identifier: MIT */
#include "tools/cmd.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    int r = cmd_main(argc, argv);

    /* A full disk or a closed pipe must not look like success. */
    if (fflush(stdout) != 0 && r == CMD_DONE)
        return CMD_BAD;
    return r;
}

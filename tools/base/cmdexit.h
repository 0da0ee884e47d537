/* SPDX-License-Identifier: MIT */
/* cmdexit.h - the exit codes of all commands of `kedge`, equal everywhere, for scripts. */
#ifndef KEDGE_TOOLS_CMDEXIT_H
#define KEDGE_TOOLS_CMDEXIT_H

enum cmd_exit {
    CMD_DONE = 0,
    CMD_NO = 1,      /* the answer is no */
    CMD_BAD = 2,     /* wrong use or bad input */
    CMD_CANNOT = 77, /* not on this machine */
};

#define CMD_COUNT(array_) (sizeof(array_) / sizeof((array_)[0]))

#endif

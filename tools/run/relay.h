/* SPDX-License-Identifier: MIT */
/*
 * relay.h - stays the parent of a program without changing what the program sees.
 *
 * The program starts with the signal mask, the dispositions, the process group and the terminal that kedge has. A signal that is
 * sent to kedge goes on to the program; one from the keyboard has reached the program already. The program ends with kedge
 * if kedge is killed. What the program starts is the program's business.
 *
 * Threads: none; the calling process blocks its signals from here on.
 */
#ifndef KEDGE_TOOLS_RELAY_H
#define KEDGE_TOOLS_RELAY_H

#include <sys/types.h>

#include "tools/run/launch.h"

/* Starts the program and waits for it: its status as waitpid has it. *ret_pid: its number. -1 after one line on stderr. */
int relay_run(const char *who, const struct launch *launch, pid_t *ret_pid);

/* Ends as the program did: returns its exit status, or dies of the signal that ended it. */
int relay_end(int status);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * relay.h - stays the parent of a program without changing what the program sees.
 *
 * The program starts with kedge's signal mask, dispositions, process group and terminal. A signal
 * sent to kedge is relayed to the program; one from the keyboard has reached the program already.
 * If kedge is killed, the program is, too. Processes that the program starts are not affected.
 *
 * Threads: none; the calling process blocks its signals from here on.
 */
#ifndef KEDGE_TOOLS_RELAY_H
#define KEDGE_TOOLS_RELAY_H

#include <sys/types.h>

#include "tools/run/launch.h"

/*
 * Starts the program and waits for it: its status in waitpid's form. *ret_pid: its process id. -1
 * after one line on stderr.
 */
int relay_run(const char *who, const struct launch *launch, pid_t *ret_pid);

/* Ends like the program: returns its exit status, or dies of the signal that ended it. */
int relay_end(int status);

#endif

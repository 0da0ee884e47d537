/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the processes below kedge: none of them outlives it.
 *
 * While the program runs, SIGTERM, SIGHUP, SIGINT and SIGQUIT wait in line instead of ending kedge. One that was sent to kedge goes
 * on to all processes below it, and those that are still there after TREE_GRACE_S get SIGKILL. One from the keyboard has reached
 * the program already: it decides. Processes that lose their parent become kedge's (PR_SET_CHILD_SUBREAPER), so that they are
 * found, ended and waited for, too. When kedge itself gets SIGKILL, the program does, but not what the program started.
 *
 * Threads: none; changes the signal mask of the process.
 */
#ifndef KEDGE_TOOLS_TREE_H
#define KEDGE_TOOLS_TREE_H

#include <sys/types.h>

#define TREE_GRACE_S 5

/* From here on signals wait for tree_wait and tree_signal. A signal that was ignored stays so. */
void tree_watch(void);

/* In a child of fork: the signal mask is what it was, and the child ends with kedge. */
void tree_child(pid_t parent);

/* Waits for the child, then ends and waits for all that is left below. Returns its status as waitpid has it. */
int tree_wait(pid_t child);

/* The first signal that asked kedge to end, 0 = none did. */
int tree_signal(void);

#endif

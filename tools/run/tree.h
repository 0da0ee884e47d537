/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the processes below kedge: none of them outlives it.
 *
 * While the program runs, SIGTERM, SIGHUP, SIGINT and SIGQUIT are queued instead of ending kedge. A
 * signal sent to kedge is relayed to all processes below it, and those that are left after
 * TREE_GRACE_S get SIGKILL. A signal from the keyboard has reached the program already, which
 * decides. Processes that lose their parent become kedge's children (PR_SET_CHILD_SUBREAPER), so
 * that they are found, ended and waited for, too. If kedge itself gets SIGKILL, the program does,
 * too, but not the program's own children.
 *
 * Threads: none; changes the signal mask of the process.
 */
#ifndef KEDGE_TOOLS_TREE_H
#define KEDGE_TOOLS_TREE_H

#include <dirent.h>
#include <sys/types.h>

#define TREE_GRACE_S 5

/*
 * From here on signals wait for tree_wait and tree_signal. A signal that was ignored stays ignored.
 */
void tree_watch(void);

/* In a child of fork: restores the signal mask, and makes the child end with kedge. */
void tree_child(pid_t parent);

/*
 * Waits for the child, then ends and waits for all other descendants. Returns its status in
 * waitpid's form.
 */
int tree_wait(pid_t child);

/* The next process in an open /proc (NULL: it could not be opened), 0 after the last. */
pid_t tree_next(DIR *processes);

/* The parent of a process, 0 = there is no such process. */
pid_t tree_parent(pid_t process);

/* The first signal that asked kedge to end, 0 = none. */
int tree_signal(void);

#endif

/* SPDX-License-Identifier: MIT */
/* imports.h - memory of other processes and interfaces (hooks_ipc.c, hooks_external.c): what life.c has to know of it. */
#ifndef KEDGE_PRELOAD_IMPORTS_H
#define KEDGE_PRELOAD_IMPORTS_H

/* In the child of a fork: the tables' locks are new again. */
void imports_ipc_fork_child(void);
void imports_external_fork_child(void);

#endif

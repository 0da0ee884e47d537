/* SPDX-License-Identifier: MIT */
/* vmm.h - the program's own physical handles (hooks_vmm.c): what life.c has to know of them. */
#ifndef KEDGE_PRELOAD_VMM_H
#define KEDGE_PRELOAD_VMM_H

/* In the child of a fork: the table's lock is new again. */
void vmm_fork_child(void);

#endif

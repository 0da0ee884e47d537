/* SPDX-License-Identifier: MIT */
/*
 * vmm.h - the program's own physical handles (hooks_vmm.c), and memory of other processes (hooks_ipc.c): what other hooks and
 * life.c have to tell of them.
 *
 * Prefixes: vmm_, ipc_.
 */
#ifndef KEDGE_PRELOAD_VMM_H
#define KEDGE_PRELOAD_VMM_H

#include "alloc/types.h"

/* cuMemRetainAllocationHandle gave one more reference to what is mapped at ptr, perhaps under another number. */
void vmm_retained(uint64_t handle, devptr_t ptr);

/* An array is gone, and with it what was mapped into its tiles. */
void vmm_array_gone(uint64_t array);

/* In the child of a fork: the tables' locks are new again. */
void vmm_fork_child(void);
void ipc_fork_child(void);

#endif

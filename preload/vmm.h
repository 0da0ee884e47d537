/* SPDX-License-Identifier: MIT */
/* vmm.h - the program's own physical handles (hooks_vmm.c): what other hooks have to tell of them. */
#ifndef KEDGE_PRELOAD_VMM_H
#define KEDGE_PRELOAD_VMM_H

#include "alloc/types.h"

/* cuMemRetainAllocationHandle gave one more reference to what is mapped at ptr, perhaps under another number. */
void vmm_retained(uint64_t handle, devptr_t ptr);

/* An array is gone, and with it what was mapped into its tiles. */
void vmm_array_gone(uint64_t array);

#endif

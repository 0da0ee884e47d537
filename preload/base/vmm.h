/* SPDX-License-Identifier: MIT */
/* vmm.h - the program's own physical handles (hooks_vmm.c): what other hooks have to tell of them. */
#ifndef KEDGE_PRELOAD_VMM_H
#define KEDGE_PRELOAD_VMM_H

#include "alloc/base/types.h"
#include "preload/base/cuda_abi.h"

/* cuMemRetainAllocationHandle gave one more reference to what is mapped at ptr, perhaps under another number. */
void vmm_retained(uint64_t handle, devptr_t ptr);

/*
 * An array is about to be destroyed: what is mapped into its tiles is taken from the books, because its handle, and those of the
 * memory, may be others' before the call has come back. Afterwards, with its result: it is gone, or is put back.
 */
struct vmm_taken;
struct vmm_taken *vmm_array_ends(uint64_t array);
void vmm_array_ended(struct vmm_taken *taken, CUresult result);

#endif

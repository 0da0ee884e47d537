/* SPDX-License-Identifier: MIT */
/* vmm.h - events of other hooks that concern the program's own physical handles (hooks_vmm.c). */
#ifndef KEDGE_PRELOAD_VMM_H
#define KEDGE_PRELOAD_VMM_H

#include "alloc/base/types.h"
#include "preload/base/cuda_abi.h"

/*
 * cuMemRetainAllocationHandle returned one more reference to the handle mapped at ptr, perhaps
 * under another number.
 */
void vmm_retained(uint64_t handle, devptr_t ptr);

/*
 * Before an array is destroyed: the mappings in its tiles are removed from the records, because its
 * handle and those of the memory may be reused before the call returns. Afterwards, with the call's
 * result: the removal is final, or is undone.
 */
struct vmm_taken;
struct vmm_taken *vmm_array_ends(uint64_t array);
void vmm_array_ended(struct vmm_taken *taken, CUresult result);

#endif

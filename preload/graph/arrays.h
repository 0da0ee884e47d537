/* SPDX-License-Identifier: MIT */
/*
 * arrays.h - arrays and mipmapped arrays, and their sizes.
 *
 * The driver reports the size only of an array that is mapped later (cuArrayGetMemoryRequirements
 * is refused for others). Such an array owns no memory: physical handles are mapped into it, which
 * count by themselves. So the size of an array that owns its memory is computed from its
 * description and marked as an estimate; an array that is mapped later counts 0.
 *
 * Threads: any, inside life_enter. No lock.
 */
#ifndef KEDGE_PRELOAD_ARRAYS_H
#define KEDGE_PRELOAD_ARRAYS_H

#include "preload/base/cuda_abi.h"

/* Bytes of one element. A format of several planes or of blocks counts as a byte per channel. */
uint64_t arrays_element_bytes(CUarray_format format, unsigned channels);

/*
 * Bytes that an array of this description takes at least. 0 = unknown (a format of blocks or
 * planes), none (it is mapped later), or no description.
 */
uint64_t arrays_least(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels);
uint64_t arrays_least_flat(const CUDA_ARRAY_DESCRIPTOR *desc);

/*
 * Records an array that was made, with the program's description; one of `array` and `mipmap` is
 * NULL.
 */
void arrays_made(CUarray array, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
        unsigned levels);
void arrays_made_flat(CUarray array, const CUDA_ARRAY_DESCRIPTOR *desc);

#endif

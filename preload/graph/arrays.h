/* SPDX-License-Identifier: MIT */
/*
 * arrays.h - arrays and mipmapped arrays, and their sizes.
 *
 * The driver tells the size of an array only while that is still to be mapped (cuArrayGetMemoryRequirements is refused for
 * others), and such an array owns no memory: what is mapped into it are physical handles, which count by themselves. So the
 * size of an array that owns its memory is computed from its description, and marked as an estimate; one that is to be
 * mapped counts nothing.
 *
 * Threads: any, inside life_enter. No lock.
 */
#ifndef KEDGE_PRELOAD_ARRAYS_H
#define KEDGE_PRELOAD_ARRAYS_H

#include "preload/base/cuda_abi.h"

/* Bytes of one element. A format of several planes or of blocks is taken for a byte per channel. */
uint64_t arrays_element_bytes(CUarray_format format, unsigned channels);

/* Bytes that an array of this description takes at least; 0 = not known (a format of blocks or planes), none (it is mapped later), or no
 * description. */
uint64_t arrays_least(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels);
uint64_t arrays_least_flat(const CUDA_ARRAY_DESCRIPTOR *desc);

/* An array was made, of a description as the program gave it; one of `array` and `mipmap` is NULL. Records it. */
void arrays_made(CUarray array, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
        unsigned levels);
void arrays_made_flat(CUarray array, const CUDA_ARRAY_DESCRIPTOR *desc);

#endif

/* SPDX-License-Identifier: MIT */
/* arrays.h - what is known about CUDA arrays (hooks_array.c). */
#ifndef KEDGE_PRELOAD_ARRAYS_H
#define KEDGE_PRELOAD_ARRAYS_H

#include "preload/cuda_abi.h"

/* Bytes of one element. A format of several planes or of blocks is taken for a byte per channel. */
uint64_t array_element_bytes(CUarray_format format, unsigned channels);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * kernels_host.h - what the kernels of kernels.ptx.h do, in C, on host memory.
 *
 * A trainer computes its result twice, on the device and here, and compares: so a wrong tenant in a block is
 * noticed by the program itself, on any device, with nothing recorded before. Tensors have the size that they have
 * on the device and are mapped without being backed (host_tensor); only sampled pages (sample.h) cost memory.
 *
 * Addresses need no alignment beyond 4 bytes. `row_bytes` and `src_stride` are multiples of 4. Any thread.
 */
#ifndef KEDGE_TRAINERS_KERNELS_HOST_H
#define KEDGE_TRAINERS_KERNELS_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory of `bytes`, backed page by page as it is written; NULL when there is none. */
void *host_tensor_new(size_t bytes);
void host_tensor_free(void *tensor, size_t bytes);

/* dst[w] = hash of w and seed. */
void host_fill(void *dst, uint64_t bytes, uint32_t seed);

/* dst[w] = dst[w] * 1664525 + src[w] + 1013904223. */
void host_mix(void *dst, const void *src, uint64_t bytes);

/* *sum += src[w] * (w + 1), 64 bits. */
void host_sum(uint64_t *sum, const void *src, uint64_t bytes);

/* dst[row][..] = src[row * src_stride ..], for the sampled words of the dense dst. */
void host_copy_strided(
        void *dst, const void *src, uint64_t rows, uint64_t row_bytes, uint64_t src_stride);

#endif

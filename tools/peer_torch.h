/* SPDX-License-Identifier: MIT */
/*
 * peer_torch.h - what the two models of PyTorch's allocator share: rounding, pools, and blocks of several streams.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_PEER_TORCH_H
#define KEDGE_TOOLS_PEER_TORCH_H

#include "tools/peer_heap.h"

#define PEER_TORCH_LEAST UINT64_C(512) /* block sizes are multiples of it */

enum peer_torch_pool {
    PEER_TORCH_SMALL,
    PEER_TORCH_LARGE,
};

/* The size of the block for a request, and in which pool it lies. */
uint64_t peer_torch_round(uint64_t size);
bool peer_torch_is_small(uint64_t size);

/* Frees the blocks whose events have passed: of each stream's line from the oldest on, until one has not. */
void peer_torch_poll(struct peer_heap *heap);

/* give of struct peer, for a `self` that begins with a struct peer_heap. */
void peer_torch_give(void *self, uint32_t number, uint32_t stream);

#endif

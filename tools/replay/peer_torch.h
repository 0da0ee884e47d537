/* SPDX-License-Identifier: MIT */
/*
 * peer_torch.h - the rules that PyTorch's allocator has in each of its forms, for models of them.
 *
 * Sizes are multiples of 512. Each stream has two pools, up to 1 MiB and above. A block that
 * several streams used waits for an event, in the line of the stream on which the use ends.
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_PEER_TORCH_H
#define KEDGE_TOOLS_PEER_TORCH_H

#include "tools/replay/peer_heap.h"

enum peer_torch_pool {
    PEER_TORCH_SMALL,
    PEER_TORCH_LARGE,
};

uint64_t peer_torch_round(uint64_t size);

/* All others take rounded sizes. */
bool peer_torch_is_small(uint64_t size);

/* What the driver is asked for, for a block of this size. */
uint64_t peer_torch_segment(uint64_t size);

/* The pool of a stream that blocks of this size come from. */
uint32_t peer_torch_set(struct peer_heap *heap, uint32_t stream, uint64_t size);

/*
 * Frees the blocks whose events have passed: queries each stream's line from the oldest on, until
 * one has not.
 */
void peer_torch_poll(struct peer_heap *heap);

/* `give` of a model; `self` begins with a struct peer_heap. */
void peer_torch_give(void *self, uint32_t number, uint32_t stream);

#endif

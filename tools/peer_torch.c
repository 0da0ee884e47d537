/* SPDX-License-Identifier: MIT */
/*
 * The default policy of PyTorch's caching allocator. Two pools per stream, up to 1 MiB and above. Sizes are multiples of 512;
 * a miss asks the driver for 2 MiB, 20 MiB, or the size in 2 MiB; best fit by (size, address); what is left over is cut off
 * if it is at least 512 bytes (small) or more than 1 MiB (large). Blocks that were used on several streams wait for an
 * event and do not join their neighbours meanwhile; each request looks at the oldest event of each stream. Nothing is given
 * back before the device is full.
 */
#include "tools/peer_torch.h"

#define MIB (UINT64_C(1) << 20)

uint64_t peer_torch_round(uint64_t size)
{
    return size < PEER_TORCH_LEAST ? PEER_TORCH_LEAST
                                   : (size + PEER_TORCH_LEAST - 1) & ~(PEER_TORCH_LEAST - 1);
}

bool peer_torch_is_small(uint64_t size)
{
    return size <= MIB;
}

/* What the default policy asks the driver for. */
static uint64_t segment_of(uint64_t size)
{
    if (peer_torch_is_small(size))
        return 2 * MIB;
    if (size < 10 * MIB)
        return 20 * MIB;
    return (size + 2 * MIB - 1) & ~(2 * MIB - 1);
}

void peer_torch_poll(struct peer_heap *heap)
{
    for (uint32_t set = 0; set < heap->set_count; set++)
        peer_free_passed(heap, set, false);
}

void peer_torch_give(void *self, uint32_t number, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint32_t index = peer_disown(heap, number);

    if (peer_block(heap, index)->stream == stream)
        peer_free(heap, index);
    else /* the line is that of the stream where the use ends */
        peer_wait(heap, peer_set(heap, stream, PEER_TORCH_SMALL), index, stream);
}

static void torch_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint64_t rounded = peer_torch_round(size);
    bool is_small = peer_torch_is_small(rounded);
    uint32_t set = peer_set(heap, stream, is_small ? PEER_TORCH_SMALL : PEER_TORCH_LARGE);

    peer_torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_grow(heap, segment_of(rounded), set, stream);
    uint64_t left = peer_block(heap, index)->size - rounded;
    if (is_small ? left >= PEER_TORCH_LEAST : left > MIB)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_torch = {
        .open = peer_open,
        .close = peer_close,
        .take = torch_take,
        .give = peer_torch_give,
};

/* SPDX-License-Identifier: MIT */
/*
 * The default policy of PyTorch's caching allocator. Two pools per stream, up to 1 MiB and above.
 * Sizes are multiples of 512; a miss asks the driver for 2 MiB, 20 MiB, or the size rounded up to 2
 * MiB; best fit by (size, address); the rest of a block is cut off if it is at least 512 bytes
 * (small) or more than 1 MiB (large). Blocks used on several streams wait for an event and do not
 * join their neighbours meanwhile; each request queries the oldest event of each stream. No memory
 * is given back before the device is full.
 */
#include "tools/replay/peer_torch.h"

#include <stdlib.h>

#include "tools/base/vec.h"

#define MIB   (UINT64_C(1) << 20)
#define LEAST UINT64_C(512) /* block sizes are multiples of LEAST */

uint64_t peer_torch_round(uint64_t size)
{
    return size < LEAST ? LEAST : (size + LEAST - 1) & ~(LEAST - 1);
}

bool peer_torch_is_small(uint64_t size)
{
    return size <= MIB;
}

uint64_t peer_torch_segment(uint64_t size)
{
    if (peer_torch_is_small(size))
        return 2 * MIB;
    if (size < 10 * MIB)
        return 20 * MIB;
    return (size + 2 * MIB - 1) & ~(2 * MIB - 1);
}

uint32_t peer_torch_set(struct peer_heap *heap, uint32_t stream, uint64_t size)
{
    return peer_set(heap, stream, peer_torch_is_small(size) ? PEER_TORCH_SMALL : PEER_TORCH_LARGE);
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
    else /* the line belongs to the stream on which the use ends */
        peer_wait(heap, peer_set(heap, stream, PEER_TORCH_SMALL), index, stream);
}

static void torch_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint64_t rounded = peer_torch_round(size);
    bool is_small = peer_torch_is_small(rounded);
    uint32_t set = peer_torch_set(heap, stream, rounded);

    peer_torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_grow(heap, peer_torch_segment(rounded), set, stream);
    uint64_t left = peer_block(heap, index)->size - rounded;
    if (is_small ? left >= LEAST : left > MIB)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_torch = {
        .size = sizeof(struct peer_heap),
        .close = peer_close,
        .take = torch_take,
        .give = peer_torch_give,
};

/*
 * PyTorch with expandable segments. Each pool of each stream is one range of addresses, mapped from
 * its beginning, in handles of 2 MiB (small) or 20 MiB (large). It grows by the bytes that the free
 * block at its end lacks. That block counts as large as it could grow, so another one that fits is
 * preferred. Every rest of at least 512 bytes is cut off. A hole is never unmapped before the
 * device is full.
 */
#define SMALL_PAGE (UINT64_C(2) << 20)
#define LARGE_PAGE (UINT64_C(20) << 20)
#define RANGE_SIZE (UINT64_C(1) << 44) /* more than is ever mapped */

struct expandable {
    struct peer_heap heap; /* first: peer_torch_give */
    uint32_t *ends;        /* per set: the empty block at the mapped end, 0 = no range yet */
    size_t end_room;
};

static void expandable_close(void *opaque)
{
    struct expandable *self = opaque;

    free(self->ends);
    peer_close(self);
}

static uint32_t peer_torch_end_of(struct expandable *self, uint32_t set, uint32_t stream)
{
    const struct driver *driver = &self->heap.device->driver;
    devptr_t base;

    self->ends = vec_grow(self->ends, (size_t)set + 1, sizeof(*self->ends), &self->end_room);
    if (!self->ends[set]) {
        (void)driver->address_reserve(driver->self, 0, RANGE_SIZE, 0, &base);
        self->ends[set] = peer_segment(&self->heap, base, 0, set);
        peer_block(&self->heap, self->ends[set])->stream = stream;
    }
    return self->ends[set];
}

static void expandable_take(void *opaque, uint32_t number, uint64_t size, uint32_t stream)
{
    struct expandable *self = opaque;
    struct peer_heap *heap = &self->heap;
    uint64_t rounded = peer_torch_round(size);
    bool is_small = peer_torch_is_small(rounded);
    uint32_t set = peer_torch_set(heap, stream, rounded);
    uint32_t end = peer_torch_end_of(self, set, stream);

    peer_torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index && peer_block(heap, index)->next == end && peer_after(heap, index))
        index = peer_after(heap, index);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_stretch(heap, end, rounded, is_small ? SMALL_PAGE : LARGE_PAGE);
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_expandable = {
        .size = sizeof(struct expandable),
        .close = expandable_close,
        .take = expandable_take,
        .give = peer_torch_give,
};

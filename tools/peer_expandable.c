/* SPDX-License-Identifier: MIT */
/*
 * PyTorch with expandable segments. Each pool of each stream is one range of addresses that is mapped from its beginning, in
 * handles of 2 MiB (small) or 20 MiB (large), by as much as the free block at its end lacks. That block counts as large as
 * what it could be grown to, so another one that fits is preferred. Everything left over of at least 512 bytes is cut off. A
 * hole is never unmapped before the device is full.
 */
#include <stdlib.h>

#include "tools/peer_torch.h"
#include "tools/vec.h"

#define SMALL_PAGE (UINT64_C(2) << 20)
#define LARGE_PAGE (UINT64_C(20) << 20)
#define RANGE_SIZE (UINT64_C(1) << 44) /* more than is ever mapped */

struct expandable {
    struct peer_heap heap; /* first: peer_torch_give */
    uint32_t *ends; /* per set: the empty block at the end of what is mapped, 0 = no range yet */
    size_t end_room;
};

static void *expandable_open(const struct peer_device *device)
{
    struct expandable *self = vec_new(1, sizeof(*self));

    peer_heap_init(&self->heap, device);
    return self;
}

static void expandable_close(void *opaque)
{
    struct expandable *self = opaque;

    free(self->ends);
    peer_close(self);
}

static uint32_t end_of(struct expandable *self, uint32_t set, uint32_t stream)
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

static void map_pages(struct expandable *self, devptr_t at, uint64_t bytes, uint64_t page)
{
    const struct driver *driver = &self->heap.device->driver;
    uint64_t handle;

    for (uint64_t done = 0; done < bytes; done += page) {
        (void)driver->handle_create(driver->self, 0, page, &handle);
        (void)driver->map(driver->self, at + done, page, handle);
    }
    (void)driver->set_access(driver->self, HEAP_MAPPED, 0, 0, at, bytes, DRIVER_ACCESS_RW);
}

/* A block of at least `size` bytes at the end, not free: the free one there, grown, or a new one. */
static uint32_t grow(struct expandable *self, uint32_t end, uint64_t size, uint64_t page)
{
    struct peer_heap *heap = &self->heap;
    uint32_t tail = peer_block(heap, end)->prev;
    uint64_t have = 0;

    if (tail && peer_block(heap, tail)->is_free) {
        have = peer_block(heap, tail)->size;
        peer_pull(heap, tail);
    }
    uint64_t bytes = (size - have + page - 1) / page * page;
    map_pages(self, peer_block(heap, end)->base, bytes, page);
    uint32_t more = peer_extend(heap, end, bytes);
    if (!have)
        return more;
    peer_join(heap, tail);
    return tail;
}

static void expandable_take(void *opaque, uint32_t number, uint64_t size, uint32_t stream)
{
    struct expandable *self = opaque;
    struct peer_heap *heap = &self->heap;
    uint64_t rounded = peer_torch_round(size);
    bool is_small = peer_torch_is_small(rounded);
    uint32_t set = peer_set(heap, stream, is_small ? PEER_TORCH_SMALL : PEER_TORCH_LARGE);
    uint32_t end = end_of(self, set, stream);

    peer_torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index && peer_block(heap, index)->next == end && peer_after(heap, index))
        index = peer_after(heap, index);
    if (index)
        peer_pull(heap, index);
    else
        index = grow(self, end, rounded, is_small ? SMALL_PAGE : LARGE_PAGE);
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_expandable = {
        .open = expandable_open,
        .close = expandable_close,
        .take = expandable_take,
        .give = peer_torch_give,
};

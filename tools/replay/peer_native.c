/* SPDX-License-Identifier: MIT */
/*
 * No pool: cudaMalloc for each request, cudaFree for each free, which waits for all work of the
 * device. So a lagging device costs time and no memory.
 */
#include "tools/replay/peer_heap.h"

static void native_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;

    peer_own(heap, number, peer_grow(heap, size, peer_set(heap, stream, 0), stream));
}

static void native_give(void *self, uint32_t number, uint32_t stream)
{
    struct peer_heap *heap = self;
    const struct driver *driver = &heap->device->driver;
    uint32_t index = peer_disown(heap, number);

    (void)stream;
    counting_wait_within(heap->device->counting);
    (void)driver->mem_free(driver->self, 0, peer_block(heap, index)->base);
    peer_drop(heap, index);
}

const struct peer peer_native = {
        .size = sizeof(struct peer_heap),
        .close = peer_close,
        .take = native_take,
        .give = native_give,
};

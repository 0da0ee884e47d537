/* SPDX-License-Identifier: MIT */
/*
 * cudaMallocAsync's pool, as far as it is documented: what a stream freed is its own again at once; what another stream freed
 * is there once the device is past the free (the driver knows that by itself, which costs no call); only a full device makes
 * it insert waits. When the program waits for the device, what is held above the release threshold goes back in whole pieces,
 * within that call.
 *
 * Not documented, so assumed: best fit by (size, address), requests get the low end, multiples of 512, growth in pieces of
 * 32 MiB that do not lie beside each other, no remapping. Each request and each free is one call of the driver.
 */
#include "tests/bench/models/models.h"

#include "tools/replay/peer_heap.h"

#define QUANTUM UINT64_C(512)
#define PIECE   (UINT64_C(32) << 20)

/* The smallest block of another stream that the device is done with. */
static uint32_t find_passed(const struct peer_heap *heap, uint32_t set, uint64_t size)
{
    for (uint32_t other = 0; other < heap->set_count; other++) {
        uint32_t index = other == set ? 0 : peer_find(heap, other, size);
        for (; index; index = peer_after(heap, index)) {
            if (counting_has_passed(heap->device->counting, peer_block(heap, index)->fence))
                return index;
        }
    }
    return 0;
}

static void async_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint64_t rounded = (size + QUANTUM - 1) & ~(QUANTUM - 1);
    uint32_t set = peer_set(heap, stream, 0);
    uint32_t index = peer_find(heap, set, rounded);

    if (!index)
        index = find_passed(heap, set, rounded);
    if (index) {
        peer_pull(heap, index);
        heap->device->counting->calls[COUNTING_OTHER]++;
    } else { /* a piece is got by the very call that asks for the block */
        index = peer_grow(heap, (rounded + PIECE - 1) & ~(PIECE - 1), set, stream);
    }
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

static void async_give(void *self, uint32_t number, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint32_t index = peer_disown(heap, number);

    heap->device->counting->calls[COUNTING_OTHER]++;
    peer_block(heap, index)->set = peer_set(heap, stream, 0);
    peer_block(heap, index)->fence = counting_mark(heap->device->counting);
    peer_free(heap, index);
}

/* The first block of a piece that is all free. */
static bool is_idle(const struct peer_heap *heap, uint32_t first)
{
    uint32_t index = first;

    if (peer_block(heap, first)->prev)
        return false;
    while (index && peer_block(heap, index)->is_free)
        index = peer_block(heap, index)->next;
    return index == 0;
}

static void peer_async_give_back(struct peer_heap *heap, uint32_t first)
{
    (void)counting_give_back(heap->device->counting, peer_block(heap, first)->base);
    peer_pull(heap, first);
    while (peer_block(heap, first)->next) {
        peer_pull(heap, peer_block(heap, first)->next);
        peer_join(heap, first);
    }
    peer_drop(heap, first);
}

static void async_waited(void *self, uint64_t threshold)
{
    struct peer_heap *heap = self;
    const struct counting *counting = heap->device->counting;

    for (uint32_t i = 1; i < heap->block_count && counting->reserved > threshold; i++) {
        if (peer_block(heap, i)->is_free && is_idle(heap, i))
            peer_async_give_back(heap, i);
    }
}

const struct peer peer_async = {
        .size = sizeof(struct peer_heap),
        .close = peer_close,
        .take = async_take,
        .give = async_give,
        .waited = async_waited,
};

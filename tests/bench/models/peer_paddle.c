/* SPDX-License-Identifier: MIT */
/*
 * Paddle's auto-growth best fit, chunk size 0 (its default): a miss asks the driver for exactly what is needed, in multiples
 * of 256. One allocator per stream. The smallest block that fits is taken, of these the lowest; the request gets its high
 * end, whatever is left stays in front and free. A block that was used on other streams waits for an event; each request
 * asks all of the events that are waited for. Chunks are not given back.
 */
#include "tests/bench/models/models.h"

#include "tools/replay/peer_heap.h"

#define ALIGNMENT UINT64_C(256)

static void paddle_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    uint32_t set = peer_set(heap, stream, 0);

    peer_free_passed(heap, set, true);
    uint32_t index = peer_find(heap, set, rounded);
    if (!index) {
        peer_own(heap, number, peer_grow(heap, rounded, set, stream));
        return;
    }
    peer_pull(heap, index);
    uint64_t left = peer_block(heap, index)->size - rounded;
    if (left) {
        uint32_t high = peer_cut(heap, index, left);
        peer_put(heap, index);
        index = high;
    }
    peer_own(heap, number, index);
}

static void paddle_give(void *self, uint32_t number, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint32_t index = peer_disown(heap, number);

    if (peer_block(heap, index)->stream == stream)
        peer_free(heap, index);
    else
        peer_wait(heap, peer_block(heap, index)->set, index, stream);
}

const struct peer peer_paddle = {
        .size = sizeof(struct peer_heap),
        .close = peer_close,
        .take = paddle_take,
        .give = paddle_give,
};

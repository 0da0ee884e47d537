/* SPDX-License-Identifier: MIT */
/*
 * The default policy of PyTorch's caching allocator. Two pools per stream, up to 1 MiB and above.
 * Sizes are multiples of 512; a miss asks the driver for 2 MiB, 20 MiB, or the size rounded up to 2
 * MiB; best fit by (size, address); the rest of a block is cut off if it is at least 512 bytes
 * (small) or more than 1 MiB (large). Blocks used on several streams wait for an event and do not
 * join their neighbours meanwhile; each request queries the oldest event of each stream. No memory
 * is given back before the device is full.
 */
#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/replay/peer_heap.h"

#define MIB   (UINT64_C(1) << 20)
#define LEAST UINT64_C(512) /* block sizes are multiples of LEAST */

enum torch_pool {
    POOL_SMALL,
    POOL_LARGE,
};

static uint64_t torch_round(uint64_t size)
{
    return size < LEAST ? LEAST : (size + LEAST - 1) & ~(LEAST - 1);
}

static bool torch_is_small(uint64_t size)
{
    return size <= MIB;
}

/* The size that the default policy asks the driver for. */
static uint64_t segment_of(uint64_t size)
{
    if (torch_is_small(size))
        return 2 * MIB;
    if (size < 10 * MIB)
        return 20 * MIB;
    return (size + 2 * MIB - 1) & ~(2 * MIB - 1);
}

/*
 * Frees the blocks whose events have passed: queries each stream's line from the oldest on, until
 * one has not.
 */
static void torch_poll(struct peer_heap *heap)
{
    for (uint32_t set = 0; set < heap->set_count; set++)
        peer_free_passed(heap, set, false);
}

static void torch_give(void *self, uint32_t number, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint32_t index = peer_disown(heap, number);

    if (peer_block(heap, index)->stream == stream)
        peer_free(heap, index);
    else /* the line belongs to the stream on which the use ends */
        peer_wait(heap, peer_set(heap, stream, POOL_SMALL), index, stream);
}

static void torch_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct peer_heap *heap = self;
    uint64_t rounded = torch_round(size);
    bool is_small = torch_is_small(rounded);
    uint32_t set = peer_set(heap, stream, is_small ? POOL_SMALL : POOL_LARGE);

    torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_grow(heap, segment_of(rounded), set, stream);
    uint64_t left = peer_block(heap, index)->size - rounded;
    if (is_small ? left >= LEAST : left > MIB)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_torch = {
        .size = sizeof(struct peer_heap),
        .close = peer_close,
        .take = torch_take,
        .give = torch_give,
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
    struct peer_heap heap; /* first: torch_give */
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

/*
 * Returns a block of at least `size` bytes at the end, not free: the free one there, grown, or a
 * new one.
 */
static uint32_t peer_torch_grow(struct expandable *self, uint32_t end, uint64_t size, uint64_t page)
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
    uint64_t rounded = torch_round(size);
    bool is_small = torch_is_small(rounded);
    uint32_t set = peer_set(heap, stream, is_small ? POOL_SMALL : POOL_LARGE);
    uint32_t end = peer_torch_end_of(self, set, stream);

    torch_poll(heap);
    uint32_t index = peer_find(heap, set, rounded);
    if (index && peer_block(heap, index)->next == end && peer_after(heap, index))
        index = peer_after(heap, index);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_torch_grow(self, end, rounded, is_small ? SMALL_PAGE : LARGE_PAGE);
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

const struct peer peer_expandable = {
        .size = sizeof(struct expandable),
        .close = expandable_close,
        .take = expandable_take,
        .give = torch_give,
};

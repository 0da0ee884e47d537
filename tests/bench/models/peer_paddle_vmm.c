/* SPDX-License-Identifier: MIT */
/*
 * Paddle's VMM allocator v2, its default since August 2026 (pull request 79605).
 *
 * Source: PaddlePaddle/Paddle, paddle/phi/core/memory/allocation:
 * vmm_auto_growth_best_fit_allocator_v2.cc at 19a2a2ae and d3def017,
 * vmm_auto_growth_best_fit_multi_pool_allocator_v2.cc at e8bc522b, its header and
 * free_block_remap_compactor.cc at b0835c57, remap_transaction.cc at e8bc522b; the growth at the
 * end and the conditions of a compaction: a later version of the first file, as it stood in July
 * 2026. The four pools by lifetime of March 2026 (pull requests 78317, 78470) were replaced by two
 * by size.
 *
 * - Each stream has two ranges of addresses, below 2 MiB and from there on, in multiples of 256.
 *   They are mapped from their beginning in handles of one size. A request gets the low end of the
 *   smallest block that fits, the lowest of equals; each rest stays free. Without one the range
 *   grows by what the free block at its end lacks.
 * - A block that several streams used waits for an event; each request asks all events of its
 *   stream.
 * - When the device is full, the large range is compacted: handles that lie within free blocks,
 *   from low addresses on and no more than the request lacks, are unmapped and mapped again at the
 *   end, behind the free block there. Nothing moves if they would not be enough, or if what is
 *   free is less than the request and not in whole handles. Blocks that the device may still use
 *   stay: the stream is asked whether it is idle, then an event is recorded, which later
 *   compactions ask.
 *
 * As the device is never full here, `peer_paddle_vmm` never compacts. `peer_paddle_vmm_full` finds
 * the device full at each growth of a large range, so it is compacted first. That holds less on
 * most programs, and a little more on some.
 *
 * Assumed: handles of 2 MiB in both ranges. Its unit tests have 2 and 16 MiB; the default of the
 * flag was not found. 2 MiB hold the least. Not modelled: limits of address space (what was
 * unmapped is not used again below them), releasing when the program empties the cache, retries
 * after 10 s, options that round sizes to handles or leave rests uncut, IPC.
 *
 * Published: no bytes held for requests that are public. The case of its regression list of June
 * 2026 (60 GiB in use, 12 GiB in pieces of 20 MiB of which each eighth stays, then 7 GiB: served
 * after a compaction on a device of 80 GiB, where PyTorch's default fails) comes out:
 * tests/unit/tools/replay/models_test.c.
 */
#include "tests/bench/models/models.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/replay/peer_heap.h"

#define ALIGNMENT  UINT64_C(256)
#define HANDLE     (UINT64_C(2) << 20)
#define THRESHOLD  (UINT64_C(2) << 20)
#define RANGE_SIZE (UINT64_C(1) << 44)

/*
 * The fence of a free block: 0 = the device does not use it; the event that was recorded; or: none
 * was yet.
 */
#define NO_EVENT UINT64_MAX

enum vmm_pool {
    VMM_SMALL,
    VMM_LARGE,
    VMM_GAPS, /* of blocks whose handles have been moved; they are not free */
};

struct paddle_vmm {
    struct peer_heap heap;
    uint32_t *ends; /* per set: the empty block at the mapped end, 0 = no range yet */
    size_t end_room;
};

static void peer_paddle_vmm_close(void *opaque)
{
    struct paddle_vmm *self = opaque;

    free(self->ends);
    peer_close(self);
}

static uint32_t vmm_end(struct paddle_vmm *self, uint32_t set, uint32_t stream)
{
    const struct driver *driver = &self->heap.device->driver;
    devptr_t base;

    self->ends = vec_grow(self->ends, (size_t)set + 1, sizeof(*self->ends), &self->end_room);
    if (!self->ends[set]) {
        (void)driver->address_reserve(driver->self, 0, RANGE_SIZE, HANDLE, &base);
        self->ends[set] = peer_segment(&self->heap, base, 0, set);
        peer_block(&self->heap, self->ends[set])->stream = stream;
    }
    return self->ends[set];
}

/* ── compaction ── */

/* What is free in a range; `whole`: in handles that can be moved. */
struct vmm_free {
    uint64_t all, at_end, whole;
};

static uint64_t first_handle(const struct peer_block *block)
{
    return (block->base + HANDLE - 1) / HANDLE * HANDLE;
}

/* Bytes of the handles that lie within a block. */
static uint64_t whole_bytes(const struct peer_block *block)
{
    uint64_t first = first_handle(block), behind = (block->base + block->size) / HANDLE * HANDLE;

    return behind > first ? behind - first : 0;
}

static uint32_t first_block(const struct peer_heap *heap, uint32_t end)
{
    uint32_t index = end;

    while (peer_block(heap, index)->prev)
        index = peer_block(heap, index)->prev;
    return index;
}

static struct vmm_free free_in(const struct peer_heap *heap, uint32_t end)
{
    struct vmm_free found = {0};

    for (uint32_t i = peer_block(heap, end)->prev; i; i = peer_block(heap, i)->prev) {
        const struct peer_block *block = peer_block(heap, i);
        if (!block->is_free)
            continue;
        found.all += block->size;
        if (block->next == end)
            found.at_end = block->size;
        else
            found.whole += whole_bytes(block);
    }
    return found;
}

/* Is the device done with a free block? */
static bool is_done_with(struct peer_heap *heap, struct peer_block *block)
{
    const struct driver *driver = &heap->device->driver;
    struct counting *counting = heap->device->counting;

    if (block->fence == NO_EVENT) { /* is its stream idle? */
        counting->calls[COUNTING_QUERY]++;
        if (counting_has_passed(counting, counting_mark(counting)))
            block->fence = 0;
        else
            (void)driver->stream_record(driver->self, block->stream, &block->fence);
    }
    if (block->fence && driver->fence_query(driver->self, block->fence) == 0)
        block->fence = 0;
    return block->fence == 0;
}

static bool is_gap(const struct peer_heap *heap, uint32_t index, uint32_t gaps)
{
    return index && peer_block(heap, index)->set == gaps;
}

/* The first `bytes` of whole handles in a free block become a gap, which is returned. */
static uint32_t make_gap(struct peer_heap *heap, uint32_t index, uint64_t bytes, uint32_t gaps)
{
    uint64_t before = first_handle(peer_block(heap, index)) - peer_block(heap, index)->base;

    peer_pull(heap, index);
    if (before) {
        uint32_t rest = peer_cut(heap, index, before);
        peer_put(heap, index);
        index = rest;
    }
    if (peer_block(heap, index)->size > bytes)
        peer_put(heap, peer_cut(heap, index, bytes));
    peer_block(heap, index)->set = gaps;
    if (is_gap(heap, peer_block(heap, index)->next, gaps))
        peer_join(heap, index);
    uint32_t prev = peer_block(heap, index)->prev;
    if (!is_gap(heap, prev, gaps))
        return index;
    peer_join(heap, prev);
    return prev;
}

/* Moves handles to the end. */
static void take_handles(struct paddle_vmm *self, uint32_t end, uint64_t bytes)
{
    struct peer_heap *heap = &self->heap;
    const struct driver *driver = &heap->device->driver;
    devptr_t at = peer_block(heap, end)->base;

    for (uint64_t done = 0; done < bytes; done += HANDLE)
        (void)driver->map(driver->self, at + done, HANDLE, 0);
    (void)driver->set_access(driver->self, HEAP_MAPPED, 0, 0, at, bytes, DRIVER_ACCESS_RW);
    peer_free(heap, peer_extend(heap, end, bytes));
}

static void vmm_compact(struct paddle_vmm *self, uint32_t end, uint64_t size)
{
    struct peer_heap *heap = &self->heap;
    const struct driver *driver = &heap->device->driver;
    uint32_t gaps = peer_set(heap, 0, VMM_GAPS);
    struct vmm_free found = free_in(heap, end);
    uint64_t target = found.all < size ? found.all : size;
    uint64_t moved = 0;

    if (target <= found.at_end || found.whole < target - found.at_end)
        return;
    uint64_t left = (target - found.at_end + HANDLE - 1) / HANDLE * HANDLE;
    for (uint32_t i = first_block(heap, end); i != end && left; i = peer_block(heap, i)->next) {
        struct peer_block *block = peer_block(heap, i);
        uint64_t bytes = whole_bytes(block) < left ? whole_bytes(block) : left;
        if (!block->is_free || block->next == end || !bytes)
            continue;
        left -= bytes;
        if (!is_done_with(heap, block))
            continue;
        for (uint64_t done = 0; done < bytes; done += HANDLE)
            (void)driver->unmap(driver->self, first_handle(block) + done, HANDLE);
        i = make_gap(heap, i, bytes, gaps);
        moved += bytes;
    }
    if (moved)
        take_handles(self, end, moved);
}

/* ── */

static void vmm_take(
        struct paddle_vmm *self, uint32_t number, uint64_t size, uint32_t stream, bool is_full)
{
    struct peer_heap *heap = &self->heap;
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    bool is_large = rounded >= THRESHOLD;
    uint32_t set = peer_set(heap, stream, is_large ? VMM_LARGE : VMM_SMALL);
    uint32_t end = vmm_end(self, set, stream);

    peer_free_passed(heap, peer_set(heap, stream, VMM_SMALL), true);
    uint32_t index = peer_find(heap, set, rounded);
    if (!index && is_full && is_large) {
        vmm_compact(self, end, rounded);
        index = peer_find(heap, set, rounded);
    }
    if (index)
        peer_pull(heap, index);
    else
        index = peer_stretch(heap, end, rounded, HANDLE);
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

static void take_while_room(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    vmm_take(self, number, size, stream, false);
}

static void take_while_full(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    vmm_take(self, number, size, stream, true);
}

static void vmm_give(void *opaque, uint32_t number, uint32_t stream)
{
    struct paddle_vmm *self = opaque;
    struct peer_heap *heap = &self->heap;
    uint32_t index = peer_disown(heap, number);

    peer_block(heap, index)->fence = NO_EVENT;
    if (peer_block(heap, index)->stream == stream)
        peer_free(heap, index);
    else
        peer_wait(heap, peer_set(heap, peer_block(heap, index)->stream, VMM_SMALL), index, stream);
}

const struct peer peer_paddle_vmm = {
        .size = sizeof(struct paddle_vmm),
        .close = peer_paddle_vmm_close,
        .take = take_while_room,
        .give = vmm_give,
};

const struct peer peer_paddle_vmm_full = {
        .size = sizeof(struct paddle_vmm),
        .close = peer_paddle_vmm_close,
        .take = take_while_full,
        .give = vmm_give,
};

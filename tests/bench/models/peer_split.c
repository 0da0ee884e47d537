/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's allocator with max_split_size_mb and garbage_collection_threshold.
 *
 * Source: pytorch/pytorch at 001074d2, c10/cuda/CUDACachingAllocator.cpp. The rules of
 * tools/replay/peer_torch.h, and these:
 *
 * - A block of max_split_size or more is never cut. A smaller request does not take it; a request
 *   of that size takes it only if less than 20 MiB would be left over.
 * - Before the driver is asked while more is held than the threshold's part of the limit, whole
 *   segments of the large pool that are free go back, those first that have been free for at least
 *   the mean number of requests, until enough has gone.
 * - Where the limit would be passed, the smallest free block of max_split_size that would serve
 *   the request goes back, or else the largest ones, until they add up to it. If that is not
 *   enough, all events are waited for and each free segment goes back.
 *
 * Not modelled: roundup_power2_divisions, private pools of graphs, callbacks that free memory; a
 * device that is full below the limit; a request that fails (the limit is passed instead). A block
 * that waited for an event counts its age from its free.
 *
 * No published figure: PyTorch's documentation gives none for the two settings. Values that
 * scripts often have, 128 MiB and 0.8, of a device of 80 GiB (160 or more for a program with more
 * live bytes). Without a block of 128 MiB and below 64 GiB it is the default policy, whose figures
 * are checked.
 */
#include "tests/bench/models/models.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/replay/peer_torch.h"
#include "tools/replay/workload.h"

#define MIB   (UINT64_C(1) << 20)
#define LEAST UINT64_C(512)
#define SLACK (20 * MIB) /* an uncut block may be that much larger than the request */

struct peer_split_settings peer_split_settings = {
        .most = 128 * MIB, .threshold = 0.8, .limit = 80 * (MIB << 10)};

struct split {
    struct peer_heap heap; /* first: peer_torch_give */
    struct peer_split_settings settings;
    uint64_t held;
    uint64_t asked;   /* requests to large pools; fence of a free block: at its free */
    uint32_t *larges; /* sets of large pools */
    size_t large_count, large_room;
};

static void peer_split_close(void *opaque)
{
    struct split *self = opaque;

    free(self->larges);
    peer_close(self);
}

static struct split *split_of(void *opaque)
{
    struct split *self = opaque;

    if (!self->settings.limit) /* not used yet */
        self->settings = peer_split_settings;
    return self;
}

/* A program that needs more gets a device that is twice as large, or four times. */
static void split_know(void *opaque, const struct workload *workload, int device)
{
    struct split *self = split_of(opaque);

    (void)device;
    while (self->settings.limit < workload->peak_live_512)
        self->settings.limit *= 2;
}

static uint32_t split_set(struct split *self, uint32_t stream, uint64_t rounded)
{
    uint32_t set = peer_torch_set(&self->heap, stream, rounded);

    if (peer_torch_is_small(rounded))
        return set;
    self->asked++;
    for (size_t i = 0; i < self->large_count; i++) {
        if (self->larges[i] == set)
            return set;
    }
    VEC_PUSH(self->larges, self->large_count, self->large_room) = set;
    return set;
}

static uint64_t split_give_back(struct split *self, uint32_t index)
{
    const struct driver *driver = &self->heap.device->driver;
    uint64_t size = peer_block(&self->heap, index)->size;

    counting_wait_within(self->heap.device->counting);
    (void)driver->mem_free(driver->self, 0, peer_block(&self->heap, index)->base);
    peer_pull(&self->heap, index);
    peer_drop(&self->heap, index);
    self->held -= size;
    return size;
}

static bool is_whole(const struct split *self, uint32_t index)
{
    return !peer_block(&self->heap, index)->prev && !peer_block(&self->heap, index)->next;
}

/* ── the threshold ── */

struct ages {
    uint64_t sum, count;
};

static uint64_t age_of(const struct split *self, uint32_t index)
{
    return self->asked - peer_block(&self->heap, index)->fence;
}

static struct ages whole_ages(const struct split *self)
{
    struct ages ages = {0};

    for (size_t i = 0; i < self->large_count; i++) {
        const struct peer_list *list = &self->heap.lists[self->larges[i]];
        for (size_t at = 0; at < list->count; at++) {
            if (!is_whole(self, list->items[at]))
                continue;
            ages.sum += age_of(self, list->items[at]);
            ages.count++;
        }
    }
    return ages;
}

/* Gives back each whole segment of at least this age; returns their bytes. */
static uint64_t give_old_back(struct split *self, double least, struct ages *ages)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < self->large_count; i++) {
        const struct peer_list *list = &self->heap.lists[self->larges[i]];
        for (size_t at = 0; at < list->count;) {
            uint32_t index = list->items[at];
            if (!is_whole(self, index) || (double)age_of(self, index) < least) {
                at++;
                continue;
            }
            ages->sum -= age_of(self, index);
            ages->count--;
            bytes += split_give_back(self, index);
        }
    }
    return bytes;
}

static void split_collect(struct split *self)
{
    uint64_t threshold = (uint64_t)(self->settings.threshold * (double)self->settings.limit);
    struct ages ages;

    if (self->held <= threshold)
        return;
    uint64_t want = self->held - threshold;
    ages = whole_ages(self);
    for (uint64_t got = 0; got < want && ages.count;) {
        uint64_t bytes = give_old_back(self, (double)ages.sum / (double)ages.count, &ages);
        if (!bytes)
            return;
        got += bytes;
    }
}

/* ── the limit ── */

/*
 * Blocks that are never cut: one that serves the request, or the largest ones until they add up to
 * it. Was that enough?
 */
static bool give_uncut_back(struct split *self, uint32_t set, uint64_t rounded)
{
    uint64_t want = rounded > self->settings.most ? rounded : self->settings.most;
    const struct peer_list *list = &self->heap.lists[set];
    uint32_t index = peer_find(&self->heap, set, want);
    uint64_t got = 0;

    if (index)
        return split_give_back(self, index) != 0;
    while (got < want && list->count) {
        index = list->items[list->count - 1];
        if (peer_block(&self->heap, index)->size < self->settings.most)
            break;
        got += split_give_back(self, index);
    }
    return got >= want;
}

static void give_all_back(struct split *self)
{
    const struct driver *driver = &self->heap.device->driver;

    for (uint32_t set = 0; set < self->heap.set_count; set++) {
        const struct peer_line *line = &self->heap.lines[set];
        if (line->first < line->count)
            (void)driver->fence_wait(driver->self, line->items[line->count - 1].fence, 0);
        peer_free_passed(&self->heap, set, true);
    }
    for (uint32_t set = 0; set < self->heap.set_count; set++) {
        const struct peer_list *list = &self->heap.lists[set];
        for (size_t at = 0; at < list->count;) {
            if (is_whole(self, list->items[at]))
                (void)split_give_back(self, list->items[at]);
            else
                at++;
        }
    }
}

/* ── */

static uint32_t split_find(struct split *self, uint32_t set, uint64_t rounded)
{
    uint32_t index = peer_find(&self->heap, set, rounded);
    uint64_t most = self->settings.most;

    if (!index)
        return 0;
    uint64_t size = peer_block(&self->heap, index)->size;
    if (rounded < most ? size >= most : size >= rounded + SLACK)
        return 0;
    peer_pull(&self->heap, index);
    return index;
}

static uint32_t split_grow(struct split *self, uint32_t set, uint64_t rounded, uint32_t stream)
{
    uint64_t bytes = peer_torch_segment(rounded);

    split_collect(self);
    if (self->held + bytes > self->settings.limit
            && (!give_uncut_back(self, set, rounded) || self->held + bytes > self->settings.limit))
        give_all_back(self);
    self->held += bytes;
    return peer_grow(&self->heap, bytes, set, stream);
}

static void split_take(void *opaque, uint32_t number, uint64_t size, uint32_t stream)
{
    struct split *self = split_of(opaque);
    struct peer_heap *heap = &self->heap;
    uint64_t rounded = peer_torch_round(size);
    uint32_t set = split_set(self, stream, rounded);

    peer_torch_poll(heap);
    uint32_t index = split_find(self, set, rounded);
    if (!index)
        index = split_grow(self, set, rounded, stream);
    uint64_t left = peer_block(heap, index)->size - rounded;
    if (peer_torch_is_small(rounded) ? left >= LEAST
                                     : rounded < self->settings.most && left > MIB) {
        uint32_t rest = peer_cut(heap, index, rounded);
        peer_block(heap, rest)->fence = self->asked;
        peer_put(heap, rest);
    }
    peer_own(heap, number, index);
}

static void split_give(void *opaque, uint32_t number, uint32_t stream)
{
    struct split *self = split_of(opaque);

    peer_block(&self->heap, self->heap.owners[number])->fence = self->asked;
    peer_torch_give(self, number, stream);
}

const struct peer peer_split = {
        .size = sizeof(struct split),
        .close = peer_split_close,
        .know = split_know,
        .take = split_take,
        .give = split_give,
};

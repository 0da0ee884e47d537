/* SPDX-License-Identifier: MIT */
/*
 * RMM's pool, started with nothing: each growth is as large as the request or as all that it has already, whichever is more.
 * One list of free blocks per stream; a block belongs to the stream that it was freed on, and joins neighbours of that list
 * only. The smallest block that fits is taken, of these the lowest, and the request gets its low end. If the stream has
 * none, the other streams are asked in turn (a wait for their event is inserted); then their lists are joined to the
 * stream's own, one by one; then the pool grows. Each free records the event of its stream. Nothing is ever given back.
 */
#include "tests/bench/models/models.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/replay/peer_heap.h"

#define ALIGNMENT UINT64_C(256)

struct rmm {
    struct peer_heap heap;
    uint64_t held;
    uint64_t *events; /* per set: of its last free, 0 = none */
    size_t event_room;
};

static void rmm_close(void *self)
{
    struct rmm *rmm = self;

    free(rmm->events);
    peer_close(rmm);
}

static uint32_t peer_rmm_set_of(struct rmm *rmm, uint32_t stream)
{
    uint32_t set = peer_set(&rmm->heap, stream, 0);

    rmm->events = vec_grow(rmm->events, (size_t)set + 1, sizeof(*rmm->events), &rmm->event_room);
    return set;
}

static void peer_rmm_wait_for(struct rmm *rmm, uint32_t stream, uint32_t other)
{
    const struct driver *driver = &rmm->heap.device->driver;

    (void)driver->stream_wait_fence(driver->self, stream, rmm->events[other]);
}

/* What another stream has freed, behind its event. */
static uint32_t find_elsewhere(struct rmm *rmm, uint32_t stream, uint32_t set, uint64_t size)
{
    for (uint32_t other = 0; other < rmm->heap.set_count; other++) {
        uint32_t index = other == set ? 0 : peer_find(&rmm->heap, other, size);
        if (!index)
            continue;
        peer_rmm_wait_for(rmm, stream, other);
        return index;
    }
    return 0;
}

static void merge_list(struct rmm *rmm, uint32_t stream, uint32_t set, uint32_t other)
{
    struct peer_heap *heap = &rmm->heap;
    uint32_t index;

    peer_rmm_wait_for(rmm, stream, other);
    while ((index = peer_find(heap, other, 0)) != 0) {
        peer_pull(heap, index);
        peer_block(heap, index)->set = set;
        peer_free(heap, index);
    }
}

static uint32_t find_merged(struct rmm *rmm, uint32_t stream, uint32_t set, uint64_t size)
{
    uint32_t index = 0;

    for (uint32_t other = 0; other < rmm->heap.set_count && !index; other++) {
        if (other == set || !peer_find(&rmm->heap, other, 0))
            continue;
        merge_list(rmm, stream, set, other);
        index = peer_find(&rmm->heap, set, size);
    }
    return index;
}

static uint32_t peer_rmm_grow(struct rmm *rmm, uint32_t set, uint64_t size, uint32_t stream)
{
    uint64_t bytes = size > rmm->held ? size : rmm->held;

    rmm->held += bytes;
    return peer_grow(&rmm->heap, bytes, set, stream);
}

static void rmm_take(void *self, uint32_t number, uint64_t size, uint32_t stream)
{
    struct rmm *rmm = self;
    struct peer_heap *heap = &rmm->heap;
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    uint32_t set = peer_rmm_set_of(rmm, stream);
    uint32_t index = peer_find(heap, set, rounded);

    if (!index)
        index = find_elsewhere(rmm, stream, set, rounded);
    if (!index)
        index = find_merged(rmm, stream, set, rounded);
    if (index)
        peer_pull(heap, index);
    else
        index = peer_rmm_grow(rmm, set, rounded, stream);
    /* what is left over stays in the list that it came from */
    if (peer_block(heap, index)->size > rounded)
        peer_put(heap, peer_cut(heap, index, rounded));
    peer_own(heap, number, index);
}

static void rmm_give(void *self, uint32_t number, uint32_t stream)
{
    struct rmm *rmm = self;
    struct peer_heap *heap = &rmm->heap;
    const struct driver *driver = &heap->device->driver;
    uint32_t index = peer_disown(heap, number);
    uint32_t set = peer_rmm_set_of(rmm, stream);

    (void)driver->stream_record(driver->self, stream, &rmm->events[set]);
    peer_block(heap, index)->set = set;
    peer_free(heap, index);
}

const struct peer peer_rmm = {
        .size = sizeof(struct rmm),
        .close = rmm_close,
        .take = rmm_take,
        .give = rmm_give,
};

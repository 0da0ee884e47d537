/* SPDX-License-Identifier: MIT */
/*
 * peer.h - other allocators' policies, as models.
 *
 * Each model is written from the description of its allocator (what is known of it stands in the man page, what is assumed
 * too) and makes its driver calls through the counting driver, which counts them as it does for the pool. A model decides
 * addresses and sizes; it has no memory and is never out of it: what allocators do on a full device is not modelled.
 *
 *     whatif ─► take(block, size, stream) ─► the model's free lists (peer_heap.h) ─┬─ a free block
 *                                                                                  └─ mem_alloc · handle_create · map
 *            ─► give(block, stream)
 *
 * One instance serves one device. Blocks are the caller's small numbers. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PEER_H
#define KEDGE_TOOLS_PEER_H

#include "tools/replay/counting.h"

struct peer_device {
    struct driver driver;
    struct counting *counting; /* for what the driver does without a call of the table */
};

struct peer {
    size_t size; /* of an instance, which begins with a struct peer_heap */
    void (*close)(void *self);
    /* The block is born on a stream; 0 = the program did not say. */
    void (*take)(void *self, uint32_t block, uint64_t size, uint32_t stream);
    /* It is freed. A stream other than its own: it was used on several, and the work of all of them is over when what
     * was submitted to this one is. */
    void (*give)(void *self, uint32_t block, uint32_t stream);
    /* The program has waited for the device: what is free and above `threshold` bytes held may go back. NULL: nothing does. */
    void (*waited)(void *self, uint64_t threshold);
};

/* An instance; the device must outlive it. */
void *peer_open(const struct peer *peer, const struct peer_device *device);

extern const struct peer peer_torch, peer_expandable, peer_native;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * peer.h - other allocators' policies, as models.
 *
 * Each model is written from the description of its allocator (the man page has what is known of
 * it, and what is assumed) and makes its driver calls through the counting driver, which counts
 * them as it does for the pool. A model decides addresses and sizes; it has no memory and never
 * runs out: the behaviour of allocators on a full device is not modelled.
 *
 *     whatif ─► take(block, size, stream) ─► the model's free lists (peer_heap.h) ─┐
 *                ┌────────────────────────────────────────────────────────────┘
 *                ├─ a free block
 *                └─ mem_alloc · handle_create · map
 *            ─► give(block, stream)
 *
 * One instance serves one device. Blocks are the caller's small numbers. Threads: none. Memory:
 * vec.h.
 */
#ifndef KEDGE_TOOLS_PEER_H
#define KEDGE_TOOLS_PEER_H

#include "tools/replay/counting.h"

struct peer_device {
    struct driver driver;
    struct counting *counting; /* for work inside the driver, without a call of the table */
};

struct workload;

struct peer {
    size_t size; /* of an instance, whose first member is a struct peer_heap */
    void (*close)(void *self);
    /* What will be asked for on the device, before the first request. NULL: it plans nothing. */
    void (*know)(void *self, const struct workload *workload, int device);
    /* The block is allocated on a stream; 0 = stream unknown. */
    void (*take)(void *self, uint32_t block, uint64_t size, uint32_t stream);
    /*
     * The block is freed. If `stream` is not the block's own, several streams used it, and their
     * work on it is over when the work submitted to `stream` is.
     */
    void (*give)(void *self, uint32_t block, uint32_t stream);
    /*
     * The program has waited for the device: free memory beyond `threshold` bytes held may go back.
     * NULL: none does.
     */
    void (*waited)(void *self, uint64_t threshold);
};

/* Opens an instance; the device must outlive it. */
void *peer_open(const struct peer *peer, const struct peer_device *device);

extern const struct peer peer_torch, peer_expandable, peer_native;

#endif

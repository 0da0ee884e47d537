/* SPDX-License-Identifier: MIT */
/*
 * peer.h - other allocators' policies, as models.
 *
 * Each model is written from the description of its allocator (what is known of it stands in the man page, what is assumed
 * too) and makes its driver calls through struct driver, so that the counting driver counts for it as for the pool. A model
 * decides addresses and sizes; it holds no memory and is never out of it.
 *
 *     whatif ─► take(block, size, stream) ─► the model's free lists ─┬─ a free block
 *                                                                    └─ driver.mem_alloc / handle_create
 *            ─► give(block, stream)
 *
 * One instance serves one device. Blocks are the caller's small numbers. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PEER_H
#define KEDGE_TOOLS_PEER_H

#include "alloc/driver.h"

struct peer {
    const char *name;
    const char *summary; /* one line: whose policy, with which settings */
    void *(*open)(const struct driver *driver);
    void (*close)(void *self);
    /* The block is born on a stream (0 = the legacy stream or not known). */
    void (*take)(void *self, uint32_t block, uint64_t size, uint32_t stream);
    /* It is freed. A stream other than its own says that it was used on several, and that the end of that use is known on
     * this one. */
    void (*give)(void *self, uint32_t block, uint32_t stream);
};

#endif

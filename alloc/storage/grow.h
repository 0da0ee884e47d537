/* SPDX-License-Identifier: MIT */
/*
 * grow.h - asking the driver for memory: segments, slots of an arena, a handle for a hinted block.
 *
 * Each function adds what it got and takes the request's piece in one hold of the lock, so that no other thread can take
 * it in between; if anything fails midway, what was done is undone and the block that stood for it is gone or a gap.
 * Threads: any, with no lock held; several may grow at once, each its own block. Rules: R15 R19 R36 R76.
 */
#ifndef KEDGE_ALLOC_GROW_H
#define KEDGE_ALLOC_GROW_H

#include "alloc/storage/commit.h"

/* How many bytes more would be held from the driver if the request were served by growth now. */
uint64_t grow_need(struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* How many of `need` bytes would come from under free blocks instead of from the driver (remap.h). */
uint64_t grow_moves(struct pool *pool, const struct serve *serve, uint64_t need) POOL_LOCKED;

/* How wide the slots of the range are that should grow for the request; 0 = as its arena has them. */
uint64_t grow_wish(const struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* Grows the heap of the request and hands out the piece: 0, the driver's code, or -errno (-ENOTSUP: there is no
 * address range, or no VMM at all). */
int grow_serve(struct pool *pool, struct serve *serve);

/* Asks what a heap needs to know of its device before it can serve: granularity, address ranges. 0, the driver's code or
 * -errno. A mapped heap that gets no range serves nothing and asks again later, unless the device has no VMM. */
int grow_prepare(struct pool *pool, struct heap *heap, bool hinted);

/* A hinted block that has addresses and, until it is used, no storage (swapset.h). Results as grow_serve. */
int grow_bare(struct pool *pool, struct serve *serve);

/* The same in managed memory. DRIVER_NOT_SUPPORTED where the device does not use that beside the host. */
int grow_managed(struct pool *pool, struct serve *serve);

/* [driver] A physical handle, a spare or a new one, counted as held. 0, the driver's code, or -errno. */
int grow_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t *ret_handle);

/* The size of a physical handle: of the arena's slots; and what sizes of hinted blocks are multiples of. */
uint64_t grow_slot(const struct pool *pool, const struct heap *heap);
uint64_t grow_unit(const struct heap *heap);

#endif

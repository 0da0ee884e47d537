/* SPDX-License-Identifier: MIT */
/*
 * grow.h - growth by memory of the driver: segments, slots of an arena, a handle for a hinted
 * block.
 *
 * Each function adds the memory and takes the request's piece in one hold of the lock, so that no
 * other thread can take it in between. If a step fails, the earlier steps are undone, and the block
 * that represented them is deleted or becomes a gap.
 * Threads: any, with no lock held; several may grow at once, each its own block.
 * Rules: R15 R19 R36 R76.
 */
#ifndef KEDGE_ALLOC_GROW_H
#define KEDGE_ALLOC_GROW_H

#include "alloc/storage/commit.h"

/* Additional bytes that would be held from the driver if growth served the request now. */
uint64_t grow_need(struct pool *pool, const struct serve *serve) POOL_LOCKED;

/* Part of `need` that would come from free blocks instead of from the driver (remap.h). */
uint64_t grow_moves(struct pool *pool, const struct serve *serve, uint64_t need) POOL_LOCKED;

/* Grows the heap of the request and commits the piece: 0, the driver's code, or -errno (-ENOTSUP:
 * there is no address range, or no VMM at all). */
int grow_serve(struct pool *pool, struct serve *serve);

/* Queries the device's properties that a heap needs before it can serve: granularity, address
 * ranges. 0, the driver's code or -errno. A mapped heap without a range serves nothing and asks
 * again later, unless the device has no VMM. */
int grow_prepare(struct pool *pool, struct heap *heap, bool hinted);

/* A hinted block with addresses but, until its first use, without storage (swapset.h). Results as
 * grow_serve. */
int grow_bare(struct pool *pool, struct serve *serve);

/* The same in managed memory. DRIVER_NOT_SUPPORTED where the device does not use that concurrently
 * with the host. */
int grow_managed(struct pool *pool, struct serve *serve);

/* [driver] A physical handle, a spare or a new one, counted as held. 0, the driver's code, or
 * -errno. */
int grow_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t *ret_handle);

/* The size of a physical handle: of the arena's slots; and the unit of hinted blocks' sizes. A power
 * of two. */
uint64_t grow_unit(const struct heap *heap);

#endif

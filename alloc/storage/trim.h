/* SPDX-License-Identifier: MIT */
/*
 * trim.h - giving memory back to the driver, or to the shelf of its heap.
 *
 * What can go without touching a block that somebody needs, cheapest first: handles on the shelf, hinted blocks that are
 * idle, plain segments that are wholly free, whole slots of the arena inside clean free blocks (from the top down). Only
 * what is clean goes: what waits for a fence is the business of reclaim.h.
 *
 * Never called by a free. Threads: any, with no lock held; makes driver calls. Rules: R31 R36 R78 R81.
 */
#ifndef KEDGE_ALLOC_TRIM_H
#define KEDGE_ALLOC_TRIM_H

#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

/* Gives back at most `bytes` of one heap. Returns what was given back. */
uint64_t trim_heap(struct pool *pool, struct heap *heap, uint64_t bytes);

/* The same at a wait of the program: at least so much, if there is so much. Wide handles stay with us as spare ones (handles.h) as long
 * as the device has an eighth of its memory free. Other processes that ask for more than that meanwhile do not get it. */
uint64_t trim_at_wait(struct pool *pool, struct heap *heap, uint64_t bytes);

/* Releases spare handles of a device until those are so many bytes, or there are none. Returns the bytes. */
uint64_t trim_spares(struct pool *pool, struct device *device, uint64_t bytes);

/* Releases as many that no more is held than ever before, or than is not spare, when the driver is asked for so much. */
void trim_spares_for(struct pool *pool, struct device *device, uint64_t size);

/* The same over all heaps of a device. */
uint64_t trim_device(struct pool *pool, int device, uint64_t bytes);

/* The same for plain segments alone, whose contexts may be busy for so long: else they stay, since their free would wait (R104). */
uint64_t trim_busy(struct pool *pool, int device, uint32_t timeout_ms);

/* Must its segments stay, since its context is busy? */
bool trim_is_held_up(struct pool *pool, const struct heap *heap);

/* The same for a request of this heap: its slots of this size (0 = as its arena has them) and their handles stay, they are moved
 * instead (remap.h). */
uint64_t trim_for(struct pool *pool, const struct heap *heap, uint64_t slot, uint64_t bytes);

/* Gives back the plain segment that a request would be cut from, if it is wholly free and of more than `most` bytes. Returns
 * what was given back. */
uint64_t trim_segment(struct pool *pool, struct heap *heap, const struct want *want, uint64_t most);

/* Gives back handles of a heap's shelves until that are `bytes`, or there are none. Returns the bytes. */
uint64_t trim_shelves(struct pool *pool, struct heap *heap, uint64_t bytes);

/* A handle goes to the shelf of its size, or where that has no room back to the driver. */
void trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);

/* What becomes of a handle that was unmapped: trim_put_handle, or the caller's own. */
typedef void trim_put(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);

/* Unmaps the pieces of `each` bytes of a BUSY block, whose handles begin at `handles`, in one call if the driver does that; each
 * is then `put`. False: the driver refused one, and from there on nothing was done. */
bool trim_unmap(struct pool *pool, struct heap *heap, uint64_t *handles,
        const struct bestfit_node *node, uint64_t each, trim_put *put);

/* What a BUSY block is when its storage was taken away or did not come; `is_stuck`: when some of it could not be unmapped. */
void trim_settle(struct pool *pool, uint32_t index, bool is_stuck) POOL_LOCKED;

/* Gives back a heap that no table names any more, live blocks or not, and forgets it. */
void trim_whole_heap(struct pool *pool, struct heap *heap);

/* [driver] Gives back the segments of a heap that were shown to others and are free now. */
void trim_sealed(struct pool *pool, struct heap *heap);

#endif

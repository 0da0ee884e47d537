/* SPDX-License-Identifier: MIT */
/*
 * trim.h - returning memory to the driver, or to the shelf of its heap.
 *
 * Returns memory that no block needs, cheapest first: handles on the shelf, idle hinted blocks,
 * plain segments that are wholly free, whole slots of the arena inside idle free blocks (from the
 * top down). Only idle memory goes: reclaim.h handles memory that waits for a fence.
 *
 * A free never calls this.
 * Threads: any, with no lock held; makes driver calls. Rules: R31 R36 R78 R81.
 */
#ifndef KEDGE_ALLOC_TRIM_H
#define KEDGE_ALLOC_TRIM_H

#include "alloc/heap/records.h"
#include "alloc/storage/fit.h"

/* Returns at most `bytes` of one heap to the driver. Returns the number of bytes. */
uint64_t trim_heap(struct pool *pool, struct heap *heap, uint64_t bytes);

/* The same when the program synchronises: at least this many bytes, if there are as many. If 1 GiB
 * or more could go, handles of slots are kept as spare ones (handles.h) while an eighth of the
 * device's memory is free: a handle costs 193 us to create. Other processes that need more than
 * that meanwhile do not get it. */
uint64_t trim_at_wait(struct pool *pool, struct heap *heap, uint64_t bytes);

/* Releases spare handles of a device until `bytes` are released, or none is left. Returns the
 * bytes. */
uint64_t trim_spares(struct pool *pool, struct device *device, uint64_t bytes);

/* Before a driver call for `size` bytes: releases spare handles until held memory, spare ones
 * included, stays at or below its high mark, or no spare one is left. */
void trim_spares_for(struct pool *pool, struct device *device, uint64_t size);

/* The same over all heaps of a device. */
uint64_t trim_device(struct pool *pool, int device, uint64_t bytes);

/* The same for plain segments only, whose contexts may be busy for at most `timeout_ms`; otherwise
 * they stay, since their free would wait (R104, no useless waits). */
uint64_t trim_busy(struct pool *pool, int device, uint32_t timeout_ms);

/* True if its segments must stay because its context is busy. */
bool trim_is_held_up(struct pool *pool, const struct heap *heap);

/* The same for a request of this heap: its slots and their handles stay, since they move instead
 * (remap.h). */
uint64_t trim_for(struct pool *pool, const struct heap *heap, uint64_t bytes);

/* Returns the plain segment that a request would be cut from, if it is wholly free and larger than
 * `most` bytes. Returns the bytes. */
uint64_t trim_segment(struct pool *pool, struct heap *heap, const struct want *want, uint64_t most);

/* Returns handles of a heap's shelves until `bytes` are returned, or none is left. Returns the
 * bytes. */
uint64_t trim_shelves(struct pool *pool, struct heap *heap, uint64_t bytes);

/* Puts a handle on the shelf of its size, or without space there returns it to the driver. */
void trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);

/* Takes an unmapped handle: trim_put_handle, or the caller's function. */
typedef void trim_put(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle);

/* Unmaps the pieces of `each` bytes of a BUSY block, whose handles begin at `handles`, in one call
 * if the driver supports that; each is then `put`. False: the driver refused one, and the rest is
 * unchanged. */
bool trim_unmap(struct pool *pool, struct heap *heap, uint64_t *handles,
        const struct bestfit_node *node, uint64_t each, trim_put *put);

/* Sets the state of a BUSY block whose storage was removed or did not come; `is_stuck`: some of it
 * could not be unmapped. */
void trim_settle(struct pool *pool, uint32_t index, bool is_stuck) POOL_LOCKED;

/* Returns and frees a heap that is in no table any more, with its live blocks. */
void trim_whole_heap(struct pool *pool, struct heap *heap);

/* [driver] Returns the segments of a heap that were exported and are free now. */
void trim_sealed(struct pool *pool, struct heap *heap);

#endif

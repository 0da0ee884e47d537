/* SPDX-License-Identifier: MIT */
/*
 * vacate.h - slots whose storage is mapped at a new address while the device may still use the old
 * one.
 *
 * An unmap acts when the host makes it, so storage that the device may still use cannot be
 * unmapped. It need not be: one handle may be mapped at two addresses, and accesses through both
 * are defined as long as the device orders them (R95, aliases). A block that is free on a stream is
 * ordered before the stream's next work. So a request on the same stream gets the storage at once,
 * at a new address, without a wait on the host:
 *
 *     slot    FREE on S since point p ─vacate_slot─► VACATED ─S has passed p─► ready
 *                                     ─vacate_clear: unmap─► DECOMMITTED
 *     handle  mapped in a gap that becomes a block of S, free on S since p until it is allocated
 *
 * A VACATED block is one slot. It is in no index, merges with no neighbour and is part of no spot,
 * so nothing is placed there while the old mapping exists. The handle counts where it was mapped
 * last; `handles` of the slot still names it. A handle may be vacated again before its first slot
 * is unmapped: struct vacated counts the mappings and names the latest slot.
 *
 * Failures:
 *     no record       vacate_slot returns -ENOMEM: the storage stays where it is
 *     map refused     vacate_return: the latest slot of the handle is free on its stream again; a
 *                     device that never mapped a handle twice is not asked again
 *                     (device.no_aliases)
 *     access refused  the new mappings are undone, each handle returns in the same way
 *     unmap refused   the slot stays ready and is tried again later; until then its handle is kept
 *     stream is lost  its points may never pass: the slot waits for an epoch, like all frees there
 *     heap ends       vacate_end unmaps the remaining slots before any handle is released
 *
 * Storage under pins does not move (their blocks are LIVE or KEPT, and blocks that other processes
 * or unordered devices may see are pinned), and none moves during a capture (no driver call is made
 * then, R82). An unmap waits until no submission is between its guard and the driver (R66, reader
 * sections).
 * Threads: the caller holds the pool lock, unless it says [driver]: any, with no lock held.
 * Rules: R36 R66 R73 R95.
 */
#ifndef KEDGE_ALLOC_VACATE_H
#define KEDGE_ALLOC_VACATE_H

#include "alloc/heap/records.h"

/* May a request on this stream get storage in this way? */
static inline bool vacate_may(const struct heap *heap, uint32_t stream)
{
    return stream && !heap->device->no_aliases;
}

/* Vacates the first slot of a BUSY block that is whole slots and was free on a stream; *ret_rest is
 * the BUSY block of the other slots, 0 = none. The caller maps the handle. 0, or -ENOMEM: nothing
 * has changed. */
int vacate_slot(
        struct pool *pool, uint32_t index, uint32_t *ret_rest, uint64_t *ret_handle) POOL_LOCKED;

/* Returns an unmapped handle to the slot that it was vacated from last. False: no such slot may
 * still be in use by the device, so the handle is free. */
bool vacate_return(struct pool *pool, struct heap *heap, uint64_t handle) POOL_LOCKED;

/* A slot that waited for an epoch is ready. */
void vacate_ready(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Marks slots of the heap as ready whose points have passed. */
void vacate_sweep(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Moves slots of a stream that wait for points after this one to the chain. */
void vacate_lose(struct pool *pool, struct heap *heap, const struct stream *stream, uint64_t point,
        struct fence_chain *chain) POOL_LOCKED;

/* True if a handle is mapped at a vacated slot. */
static inline bool vacate_names(const struct heap *heap, uint64_t handle)
{
    return table_find(&heap->vacated_handles, handle) != NULL;
}

/* [driver] Unmaps the ready slots. */
void vacate_clear(struct pool *pool);

/* [driver] Unmaps all vacated slots of a heap that only the caller sees; slots that the driver
 * refuses stay VACATED. */
void vacate_end(struct pool *pool, struct heap *heap);

/* [driver] True if no submission is between its guard and the driver: it may have named a freed
 * block (R66). Submissions end soon; waiting for the device does not help. */
bool vacate_is_quiet(struct pool *pool);

#endif

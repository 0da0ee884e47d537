/* SPDX-License-Identifier: MIT */
/*
 * vacate.h - slots whose storage is mapped at a new place before the device has left the old one.
 *
 * An unmap acts when the host makes it, so storage that the device may still use cannot be taken away. It need not be: one
 * handle may be mapped at two addresses, and accesses through both are defined as long as the device orders them (R95). What is
 * free on a stream is ordered before whatever that stream is given next. So a request on the same stream gets the storage at
 * once, at its own address, and nobody waits on the host:
 *
 *     slot    FREE on S since point p ─vacate_slot─► VACATED ─S has passed p─► ready ─vacate_clear: unmap─► DECOMMITTED
 *     handle                               └──► mapped in a gap that becomes a block of S, free on S since p until it is handed out
 *
 * A VACATED block is one slot. It is in no index, joins no neighbour and is no part of a spot, so nothing is placed there as long
 * as the old mapping stands. The handle counts where it was mapped last; `handles` of the slot still says which one it is.
 * A handle may be vacated again before its first slot is unmapped: struct vacated counts the mappings and knows the latest.
 *
 * What can fail:
 *     no record       vacate_slot says -ENOMEM: the storage stays where it is
 *     map refused     vacate_return: the latest slot of the handle is free on its stream again, as if nothing had happened; a
 *                     device that has never mapped a handle twice is not asked again (device.no_aliases)
 *     access refused  the new mappings are undone, each handle returns in the same way
 *     unmap refused   the slot stays ready and is tried at the next look; until then its handle is not released
 *     stream is lost  its points may never come: the slot waits for an epoch, like everything that was freed there
 *     heap ends       vacate_end unmaps what is left, before any handle is released
 *
 * No storage is taken from under pins (their blocks are LIVE or KEPT, and what other processes or devices without order may see
 * is pinned), and none while a capture is active (no driver call is made then, R82). An unmap waits until no
 * submission is between its guard and the driver (R66).
 * Threads: the caller holds the pool lock, unless it says [driver]: any, with no lock held. Rules: R36 R66 R73 R95.
 */
#ifndef KEDGE_ALLOC_VACATE_H
#define KEDGE_ALLOC_VACATE_H

#include "alloc/heap/records.h"

/* May a request on this stream get storage in this way? */
static inline bool vacate_may(const struct pool *pool, const struct heap *heap, uint32_t stream)
{
    return pool->opts.alias && stream && !heap->device->no_aliases;
}

/* Vacates the first slot of a BUSY block that is whole slots and was free on a stream; *ret_rest is the block of the others, BUSY, 0 =
 * there are none. The handle is the caller's to map. 0, or -ENOMEM: nothing has happened. */
int vacate_slot(
        struct pool *pool, uint32_t index, uint32_t *ret_rest, uint64_t *ret_handle) POOL_LOCKED;

/* A handle that is mapped at no new place goes back to the slot that it was vacated from last. False: there is none from which the
 * device may not be gone yet, so the handle is anybody's. */
bool vacate_return(struct pool *pool, struct heap *heap, uint64_t handle) POOL_LOCKED;

/* A slot that waited for an epoch is ready. */
void vacate_ready(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Those of the heap whose points have passed are ready. */
void vacate_sweep(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* Those of a stream that wait for later points than this one wait in the chain instead. */
void vacate_lose(struct pool *pool, struct heap *heap, const struct stream *stream, uint64_t point,
        struct fence_chain *chain) POOL_LOCKED;

/* True if a handle is mapped at a vacated slot. */
static inline bool vacate_names(const struct heap *heap, uint64_t handle)
{
    return table_find(&heap->vacated_handles, handle) != NULL;
}

/* [driver] Unmaps what is ready. */
void vacate_clear(struct pool *pool);

/* [driver] Unmaps all vacated slots of a heap that only the caller sees; what the driver refuses stays VACATED. */
void vacate_end(struct pool *pool, struct heap *heap);

/* [driver] True if no submission is between its guard and the driver: one that was may still have named a freed block (R66). They
 * end soon, but not by waiting for the device. */
bool vacate_is_quiet(struct pool *pool);

#endif

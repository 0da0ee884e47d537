/* SPDX-License-Identifier: MIT */
/*
 * remap.h - storage of a mapped heap that stands under free blocks, moved to where a request needs it.
 *
 * Physical handles can be mapped elsewhere, so what is free but scattered is as good as what is free in one piece, for the
 * price of an unmap, a map and a share of a set-access (63 us for 2 MiB on an A100). Moved are whole slots inside clean
 * free blocks, never more than the request lacks:
 *
 *     lazy    what growth would hold above a budget (commit_move_budget), or more than the device has
 *     eager   all that the request lacks, before the driver is asked for a handle
 *     never   nothing
 *
 * An unmap acts when the host makes it, not when a stream gets there. So clean blocks give storage first: those whose work the
 * host knows to be done (reclaim_points). Where there are none, what is free on the request's own stream gives it, and stays
 * mapped where it was until the device has left it (vacate.h). What is free on other streams moves once it is the stream's own
 * (stream_take.h). Where storage is unmapped, no submission may be between its guard and the driver at that moment (R66): one that
 * names a freed block rightly has returned before the free, but the others are not told apart. A slot under a block that is
 * pinned is never inside a free block: pinned ones are LIVE, or KEPT after their free (pin.h, R80).
 *
 *     victim FREE ─pick─► BUSY ─unmap─► handles, mapped by the caller one by one (grow.c) ─end─► DECOMMITTED
 *                                ├─ refused: slot by slot; refused then: that slot KEPT, the rest FREE again
 *                                └─ of a stream: slot by slot VACATED, its handle mapped by the caller
 *
 * Threads: any, with no lock held, unless it says locked; each struct remap is its thread's own. Rules: R36 R66 R72 R73 R80 R95.
 */
#ifndef KEDGE_ALLOC_REMAP_H
#define KEDGE_ALLOC_REMAP_H

#include "alloc/heap/records.h"

/* One request's moves. */
struct remap {
    struct heap *heap;
    uint64_t left;  /* bytes that may still be moved */
    uint64_t slot;  /* from arenas of these slots, 0 = of any */
    uint32_t block; /* the victim, BUSY; 0 = none */
    uint64_t done;  /* bytes of it whose handles were handed out */
    uint64_t bare;  /* bytes of it that were unmapped in one call */
    uint64_t moved; /* handles handed out */
    /* where nothing is clean, what is free on this stream is moved too (vacate.h), 0 = it is not */
    uint32_t stream;
    uint64_t aliased; /* of `moved`, those that are */
    uint64_t point;   /* of the stream that they all need */
    bool is_alias; /* the victim is a stream's, and the handle that was handed out last is still mapped there */
    bool stuck; /* the slot behind `done` could not be unmapped */
};

/* Bytes that could be moved now for such a request (heap, slot, stream), at most `most`. */
uint64_t remap_available(struct pool *pool, const struct remap *remap, uint64_t most) POOL_LOCKED;

/* The next handle, taken from under a free block: it is mapped nowhere (or at a vacated slot, is_alias) and counted as held. 0, or
 * -ENOENT: there is none, or no more may be moved. */
int remap_next(struct pool *pool, struct remap *remap, uint64_t *ret_handle);

/* A handle that was unmapped with those before it and is not wanted any more: it is the caller's, mapped nowhere and counted as
 * held. False: there is none. */
bool remap_rest(struct pool *pool, struct remap *remap, uint64_t *ret_handle);

/* The last victim becomes what it is now. Always call it, whether or not remap_next has found something, and after remap_rest has
 * found nothing. */
void remap_end(struct pool *pool, struct remap *remap);

#endif

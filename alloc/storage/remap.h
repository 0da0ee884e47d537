/* SPDX-License-Identifier: MIT */
/*
 * remap.h - moving storage of a mapped heap from free blocks to where a request needs it.
 *
 * Physical handles can be mapped elsewhere, so scattered free storage is as good as contiguous
 * storage, at the price of an unmap, a map and a share of a set-access (63 us for 2 MiB on an
 * A100). Whole slots inside idle free blocks move, never more than the request lacks:
 *
 *     auto    as much as pace.h says: by default all finished bytes that the request lacks
 *     lazy    the bytes that growth would hold above a budget (commit_move_budget), or that the
 *             device lacks
 *     eager   all bytes that the request lacks, before the driver is asked for a handle
 *     never   nothing
 *
 * An unmap acts when the host makes it, not when a stream reaches it. So storage is taken from idle
 * blocks first: those whose work the host knows to have completed (reclaim_points). If there are
 * none, free blocks of the request's own stream supply it, and it stays mapped at its old address
 * until the device has left it (vacate.h). Free blocks of other streams move once the stream has
 * taken them (stream_take.h). When storage is unmapped, no submission may be between its guard and
 * the driver (R66, reader sections): a submission that correctly names a freed block has returned
 * before the free, but it cannot be told from others. A pinned block is never free: it is LIVE, or
 * KEPT after its free (pin.h, R80).
 *
 *     victim FREE ─pick─► BUSY ─unmap─► handles, mapped by the caller one by one (grow.c)
 *                               ─end─► DECOMMITTED
 *               ├─ unmap refused: slot by slot; refused again: that slot KEPT, the rest FREE
 *               └─ of a stream: slot by slot VACATED, its handle mapped by the caller
 *
 * Threads: any, with no lock held, unless it says locked; each thread has its own struct remap.
 * Rules: R36 R66 R72 R73 R80 R95.
 */
#ifndef KEDGE_ALLOC_REMAP_H
#define KEDGE_ALLOC_REMAP_H

#include "alloc/heap/records.h"

/* One request's moves. */
struct remap {
    struct heap *heap;
    uint64_t left;  /* bytes that may still be moved */
    uint32_t block; /* the victim, BUSY; 0 = none */
    uint64_t done;  /* bytes of it whose handles were returned */
    uint64_t bare;  /* bytes of it that were unmapped in one call */
    uint64_t moved; /* bytes of handles returned */
    /* if no idle block is left, free blocks of this stream move too (vacate.h), 0 = they do not */
    uint32_t stream;
    uint64_t aliased; /* part of `moved` that is still mapped elsewhere, too */
    uint64_t point;   /* the point of the stream that all of them need */
    /* the victim belongs to a stream, and the last returned handle is still mapped there */
    bool is_alias;
    bool stuck; /* the slot after `done` could not be unmapped */
};

/* Bytes that can move now for such a request (heap, slot, stream), at most `most`. */
uint64_t remap_available(struct pool *pool, const struct remap *remap, uint64_t most) POOL_LOCKED;

/* Of these, bytes that the device has finished with: their moves need no alias. */
uint64_t remap_finished(struct pool *pool, struct heap *heap, uint64_t most) POOL_LOCKED;

/* The next handle, taken from a free block: it is unmapped (or mapped at a vacated slot, is_alias)
 * and counted as held. 0, or -ENOENT: none, or no more may move. */
int remap_next(struct pool *pool, struct remap *remap, uint64_t *ret_handle);

/* A handle that was unmapped with earlier ones and is not needed: it now belongs to the caller,
 * unmapped and counted as held. False: none. */
bool remap_rest(struct pool *pool, struct remap *remap, uint64_t *ret_handle);

/* Ends the last victim and splits it. Always call it, whether or not remap_next has found a handle,
 * after remap_rest has returned false. */
void remap_end(struct pool *pool, struct remap *remap);

#endif

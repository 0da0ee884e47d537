/* SPDX-License-Identifier: MIT */
/*
 * reclaim.h - reclaiming freed and released memory: querying fences, recording points, removing
 * storage.
 *
 * The driver half of fence.h and holder.h. Each function takes the lock to choose, drops it, calls
 * the driver, takes it again and stores the result; several threads may be in each function at
 * once.
 *
 *     grace ─readers ended─► open ─close─► epoch ─passed─┬─► idle       (freed blocks)
 *                                                        ├─► removals ─unmap─► husk, handle shelved
 *                                                        └─► gap        (address without storage)
 *          └─ waits for one stream's event ─► fence of the stream ─passed─► removals
 *     points of streams ─passed─► sweep: blocks become idle
 *
 * Threads: any, with no lock held, unless it says locked. Rules: R1 R2 R36 R57 R66 R70 R71 R73 R74.
 */
#ifndef KEDGE_ALLOC_RECLAIM_H
#define KEDGE_ALLOC_RECLAIM_H

#include "alloc/heap/records.h"

/* Does all work that needs no wait, except points; epochs of a device, or of all (-1). `close`:
 * close an epoch even if it is not due. 0, or the device's own error (> 0). */
int reclaim_poll(struct pool *pool, int device, bool close);

/* True if enough was freed to close an epoch. */
static inline bool reclaim_is_due(const struct pool *pool, const struct device *device)
{
    return device->open.count >= pool->opts.epoch_count
            || device->open.bytes >= device->epoch_bytes;
}

/* The time that the host may wait for one request or call of the program, for all fences together
 * (R73, host waits; R104, no useless waits). It begins with the first wait. A timeline that
 * exhausts it is stalled: until one of its marks has passed, it gets a small part of the next
 * request's patience, once. */
struct reclaim_patience {
    uint64_t end_ns;  /* 0 = no wait yet */
    bool is_over;     /* marks queried now must have passed */
    bool was_stalled; /* a fence of a stalled timeline was waited for */
    /* While another thread ends a context, it is unknown when a fence that covers the context
     * passes: it is only queried, and `missed` is set, unless `for_ends` is. */
    bool for_ends, missed;
};

/* No relevant context of the device is being ended any more: the blocks set aside for that are open
 * again. */
void reclaim_put_back(struct pool *pool, struct device *device) POOL_LOCKED;

/* The milliseconds left, 0 = none. It begins with this call. */
uint32_t reclaim_patience_left(struct pool *pool, struct reclaim_patience *patience);

/* Queries all events of single streams on the device, without a limit: for a full device. */
void reclaim_events(struct pool *pool, int device);

/* True if the stream has frees that no fence covers and that are not known to have passed. */
static inline bool reclaim_is_open(const struct stream *stream)
{
    return stream->newest > max_of(stream->timeline.begun, stream->timeline.passed);
}

/* The host has waited for all frees on a stream up to this point. `born`: identifies the stream. */
void reclaim_passed(struct pool *pool, uint32_t index, uint64_t born, uint64_t point);

/* Waits for the oldest epoch of a device, closing one if there is none; also completes limbo. 0 =
 * something passed, -ENOENT = nothing to wait for, -ETIMEDOUT = the fence did not pass in time or
 * must not be waited for now, > 0 = the device's own error. */
int reclaim_wait(struct pool *pool, int device, struct reclaim_patience *patience);

/* The same, for the epoch with which at least three quarters of the bytes that wait for epochs
 * become free. A wait for the oldest frees a few blocks, and the next request waits again; a wait
 * for the newest would leave the device idle. */
int reclaim_wait_for_most(struct pool *pool, int device, struct reclaim_patience *patience);

/* The same, for all epochs that are closed by now, if they have not passed. Closes none. */
int reclaim_wait_closed(struct pool *pool, int device, struct reclaim_patience *patience);

/* True if the last wait for an epoch of the device ran out of time and no epoch has passed
 * since. */
bool reclaim_is_stalled(struct pool *pool, int device);

/* Records points on the streams whose free blocks in this heap have no fence yet, queries the
 * fences, and makes blocks idle that have passed. Not for stream `but` (0 = for all). 0 or > 0. */
int reclaim_points(struct pool *pool, struct heap *heap, uint32_t but);

/* The same for all streams, but those are left out that were queried since this look began,
 * for whatever heap. */
uint64_t reclaim_begin_look(struct pool *pool);
int reclaim_points_once(struct pool *pool, struct heap *heap, uint64_t look);

/* Waits for one point of a stream that has free blocks in this heap, then sweeps. Results as
 * reclaim_wait. */
int reclaim_wait_point(struct pool *pool, struct heap *heap, struct reclaim_patience *patience);

/* The same over all heaps of a device, and for all points: the memory of other heaps can be
 * returned only when it is idle, and a handle only when no vacated slot maps it any more. */
int reclaim_device_points(struct pool *pool, int device);
void reclaim_wait_device_points(struct pool *pool, int device, struct reclaim_patience *patience);

/* Records a point on a stream now. *ret_number is its number; it covers earlier frees. 0, or the
 * driver's code or -errno: nothing recorded, a later point covers them. */
int reclaim_record(struct pool *pool, uint32_t index, uint64_t *ret_number);
/* The same in a call of the program that is an operation of the stream: also while other streams
 * are captured. */
int reclaim_record_beside(struct pool *pool, uint32_t index, uint64_t *ret_number);

/* Makes sure that a fence covers all frees on this stream. 0, or the error; `beside` as above. */
int reclaim_cover(struct pool *pool, uint32_t index, bool beside);

/* Has a stream passed a point? Records it if needed. 0 = yes, -EAGAIN or -EBUSY = not known,
 * -ENOENT = it cannot be recorded. */
int reclaim_ask_point(struct pool *pool, uint32_t index, uint64_t point);

/* Closes the non-empty epochs of all devices. */
void reclaim_close(struct pool *pool);

/* Moves the blocks of a stream that can be recorded no more to the open chain, in all heaps. */
void reclaim_lose_stream(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Puts marked holders (chained through holder.next) under grace, in the same hold of the lock that
 * marked them: a context that ends later removes its own from the list. `grace` is the caller's
 * from meta_get. After the grace they wait for all work of this stream, 0 = of all streams. */
void reclaim_begin_grace(
        struct pool *pool, struct grace *grace, uint32_t holders, uint64_t stream) POOL_LOCKED;

/* The first grace that waits for readers, NULL = none. */
struct grace *reclaim_grace(struct pool *pool) POOL_LOCKED;

/* Then, [driver]: takes the snapshot of submissions in progress that the grace waits for. It cannot
 * end before this call. */
void reclaim_ask_readers(struct pool *pool, struct grace *grace);

/* Calls do not hold up a block any more; it also waits for the submissions of the snapshot
 * `readers`, 0 = only for its own. */
void reclaim_call_made(struct pool *pool, uint64_t readers) POOL_LOCKED;

/* Queries the fences of a few destroyed streams, in turn, and those that reclaim_lump has given to
 * devices, as long as they have passed: no request may ever need these frees, and until they are
 * known to have passed, records and fences stay. Called when a stream is destroyed, so that their
 * number follows how far the device is behind (R107, nothing grows). */
void reclaim_gone_streams(struct pool *pool);

/* If there are many destroyed streams, the frees of one wait for its last fence like frees without
 * a stream: no request queries each such stream (R107). */
void reclaim_lump(struct pool *pool, uint32_t index);

/* Returns the memory of leaving heaps that nothing uses any more. */
void reclaim_leaving(struct pool *pool);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * reclaim.h - getting freed and released memory back: fences asked, points recorded, storage removed.
 *
 * The driver half of fence.h and holder.h. Each function here works in the shape "ask under the lock, drop it, call the
 * driver, take it, put the result", and several threads may be in each of them at once.
 *
 *     grace ─readers ended─► open ─close─► epoch ─passed─┬─► clean            (freed blocks)
 *                                                        ├─► removals ─unmap─► husk, handle to the shelf
 *                                                        └─► gap              (address of what was freed and is gone)
 *          └─of an event that is waited for alone─► its stream's fence ─passed─► removals
 *     points of streams ─passed─► sweep: blocks become clean
 *
 * Threads: any, with no lock held, unless it says locked. Rules: R1 R2 R36 R57 R66 R70 R71 R73 R74.
 */
#ifndef KEDGE_ALLOC_RECLAIM_H
#define KEDGE_ALLOC_RECLAIM_H

#include "alloc/heap/records.h"

/* Everything that moves without waiting, except points; epochs are those of a device, or of all (-1). `close`: an epoch is closed even
 * if it is not due. 0, or the device's own error (> 0). */
int reclaim_poll(struct pool *pool, int device, bool close);

/* True if so much was freed that an epoch should be closed. */
static inline bool reclaim_is_due(const struct pool *pool, const struct device *device)
{
    return device->open.count >= pool->opts.epoch_count
            || device->open.bytes >= device->epoch_bytes;
}

/* How long the host may wait on behalf of one request or call of the program, for all fences together (R73, R104). The first wait
 * begins it. What has outlasted it is stalled: until some of that has passed, it gets a small part of the next one's patience, once. */
struct reclaim_patience {
    uint64_t end_ns;  /* 0 = no wait yet */
    bool is_over;     /* what is asked now must have passed */
    bool was_stalled; /* a fence of a stalled timeline was waited for */
    /* While another thread ends a context, nobody can tell when a fence that covers the context passes: it is only asked, and
     * `missed` is set, unless `for_ends` is. */
    bool for_ends, missed;
};

/* No context that matters to the device is being ended any more: what was put aside for that is open again. */
void reclaim_put_back(struct pool *pool, struct device *device) POOL_LOCKED;

/* What is left of it in milliseconds, 0 = nothing. It begins with this call. */
uint32_t reclaim_patience_left(struct pool *pool, struct reclaim_patience *patience);

/* Asks all events that single streams have of the device, however many there are: for a full one. */
void reclaim_events(struct pool *pool, int device);

/* Has something been freed on the stream that no fence covers, and that is not known to be over? */
static inline bool reclaim_is_open(const struct stream *stream)
{
    return stream->newest > max_of(stream->timeline.begun, stream->timeline.passed);
}

/* The host has waited for all that was freed on a stream up to this point. `born`: it is that stream still. */
void reclaim_passed(struct pool *pool, uint32_t index, uint64_t born, uint64_t point);

/* Waits for the oldest epoch of a device, closing one if there is none; also lets limbo come to its end. 0 = something passed,
 * -ENOENT = nothing to wait for, -ETIMEDOUT = the fence did not pass in time or may not be waited for now, > 0 = the
 * device's own error. */
int reclaim_wait(struct pool *pool, int device, struct reclaim_patience *patience);

/* The same, for the epoch with which at least three quarters of the bytes that wait for epochs become free. A wait for the oldest
 * brings a few blocks and the next request waits again; a wait for the newest would leave the device without work. */
int reclaim_wait_for_most(struct pool *pool, int device, struct reclaim_patience *patience);

/* True if the last wait for an epoch of the device ran out of time and no epoch has passed since. */
bool reclaim_is_stalled(struct pool *pool, int device);

/* Records the streams whose free blocks in this heap have points that no fence covers yet, asks the fences, makes clean
 * what has passed. Not those of stream `but` (0 = of all). 0 or > 0. */
int reclaim_points(struct pool *pool, struct heap *heap, uint32_t but);

/* Waits for one point of a stream that has free blocks in this heap, then sweeps. Results as reclaim_wait. */
int reclaim_wait_point(struct pool *pool, struct heap *heap, struct reclaim_patience *patience);

/* The same two over all heaps of a device: what other heaps hold can be given back only when it is clean. */
int reclaim_device_points(struct pool *pool, int device);
void reclaim_wait_device_points(struct pool *pool, int device, struct reclaim_patience *patience);

/* Records a point on a stream now. *ret_number is the number that was taken; it covers what was freed before. 0, or the
 * driver's or -errno: nothing recorded, a later point covers it. */
int reclaim_record(struct pool *pool, uint32_t index, uint64_t *ret_number);
/* The same in a call of the program's that is an operation of the stream: beside captures of other streams, too. */
int reclaim_record_beside(struct pool *pool, uint32_t index, uint64_t *ret_number);

/* Makes sure that a fence covers all that was freed on this stream. 0, or why none does; `beside` as above. */
int reclaim_cover(struct pool *pool, uint32_t index, bool beside);

/* Has a stream passed a point? It is recorded if need be. 0 = yes, -EAGAIN or -EBUSY = not known to have, -ENOENT = it cannot be recorded. */
int reclaim_ask_point(struct pool *pool, uint32_t index, uint64_t point);

/* Closes the epochs of all devices, where there is something in them. */
void reclaim_close(struct pool *pool);

/* The blocks of a stream that cannot be recorded any more go to the open chain, in all heaps. */
void reclaim_lose_stream(struct pool *pool, uint32_t index) POOL_LOCKED;

/*
 * Puts marked holders (chained through holder.next) under grace, in the hold of the lock that marked them: a context that
 * ends later takes its own out of the list. `grace` is the caller's from meta_get. After it they wait for all that was given
 * to this stream, 0 = to all streams.
 */
void reclaim_begin_grace(
        struct pool *pool, struct grace *grace, uint32_t holders, uint64_t stream) POOL_LOCKED;

/* The first one that waits for readers, NULL = there is none. */
struct grace *reclaim_grace(struct pool *pool) POOL_LOCKED;

/* Then, [driver]: the submissions that are under way now are those that the grace waits for. It cannot end before this call. */
void reclaim_ask_readers(struct pool *pool, struct grace *grace);

/* A block is not held up by calls any more; it waits for the submissions of the snapshot `readers` too, 0 = for none but its own. */
void reclaim_call_made(struct pool *pool, uint64_t readers) POOL_LOCKED;

/* Asks the fences of a few streams that are gone, each in turn: nobody else may ever need what they have freed, and until it is known to
 * be over their records stay. For the end of a stream, so that there are as many as the device is behind (R107). */
void reclaim_gone_streams(struct pool *pool);

/* What a stream that is gone has freed waits for its last fence from here on as what is freed without a stream does, if there are many such
 * streams: no request looks at each of them (R107). */
void reclaim_lump(struct pool *pool, uint32_t index);

/* Heaps whose owner is gone: gives back those that nothing holds any more. */
void reclaim_leaving(struct pool *pool);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * swap.h - copying the content of blocks between the device and the host, as swapset.h has decided.
 *
 *     out: the streams that used it ─fences─► copied to the host ─fence─► unmapped: the handle goes
 *          to the shelf of its heap
 *     in:  a handle, from the shelf or new ─► mapped ─► copied from the host ─fence─► the stream of
 *          the call waits for it
 *
 * The moves of a set finish one after the other, in the order of decision, so that there is space
 * for each, and by one thread at a time. Copies to the host begin as soon as they are decided. The
 * handles of a set, those on the shelf included, do not exceed its cap, unless freed blocks wait
 * for the device beyond any timeout. A set whose blocks come through both allocation APIs has two
 * heaps, each with a shelf of its own: the other heap's shelf does not count.
 *
 * Managed memory (backing: managed) is not mapped, and uses no host buffer:
 *
 *     out: the streams that used it ─fences─► its pages are prefetched to the host ─fence─┐
 *     in:  its pages are prefetched to the device ◄──────────────────────────────────────┘
 *          ─fence─► the stream of the call waits
 *
 * If a move fails, decided but unfinished moves are taken back, and calls decide anew: a block that
 * the driver does not move stays in, and where the device has less memory than the cap allows, the
 * cap falls to that until the next step.
 *
 * Threads: any, with no lock held; makes driver calls. Rules: R36 R66 R73 R81 R84 R89.
 */
#ifndef KEDGE_ALLOC_SWAP_H
#define KEDGE_ALLOC_SWAP_H

#include "alloc/heap/swapset.h"

/* Continues the queue of a set. `wait`: may wait for the device and for other threads, a while.
 * 0: a move was done, or given up; -ENOENT: none; -EAGAIN: not now; -ETIMEDOUT: the device has
 * not reached the fence within one timeout; > 0: the driver's code for a block that could not
 * come in. */
int swap_advance(struct pool *pool, struct swap_set *set, bool wait);

/* Evicts blocks of sets of the device, except this one, until `want` bytes of storage are on
 * shelves; returns the bytes. */
uint64_t swap_make_room(struct pool *pool, int device, uint64_t want, const struct swap_set *but);

/* True if no evictable block was ever made. */
static inline bool swap_is_idle(const struct pool *pool)
{
    return atomic_load_explicit(&pool->gate.evicts, memory_order_relaxed) == 0;
}

/* How long a call waits for other threads and for captures to end, in ns. */
uint64_t swap_patience(const struct pool *pool);

/* Waits until all fences of the copy have passed, at most for one fence timeout. Results as
 * swap_advance. */
int swap_wait_copy(struct pool *pool, struct swap_set *set, struct swap_copy *copy);

/* A pause of a thread that waits for another one, or for a capture to end; counted as stall. */
void swap_pause(struct pool *pool, struct swap_set *set);

/* A block of this size was made: allocates host memory for blocks that will have to go out. */
void swap_reserve_host(struct pool *pool, struct swap_set *set, uint64_t size);

/* Destroys fences that no thread waits for any more. */
void swap_flush(struct pool *pool);

/* Adds time to a figure of the step. */
enum swap_time {
    SWAP_LAYOUT,
    SWAP_EVICT,
    SWAP_STALL,
};
void swap_spend(struct pool *pool, struct swap_set *set, enum swap_time what, uint64_t ns);

/* Frees the host memory of all sets: the pool is being freed, no other thread is inside. */
void swap_give_host(struct pool *pool);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * swapcall.h - a call that names evicted blocks: they come in before it, and stay in until the
 * driver has the call.
 *
 *     swapcall_name* ─► swapcall_decide ─► swapcall_ready? ─yes─► swapcall_use ─► (the call)
 *                             ▲                 │                               ─► swapcall_end
 *                             └── -ESTALE ──────┴─ no: the caller moves (swap.h), or waits
 *
 * Does not call the driver.
 * Threads: the caller holds the pool lock. Memory: meta.h. The call's blocks may be freed at any
 * time: such a block is skipped.
 */
#ifndef KEDGE_ALLOC_SWAPCALL_H
#define KEDGE_ALLOC_SWAPCALL_H

#include "alloc/heap/records.h"

struct swap;

/* Adds the blocks of [lo, lo + len) to those that the call names. 0 or -ENOMEM. */
int swapcall_name(struct pool *pool, devptr_t lo, uint64_t len, bool is_written,
        struct pool_call *io_call) POOL_LOCKED;

/* Decides that the named blocks come in, and stay in until swapcall_end: queues the moves. 0;
 * -ENOSPC and *ret_short: they do not fit, and none is held for the call; -ENOMEM: likewise. */
int swapcall_decide(
        struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short) POOL_LOCKED;

/* Are all of them in? -EAGAIN: moves are pending; -ESTALE: decide again. */
int swapcall_ready(const struct pool *pool, const struct pool_call *call) POOL_LOCKED;

/* The call has to wait for a block: counted once for each call. */
void swapcall_late(struct pool *pool, struct pool_call *io_call) POOL_LOCKED;

/* Has this stream used the block since it came in? Then it has waited for the copy. */
bool swapcall_has_stream(const struct swap *swap, uint64_t stream);

/* The call is about to be made: its stream uses the blocks, and may write them. */
void swapcall_use(struct pool *pool, const struct pool_call *call) POOL_LOCKED;
void swapcall_end(struct pool *pool, struct pool_call *io_call) POOL_LOCKED;

#endif

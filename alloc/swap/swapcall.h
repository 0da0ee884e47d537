/* SPDX-License-Identifier: MIT */
/*
 * swapcall.h - a call that names blocks which may be out: they come in before it, and stay in until the driver has it.
 *
 *     swapcall_name*  ─►  swapcall_decide  ─►  swapcall_ready?  ──yes──►  swapcall_use  ─►  (the call)  ─►  swapcall_end
 *                               ▲                  │ no: the caller moves (swap.h), or waits
 *                               └── -ESTALE ───────┘
 *
 * Does not call the driver. Threads: the caller holds the pool lock. Memory: meta.h. The call's blocks may be freed at any time:
 * such a block is skipped.
 */
#ifndef KEDGE_ALLOC_SWAPCALL_H
#define KEDGE_ALLOC_SWAPCALL_H

#include "alloc/heap/records.h"

struct swap;

/* Adds the blocks of [lo, lo + len) to what the call names. 0 or -ENOMEM. */
int swapcall_name(struct pool *pool, devptr_t lo, uint64_t len, bool is_written,
        struct pool_call *io_call) POOL_LOCKED;

/*
 * What the call names comes in, and stays in until swapcall_end: moves are queued. 0; -ENOSPC and *ret_short: it does not fit, and
 * nothing stays in for the call; -ENOMEM: as if.
 */
int swapcall_decide(
        struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short) POOL_LOCKED;

/* Is all of it in? -EAGAIN: moves are to be done; -ESTALE: it has to be decided again. */
int swapcall_ready(const struct pool *pool, const struct pool_call *call) POOL_LOCKED;

/* Something of it has to be waited for: told once for each call. */
void swapcall_late(struct pool *pool, struct pool_call *io_call) POOL_LOCKED;

/* Has this stream used the block since it came in? Then it has waited for its copy. */
bool swapcall_has_stream(const struct swap *swap, uint64_t stream);

/* The call is about to be made: its stream uses them, they may be written. */
void swapcall_use(struct pool *pool, const struct pool_call *call) POOL_LOCKED;
void swapcall_end(struct pool *pool, struct pool_call *io_call) POOL_LOCKED;

#endif

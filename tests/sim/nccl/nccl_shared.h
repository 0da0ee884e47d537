/* SPDX-License-Identifier: MIT */
/*
 * nccl_shared.h - the memory that the ranks of a simulated communicator share.
 *
 * One region of shared memory for each communicator, found by its id: a channel for each ordered pair of ranks.
 *
 *     channel   posted   how many receives the receiver's stream has come to
 *               full     how many messages the sender's stream has put into the data
 *               taken    how many of them the receiver's stream has taken out
 *               data     one message, packed (kedge_pack in kernels.def)
 *
 * The streams of both sides wait for these numbers and write them; nobody else does. The region has no name any more once
 * all ranks are there, so nothing is left of it whichever way they end.
 *
 * Threads: any; one call per region at a time.
 */
#ifndef KEDGE_TESTS_SIM_NCCL_SHARED_H
#define KEDGE_TESTS_SIM_NCCL_SHARED_H

#include <stddef.h>
#include <stdint.h>

/* A message of 1 GiB, packed: the sampled pages alone. */
#define NCCL_PACKED_MOST ((((size_t)1 << 30) / ((size_t)2 << 20) + 1) * 4096)
#define NCCL_RANKS_MOST  16

struct nccl_channel {
    _Alignas(64) uint64_t posted;
    _Alignas(64) uint64_t full;
    _Alignas(64) uint64_t taken;
    _Alignas(4096) unsigned char data[NCCL_PACKED_MOST];
};

struct nccl_shared {
    uint32_t joined;   /* atomic */
    uint32_t complete; /* atomic; all have joined, and the name is gone */
    _Alignas(4096) struct nccl_channel channels[]; /* from * ranks + to */
};

size_t nccl_shared_bytes(int ranks);

/*
 * The region of `name` ("/..."), when all ranks have come for it. NULL with errno: ETIMEDOUT when they have not within two
 * minutes.
 */
struct nccl_shared *nccl_shared_join(const char *name, int ranks);
/* All that the streams of `rank` wait for, now and later, has come. */
void nccl_shared_release(struct nccl_shared *shared, int ranks, int rank);
void nccl_shared_leave(struct nccl_shared *shared, int ranks);

#endif

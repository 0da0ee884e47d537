/* SPDX-License-Identifier: MIT */
/*
 * spill.h - stream-ordered blocks that the driver's own pool served because ours could not.
 *
 * A pool's attributes are the heap's and the driver's together. So that its high marks are those of
 * the sum, the heap is told what the driver's pool has in use whenever that changes (R77, R78:
 * figures of pools). Costs nothing until the first such block.
 * Threads: any, inside life_enter. Locks: none. Driver calls: figures of a pool, trim.
 */
#ifndef KEDGE_PRELOAD_SPILL_H
#define KEDGE_PRELOAD_SPILL_H

#include "preload/base/cuda_abi.h"

#include <stdint.h>

/* Before a free that the driver is to make: the pool that the block is of, 0 = none of those. */
uint64_t spill_pool_of(CUdeviceptr ptr);

/* After the driver's pool behind `id` has served or freed a block; 0: nothing. */
void spill_served(uint64_t id);

/* On a full device: what the driver's pools have free behind heaps of ours goes back to it. The
 * bytes. Not beside a capture. */
uint64_t spill_trim(int device);

/* The driver's pools may have given memory back. */
void spill_look_again(void);

#endif

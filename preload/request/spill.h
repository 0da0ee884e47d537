/* SPDX-License-Identifier: MIT */
/*
 * spill.h - stream-ordered blocks that the driver's own pool served because ours could not. A
 * pool's attributes sum the heap and the driver's pool. So that its high marks are those of the
 * sum, the heap learns the driver's bytes in use whenever they change (R77, pools served; R78, pool
 * attributes). Costs nothing until the first such block.
 * Threads: any, inside life_enter. Locks: none. Driver calls: figures of a pool, trim.
 */
#ifndef KEDGE_PRELOAD_SPILL_H
#define KEDGE_PRELOAD_SPILL_H

#include "preload/base/cuda_abi.h"

#include <stdint.h>

/* Called before a free that the driver makes: returns the pool of the block, 0 = none of ours. */
uint64_t spill_pool_of(CUdeviceptr ptr);

/* Called after the driver's pool behind `id` has served or freed a block; 0: does nothing. */
void spill_served(uint64_t id);

/*
 * On a full device: trims the driver's pools behind our heaps; returns the bytes given back. Not
 * during a capture.
 */
uint64_t spill_trim(int device);

/* The driver's pools may have given memory back: reads their figures again. */
void spill_look_again(void);

#endif

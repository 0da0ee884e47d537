/* SPDX-License-Identifier: MIT */
/*
 * async.h - blocks that the driver's own pool served for us (hooks_async.c), for all calls that free.
 *
 * A pool's attributes are the heap's and the driver's together. So that its high marks are those of the sum, the heap is told
 * what the driver's pool has in use whenever that changes (R77, R78). Costs nothing until the first such block.
 */
#ifndef KEDGE_PRELOAD_ASYNC_H
#define KEDGE_PRELOAD_ASYNC_H

#include "preload/cuda_abi.h"

#include <stdint.h>

/* Before a free that the driver is to make: the pool that the block is of, 0 = none of those. And after it. */
uint64_t async_native_pool(CUdeviceptr ptr);
void async_native_freed(uint64_t id);

/* On a full device: what the driver's pools have free behind heaps of ours goes back to it. The bytes. Not beside a capture. */
uint64_t async_trim(int device);

/* The driver's pools may have given memory back. */
void async_look_again(void);

#endif

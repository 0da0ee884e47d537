/* SPDX-License-Identifier: MIT */
/*
 * sim_memory.h - cuMemAlloc and its kin, pinned host memory, and what is true of a pointer.
 *
 *     >= 2 MiB   addresses of its own, aligned and rounded to 2 MiB
 *     smaller    512 B units of a granule of 2 MiB, which the driver holds while one unit is used
 *
 * That is how drivers were seen to behave; the bytes that they hold, not those asked for, count
 * against the device. A free waits for the context's work first. Freed whole pages fault.
 *
 * Threads: under the lock; sim_memory_free lets it go.
 */
#ifndef KEDGE_TESTS_SIM_SIM_MEMORY_H
#define KEDGE_TESTS_SIM_SIM_MEMORY_H

#include "tests/sim/driver/sim_context.h"

/* Frees everything that cuMemAlloc gave out in the context. */
void sim_memory_end_context(struct CUctx_st *ctx);

/* Plain memory for a context (arrays and module globals use it too). */
int sim_memory_alloc(struct CUctx_st *ctx, uint64_t size, CUdeviceptr *ret_ptr);

/* Gives back a block that sim_memory_alloc made, without waiting for anything. */
void sim_memory_release(struct sim_block *block);

#endif

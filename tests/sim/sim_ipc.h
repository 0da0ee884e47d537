/* SPDX-License-Identifier: MIT */
/*
 * sim_ipc.h - legacy IPC: handles of cuMemAlloc memory for other processes.
 *
 * As on a device, the handle is the whole block's: an interior pointer exports the base, byte for
 * byte the same handle. The first export turns the block's private pages into shared ones.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_IPC_H
#define KEDGE_TESTS_SIM_SIM_IPC_H

#include "tests/sim/sim_ledger.h"

/* Closes an imported block. */
void sim_ipc_release(struct sim_block *block);

/* The pages at `addr` are freed: nobody else may come by their handle any more. */
void sim_ipc_forget(uint64_t addr);

#endif

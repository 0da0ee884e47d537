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

#include "tests/sim/stream/sim_ledger.h"

/* Closes an imported block. */
void sim_ipc_release(struct sim_block *block);

/* Pages of another process (or of this one), by its descriptor. 0 and *ret_addr, or the code. */
int sim_ipc_map(int pid, int fd, uint64_t bytes, uint64_t *ret_addr);

/* A descriptor of the pages [base, base + bytes) of plain memory, which become a file's; or -1. */
int sim_ipc_file_of(uint64_t base, uint64_t bytes);

/*
 * What an event of several processes has in common: how often it was recorded, and up to which
 * record everything is done. Never unmapped.
 */
struct sim_ipc_event {
    _Atomic uint64_t recorded, done;
};

/* The pages at `addr` are freed: nobody else may come by their handle any more. */
void sim_ipc_forget(uint64_t addr);

#endif

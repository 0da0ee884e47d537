/* SPDX-License-Identifier: MIT */
/*
 * sim_pages.h - which device has each 2 MiB of managed memory.
 *
 * New memory is nowhere. What an operation touches comes to its device when the operation runs, a prefetch moves it when the prefetch
 * runs; both take bytes of the device (sim_device.h). A use of what is elsewhere is a page fault, and goes well. Where a device is full,
 * pages go to the host for what needs room, the one that was used longest ago first, but for those of the operation that runs; if
 * nothing can go, the pages that were to come stay where they are, and are used from there.
 *
 * The bytes themselves are the host's memory and stay where they are, so nothing is ever lost.
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_PAGES_H
#define KEDGE_TESTS_SIM_SIM_PAGES_H

#include "tests/sim/stream/sim_queue.h"

/* A managed block is new, or about to go. */
void sim_pages_add(struct sim_block *block);
void sim_pages_drop(struct sim_block *block);

/* The operation runs now. */
void sim_pages_use(const struct sim_op *op);

/* A prefetch of managed memory runs; device -1: to the host. */
void sim_pages_move(int device, uint64_t addr, uint64_t size);

/* Pages leave the device until so many bytes of it have become free, or none is left that may. */
void sim_pages_make_room(int device, uint64_t bytes);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_standing.h - how much memory stands at an address that a kernel was given.
 *
 * Blocks that touch each other count as one. What is freed on a stream stands until the stream has come there.
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_STANDING_H
#define KEDGE_TESTS_SIM_SIM_STANDING_H

#include <stdbool.h>
#include <stdint.h>

uint64_t sim_standing_room(uint64_t addr, uint64_t most);
uint64_t sim_standing_at(uint64_t addr, uint64_t most, bool is_running);

/* How many of `size` bytes stand and may be used by a kernel of the device; 0: none. */
uint64_t sim_standing_may(int device, uint64_t addr, uint64_t size, bool write);

#endif

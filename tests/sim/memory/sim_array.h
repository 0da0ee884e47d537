/* SPDX-License-Identifier: MIT */
/*
 * sim_array.h - arrays: bytes behind a handle, in rows. No formats beyond their size, no mipmaps.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_ARRAY_H
#define KEDGE_TESTS_SIM_SIM_ARRAY_H

#include "tests/sim/stream/sim_stream.h"

/* Where the array's bytes begin, how far rows are apart and how many a slice has. */
int sim_array_place(CUarray array, uint64_t *ret_base, uint64_t *ret_pitch, uint64_t *ret_height);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_poolset.h - pools as objects: the default, the current and created ones, and their attributes.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_POOLSET_H
#define KEDGE_TESTS_SIM_SIM_POOLSET_H

#include "tests/sim/base/sim_core.h"

/* The pool that cuMemAllocAsync takes from: the default one until the program sets another. */
CUmemoryPool sim_poolset_current(int device);

#endif

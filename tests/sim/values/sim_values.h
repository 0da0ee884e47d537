/* SPDX-License-Identifier: MIT */
/*
 * sim_values.h - kernels whose result is computed (README.md).
 *
 *     sim_values_find ─► a body, or NULL        once for each kernel
 *     sim_values_run  ─► true: the result is written, false: nothing was
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_VALUES_H
#define KEDGE_TESTS_SIM_SIM_VALUES_H

#include "tests/sim/kernel/sim_kernels.h"

struct sim_values;

/* Never freed. NULL: the kernel's result is not computed. */
const struct sim_values *sim_values_find(const struct sim_kernel *kernel);

bool sim_values_run(const struct sim_values *values, const struct sim_kernel *kernel, int device,
        struct sim_grid grid, const uint64_t *params);

/* A matrix product of a stand-in. False: nothing was written. */
struct value_product;
bool sim_values_product(int device, const struct value_product *product);

#endif

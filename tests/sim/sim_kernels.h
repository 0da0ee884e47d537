/* SPDX-License-Identifier: MIT */
/*
 * sim_kernels.h - the table of kernels.def: parameters, ranges and host bodies.
 *
 * Threads: constant tables and pure functions; bodies run under the lock, on memory that
 * sim_queue.c has found accessible.
 */
#ifndef KEDGE_TESTS_SIM_SIM_KERNELS_H
#define KEDGE_TESTS_SIM_SIM_KERNELS_H

#include "tests/sim/sim_queue.h"

#define SIM_KERNEL_PARAMS 8

struct sim_kernel {
    const char *name;
    unsigned params_count;
    size_t param_size[SIM_KERNEL_PARAMS];
    size_t param_offset[SIM_KERNEL_PARAMS];
    size_t params_size;
    void (*declare)(struct sim_op *op, int device, const uint64_t *params);
    void (*body)(const uint64_t *params);
    void (*note)(struct sim_op *op); /* of what it wrote */
};

/* The kernel of that name (not NUL-terminated), or NULL. */
const struct sim_kernel *sim_kernels_find(const char *name, size_t length);

/*
 * The kernel of that name (not NUL-terminated) that is not in the table, made when it is first asked for and never
 * freed; NULL where SIMCUDA_KERNELS=listed. It has no parameters and does nothing.
 */
const struct sim_kernel *sim_kernels_other(const char *name, size_t length);

/* The kernels one by one, NULL behind the last. */
const struct sim_kernel *sim_kernels_at(unsigned index);

#endif

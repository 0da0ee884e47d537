/* SPDX-License-Identifier: MIT */
/*
 * sim_kernels.h - kernels: the table of kernels.def with parameters, ranges and host bodies, and all others.
 *
 * Threads: constant tables and pure functions; bodies run under the lock, on memory that
 * sim_queue.c has found accessible.
 */
#ifndef KEDGE_TESTS_SIM_SIM_KERNELS_H
#define KEDGE_TESTS_SIM_SIM_KERNELS_H

#include "tests/sim/stream/sim_queue.h"

struct sim_param {
    uint32_t offset, size; /* in the device's layout */
    bool is_pointer;       /* the binary says that it is one; false: it says nothing */
};

/* Blocks of a launch, as far as they say what it touches. */
struct sim_grid {
    uint32_t x, y;
};

struct sim_kernel {
    const char *name;
    const struct sim_param *params;
    unsigned params_count;
    size_t params_size;
    bool has_layout; /* false: it has parameters, nobody knows which */
    /* `params` are the parameters' bytes in the device's layout */
    void (*declare)(const struct sim_kernel *kernel, struct sim_op *op, int device,
            struct sim_grid grid, const uint64_t *params);
    void (*body)(const struct sim_kernel *kernel, int device, struct sim_grid grid,
            const uint64_t *params);
    void (*note)(struct sim_op *op); /* of what it wrote */
};

/* The kernel of that name (not NUL-terminated), or NULL. */
const struct sim_kernel *sim_kernels_find(const char *name, size_t length);

/*
 * A kernel that is not in the table (sim_other.c), made when it is first asked for and never freed. Without has_layout
 * its parameters are not known.
 */
const struct sim_kernel *sim_other_kernel(
        const char *name, const struct sim_param *params, unsigned count, bool has_layout);

#endif

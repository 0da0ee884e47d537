/* SPDX-License-Identifier: MIT */
/*
 * sim_module.h - modules and libraries of PTX text, and their functions.
 *
 * A module is PTX text. Its .entry names that kernels.def knows can be looked up and launched;
 * all other names are CUDA_ERROR_NOT_FOUND. nvcc's wrapper around a fat binary is taken on trust:
 * it is not looked into, and every kernel of kernels.def can be looked up in it. Cubins and bare
 * fat binaries are refused with CUDA_ERROR_NO_BINARY_FOR_GPU: nothing here could run them.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_MODULE_H
#define KEDGE_TESTS_SIM_SIM_MODULE_H

#include "tests/sim/stream/sim_stream.h"

struct sim_kernel;

/* What a function is given before a launch in the manner of CUDA 3. */
struct sim_module_launch {
    unsigned block[3];
    unsigned shared;
    unsigned size; /* of the parameters */
    unsigned char params[256];
};

void sim_module_end_context(struct CUctx_st *ctx);

/* What a CUfunction or a CUkernel stands for, NULL for anything else. */
const struct sim_kernel *sim_module_kernel(const void *handle);

/* The CUfunction's own, NULL for anything else. */
struct sim_module_launch *sim_module_launch(CUfunction function);

#endif

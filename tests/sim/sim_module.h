/* SPDX-License-Identifier: MIT */
/*
 * sim_module.h - modules and libraries of PTX text, their functions, and launches.
 *
 * A module is PTX text. Its .entry names that kernels.def knows can be looked up and launched;
 * all other names are CUDA_ERROR_NOT_FOUND. nvcc's wrapper around a fat binary is taken on trust:
 * it is not looked into, and every kernel of kernels.def can be looked up in it. Cubins and bare
 * fat binaries are refused with CUDA_ERROR_NO_BINARY_FOR_GPU: nothing here could run them.
 *
 * A launch takes a CUfunction or a CUkernel, parameters one by one or as one buffer.
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_MODULE_H
#define KEDGE_TESTS_SIM_SIM_MODULE_H

#include "tests/sim/sim_stream.h"

void sim_module_end_context(struct CUctx_st *ctx);

/* A launch as an operation that is not on a stream yet. */
int sim_module_make_launch(
        struct CUctx_st *ctx, const CUDA_KERNEL_NODE_PARAMS *params, struct sim_op **ret_op);
bool sim_module_is_launch(const struct sim_op *op);

#endif

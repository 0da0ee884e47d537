/* SPDX-License-Identifier: MIT */
/*
 * sim_launch.h - launches: a kernel of kernels.def with its parameters becomes an operation.
 *
 * A launch takes a CUfunction or a CUkernel, parameters one by one or as one buffer; they are read
 * at once. The shape is checked and has no other meaning: a kernel runs once.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_LAUNCH_H
#define KEDGE_TESTS_SIM_SIM_LAUNCH_H

#include "tests/sim/stream/sim_stream.h"

/* A launch as an operation that is not on a stream yet. */
int sim_launch_make(
        struct CUctx_st *ctx, const CUDA_KERNEL_NODE_PARAMS *params, struct sim_op **ret_op);
bool sim_launch_is(const struct sim_op *op);

/*
 * What it was made of. *ret_pointers is new memory, for free: the array that kernelParams points
 * to. Its values lie in the operation.
 */
void sim_launch_params(struct sim_op *op, CUDA_KERNEL_NODE_PARAMS *ret_params, void **ret_pointers);

#endif
